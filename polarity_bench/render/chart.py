"""What is drawn, for any renderer: points, lines, bars, ranks. Nothing is rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from polarity_bench.scores import Weighting

MarkRole = Literal["random", "oracle", "base", "published", "encoder", "curve"]


@dataclass(frozen=True)
class Mark:
    """A point of P and S, both fractions.

    Attributes:
        name: Whose it is; the points of a curve bear one name, and follow each other.
        role: What it is; the base is the encoder that S is measured with.
        at: Of a point of a curve, where its dial stands.
        tuned: Whether it was trained from the plane's base, as far as is known.
    """

    name: str
    role: MarkRole
    p: float
    s: float
    at: float | None = None
    tuned: bool = False


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

    @property
    def title(self) -> str:
        """What it shows."""
        return f"{self.task}, k = {self.k}, {self.weighting} weights"


@dataclass(frozen=True)
class Series:
    """A line, or bars of one colour.

    Attributes:
        values: Fractions, one for each place of x; nan where there is none.
        intervals: The 95 % interval of each value, None where there is none; () shows none.
    """

    name: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True)
class LineChart:
    """Lines over a number: k, examples of training, steps.

    Attributes:
        x: The places, ascending, the same for all lines.
        is_log: Whether x is shown by its logarithm.
    """

    title: str
    x_title: str
    y_title: str
    x: Sequence[float]
    series: Sequence[Series]
    is_log: bool = False


@dataclass(frozen=True)
class BarChart:
    """Bars, side by side within each group.

    Attributes:
        groups: Names of the groups, as many as every series has values.
        baseline: What chance is, a fraction; None draws none.
    """

    title: str
    y_title: str
    groups: Sequence[str]
    series: Sequence[Series]
    baseline: float | None = None


@dataclass(frozen=True)
class Ranks:
    """A critical-difference diagram: who can be told apart.

    Attributes:
        names: Best first.
        ranks: The mean rank of each, 1 is best.
        ties: From where to where, in `names`, none can be told apart: (first, last) each.
    """

    title: str
    names: Sequence[str]
    ranks: Sequence[float]
    ties: Sequence[tuple[int, int]]


Drawn = Plane | LineChart | BarChart | Ranks
