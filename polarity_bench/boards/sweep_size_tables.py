"""Tables of a sweep by number of examples, over all configurations.

Jørgensen and Breitung (2025), Margins in Contrastive Learning, table 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polarity_bench.boards.sweep_cells import (
    FIRST,
    SweepCell,
    at_k,
    bases_of,
    counted,
    grouped,
    in_words,
    means_of,
    size_of,
)
from polarity_bench.boards.sweep_scores import SweepScores
from polarity_bench.render.table import Column, Role, Table
from polarity_bench.sweeps.published_sizes import ReportedSize, sizes_of
from polarity_bench.sweeps.records import METRICS, Record


@dataclass(frozen=True)
class _SizeRow:
    """A row: its name, and the training runs or the published numbers that it summarises."""

    name: str
    role: Role
    records: Sequence[Record] = ()
    reported: Mapping[str, ReportedSize] | None = None

    def cells(self, metric: str) -> tuple[SweepCell, float, float]:
        """Return the mean with its spread, the minimum and the maximum; NaN if missing."""
        if self.reported is None:
            means = means_of(self.records, metric)
            least, most = (end(means, default=math.nan) for end in (min, max))
            return SweepCell.over(means), least, most
        if (one := self.reported.get(metric)) is None:
            return SweepCell(), math.nan, math.nan
        return SweepCell(one.value, one.std), one.least, one.most

    @property
    def n(self) -> float:
        """The number of training runs with a score; NaN for published numbers."""
        return float(len(means_of(self.records, FIRST))) if self.reported is None else math.nan


def size_table(scores: SweepScores, heading: str, records: Sequence[Record]) -> Table:
    """Lay out the bases, then all configurations by their number of examples."""
    bases = bases_of(records, scores)
    by_size = grouped(records, ["examples"])
    rows = [_SizeRow("reference", "base", bases)]
    notes: dict[int, str] = {}
    for n in sorted(by_size, key=size_of):
        rows.append(_SizeRow(in_words(*n), "encoder", by_size[n]))
        for (name, number), alike in sizes_of(scores.reported_sizes, by_size[n]).items():
            notes[number] = next(iter(alike.values())).footnote
            said = f"{name}, as published [{number}]"
            rows.append(_SizeRow(said, "published", reported=alike))
    columns = []
    for metric, (_, short) in METRICS.items():
        cells, least, most = zip(*(row.cells(metric) for row in rows), strict=True)
        means, spreads = [cell.mean for cell in cells], [cell.std for cell in cells]
        columns += [
            Column(f"{short} mean", means, spreads=spreads, digits=1, spread_as="sub"),
            Column(f"{short} min", list(least), digits=1),
            Column(f"{short} max", list(most), digits=1),
        ]
    columns.append(Column("n", [row.n for row in rows], unit="count"))
    lead = (
        f"P and S of n trainings, over losses, encoders and seeds: {at_k([*bases, *records])}"
        f"ranks weighted {scores.weighting}ly; std with n - 1. {counted(records)}"
    )
    heads = [("N", [row.name for row in rows])]
    said_notes = [notes[number] for number in sorted(notes)]
    return Table(heading, heads, columns, [row.role for row in rows], lead=lead, notes=said_notes)
