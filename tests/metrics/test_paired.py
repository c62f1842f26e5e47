"""Paired comparison: against scipy, slow definitions and simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polarity_bench.metrics.correlation import weighted_correlation
from polarity_bench.metrics.significance import (
    bootstrap_test,
    detectable_difference,
    holm,
    paired_t,
)
from polarity_bench.metrics.similarity import joint, retention
from polarity_bench.metrics.statistics import draws
from polarity_bench.values import FloatArray

SEEDS = st.integers(0, 2**32 - 1)
P_VALUES = st.lists(st.integers(0, 100).map(lambda p: p / 100), max_size=7)


def some_scores(seed: int, n: int) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(seed)
    a = generator.uniform(size=n)
    return a, a + generator.normal(0.05, 0.1, size=n)


# Student's t


@given(seed=SEEDS, n=st.integers(2, 40))
def test_the_test_is_scipys(seed: int, n: int) -> None:
    a, b = some_scores(seed, n)
    found, theirs = paired_t(a, b), stats.ttest_rel(a, b)
    interval = theirs.confidence_interval(0.95)
    assert found.difference == pytest.approx((a - b).mean())
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert found.interval == pytest.approx((interval.low, interval.high), rel=1e-9)


@given(seed=SEEDS, n=st.integers(2, 10))
def test_the_other_way_round_is_the_opposite(seed: int, n: int) -> None:
    a, b = some_scores(seed, n)
    one, other = paired_t(a, b), paired_t(b, a)
    assert (other.difference, other.p) == (-one.difference, one.p)
    assert other.interval == (-one.interval[1], -one.interval[0])


@given(seed=SEEDS, n=st.integers(2, 10))
def test_p_is_below_5_percent_exactly_where_the_interval_is_off_0(seed: int, n: int) -> None:
    found = paired_t(*some_scores(seed, n))
    assert (found.p < 0.05) == (not found.interval[0] <= 0 <= found.interval[1])


def test_folds_that_differ_by_the_same() -> None:
    a = np.array([0.25, 0.5, 0.75])
    same, apart = paired_t(a, a), paired_t(a, a - 0.25)
    assert (same.difference, same.interval, same.p) == (0, (0, 0), 1)
    assert (apart.difference, apart.interval, apart.p) == (0.25, (0.25, 0.25), 0)


def test_below_two_folds_there_is_no_interval() -> None:
    one = paired_t(np.array([0.5]), np.array([0.25]))
    assert one.difference == 0.25
    assert np.isnan([*one.interval, one.p]).all()
    none = paired_t(np.empty(0), np.empty(0))
    assert np.isnan([none.difference, *none.interval, none.p]).all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_undefined_score_is_refused(value: float) -> None:
    a, b = some_scores(0, 4)
    a[2] = value
    for pair in ((a, b), (b, a)):
        with pytest.raises(ValueError, match=r"^1 of 4 folds have an undefined score; remove"):
            paired_t(*pair)


@pytest.mark.parametrize("shape", [(3,), (4, 1)])
def test_scores_of_other_folds_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="both methods need one score per fold, got"):
        paired_t(np.zeros(shape), np.zeros(4))
    with pytest.raises(ValueError, match=r"got \(4, 1\) and \(4, 1\)"):
        paired_t(np.zeros((4, 1)), np.zeros((4, 1)))


# A bootstrap of the difference


@pytest.mark.parametrize(
    ("resampled", "p"),
    [
        ([0.1, 0.2, 0.3], 2 * 1 / 4),  # none of 3 is on the other side, and 1 is added
        ([-0.1, 0.2, 0.3], 2 * 2 / 4),
        ([-0.1, -0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 2 * 3 / 10),
        ([0.0, 0.2, 0.3], 2 * 2 / 4),  # 0 is on either side
        ([0.0, 0.0, 0.0], 1.0),
        ([-0.2, math.nan, -0.3, -0.4], 2 * 1 / 4),
    ],
)
def test_p_of_a_bootstrap_by_hand(resampled: list[float], p: float) -> None:
    found = bootstrap_test(0.25, np.array(resampled), n_drawn=6)
    assert found.p == pytest.approx(p)
    assert found.difference == 0.25
    assert bootstrap_test(-0.25, -np.array(resampled), n_drawn=6).p == found.p


def test_a_bootstrap_of_few_has_neither_interval_nor_p() -> None:
    for resampled, n in ((np.linspace(0, 1, 99), 5), (np.full(9, math.nan), 50)):
        found = bootstrap_test(0.5, resampled, n)
        assert np.isnan([*found.interval, found.p]).all()


@given(seed=SEEDS, shift=st.floats(-3, 3))
def test_p_of_a_bootstrap_is_below_5_percent_where_the_interval_is_off_0(
    seed: int, shift: float
) -> None:
    resampled = np.random.default_rng(seed).normal(shift, 1, size=3999)
    found = bootstrap_test(shift, resampled, 100)
    if abs(found.p - 0.05) > 0.002:  # percentiles lie between two samples
        assert (found.p < 0.05) == (not found.interval[0] <= 0 <= found.interval[1])


def test_the_interval_of_a_paired_difference_is_scipys() -> None:
    draw = np.random.default_rng(5)
    gold = draw.normal(size=150)
    one, other = gold + draw.normal(0, [[0.8], [0.5]], size=(2, 150))

    def difference(x: FloatArray, y: FloatArray, z: FloatArray, axis: int = -1) -> FloatArray:
        found: FloatArray = stats.pearsonr(y, z, axis=axis)[0] - stats.pearsonr(x, z, axis=axis)[0]
        return found

    theirs = stats.bootstrap(
        (one, other, gold),
        difference,
        paired=True,
        n_resamples=8000,
        method="percentile",
        rng=np.random.default_rng(6),
    ).confidence_interval
    weights = np.concatenate([drawn for _, drawn in draws(150, 8000)])
    ours = [weighted_correlation("pearson", side, gold, weights) for side in (one, other)]
    found = bootstrap_test(0.0, ours[1] - ours[0], 150)
    assert found.interval == pytest.approx(tuple(theirs), abs=0.006)
    assert found.interval[0] > 0


def test_equal_encoders_correlate_differently_in_5_percent_of_trials() -> None:
    draw, n_trials, n, found = np.random.default_rng(0), 1000, 150, 0
    weights = np.concatenate([drawn for _, drawn in draws(n, 499)])
    for _ in range(n_trials):
        gold = draw.normal(size=n)
        sides = gold + draw.normal(0, 0.7, size=n) + draw.normal(0, 0.5, size=(2, n))
        one, other = (weighted_correlation("spearman", side, gold, weights) for side in sides)
        found += bootstrap_test(0.0, other - one, n).p < 0.05
    assert 0.04 <= found / n_trials <= 0.06


def test_equal_encoders_are_told_apart_by_joint_in_5_percent_of_trials() -> None:
    draw, n_trials, n, found = np.random.default_rng(1), 2000, 200, 0
    weights = np.concatenate([drawn for _, drawn in draws(n, 999)]) / n
    for _ in range(n_trials):
        ease, near = draw.beta(4, 2, size=n), draw.normal(0.45, 0.1, size=n)
        p = draw.binomial(16, np.clip(ease + draw.normal(0, 0.1, (2, n)), 0, 1)) / 16
        s = near + draw.normal(-0.05, 0.05, size=(2, n))
        chance, of_reference = weights @ draw.normal(0.2, 0.02, size=n), weights @ near
        one, other = (
            joint(weights @ p[i], np.array(0.5), retention(weights @ s[i], chance, of_reference))
            for i in range(2)
        )
        assert one.min() > 0.1
        found += bootstrap_test(0.0, other - one, n).p < 0.05
    assert 0.04 <= found / n_trials <= 0.06


# Holm


def closed_testing(p_values: list[float]) -> list[float]:
    """Holm by what it abbreviates: a test holds if all sets that it is in do, by Bonferroni."""
    n = range(len(p_values))
    exact = [Fraction(p).limit_denominator(100) for p in p_values]
    sets = [each for size in n for each in itertools.combinations(n, size + 1)]
    return [
        float(min(Fraction(1), max(len(s) * min(exact[j] for j in s) for s in sets if i in s)))
        for i in n
    ]


@given(p_values=P_VALUES)
def test_holm_is_closed_testing_by_bonferroni(p_values: list[float]) -> None:
    assert holm(p_values).tolist() == pytest.approx(closed_testing(p_values))


@given(p_values=P_VALUES, seed=SEEDS)
def test_holm_goes_by_the_values_and_not_their_order(p_values: list[float], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(p_values))
    raw = np.array(p_values)
    assert holm(raw[shuffled]).tolist() == holm(raw)[shuffled].tolist()


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([], []),
        ([0.04], [0.04]),
        # 4 x 0.005, 3 x 0.01, 2 x 0.03, 1 x 0.04 raised to the one before
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.6, 0.9], [1.0, 1.0]),
        ([0.0, 1.0], [0.0, 1.0]),
    ],
)
def test_holm_by_hand(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values).tolist() == pytest.approx(corrected)


@pytest.mark.parametrize("value", [math.nan, -0.01, 1.01])
def test_what_is_no_p_value_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"^p-values must be in \[0, 1\], got \[{value}\]"):
        holm([0.5, value])


# What n folds can show


@pytest.mark.parametrize(("n", "power"), [(2, 0.3), (5, 0.8), (40, 0.06), (40, 0.8), (40, 0.95)])
def test_a_detectable_difference_is_found_as_often_as_it_says(n: int, power: float) -> None:
    sd, n_trials = 3.0, 20_000
    difference = detectable_difference(sd, n, power=power)
    generator = np.random.default_rng(0)
    drawn = generator.normal(difference, sd, size=(n_trials, n))
    found = float(np.mean(stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05))
    error = math.sqrt(power * (1 - power) / n_trials)
    assert found == pytest.approx(power, abs=4 * error)


def test_half_a_deviation_takes_the_34_pairs_of_textbooks() -> None:
    assert detectable_difference(1.0, 34) < 0.5 < detectable_difference(1.0, 33)


@given(sd=st.floats(0.01, 100), n=st.integers(2, 200))
def test_fewer_folds_more_deviation_and_more_certainty_need_a_larger_difference(
    sd: float, n: int
) -> None:
    found = detectable_difference(sd, n)
    assert found > detectable_difference(sd, n + 1)
    assert found < detectable_difference(sd, n, power=0.9)
    assert found < detectable_difference(sd, n, alpha=0.01)
    assert detectable_difference(2 * sd, n) == pytest.approx(2 * found)


def test_the_detectable_difference_of_none_or_many_folds() -> None:
    assert math.isnan(detectable_difference(1.0, 1))
    assert detectable_difference(0.0, 5) == 0
    normal = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / math.sqrt(10_000)
    assert detectable_difference(1.0, 10_000) == pytest.approx(normal, rel=1e-3)
    assert math.isfinite(detectable_difference(1.0, 2, power=0.999, alpha=0.0001))


def test_a_difference_that_cannot_be_asked_for_is_refused() -> None:
    for sd in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"^the standard deviation must be .*, got {sd}"):
            detectable_difference(sd, 5)
    for power, alpha in ((0.05, 0.05), (1.0, 0.05), (0.8, 0.0), (math.nan, 0.05)):
        with pytest.raises(ValueError, match=rf"got alpha {alpha} and power {power}"):
            detectable_difference(1.0, 5, power=power, alpha=alpha)
