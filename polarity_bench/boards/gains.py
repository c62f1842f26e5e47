"""Gains of encoders: their P and S minus those of their reference encoder, on each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polarity_bench.boards.records import Row
from polarity_bench.render.table import Column
from polarity_bench.scores import Score, ScoreKey

if TYPE_CHECKING:
    from polarity_bench.boards.columns import Sections

GAINED = {"P": "polarity", "S": "similarity"}
"""Scores whose gains are shown, by title."""


def gain_rows(sections: Sections) -> list[Row]:
    """Return the rows of encoders whose reference has a row of its own, sorted by reference."""
    bases = {(row["encoder"], row["k"]) for row in sections.rows if not row["reference"]}
    rows = [row for row in sections.rows if (row["reference"], row["k"]) in bases]
    return sorted(rows, key=lambda row: (sections.names[row["reference"]], row["name"], row["k"]))


def gain_column(sections: Sections, rows: Sequence[Row], task: str, title: str) -> Column:
    """Return a column with the gain of each row on a task, with 95 % intervals."""
    gains = [gain(sections, row, task, title) for row in rows]
    return replace(Column.of(task, gains, intervals=True), unit="points")


def gain(sections: Sections, row: Row, task: str, title: str) -> Score | None:
    """Return the score of a row minus that of its reference; None if one has no result."""
    key = ScoreKey(GAINED[title], row["k"], sections.config.weighting)
    base = next(
        each
        for each in sections.rows
        if (each["encoder"], each["reference"], each["k"]) == (row["reference"], "", row["k"])
    )
    before, after = (sections.results.get((each["row"], task)) for each in (base, row))
    if before is None or after is None:
        return None
    change = after.scores[key].mean - before.scores[key].mean
    interval = sections.standings.gain(before, after, key)
    return Score(change, math.nan, interval, after.scores[key].n)
