"""Folds, cuts and samples: what is promised of them, and what is refused."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from polarity_bench.cross_validation.folds import folds
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.data.sampling import sample
from polarity_bench.errors import InputError
from polarity_bench.values import IntArray

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.lists(st.integers(2, 40), min_size=2, max_size=6)
"""Rows of each class."""


def some_labels(counts: list[int], seed: int = 0) -> IntArray:
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(seed).permutation(labels)


def count(labels: IntArray, n_classes: int) -> list[int]:
    counted: list[int] = np.bincount(labels, minlength=n_classes).tolist()
    return counted


def largest_remainders(counts: list[int], n: int) -> list[int]:
    """Hamilton's method as it is taught: whole parts, then the largest remainders."""
    dues = [Fraction(n * each, sum(counts)) for each in counts]
    shares = [int(due) for due in dues]
    by_remainder = sorted(range(len(counts)), key=lambda i: (shares[i] - dues[i], i))
    for i in by_remainder[: n - sum(shares)]:
        shares[i] += 1
    return shares


# Folds


@given(counts=COUNTS, seed=SEEDS, data=st.data())
def test_every_row_is_tested_once_and_trained_on_otherwise(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    n_folds = data.draw(st.integers(2, min(counts)))
    labels = some_labels(counts, seed)
    made = folds(labels, n_folds, seed)
    assert len(made) == n_folds
    assert np.sort(np.concatenate([test for _, test in made])).tolist() == [*range(len(labels))]
    for train, test in made:
        assert np.union1d(train, test).tolist() == [*range(len(labels))]
        assert len(train) + len(test) == len(labels)
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()


@given(counts=COUNTS, seed=SEEDS, data=st.data())
def test_every_class_is_as_common_in_each_fold(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    n_folds = data.draw(st.integers(2, min(counts)))
    labels = some_labels(counts, seed)
    for train, test in folds(labels, n_folds, seed):
        for own, of_all in zip(count(labels[test], len(counts)), counts, strict=True):
            assert 1 <= of_all // n_folds <= own <= -(-of_all // n_folds)
        assert min(count(labels[train], len(counts))) >= 1


def test_folds_hang_on_the_seed_alone() -> None:
    labels = some_labels([30, 20])
    first, again, other = (
        [test.tolist() for _, test in folds(labels, 5, seed)] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("counts", "n_folds", "said"),
    [
        ([5, 5], 1, "`folds` must be at least 2, got 1"),
        (
            *([50, 9, 40], 40),
            "`folds` must be at most 9, because the class 1 has only 9 rows, got 40",
        ),
        ([5], 2, "the data must have at least 2 classes, got 1"),
        ([], 2, "the data must have at least 2 classes, got 0"),
    ],
)
def test_folds_that_cannot_be_are_refused(counts: list[int], n_folds: int, said: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        folds(some_labels(counts), n_folds, 0)


# Cuts and samples


@given(counts=COUNTS, seed=SEEDS, data=st.data())
def test_a_sample_holds_every_class_about_as_often_as_the_data(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    n = data.draw(st.integers(len(counts), sum(counts)))
    labels = some_labels(counts, seed)
    drawn = sample(labels, n, seed)
    assert len(drawn) == n
    assert (np.diff(drawn) > 0).all()
    for own, of_all in zip(count(labels[drawn], len(counts)), counts, strict=True):
        due = Fraction(n * of_all, sum(counts))
        assert 1 <= own <= of_all
        assert own == 1 or own < due + 1


@given(counts=COUNTS, data=st.data())
def test_where_no_class_is_rare_shares_are_those_of_largest_remainders(
    counts: list[int], data: st.DataObject
) -> None:
    n = data.draw(st.integers(len(counts), sum(counts)))
    assume(all(n * each >= sum(counts) for each in counts))
    labels = some_labels(counts)
    assert count(labels[sample(labels, n, 0)], len(counts)) == largest_remainders(counts, n)


def test_rare_classes_have_a_row_of_a_small_cut() -> None:
    """TREC's training rows: of 20, the rarest class's due is a third of one."""
    labels = some_labels([1250, 1223, 1162, 896, 835, 86])
    assert count(labels[sample(labels, 20, 0)], 6) == [5, 4, 4, 3, 3, 1]


def test_a_draw_hangs_on_the_seed_alone_and_reaches_every_row() -> None:
    labels = some_labels([11, 8])
    assert sample(labels, 5, [1, 2]).tolist() == sample(labels, 5, [1, 2]).tolist()
    seen = [sample(labels, 5, seed) for seed in range(50)]
    assert np.unique(np.concatenate(seen)).tolist() == [*range(19)]


def test_all_rows_are_a_sample_too() -> None:
    assert sample(some_labels([3, 4]), 7, 0).tolist() == [*range(7)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (11, "`rows` 11: the fold has 10 training rows; choose at most 10"),
        (2, "`rows` 2: each of the 3 classes needs a row; choose at least 3"),
    ],
)
def test_training_rows_that_a_fold_does_not_have_are_refused(rows: int, said: str) -> None:
    protocol = Protocol(folds=2, rows=rows, seeds=(0,))
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        list(protocol.splits(np.repeat([0, 1, 2], [8, 6, 6])))


def test_a_sample_that_cannot_be_is_refused() -> None:
    labels = some_labels([600, 400])
    with pytest.raises(
        InputError, match=r"^`sample` 1,001: the data has 1,000 rows; choose at most 1,000"
    ):
        sample(labels, 1001, 0)
    with pytest.raises(InputError, match=r"^`sample` 1: each of the 2 classes needs a row"):
        sample(labels, 1, 0)
    with pytest.raises(InputError, match=r"^`samples` 1: each of the 2 classes"):
        sample(labels, 1, 0, field="samples")
