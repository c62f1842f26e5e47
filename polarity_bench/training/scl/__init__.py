"""Supervised contrast on pairs of natural language inference: what the recipe `scl` is made of."""
