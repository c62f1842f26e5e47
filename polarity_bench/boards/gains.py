"""Gains of encoders: their P and S minus those of their reference encoder, on each task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from polarity_bench.boards.records import Row
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.render.table import Column
from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey

GAINED = {"P": "polarity", "S": "similarity"}
"""Scores whose gains are shown, by title."""


@dataclass(frozen=True)
class Gains:
    """Gains of the encoders of a board.

    Attributes:
        encoders: The rows of encoders.
        results: Results by the row of an encoder and the task.
        names: Names of encoders, by digest.
        weighting: Weighting of the ranks.
        standings: Intervals of gains, computed or stored.
    """

    encoders: Sequence[Row]
    results: Mapping[tuple[str, str], Result]
    names: Mapping[str, str]
    weighting: str
    standings: Standings

    @cached_property
    def _bases(self) -> dict[tuple[str, int], str]:
        """Keys of the rows of encoders that are their own reference, by encoder and k."""
        return {(r["encoder"], r["k"]): r["row"] for r in self.encoders if not r["reference"]}

    @cached_property
    def rows(self) -> list[Row]:
        """The rows whose reference is another encoder with a row, sorted by reference."""
        rows = [row for row in self.encoders if (row["reference"], row["k"]) in self._bases]
        return sorted(rows, key=lambda row: (self.names[row["reference"]], row["name"], row["k"]))

    def column(self, task: str, title: str) -> Column:
        """Return a column with the gain of each row on a task, with 95 % intervals."""
        gains = [self.of(row, task, title) for row in self.rows]
        return replace(Column.of(task, gains, intervals=True), unit="points")

    def of(self, row: Row, task: str, title: str) -> Score | None:
        """Return the score of a row minus that of its reference; None if one has no result."""
        key = ScoreKey(GAINED[title], row["k"], self.weighting)
        base = self._bases[row["reference"], row["k"]]
        before, after = (self.results.get((each, task)) for each in (base, row["row"]))
        if before is None or after is None:
            return None
        change = after.scores[key].mean - before.scores[key].mean
        interval = self.standings.gain(before, after, key)
        return Score(change, math.nan, interval, after.scores[key].n)
