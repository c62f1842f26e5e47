"""Batches of NLI pairs: where they are cut, who is contrasted with whom, what limits limit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polarity_bench.data.nli import CONTRADICTION, ENTAILMENT, NEUTRAL
from polarity_bench.training.recipes.scl.batches import (
    Batch,
    Limit,
    Reading,
    augmented_pairs,
    divide,
    make_batch,
)
from polarity_bench.values import IntArray

READINGS: list[Reading] = ["as-written", "as-released"]
GROUPS = st.lists(st.integers(1, 9), min_size=1, max_size=30)

PREMISES = np.array([4, 4, 4, 7, 7, 4])
LABELS = np.array([ENTAILMENT, NEUTRAL, ENTAILMENT, CONTRADICTION, ENTAILMENT, CONTRADICTION])


def numbered(groups: list[int]) -> IntArray:
    return np.repeat(np.arange(len(groups)), groups)


def batched(
    premises: IntArray,
    labels: IntArray,
    reading: Reading,
    positives: Limit,
    negatives: Limit,
    seed: list[int],
) -> Batch:
    return make_batch(premises, labels, seed, reading, positives, negatives)


def batch_of(
    reading: Reading = "as-written",
    n_positives: Limit = "all",
    n_negatives: Limit = "all",
    seed: int = 0,
) -> Batch:
    return batched(PREMISES, LABELS, reading, n_positives, n_negatives, [seed])


# Where they are cut


@pytest.mark.parametrize("reading", READINGS)
@given(groups=GROUPS, size=st.integers(1, 12))
def test_batches_hold_every_pair_once_and_in_order(
    reading: Reading, groups: list[int], size: int
) -> None:
    premises = numbered(groups)
    batches = divide(premises, size, reading)
    rows = np.arange(len(premises))
    assert np.concatenate([rows[b] for b in batches]).tolist() == rows.tolist()
    assert all(0 < b.stop - b.start <= size for b in batches)


@given(groups=GROUPS, size=st.integers(1, 12))
def test_a_premise_is_cut_only_where_a_batch_cannot_hold_it(groups: list[int], size: int) -> None:
    premises = numbered(groups)
    for batch in divide(premises, size, "as-written")[1:]:
        before, first = premises[batch.start - 1], premises[batch.start]
        assert before != first or groups[first] > size


@given(groups=GROUPS, size=st.integers(9, 20))
def test_no_two_neighbouring_batches_would_fit_into_one(groups: list[int], size: int) -> None:
    batches = divide(numbered(groups), size, "as-written")
    for one, two in pairwise(batches):
        next_group = groups[numbered(groups)[two.start]]
        assert one.stop - one.start + next_group > size


# Who is contrasted with whom


def test_as_written_each_premise_that_entails_is_one_anchor() -> None:
    batch = batch_of()
    assert batch.anchors.tolist() == [0, 4]
    assert batch.positives.astype(int).tolist() == [[1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]]
    assert batch.negatives.astype(int).tolist() == [[0, 1, 0, 1, 1, 1], [1, 1, 1, 1, 0, 1]]


def test_as_released_each_entailment_pair_is_an_anchor() -> None:
    batch = batch_of("as-released")
    assert batch.anchors.tolist() == [0, 2, 4]
    assert batch.positives[0].tolist() == batch.positives[1].tolist()
    assert batch.positives.sum(axis=1).tolist() == [2, 2, 1]
    assert (batch.negatives == ~batch.positives).all()


@pytest.mark.parametrize("reading", READINGS)
def test_a_batch_without_entailment_has_no_anchors(reading: Reading) -> None:
    batch = batched(PREMISES, np.full(6, NEUTRAL), reading, 3, 3, [0])
    assert batch.positives.shape == batch.negatives.shape == (0, 6)


# What limits limit


@st.composite
def some_pairs(draw: Any) -> tuple[IntArray, IntArray]:
    premises = numbered(draw(GROUPS))
    labels = draw(st.lists(st.integers(0, 2), min_size=len(premises), max_size=len(premises)))
    return premises, np.array(labels)


@pytest.mark.parametrize("reading", READINGS)
@given(pairs=some_pairs(), limits=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.just(3))
def test_limits_draw_so_many_of_the_candidates(
    reading: Reading, pairs: tuple[IntArray, IntArray], limits: tuple[int, int], seed: int
) -> None:
    whole = batched(*pairs, reading, "all", "all", [seed])
    drawn = batched(*pairs, reading, *limits, [seed])
    assert (drawn.anchors == whole.anchors).all()
    for kind, limit in zip(("positives", "negatives"), limits, strict=True):
        ours, all_of_them = getattr(drawn, kind), getattr(whole, kind)
        n_wanted = all_of_them.sum(axis=1)
        if not (kind == "negatives" and reading == "as-released"):
            n_wanted = np.minimum(n_wanted, limit)
        assert not (ours & ~all_of_them).any()
        assert (ours.sum(axis=1) == n_wanted).all()


def test_as_released_the_anchors_own_hypothesis_is_always_positive() -> None:
    labels = np.zeros(12, dtype=np.int64)
    batch = batched(np.zeros(12, dtype=np.int64), labels, "as-released", 2, "all", [0])
    assert batch.positives.diagonal().all()
    assert (batch.positives.sum(axis=1) == 2).all()
    assert len(np.unique(batch.positives, axis=0)) > 3
    assert not batch.negatives.any(), "a positive that is left out is no negative"


def test_the_seed_draws_each_candidate_alike() -> None:
    drawn = np.array([batch_of(n_negatives=2, seed=seed).negatives for seed in range(2_000)])
    assert (batch_of(n_negatives=2, seed=5).negatives == drawn[5]).all()
    shares = drawn[:, 0].mean(axis=0)  # 2 of the 4 negatives of the first anchor
    assert shares == pytest.approx([0, 0.5, 0, 0.5, 0.5, 0.5], abs=0.05)


# The augmented baselines


def test_augmented_with_all_is_each_anchor_with_every_hypothesis_and_the_rest() -> None:
    lefts, rights, labels = augmented_pairs(batch_of())
    found = {
        (int(PREMISES[left]), int(right)): int(label)
        for left, right, label in zip(lefts, rights, labels, strict=True)
    }
    assert len(found) == len(lefts) == 2 * 6
    assert [found[4, row] for row in range(6)] == [0, 1, 0, 2, 2, 2]
    assert [found[7, row] for row in range(6)] == [2, 2, 2, 2, 0, 2]


def test_a_premise_that_entails_nothing_keeps_its_own_pairs() -> None:
    labels = np.array([0, 1, 0, 2, 1, 2])
    lefts, rights, found = augmented_pairs(
        batched(PREMISES, labels, "as-written", "all", "all", [0])
    )
    of_seven = PREMISES[lefts] == 7
    assert rights[of_seven].tolist() == [3, 4]
    assert found[of_seven].tolist() == [2, 1]


@pytest.mark.parametrize("reading", READINGS)
def test_augmented_with_limits_holds_so_many(reading: Reading) -> None:
    lefts, rights, labels = augmented_pairs(batch_of(reading, n_positives=1, n_negatives=1))
    assert len(set(zip(PREMISES[lefts].tolist(), rights.tolist(), strict=True))) == len(lefts)
    own = PREMISES[lefts] == PREMISES[rights]
    assert (labels[own] == LABELS[rights[own]]).all()
    assert (labels[~own] == CONTRADICTION).all()
    if reading == "as-written":
        assert (labels == ENTAILMENT).sum() == 2
        assert 3 + 2 <= len(lefts) <= 3 + 2 + 2


def n_cut(premises: IntArray, batches: list[slice]) -> int:
    return sum(bool(premises[b.start] == premises[b.start - 1]) for b in batches[1:])


@pytest.mark.real
@pytest.mark.slow
def test_the_real_pairs_in_batches_of_64(data_dir: Any) -> None:
    from polarity_bench.data.nli import load_nli
    from polarity_bench.data.sources import DataAccess

    pairs = load_nli(["nli/snli_1.0_train_subset.jsonl.gz"], DataAccess(data_dir, offline=True))
    _, premises = np.unique(pairs.premises, return_inverse=True)
    written, released = (divide(premises, 64, reading) for reading in READINGS)
    assert len(released) == 1_561
    assert len(written) == 1_622
    assert [n_cut(premises, batches) for batches in (written, released)] == [0, 1_142]
