"""Paired comparisons of encoders, from their stored values per query."""
