"""Readers of rows: every format, and every thing that can be wrong with a file."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from standins import Rows, csv_text

from polarity_bench.data.readers import read_rows
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError

ODD = [
    ('Quotes "within", and a comma', "1"),
    ("Två rader\nin one cell", "0"),
    ("\u2028 inside", "1"),
]


def values(
    path: Path, form: FormatSpec | None = None, label_path: Path | None = None
) -> list[tuple[str, ...]]:
    return [
        row.values for row in read_rows(path, form or FormatSpec(), ["text", "label"], label_path)
    ]


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
        (
            "r.csv",
            b"sentence,label\na,1\n",
            "no column 'text'; known: label, sentence; set text = \"sentence\" in [format]",
        ),
        (
            "r.jsonl",
            b'{"text": "a", "stars": 1, "id": 2}\n',
            "no key 'label'; known: id, stars, text; set label = \"...\" in [format]",
        ),
        ("r.csv", b"text;label\na;1\n", '; set delimiter = ";" in [format]'),
        ("r.csv", b"text,label\na,1\nb\n", "line 3: expected 2 columns, as in the header, got 1"),
        ("r.csv", b'text,label\na,1\n"b,0\n', "line 3: unexpected end of data"),
        ("r.csv", b"text,label\n\xff,1\n", "can't decode byte 0xff in position 11"),
        ("r.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "line 2: invalid JSON"),
        ("r.jsonl", b'{"text": "a", "labl": 1}\n', "line 1: no key 'label'; did you mean 'labl'"),
        ("r.jsonl", b"[1]\n", "line 1: expected a JSON object"),
        ("r.parquet", b"text,label\n", "not a parquet file"),
        ("r.xlsx", b"", "for other files, set 'type' in [format] to csv"),
        ("r.txt", b"a\n", "a text file needs a 'label_file' with one label per line"),
        (
            "r.csv.gz",
            gzip.compress(b"text,label\n" + b"a,1\n" * 9999, mtime=0)[:60],
            "the compressed file is damaged",
        ),
        ("r.csv.gz", b"text,label\n", "the compressed file is damaged"),
        (
            "r.csv.gz",
            gzip.compress(b"text,label\n", mtime=0)[:10] + b"\xff" * 30,
            "the compressed file is damaged",
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
    with pytest.raises(InputError, match=r"t\.txt has 2 lines, but .*l\.txt has 1; give one label"):
        values(tmp_path / "t.txt", label_path=tmp_path / "l.txt")


def test_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text,label\n")
    with pytest.raises(
        InputError, match=r"unknown encoding: utf-9; is the file damaged, or in another encoding"
    ):
        values(tmp_path / "r.csv", FormatSpec(encoding="utf-9"))
