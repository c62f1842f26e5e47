"""Stored scores: results of evaluations, curves and published numbers."""
