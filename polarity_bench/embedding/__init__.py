"""Embedding: every distinct text once, from the store where it is there (`embedder`, `store`)."""
