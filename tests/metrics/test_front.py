"""Lift and front, against hand-worked cases, a sum over cells and samples of the area."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polarity_bench.metrics.pareto_front import front, lift
from polarity_bench.values import FloatArray

Point = tuple[float, float]
"""Retention and lift."""

ORACLE = (0.9, 1.0)
coordinates = st.floats(-0.5, 1.5)
points = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=6)
oracles = st.tuples(st.floats(0.01, 1), st.floats(0.01, 1))


def of(curve: list[Point], oracle: Point = ORACLE) -> float:
    kept, lifted = np.array(curve).T
    return float(front(lifted, kept, np.array(oracle[1]), np.array(oracle[0])))


def product(point: Point, oracle: Point) -> float:
    """Return the share of the oracle's rectangle that a point's has, with its sign."""
    shares = [max(min(side, most), -most) / most for side, most in zip(point, oracle, strict=True)]
    size = abs(math.prod(shares))
    return -size if min(shares) < 0 else size


def slow_front(curve: list[Point], oracle: Point) -> float:
    """Cut the oracle's rectangle along all coordinates, and add the cells that a point dominates.

    Of a cell that no coordinate cuts, a point dominates all or nothing. Without a point above
    chance, the smallest rectangle between a point and chance counts as negative.
    """
    if all(min(x, y) <= 0 for x, y in curve):
        return max(product(point, oracle) for point in curve)
    xs = sorted({0.0, oracle[0], *(x for x, _ in curve if 0 < x < oracle[0])})
    ys = sorted({0.0, oracle[1], *(y for _, y in curve if 0 < y < oracle[1])})
    dominated = 0.0
    for left, right in pairwise(xs):
        for low, high in pairwise(ys):
            middle = ((left + right) / 2, (low + high) / 2)
            if any(x > middle[0] and y > middle[1] for x, y in curve):
                dominated += (right - left) * (high - low)
    return dominated / (oracle[0] * oracle[1])


def sampled_front(curve: list[Point], oracle: Point) -> float:
    """Throw points at the oracle's rectangle and count those that some point dominates."""
    thrown = np.random.default_rng(3).random((200_000, 2)) * oracle
    below = [(thrown[:, 0] < x) & (thrown[:, 1] < y) for x, y in curve]
    return float(np.any(below, axis=0).mean())


# By hand


def test_lift_is_0_at_chance_and_1_without_another_polarity() -> None:
    assert lift(np.array([0.25, 1.0, 0.625, 0.1]), np.array(0.25)) == pytest.approx(
        [0, 1, 0.5, -0.2]
    )


@pytest.mark.parametrize(
    ("curve", "share"),
    [
        ([(0.45, 0.5)], 0.25),  # half of either side
        ([ORACLE], 1),
        ([(1.0, 0.5)], 0.5),  # the reference's own retrieval retains more than the oracle
        ([(5.0, 5.0)], 1),
        ([(-0.1, 0.9)], -0.1),  # below the meaning of chance
        ([(-0.1, -0.9)], -0.1),
        ([(0.9, -0.1)], -0.1),  # below chance
        ([(0.9, -0.1), (0.3, -0.2), (0.9, -0.4)], -0.2 * 0.3 / 0.9),
        ([(0.9, -0.1), (0.3, 0.2)], 0.2 * 0.3 / 0.9),
        ([(0.0, 1.0)], 0),
        ([(0.9, 0.2), (0.3, 0.8)], (0.9 * 0.2 + 0.3 * 0.6) / 0.9),
        ([(0.3, 0.8), (0.9, 0.2)], (0.9 * 0.2 + 0.3 * 0.6) / 0.9),  # in whatever order
        ([(0.9, 0.2), (0.6, 0.1), (0.3, 0.8)], (0.9 * 0.2 + 0.3 * 0.6) / 0.9),  # dominated: the 2nd
        ([(0.6, 0.5), (0.6, 0.7), (0.4, 0.7)], 0.6 * 0.7 / 0.9),  # on one line
        ([(0.9, -0.5), (-0.5, 0.9), (0.45, 0.5)], 0.25),
    ],
)
def test_a_front_is_what_one_works_out_by_hand(curve: list[Point], share: float) -> None:
    assert of(curve) == pytest.approx(share, abs=1e-12)


def test_the_example_of_the_docs() -> None:
    """docs/protocols.md: P at random 50, S at random 20, the reference's 60, the oracle's 52."""
    half, full = [((s - 20) / 40, (p - 50) / 50) for p, s in ((75, 48), (90, 40))]
    oracle = ((52 - 20) / 40, 1.0)
    assert of([half], oracle) == pytest.approx(0.4375)
    assert of([full], oracle) == pytest.approx(0.5)
    assert of([half, full], oracle) == pytest.approx(0.625)


def test_no_point_between_two_is_made_up() -> None:
    """A line from one to the other would dominate half of what is missing."""
    assert of([(1.0, 0.0), (0.0, 1.0)], (1.0, 1.0)) == 0
    assert of([(1.0, 0.5), (0.5, 1.0)], (1.0, 1.0)) == pytest.approx(0.75)


@pytest.mark.parametrize("oracle", [(0.0, 1.0), (-0.1, 1.0), (0.9, 0.0), (0.9, -0.2), (-0.1, -0.2)])
def test_without_an_area_under_the_oracle_a_front_is_undefined(oracle: Point) -> None:
    assert math.isnan(of([(0.5, 0.5)], oracle))


def test_undefined_retention_gives_an_undefined_front() -> None:
    assert math.isnan(of([(math.nan, 0.5)]))
    assert math.isnan(of([(math.nan, 0.5), (0.5, 0.5)]))


# Against slow ones


@given(points, oracles)
def test_a_front_is_the_sum_of_its_cells(curve: list[Point], oracle: Point) -> None:
    assert of(curve, oracle) == pytest.approx(slow_front(curve, oracle), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_front_is_the_share_of_points_thrown_at_it(seed: int) -> None:
    curve = [(x, y) for x, y in np.random.default_rng(seed).uniform(-0.2, 1.2, (4, 2)).tolist()]
    assert of(curve) == pytest.approx(sampled_front(curve, ORACLE), abs=0.005)


@given(points, st.lists(oracles, min_size=1, max_size=4))
def test_many_are_computed_as_one_by_one(curve: list[Point], bounds: list[Point]) -> None:
    """Every draw has an oracle of its own, and points of its own."""
    shifts = np.arange(len(bounds)) / 10
    kept, lifted = (side[:, None] + shifts for side in np.array(curve).T)
    wide, high = np.array(bounds).T
    together: FloatArray = front(lifted, kept, high, wide)
    assert together.shape == shifts.shape
    for i, shift in enumerate(shifts):
        moved = [(x + shift, y + shift) for x, y in curve]
        assert together[i] == pytest.approx(of(moved, bounds[i]), abs=1e-12)


# Properties


@given(points, oracles)
def test_a_front_is_at_most_1_and_below_0_only_below_chance(
    curve: list[Point], oracle: Point
) -> None:
    assert -1 <= of(curve, oracle) <= 1
    assert of(curve, oracle) >= 0 or all(min(point) < 0 for point in curve)


@given(points, st.tuples(coordinates, coordinates), oracles)
def test_a_further_point_never_lowers_it(curve: list[Point], more: Point, oracle: Point) -> None:
    assert of([*curve, more], oracle) >= of(curve, oracle) - 1e-12


@given(points, oracles)
def test_the_oracle_has_it_all(curve: list[Point], oracle: Point) -> None:
    assert of([oracle], oracle) == 1
    assert of([*curve, oracle], oracle) == pytest.approx(1, abs=1e-12)


@given(points, oracles, st.randoms())
def test_the_order_of_points_does_not_matter(
    curve: list[Point], oracle: Point, random: Random
) -> None:
    shuffled = list(curve)
    random.shuffle(shuffled)
    assert of(shuffled, oracle) == pytest.approx(of(curve, oracle), abs=1e-12)


@given(coordinates, coordinates, oracles)
def test_one_point_is_a_product(x: float, y: float, oracle: Point) -> None:
    share = product((x, y), oracle)
    assert of([(x, y)], oracle) == pytest.approx(share, rel=1e-12, abs=1e-12)
