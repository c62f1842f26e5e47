"""Sign flips: against enumeration, scipy, the binomial distribution and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polarity_bench.metrics.significance import EXACT, flipped_sums, sign_flip_p, unit_sums
from polarity_bench.values import FloatArray

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.lists(st.integers(-4, 4), min_size=1, max_size=12)


def slow_p(differences: list[int]) -> float:
    """The share of all sign vectors, zeros flipped too, whose sum is as far from 0."""
    observed = abs(sum(differences))
    signs = itertools.product([-1, 1], repeat=len(differences))
    reached = [
        abs(sum(s * d for s, d in zip(flip, differences, strict=True))) >= observed
        for flip in signs
    ]
    return sum(reached) / len(reached)


@given(STEPS)
def test_few_differences_are_tested_by_every_flip(differences: list[int]) -> None:
    assert sign_flip_p(np.array(differences) / 8) == slow_p(differences)


@given(STEPS)
def test_rounding_in_single_precision_breaks_no_tie(differences: list[int]) -> None:
    values = np.array(differences, dtype=np.float32) / np.float32(136 * 7)
    assert sign_flip_p(values) == slow_p(differences)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0], 1.0),  # + and - are both as far
        ([1.0, 1.0, 1.0], 2 / 8),  # +++ and ---
        ([3.0, 1.0, -1.0], 6 / 8),  # the sums are 5, 3, 3 and 1 from 0, twice each; 3 was observed
        ([0.5, 0.0, 0.0], 1.0),
        ([0.0, 0.0], 1.0),
        ([1.0, math.nan, 1.0, 1.0, 1.0], 2 / 16),
    ],
)
def test_p_by_hand(differences: list[float], p: float) -> None:
    assert sign_flip_p(np.array(differences)) == p


@given(SEEDS, st.integers(2, 10))
def test_exact_p_is_scipys(seed: int, n: int) -> None:
    differences = np.random.default_rng(seed).normal(0.5, 1, size=n)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=2**n, vectorized=True
    )
    assert sign_flip_p(differences) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(("n", "n_won"), [(17, 13), (60, 38), (872, 470)])
def test_drawn_flips_of_won_and_lost_queries_are_the_sign_test(n: int, n_won: int) -> None:
    differences = np.array([1.0] * n_won + [-1.0] * (n - n_won) + [0.0] * 100)
    exact = stats.binomtest(n_won, n).pvalue
    error = math.sqrt(exact * (1 - exact) / 20_000)
    assert n > EXACT
    assert sign_flip_p(differences, n_flips=20_000) == pytest.approx(exact, abs=4 * error)


def test_drawn_flips_come_near_all_of_them() -> None:
    differences = np.random.default_rng(4).normal(0.4, 1, size=EXACT + 1)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=2**17, vectorized=True
    ).pvalue
    error = math.sqrt(theirs * (1 - theirs) / 20_000)
    assert 0.01 < theirs < 0.5
    assert sign_flip_p(differences, n_flips=20_000) == pytest.approx(theirs, abs=4 * error)


def test_what_was_observed_counts_as_a_flip() -> None:
    assert sign_flip_p(np.full(200, 0.5), n_flips=99) == 1 / 100


def test_the_same_seed_draws_the_same_flips() -> None:
    differences = np.random.default_rng(0).normal(0.1, 1, size=50)
    one, again, other = (sign_flip_p(differences, seed=seed) for seed in (1, 1, 2))
    assert one == again != other


def test_without_a_query_there_is_no_p() -> None:
    assert math.isnan(sign_flip_p(np.empty(0)))
    assert math.isnan(sign_flip_p(np.full(3, math.nan)))


def test_units_flip_as_one() -> None:
    """Twins that differ alike are one observation: 1/8, where four would be 2/16 of the half."""
    differences, units = np.array([1.0, 1, 2, 2, 1, 1, 3, 3]), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    assert sign_flip_p(differences, units) == 2 / 16
    assert sign_flip_p(differences) == 2 / 256
    opposite = np.array([1.0, -1, 2, -2])
    assert sign_flip_p(opposite, np.array([7, 7, 2, 2])) == 1


@given(SEEDS)
def test_sums_of_units_are_those_of_a_loop(seed: int) -> None:
    draw = np.random.default_rng(seed)
    values, units = draw.normal(size=(3, 20)), draw.integers(9, size=20)
    slow = [[row[units == unit].sum() for unit in sorted(set(units))] for row in values]
    np.testing.assert_allclose(unit_sums(values, units), slow, atol=1e-12)


def test_an_undefined_query_leaves_its_unit() -> None:
    units = np.array([0, 0, 1, 1])
    assert sign_flip_p(np.array([1.0, math.nan, 1.0, 1.0]), units) == 2 / 4


def test_all_rows_share_their_flips() -> None:
    sums = np.random.default_rng(0).normal(size=(3, 13))
    drawn = np.concatenate([*flipped_sums(sums, n_flips=1500, seed=4)])
    assert drawn.shape == (1500, 3)
    gap = np.concatenate([*flipped_sums(sums[:1] - sums[1:2], n_flips=1500, seed=4)])
    np.testing.assert_allclose(drawn[:, :1] - drawn[:, 1:2], gap, atol=1e-12)


def test_flips_are_fair_and_reach_every_unit() -> None:
    each = np.concatenate([*flipped_sums(np.eye(11), n_flips=4000)])
    assert set(np.unique(each)) == {-1.0, 1.0}
    assert np.abs(each.mean(axis=0)).max() < 4 / math.sqrt(4000)
    correlation = np.corrcoef(each.T) - np.eye(11)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(4000)


@pytest.mark.parametrize(
    ("differences", "units"), [(np.ones((2, 2)), None), (np.ones(3), np.zeros(2, dtype=int))]
)
def test_shapes_that_do_not_fit_are_refused(differences: FloatArray, units: FloatArray) -> None:
    with pytest.raises(ValueError, match="expected one difference and one unit per query, got"):
        sign_flip_p(differences, units)  # type: ignore[arg-type]


def test_equal_encoders_are_told_apart_in_5_percent_of_trials() -> None:
    """Two equal encoders: the same queries, hard ones hard for both, with noise of their own."""
    draw, n_trials, n_queries = np.random.default_rng(0), 4000, 200
    found = 0
    for _ in range(n_trials):
        ease = draw.beta(3, 2, size=n_queries) + draw.normal(0, 0.1, size=(2, n_queries))
        one, other = draw.binomial(16, np.clip(ease, 0, 1)) / 16
        assert np.corrcoef(one, other)[0, 1] > 0.2
        found += sign_flip_p(other - one, n_flips=999) < 0.05
    assert 0.04 <= found / n_trials <= 0.06
