"""Readers: a file of labelled texts to rows. Each row knows the line it began on.

A reader neither interprets labels nor drops rows; `read_rows` is the one way in, and gives
each row as a mapping from column to string.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from polarity_bench.data.declared import FormatSpec
from polarity_bench.errors import InputError, nearest

_TYPES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "lines",
}


@dataclass(frozen=True)
class Row:
    """One row of a file: the values asked for, as strings, and its place for messages."""

    line: int
    values: tuple[str, ...]


def read_rows(
    path: Path, form: FormatSpec, columns: Sequence[str], label_path: Path | None = None
) -> list[Row]:
    """Read these columns of a csv, tsv, jsonl or parquet file, or the lines of two text files.

    `.gz` files are unpacked on reading. Of the format `lines`, the first column is the file's own
    lines and the second those of `label_path`.

    Raises:
        InputError: If the file is damaged or lacks a column; names the file, line and column.
    """
    kind = form.type or _TYPES.get(_suffix(path))
    try:
        if kind in {"csv", "tsv"}:
            delimiter = "\t" if kind == "tsv" else form.delimiter
            return list(_read_csv(path, form, columns, delimiter))
        if kind == "jsonl":
            return list(_read_jsonl(path, form, columns))
        if kind == "parquet":
            return _read_parquet(path, columns)
        if kind == "lines" and label_path is not None:
            return _read_lines(path, label_path, form)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not {form.encoding} at byte {error.start}; set [format] encoding"
        ) from error
    except LookupError as error:
        raise InputError(f"{path}: [format] encoding: {error}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error}); a truncated copy?") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if kind == "lines":
        raise InputError(f"{path}: a text file needs a 'label_file' with one label a line")
    raise InputError(
        f"{path}: unknown format {path.suffix!r}; set [format] type to csv, tsv, jsonl, parquet "
        "or lines"
    )


def check_count(where: object, found: int, expected: int, of: str = "") -> None:
    """Refuse a file that has other than the declared number of rows."""
    if found != expected:
        raise InputError(
            f"{where}: {found:,} rows{of} where {expected:,} are expected; a truncated or edited "
            "copy?"
        )


@contextmanager
def _open_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    if encoding.lower().replace("_", "-") in {"utf-8", "utf8"}:
        encoding = "utf-8-sig"  # which reads a file with or without a byte order mark
    with (
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
        io.TextIOWrapper(file, encoding=encoding, newline="") as text,
    ):
        yield text


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _read_csv(
    path: Path, form: FormatSpec, columns: Sequence[str], delimiter: str
) -> Iterator[Row]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if form.quoted else csv.QUOTE_NONE
    with _open_text(path, form.encoding) as file:
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=form.quoted)
        try:
            header = next(reader, [])
            where = [_column(path, header, name) for name in columns]
            line = reader.line_num + 1
            for values in reader:
                if values and len(values) != len(header):
                    raise InputError(
                        f"{path}, line {line}: {len(values)} columns where the header has "
                        f"{len(header)}"
                    )
                if values:
                    yield Row(line, tuple(values[i] for i in where))
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}") from error


def _read_jsonl(path: Path, form: FormatSpec, columns: Sequence[str]) -> Iterator[Row]:
    with _open_text(path, form.encoding) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except json.JSONDecodeError as error:
                raise InputError(f"{path}, line {line}: not JSON: {error.msg}") from error
            if not isinstance(record, dict):
                raise InputError(f"{path}, line {line}: a JSON object is wanted, got {text[:40]!r}")
            for name in columns:
                if name not in record:
                    raise InputError(f"{path}, line {line}: no key {name!r}{nearest(name, record)}")
            yield Row(line, tuple(as_text(record[name]) for name in columns))


def _read_parquet(path: Path, columns: Sequence[str]) -> list[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        for name in columns:
            _column(path, file.schema_arrow.names, name)
        table = file.read(columns=list(columns))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not a parquet file: {error}") from error
    by_column = [[as_text(value) for value in table[name].to_pylist()] for name in columns]
    return [Row(i, values) for i, values in enumerate(zip(*by_column, strict=True), start=1)]


def _read_lines(path: Path, label_path: Path, form: FormatSpec) -> list[Row]:
    texts, labels = (_lines(file, form.encoding) for file in (path, label_path))
    if len(texts) != len(labels):
        raise InputError(
            f"{path} has {len(texts)} lines and {label_path} {len(labels)}; they must agree"
        )
    return [Row(i, pair) for i, pair in enumerate(zip(texts, labels, strict=True), start=1)]


def _lines(path: Path, encoding: str) -> list[str]:
    """Split at line feeds alone: a text may hold the other separators of Unicode."""
    with _open_text(path, encoding) as file:
        lines = file.read().split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _column(path: Path, header: Sequence[str], name: str) -> int:
    if name not in header:
        raise InputError(f"{path}: no column {name!r}{nearest(name, header)}")
    return list(header).index(name)


def as_text(value: object) -> str:
    """Write a value of a typed file as a text file would: a whole number without its point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
