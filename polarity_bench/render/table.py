"""What is shown: boards, their tables and what is drawn, for any renderer. Nothing is rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from polarity_bench.render.chart import Drawn, Plane
from polarity_bench.scores import Score

Unit = Literal["percent", "points", "probability", "seconds", "count"]
"""Fractions shown times 100; differences of fractions, with their sign; p-values; as they are."""


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        values: A number for each row, in its unit; None or nan where there is none.
        intervals: The 95 % interval of each value, None where there is none; () shows none.
        rivals: What each value competes with for the best: those of the same word, None with
            none; () lets none compete.
        spreads: The standard deviation of each value, None or nan where there is none; () shows
            none.
        marks: What follows each number, as text; () is nothing.
        digits: Decimals shown.
        n_best: How many of the rivals are shown as the best, ties as shown included.
        spread_as: After a sign, or below the line.
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
        """Lay scores out as a column, with their intervals or without."""
        means = [score.mean if score else None for score in scores]
        ends = [s.ci95 if s and not math.isnan(s.ci95[0]) else None for s in scores]
        return cls(title, means, ends if intervals else (), rivals, spreads, marks)


_UPPER = 2

Role = Literal["encoder", "curve", "oracle", "random", "chance", "base", "other", "published"]
SET_APART: frozenset[Role] = frozenset({"base", "other", "published"})
"""Of whose rows names and numbers are set apart."""


@dataclass(frozen=True)
class Table:
    """A table: title and cells of each leading column of text, then columns of numbers.

    Attributes:
        heading: '' has none.
        heads: Title and cells of each leading column, as plain text.
        roles: What each row is; () where all are one. Of bases, other recipes and what is
            published, the names are set apart, as they compete with none.
        details: For each row, by which of the board's details it came about; '' by none.
        lead: What stands above it, in markdown.
        notes: What stands below it, in markdown, a paragraph each.
        level: Of its heading, 2 or 3.
    """

    heading: str
    heads: Sequence[tuple[str, Sequence[str]]]
    columns: Sequence[Column]
    roles: Sequence[Role] = ()
    details: Sequence[str] = ()
    lead: str = ""
    notes: Sequence[str] = ()
    level: int = 2

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.heads[0][1])

    def role(self, row: int) -> Role:
        """What a row is; an encoder where nothing is said."""
        return self.roles[row] if self.roles else "encoder"


@dataclass(frozen=True)
class Detail:
    """How a row came about.

    Attributes:
        facts: What is known of it, by its name: encoder, digest, date and so on, as plain text.
        command: What makes it again, in a shell; '' if nothing does.
        files: Of its results, relative to the board's folder.
        source: The citation of what is published, '' of what was measured.
    """

    facts: Mapping[str, str]
    command: str = ""
    files: Sequence[str] = ()
    source: str = ""


@dataclass(frozen=True)
class Board:
    """Many encoders side by side: the first table sums up, the others are of a kind or a task.

    Attributes:
        introduction: What its author says of it, in markdown.
        notes: How to read it, in markdown.
        drawn: What can be drawn of it.
        details: How rows came about, by their keys in the tables.
    """

    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str]
    drawn: Sequence[Drawn] = ()
    details: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def named_tables(self) -> list[tuple[str, Table]]:
        """Every table by a name of its own: its heading, below a higher one's where it has one.

        Those that follow without a heading count: `Losses`, `Losses (2)`.
        """
        found: dict[str, Table] = {}
        upper = name = ""
        for table in self.tables:
            if table.heading:
                upper = table.heading if table.level == _UPPER else upper
                name = table.heading if table.level == _UPPER else f"{upper} / {table.heading}"
            n_alike = sum(known == name or known.startswith(f"{name} (") for known in found)
            found[f"{name} ({n_alike + 1})" if name in found else name] = table
        return list(found.items())

    @property
    def planes(self) -> list[Plane]:
        """P against S, of what compares."""
        return [each for each in self.drawn if isinstance(each, Plane)]
