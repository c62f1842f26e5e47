"""Reading tasks: every format, every thing that can be wrong with a file, the draw of sources."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from standins import QUERIES, SOURCES, Rows, csv_text, write_task

from polarity_bench.data.declared import FormatSpec
from polarity_bench.data.readers import read_rows
from polarity_bench.data.sources import DataAccess, file_status
from polarity_bench.errors import InputError
from polarity_bench.kinds import read_task
from polarity_bench.kinds.polarity import PolaritySpec, PolarityTask
from polarity_bench.kinds.task import Settings

HERE = DataAccess(offline=True)
ODD = [
    ('Quotes "within", and a comma', "1"),
    ("Två rader\nin one cell", "0"),
    ("\u2028 inside", "1"),
]


def spec_of(file: Path) -> PolaritySpec:
    spec = read_task(file)
    assert isinstance(spec, PolaritySpec)
    return spec


def load(file: Path, k: int | None = None, limit: int | None = None) -> PolarityTask:
    return spec_of(file).load(HERE, Settings(ks=(k,), limit=limit))


def values(
    path: Path, form: FormatSpec | None = None, label_path: Path | None = None
) -> list[tuple[str, ...]]:
    return [
        row.values for row in read_rows(path, form or FormatSpec(), ["text", "label"], label_path)
    ]


# Formats


def jsonl(rows: Rows) -> str:
    return "".join(json.dumps({"label": int(y), "text": t}) + "\n" for t, y in rows)


def parquet(path: Path, rows: Rows) -> None:
    texts, labels = zip(*rows, strict=True)
    pd.DataFrame({"label": [int(y) for y in labels], "text": texts}).to_parquet(path)


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".csv", csv_text),
        (".tsv", lambda rows: pd.DataFrame(rows, columns=["text", "label"]).to_csv(sep="\t")),
        (".jsonl", jsonl),
        (".ndjson", jsonl),
    ],
)
def test_text_formats(tmp_path: Path, suffix: str, write: Callable[[Rows], str], gz: bool) -> None:
    content = write(ODD).encode()
    path = tmp_path / f"rows{suffix}{'.gz' if gz else ''}"
    path.write_bytes(gzip.compress(content) if gz else content)
    assert values(path) == ODD


def test_parquet_and_whole_numbers_written_as_such(tmp_path: Path) -> None:
    parquet(tmp_path / "rows.parquet", ODD)
    assert values(tmp_path / "rows.parquet") == ODD
    frame = pd.DataFrame({"text": ["a", "b"], "label": [1.0, 0.0]})
    frame.to_parquet(tmp_path / "floats.parquet")
    assert values(tmp_path / "floats.parquet") == [("a", "1"), ("b", "0")]


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(
        "one \u2028 line\r\ntwo\x0bthree\n", encoding="utf-8", newline=""
    )
    (tmp_path / "l.txt").write_text("1\n0", encoding="utf-8")
    found = values(tmp_path / "t.txt", label_path=tmp_path / "l.txt")
    assert found == [("one \u2028 line", "1"), ("two\x0bthree", "0")]


def test_byte_order_mark_blank_lines_and_column_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\ufefflabel,more,text\n1,x,a\n\n0,y,b\n", encoding="utf-8")
    rows = read_rows(path, FormatSpec(), ["text", "label"])
    assert [(row.line, row.values) for row in rows] == [(2, ("a", "1")), (4, ("b", "0"))]


def test_other_delimiter_encoding_and_no_quoting(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes('text;label\n"Sch\xf6n;1\n'.encode("latin-1"))
    form = FormatSpec(type="csv", delimiter=";", quoted=False, encoding="latin-1")
    assert values(path, form) == [('"Schön', "1")]


def test_a_cell_over_several_lines_keeps_the_line_numbers_right(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"a\nb\nc",1\nd,0\n', encoding="utf-8")
    assert [row.line for row in read_rows(path, FormatSpec(), ["text", "label"])] == [2, 5]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.csv", b"txt,label\na,1\n", "no column 'text'; did you mean 'txt'?"),
        ("r.csv", b"", "no column 'text'"),
        ("r.csv", b"text,label\na,1\nb\n", "line 3: 1 columns where the header has 2"),
        ("r.csv", b'text,label\na,1\n"b,0\n', "line 3: unexpected end of data"),
        ("r.csv", b"text,label\n\xff,1\n", "not utf-8 at byte"),
        ("r.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "line 2: not JSON"),
        ("r.jsonl", b'{"text": "a", "labl": 1}\n', "line 1: no key 'label'; did you mean 'labl'"),
        ("r.jsonl", b"[1]\n", "line 1: a JSON object is wanted"),
        ("r.parquet", b"text,label\n", "not a parquet file"),
        ("r.xlsx", b"", "unknown format '.xlsx'; set [format] type"),
        ("r.txt", b"a\n", "a text file needs a 'label_file'"),
        ("r.csv.gz", gzip.compress(b"text,label\n" + b"a,1\n" * 9999)[:60], "damaged gzip file"),
        ("r.csv.gz", b"text,label\n", "damaged gzip file"),
        (
            "r.csv.gz",
            gzip.compress(b"text,label\n")[:10] + b"\xff" * 30,
            "damaged gzip file",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        values(path)
    assert str(error.value).startswith(str(path))


def test_a_parquet_file_without_the_column_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"sentence": ["a"], "label": [1]}).to_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"r\.parquet: no column 'text'"):
        values(tmp_path / "r.parquet")


def test_label_lines_must_be_as_many_as_text_lines(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a\nb\n")
    (tmp_path / "l.txt").write_text("1\n")
    with pytest.raises(InputError, match=r"t\.txt has 2 lines and .*l\.txt 1; they must agree"):
        values(tmp_path / "t.txt", label_path=tmp_path / "l.txt")


def test_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text,label\n")
    with pytest.raises(InputError, match=r"encoding: unknown encoding: utf-9"):
        values(tmp_path / "r.csv", FormatSpec(encoding="utf-9"))


# Tasks


def test_a_task_is_loaded_as_its_file_declares(task_dir: Path) -> None:
    data = load(task_dir / "mini.toml")
    assert data.source.texts == tuple(text for text, _ in SOURCES)
    assert data.query.labels == ("good",) * 4 + ("bad",) * 4
    assert data.n_overlap == 0
    assert data.texts == data.source.texts + data.query.texts


Changed = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "rows = 25"}, "24 rows where 25 are expected; a truncated or edited copy?"),
        (
            {"split": "label_rows = { bad = 11, good = 13 }"},
            "12 rows of the label 'bad' where 11 are expected",
        ),
        ({"split": f'sha256 = "{"0" * 64}"'}, "where mini expects 000000000000…"),
        (
            {"sources": [*SOURCES, (" ", "1")]},
            "mini-source.csv, line 26: the text is empty",
        ),
        (
            {"sources": [*SOURCES[:3], ("Odd.", "2"), *SOURCES[3:]]},
            "mini-source.csv, line 5: unknown label '2'; the task declares '0', '1'",
        ),
        ({"sources": SOURCES[:12]}, "every source has the label 'good'; polarity needs two"),
        ({"queries": QUERIES[4:]}, "every query has the label 'bad'; polarity needs two"),
        ({"queries": []}, "mini-query.csv: no rows for the split 'query'"),
        ({"sources": SOURCES[10:13]}, "k = 4 needs as many sources, there are 3"),
        (
            {"sources": [*SOURCES[10:13], QUERIES[0]]},
            "k = 4 needs as many sources, there are 3 besides those whose text equals a query's",
        ),
        (
            {"sources": [*SOURCES, QUERIES[0]], "protocol": "overlap = 0"},
            "1 queries also stand in the source file, the task declares 0",
        ),
        (
            {"sources": [*SOURCES, (QUERIES[0][0].upper(), "1")], "protocol": "overlap = 0"},
            "1 queries also stand in the source file, the task declares 0",
        ),
        (
            {"protocol": "overlap = 2"},
            "0 queries also stand in the source file, the task declares 2",
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
    with pytest.raises(InputError, match="k = 25 needs as many sources, there are 24"):
        load(task_dir / "mini.toml", k=25)


def test_a_limit_draws_queries_and_keeps_their_order(task_dir: Path) -> None:
    data = load(task_dir / "mini.toml", limit=6)
    texts = [text for text, _ in QUERIES]
    places = [texts.index(text) for text in data.query.texts]
    assert len(places) == 6
    assert places == sorted(places)
    assert load(task_dir / "mini.toml", limit=6).query == data.query
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


@pytest.mark.parametrize("what", ["text", "label", "order"])
def test_the_digest_of_the_data_changes_with_the_data(tmp_path: Path, what: str) -> None:
    changed = {
        "text": [("The a was hot.", "1"), *SOURCES[1:]],
        "label": [(SOURCES[0][0], "0"), *SOURCES[1:]],
        "order": [SOURCES[1], SOURCES[0], *SOURCES[2:]],
    }[what]
    before = load(write_task(tmp_path)).digest
    assert load(write_task(tmp_path, sources=changed)).digest != before


# Places


def test_missing_data_names_the_files_the_places_and_the_remedy(
    task_dir: Path, tmp_path: Path
) -> None:
    (task_dir / "mini-source.csv").unlink()
    with pytest.raises(InputError) as error:
        load(task_dir / "mini.toml")
    for part in ("mini: mini-source.csv is neither", str(task_dir), "--data-dir", "mini-query.csv"):
        assert part in str(error.value)


def test_a_data_folder_is_searched_after_the_task_files_own(task_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (task_dir / "mini-source.csv").rename(folder / "mini-source.csv")
    data = spec_of(task_dir / "mini.toml").load(DataAccess(folder, offline=True), Settings())
    assert len(data.source) == 24
    rows = file_status(spec_of(task_dir / "mini.toml"), DataAccess(folder, offline=True))
    assert [(row["status"], row["place"]) for row in rows] == [
        ("here", str(folder / "mini-source.csv")),
        ("here", str(task_dir / "mini-query.csv")),
    ]


def test_a_data_folder_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="does not exist or is no folder"):
        DataAccess(tmp_path / "none")
    monkeypatch.setenv("POLARITY_BENCH_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="does not exist or is no folder"):
        DataAccess.from_environment()
    assert DataAccess.from_environment(tmp_path).folder == tmp_path
