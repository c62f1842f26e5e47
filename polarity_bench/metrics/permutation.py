"""Sign flips: is the mean of paired differences other than 0?

If two encoders are equally good on every query but for chance, each query's difference could as
well have had the other sign. The permutation test flips them all, in all ways or in many, and asks
how often the mean comes out as far from 0 as it did. It assumes that the queries are independent
and that a difference and its opposite are equally likely; of a mean over many queries the second
matters little. Queries that were written for each other flip together, as a unit.

Shapes: q queries, u units, n encoders, f flips.

References:
    Fisher (1935), The Design of Experiments, section 21
    Pitman (1937), Significance tests which may be applied to samples from any populations
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polarity_bench.metrics.statistics import SEED
from polarity_bench.types import FloatArray, IntArray

N_FLIPS = 10_000
EXACT = 16
"""Of so many differences other than 0, or fewer, every flip is tried: 2^16 of them."""
_BLOCK = 1000
TIE = 1e-6
"""What counts as equal, of the sum of all absolute differences: values are stored in single
precision."""


def sign_flip_p(
    differences: FloatArray,
    units: IntArray | None = None,
    *,
    n_flips: int = N_FLIPS,
    seed: int = SEED,
) -> float:
    """Test whether the mean of paired differences is other than 0, by flipping their signs.

    Differences of 0 flip to themselves. Where no more than `EXACT` others are left, every flip is
    tried and p is exact: the share of flips whose mean is at least as far from 0. Of more, flips
    are drawn, and the one that was observed counts as one of them, so that p is valid too.

    Args:
        differences: Of each query's two values, (q,); nan is left out.
        units: The unit of each query, numbered from 0, (q,); by default each is its own.
        n_flips: How many flips to draw, m.
        seed: Of the draw.

    Returns:
        p, two-sided: exact, or (b + 1) / (m + 1) where b of m flips came as far; 1 where nothing
        differs, nan without a query.

    Raises:
        ValueError: If the shapes differ.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, equation 2.

    Example:
        Of the 8 flips of three differences, only +++ and --- come as far as they are:

        >>> sign_flip_p(np.array([0.5, 0.25, 0.0, 0.5]))
        0.25
    """
    if differences.ndim != 1 or (units is not None and units.shape != differences.shape):
        shapes = [differences.shape] + ([] if units is None else [units.shape])
        raise ValueError(f"one difference and one unit a query are wanted, got {shapes}")
    defined = ~np.isnan(differences)
    if not defined.any():
        return float("nan")
    sums = unit_sums(differences[defined][None, :], None if units is None else units[defined])[0]
    moving = sums[sums != 0]
    far = abs(moving.sum()) - TIE * np.abs(moving).sum()
    if len(moving) <= EXACT:
        return float(np.mean(np.abs(_all_flipped(moving)) >= far))
    n_far = sum(
        int((np.abs(flipped) >= far).sum()) for flipped in flipped_sums(moving[None], n_flips, seed)
    )
    return (n_far + 1) / (n_flips + 1)


def unit_sums(values: FloatArray, units: IntArray | None) -> FloatArray:
    """Add up the values of the queries of each unit, (n, u) from (n, q), in double precision."""
    values = np.asarray(values, np.float64)
    if units is None:
        return values
    order = np.argsort(units, kind="stable")
    _, first = np.unique(units[order], return_index=True)
    summed: FloatArray = np.add.reduceat(values[:, order], first, axis=1)
    return summed


def flipped_sums(
    sums: FloatArray, n_flips: int = N_FLIPS, seed: int = SEED
) -> Iterator[FloatArray]:
    """Flip the signs of units at random, the same for all rows, and add each row up.

    Sums are linear: those of the difference of two rows are the difference of theirs, so that all
    pairs of encoders share the flips, and one matrix product serves them.

    Args:
        sums: Of each unit, (n, u).
        n_flips: How many flips to draw.
        seed: Of the draw.

    Yields:
        The flipped sums, some flips at a time, (f, n).
    """
    generator = np.random.default_rng(seed)
    n_units = sums.shape[1]
    for start in range(0, n_flips, _BLOCK):
        n_drawn = min(_BLOCK, n_flips - start)
        drawn = generator.integers(256, size=(n_drawn, -(-n_units // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=n_units).astype(np.float64)
        yield 2 * (kept @ sums.T) - sums.sum(axis=1)


def _all_flipped(sums: FloatArray) -> FloatArray:
    """Every flip of these sums, added up, (2^u,)."""
    flipped = np.zeros(1)
    for each in sums:
        flipped = np.concatenate([flipped + each, flipped - each])
    return flipped
