"""Metrics: pure functions that return one value per query. `statistics` turns these into scores."""
