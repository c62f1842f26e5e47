"""Rendering of tables, charts and pages. Renderers do not depend on what the values mean."""
