"""All pairs of encoders: against the test of one pair, exact tails, slow loops and simulation."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polarity_bench.metrics.pairwise import (
    Pairwise,
    detectable,
    holm_of_pairs,
    pairwise_resampled,
    rank_ranges,
    tie_groups,
    unit_moments,
)
from polarity_bench.metrics.pairwise import pairwise_means as pairwise_of_moments
from polarity_bench.metrics.significance import bootstrap_test, sign_flip_p
from polarity_bench.metrics.statistics import Bootstrap
from polarity_bench.values import FloatArray, IntArray

SEEDS = st.integers(0, 2**32 - 1)


def pairwise_means(tasks: Sequence[FloatArray], units: Sequence[IntArray | None] = ()) -> Pairwise:
    """The comparison of all pairs, from the values per query of each task."""
    moments = map(unit_moments, tasks, units or [None] * len(tasks))
    return pairwise_of_moments(list(moments))


def some_values(n: int, n_queries: int, seed: int, skill: float = 0.0) -> FloatArray:
    """P of encoders, in sixteenths: hard queries are hard for all."""
    draw = np.random.default_rng(seed)
    ease = draw.beta(3, 2, size=n_queries) + draw.normal(0, 0.1, size=(n, n_queries))
    ease += draw.normal(0, skill, size=(n, 1))
    drawn: FloatArray = draw.binomial(16, np.clip(ease, 0, 1)) / 16
    return drawn


def matrix(n: int, p: dict[tuple[int, int], float]) -> FloatArray:
    found = np.ones((n, n))
    for (i, j), value in p.items():
        found[i, j] = found[j, i] = value
    return found


# Means


@pytest.mark.parametrize("kind", ["sixteenths", "right", "any"])
def test_p_is_that_of_flips(kind: str) -> None:
    values = some_values(6, 300, seed=1, skill=0.05)
    if kind == "right":
        values = (values > 0.5).astype(float)
    if kind == "any":
        values = values + np.random.default_rng(2).normal(0, 0.2, size=values.shape)
    found = pairwise_means([values])
    compared = 0
    for i, j in itertools.combinations(range(6), 2):
        p = sign_flip_p(values[i] - values[j], n_flips=40_000)
        assert found.p[i, j] == found.p[j, i]
        if p > 0.001:
            error = math.sqrt(p * (1 - p) / 40_000)
            assert found.p[i, j] == pytest.approx(p, abs=4 * error, rel=0.03)
            compared += 1
    assert compared >= 6


@pytest.mark.parametrize("n", [30, 50, 100, 400])
def test_p_of_right_and_wrong_is_never_below_the_sign_test(n: int) -> None:
    """Down to the 4e-7 that Holm's correction of 500 encoders asks for, and beyond."""
    smallest = 1.0
    for n_won in range((n + 1) // 2, n + 1):
        values = np.zeros((2, n + 10))
        values[0, :n_won] = values[1, n_won:n] = 1
        exact, p = stats.binomtest(n_won, n).pvalue, pairwise_means([values]).p[0, 1]
        assert p > 0.99 * exact
        if exact > 0.01:
            assert p < 1.25 * exact
        smallest = min(smallest, p)
    assert smallest < 4e-7


def test_tails_of_values_of_many_sizes_are_on_the_safe_side() -> None:
    """The exact far tail of 20 sizes, ten times each, as a sum of independent lattice variables."""
    sizes = np.repeat(np.arange(1, 21), 10)
    pmf = np.ones(1)
    for size in sizes:
        nothing = np.zeros(2 * size)
        pmf = (np.concatenate([pmf, nothing]) + np.concatenate([nothing, pmf])) / 2
    sums = np.arange(len(pmf)) - sizes.sum()
    for flipped in (range(0, 200, 3), range(0, 200, 4), range(0, 200, 5)):
        differences = sizes.astype(float)
        differences[[*flipped]] *= -1
        exact = pmf[np.abs(sums) >= abs(differences.sum()) - 0.5].sum()
        p = pairwise_means([np.stack([differences, np.zeros(200)])]).p[0, 1]
        assert exact < 0.001
        assert exact < p < 100 * exact


def test_few_differences_are_tested_by_flips_that_all_pairs_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = some_values(5, 9, seed=4, skill=0.2)
    monkeypatch.setattr("polarity_bench.metrics.pairwise.N_FLIPS", 40_000)
    found = pairwise_means([values])
    for i, j in itertools.combinations(range(5), 2):
        exact = sign_flip_p(values[i] - values[j])
        error = math.sqrt(exact * (1 - exact) / 40_000)
        assert found.p[i, j] == pytest.approx(exact, abs=4 * error + 1e-4)


def test_an_encoder_and_its_copy_do_not_differ() -> None:
    values = some_values(3, 50, seed=0)
    values[2] = values[0]
    found = pairwise_means([values])
    assert (found.p[0, 2], found.error[0, 2], found.difference[0, 2]) == (1, 0, 0)
    assert np.diag(found.p).tolist() == [1, 1, 1]


@given(SEEDS)
def test_differences_and_their_errors_are_numpys(seed: int) -> None:
    values = some_values(4, 30, seed)
    values[1] = values[0] + 1e-6 * np.random.default_rng(seed).normal(size=30)  # nearly a copy
    found = pairwise_means([values])
    for i, j in itertools.combinations(range(4), 2):
        gap = values[i] - values[j]
        assert found.difference[i, j] == pytest.approx(gap.mean(), abs=1e-12)
        assert found.error[i, j] == pytest.approx(gap.std(ddof=1) / math.sqrt(30), rel=1e-6)


def test_units_are_tested_whole() -> None:
    """Every query twice, as twins: as if each stood once."""
    values = some_values(3, 100, seed=5, skill=0.05)
    once = pairwise_means([values])
    twice = pairwise_means([np.repeat(values, 2, axis=1)], [np.repeat(np.arange(100), 2)])
    np.testing.assert_allclose(twice.p, once.p, rtol=1e-9)
    np.testing.assert_allclose(twice.error, once.error, rtol=1e-9, atol=1e-12)
    apart = pairwise_means([np.repeat(values, 2, axis=1)])
    assert apart.p[0, 1] < once.p[0, 1]


def test_a_query_that_one_lacks_is_left_out_of_all() -> None:
    values = some_values(3, 60, seed=6)
    without = pairwise_means([np.delete(values, 7, axis=1)])
    values[1, 7] = math.nan
    np.testing.assert_allclose(pairwise_means([values]).p, without.p)


def test_the_mean_of_tasks_weighs_tasks_alike() -> None:
    tasks = [some_values(3, n, seed, 0.05) for seed, n in enumerate((40, 400))]
    found = pairwise_means(tasks)
    means = np.mean([values.mean(axis=1) for values in tasks], axis=0)
    assert found.scores == pytest.approx(means)
    gaps = [values[0] - values[1] for values in tasks]
    error = math.hypot(*(g.std(ddof=1) / math.sqrt(len(g)) for g in gaps)) / 2
    assert found.error[0, 1] == pytest.approx(error)
    p = sign_flip_p(np.concatenate([gaps[0] * 10, gaps[1]]), n_flips=40_000)
    assert found.p[0, 1] == pytest.approx(p, abs=4 * math.sqrt(p / 40_000), rel=0.03)


def test_the_mean_of_tasks_of_right_and_wrong_is_on_the_safe_side() -> None:
    """Of so few queries; without a correction p is too small by up to a tenth."""
    n_compared = 0
    for seed in range(12):
        tasks = [
            (some_values(2, n, seed + 2 * i, 0.03) > 0.5).astype(float)
            for i, n in enumerate((60, 97))
        ]
        gaps = [values[0] - values[1] for values in tasks]
        p = sign_flip_p(np.concatenate([gaps[0] / 60, gaps[1] / 97]), n_flips=40_000)
        if 0.01 < p < 0.6:
            n_compared += 1
            assert 0.97 * p < pairwise_means(tasks).p[0, 1] < 1.4 * p
    assert n_compared > 5


def test_tasks_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have the same encoders, got \[2, 3\]"):
        pairwise_means([np.ones((2, 5)), np.ones((3, 5))])
    with pytest.raises(ValueError, match=r"same encoders, got \[\]"):
        pairwise_means([])
    with pytest.raises(ValueError, match="every query is undefined for at least one encoder"):
        pairwise_means([np.array([[1.0, math.nan], [math.nan, 1.0]])])


# Statistics that are no means


def test_resampled_means_are_tested_as_means_are() -> None:
    values = some_values(4, 400, seed=7, skill=0.04)
    bootstrap = Bootstrap(dict(enumerate(values)), n_samples=4000)
    resampled = np.stack([bootstrap.resampled[i] for i in range(4)])
    found, means = pairwise_resampled(values.mean(axis=1), resampled), pairwise_means([values])
    np.testing.assert_allclose(found.error, means.error, rtol=0.05, atol=1e-12)
    for i, j in itertools.combinations(range(4), 2):
        test = bootstrap_test(found.difference[i, j], resampled[i] - resampled[j], 400)
        assert found.p[i, j] == pytest.approx(test.p, abs=0.02)
        assert found.p[i, j] == pytest.approx(means.p[i, j], abs=0.02)
    assert found.p.min() < 0.05 < np.partition(found.p.ravel(), -5)[-5]


def test_samples_without_deviation_are_certain() -> None:
    resampled = np.array([[0.5, 0.7], [0.5, 0.7], [0.25, 0.45]])
    found = pairwise_resampled(np.array([0.6, 0.6, 0.35]), resampled)
    assert found.p[0].tolist() == [1, 1, pytest.approx(0, abs=1e-12)]


def test_an_undefined_sample_is_left_out() -> None:
    resampled = np.array([[0.4, 0.6, 0.5, math.nan], [0.4, 0.4, 0.4, 0.0]])
    found = pairwise_resampled(np.array([0.5, 0.4]), resampled)
    assert found.error[0, 1] == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"at least 2 samples .* got 0 of 3"):
        pairwise_resampled(np.zeros(2), np.full((2, 3), math.nan))
    with pytest.raises(ValueError, match=r"shape \(2,\) do not match samples of shape \(3, 4\)"):
        pairwise_resampled(np.zeros(2), np.zeros((3, 4)))


# Correction, ranks and groups


def test_pairs_are_corrected_by_holm_by_hand() -> None:
    raw = matrix(3, {(0, 1): 0.02, (0, 2): 0.01, (1, 2): 0.04})
    # 3 x 0.01, 2 x 0.02, 1 x 0.04 raised to the one before
    corrected = matrix(3, {(0, 1): 0.04, (0, 2): 0.03, (1, 2): 0.04})
    np.testing.assert_allclose(holm_of_pairs(raw), corrected)
    assert holm_of_pairs(np.ones((1, 1))).tolist() == [[1.0]]


SCORES = np.array([0.7, 0.9, 0.6, 0.8])
APART = matrix(4, {(1, 0): 0.01, (1, 2): 0.01, (3, 2): 0.04, (3, 0): 0.05})
"""In order 1, 3, 0, 2: the first differs from the third and fourth, the second from the fourth."""


def test_rank_ranges_by_hand() -> None:
    # 0 has one above it, none below; 1 two below; 2 two above; 3 one below
    assert rank_ranges(SCORES, APART).tolist() == [[2, 4], [1, 2], [3, 4], [1, 3]]


def test_tie_groups_by_hand() -> None:
    assert tie_groups(SCORES, APART) == [(1, 3), (3, 0), (0, 2)]
    assert tie_groups(SCORES, np.ones((4, 4))) == [(1, 3, 0, 2)]
    assert tie_groups(SCORES, np.zeros((4, 4))) == [(1,), (3,), (0,), (2,)]
    assert tie_groups(np.empty(0), np.empty((0, 0))) == []
    # The first and the third do not differ, but the second differs from the first.
    enclosing = matrix(3, {(0, 1): 0.01, (0, 2): 0.3, (1, 2): 0.2})
    assert tie_groups(np.array([0.9, 0.8, 0.7]), enclosing) == [(0,), (0, 2), (1, 2)]


def test_equal_scores_are_never_apart() -> None:
    scores, p = np.array([0.5, 0.5]), np.zeros((2, 2))
    assert rank_ranges(scores, p).tolist() == [[1, 2], [1, 2]]
    assert tie_groups(scores, p) == [(0, 1)]


@given(SEEDS, st.integers(1, 9))
def test_groups_are_all_the_longest_runs_without_a_difference(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.permutation(n) / n
    p = matrix(n, {pair: draw.uniform(0, 0.2) for pair in itertools.combinations(range(n), 2)})
    order = sorted(range(n), key=lambda i: -scores[i])
    runs = [order[a:b] for a in range(n) for b in range(a + 1, n + 1)]
    alike = [tuple(run) for run in runs if all(p[i, j] >= 0.05 for i in run for j in run if i != j)]
    longest = [run for run in alike if not any(set(run) < set(other) for other in alike)]
    groups = tie_groups(scores, p)
    assert [group for group in groups if group in longest] == longest
    assert all(len(group) == 2 for group in groups if group not in longest)
    # Every pair is in a common group if and only if it does not differ, and no group is twice.
    together = {pair for group in groups for pair in itertools.permutations(group, 2)}
    assert together == {(i, j) for i in order for j in order if i != j and p[i, j] >= 0.05}
    assert len({*groups}) == len(groups)


@given(SEEDS, st.integers(1, 9))
def test_a_range_holds_the_rank_by_score(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.permutation(n) / n
    p = matrix(n, {pair: draw.uniform(0, 0.2) for pair in itertools.combinations(range(n), 2)})
    for score, (best, worst) in zip(scores, rank_ranges(scores, p), strict=True):
        assert 1 <= best <= 1 + (scores > score).sum() <= worst <= n


def test_undefined_scores_have_no_rank() -> None:
    for ranked in (rank_ranges, tie_groups):
        with pytest.raises(
            ValueError, match="1 of 2 scores are undefined; leave these encoders out"
        ):
            ranked(np.array([0.5, math.nan]), np.ones((2, 2)))
        with pytest.raises(ValueError, match=r"2 scores do not match p-values of shape \(3, 3\)"):
            ranked(np.zeros(2), np.ones((3, 3)))


@pytest.mark.parametrize("kind", ["sixteenths", "right"])
def test_boards_of_equal_encoders_are_one_group(kind: str) -> None:
    n, n_boards, whole, told = 8, 1500, 0, 0.0
    for seed in range(n_boards):
        values = some_values(n, 150, seed)
        if kind == "right":
            values = (values > 0.5).astype(float)
        found = pairwise_means([values])
        corrected = holm_of_pairs(found.p)
        groups = tie_groups(found.scores, corrected)
        ranges = rank_ranges(found.scores, corrected)
        assert (len(groups) == 1) == bool((ranges == [1, n]).all())
        whole += len(groups) == 1
        told += (found.p < 0.05).sum() / (n * (n - 1)) / n_boards
    assert 0.95 <= whole / n_boards < 1
    assert 0.02 < told < 0.055  # by itself, each pair is told apart about as often as it may


def test_encoders_that_differ_are_told_apart() -> None:
    values = some_values(3, 400, seed=8)
    values[0] = np.clip(values[0] + 0.2, 0, 1)
    found = pairwise_means([values])
    corrected = holm_of_pairs(found.p)
    assert rank_ranges(found.scores, corrected).tolist() == [[1, 1], [2, 3], [2, 3]]
    assert [set(group) for group in tie_groups(found.scores, corrected)] == [{0}, {1, 2}]


# What a task can show


def test_a_detectable_difference_is_found_four_times_in_five() -> None:
    """Equal encoders, one of which is then better by as much on every query."""
    n_queries, n_trials, found = 300, 1500, 0
    least = detectable(pairwise_means([some_values(2, n_queries, seed=10_000)]), n_queries)
    for seed in range(n_trials):
        values = some_values(2, n_queries, seed)
        found += pairwise_means([values + np.array([[0.0], [least]])]).p[0, 1] < 0.05
    assert 0.01 < least < 0.1
    assert found / n_trials == pytest.approx(0.8, abs=0.05)


def test_what_a_task_shows_is_the_median_of_its_pairs() -> None:
    error = matrix(4, dict.fromkeys(itertools.combinations(range(4), 2), 0.0))
    pairs = {(0, 1): 0.01, (0, 2): 0.02, (1, 2): 0.05}  # the fourth is a copy of all, say
    for pair, value in pairs.items():
        error[pair] = error[pair[::-1]] = value
    np.fill_diagonal(error, 0)
    found = Pairwise(np.zeros(4), np.zeros((4, 4)), error, np.ones((4, 4)))
    normal = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert detectable(found, 100_000) == pytest.approx(0.02 * normal, rel=1e-4)
    assert detectable(found, 100_000, power=0.9) > detectable(found, 100_000)
    assert detectable(found, 10) > detectable(found, 100)
    assert math.isnan(detectable(found, 1))
    none = Pairwise(np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2)), np.ones((2, 2)))
    assert math.isnan(detectable(none, 100))


def test_500_encoders_are_compared_in_seconds() -> None:
    values = some_values(500, 872, seed=0, skill=0.05)
    begun = time.perf_counter()
    found = pairwise_means([values])
    corrected = holm_of_pairs(found.p)
    ranges, groups = rank_ranges(found.scores, corrected), tie_groups(found.scores, corrected)
    assert time.perf_counter() - begun < 10
    assert len({tuple(each) for each in ranges.tolist()}) > 50
    assert len(groups) > 50
    assert {i for group in groups for i in group} == set(range(500))
