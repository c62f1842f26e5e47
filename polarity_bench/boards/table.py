"""What is shown: boards, their tables and planes, for any renderer. Nothing is rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from polarity_bench.types import Score, Weighting


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        values: A fraction for each row; None or nan where there is none.
        intervals: The 95 % interval of each value, None where there is none; () shows none.
        rivals: What each value competes with for the best: those of the same word, None with
            none; () lets none compete.
    """

    title: str
    values: Sequence[float | None]
    intervals: Sequence[tuple[float, float] | None] = ()
    rivals: Sequence[str | None] = ()

    @classmethod
    def of(
        cls,
        title: str,
        scores: Sequence[Score | None],
        *,
        intervals: bool = False,
        rivals: Sequence[str | None] = (),
    ) -> Column:
        """Lay scores out as a column, with their intervals or without."""
        means = [score.mean if score else None for score in scores]
        ends = [score.ci95 if score else None for score in scores] if intervals else ()
        return cls(title, means, ends, rivals)


@dataclass(frozen=True)
class Table:
    """A table: title and cells of each leading column of text, then columns of numbers.

    Attributes:
        roles: What each row is: `encoder`, `curve`, `oracle` or `random`; () where all are one.
    """

    heading: str
    heads: Sequence[tuple[str, Sequence[str]]]
    columns: Sequence[Column]
    roles: Sequence[str] = ()

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.heads[0][1])


MarkRole = Literal["random", "oracle", "base", "published", "encoder", "curve"]


@dataclass(frozen=True)
class Mark:
    """A point of P and S, both fractions.

    Attributes:
        name: Whose it is; the points of a curve bear one name, and follow each other.
        role: What it is; the base is the encoder that S is measured with.
        at: Of a point of a curve, where its dial stands.
    """

    name: str
    role: MarkRole
    p: float
    s: float
    at: float | None = None


@dataclass(frozen=True)
class Plane:
    """P against S on one task, by one reference and at one k, where they compare.

    Attributes:
        reference: The reference's name.
    """

    task: str
    reference: str
    k: int
    weighting: Weighting
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Board:
    """Many encoders side by side: the first table sums up, the others are of a kind or a task.

    The introduction is what its author says of it, in markdown; the notes say how to read it. The
    planes hold what can be drawn.
    """

    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str]
    planes: Sequence[Plane] = ()
