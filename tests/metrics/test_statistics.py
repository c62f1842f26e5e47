"""Means, deviations and bootstrap intervals against slow loops, scipy and earlier draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polarity_bench.metrics.statistics import (
    LEAST_DRAWN,
    Bootstrap,
    Resampling,
    draws,
    interval_over_seeds,
)
from polarity_bench.scores import Score
from polarity_bench.values import FloatArray, IntArray


def test_scores_leave_nan_out_and_count_it() -> None:
    values = [1.0, math.nan, 0.0, math.nan, 0.5, 1.0, 0.0, 0.5]
    score = Bootstrap({"m": np.array(values)}).score("m")
    assert (score.mean, score.n, score.n_undefined) == (0.5, 6, 2)
    assert score.std == pytest.approx(np.std([1.0, 0.0, 0.5]))  # population, as in the papers
    assert score.ci95[0] <= score.mean <= score.ci95[1]


def test_a_metric_that_is_defined_nowhere_is_nan() -> None:
    score = Bootstrap({"m": np.full(4, math.nan)}).score("m")
    assert all(map(math.isnan, (score.mean, score.std, *score.ci95)))
    assert (score.n, score.n_undefined) == (0, 4)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_queries_have_no_interval(n: int) -> None:
    """Equal values of them would have one without width, a false certainty."""
    bootstrap = Bootstrap({"m": np.full(n, 0.25)})
    for score in (bootstrap.score("m"), bootstrap.derived(lambda means: means["m"])):
        assert score.mean == 0.25
        assert all(map(math.isnan, score.ci95))
    enough = np.array([*[math.nan] * n, *[0.25] * LEAST_DRAWN])
    assert Bootstrap({"m": enough}).score("m").ci95 == (0.25, 0.25)
    assert all(map(math.isnan, Bootstrap({"m": enough[:-1]}).score("m").ci95))


def test_an_undefined_statistic_has_no_interval() -> None:
    """The samples may be defined where the mean itself is not."""
    bootstrap = Bootstrap({"m": np.arange(20.0)})

    def undefined_at_the_mean(means: Mapping[str, FloatArray]) -> FloatArray:
        return np.where(means["m"] == 9.5, np.nan, means["m"])

    score = bootstrap.derived(undefined_at_the_mean)
    assert np.isnan([score.mean, *score.ci95]).all()
    assert score.n_undefined == 1


def test_few_twins_have_no_interval() -> None:
    units, strata = pairs_of_twins(LEAST_DRAWN - 1)
    few = Bootstrap({"m": np.ones(len(units))}, resampling=Resampling(units, strata))
    for score in (few.score("m"), few.derived(lambda means: means["m"])):
        assert all(map(math.isnan, score.ci95))


def test_the_least_number_is_what_a_range_needs_to_hold_the_median() -> None:
    """All n observations lie on one side of the median with probability 2 * 0.5**n."""
    assert 2 * 0.5**LEAST_DRAWN <= 0.05 < 2 * 0.5 ** (LEAST_DRAWN - 1)


def test_the_interval_is_about_scipys() -> None:
    values = np.random.default_rng(5).beta(2, 3, size=400)
    ours = Bootstrap({"m": values}).score("m").ci95
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(6)
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_the_interval_is_seeded() -> None:
    values = np.random.default_rng(5).random(50)
    assert Bootstrap({"m": values}).score("m") == Bootstrap({"m": values}).score("m")


@pytest.mark.parametrize("n_samples", [1, 250, 251, 600])
def test_every_sample_is_drawn_whatever_their_number(n_samples: int) -> None:
    resampled = Bootstrap({"m": np.ones(5)}, n_samples=n_samples).resampled["m"]
    assert resampled.tolist() == [1.0] * n_samples


def test_a_derived_statistic_is_resampled_in_step() -> None:
    a = np.random.default_rng(7).random(100)
    bootstrap = Bootstrap({"a": a, "b": a + 1})
    difference: Callable[..., FloatArray] = lambda means: means["b"] - means["a"]  # noqa: E731
    score = bootstrap.derived(difference)
    assert (score.mean, *score.ci95) == pytest.approx((1, 1, 1))
    assert score.n == 100
    assert math.isnan(score.std)


# What is drawn


def slow_means(
    values: FloatArray, n_samples: int, seed: int, resampling: Resampling | None
) -> list[float]:
    """Draw as many units of each stratum as it has, lay their queries together, take the mean."""
    units = range(len(values)) if resampling is None else resampling.units.tolist()
    strata = [0] * len(values) if resampling is None else resampling.strata.tolist()
    members: dict[int, list[int]] = {}
    for unit, stratum in sorted(set(zip(units, strata, strict=True))):
        members.setdefault(stratum, []).append(unit)
    generator = np.random.default_rng(seed)
    means = []
    for start in range(0, n_samples, 250):
        n_drawn = min(250, n_samples - start)
        draws = {
            stratum: generator.integers(len(found), size=(n_drawn, len(found)))
            for stratum, found in sorted(members.items())
        }
        for sample in range(n_drawn):
            drawn: list[float] = []
            for stratum, found in members.items():
                for place in draws[stratum][sample]:
                    unit = found[place]
                    drawn += [v for v, u in zip(values, units, strict=True) if u == unit]
            defined = [value for value in drawn if not math.isnan(value)]
            means.append(sum(defined) / len(defined) if defined else math.nan)
    return means


@st.composite
def resamplings(draw: st.DrawFn) -> Resampling | None:
    """Units of 1 to 3 queries in up to 3 strata, in any order and with gaps in the numbers."""
    if draw(st.booleans()):
        return None
    sizes = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=5))
    pairs = [(7 * unit, 5 * stratum) for unit, (n, stratum) in enumerate(sizes) for _ in range(n)]
    shuffled = draw(st.permutations(pairs))
    units, strata = (np.array(side) for side in zip(*shuffled, strict=True))
    return Resampling(units, strata)


@given(resamplings(), st.integers(0, 99), st.sampled_from([3, 251]))
def test_samples_are_those_of_a_slow_double_loop(
    resampling: Resampling | None, seed: int, n_samples: int
) -> None:
    n = 6 if resampling is None else len(resampling.units)
    values = np.random.default_rng(seed).random(n)
    values[values < 0.1] = math.nan
    found = Bootstrap({"m": values}, n_samples, seed, resampling).resampled["m"]
    wanted = slow_means(values, n_samples, seed, resampling)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_queries_are_drawn_as_they_were_for_the_committed_results() -> None:
    """Of 250 samples at a time, from one generator; numbers of the code before `Resampling`."""
    some_undefined = np.array([math.nan, 0, 1, 0, 1, 1, 0, 1, 1, 0])
    bootstrap = Bootstrap({"a": np.arange(10) / 8, "b": some_undefined})
    assert bootstrap.resampled["a"][:3].tolist() == pytest.approx([0.5, 0.725, 0.825], abs=1e-12)
    assert bootstrap.resampled["a"].sum() == pytest.approx(564.75, abs=1e-9)
    assert bootstrap.score("a").ci95 == pytest.approx((0.35, 0.775), abs=1e-12)
    assert bootstrap.score("b").ci95 == pytest.approx((0.22166666666666668, 8 / 9), abs=1e-12)


def pairs_of_twins(n_pairs: int) -> tuple[IntArray, IntArray]:
    """Units of two queries that lie apart, and one stratum of all."""
    units = np.concatenate([np.arange(n_pairs), np.arange(n_pairs)[::-1]])
    return units, np.zeros(2 * n_pairs, dtype=np.int64)


def test_a_unit_of_twins_is_drawn_together() -> None:
    units, strata = pairs_of_twins(20)
    opposite = np.random.default_rng(0).random(20)
    values = {"opposite": np.concatenate([opposite, 1 - opposite[::-1]]), "equal": opposite[units]}
    alone = Bootstrap(values)
    together = Bootstrap(values, resampling=Resampling(units, strata))
    assert together.resampled["opposite"] == pytest.approx(0.5, abs=1e-12)
    assert np.ptp(alone.resampled["opposite"]) > 0.1
    ratio = together.resampled["equal"].std() / alone.resampled["equal"].std()
    assert ratio == pytest.approx(math.sqrt(2), abs=0.1)  # half as many observations
    assert together.means == alone.means


def test_every_sample_has_as_many_units_of_a_stratum_as_there_are() -> None:
    units = np.arange(30)
    strata = np.repeat([2, 0, 1], 10)
    values = {"stratum": strata.astype(float), "noise": np.random.default_rng(0).random(30)}
    bootstrap = Bootstrap(values, resampling=Resampling(units, strata))
    assert bootstrap.resampled["stratum"] == pytest.approx(1, abs=1e-12)
    assert np.ptp(bootstrap.resampled["noise"]) > 0.1


def test_units_of_one_query_in_one_stratum_are_queries() -> None:
    values = {"m": np.random.default_rng(0).random(12)}
    units = Resampling(np.arange(12), np.zeros(12, dtype=np.int64))
    found = Bootstrap(values, resampling=units).resampled["m"]
    assert found == pytest.approx(Bootstrap(values).resampled["m"], abs=1e-12)


def test_draws_are_those_of_the_bootstrap() -> None:
    values = np.random.default_rng(0).uniform(size=24)
    units, strata = pairs_of_twins(12)
    for resampling in (None, Resampling(units, strata)):
        drawn = [*draws(24, 600, 7, resampling)]
        assert [(rows.start, rows.stop) for rows, _ in drawn] == [(0, 250), (250, 500), (500, 600)]
        weights = np.concatenate([each for _, each in drawn])
        assert (weights.sum(axis=1) == 24).all()
        resampled = Bootstrap({"m": values}, 600, 7, resampling).resampled["m"]
        np.testing.assert_allclose(weights @ values / 24, resampled)


# Over seeds and queries


def test_an_interval_over_seeds_is_that_of_students_t_where_queries_add_nothing() -> None:
    means = [0.61, 0.64, 0.6, 0.66, 0.63]
    found = interval_over_seeds([Score(mean, 0.1, (mean, mean), 9) for mean in means])
    expected = stats.t.interval(0.95, 4, np.mean(means), stats.sem(means))
    assert found == pytest.approx(expected, abs=1e-12)


def test_an_interval_over_equal_seeds_is_that_over_queries() -> None:
    found = interval_over_seeds([Score(0.6, 0.1, (0.57, 0.64), 9)] * 3)
    assert found == pytest.approx((0.57, 0.64), abs=1e-12)


def test_one_seed_says_nothing_of_others() -> None:
    none = math.nan, math.nan
    for scores in ([], [Score(0.6, 0.1, (0.5, 0.7), 9)], [Score(0.6, 0.1, none, 9)] * 2):
        assert all(map(math.isnan, interval_over_seeds(scores)))


@pytest.mark.parametrize("n_seeds", [3, 5])
@pytest.mark.parametrize(
    ("of_seed", "of_query", "of_both"),
    [(0.02, 0.1, 0.1), (0.0, 0.3, 0.0), (0.1, 0.05, 0.0), (0.02, 0.2, 0.3)],
)
def test_an_interval_over_seeds_holds_the_truth_in_95_of_100_trials(
    n_seeds: int, of_seed: float, of_query: float, of_both: float
) -> None:
    """Each trial draws new seeds and new queries, which all its seeds share; the truth is 0.5."""
    rng = np.random.default_rng(23)
    n_trials, n_queries = 1500, 200
    held = within_queries = 0
    for _ in range(n_trials):
        queries = rng.normal(0, of_query, n_queries)
        seeds = rng.normal(0, of_seed, (n_seeds, 1))
        values = 0.5 + seeds + queries + rng.normal(0, of_both, (n_seeds, n_queries))
        halves = 1.959964 * values.std(axis=1, ddof=1) / math.sqrt(n_queries)
        means = values.mean(axis=1)
        scores = [
            Score(mean, 0.0, (mean - half, mean + half), n_queries)
            for mean, half in zip(means, halves, strict=True)
        ]
        low, high = interval_over_seeds(scores)
        held += low <= 0.5 <= high
        within_queries += abs(means.mean() - 0.5) <= halves.mean()
    assert held / n_trials >= 0.94
    assert of_both > of_query or held / n_trials <= 0.99, "what both share counts twice"
    if of_seed >= 0.1:
        assert within_queries / n_trials < 0.5, "an interval over queries alone leaves seeds out"
