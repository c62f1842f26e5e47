"""What scores without values per query can show: by hand, by simulation, and where nothing can."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from standins.board import placed

from polarity_bench.compare.unpaired_power import error_of, least_unpaired, standard_error
from polarity_bench.encoders.base import EncoderId
from polarity_bench.scores import Score, ScoreKey


def test_the_error_of_a_score_is_half_its_interval_by_196() -> None:
    assert error_of(Score(0.5, 0.1, (0.402, 0.598), 100)) == pytest.approx(0.05, abs=1e-5)
    assert math.isnan(error_of(Score.single(0.5, 100)))


def test_two_scores_differ_by_both_errors_and_several_by_the_median_pair() -> None:
    assert least_unpaired([0.03, 0.04]) == pytest.approx((1.95996 + 0.84162) * 0.05, abs=1e-6)
    pairs = sorted(math.hypot(a, b) for a, b in ((1, 2), (1, 5), (2, 5)))
    assert least_unpaired([1, 2, 5]) == pytest.approx(2.80158 * pairs[1], abs=1e-4)
    assert math.isnan(least_unpaired([0.1]))
    assert math.isnan(least_unpaired([0.1, math.nan]))


def test_it_is_found_four_times_in_five_by_the_test_of_two_samples() -> None:
    rng, n = np.random.default_rng(0), 400
    least = least_unpaired([1 / math.sqrt(n)] * 2)
    ones, others = rng.normal(size=(2_000, n)), rng.normal(least, size=(2_000, n))
    shown = np.mean(stats.ttest_ind(ones, others, axis=1).pvalue < 0.05)
    assert shown == pytest.approx(0.8, abs=0.03)


def test_accuracy_has_the_interval_of_the_exact_one() -> None:
    key, exact = ScoreKey("accuracy"), ScoreKey("exact_accuracy")
    result = placed(EncoderId("me", "1"), "cr", 0.7, 0.4)
    scores = {key: Score.single(0.8, 50), exact: Score(0.8, 0.4, (0.7, 0.9), 50)}
    whole = replace(result, scores=scores)
    assert standard_error(whole, key) == pytest.approx(0.051, abs=1e-3)
    alone = replace(result, scores={key: scores[key]})
    assert math.isnan(standard_error(alone, key))
