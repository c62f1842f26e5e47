"""Neighbours: both ways of mining against a double loop over cosines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins import embeddings

from polarity_bench.training.examples import Mining
from polarity_bench.training.examples.neighbours import Neighbours, RaggedRows, find_neighbours
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import FloatArray, IntArray

Lists = tuple[list[list[int]], list[list[int]]]


def cosine(first: FloatArray, second: FloatArray) -> float:
    pairs = [(float(u), float(v)) for u, v in zip(first, second, strict=True)]
    lengths = math.fsum(u * u for u, _ in pairs), math.fsum(v * v for _, v in pairs)
    return math.fsum(u * v for u, v in pairs) / math.sqrt(lengths[0] * lengths[1])


def slow(
    vectors: FloatArray, labels: Sequence[int] | IntArray, mining: Mining, k: int, threshold: float
) -> Lists:
    """The paper's words: for each text look at each other text, nearest first, ties by position."""
    same: list[list[int]] = []
    opposite: list[list[int]] = []
    for i in range(len(labels)):
        others = [j for j in range(len(labels)) if j != i]
        near = {j: cosine(vectors[i], vectors[j]) for j in others}
        others.sort(key=lambda j: (-near[j], j))
        if mining == "as-released":
            others = others[:k]
        else:
            others = [j for j in others if near[j] >= threshold]
        same.append([j for j in others if labels[j] == labels[i]][:k])
        opposite.append([j for j in others if labels[j] != labels[i]][:k])
    return same, opposite


def rows(ragged: RaggedRows) -> list[list[int]]:
    return [row.tolist() for row in np.split(ragged.values, ragged.offsets[1:-1])]


def lists(neighbours: Neighbours) -> Lists:
    return rows(neighbours.same), rows(neighbours.opposite)


def compass(*degrees: float) -> FloatArray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# By hand: two of class 0 at 0 and 20 degrees, two of class 1 at 15 and 50, one of class 0 at 170

HAND = compass(0, 20, 15, 50, 170)
HAND_LABELS = np.array([0, 0, 1, 1, 0])


def test_as_written_by_hand() -> None:
    """Cosine 0.5 is 60 degrees; the text at 170 has no neighbour, nor is it one."""
    found = find_neighbours(embeddings(HAND), HAND_LABELS, ExampleSpec(neighbours=2, threshold=0.5))
    assert rows(found.same) == [[1], [0], [3], [2], []]
    assert rows(found.opposite) == [[2, 3], [2, 3], [1, 0], [1, 0], []]
    assert found.same.lengths.tolist() == [1, 1, 1, 1, 0]


def test_as_written_takes_k_of_each_class_and_the_threshold_cuts() -> None:
    low = find_neighbours(embeddings(HAND), HAND_LABELS, ExampleSpec(neighbours=1, threshold=-1))
    assert rows(low.same) == [[1], [0], [3], [2], [1]]
    assert rows(low.opposite) == [[2], [2], [1], [1], [3]]
    high = find_neighbours(
        embeddings(HAND), HAND_LABELS, ExampleSpec(neighbours=2, threshold=0.95)
    )  # 18.2 degrees
    assert rows(high.same) == [[], [], [], [], []]
    assert rows(high.opposite) == [[2], [2], [1, 0], [], []]


def test_as_released_divides_the_k_nearest_of_all_and_has_no_threshold() -> None:
    found = find_neighbours(
        embeddings(HAND),
        HAND_LABELS,
        ExampleSpec(mining="as-released", neighbours=2, threshold=0.999),
    )
    assert rows(found.same) == [[1], [0], [], [2], [1]]
    assert rows(found.opposite) == [[2], [2], [1, 0], [1], [3]]


def test_a_cosine_of_just_the_threshold_is_enough() -> None:
    vectors = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.float32)
    found = find_neighbours(
        embeddings(vectors), np.array([0, 0, 1]), ExampleSpec(neighbours=3, threshold=0.5)
    )
    assert lists(found) == ([[1], [0], []], [[2], [], [0]])


@pytest.mark.parametrize("mining", get_args(Mining))
def test_equal_vectors_tie_by_position_and_no_text_is_its_own_neighbour(mining: Mining) -> None:
    """Five texts of one direction: sorting by similarity alone may put any of them first."""
    vectors = np.outer([1, 2, 4, 8, 16], [3.0, 4.0]).astype(np.float32)
    labels = np.array([1, 0, 1, 0, 1])
    found = find_neighbours(embeddings(vectors), labels, ExampleSpec(mining=mining, neighbours=4))
    assert rows(found.same) == [[2, 4], [3], [0, 4], [1], [0, 2]]
    assert rows(found.opposite) == [[1, 3], [0, 2, 4], [1, 3], [0, 2, 4], [1, 3]]
    cut = find_neighbours(embeddings(vectors), labels, ExampleSpec(mining=mining, neighbours=1))
    assert rows(cut.opposite)[1] == [0]


def test_three_classes_are_each_set_against_the_rest() -> None:
    vectors = compass(0, 1, 10, 12, 30)
    labels = np.array([0, 0, 1, 2, 2])
    found = find_neighbours(embeddings(vectors), labels, ExampleSpec(neighbours=3))
    assert rows(found.same) == [[1], [0], [], [4], [3]]
    assert rows(found.opposite) == [[2, 3, 4], [2, 3, 4], [3, 1, 0], [2, 1, 0], [2, 1, 0]]


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 12),
    n_classes=st.sampled_from([2, 3]),
    mining=st.sampled_from(get_args(Mining)),
    k=st.integers(1, 14),
    threshold=st.sampled_from([-1.0, -0.3, 0.0, 0.5, 0.9]),
)
def test_neighbours_are_those_of_the_double_loop(
    seed: int, n: int, n_classes: int, mining: Mining, k: int, threshold: float
) -> None:
    """A third of the texts have another's direction at another length, so that there are ties."""
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((n, 3)).astype(np.float32)
    for i in generator.integers(n, size=n // 3):
        vectors[i] = vectors[generator.integers(n)] * np.float32(2.0)
    labels = generator.integers(n_classes, size=n)
    found = find_neighbours(
        embeddings(vectors), labels, ExampleSpec(mining=mining, neighbours=k, threshold=threshold)
    )
    assert lists(found) == slow(vectors, labels, mining, k, threshold)
    for i, (same, opposite) in enumerate(zip(*lists(found), strict=True)):
        assert i not in {*same, *opposite}


@pytest.mark.parametrize("mining", get_args(Mining))
def test_one_text_has_no_neighbours(mining: Mining) -> None:
    found = find_neighbours(
        embeddings(np.ones((1, 2))), np.array([0]), ExampleSpec(mining=mining, threshold=-1)
    )
    assert lists(found) == ([[]], [[]])


def test_ragged_rows_are_the_kept_cells() -> None:
    kept = np.array([[True, False], [False, False], [True, True]])
    ragged = RaggedRows.of(np.array([[5, 6], [7, 8], [9, 10]]), kept)
    assert rows(ragged) == [[5], [], [9, 10]]
    assert ragged.lengths.tolist() == [1, 0, 2]
    assert ragged.values.dtype == np.int32
