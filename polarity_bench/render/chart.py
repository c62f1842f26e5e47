"""Charts for any renderer: points, lines, bars and ranks. Values are not rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from polarity_bench.scores import Weighting

MarkRole = Literal["random", "oracle", "base", "published", "encoder", "curve"]


@dataclass(frozen=True)
class Mark:
    """A point with P and S, both fractions.

    Attributes:
        name: Name of the encoder; the points of a curve share a name and follow each other.
        role: Role of the point; the base is the encoder that S is measured with.
        p: P.
        s: S.
        at: Strength or weight at a point of a curve.
        tuned: Whether the encoder is known to be trained from the plane's base.
    """

    name: str
    role: MarkRole
    p: float
    s: float
    at: float | None = None
    tuned: bool = False


@dataclass(frozen=True)
class Plane:
    """P against S on one task, with one reference and one k, so that the points are comparable.

    Attributes:
        reference: Name of the reference encoder.
    """

    task: str
    reference: str
    k: int
    weighting: Weighting
    marks: Sequence[Mark]

    @property
    def title(self) -> str:
        """Title of the figure."""
        return f"{self.task}, k = {self.k}, {self.weighting} weights"


@dataclass(frozen=True)
class Series:
    """A line, or bars of one colour.

    Attributes:
        values: One fraction for each position on the x axis; nan if missing.
        intervals: 95 % interval of each value, None if missing; () shows no intervals.
    """

    name: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True)
class LineChart:
    """Lines over a number such as k, training examples or steps.

    Attributes:
        x: Positions on the x axis, ascending, the same for all lines.
        is_log: Whether the x axis is logarithmic.
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
        groups: Names of the groups, one for each value of a series.
        baseline: Chance level, a fraction; None draws no line.
    """

    title: str
    y_title: str
    groups: Sequence[str]
    series: Sequence[Series]
    baseline: float | None = None


@dataclass(frozen=True)
class Ranks:
    """A critical-difference diagram, which shows the encoders that do not differ significantly.

    Attributes:
        names: Names of the encoders, best first.
        ranks: Mean rank of each encoder; 1 is best.
        ties: Groups without significant differences, as positions (first, last) in `names`.
    """

    title: str
    names: Sequence[str]
    ranks: Sequence[float]
    ties: Sequence[tuple[int, int]]


Drawn = Plane | LineChart | BarChart | Ranks
