"""Boards and their tables, with unrounded values, as input of all renderers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from polarity_bench.render.chart import Chart, Plane
from polarity_bench.scores import Score

Unit = Literal["percent", "points", "probability", "seconds", "count"]
"""Unit of the numbers in a column.

Percent: fractions, shown times 100. Points: differences of fractions, shown times 100 with their
sign. Probability: p-values. Seconds and counts are shown without conversion.
"""

Heads = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each leading column, as plain text."""


@dataclass(frozen=True)
class Column:
    """Column of numbers in a table.

    Attributes:
        title: Title of the column.
        values: Number in each row, in the column's unit; None or NaN if missing.
        intervals: 95 % interval of each value, None if missing; () if there are no intervals.
        rivals: Group of each value. Values compete for the best value within their group. None
            excludes a value; () excludes all.
        spreads: Standard deviation of each value, None or NaN if missing; () if there are none.
        marks: Text after each number; () if there is none.
        unit: Unit of the values.
        digits: Number of decimals; None for `format.DIGITS`.
        n_best: Number of values to mark as best in each group; values that tie after rounding are
            marked too.
        spread_as: Format of the spreads: after a ± sign, or as a subscript.
        lower_is_better: Whether the lowest values are the best.
        stored: The values before they are shown (see `Metric.shown`); () if they are equal.
    """

    title: str
    values: Sequence[float | None]
    intervals: Sequence[tuple[float, float] | None] = ()
    rivals: Sequence[str | None] = ()
    spreads: Sequence[float | None] = ()
    marks: Sequence[str] = ()
    unit: Unit = "percent"
    digits: int | None = None
    n_best: int = 1
    spread_as: Literal["±", "sub"] = "±"
    lower_is_better: bool = False
    stored: Sequence[float | None] = ()

    @classmethod
    def of(
        cls,
        title: str,
        scores: Sequence[Score | None],
        *,
        intervals: bool = False,
        **options: Any,
    ) -> Column:
        """Return a column of scores.

        Args:
            title: Title of the column.
            scores: Score in each row; None if missing.
            intervals: Whether to show the 95 % intervals of the scores.
            options: Other attributes of the column.
        """
        means = [score.mean if score else None for score in scores]
        ends = [s.ci95 if s and not math.isnan(s.ci95[0]) else None for s in scores]
        return cls(title, means, ends if intervals else (), **options)


_UPPER = 2

Role = Literal[
    "encoder", "method", "curve", "oracle", "random", "chance", "base", "other", "published"
]
SET_APART: frozenset[Role] = frozenset({"base", "other", "published"})
"""Roles of rows in italics, which do not compete for the best value."""


@dataclass(frozen=True)
class Table:
    """Table of leading text columns, followed by columns of numbers.

    Attributes:
        heading: Heading above the table; '' for none.
        heads: Title and cells of each leading column, as plain text.
        columns: Columns of numbers.
        roles: Role of each row; () if all rows are encoders. Rows of bases, other recipes and
            published results are in italics.
        details: Key of each row in the board's details; '' for a row without details.
        lead: Markdown above the table.
        notes: Markdown paragraphs below the table.
        level: Level of the heading, 2 or 3.
        is_folded: Whether only HTML pages and `table.csv` contain the table. The page shows the
            table folded.
    """

    heading: str
    heads: Heads
    columns: Sequence[Column]
    roles: Sequence[Role] = ()
    details: Sequence[str] = ()
    lead: str = ""
    notes: Sequence[str] = ()
    level: int = 2
    is_folded: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return len(self.heads[0][1])

    def role(self, row: int) -> Role:
        """Return the role of a row; "encoder" if the table has no roles."""
        return self.roles[row] if self.roles else "encoder"

    def detail(self, row: int) -> str:
        """Return the key of a row in the board's details; '' if the table has no details."""
        return self.details[row] if self.details else ""


@dataclass(frozen=True)
class Detail:
    """Origin of a table row.

    Attributes:
        facts: Facts about the row by name (encoder, digest, date and so on), as plain text.
        command: Shell command that reproduces the row; '' if there is none.
        files: Paths of the result files, relative to the board's folder.
        source: Citation of a published result; '' for measured results.
    """

    facts: Mapping[str, str]
    command: str = ""
    files: Sequence[str] = ()
    source: str = ""


@dataclass(frozen=True)
class Board:
    """Comparison of encoders: a summary table, followed by tables for each task type or task.

    Attributes:
        title: Title of the board.
        introduction: Introduction by the board's author, in markdown.
        tables: Tables of the board; the first is the summary.
        notes: Instructions for reading the board, in markdown.
        charts: Charts of the board.
        details: Origins of table rows, by the keys in `Table.details`.
        finding: Main result of the board, a sentence of markdown; '' for none.
        origin: Description of how the results were computed, in markdown; '' for none.
    """

    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str]
    charts: Sequence[Chart] = ()
    details: Mapping[str, Detail] = field(default_factory=dict)
    finding: str = ""
    origin: str = ""

    @property
    def named_tables(self) -> list[tuple[str, Table]]:
        """Tables with unique names.

        A name is the table's heading, after the heading one level above if there is one. A table
        without a heading continues the name of the table before with a number: `Losses (2)`.
        """
        names = []
        upper = name = ""
        for table in self.tables:
            if table.heading:
                upper = table.heading if table.level == _UPPER else upper
                name = table.heading if table.level == _UPPER else f"{upper} / {table.heading}"
            names.append(name)
        return list(zip(unique(names, "{} ({})"), self.tables, strict=True))

    @property
    def planes(self) -> list[Plane]:
        """Charts of P against S on the board."""
        return [chart for chart in self.charts if isinstance(chart, Plane)]


def unique(
    names: Iterable[str], pattern: str = "{}-{}", endings: Iterable[str] = ("",)
) -> list[str]:
    """Make names unique by adding the first free number, from 2, to each repeated name.

    Args:
        names: Names with possible duplicates.
        pattern: Template of a name and its number.
        endings: Endings that will be added to each name; the extended names are unique too.

    Example:
        >>> unique(["a", "a", "a-2"])
        ['a', 'a-2', 'a-2-2']
    """
    chosen: list[str] = []
    for name in names:
        taken = {known + ending for known in chosen for ending in endings}
        candidates = chain([name], (pattern.format(name, n) for n in count(2)))
        chosen.append(next(c for c in candidates if taken.isdisjoint(c + e for e in endings)))
    return chosen
