"""Metrics: pure functions of arrays, one value per query. `statistics` turns values into scores."""
