"""Metrics: pure functions of arrays, most of which return one value per query."""
