"""Charts of points, lines and bars, with unrounded values, as input of all renderers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MarkRole = Literal["random", "oracle", "base", "published", "encoder", "curve"]
_COUNTED: tuple[MarkRole, ...] = ("encoder", "curve", "base")


@dataclass(frozen=True)
class Mark:
    """Point in a chart of P against S.

    Attributes:
        name: Name of the encoder. The points of a curve share a name and are consecutive.
        role: Role of the point. The base is the reference encoder of S.
        p: Polarity score, a fraction.
        s: Similarity score, a fraction.
        at: Strength or weight of a point on a curve; None for other points.
        tuned: Whether the encoder is known to be trained from the base of the chart.
        family: Method that trained the encoder, such as its loss; '' if unknown.
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
        """Name of the colour group: the curve, the family, or whether the encoder was trained."""
        if self.role == "curve":
            return self.name
        return self.family or ("trained from the base" if self.tuned else "encoders")


@dataclass(frozen=True)
class Plane:
    """Chart of P against S for one task, one reference and one k.

    The points are comparable because they share these settings.

    Attributes:
        task: Name of the task.
        reference: Name of the reference encoder.
        k: Number of retrieved sources per query.
        weighting: Weighting of the ranks.
        marks: Points of the chart.
    """

    task: str
    reference: str
    k: int
    weighting: str
    marks: Sequence[Mark]

    @property
    def title(self) -> str:
        """Title of the figure, made of the task, k and the weighting."""
        return f"{self.task}, k = {self.k}, {self.weighting} weights"

    @property
    def front(self) -> list[Mark]:
        """Pareto front of the base, the encoders and the curve points, by descending S."""
        best: list[Mark] = []
        counted = [mark for mark in self.marks if mark.role in _COUNTED]
        for mark in sorted(counted, key=lambda mark: (-mark.s, -mark.p)):
            if not best or mark.p > best[-1].p:
                best.append(mark)
        return best

    @property
    def families(self) -> list[str]:
        """Names of the families and curves that have a point on the front."""
        ahead = {id(mark) for mark in self.front}
        shown = [m for m in self.marks if id(m) in ahead and m.role != "base"]
        return list(dict.fromkeys(mark.series for mark in shown))


@dataclass(frozen=True)
class Series:
    """Line of a line chart, or the bars of one colour in a bar chart.

    Attributes:
        name: Name shown in the figure.
        values: Fraction for each x position or group; NaN if missing.
        intervals: 95 % interval of each value, None if missing; () if there are no intervals.
    """

    name: str
    values: Sequence[float]
    intervals: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True)
class LineChart:
    """Chart of lines over a number such as k, training examples or steps.

    Attributes:
        title: Title of the figure.
        x_title: Title of the x axis.
        y_title: Title of the y axis, without the unit.
        x: Ascending positions on the x axis, shared by all lines.
        series: Lines of the chart.
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
    """Chart of horizontal bars, with the bars of all series next to each other in each group.

    Attributes:
        title: Title of the figure.
        y_title: Title of the axis of values, without the unit.
        groups: Names of the groups; each series has one value per group.
        series: Bars of the chart, one series per colour.
        baseline: Chance level, a fraction; None draws no line.
    """

    title: str
    y_title: str
    groups: Sequence[str]
    series: Sequence[Series]
    baseline: float | None = None


Chart = Plane | LineChart | BarChart
