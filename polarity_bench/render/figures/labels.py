"""Placement of labels next to points and at the ends of lines, which Vega-Lite does not support.

A label covers no point, line or other label, and is nearest to its own point. The positions are
computed for a panel of a fixed size and become data of the specification. All lengths are in
pixels. Labels that do not fit are left out; tooltips and the description contain their text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.optimize import isotonic_regression

from polarity_bench.render.figures.themes import width_of
from polarity_bench.values import FloatArray

Pair = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right and top edge of a rectangle."""

SIZE = 10.5
"""Font size of labels."""

_HIGH = 1.25 * SIZE  # height of a label
_RINGS = (8.0, 15.0, 26.0, 40.0)  # distances of labels; all but the nearest need a line


@dataclass(frozen=True)
class Label:
    """Label with the position of its text.

    Attributes:
        text: Text of the label.
        point: Position of the labelled point.
        anchor: Position of the text.
        side: Part of the text at the anchor: -1 is the left end, 0 the middle, 1 the right end.
        is_far: Whether a line connects the label to its point.
        is_soft: Whether the label is less important than others and is drawn in a softer colour.
    """

    text: str
    point: Pair
    anchor: Pair
    side: int
    is_far: bool
    is_soft: bool


@dataclass
class TakenSpace:
    """Occupied space of a panel, for the placement of labels.

    Attributes:
        frame: Region that labels must not leave.
        points: All points, (n, 2); a label must be nearer to its own point than to any other point.
        taken: Occupied boxes, (n, 4).
        placed: Labels placed so far.
    """

    frame: Box
    points: FloatArray
    taken: FloatArray = field(default_factory=lambda: np.empty((0, 4)))
    placed: list[Label] = field(default_factory=list)

    def take(self, boxes: Sequence[Box]) -> None:
        """Reserve the space of boxes."""
        self.taken = np.concatenate([self.taken, np.reshape(boxes, (-1, 4))])

    def keep_free(self, line: Sequence[Pair]) -> None:
        """Reserve the space along a line, so that no label covers the line."""
        for start, end in pairwise(line):
            self.take(_line_boxes(start, end))

    def place(self, text: str, point: Pair, *, far: bool, is_soft: bool) -> bool:
        """Place a label near a point if there is room, and reserve its space.

        Args:
            text: Text of the label, in one line.
            point: Position of the labelled point.
            far: Whether the label may be farther from the point, connected by a line.
            is_soft: Whether the label is less important than others.

        Returns:
            True if the label was placed, or if a very close point already has the same label.
        """
        if any(p.text == text and math.dist(p.point, point) < _RINGS[0] for p in self.placed):
            return True
        size = width_of(text, SIZE), _HIGH
        others = self.points[np.hypot(*(self.points - point).T) > 1]
        for ring, near in enumerate(_RINGS if far else _RINGS[:1]):
            for middle, side in _about(point, size, near):
                box = box_at(middle, size)
                anchor = middle[0] + side * size[0] / 2, middle[1]
                line = _line_boxes(point, anchor, _RINGS[0]) if ring else []
                if all(map(self._is_free, [box, *line])) and (
                    ring or _is_nearest(box, point, others)
                ):
                    self.placed.append(Label(text, point, anchor, side, ring > 0, is_soft))
                    self.take([box, *line])
                    return True
        return False

    def _is_free(self, box: Box) -> bool:
        left, low, right, high = self.frame
        if box[0] < left or box[1] < low or box[2] > right or box[3] > high:
            return False
        left, low, right, high = self.taken.T
        covers = (box[0] < right) & (left < box[2]) & (box[1] < high) & (low < box[3])
        return not covers.any()


def _about(point: Pair, size: Pair, near: float) -> list[tuple[Pair, int]]:
    """Return the candidate centres of a label around its point, each with its `Label.side`."""
    x, y = near + size[0] / 2, near + size[1] / 2
    corner = near / 2 + size[0] / 2
    offsets = [(x, 0, -1), (-x, 0, 1), (0, y, 0), (0, -y, 0)]
    offsets += [(corner, y, -1), (-corner, y, 1), (corner, -y, -1), (-corner, -y, 1)]
    return [((point[0] + dx, point[1] + dy), side) for dx, dy, side in offsets]


def _line_boxes(start: Pair, end: Pair, after: float = 0.0) -> list[Box]:
    """Return boxes that cover a line, except for its first `after` pixels."""
    length = math.dist(start, end)
    n = max(1, round(length / 4))
    steps = (i / n for i in range(n + 1) if i * length / n >= after)
    return [
        box_at((start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1])))
        for t in steps
    ]


def _is_nearest(box: Box, point: Pair, others: FloatArray) -> bool:
    distances = _distances(box, np.concatenate([[point], others]))
    return bool((distances[1:] > distances[0] + 1.5).all())


def _distances(box: Box, points: FloatArray) -> FloatArray:
    """Return the distance of each point from a box, (n,); 0 inside the box."""
    low, high = np.reshape(box, (2, 2))
    outside = np.maximum(np.maximum(low - points, points - high), 0.0)
    return np.asarray(np.hypot(*outside.T))


def box_at(middle: Pair, size: Pair = (3.0, 3.0)) -> Box:
    """Return the edges of a box from its centre and its size (width, height)."""
    (x, y), (width, height) = middle, size
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending positions as little as possible so that they are at least `gap` apart.

    Args:
        wanted: Preferred positions, ascending.
        gap: Minimum distance between neighbours.
        low: Lowest allowed position.
        high: Highest allowed position; exceeded if the positions do not fit.

    Example:
        >>> spread_out([1.0, 1.0, 5.0], 1.0, 0.0, 10.0)
        [0.5, 1.5, 5.0]
        >>> spread_out([9.9, 10.0], 1.0, 0.0, 10.0)
        [9.0, 10.0]
    """
    offsets = gap * np.arange(len(wanted))
    fitted = isotonic_regression(np.array(wanted) - offsets).x
    highest = max(low, high - gap * (len(wanted) - 1))
    places: list[float] = (fitted.clip(low, highest) + offsets).tolist()
    return places
