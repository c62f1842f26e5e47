"""Paired comparisons of encoders: numbers in, numbers out."""
