"""What is trained on and what is held out: the pool, relatives, draws, whole groups."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins import QUERIES, SOURCES, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.split import Split
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.data import (
    TrainingData,
    TrainingPool,
    draw_like,
    equal_to,
    load_training_data,
    relatives,
    training_pool,
)
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.values import BoolArray

ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz")), max_size=20)


def split(*rows: tuple[str, str]) -> Split:
    return Split(tuple(text for text, _ in rows), tuple(label for _, label in rows))


def where(rows: Split, texts: str | set[str]) -> BoolArray:
    return np.array([text in texts for text in rows.texts], dtype=bool)


def named(pool: TrainingPool) -> list[tuple[str, str]]:
    return [(text, pool.classes[i]) for text, i in zip(pool.texts, pool.labels, strict=True)]


def test_a_pool_by_hand() -> None:
    """`c` comes again with its label, `d` with another, `e` is held out, `f` a query."""
    rows = [("b", "1"), ("c", "0"), ("c", "0"), ("d", "0"), ("d", "1"), ("a", "0")]
    rows += [("e", "1"), ("e", "1"), ("f", "0"), ("f", "1"), ("c", "0")]
    given = split(*rows)
    pool = training_pool(given, held_out=where(given, "ef"), tested=where(given, "f"))
    assert named(pool) == [("b", "1"), ("c", "0"), ("a", "0")]
    assert pool.classes == ("0", "1")
    assert pool.labels.dtype == "int64"
    assert len(pool) == 3
    assert (pool.n_duplicates, pool.n_contradicting) == (2, 2)
    assert (pool.n_held_out, pool.n_tested) == (2, 2)


def test_texts_that_differ_in_a_space_are_two() -> None:
    rows = split(("a", "0"), ("a ", "0"), ("A", "1"))
    assert len(training_pool(rows, held_out=where(rows, ""), tested=where(rows, ""))) == 3


def test_a_class_whose_texts_all_went_is_no_class() -> None:
    rows = split(("a", "0"), ("b", "1"), ("c", "2"), ("d", "3"), ("d", "0"))
    pool = training_pool(rows, held_out=where(rows, "c"), tested=where(rows, ""))
    assert pool.classes == ("0", "1")


@pytest.mark.parametrize(
    ("rows", "excluded", "left"),
    [
        ([("a", "0"), ("b", "0")], "", 1),
        ([("a", "0"), ("b", "1")], "b", 1),
        ([("a", "0"), ("b", "1"), ("b", "0")], "", 1),
        ([("a", "0"), ("a", "1")], "", 0),
        ([], "", 0),
    ],
)
def test_fewer_than_two_classes_are_refused(
    rows: list[tuple[str, str]], excluded: str, left: int
) -> None:
    given = split(*rows)
    with pytest.raises(InputError, match=f"at least 2 classes after removing .* got {left};"):
        training_pool(given, held_out=where(given, ""), tested=where(given, excluded))


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
    given = split(*rows)
    pool = training_pool(given, held_out=where(given, excluded), tested=where(given, ""))
    assert named(pool) == kept
    assert pool.classes == tuple(sorted({label for _, label in kept}))
    counts = (pool.n_duplicates, pool.n_contradicting, pool.n_held_out)
    assert counts == (n_duplicates, n_contradicting, n_excluded)
    assert len(pool) + sum(counts) == len(rows)


# Relatives

WORDS = st.lists(st.text("abA .", max_size=6), max_size=8)


def overlap(one: str, other: str) -> bool:
    return bool(one and other) and (one in other or other in one)


@given(WORDS, WORDS)
def test_relatives_are_those_of_a_double_loop(texts: list[str], held_out: list[str]) -> None:
    theirs, bare = list(map(normal, held_out)), [text.strip() for text in held_out]
    slowly = [
        text and (text in bare or any(map(partial(overlap, normal(text)), theirs)))
        for text in (text.strip() for text in texts)
    ]
    assert relatives(texts, held_out).tolist() == list(map(bool, slowly))


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def load(folder: Path, held_out: int | None) -> TrainingData:
    spec = load_tasks(folder)["mini"]
    return load_training_data(spec, DataAccess(offline=True), held_out=held_out, seed=0)


def phrases() -> list[tuple[str, str]]:
    """Sentences, and phrases of them, as in SST-2: 432 rows of 144 sentences."""
    return [
        (f"{text} {i}{more}", label)
        for i in range(6)
        for text, label in SOURCES
        for more in ("", " INDEED", ", indeed yes")
    ]


def test_no_text_of_the_pool_or_the_sources_contains_a_held_out_text_or_is_part_of_one(
    tmp_path: Path,
) -> None:
    write_task(tmp_path, sources=phrases())
    data = load(tmp_path, 20)
    assert data.held_out is not None
    held_out = [normal(text) for text in data.held_out.query.texts]
    assert len(held_out) == 20
    for texts in (data.pool.texts, data.held_out.source.texts):
        assert len(texts) > 300
        assert not [
            (text, other)
            for text in held_out
            for other in map(normal, texts)
            if text in other or other in text
        ]
    assert data.pool.n_held_out == 432 - len(data.pool)


def test_no_twin_of_a_held_out_text_is_in_the_pool_or_the_sources() -> None:
    spec = load_tasks()["contrast"]
    assert isinstance(spec, PolaritySpec)
    access = DataAccess(offline=True)
    data = load_training_data(spec, access, held_out=None, seed=0)
    assert data.held_out
    held_out = set(data.held_out.query.columns["pair"])
    assert len(held_out) > 50
    rows = spec.load_split("source", access)
    twins = {
        text
        for text, pair in zip(rows.texts, rows.columns["pair"], strict=True)
        if pair in held_out
    }
    assert len(twins) > len(held_out)
    assert twins.isdisjoint(data.pool.texts)
    assert twins.isdisjoint(data.held_out.source.texts)


@pytest.mark.parametrize("held_out", [0, 5])
def test_no_query_of_the_task_is_in_the_pool_or_held_out(tmp_path: Path, held_out: int) -> None:
    """Up to case and punctuation, whatever its label there."""
    again = [(QUERIES[0][0].upper(), "0"), (QUERIES[1][0].replace(",", " -"), "1")]
    write_task(tmp_path, sources=[*SOURCES, *again], protocol="overlap = 1")
    data = load(tmp_path, held_out)
    assert data.pool.n_tested == 2
    queries = {normal(text) for text, _ in QUERIES}
    assert not queries & set(map(normal, data.pool.texts))
    if data.held_out is not None:
        assert not queries & set(map(normal, data.held_out.query.texts))


def test_the_pool_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    write_task(tmp_path, sources=phrases())
    assert load(tmp_path, 20).pool.digest == load(tmp_path, 20).pool.digest
    assert load(tmp_path, 20).pool.digest != load(tmp_path, 21).pool.digest


def test_so_many_overlapping_rows_cannot_be_held_out_but_fewer_are(tmp_path: Path) -> None:
    """Every text contains the one that all its relatives share."""
    rows = [(f"The {word}{'!' * i}", str(i % 2)) for word in "abcd" for i in range(12)]
    write_task(tmp_path, sources=rows)
    with pytest.raises(
        InputError, match=r"`held_out` 4: .* mini overlap so much that only 0 of 48"
    ):
        load(tmp_path, 4)
    with pytest.warns(ParameterWarning, match="only 2 rows of mini could be held out instead of 4"):
        data = load(tmp_path, None)
    assert data.held_out is not None
    assert len(data.held_out.query) == 2
    assert len(data.pool) == 24


def test_where_no_row_can_be_held_out_the_queries_choose(tmp_path: Path) -> None:
    write_task(tmp_path, sources=[(f"The soup{'!' * i}", str(i % 2)) for i in range(20)])
    with pytest.warns(ParameterWarning, match="the task's own queries choose the checkpoint"):
        assert load(tmp_path, None).held_out is None


def test_a_text_without_words_equals_only_itself() -> None:
    given = ["🙂", "😡", " 🙂", "A warm day!", "..."]
    assert equal_to(given, ["🙂", "a warm day", ""]).tolist() == [True, False, True, True, False]


def test_a_text_without_words_is_a_relative_of_itself_alone() -> None:
    assert not relatives(["", "a warm day"], ["", "cold"]).any()
    assert relatives(["🙂🙂", "!", "warm 🙂🙂"], ["🙂🙂"]).tolist() == [True, False, False]


def test_more_than_half_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path)
    with pytest.raises(
        InputError, match="`held_out` must be at most half of the 24 training rows of mini, got 13"
    ):
        load(tmp_path, 13)


def test_drawn_rows_are_as_long_as_the_queries() -> None:
    generator = np.random.default_rng(0)
    texts = [" ".join(map(str, generator.integers(9, size=n % 40 + 1))) for n in range(4000)]
    queries = [" ".join("q" * n) for n in [3] * 50 + [17] * 100 + [30] * 50]
    everywhere = np.ones(len(texts), dtype=bool)
    drawn = draw_like(texts, queries, 60, 0, allowed=everywhere, last=~everywhere)
    lengths = [len(texts[i].split()) for i in drawn]
    assert set(lengths) == {3, 17, 30}
    assert 20 < lengths.count(17) < 40
    assert len(set(drawn.tolist())) == 60


def test_rows_are_drawn_that_are_no_sources_as_long_as_there_are_some() -> None:
    texts = [f"a {i}" for i in range(20)]
    last = np.arange(20) < 15
    everywhere = np.ones(20, dtype=bool)
    assert min(draw_like(texts, ["q q"], 5, 0, allowed=everywhere, last=last)) == 15
    assert min(draw_like(texts, ["q q"], 6, 0, allowed=everywhere, last=last)) < 15
    with pytest.raises(InputError, match="`held_out` 6: only 5 training rows can be held out"):
        draw_like(texts, ["q q"], 6, 0, allowed=~last, last=last)


def test_a_text_is_drawn_once_and_one_without_words_never() -> None:
    texts = ["a", "a", "b", ""]
    everywhere = np.ones(4, dtype=bool)
    drawn = draw_like(texts, ["q"], 2, 0, allowed=everywhere, last=~everywhere)
    assert [texts[i] for i in drawn] == ["a", "b"]
