"""Polarity retrieval: task file, task, scores and oracle."""
