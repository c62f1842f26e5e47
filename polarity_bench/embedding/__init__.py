"""Embedding of texts: each distinct text is encoded once, or read from the store if stored."""
