"""Trade-off between polarity (P) and meaning (S), as an area in the plane of lift and retention.

Lift rescales P: 0 is random retrieval, and 1 is retrieval of same-label sources only. Retention
rescales S: 0 is random retrieval, and 1 is the reference encoder's own retrieval. An encoder is a
point in this plane, and an encoder with adjustable strength is a curve. The oracle, which retrieves
with gold labels, is the upper bound: no retrieval with the same P has a higher S.

Shapes: n points of a curve; "..." stands for further axes, such as bootstrap samples.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.values import FloatArray


def lift(p: FloatArray, p_chance: FloatArray) -> FloatArray:
    """Rescale P so that chance is 0 and the maximum is 1.

    Args:
        p: Mean P.
        p_chance: Mean P of random retrieval, below 1.

    Returns:
        (p - p_chance) / (1 - p_chance), which is 1 if P is 1, 0 at chance, and negative below
        chance.

    Example:
        >>> lift(np.array([0.75, 0.4]), np.array(0.5))
        array([ 0.5, -0.2])
    """
    return np.asarray((p - p_chance) / (1 - p_chance))


def front(
    lift: FloatArray,
    retention: FloatArray,
    oracle_lift: FloatArray,
    oracle_retention: FloatArray,
) -> FloatArray:
    """Return the share of the oracle's rectangle that a curve dominates.

    A point dominates the rectangle between itself and random retrieval. A curve dominates the
    union of its points' rectangles, without interpolation between the points. Points are clipped
    to the oracle's rectangle. If every point has a negative lift or retention, the score is minus
    the share of the smallest rectangle between a point and random retrieval, so that noise below
    chance cancels noise above chance in means. Tables show a score below 0 as 0 (see
    `Metric.shown`).

    Args:
        lift: Lift of each point, in any order, (n, ...).
        retention: Retention of each point, (n, ...).
        oracle_lift: Lift of the oracle, (...).
        oracle_retention: Retention of the oracle, (...).

    Returns:
        The share, in [-1, 1], higher is better, (...). It is nan if retention is nan or if the
        oracle is not above chance.

    References:
        Zitzler and Thiele (1998), Multiobjective optimization using evolutionary algorithms: the
        size of the space covered, or hypervolume.

    Example:
        The rectangles 3/4 x 1/2 and 1/2 x 1 overlap in 1/2 x 1/2. The oracle's is 1 x 1:

        >>> front(np.array([0.5, 1]), np.array([0.75, 0.5]), np.array(1), np.array(1))
        array(0.625)
    """
    high = np.clip(lift, -oracle_lift, oracle_lift)
    wide = np.clip(retention, -oracle_retention, oracle_retention)
    area = np.abs(high * wide)
    best = np.where(np.minimum(high, wide) < 0, -area, area).max(axis=0)
    order = np.argsort(-wide, axis=0)
    high, wide = (np.maximum(np.take_along_axis(side, order, axis=0), 0.0) for side in (high, wide))
    step = wide - np.concatenate([wide[1:], np.zeros_like(wide[:1])])
    union = (np.maximum.accumulate(high, axis=0) * step).sum(axis=0)
    rectangle = oracle_lift * oracle_retention
    bounded = (np.asarray(oracle_lift) > 0) & (np.asarray(oracle_retention) > 0)
    share = np.where(best > 0, union, best) / np.where(bounded, rectangle, np.nan)
    return np.asarray(np.minimum(share, 1.0) + 0.0)  # -0.0 becomes 0.0
