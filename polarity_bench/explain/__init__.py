"""Comparison of two encoders query by query, as data and as an HTML page."""
