"""Examples: what is counted, what is drawn, and that a draw is fair."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from standins import embeddings

from polarity_bench.errors import InputError
from polarity_bench.training.examples import COLUMNS, EXAMPLE_KINDS, ExampleKind
from polarity_bench.training.examples.draw import Draw, count_candidates, draw
from polarity_bench.training.examples.neighbours import Neighbours, RaggedRows, find_neighbours
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import IntArray

Example = tuple[int, ...]
"""Positions, then the label where the kind has one."""

SEEDS = st.integers(0, 2**32 - 1)


def ragged(*rows: list[int]) -> RaggedRows:
    ends = np.cumsum([0, *map(len, rows)])
    return RaggedRows(np.array(list(itertools.chain(*rows)), dtype=np.int32), ends)


# By hand: 0 and 1 are of class 0, 2 and 3 of class 1; 3 has none of its own

HAND = Neighbours(same=ragged([1], [0], [3], []), opposite=ragged([2, 3], [], [0], [1, 0]))
HAND_LABELS = np.array([0, 0, 1, 1])
HAND_EXAMPLES: dict[ExampleKind, set[Example]] = {
    "pairs": {(0, 1, 0), (1, 0, 0), (2, 3, 1)},
    "labelled-pairs": {
        *((0, 1, 1), (1, 0, 1), (2, 3, 1)),
        *((0, 2, 0), (0, 3, 0), (2, 0, 0), (3, 1, 0), (3, 0, 0)),
    },
    "triplets": {(0, 1, 2), (0, 1, 3), (2, 3, 0)},
}


def enumerated(neighbours: Neighbours, labels: IntArray, kind: ExampleKind) -> list[Example]:
    """List all candidates, anchor by anchor."""
    found: list[Example] = []
    sides = (
        [row.tolist() for row in np.split(side.values, side.offsets[1:-1])]
        for side in (neighbours.same, neighbours.opposite)
    )
    for anchor, (label, same, opposite) in enumerate(zip(labels.tolist(), *sides, strict=True)):
        if kind == "pairs":
            found += [(anchor, positive, label) for positive in same]
        elif kind == "labelled-pairs":
            found += [(anchor, other, 1) for other in same]
            found += [(anchor, other, 0) for other in opposite]
        else:
            found += [(anchor, *pair) for pair in itertools.product(same, opposite)]
    return found


def examples(drawn: Draw) -> list[Example]:
    rows = [tuple(row) for row in drawn.positions.tolist()]
    if drawn.labels is None:
        return rows
    return [(*row, label) for row, label in zip(rows, drawn.labels.tolist(), strict=True)]


def some_neighbours(seed: int, n: int = 9) -> tuple[Neighbours, IntArray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=n)
    vectors = embeddings(generator.standard_normal((n, 3)))
    return find_neighbours(vectors, labels, ExampleSpec(neighbours=3, threshold=0.0)), labels


@pytest.mark.parametrize("kind", EXAMPLE_KINDS)
def test_the_candidates_by_hand(kind: ExampleKind) -> None:
    wanted = HAND_EXAMPLES[kind]
    assert count_candidates(HAND, kind) == len(wanted)
    drawn = draw(HAND, HAND_LABELS, kind, len(wanted), seed=0, epoch=0)
    assert set(examples(drawn)) == wanted
    assert drawn.positions.shape == (len(wanted), len(COLUMNS[kind]))


@given(seed=SEEDS, kind=st.sampled_from(EXAMPLE_KINDS))
def test_a_draw_of_all_is_the_enumeration(seed: int, kind: ExampleKind) -> None:
    neighbours, labels = some_neighbours(seed)
    wanted = enumerated(neighbours, labels, kind)
    assert count_candidates(neighbours, kind) == len(wanted)
    drawn = draw(neighbours, labels, kind, len(wanted), seed=seed, epoch=0)
    assert sorted(examples(drawn)) == sorted(wanted)


@given(seed=SEEDS, kind=st.sampled_from(EXAMPLE_KINDS), share=st.floats(0, 1))
def test_no_example_comes_twice_nor_has_a_text_twice(
    seed: int, kind: ExampleKind, share: float
) -> None:
    neighbours, labels = some_neighbours(seed)
    candidates = enumerated(neighbours, labels, kind)
    count = max(1, int(share * len(candidates)))
    drawn = draw(neighbours, labels, kind, count, seed=1, epoch=2)
    found = examples(drawn)
    assert len(found) == len(set(found)) == count
    assert set(found) <= set(candidates)
    assert all(len(set(row)) == len(row) for row in drawn.positions.tolist())


@given(seed=SEEDS)
def test_labels_say_what_the_classes_are(seed: int) -> None:
    neighbours, labels = some_neighbours(seed)
    for kind in EXAMPLE_KINDS:
        drawn = draw(neighbours, labels, kind, count_candidates(neighbours, kind), 0, 0)
        classes = labels[drawn.positions]
        if kind == "triplets":
            assert drawn.labels is None
            assert (classes[:, 0] == classes[:, 1]).all()
            assert (classes[:, 0] != classes[:, 2]).all()
        elif kind == "pairs":
            assert (classes == np.asarray(drawn.labels)[:, None]).all()
        else:
            assert np.array_equal(classes[:, 0] == classes[:, 1], drawn.labels == np.int64(1))


@pytest.mark.parametrize("kind", EXAMPLE_KINDS)
def test_a_seed_and_an_epoch_make_a_draw(kind: ExampleKind) -> None:
    neighbours, labels = some_neighbours(0, n=40)

    def drawn(seed: int, epoch: int) -> list[Example]:
        return examples(draw(neighbours, labels, kind, 20, seed, epoch))

    assert drawn(3, 1) == drawn(3, 1)
    others = [drawn(3, 1), drawn(3, 2), drawn(4, 1), drawn(1, 3)]
    assert len({tuple(other) for other in others}) == 4


def test_a_draw_is_in_random_order() -> None:
    neighbours, labels = some_neighbours(0, n=40)
    n_candidates = count_candidates(neighbours, "triplets")
    anchors = draw(neighbours, labels, "triplets", n_candidates, 0, 0).positions[:, 0]
    assert abs(stats.spearmanr(np.arange(len(anchors)), anchors).statistic) < 0.15


@pytest.mark.parametrize("kind", EXAMPLE_KINDS)
def test_more_than_there_are_is_refused(kind: ExampleKind) -> None:
    n_candidates = len(HAND_EXAMPLES[kind])
    with pytest.raises(
        InputError,
        match=rf"the neighbours allow {n_candidates} {kind}, but 1,234 were requested; change "
        r"`examples` or `dropout`, or use more `neighbours` or a lower `threshold`",
    ):
        draw(HAND, HAND_LABELS, kind, 1234, seed=0, epoch=0)
    with pytest.raises(InputError, match=f"the neighbours allow {n_candidates} "):
        draw(HAND, HAND_LABELS, kind, n_candidates + 1, seed=0, epoch=0)


def test_of_no_texts_nothing_can_be_drawn() -> None:
    nobody = Neighbours(ragged(), ragged())
    assert count_candidates(nobody, "triplets") == 0
    with pytest.raises(InputError, match="the neighbours allow 0 pairs, but 1 were requested"):
        draw(nobody, np.array([], dtype=np.int64), "pairs", 1, seed=0, epoch=0)


@pytest.mark.parametrize("kind", EXAMPLE_KINDS)
def test_every_candidate_is_drawn_equally_often(kind: ExampleKind) -> None:
    """Inclusion without replacement varies less than a multinomial: chi-square scaled for it."""
    neighbours, labels = some_neighbours(5)
    candidates = enumerated(neighbours, labels, kind)
    n, count, n_draws = len(candidates), len(candidates) // 3, 600
    assert n >= 10
    drawn: Counter[Example] = Counter()
    for epoch in range(n_draws):
        drawn.update(examples(draw(neighbours, labels, kind, count, seed=7, epoch=epoch)))
    expected = n_draws * count / n
    squares = sum((drawn[c] - expected) ** 2 for c in candidates) / expected
    statistic = squares * (n - 1) / (n - count)
    assert 0.001 < stats.chi2.sf(statistic, n - 1) < 0.999


def test_twenty_million_candidates_are_never_listed() -> None:
    """78,125 texts with 16 and 16 neighbours; as a list their triplets would take 480 MB."""
    n, k = 78_125, 16
    near = (np.arange(n)[:, None] + np.arange(1, k + 1)) % n
    everywhere = RaggedRows.of(near, np.ones((n, k), dtype=bool))
    neighbours = Neighbours(everywhere, everywhere)
    assert count_candidates(neighbours, "triplets") == 20_000_000
    tracemalloc.start()
    drawn = draw(neighbours, np.zeros(n, dtype=np.int64), "triplets", 1000, seed=0, epoch=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len({tuple(row) for row in drawn.positions.tolist()}) == 1000
    steps = (drawn.positions[:, 1:] - drawn.positions[:, :1]) % n
    assert ((steps >= 1) & (steps <= k)).all()
    assert peak < 20e6


def test_a_count_beyond_32_bits_is_counted() -> None:
    """2,000 texts with 1,500 neighbours either way have 4.5e9 triplets."""
    n, k = 2000, 1500
    lots = RaggedRows(np.zeros(n * k, dtype=np.int32), np.arange(n + 1) * k)
    neighbours = Neighbours(lots, lots)
    assert count_candidates(neighbours, "triplets") == 4_500_000_000
    drawn = draw(neighbours, np.zeros(n, dtype=np.int64), "triplets", 100, seed=0, epoch=0)
    assert drawn.positions[:, 0].max() > 1500
