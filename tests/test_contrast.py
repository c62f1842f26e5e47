"""The contrast data set: what its pairs promise, checked on the committed sentences."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

CONTRAST = Path(__file__).parents[1] / "tasks" / "polarity" / "contrast"
FIELDS = ["id", "text", "label", "topic", "aspect", "phenomenon", "pair", "split"]

# Least Jaccard overlap of the words of two twins, of any pair and on average over all pairs.
OVERLAP = {
    "plain": (0.20, 0.50),
    "negation": (0.40, 0.70),
    "antonym": (0.55, 0.65),
    "intensifier": (0.65, 0.70),
    "concession": (0.38, 0.60),
    "sarcasm": (0.30, 0.55),
}
NEGATOR = re.compile(r"\b(?:not|cannot|never|no|nothing|nobody|hardly|without)\b", re.I)
ARTICLE = re.compile(r"\b(an?) (\w+)", re.I)
VOWEL_SOUND = re.compile(r"(?!one\b|uni[fqtv]|us[eu]|eu)[aeiou]|hour|honour|honest|heir", re.I)

Row = dict[str, str]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    lines = (CONTRAST / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def pairs(rows: list[Row]) -> dict[str, list[Row]]:
    """The two sentences of each pair, the positive one first."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["pair"]].append(row)
    return {pair: sorted(twins, key=lambda r: r["label"])[::-1] for pair, twins in found.items()}


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w']+", text.lower()))


def run_make(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "make.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_check_finds_the_committed_bytes() -> None:
    done = run_make(CONTRAST, "--check")
    assert done.returncode == 0, done.stderr


def test_check_fails_on_a_changed_file_and_make_restores_it(tmp_path: Path) -> None:
    folder = tmp_path / "contrast"
    shutil.copytree(CONTRAST, folder)
    sentences = folder / "sentences.jsonl"
    sentences.write_bytes(sentences.read_bytes()[1:])
    done = run_make(folder, "--check")
    assert done.returncode == 1
    assert "sentences.jsonl: differs from the lexicon; run make.py" in done.stderr
    assert run_make(folder).returncode == 0
    assert sentences.read_bytes() == (CONTRAST / "sentences.jsonl").read_bytes()


@pytest.mark.parametrize("entry", ["No choice.", "It {works.", "{a|b} | c", "{a|b|c}", "{a}{b|c}"])
def test_a_malformed_entry_is_refused(entry: str) -> None:
    expand = runpy.run_path(str(CONTRAST / "make.py"))["expand"]
    with pytest.raises(ValueError, match=r"needs choices of the form \{positive\|negative\}"):
        expand(entry)


def test_size_and_fields(rows: list[Row]) -> None:
    assert len(rows) >= 1500
    assert all(list(row) == FIELDS for row in rows)
    assert {row["label"] for row in rows} == {"positive", "negative"}
    assert {row["phenomenon"] for row in rows} == set(OVERLAP)
    aspects: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        aspects[row["topic"]].add(row["aspect"])
    assert len(aspects) >= 12
    assert all(4 <= len(found) <= 6 for found in aspects.values())


def test_ids_and_texts_are_distinct(rows: list[Row]) -> None:
    """Distinct texts also mean that no text is in both splits."""
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({row["text"].casefold() for row in rows}) == len(rows)


def test_twins_share_everything_but_the_label(pairs: dict[str, list[Row]]) -> None:
    for pair, twins in pairs.items():
        assert [twin["label"] for twin in twins] == ["positive", "negative"], pair
        for field in ("topic", "aspect", "phenomenon", "split"):
            assert len({twin[field] for twin in twins}) == 1, (pair, field)


def test_labels_are_balanced_in_every_cell(rows: list[Row]) -> None:
    cells = Counter((r["topic"], r["phenomenon"], r["split"], r["label"]) for r in rows)
    topics = {row["topic"] for row in rows}
    for topic in topics:
        for phenomenon in OVERLAP:
            for split in ("source", "query"):
                counts = [cells[topic, phenomenon, split, s] for s in ("positive", "negative")]
                assert counts[0] == counts[1] > 0, (topic, phenomenon, split)


def test_every_aspect_has_both_splits(rows: list[Row]) -> None:
    splits: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        splits[row["topic"], row["aspect"]].add(row["split"])
    assert all(found == {"source", "query"} for found in splits.values())


@pytest.mark.parametrize("split", ["source", "query"])
def test_every_even_prefix_of_a_split_is_balanced(rows: list[Row], split: str) -> None:
    """So a constant encoder, whose ties fall in file order, scores exactly chance."""
    chosen = [row for row in rows if row["split"] == split]
    for place in range(0, len(chosen), 2):
        first, second = chosen[place : place + 2]
        assert first["pair"] == second["pair"]
        assert first["label"] != second["label"]
        assert first["label"] == ("positive" if place % 4 == 0 else "negative")


def test_a_third_of_the_pairs_are_queries(pairs: dict[str, list[Row]]) -> None:
    share = sum(twins[0]["split"] == "query" for twins in pairs.values()) / len(pairs)
    assert share == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("phenomenon", OVERLAP)
def test_twins_are_minimal(pairs: dict[str, list[Row]], phenomenon: str) -> None:
    overlaps = {}
    for pair, (positive, negative) in pairs.items():
        if positive["phenomenon"] == phenomenon:
            one, other = words(positive["text"]), words(negative["text"])
            overlaps[pair] = len(one & other) / len(one | other)
    least, average = OVERLAP[phenomenon]
    assert min(overlaps.values()) >= least, min(overlaps, key=overlaps.__getitem__)
    assert sum(overlaps.values()) / len(overlaps) >= average


def test_half_of_the_negated_twins_are_positive(pairs: dict[str, list[Row]]) -> None:
    """Exactly one twin holds a negator, so that no label can be read off it."""
    negated: Counter[str] = Counter()
    for pair, twins in pairs.items():
        if twins[0]["phenomenon"] == "negation":
            holders = [twin["label"] for twin in twins if NEGATOR.search(twin["text"])]
            assert len(holders) == 1, pair
            negated[holders[0]] += 1
    assert negated["positive"] == negated["negative"]


def test_concessions_reuse_the_frame(pairs: dict[str, list[Row]]) -> None:
    conjunction = re.compile(
        r"\b(?:but|yet|although|though|while|despite|in spite of|even (?:so|after|with))\b",
        re.I,
    )
    for pair, twins in pairs.items():
        if twins[0]["phenomenon"] == "concession":
            assert all(conjunction.search(twin["text"]) for twin in twins), pair


def test_sentences_are_well_formed(rows: list[Row]) -> None:
    for row in rows:
        text = row["text"]
        assert re.fullmatch(r"[A-Z].*[.!?]", text), text
        assert not re.search(r"\s{2}|\s[.,;:!?]|[{}|]|\b(\w+) \1\b", text), text
        for article, word in ARTICLE.findall(text):
            assert (article.lower() == "an") == bool(VOWEL_SOUND.match(word)), text
