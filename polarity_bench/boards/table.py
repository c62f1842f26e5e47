"""What is shown: boards, tables and columns of numbers, for any renderer. Nothing is rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polarity_bench.types import Score


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
    """A table: title and cells of each leading column of text, then columns of numbers."""

    heading: str
    heads: Sequence[tuple[str, Sequence[str]]]
    columns: Sequence[Column]

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.heads[0][1])


@dataclass(frozen=True)
class Board:
    """Many encoders side by side: the first table sums up, the others are of a kind or a task.

    The introduction is what its author says of it, in markdown; the notes say how to read it.
    """

    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str]
