"""Readers of files with labelled texts.

`read_rows` reads any supported format. Each row consists of strings and the number of its first
line. Readers do not interpret labels and do not drop rows.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, nearest
from polarity_bench.files import read_errors

csv.field_size_limit(2**31 - 1)  # By default, a value has at most 131,072 characters.
TYPES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "lines",
}
"""Format of each suffix."""

_ENCODINGS = [
    *("utf_8", "utf_16_le", "utf_16_be", "utf_32_le", "utf_32_be", "koi8_r", "cp932", "euc_jp"),
    *("gb18030", "big5", "cp949", *(f"cp125{i}" for i in range(9))),
]
"""Encodings to guess among. Others are rare, and fit too many short texts."""
_SAMPLE = 1_000_000
"""Number of bytes from which an encoding is guessed."""

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MOST_UNPACKED = 1_000_000_000
_MOST_RATIO = 100
"""Largest size of unpacked data: so many bytes, or so many times the size of the packed file."""

NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
"""NUL, and halves of surrogate pairs, which UTF-8 cannot represent."""

DELIMITERS = "\t;|,"
"""Common delimiters of csv files."""


class FileRow(NamedTuple):
    """One row of a file.

    Attributes:
        line: Number of the row's first line, from 1, for error messages.
        values: Values of the requested columns, as strings.
    """

    line: int
    values: tuple[str, ...]


def read_rows(
    path: Path, form: FormatSpec, columns: Sequence[str], label_path: Path | None = None
) -> Iterator[FileRow]:
    """Yield the rows of a csv, tsv, jsonl or parquet file, or of two files of lines.

    `.gz`, `.bz2` and `.xz` files are decompressed during reading.

    Args:
        path: Path of the file.
        form: Format of the file.
        columns: Names of the columns to read, in the order of the values.
        label_path: Path of the file with one label per line, for the format `lines`. In this
            format, each row is a line of `path` and the same line of `label_path`.

    Raises:
        InputError: If the file is damaged, has an unknown format or lacks a column. The message
            names the file, and the line and column if they are known.
    """
    kind = type_of(path, form)
    if form.header and kind not in {"csv", "tsv"}:
        raise InputError(f"{path}: [format] 'header' applies only to csv and tsv files")
    with read_errors(path):
        if kind in {"csv", "tsv"}:
            yield from _read_csv(path, form, columns)
        elif kind == "jsonl":
            yield from _read_jsonl(path, form, columns)
        elif kind == "parquet":
            yield from _read_parquet(path, form, columns)
        elif kind == "lines" and label_path is not None:
            yield from _read_lines(path, label_path, form)
        else:
            raise InputError(
                f"{path}: a text file needs a 'label_file' with one label per line; for other "
                "files, set 'type' in [format] to csv, tsv, jsonl or parquet"
            )


def read_header(path: Path, form: FormatSpec) -> list[str]:
    """Return the column names of a file; for a jsonl file, the keys of the first row.

    Raises:
        InputError: If the file is damaged, or its format has no column names.
    """
    kind = type_of(path, form)
    if kind not in {"csv", "tsv", "jsonl", "parquet"}:
        raise InputError(f"{path}: expected csv, tsv, jsonl or parquet, got {path.suffix!r}")
    with read_errors(path):
        if kind == "parquet":
            from pyarrow import parquet

            return list(parquet.ParquetFile(path).schema_arrow.names)
        if kind == "jsonl":
            return next((list(record) for _, record in read_objects(path, form)), [])
        with _open_text(path, form.encoding) as file:
            return next(_csv_reader(file, path, form), [])


def read_lines(path: Path, form: FormatSpec) -> list[str]:
    """Return the lines of a text file, including empty lines, split at line feeds only.

    `str.splitlines` is not used, because a text may contain other Unicode line separators.

    Raises:
        InputError: If the file is damaged or is not in the encoding of `form`.
    """
    with read_errors(path), _open_text(path, form.encoding) as file:
        lines = file.read().split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_text(path: Path) -> tuple[str, str]:
    """Return the encoding of a text file, as Python names it, and its text.

    A byte order mark decides. Without one, the file is UTF-8 if it is valid UTF-8 without NUL.
    For all other files, charset-normalizer guesses.

    Raises:
        InputError: If the file cannot be read, or no encoding fits.
    """
    content = bytearray()
    with read_errors(path):
        with _OPEN.get(path.suffix, Path.open)(path, "rb") as file:
            while chunk := file.read(1 << 24):
                content.extend(chunk)
                check_unpacked(path, len(content))
        encoding = _detect_encoding(path, content)
        return encoding, content.decode(encoding).removeprefix("\ufeff")


def _detect_encoding(path: Path, content: bytearray) -> str:
    import charset_normalizer
    from charset_normalizer.utils import identify_sig_or_bom

    if encoding := identify_sig_or_bom(content)[0]:
        return encoding.replace("_", "-")
    sample = bytes(content[:_SAMPLE])
    if b"\x00" not in content:
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:  # Only the other lines tell encodings apart.
            _check_mostly_utf8(path, content, error.start)
            sample = b"".join(line for line in io.BytesIO(content) if not line.isascii())[:_SAMPLE]
        else:
            return "utf-8"
    matches = charset_normalizer.from_bytes(sample, cp_isolation=_ENCODINGS)
    if not matches:
        raise InputError(f"{path}: no known encoding fits; is it a text file? Convert it to UTF-8")
    # Short texts in Western European languages also fit rarer encodings.
    is_western = any("cp1252" in match.could_be_from_charset for match in matches)
    return "cp1252" if is_western else matches[0].encoding


def _check_mostly_utf8(path: Path, content: bytearray, start: int) -> None:
    """Raise an error if nearly all characters are UTF-8, since no other encoding fits them."""
    others = [character for character in content.decode("utf-8", "replace") if character > "\x7f"]
    if len(others) > 10 * others.count("\ufffd"):
        line = content.count(b"\n", 0, start) + 1
        raise InputError(
            f"{path}, line {line}: expected UTF-8, as in the rest of the file, got the byte "
            f"0x{content[start]:02x}; correct or remove this character"
        )


def check_count(where: object, found: int, expected: int | None, of: str = "") -> None:
    """Raise InputError if a file does not have the expected number of rows.

    Args:
        where: Path or name of the file, for the error message.
        found: Number of rows in the file.
        expected: Number of rows that the task file declares; None accepts any number.
        of: Text after "rows" in the message, to name the rows that were counted.
    """
    if expected is not None and found != expected:
        raise InputError(
            f"{where}: expected {expected:,} rows{of}, got {found:,}; is the file truncated or "
            "edited?"
        )


def check_unpacked(path: Path, n_bytes: int) -> None:
    """Raise InputError if data unpacks to far more bytes than texts do."""
    if n_bytes > (most := max(_MOST_UNPACKED, _MOST_RATIO * path.stat().st_size)):
        raise InputError(
            f"{path}: unpacks to more than {most:,} bytes, {_MOST_RATIO} times its size; if it is "
            "your own, unpack it yourself and give what is inside"
        )


def type_of(path: Path, form: FormatSpec) -> str | None:
    """Return the declared format of a file, or else the format of its suffix; None if unknown."""
    return form.type or TYPES.get(suffix_of(path))


def suffix_of(path: Path) -> str:
    """Return the suffix of a file, without the suffix of its compression."""
    return Path(path.stem).suffix if path.suffix in _OPEN else path.suffix


def _open_text(path: Path, encoding: str) -> IO[str]:
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # This codec reads files with and without a byte order mark.
    return io.TextIOWrapper(
        _OPEN.get(path.suffix, Path.open)(path, "rb"), encoding=encoding, newline=""
    )


def _csv_reader(file: IO[str], path: Path, form: FormatSpec) -> Any:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if form.quoted else csv.QUOTE_NONE
    delimiter = "\t" if type_of(path, form) == "tsv" else form.delimiter
    return csv.reader(file, delimiter=delimiter, quoting=quoting, strict=form.quoted)


def _read_csv(path: Path, form: FormatSpec, columns: Sequence[str]) -> Iterator[FileRow]:
    with _open_text(path, form.encoding) as file:
        reader = _csv_reader(file, path, form)
        try:
            header = list(form.header) or next(reader, [])
            _check_columns(str(path), "column", columns, header, form)
            # With one position, `itemgetter` gives no tuple; a second one is cut off again.
            where = [header.index(name) for name in columns]
            pick = itemgetter(*where, *where[:1]) if where else tuple
            n_columns, n_picked = len(header), len(columns)
            next_line = reader.line_num + 1
            for values in reader:
                line, next_line = next_line, reader.line_num + 1
                if len(values) == n_columns > 0:
                    yield FileRow(line, pick(values)[:n_picked])
                elif values:
                    raise InputError(
                        f"{path}, line {line}: expected {n_columns} columns, as in the header, "
                        f"got {len(values)}; put quotation marks around a value that contains "
                        f"{reader.dialect.delimiter!r}"
                    )
        except csv.Error as error:
            raise InputError(
                f"{path}, line {reader.line_num}: {error}; double the quotation marks in values, "
                "and close those around them"
            ) from error


def read_objects(path: Path, form: FormatSpec) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the JSON object of each line of a jsonl file.

    Raises:
        InputError: If a line is not a JSON object.
    """
    with read_errors(path), _open_text(path, form.encoding) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                reason = getattr(error, "msg", error)
                raise InputError(
                    f"{path}, line {line}: invalid JSON: {reason}; give one object per line"
                ) from error
            if not isinstance(record, dict):
                raise InputError(f"{path}, line {line}: expected a JSON object, got {text[:40]!r}")
            yield line, record


def _read_jsonl(path: Path, form: FormatSpec, columns: Sequence[str]) -> Iterator[FileRow]:
    for line, record in read_objects(path, form):
        _check_columns(f"{path}, line {line}", "key", columns, list(record), form)
        yield FileRow(line, tuple(as_text(record[name]) for name in columns))


def _read_parquet(path: Path, form: FormatSpec, columns: Sequence[str]) -> Iterator[FileRow]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    _check_columns(str(path), "column", columns, file.schema_arrow.names, form)
    table = file.read(columns=list(columns))
    by_column = [[as_text(value) for value in table[name].to_pylist()] for name in columns]
    yield from map(FileRow, count(1), zip(*by_column, strict=True))


def _read_lines(path: Path, label_path: Path, form: FormatSpec) -> Iterator[FileRow]:
    texts, labels = (read_lines(file, form) for file in (path, label_path))
    if len(texts) != len(labels):
        raise InputError(
            f"{path} has {len(texts)} lines, but {label_path} has {len(labels)}; give one label "
            "per line of text"
        )
    yield from map(FileRow, count(1), zip(texts, labels, strict=True))


def _check_columns(
    where: str, kind: str, columns: Sequence[str], header: Sequence[str], form: FormatSpec
) -> None:
    """Raise InputError if a file lacks a column.

    The message suggests which key in the task file to change.
    """
    missing = next((name for name in columns if name not in header), None)
    if missing is None:
        return
    remedy = ""
    key = {form.label: "label", form.text: "text"}.get(missing)
    if len(header) == 1 and (delimiter := next((d for d in DELIMITERS if d in header[0]), None)):
        remedy = f"; set delimiter = {json.dumps(delimiter)} in [format]"
    elif key is not None and header:
        others = [name for name in header if name not in columns]
        column = others[0] if len(others) == 1 else "..."
        remedy = f'; set {key} = "{column}" in [format]'
    raise InputError(f"{where}: no {kind} {missing!r}{nearest(missing, header)}{remedy}")


def as_text(value: object) -> str:
    """Return a value as a string; 3.0 becomes '3', None and NaN become ''."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # JSON has `true`, not `True`.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
