"""Rendering of tables, charts and pages from values, independent of the meaning of the values."""
