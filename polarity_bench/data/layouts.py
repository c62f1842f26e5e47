"""Tables of labelled texts from all common layouts, for new tasks.

`read_table` guesses the layout, the encoding and the delimiter. A task file can declare csv, tsv,
jsonl and parquet files, so their table has a format. pandas, `datasets` and the standard library
read the other layouts, and `tasks.scaffold` writes their rows to csv files.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from polarity_bench.data.readers import (
    DELIMITERS,
    as_text,
    detect_encoding,
    read_header,
    read_lines,
    read_rows,
    read_sample,
    type_of,
)
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, check_installed

HUB = "hf:"
"""Prefix of the name of a data set on the hub."""
_ARCHIVES = [suffix for _, suffixes, _ in shutil.get_unpack_formats() for suffix in suffixes]
_FASTTEXT = "__label__"
_SAMPLE_LINES = 50
SOURCE = ("source", "train", "training")
QUERY = ("query", "test", "validation", "valid", "val", "dev")
"""Names of the splits that become sources and queries, the preferred name first."""
_SPLITS = {*SOURCE, *QUERY}
_NAMES = {"text", "sentence", "review", "tweet", "label", "sentiment", "class", "rating", "stars"}
"""Column names that mark a header line."""


@dataclass(frozen=True)
class Table:
    """Rows of one file, folder or data set.

    Attributes:
        place: Path or name of the data, for messages.
        rows: Strings in named columns. The name of the index says what the index counts.
        form: Format for the task file; None if a task file cannot declare the layout.
    """

    place: str
    rows: pd.DataFrame
    form: FormatSpec | None = None

    def where(self, index: object) -> str:
        """Return the place of a row, for messages."""
        return f"{self.place}, {self.rows.index.name or ''} {index}".replace("  ", " ")


def read_table(data: Any, columns: Sequence[str] = (), named: Sequence[str | None] = ()) -> Table:
    """Read labelled texts in any supported layout.

    Args:
        data: Path of a file or folder, name of a hub data set (`hf:NAME[CONFIG]`), DataFrame,
            Dataset, DatasetDict or a table that is already read.
        columns: Column names of a file without a header line; by default, the first line contains
            the names, unless it looks like data.
        named: Names of columns that the user expects in the header line.

    Raises:
        InputError: If the data cannot be read, or its layout is unknown.
    """
    if isinstance(data, Table):
        return data
    if not isinstance(data, str | Path):
        return Table("the data", _frame(data))
    path = Path(data)
    if str(data).startswith(HUB):
        return _read_hub(str(data))
    if path.is_dir():
        with _parser(path, "folder"):
            return _read_folder(path, columns, named)
    if path.suffix == ".xlsx":
        check_installed(f"{path}: an Excel file", "openpyxl", extra="excel")
        with _parser(path, "Excel file"):
            header: Any = {"header": None, "names": list(columns)} if columns else {}
            header |= {"keep_default_na": False, "dtype": object, "sheet_name": None}
            sheets = {n: s for n, s in pd.read_excel(path, **header).items() if len(s)}
            only = next(iter(sheets.values())) if len(sheets) == 1 else sheets
            return Table(str(path), _frame(only))
    if any(path.name.endswith(suffix) for suffix in _ARCHIVES):
        return _read_archive(path, columns, named)
    form = FormatSpec(encoding=detect_encoding(path), header=tuple(columns))
    if type_of(path, form) == "parquet":
        with _parser(path, "parquet file"):
            return _read_declared(path, form, named)
    sample = read_sample(path, form, _SAMPLE_LINES)
    if sample and sample[0].startswith(_FASTTEXT):
        return Table(str(path), _read_fasttext(path, form))
    if path.name.removesuffix(".gz").endswith(".json"):
        return _read_json(path, form)
    if type_of(path, form) in {None, "lines"}:
        form = form.model_copy(update={"type": "csv"})
    if type_of(path, form) == "csv":
        # A text may contain delimiters, so the least frequent line decides, then the header.
        counts = {d: [line.count(d) for line in sample or [""]] for d in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda d: (min(counts[d]), counts[d][0]))
        form = form.model_copy(update={"delimiter": delimiter})
    if form.delimiter != "\t" and type_of(path, form) != "tsv":
        return _read_declared(path, form, named)
    # Texts between tabs are often written without quotation marks around them, so a quotation mark
    # in a text would join it with the lines below.
    unquoted = form.model_copy(update={"quoted": False})
    try:
        table = _read_declared(path, form, named)
        joined = any("\t" in v and "\n" in v for column in table.rows for v in table.rows[column])
        return _read_declared(path, unquoted, named) if joined else table
    except InputError:
        return _read_declared(path, unquoted, named)


def _read_declared(path: Path, form: FormatSpec, named: Sequence[str | None]) -> Table:
    """Read a file in a format that a task file can declare."""
    header = list(form.header) or read_header(path, form)
    names = list(dict.fromkeys(header))
    found, kind = read_rows(path, form, names), type_of(path, form)
    lines = pd.Index([row.line for row in found], name="row" if kind == "parquet" else "line")
    rows = pd.DataFrame([row.values for row in found], lines, pd.Index(names), dtype=object)
    has_names = form.header or kind not in {"csv", "tsv"} or {*named} & {*names}
    if not has_names and _is_data(names, rows.head(1000)):
        header = [f"column{i}" for i in range(1, len(header) + 1)]
        return _read_declared(path, form.model_copy(update={"header": tuple(header)}), named)
    return Table(str(path), rows, form)


def _is_data(header: Sequence[str], rows: pd.DataFrame) -> bool:
    """Tell whether the first line is a row: a long text, a number, or a value of its own column.

    A usual name of a column marks a header. If all names are numbers, they count the columns.
    """
    names = [name for name in header if name.strip()]
    if _NAMES & {name.strip().lower() for name in names}:
        return False
    numbers = [name for name in names if re.fullmatch(r"[-+]?\d+([.,]\d+)?", name.strip())]
    has_value = any((rows[name] == name).any() for name in names)
    return has_value or max(map(len, names), default=0) > 60 or 0 < len(numbers) < len(names)


def _read_fasttext(path: Path, form: FormatSpec) -> pd.DataFrame:
    lines = pd.Series(read_lines(path, form))
    rows = lines.str.strip().str.extract(rf"^{_FASTTEXT}(?P<label>\S+)\s+(?P<text>.*)$")
    is_wrong = rows["text"].isna() | rows["text"].str.startswith(_FASTTEXT, na=False)
    if len(wrong := lines[is_wrong]):
        raise InputError(
            f"{path}, line {wrong.index[0] + 1}: expected one {_FASTTEXT}NAME and a text, got "
            f"{wrong.iloc[0][:60]!r}; {len(wrong):,} lines are wrong"
        )
    return _frame(rows, "line")


def _read_json(path: Path, form: FormatSpec) -> Table:
    content = "\n".join(read_lines(path, form))
    with _parser(path, "JSON array of objects"):
        if not content.lstrip().startswith("["):
            return _read_declared(path, form.model_copy(update={"type": "jsonl"}), ())
        return Table(str(path), _frame(pd.DataFrame.from_records(json.loads(content))))


def _read_archive(path: Path, columns: Sequence[str], named: Sequence[str | None]) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _parser(path, "archive"):
                if path.suffix == ".zip":  # Both ways write nothing outside the folder.
                    zipfile.ZipFile(path).extractall(folder)
                else:
                    shutil.unpack_archive(path, folder, filter="data")
                table = _read_folder(Path(folder), columns, named)
        except InputError as error:
            raise InputError(str(error).replace(folder, str(path))) from error
    return replace(table, place=str(path))


def _read_folder(folder: Path, columns: Sequence[str], named: Sequence[str | None]) -> Table:
    """Read a saved data set, one text per file in a folder for each label, or data files."""
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith((".", "__")))
    if len(inside) == 1 and inside[0].is_dir():
        return _read_folder(inside[0], columns, named)
    if any((folder / name).exists() for name in ("dataset_dict.json", "state.json")):
        import datasets

        return Table(str(folder), _frame(datasets.load_from_disk(folder)))
    known = [p for p in inside if type_of(p, FormatSpec()) or p.suffix in {".json", ".xlsx"}]
    known = [path for path in known if path.is_file()]
    files = [path for path in known if path.suffix != ".txt"]
    if not files and (texts := _find_texts(folder, [p.name for p in inside if p.is_dir()])):
        values = [(*keys, _read_text(path)) for keys, path in texts]
        names = ["split", "label", "text"][-len(values[0]) :]
        places = [str(path.relative_to(folder)) for _, path in texts]
        return Table(str(folder), pd.DataFrame(values, places, names, dtype=object))
    files = files or known
    parts = [(re.split(r"[\W_]", path.name)[0], path) for path in files]
    if len(files) > 1:
        parts = [(part, path) for part, path in parts if part in _SPLITS]
    if len(files) != 1 and len({part for part, _ in parts}) < 2:
        listed = ", ".join(path.name for path in inside[:5]) or "nothing"
        raise InputError(
            f"{folder}: expected one data file, files named train and test, or a folder of .txt "
            f"files for each label, got {listed}; give the data files themselves"
        )
    tables = [(part, path.name, read_table(path, columns, named).rows) for part, path in parts]
    return Table(str(folder), _join(tables))


def _find_texts(folder: Path, inside: Sequence[str]) -> list[tuple[tuple[str, ...], Path]]:
    """Return the split, if folders are named by splits, and the label of each .txt file."""
    splits = _SPLITS & {*inside}
    n_keys = 2 if splits else 1
    found = []
    for path in sorted(folder.rglob("*.[tT][xX][tT]")):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith((".", "__")) for part in parts)
        if len(parts) > n_keys and not is_hidden and (not splits or parts[0] in splits):
            found.append((parts[:n_keys], path))
    return found


def _join(tables: Sequence[tuple[str, str, pd.DataFrame]]) -> pd.DataFrame:
    """Join rows, each with the name of its split and its place; the split becomes a column."""
    if len(tables) == 1:
        return tables[0][2]
    rows = pd.concat([rows.assign(split=split) for split, _, rows in tables]).fillna("")
    rows.index = pd.Index([f"{p}, {t.index.name} {i}" for _, p, t in tables for i in t.index])
    return rows


def _read_text(path: Path) -> str:
    return "\n".join(read_lines(path, FormatSpec(encoding=detect_encoding(path))))


def _read_hub(name: str) -> Table:
    import datasets

    found = re.fullmatch(rf"{HUB}([\w./-]+)(?:\[(.+)\])?", name)
    if not found:
        raise InputError(f"{name}: expected {HUB}OWNER/NAME or {HUB}OWNER/NAME[CONFIG]")
    datasets.disable_progress_bars()
    try:
        with _parser(name, "hub data set"):
            builder = datasets.load_dataset_builder(*found.groups())
            builder.download_and_prepare()
            return Table(f"{name}@{builder.hash}", _frame(builder.as_dataset()))
    finally:
        datasets.enable_progress_bars()


def _frame(data: Any, unit: str = "row") -> pd.DataFrame:
    """Return a DataFrame, Dataset or DatasetDict as a frame of strings.

    The splits of a DatasetDict become a column. A class label becomes its name.
    """
    if isinstance(data, Mapping):
        return _join([(str(split), str(split), _frame(part)) for split, part in data.items()])
    frame = data.to_pandas() if hasattr(data, "to_pandas") else data
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"expected a path, a DataFrame, a Dataset or a DatasetDict, got {type(data).__name__}"
        )
    frame = frame.loc[:, ~frame.columns.duplicated()].astype(object)
    for column, feature in getattr(data, "features", {}).items():
        if names := getattr(feature, "names", None):  # -1 is a row without a label.
            frame[column] = [names[int(i)] if i >= 0 else None for i in frame[column]]
    rows = frame.where(frame.notna(), None).map(as_text).astype(object)
    rows.columns = pd.Index([str(name) for name in rows])
    rows.index = pd.RangeIndex(1, len(rows) + 1, name=unit)
    return rows


@contextmanager
def _parser(where: object, layout: str) -> Iterator[None]:
    """Convert any error of a library that reads a file to an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # Damaged files raise all kinds of errors.
        reason = textwrap.shorten(str(error) or type(error).__name__, 240, placeholder="…")
        raise InputError(f"{where}: cannot be read as {layout}: {reason}") from error
