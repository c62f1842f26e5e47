"""Boards, their tables and their charts, for any renderer. Values are not rounded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Literal

from polarity_bench.render.chart import Drawn, Plane
from polarity_bench.scores import Score

Unit = Literal["percent", "points", "probability", "seconds", "count"]
"""Unit of a column. Percent: fractions, shown times 100. Points: differences of fractions, shown
times 100 with their sign. Probability: p-values. Seconds and counts are shown as they are."""

Heads = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each leading column, as plain text."""


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        values: Number for each row, in the column's unit; None or nan if missing.
        intervals: 95 % interval of each value, None if missing; () shows no intervals.
        rivals: Group in which each value competes for the best: values with the same string
            compete. None excludes a value; () excludes all.
        spreads: Standard deviation of each value, None or nan if missing; () shows none.
        marks: Text after each number; () shows none.
        digits: Number of decimals.
        n_best: Number of rivals that are marked as best, plus any that tie with them as shown.
        spread_as: How spreads are shown: after a ± sign, or as a subscript.
    """

    title: str
    values: Sequence[float | None]
    intervals: Sequence[tuple[float, float] | None] = ()
    rivals: Sequence[str | None] = ()
    spreads: Sequence[float | None] = ()
    marks: Sequence[str] = ()
    unit: Unit = "percent"
    digits: int = 2
    n_best: int = 1
    spread_as: Literal["±", "sub"] = "±"

    @classmethod
    def of(
        cls,
        title: str,
        scores: Sequence[Score | None],
        *,
        intervals: bool = False,
        rivals: Sequence[str | None] = (),
        marks: Sequence[str] = (),
        spreads: Sequence[float | None] = (),
    ) -> Column:
        """Return a column of scores, with or without their intervals."""
        means = [score.mean if score else None for score in scores]
        ends = [s.ci95 if s and not math.isnan(s.ci95[0]) else None for s in scores]
        return cls(title, means, ends if intervals else (), rivals, spreads, marks)


_UPPER = 2

Role = Literal[
    "encoder", "method", "curve", "oracle", "random", "chance", "base", "other", "published"
]
SET_APART: frozenset[Role] = frozenset({"base", "other", "published"})
"""Roles whose rows are set in italics, because they do not compete for the best."""


@dataclass(frozen=True)
class Table:
    """A table: leading columns of text, then columns of numbers.

    Attributes:
        heading: Heading above the table; '' shows none.
        heads: Title and cells of each leading column, as plain text.
        columns: Columns of numbers.
        roles: Role of each row; () if all are encoders. The names of bases, other recipes and
            published results are set in italics, because they do not compete for the best.
        details: For each row, the key of its entry in the board's details; '' for none.
        lead: Markdown above the table.
        notes: Markdown below the table, one paragraph each.
        level: Level of the heading, 2 or 3.
        is_folded: Whether only pages, where it can be unfolded, and `table.csv` show the table.
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
        """Number of rows."""
        return len(self.heads[0][1])

    def role(self, row: int) -> Role:
        """Return the role of a row; the default is an encoder."""
        return self.roles[row] if self.roles else "encoder"

    def detail(self, row: int) -> str:
        """Return the key of a row's entry in the board's details; the default is ''."""
        return self.details[row] if self.details else ""


@dataclass(frozen=True)
class Detail:
    """Origin of a row.

    Attributes:
        facts: Known facts by name: encoder, digest, date and so on, as plain text.
        command: Shell command that reproduces the row; '' if there is none.
        files: Result files, relative to the board's folder.
        source: Citation of a published result; '' for measured results.
    """

    facts: Mapping[str, str]
    command: str = ""
    files: Sequence[str] = ()
    source: str = ""


@dataclass(frozen=True)
class Board:
    """A comparison of many encoders: a summary table, then tables by task type or task.

    Attributes:
        introduction: The author's introduction, in markdown.
        tables: Tables; the first is the summary.
        notes: How to read the board, in markdown.
        drawn: Charts of the board.
        details: Origins of rows, by their keys in the tables.
        finding: What the board shows, in one sentence of markdown; '' for none.
        origin: How the results were made, in markdown; '' for none.
    """

    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str]
    drawn: Sequence[Drawn] = ()
    details: Mapping[str, Detail] = field(default_factory=dict)
    finding: str = ""
    origin: str = ""

    @property
    def named_tables(self) -> list[tuple[str, Table]]:
        """Tables with unique names: the heading, preceded by the heading one level higher if any.

        Tables that follow without a heading are numbered: `Losses`, `Losses (2)`.
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
        """Charts of P against S."""
        return [each for each in self.drawn if isinstance(each, Plane)]


def unique(
    names: Iterable[str], pattern: str = "{}-{}", endings: Iterable[str] = ("",)
) -> list[str]:
    """Return names of which no two are equal, by adding the first free number from 2.

    Args:
        names: The names, some of which may be equal.
        pattern: Form of a name with a number.
        endings: Endings with which the names must be unique, too.

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
