"""Cosines, correlations and the intervals of rank correlation against scipy and slow loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import spearmanr

from polarity_bench.metrics.correlation import (
    COEFFICIENTS,
    correlate,
    many_correlations,
    mean_ranks,
    spearman_interval,
    weighted_correlation,
)
from polarity_bench.metrics.similarity import cosine
from polarity_bench.metrics.statistics import N_SAMPLES, SEED, draws

SEEDS = st.integers(0, 2**32 - 1)


def test_cosine_by_hand() -> None:
    first = np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    second = np.array([[6.0, 8.0], [-2.0, 0.0], [1.0, 1.0]])
    assert cosine(first, second) == pytest.approx([1, -1, 2**-0.5])


@given(SEEDS)
def test_cosine_is_that_of_each_pair_and_blind_to_length(seed: int) -> None:
    draw = np.random.default_rng(seed)
    first, second = draw.standard_normal((2, 7, 5)).astype(np.float32)
    slow = [
        float(u.astype(float) @ v / (np.linalg.norm(u.astype(float)) * np.linalg.norm(v)))
        for u, v in zip(first, second.astype(float), strict=True)
    ]
    assert cosine(first, second) == pytest.approx(slow, abs=1e-12)
    assert cosine(4 * first, second) == pytest.approx(slow, abs=1e-12)
    assert cosine(second, first) == pytest.approx(slow, abs=1e-12)


def test_vectors_without_a_direction_or_a_partner_are_refused() -> None:
    with pytest.raises(ValueError, match="pair 1 has a zero vector"):
        cosine(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))
    with pytest.raises(ValueError, match=r"the same shape, got \(1, 2\) and \(2, 2\)"):
        cosine(np.ones((1, 2)), np.ones((2, 2)))


@given(st.lists(st.sampled_from([-1.5, 0.0, -0.0, 2e-9, 3.0]) | st.floats(-9, 9), min_size=1))
def test_ranks_are_scipys(values: list[float]) -> None:
    assert np.array_equal(mean_ranks(np.array(values)), stats.rankdata(values))


@given(SEEDS)
def test_correlations_are_scipys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    similarities, gold = draw.standard_normal(20), draw.integers(6, size=20) + draw.random(20)
    found = correlate(similarities, gold)
    assert found.pearson == stats.pearsonr(similarities, gold)[0]
    assert found.spearman == stats.spearmanr(similarities, gold)[0]
    assert found.n == 20


def test_a_constant_has_no_correlation() -> None:
    found = correlate(np.ones(5), np.arange(5.0))
    assert np.isnan([found.pearson, found.spearman]).all()


@pytest.mark.parametrize("decimals", [1, 9])
def test_the_interval_is_that_of_a_slow_loop(decimals: int) -> None:
    draw = np.random.default_rng(1)
    one = draw.normal(size=30)
    other = np.round(one + draw.normal(size=30), decimals)  # with ties, or without
    generator = np.random.default_rng(SEED)
    slow = [
        spearmanr(one[drawn], other[drawn]).statistic
        for drawn in generator.integers(30, size=(N_SAMPLES, 30))
    ]
    found = spearman_interval(one, other)
    np.testing.assert_allclose(found, np.percentile(slow, [2.5, 97.5]), atol=1e-12)
    assert found[0] < spearmanr(one, other).statistic < found[1]


def test_a_constant_side_has_no_interval() -> None:
    found = spearman_interval(np.ones(10), np.arange(10.0))
    assert all(map(math.isnan, found))


def test_the_interval_is_the_same_again_and_blind_to_scale() -> None:
    draw = np.random.default_rng(3)
    one, other = draw.normal(size=(2, 25))
    found = spearman_interval(one, other)
    assert found == spearman_interval(one, other)
    assert found == spearman_interval(np.exp(one), 3 * other + 1)


@given(SEEDS, st.booleans())
def test_a_weighted_correlation_is_that_of_the_resampled_columns(seed: int, tied: bool) -> None:
    draw = np.random.default_rng(seed)
    one, other = draw.integers(4, size=(2, 15)) if tied else draw.normal(size=(2, 15))
    one, other = one.astype(float), other.astype(float)
    drawn = draw.integers(15, size=(5, 15))
    weights = np.array([np.bincount(rows, minlength=15) for rows in drawn], dtype=float)
    spearman = weighted_correlation("spearman", one, other, weights)
    pearson = weighted_correlation("pearson", one, other, weights)
    for rows, *found in zip(drawn, spearman, pearson, strict=True):
        slow = correlate(one[rows], other[rows])
        assert found == pytest.approx([slow.spearman, slow.pearson], nan_ok=True)


def test_weights_of_a_constant_sample_have_no_correlation() -> None:
    weights = np.array([[3.0, 0, 0], [1, 1, 1]])
    for coefficient in COEFFICIENTS:
        found = weighted_correlation(coefficient, np.arange(3.0), np.arange(3.0), weights)
        assert math.isnan(found[0])
        assert found[1] == pytest.approx(1)
        with pytest.raises(ValueError, match=r"got shapes \[\(3,\), \(2,\), \(2, 3\)\]"):
            weighted_correlation(coefficient, np.arange(3.0), np.arange(2.0), weights)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 0.7])
def test_a_constant_column_has_no_correlation_in_any_sample(constant: float) -> None:
    """Its mean differs from it in the last digit, which must not count as a variance."""
    generator = np.random.default_rng(0)
    column, other = np.full(50, constant), generator.uniform(0, 5, 50)
    weights = np.vstack([np.ones(50), generator.multinomial(50, np.full(50, 0.02), 3)])
    for coefficient in COEFFICIENTS:
        assert np.isnan(weighted_correlation(coefficient, column, other, weights)).all()


@pytest.mark.parametrize("digits", [1, 6], ids=["ties", "no ties"])
def test_many_are_correlated_as_each_by_itself(digits: int) -> None:
    generator = np.random.default_rng(5)
    n, n_samples = 1500, 400
    gold = generator.integers(0, 26, n) / 5
    columns = (gold + generator.normal(0, [[0.5], [1.0], [3.0]], (3, n))).round(digits)
    weights = np.concatenate([counts for _, counts in draws(n, n_samples)])
    once = np.ones((1, n))
    for coefficient in COEFFICIENTS:
        slow, exact = (
            np.stack([weighted_correlation(coefficient, column, gold, w) for column in columns])
            for w in (weights, once)
        )
        found = many_correlations(coefficient, columns, gold, weights)
        assert many_correlations(coefficient, columns, gold, once) == pytest.approx(exact)
        if coefficient == "pearson":
            assert found == pytest.approx(slow)
        else:  # to first order
            deviations = [np.std(r[[0, 0, 1]] - r[[1, 2, 2]], axis=1) for r in (found, slow)]
            assert deviations[0] == pytest.approx(deviations[1], rel=0.01)
            assert found == pytest.approx(slow, abs=0.005)


def test_many_of_a_constant_column_are_undefined() -> None:
    columns = np.stack([np.full(8, 0.1), np.arange(8.0)])
    for coefficient in COEFFICIENTS:
        found = many_correlations(coefficient, columns, np.arange(8.0), np.ones((1, 8)))
        assert np.isnan(found[0, 0])
        assert found[1, 0] == pytest.approx(1)
