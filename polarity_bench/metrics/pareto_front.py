"""The plane of polarity and meaning: an encoder is a point in it, one with a dial a curve.

Lift is P on a scale from retrieval at random, 0, to no other polarity, 1; retention is S on a scale
from random, 0, to the reference's own retrieval, 1. Retrieval with gold labels, the oracle, bounds
the plane: nothing of as much polarity has more meaning.

Shapes: n points of a curve; ... is what is computed alike, such as samples of a bootstrap.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.values import FloatArray


def lift(p: FloatArray, p_chance: FloatArray) -> FloatArray:
    """Return how much of the way from chance to no other polarity is gone.

    Args:
        p: Mean P.
        p_chance: Mean P of retrieval at random, below 1.

    Returns:
        (p - p_chance) / (1 - p_chance): 1 where P is 1, 0 at random, below 0 where P is less.

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
    *,
    clipped: bool = True,
) -> FloatArray:
    """Return the share of the area under the oracle's point that a curve dominates.

    A point dominates the rectangle between it and retrieval at random, and a curve all that one of
    its points does: no point between two of them is made up. Points are clipped to the oracle's
    rectangle.

    Args:
        lift: Lift of each point, in any order, (n, ...).
        retention: Retention of each point, (n, ...).
        oracle_lift: Lift of retrieval with gold labels, (...).
        oracle_retention: Its retention, (...).
        clipped: Whether a lift below 0 counts as 0. Unclipped, one point of negative lift has
            minus the area of its rectangle, as means over tasks need it: see `similarity.joint`.

    Returns:
        The share, in [0, 1], higher is better, (...); nan where retention is, or where the oracle
        has no more than chance. Unclipped it may be negative.

    References:
        Zitzler and Thiele (1998), Multiobjective optimization using evolutionary algorithms: the
        size of the space covered, or hypervolume.

    Example:
        Two points, 3/4 x 1/2 and 1/2 x 1, overlap in 1/2 x 1/2; the oracle has 1 x 1:

        >>> front(np.array([0.5, 1]), np.array([0.75, 0.5]), np.array(1), np.array(1))
        array(0.625)
    """
    high = np.clip(lift, 0.0 if clipped else None, oracle_lift)
    wide = np.clip(retention, 0.0, oracle_retention)
    order = np.argsort(-wide, axis=0)
    high, wide = (np.take_along_axis(side, order, axis=0) for side in (high, wide))
    step = wide - np.concatenate([wide[1:], np.zeros_like(wide[:1])])
    dominated = (np.maximum.accumulate(high, axis=0) * step).sum(axis=0)
    whole = oracle_lift * oracle_retention
    bounded = (np.asarray(oracle_lift) > 0) & (np.asarray(oracle_retention) > 0)
    share = dominated / np.where(bounded, whole, np.nan)
    return np.asarray(np.clip(share, 0.0 if clipped else None, 1.0))
