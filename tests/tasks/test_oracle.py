"""Retrieval with gold labels, against a sort of every source for every query."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins import BagEncoder, HashEncoder, embeddings, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.similarity import retention
from polarity_bench.metrics.statistics import Bootstrap
from polarity_bench.results.result_files import Result
from polarity_bench.retrieval import Retrieval, top_k
from polarity_bench.scores import WEIGHTINGS, ScoreKey
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity import oracle, scoring
from polarity_bench.tasks.types.polarity.oracle import nearest_of_own_label
from polarity_bench.tasks.types.polarity.splits import numbers
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import IntArray

HERE = DataAccess(offline=True)


def ranked(
    query: Embeddings,
    source: Embeddings,
    labels: tuple[IntArray, IntArray],
    k: int,
    barred: Sequence[Sequence[int]] | None = None,
) -> Retrieval:
    excluded = [np.array(row, dtype=np.int64) for row in barred or [()] * len(query)]
    return nearest_of_own_label(query, source, *labels, k, excluded=excluded)


def slow_oracle(
    query: Embeddings,
    source: Embeddings,
    labels: tuple[IntArray, IntArray],
    k: int,
    barred: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Sort by label, by cosine, by position; the cosines are exact, so that ties are ties."""
    everything = top_k(query, source, len(source))
    found = []
    for i, label in enumerate(labels[0]):
        cosine = dict(zip(everything.index[i].tolist(), everything.similarity[i], strict=True))
        order = sorted(
            (j for j in range(len(source)) if j not in barred[i]),
            key=lambda j, own=label, near=cosine: (labels[1][j] != own, -near[j], j),  # type: ignore[misc]
        )
        found.append(order[:k])
    return found


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4))
def test_the_oracle_is_a_sort_of_every_source(seed: int, k: int, n_labels: int) -> None:
    """Coarse vectors, so that many tie; labels of no, few and many sources; some are barred."""
    rng = np.random.default_rng(seed)
    n_queries, n_sources = int(rng.integers(1, 6)), int(rng.integers(k + 2, 20))
    query, source = (
        embeddings(rng.integers(-1, 2, (n, 3)) + np.array([0, 0, 0.5]))
        for n in (n_queries, n_sources)
    )
    labels = rng.integers(n_labels + 1, size=n_queries), rng.integers(n_labels, size=n_sources)
    barred = [
        rng.choice(n_sources, int(rng.integers(3)), replace=False).tolist()
        for _ in range(n_queries)
    ]
    found = ranked(query, source, labels, k, barred)
    assert found.index.tolist() == slow_oracle(query, source, labels, k, barred)
    everything = top_k(query, source, n_sources)
    for i in range(n_queries):
        cosine = dict(zip(everything.index[i].tolist(), everything.similarity[i], strict=True))
        assert found.similarity[i].tolist() == [cosine[j] for j in found.index[i].tolist()]


def test_a_label_of_few_sources_is_filled_with_the_nearest_of_others() -> None:
    angles = np.array([10, 20, 30, 40, 50])  # degrees from the query
    source = embeddings(np.column_stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))]))
    query = embeddings(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    labels = np.array([1, 0, 2]), np.array([0, 1, 0, 1, 0])
    found = ranked(query, source, labels, 4, [[], [0], [3]])
    assert found.index.tolist() == [[1, 3, 0, 2], [2, 4, 1, 3], [0, 1, 2, 4]]
    assert found.similarity[0] == pytest.approx(np.cos(np.radians([20, 40, 10, 30])), abs=1e-7)


def test_labels_of_few_sources_rank_all_sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each label, which made a task of 1,000 labels take minutes."""
    n_labels, k = 40, 3
    ranked_at_once = []

    def counted(query: Embeddings, source: Embeddings, *args: Any, **options: Any) -> Retrieval:
        ranked_at_once.append(len(source))
        return top_k(query, source, *args, **options)

    monkeypatch.setattr(oracle, "top_k", counted)
    rng = np.random.default_rng(0)
    query, source = (embeddings(rng.normal(size=(n, 4))) for n in (n_labels, 2 * n_labels))
    labels = np.arange(n_labels), np.arange(2 * n_labels) % n_labels
    found = ranked(query, source, labels, k)
    assert sorted(ranked_at_once) == [2] * n_labels + [2 * n_labels]
    assert found.index.tolist() == slow_oracle(query, source, labels, k, [[]] * n_labels)


@given(st.lists(st.text(max_size=3), min_size=1))
def test_values_are_numbered_in_their_order(values: list[str]) -> None:
    distinct = sorted(set(values))
    assert numbers(values).tolist() == [distinct.index(value) for value in values]


def test_a_long_value_makes_the_others_no_larger() -> None:
    tracemalloc.start()
    numbers(["short"] * 1_000 + ["long" * 5_000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6, "before, 80 MB, as much for each value as for the longest"


# In results


def loaded(folder: Path, ks: tuple[int, ...] = (), **changes: object) -> PolarityTask:
    task = read_task(write_task(folder, **changes)).load(HERE, Settings(ks=ks))  # type: ignore[arg-type]
    assert isinstance(task, PolarityTask)
    return task


def mean(result: Result, metric: str, k: int, weighting: str = "linear") -> float:
    return result.scores[ScoreKey(metric, k, weighting)].mean


def test_the_oracle_of_a_result_is_all_of_the_label_under_the_reference(tmp_path: Path) -> None:
    """Ranks 3 and above 12 of `mini`, which has 12 sources of either label."""
    task = loaded(tmp_path, (3, 16))
    reference = HashEncoder("reference")
    result = evaluate(HashEncoder(), task, reference=reference)
    itself = evaluate(reference, task)
    embedded = Embedder().embed(reference, task.texts)
    source, query = embedded.vectors(task.source.texts), embedded.vectors(task.query.texts)
    everything = top_k(query, source, 24)
    own = np.array(task.source.labels)[everything.index] == np.array(task.query.labels)[:, None]
    nearest = np.argsort(~own, axis=1, kind="stable")
    cosine = np.take_along_axis(everything.similarity, nearest, axis=1)
    for k, share in ((3, 1.0), (16, 12 / 16)):
        assert mean(result, "polarity_oracle", k, "uniform") == pytest.approx(share)
        s = cosine[:, :k].mean(axis=1)
        assert result.arrays[f"similarity_oracle_uniform_at_{k}"] == pytest.approx(s)
        assert mean(result, "similarity_oracle", k, "uniform") == pytest.approx(s.mean())
        for metric in ("polarity_oracle", "similarity_oracle"):
            for weighting in WEIGHTINGS:
                theirs = mean(itself, metric, k, weighting)
                assert mean(result, metric, k, weighting) == theirs


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_nothing_has_more_polarity_than_the_oracle_nor_more_meaning_than_the_reference(
    tmp_path: Path, weighting: str
) -> None:
    for k in (2, 16):
        result = evaluate(BagEncoder(), loaded(tmp_path, (k,)), reference=HashEncoder())
        p, p_oracle = (mean(result, m, k, weighting) for m in ("polarity", "polarity_oracle"))
        s, s_most = (mean(result, f"similarity_{m}", k, weighting) for m in ("oracle", "reference"))
        assert p <= p_oracle
        assert s <= s_most


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_front_of_a_plain_encoder_is_its_share_of_the_oracles_rectangle(
    tmp_path: Path, weighting: str
) -> None:
    """On average over queries: on `mini` hashes are near nothing in particular, at k = 8 enough."""
    result = evaluate(BagEncoder(), loaded(tmp_path, (8,)), reference=HashEncoder("reference"))
    p, p_oracle = (mean(result, m, 8, weighting) for m in ("polarity", "polarity_oracle"))
    chance = result.scores[ScoreKey("polarity_chance")].mean
    s_chance = result.scores[ScoreKey("similarity_chance")].mean
    s, s_oracle, s_reference = (
        mean(result, f"similarity{whose}", 8, weighting) for whose in ("", "_oracle", "_reference")
    )
    kept, kept_oracle = (
        float(retention(np.array(x), np.array(s_chance), np.array(s_reference)))
        for x in (s, s_oracle)
    )
    lifted, lifted_oracle = (p - chance) / (1 - chance), (p_oracle - chance) / (1 - chance)
    assert kept_oracle > 0
    sides = min(abs(lifted), lifted_oracle), min(abs(kept), kept_oracle)
    expected = math.prod(sides) / (lifted_oracle * kept_oracle)
    expected *= -1 if min(lifted, kept) < 0 else 1
    assert mean(result, "front", 8, weighting) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("k", "oracle"), [(8, 1.0), (16, 12 / 16)])
def test_the_front_of_its_own_reference_is_its_lift_where_every_label_has_k_sources(
    tmp_path: Path, k: int, oracle: float
) -> None:
    """As docs/protocols.md says; of 12 sources of either label, a third has the other's word."""
    words = {"1": ("warm", "warm", "cold"), "0": ("cold", "cold", "warm")}
    sources = [(f"{words[y][i % 3]} day {i}", y) for y in words for i in range(12)]
    queries = [(f"{words[y][0]} evening {i}", y) for y in words for i in range(6)]
    result = evaluate(BagEncoder(), loaded(tmp_path, (k,), sources=sources, queries=queries))
    lifted = 2 * mean(result, "polarity", k, "uniform") - 1
    assert mean(result, "polarity_oracle", k, "uniform") == pytest.approx(oracle)
    front = mean(result, "front", k, "uniform")
    assert front == pytest.approx(lifted / (2 * oracle - 1), abs=1e-9)
    assert lifted > 0
    assert (front == pytest.approx(lifted, abs=1e-9)) == (oracle == 1)


def test_the_interval_of_a_front_is_of_the_same_draws_as_its_parts() -> None:
    task = load_task("contrast", access=HERE)
    assert isinstance(task, PolarityTask)
    result = evaluate(BagEncoder(), task)
    names = ["polarity_at_16", "polarity_chance"]
    arrays = {name: result.arrays[name].astype(np.float64) for name in names}
    drawn = Bootstrap(arrays, resampling=task.resampling).resampled
    chance = drawn["polarity_chance"]
    lifted = (drawn["polarity_at_16"] - chance) / (1 - chance)  # its own reference: all is retained
    low, high = np.percentile(lifted, [2.5, 97.5])
    score = result.scores[ScoreKey("front", 16)]
    assert score.ci95 == pytest.approx((low, high), abs=1e-6)
    assert score.ci95[0] < score.mean < score.ci95[1]


def test_what_is_drawn_is_stored_where_it_is_not_queries(tmp_path: Path) -> None:
    task = load_task("contrast", access=HERE)
    assert isinstance(task, PolarityTask)
    drawn = task.resampling
    assert drawn is not None
    arrays = evaluate(HashEncoder(), task).arrays
    assert arrays["resampled_units"].tolist() == drawn.units.tolist()
    assert arrays["resampled_strata"].tolist() == drawn.strata.tolist()
    assert not {name for name in next(task.retrieved(arrays))["scores"] if "resampled" in name}
    plain = evaluate(HashEncoder(), loaded(tmp_path)).arrays
    assert not [name for name in plain if name.startswith("resampled")]


def test_a_reference_makes_its_oracle_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*args: object, **kwargs: object) -> Retrieval:
        made.append(args)
        return nearest_of_own_label(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("polarity_bench.tasks.types.polarity.scoring.nearest_of_own_label", counted)
    task = loaded(tmp_path, (2, 4))
    ours, theirs = (
        scoring.rank(task, Embedder().embed(HashEncoder(name), task.texts)) for name in "ab"
    )
    for _ in range(3):
        scoring.polarity_scores(task, ours, theirs)
    assert len(made) == 1
