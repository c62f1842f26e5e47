"""Polarity retrieval."""
