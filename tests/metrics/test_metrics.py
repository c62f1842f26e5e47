"""Metrics against hand-worked cases, slow loops from the papers, scipy and scikit-learn."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier

from polarity_bench.metrics import polarity as polarity_metrics
from polarity_bench.metrics.polarity import (
    chance_polarity,
    neighbour_vote,
    polarity,
    rank_weights,
)
from polarity_bench.metrics.sentence_pairs import (
    draw_pairs,
    pairwise_accuracy,
    sentiment_guided_similarity,
)
from polarity_bench.metrics.similarity import joint, overlap, retention, similarity
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.values import BoolArray, FloatArray, IntArray

weightings = pytest.mark.parametrize("weighting", WEIGHTINGS)
shapes = st.tuples(st.integers(1, 6), st.integers(1, 9))
hit_arrays = shapes.flatmap(lambda shape: npst.arrays(np.bool_, shape))
cosine_arrays = shapes.flatmap(
    lambda shape: npst.arrays(np.float64, shape, elements=st.floats(-1, 1))
)
label_arrays = shapes.flatmap(
    lambda shape: npst.arrays(np.int64, (shape[0], shape[1] + 1), elements=st.integers(0, 3))
)


def slow_weight(i: int, k: int, weighting: str) -> float:
    """Equation 1 of the margins paper: w_i = 2 (k + 1 - i) / (k (k + 1))."""
    return 1 / k if weighting == "uniform" else 2 * (k + 1 - i) / (k * (k + 1))


def slow_sum(rows: FloatArray | BoolArray, weighting: str) -> list[float]:
    result = []
    for row in rows.tolist():
        total = 0.0
        for i, value in enumerate(row, start=1):
            total += slow_weight(i, len(row), weighting) * float(value)
        result.append(total)
    return result


def slow_vote(query: int, found: list[int], weighting: str) -> float:
    votes: dict[int, float] = {}
    for i, label in enumerate(found, start=1):
        votes[label] = votes.get(label, 0.0) + slow_weight(i, len(found), weighting)
    most = max(votes.values())
    leaders = [label for label, vote in votes.items() if math.isclose(vote, most, rel_tol=1e-12)]
    return float(min(leaders, key=found.index) == query)


# Polarity and similarity


@pytest.mark.parametrize(
    ("hits", "weighting", "expected"),
    [
        ([1, 1, 1, 1], "linear", 1.0),
        ([0, 0, 0, 0], "linear", 0.0),
        ([1, 0, 0, 0], "linear", 0.4),  # 4 of 4 + 3 + 2 + 1
        ([0, 0, 0, 1], "linear", 0.1),
        ([0, 1, 1, 0], "linear", 0.5),
        ([1, 0, 0, 0], "uniform", 0.25),
        ([0, 0, 0, 1], "uniform", 0.25),
        ([1], "linear", 1.0),
    ],
)
def test_polarity_by_hand(hits: list[int], weighting: str, expected: float) -> None:
    assert polarity(np.array([hits], dtype=bool), weighting) == pytest.approx([expected])


@weightings
@pytest.mark.parametrize("k", [1, 2, 3, 16, 100])
def test_weights_sum_to_one_and_never_rise(weighting: str, k: int) -> None:
    weights = rank_weights(k, weighting)
    assert weights.shape == (k,)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(weights) <= 0).all()
    assert weights == pytest.approx([slow_weight(i, k, weighting) for i in range(1, k + 1)])


@weightings
@given(hits=hit_arrays)
def test_polarity_is_the_papers_sum(weighting: str, hits: BoolArray) -> None:
    found = polarity(hits, weighting)
    assert found.tolist() == pytest.approx(slow_sum(hits, weighting), abs=1e-12)
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()


@weightings
@given(cosines=cosine_arrays)
def test_similarity_is_the_papers_sum(weighting: str, cosines: FloatArray) -> None:
    found = similarity(cosines, weighting)
    assert found.tolist() == pytest.approx(slow_sum(cosines, weighting), abs=1e-12)
    assert (np.abs(found) <= 1 + 1e-12).all()


@given(hits=hit_arrays, data=st.data())
def test_a_hit_moved_up_never_lowers_polarity(hits: BoolArray, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(hits) - 1))
    low = data.draw(st.integers(0, hits.shape[1] - 1))
    high = data.draw(st.integers(0, low))
    before = hits.copy()
    before[row, [high, low]] = [False, True]
    after = hits.copy()
    after[row, [high, low]] = [True, high == low]
    linear = polarity(after, "linear")[row] - polarity(before, "linear")[row]
    assert linear > 0 if high < low else linear == 0
    uniform = polarity(after, "uniform")[row] - polarity(before, "uniform")[row]
    assert uniform == pytest.approx(0, abs=1e-12)


@weightings
@given(hits=hit_arrays, seed=st.integers(0, 99))
def test_the_order_of_queries_is_irrelevant(weighting: str, hits: BoolArray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(hits))
    assert polarity(hits, weighting)[order].tolist() == polarity(hits[order], weighting).tolist()


def test_chance_is_the_share_of_each_querys_label() -> None:
    source = np.array([0, 0, 0, 1, 2, 2])
    assert chance_polarity(np.array([0, 1, 2, 3]), source) == pytest.approx(
        [1 / 2, 1 / 6, 1 / 3, 0]
    )


@weightings
def test_retrieval_at_random_scores_chance(weighting: str) -> None:
    generator = np.random.default_rng(0)
    source, query = generator.integers(3, size=500), generator.integers(3, size=4000)
    found = generator.integers(500, size=(4000, 16))
    p = polarity(source[found] == query[:, None], weighting)
    assert p.mean() == pytest.approx(chance_polarity(query, source).mean(), abs=0.006)


# The vote


@pytest.mark.parametrize(
    ("found", "weighting", "winner"),
    [
        ([0, 1, 1], "uniform", 1),
        ([0, 1, 1], "linear", 0),  # 3 against 2 + 1: a tie, the better rank wins
        ([0, 1, 1, 1], "linear", 1),  # 4 against 3 + 2 + 1
        ([2, 1, 0], "uniform", 2),
        ([1, 0, 0, 1], "linear", 1),  # 4 + 1 against 3 + 2, a tie
    ],
)
def test_vote_by_hand(found: list[int], weighting: str, winner: int) -> None:
    rights = neighbour_vote(np.arange(3), np.array([found] * 3), weighting)
    assert rights.tolist() == [float(label == winner) for label in range(3)]


@weightings
@given(labels=label_arrays)
def test_vote_is_the_slow_vote(weighting: str, labels: IntArray) -> None:
    query, found = labels[:, 0], labels[:, 1:]
    expected = [slow_vote(q, row, weighting) for q, row in zip(query, found.tolist(), strict=True)]
    assert neighbour_vote(query, found, weighting).tolist() == expected


def test_votes_of_many_queries_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query has a vote for every label: 1,000 labels took 25 kB for each query at once."""
    rows = np.random.default_rng(2).integers(0, 4, (7, 6))
    whole = neighbour_vote(rows[:, 0], rows[:, 1:], "linear")
    monkeypatch.setattr(polarity_metrics, "_VOTED_AT_ONCE", 3)
    assert neighbour_vote(rows[:, 0], rows[:, 1:], "linear").tolist() == whole.tolist()
    found = np.tile(np.arange(16), (6_000, 1))
    tracemalloc.start()
    neighbour_vote(np.full(6_000, 999), found, "linear")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, "before, 150 MB"


def test_vote_agrees_with_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    points, labels = generator.standard_normal((200, 6)), generator.integers(2, size=200)
    queries, truth = generator.standard_normal((100, 6)), generator.integers(2, size=100)
    model = KNeighborsClassifier(n_neighbors=15, weights="uniform").fit(points, labels)
    found = labels[model.kneighbors(queries, return_distance=False)]  # two labels, odd k: no ties
    expected = (model.predict(queries) == truth).astype(float)
    assert neighbour_vote(truth, found, "uniform").tolist() == expected.tolist()


# Retention, joint, overlap


def test_retention_by_hand() -> None:
    at = retention(np.array([0.2, 0.5, 0.35, 0.1]), np.array(0.2), np.array(0.5))
    assert at == pytest.approx([0, 1, 0.5, -1 / 3])


@pytest.mark.parametrize("reference", [0.2, 0.2 + 1e-12, 0.1])
def test_retention_is_undefined_where_the_reference_is_no_better_than_chance(
    reference: float,
) -> None:
    assert np.isnan(retention(np.array(0.3), np.array(0.2), np.array(reference)))


@pytest.mark.parametrize(
    ("p", "kept", "expected"),
    [
        (0.75, 1.0, 2 / 3),  # lift 0.5
        (0.75, 2.0, 2 / 3),  # retention is clipped to 1
        (1.0, 0.5, 2 / 3),
        (1.0, 1.0, 1.0),
        (0.5, 1.0, 0.0),
        (0.25, 1.0, -2 / 3),  # below chance
        (0.25, -1.0, -2 / 3),
        (0.75, 0.0, 0.0),
        (0.75, -1.0, -2 / 3),
        (0.5, math.nan, 0.0),
        (0.75, math.nan, math.nan),
    ],
)
def test_joint_by_hand(p: float, kept: float, expected: float) -> None:
    found = joint(np.array(p), np.array(0.5), np.array(kept))
    assert float(found) == pytest.approx(expected, nan_ok=True)


@given(st.floats(0, 1), st.floats(0, 0.99), st.floats(-2, 2))
def test_joint_lies_between_its_parts_and_within_bounds(p: float, chance: float, k: float) -> None:
    found = float(joint(np.array(p), np.array(chance), np.array(k)))
    lift, kept = (p - chance) / (1 - chance), min(max(k, -1.0), 1.0)
    assert found <= 1
    assert found * min(lift, kept) >= 0
    ends = sorted((abs(lift), abs(kept)))
    assert ends[0] - 1e-9 <= abs(found) <= ends[1] + 1e-9


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_overlap_is_the_share_of_the_intersection(seed: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    ours, theirs = (np.stack([generator.permutation(20)[:k] for _ in range(5)]) for _ in range(2))
    expected = [len({*a} & {*b}) / k for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
    assert overlap(ours, theirs).tolist() == expected


# Pairs


@given(st.integers(0, 10_000), st.integers(3, 60))
def test_sgts_is_spearmans_correlation(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    cosine = generator.integers(-4, 5, size=n) / 4  # many ties
    same = generator.integers(2, size=n).astype(bool)
    found = sentiment_guided_similarity(cosine, same)
    if len({*cosine.tolist()}) == 1 or same.all() or not same.any():
        assert math.isnan(found)
        return
    assert found == pytest.approx(stats.spearmanr(cosine, same).statistic, abs=1e-12)


def test_pairs_are_drawn_alike_each_time_and_over_all_positions() -> None:
    queries, sources = draw_pairs(7, 11, 2000, seed=3)
    again = draw_pairs(7, 11, 2000, seed=3)
    assert np.array_equal(queries, again[0])
    assert np.array_equal(sources, again[1])
    assert {*queries.tolist()} == {*range(7)}
    assert {*sources.tolist()} == {*range(11)}


def test_pairwise_accuracy_wants_both_strictly_right() -> None:
    same = np.array([0.9, 0.9, 0.5, 0.1])
    opposite = np.array([0.1, 0.1, 0.5, 0.9])
    twin_same = np.array([0.9, 0.1, 0.9, 0.1])
    twin_opposite = np.array([0.1, 0.9, 0.1, 0.9])
    found = pairwise_accuracy(same, opposite, twin_same, twin_opposite)
    assert found.tolist() == [1, 0, 0, 0]


def test_pairwise_accuracy_of_random_vectors_is_a_quarter() -> None:
    cosines = np.random.default_rng(2).standard_normal((4, 40_000))
    assert pairwise_accuracy(*cosines).mean() == pytest.approx(0.25, abs=0.01)
