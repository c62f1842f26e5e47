"""Protocols: a task's data and an encoder's embeddings in, scores out."""
