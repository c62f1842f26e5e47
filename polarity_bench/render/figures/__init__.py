"""Figures of boards: one Vega-Lite specification per chart, for HTML pages, SVG and PNG files.

The modules `figure`, `plane` and `series` need altair, and writing files also needs vl-convert. The
extra `report` installs both packages.
"""
