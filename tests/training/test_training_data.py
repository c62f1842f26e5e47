"""The pool: which rows of a training file examples may be made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polarity_bench.training.pool import TrainingPool, training_pool

from polarity_bench.errors import InputError
from polarity_bench.types import Split

ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz")), max_size=20)


def split(*rows: tuple[str, str]) -> Split:
    return Split(tuple(text for text, _ in rows), tuple(label for _, label in rows))


def named(pool: TrainingPool) -> list[tuple[str, str]]:
    return [(text, pool.classes[i]) for text, i in zip(pool.texts, pool.labels, strict=True)]


def test_a_pool_by_hand() -> None:
    """`c` comes again with its label, `d` with another, `e` twice and held out, `f` both."""
    rows = [("b", "1"), ("c", "0"), ("c", "0"), ("d", "0"), ("d", "1"), ("a", "0")]
    rows += [("e", "1"), ("e", "1"), ("f", "0"), ("f", "1"), ("c", "0")]
    pool = training_pool(split(*rows), excluded=["e", "f", "not there"])
    assert named(pool) == [("b", "1"), ("c", "0"), ("a", "0")]
    assert pool.classes == ("0", "1")
    assert pool.labels.dtype == "int64"
    assert len(pool) == 3
    assert (pool.n_duplicates, pool.n_contradicting, pool.n_excluded) == (2, 2, 4)


def test_texts_that_differ_in_a_space_are_two() -> None:
    assert len(training_pool(split(("a", "0"), ("a ", "0"), ("A", "1")))) == 3


def test_a_class_whose_texts_all_went_is_no_class() -> None:
    rows = split(("a", "0"), ("b", "1"), ("c", "2"), ("d", "3"), ("d", "0"))
    assert training_pool(rows, excluded={"c"}).classes == ("0", "1")


@pytest.mark.parametrize(
    ("rows", "excluded", "left"),
    [
        ([("a", "0"), ("b", "0")], [], 1),
        ([("a", "0"), ("b", "1")], ["b"], 1),
        ([("a", "0"), ("b", "1"), ("b", "0")], [], 1),
        ([("a", "0"), ("a", "1")], [], 0),
        ([], [], 0),
    ],
)
def test_fewer_than_two_classes_are_refused(
    rows: list[tuple[str, str]], excluded: list[str], left: int
) -> None:
    with pytest.raises(InputError, match=f"the training rows have {left} class once contradicting"):
        training_pool(split(*rows), excluded)


@given(ROWS, st.sets(st.sampled_from("abcdefgh"), max_size=3))
def test_every_row_is_kept_or_counted_once(rows: list[tuple[str, str]], excluded: set[str]) -> None:
    firm = [("i", "x"), ("j", "y")]  # so that two classes are left
    rows = [*rows, *firm]
    kept: list[tuple[str, str]] = []
    n_duplicates = n_contradicting = n_excluded = 0
    for text, label in rows:  # slowly, row by row
        if text in excluded:
            n_excluded += 1
        elif any(other == text and theirs != label for other, theirs in rows):
            n_contradicting += 1
        elif (text, label) in kept:
            n_duplicates += 1
        else:
            kept.append((text, label))
    pool = training_pool(split(*rows), excluded)
    assert named(pool) == kept
    assert pool.classes == tuple(sorted({label for _, label in kept}))
    counts = (pool.n_duplicates, pool.n_contradicting, pool.n_excluded)
    assert counts == (n_duplicates, n_contradicting, n_excluded)
    assert len(pool) + sum(counts) == len(rows)
