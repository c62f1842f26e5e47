"""Polarity tasks: what their files declare is checked, and how sources and queries are drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from standins import QUERIES, SOURCES, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask


def load(file: Path, k: int | None = None, limit: int | None = None) -> PolarityTask:
    spec = read_task(file)
    assert isinstance(spec, PolaritySpec)
    ks = () if k is None else (k,)
    return spec.load(DataAccess(offline=True), Settings(ks=ks, limit=limit))


def test_a_task_is_loaded_as_its_file_declares(task_dir: Path) -> None:
    data = load(task_dir / "mini.toml")
    assert data.source.texts == tuple(text for text, _ in SOURCES)
    assert data.query.labels == ("good",) * 4 + ("bad",) * 4
    assert data.n_overlap == 0
    assert data.texts == data.source.texts + data.query.texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "rows = 25"}, "expected 25 rows, got 24; is the file truncated or edited?"),
        (
            {"split": "label_rows = { bad = 11, good = 13 }"},
            "expected 11 rows of the label 'bad', got 12",
        ),
        ({"split": f'sha256 = "{"0" * 64}"'}, "mini expects the sha256 000000000000…, got"),
        (
            {"sources": [*SOURCES, (" ", "1")]},
            "mini-source.csv, line 26: the text is empty",
        ),
        (
            {"queries": [*QUERIES, ("good\x00film", "1")]},
            "mini-query.csv, line 10: the row contains a NUL byte",
        ),
        (
            {"sources": [*SOURCES[:3], ("Odd.", "2"), *SOURCES[3:]]},
            "mini-source.csv, line 5: unknown label '2'; the task declares '0', '1'",
        ),
        ({"sources": SOURCES[:12]}, "every source has the label 'good'; a polarity task needs"),
        ({"queries": QUERIES[4:]}, "every query has the label 'bad'; a polarity task needs"),
        ({"queries": []}, "mini-query.csv: the split 'query' has no rows"),
        ({"sources": SOURCES[10:13]}, "k = 4 needs at least 4 sources, got 3"),
        (
            {"sources": [*SOURCES[10:13], QUERIES[0]], "protocol": "overlap = 1"},
            "k = 4 needs at least 4 sources, got 3 without those equal to the query",
        ),
        (
            {"sources": [*SOURCES, QUERIES[0]], "protocol": "overlap = 0"},
            "expected 0 queries that also occur in the source split, got 1",
        ),
        (
            {"sources": [*SOURCES, (QUERIES[0][0].upper(), "1")], "protocol": "overlap = 0"},
            "expected 0 queries that also occur in the source split, got 1",
        ),
        (
            {"protocol": "overlap = 2"},
            "expected 2 queries that also occur in the source split, got 0",
        ),
    ],
)
def test_data_that_is_not_what_is_declared_is_refused(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    file = write_task(tmp_path, **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape(message)):
        load(file)


def test_the_largest_k_asked_for_is_checked(task_dir: Path) -> None:
    assert len(load(task_dir / "mini.toml", k=24).source) == 24
    with pytest.raises(InputError, match="k = 25 needs at least 25 sources, got 24"):
        load(task_dir / "mini.toml", k=25)


def test_a_limit_draws_queries_and_keeps_their_order(task_dir: Path) -> None:
    data = load(task_dir / "mini.toml", limit=6)
    texts = [text for text, _ in QUERIES]
    places = [texts.index(text) for text in data.query.texts]
    assert len(places) == 6
    assert places == sorted(places)
    assert load(task_dir / "mini.toml", limit=6).query == data.query
    assert sorted(load(task_dir / "mini.toml", limit=2).query.labels) == ["bad", "good"]
    assert load(task_dir / "mini.toml", limit=100).digest == load(task_dir / "mini.toml").digest


def test_sources_are_drawn_as_pandas_draws_them(tmp_path: Path) -> None:
    many = [(f"Sentence {i}.", str(i % 2)) for i in range(500)]
    file = write_task(tmp_path, sources=many)
    text = file.read_text().replace("sources_per_query = 0", "sources_per_query = 5")
    file.write_text(text)
    frame = pd.DataFrame(many, columns=["text", "label"])
    expected = frame.sample(min(len(frame), 5 * len(QUERIES)), random_state=42)
    data = load(file)
    assert data.source.texts == tuple(expected["text"])
    assert data.source.labels == tuple(np.where(expected["label"] == "1", "good", "bad"))


def test_a_task_that_says_nothing_keeps_all_its_sources(tmp_path: Path) -> None:
    many = [(f"Sentence {i}.", str(i % 2)) for i in range(500)]
    file = write_task(tmp_path, sources=many)
    file.write_text(file.read_text().replace("sources_per_query = 0", ""))
    data = load(file)
    assert data.source.texts == tuple(text for text, _ in many)
    assert "drawn from" not in data.counts


def test_a_draw_is_counted(tmp_path: Path) -> None:
    many = [(f"Sentence {i}.", str(i % 2)) for i in range(500)]
    file = write_task(tmp_path, sources=many)
    file.write_text(file.read_text().replace("sources_per_query = 0", "sources_per_query = 5"))
    assert load(file).counts == {"sources": 40, "queries": 8, "overlap": 0, "drawn from": 500}


def test_rows_are_chosen_by_where_and_columns_kept(tmp_path: Path) -> None:
    lines = [
        {"text": f"{part} {i}", "label": i % 2, "part": part, "topic": f"t{i % 3}"}
        for part in ("a", "b")
        for i in range(6)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    splits = "".join(
        f'[splits.{split}]\npath = "rows.jsonl"\nwhere = {{ part = "{part}" }}\n'
        for split, part in (("source", "a"), ("query", "b"))
    )
    file = tmp_path / "w.toml"
    file.write_text(
        'name = "w"\nkind = "polarity"\ntitle = "W"\n[labels]\n0 = "no"\n1 = "yes"\n'
        f'[format]\ncolumns = ["topic"]\n{splits}[protocol]\nk = 2\nsources_per_query = 0\n'
    )
    data = load(file)
    assert data.source.texts == tuple(f"a {i}" for i in range(6))
    assert data.query.columns == {"topic": ("t0", "t1", "t2", "t0", "t1", "t2")}
    assert data.query.take([1, 3]).columns == {"topic": ("t1", "t0")}


def leaking(folder: Path, n_overlap: int, protocol: str = "") -> Path:
    """A task of 20 queries, so many of which stand among its sources too."""
    rows = [(f"Sentence {i}.", str(i % 2)) for i in range(60)]
    shared = [(text.upper(), label) for text, label in rows[20 : 20 + n_overlap]]
    queries = [*shared, *rows[n_overlap:20]]
    return write_task(folder, sources=rows[20:], queries=queries, protocol=protocol)


@pytest.mark.parametrize("n_overlap", [1, 2])
def test_queries_among_the_sources_are_warned_about_with_their_number(
    tmp_path: Path, n_overlap: int
) -> None:
    with pytest.warns(InputWarning, match=rf"mini: {n_overlap} of 20 queries also occur among the"):
        assert load(leaking(tmp_path, n_overlap)).n_overlap == n_overlap


def test_more_than_one_query_in_ten_among_the_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mini: 3 of 20 queries .*`overlap = 3` in \[protocol\]"):
        load(leaking(tmp_path, 3))


def test_an_overlap_that_the_task_file_declares_is_no_news(tmp_path: Path) -> None:
    assert load(leaking(tmp_path, 20, "overlap = 20")).n_overlap == 20


@pytest.mark.parametrize("what", ["text", "label", "order"])
def test_the_digest_of_the_data_changes_with_the_data(tmp_path: Path, what: str) -> None:
    changed = {
        "text": [("The a was hot.", "1"), *SOURCES[1:]],
        "label": [(SOURCES[0][0], "0"), *SOURCES[1:]],
        "order": [SOURCES[1], SOURCES[0], *SOURCES[2:]],
    }[what]
    before = load(write_task(tmp_path)).digest
    assert load(write_task(tmp_path, sources=changed)).digest != before
