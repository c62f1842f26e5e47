"""Names of scores: each reads back as the key that it was made of, or cannot be made."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from polarity_bench.errors import InputError
from polarity_bench.metrics.classification import classification_scores
from polarity_bench.results.packed_results import read_stored, result_paths
from polarity_bench.results.result_files import read_result
from polarity_bench.scores import WEIGHTINGS, ScoreKey

ROOT = Path(__file__).parents[1]
COMMITTED = result_paths(ROOT / "leaderboards")
NOT_SCORES = {"main_score", "hf_subset", "languages"}

_WORDS = "at of uniform 16 4 recall spearman polarity so-so a.b std ä ٣"
pieces = st.sampled_from(["_", "_at_", "_of_", "_uniform", "\n", *_WORDS.split()])
names = st.lists(pieces, max_size=5).map("".join)
keys = st.tuples(
    names, st.none() | st.integers(-1, 99), st.sampled_from([*WEIGHTINGS]), st.none() | names
)


def made(fields: tuple[str, int | None, str, str | None]) -> ScoreKey | None:
    try:
        return ScoreKey(*fields)
    except InputError:
        return None


@given(keys)
@example(("polarity", 16, "uniform", "negation"))
@example(("polarity", 16, "linear", "x_at_4"))
@example(("spearman", None, "linear", "surprise.OnWN"))
@example(("recall", None, "linear", "very_bad"))
def test_a_key_is_read_back_from_its_text(
    fields: tuple[str, int | None, str, str | None],
) -> None:
    key = made(fields)
    assume(key is not None)
    assert key is not None
    assert (key.metric, key.k, key.weighting, key.part) == fields
    assert ScoreKey.parse(str(key)) == key


@given(st.lists(pieces, max_size=8).map("".join))
def test_whatever_can_be_parsed_is_the_text_of_what_it_means(text: str) -> None:
    try:
        key = ScoreKey.parse(text)
    except InputError:
        return
    assert str(key) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (ScoreKey("joint", 16), "joint_at_16"),
        (ScoreKey("joint", 16, "uniform"), "joint_uniform_at_16"),
        (ScoreKey("polarity", 4, part="sarcasm"), "polarity_of_sarcasm_at_4"),
        (ScoreKey("polarity", 16, "uniform", "plain"), "polarity_of_plain_uniform_at_16"),
        (ScoreKey("polarity_chance"), "polarity_chance"),
        (ScoreKey("similarity_reference", 16), "similarity_reference_at_16"),
        (ScoreKey("recall", part="very_bad"), "recall_very_bad"),
        (ScoreKey("spearman", part="all"), "spearman_all"),
        (ScoreKey("spearman"), "spearman"),
        (ScoreKey("pearson", part="surprise.OnWN"), "pearson_surprise.OnWN"),
        (ScoreKey("dev_pearson"), "dev_pearson"),
    ],
    ids=str,
)
def test_names_are_those_of_mteb_and_of_committed_results(key: ScoreKey, text: str) -> None:
    assert str(key) == text
    assert ScoreKey.parse(text) == key


@pytest.mark.parametrize(
    "fields",
    [
        {"metric": "polarity", "k": 16, "part": "a_uniform"},
        {"metric": "polarity_uniform", "k": 16},
        {"metric": "topic_of_talk", "k": 16},
        {"metric": "topic_at_4"},
        {"metric": "recall_all"},
        {"metric": "polarity", "weighting": "uniform"},
        {"metric": "polarity", "part": "negation"},
        {"metric": "polarity", "k": -1},
        {"metric": "two\nlines", "k": 16},
    ],
    ids=str,
)
def test_a_part_that_reads_as_something_else_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"another score has the same name, '.*'; rename"):
        ScoreKey(**fields)


def test_there_are_committed_results_of_every_kind() -> None:
    folders = {path.relative_to(ROOT).parts[1] for path in COMMITTED}
    assert len(COMMITTED) > 200
    assert {"polarity", "training-sst2"} <= folders


def test_every_name_in_every_committed_result_is_the_text_of_its_key() -> None:
    found: set[str] = set()
    for path in COMMITTED:
        (row,) = read_stored(path)["scores"]["test"]
        found |= set(row) - NOT_SCORES
    assert len(found) > 200
    for name in found:
        assert str(ScoreKey.parse(name)) == name


def test_every_committed_result_reads_as_keys_taken_apart() -> None:
    """No metric still holds its k, weighting or part, nor a deviation that is no score."""
    spelled = re.compile(r"_at_\d|_of_|_uniform|_std$|_ci95_|_n_undefined$|^recall_|^spearman_")
    metrics: set[str] = set()
    for path in COMMITTED:
        result = read_result(path)
        assert result.main_score in result.scores, path
        metrics |= {key.metric for key in result.scores}
    assert {"polarity", "joint", "accuracy", "recall", "pearson", "spearman"} <= metrics
    assert [metric for metric in metrics if spelled.search(metric)] == []


def test_a_class_named_like_the_deviation_of_another_is_refused() -> None:
    """Else its recall would be read back as the deviation of the other's, which has none."""
    labels = np.array([0, 1])
    scores = classification_scores(labels, labels, ["good", "good std"])
    with pytest.raises(InputError, match="two scores are named 'recall_good_std'; rename a"):
        _ = replace(read_result(COMMITTED[0]), scores=scores).flat
