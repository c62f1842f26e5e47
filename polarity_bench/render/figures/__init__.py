"""Figures of boards: planes, lines, bars and ranks, in light and dark, as SVG and PNG."""

from __future__ import annotations

from polarity_bench.render.figures.files import drawn_together, figure_files, figure_svg

__all__ = ["drawn_together", "figure_files", "figure_svg"]
