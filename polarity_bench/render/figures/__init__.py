"""Figures of boards: one Vega-Lite specification per chart, for a page, an SVG and a PNG.

Importing a module of this package that draws needs altair, and a file also needs vl-convert; both
come with the extra `report`.
"""
