"""Stored scores: results, curves and published numbers."""
