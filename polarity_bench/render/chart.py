"""Charts for any renderer: points, lines and bars. Values are not rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from polarity_bench.scores import Weighting

MarkRole = Literal["random", "oracle", "base", "published", "encoder", "curve"]
_COUNTED: tuple[MarkRole, ...] = ("encoder", "curve", "base")


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
        family: The method that made the encoder, such as its loss; '' if unknown.
    """

    name: str
    role: MarkRole
    p: float
    s: float
    at: float | None = None
    tuned: bool = False
    family: str = ""

    @property
    def series(self) -> str:
        """The meaning of the mark's colour: its curve, its family, or whether it was trained."""
        if self.role == "curve":
            return self.name
        return self.family or ("trained from the base" if self.tuned else "encoders")


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

    @property
    def front(self) -> list[Mark]:
        """The encoders and curve points that none beats in both P and S, by descending S."""
        best: list[Mark] = []
        counted = [mark for mark in self.marks if mark.role in _COUNTED]
        for mark in sorted(counted, key=lambda mark: (-mark.s, -mark.p)):
            if not best or mark.p > best[-1].p:
                best.append(mark)
        return best

    @property
    def families(self) -> list[str]:
        """The meanings of colours: the families and curves with a point on the front."""
        ahead = {id(mark) for mark in self.front}
        shown = [m for m in self.marks if id(m) in ahead and m.role != "base"]
        return list(dict.fromkeys(mark.series for mark in shown))


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


Drawn = Plane | LineChart | BarChart
