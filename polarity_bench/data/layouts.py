"""Tables of labelled texts from all common layouts, for new tasks.

`read_table` guesses the layout, the encoding and the delimiter. A task file can declare csv, tsv,
jsonl and parquet files, so their table has a format. pandas, `datasets` and the standard library
read the other layouts, and `tasks.scaffold` writes their rows to csv files.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from polarity_bench.data.readers import (
    DELIMITERS,
    TYPES,
    as_text,
    check_unpacked,
    read_header,
    read_objects,
    read_rows,
    read_text,
    suffix_of,
    type_of,
)
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, check_installed, reworded, warn
from polarity_bench.files import read_errors
from polarity_bench.hub import reading_hub

HUB = "hf:"
"""Prefix of the name of a data set on the hub."""
_ARCHIVES = tuple(suffix for _, suffixes, _ in shutil.get_unpack_formats() for suffix in suffixes)
_NOT_READ = re.compile(r"\.(xls|ods|db|sqlite3?|pkl|pickle|docx?|pdf|rar|7z|zst)", re.I)
_FASTTEXT = "__label__"
_SAMPLE_LINES = 50
SOURCE = ("source", "train", "training")
QUERY = ("query", "test", "validation", "valid", "val", "dev")
"""Names of the splits that become sources and queries, the preferred name first."""
_SPLITS = {*SOURCE, *QUERY}
TEXT = ("text", "sentence", "content", "review", "tweet", "headline", "comment")
LABEL = (
    *("label", "labels", "class", "polarity", "sentiment", "target", "category", "mood"),
    *("gold", "score", "stars", "rating", "y"),
)
"""Usual names of the columns of texts and labels, the preferred name first."""
_NAMES = {*TEXT, *LABEL} - {"y"}
"""Column names that mark a header line; `y` is also the label for yes."""


@dataclass(frozen=True)
class Table:
    """Rows of one file, folder, data set or split.

    Attributes:
        place: Path or name of the data, for messages.
        rows: Strings in named columns. The name of the index says what the index counts.
        form: Format for the task file; None if a task file cannot declare the layout.
        where: Column values that select the rows in the file; empty if all rows are selected.
        note: Comment for the task file about the origin of the rows.
    """

    place: str
    rows: pd.DataFrame
    form: FormatSpec | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def at(self, index: object) -> str:
        """Return the place of a row, for messages."""
        return f"{self.place}, {self.rows.index.name} {index}"


def read_table(data: Any, form: FormatSpec | None = None) -> Table:
    """Read labelled texts in any supported layout.

    Args:
        data: Path of a file or folder, name of a hub data set (`hf:NAME[CONFIG]`), DataFrame,
            Dataset, DatasetDict or a table that is already read.
        form: What the user says of the format: `header` is the column names of a file without a
            header line; by default, the first line contains the names, unless it looks like data.
            `text` and `label` are columns that the header line contains.

    Raises:
        InputError: If the data cannot be read, or its layout is unknown.
    """
    form = form or FormatSpec()
    if isinstance(data, Table):
        return data
    if not isinstance(data, str | Path):
        return Table("the data", _frame(data))
    path = Path(data)
    if str(data).startswith(HUB):
        return _read_hub(str(data))
    if path.is_dir():
        with read_errors(path, " as folder"):
            return _read_folder(path, form)
    if path.suffix == ".xlsx":
        check_installed(f"{path}: an Excel file", "openpyxl", extra="excel")
        with read_errors(path, " as Excel file"):
            header: Any = {"header": None, "names": list(form.header)} if form.header else {}
            header |= {"keep_default_na": False, "dtype": object, "sheet_name": None}
            sheets = pd.read_excel(path, **header)
            return Table(str(path), _frame({n: rows for n, rows in sheets.items() if len(rows)}))
    if path.name.endswith(_ARCHIVES):
        return _read_archive(path, form)
    if _NOT_READ.fullmatch(suffix := suffix_of(path)):
        raise InputError(
            f"{path}: {suffix} files are not supported; export the data as .csv, .jsonl, .parquet "
            "or .xlsx"
        )
    if suffix == ".parquet":
        return _read_declared(path, form)
    encoding, text = read_text(path)
    form = form.model_copy(update={"encoding": encoding})
    if text.startswith(_FASTTEXT):
        return Table(str(path), _read_fasttext(path, text))
    if suffix == ".json" or type_of(path, form) == "jsonl":
        return _read_json(path, form, text)
    sample = [line for line in text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES] if line.strip()]
    del text
    if (kind := type_of(path, form)) != "tsv":
        # A text may contain delimiters, so the least frequent line decides, then the header.
        counts = {d: [line.count(d) for line in sample or [""]] for d in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda d: (min(counts[d]), counts[d][0]))
        update = {"delimiter": delimiter} | ({} if kind == "csv" else {"type": "csv"})
        form = form.model_copy(update=update)
    if form.delimiter != "\t" and kind != "tsv":
        return _read_declared(path, form)
    # Texts between tabs are often written without quotation marks around them, so a quotation mark
    # in a text would join it with the lines below.
    unquoted = form.model_copy(update={"quoted": False})
    try:
        table = _read_declared(path, form)
        joined = any("\t" in v and "\n" in v for column in table.rows for v in table.rows[column])
        return _read_declared(path, unquoted) if joined else table
    except InputError:
        return _read_declared(path, unquoted)


def _read_declared(path: Path, form: FormatSpec) -> Table:
    """Read a file in a format that a task file can declare."""
    header = list(form.header) or read_header(path, form)
    names = list(dict.fromkeys(header))
    kind = type_of(path, form)
    lines, values = [], []
    for row in read_rows(path, form, names):
        lines.append(row.line)
        values.append(row.values)
    index = pd.Index(lines, name="row" if kind == "parquet" else "line")
    rows = pd.DataFrame(values, index, pd.Index(names), dtype=object)
    if kind not in {"csv", "tsv"}:
        return Table(str(path), rows, form)
    if form.header:
        first = [str(value) for value in rows[:1].to_numpy().ravel()]
        usual = _NAMES | {name.lower() for name in names}
        if usual & {value.strip().lower() for value in first} and not _repeats(first, rows[1:]):
            raise InputError(
                f"{path}, line 1: expected a row, got the column names {', '.join(first)}; remove "
                "`columns`"
            )
    elif not {form.text, form.label} & {*names} and _is_data(names, rows):
        header = [f"column{i}" for i in range(1, len(header) + 1)]
        return _read_declared(path, form.model_copy(update={"header": tuple(header)}))
    return Table(str(path), rows, form)


def _repeats(values: Sequence[str], rows: pd.DataFrame) -> bool:
    """Tell whether a value occurs in its own column."""
    columns = enumerate(zip(values, rows, strict=True))
    return any((rows.iloc[:1000, i] == value).any() for i, (value, _) in columns if value.strip())


def _is_data(header: Sequence[str], rows: pd.DataFrame) -> bool:
    """Tell whether the first line is a row: a long text, a number, or a value of its own column.

    A usual name of a column marks a header. If all names are numbers, they count the columns.
    """
    names = [name.strip() for name in header if name.strip()]
    if _NAMES & {name.lower() for name in names}:
        return False
    numbers = [name for name in names if re.fullmatch(r"[-+]?\d+([.,]\d+)?", name)]
    is_long = max(map(len, names), default=0) > 60
    return _repeats(header, rows) or is_long or 0 < len(numbers) < len(names)


def _read_fasttext(path: Path, text: str) -> pd.DataFrame:
    lines = pd.Series(text.removesuffix("\n").split("\n"))
    rows = lines.str.strip().str.extract(rf"^{_FASTTEXT}(?P<label>\S+)\s+(?P<text>.*)$")
    is_wrong = rows["text"].isna() | rows["text"].str.startswith(_FASTTEXT, na=False)
    if len(wrong := lines[is_wrong]):
        raise InputError(
            f"{path}, line {wrong.index[0] + 1}: expected one {_FASTTEXT}NAME and a text, got "
            f"{wrong.iloc[0][:60]!r}; correct or remove such lines ({len(wrong):,})"
        )
    return _frame(rows, "line")


def _read_json(path: Path, form: FormatSpec, text: str) -> Table:
    """Read an array of objects, an object that contains it, or one object per line."""
    with read_errors(path, " as JSON array of objects"):
        try:
            content = json.loads(text)
        except json.JSONDecodeError:
            if text.lstrip().startswith("["):
                raise
            if type_of(path, form) is None:
                form = form.model_copy(update={"type": "jsonl"})
            try:
                return _read_declared(path, form)
            except InputError:  # Objects may lack keys, and a task file cannot say so.
                content = [record for _, record in read_objects(path, form)]
        if isinstance(content, dict):
            arrays = [v for v in content.values() if isinstance(v, list) and dict in map(type, v)]
            content = arrays[0] if len(arrays) == 1 else content
        return Table(str(path), _frame(pd.DataFrame(content, dtype=object)))


def _read_archive(path: Path, form: FormatSpec) -> Table:
    n_bytes, is_zip = 0, path.suffix == ".zip"
    opener: Any = zipfile.ZipFile if is_zip else tarfile.open
    with (
        tempfile.TemporaryDirectory() as folder,
        reworded(words={folder: str(path)}),
        read_errors(path, " as archive"),
    ):
        with opener(path) as packed:
            for member in packed.infolist() if is_zip else packed:
                n_bytes += member.file_size if is_zip else member.size
                check_unpacked(path, n_bytes)
                # Both ways write nothing outside the folder.
                packed.extract(member, folder, **({} if is_zip else {"filter": "data"}))
        table = _read_folder(Path(folder), form)
    return replace(table, place=str(path))


def _read_folder(folder: Path, form: FormatSpec) -> Table:
    """Read a saved data set, one text per file in a folder for each label, or data files."""
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith((".", "__")))
    if len(inside) == 1 and inside[0].is_dir():
        return _read_folder(inside[0], form)
    if any((folder / name).exists() for name in ("dataset_dict.json", "state.json")):
        import datasets

        return Table(str(folder), _frame(datasets.load_from_disk(folder)))
    data = {*TYPES, ".json", ".xlsx"}
    known = [path for path in inside if path.is_file() and suffix_of(path) in data]
    files = [path for path in known if suffix_of(path) != ".txt"]
    if not files and (texts := _find_texts(folder, [p.name for p in inside if p.is_dir()])):
        values = [(*keys, read_text(p)[1].replace("\r\n", "\n").strip("\n")) for keys, p in texts]
        names = ["split", "label", "text"][-len(values[0]) :]
        places = pd.Index([str(path.relative_to(folder)) for _, path in texts], name="file")
        return Table(str(folder), pd.DataFrame(values, places, names, dtype=object))
    files = files or known
    parts = [(re.split(r"[\W\d_]", path.name)[0], path) for path in files]
    if len(files) > 1:
        parts = [(part, path) for part, path in parts if part in _SPLITS]
    if len(files) != 1 and len({part for part, _ in parts}) < 2:
        listed = ", ".join(path.name for path in inside[:5]) or "nothing"
        raise InputError(
            f"{folder}: expected one data file, files named train and test, or a folder of .txt "
            f"files for each label, got {listed}; give the data files themselves"
        )
    used = {path for _, path in parts}
    if unused := ", ".join(path.name for path in files if path not in used):
        warn(f"not used: {unused}; the names do not begin with train, test or another split")
    tables = [(part, path.name, read_table(path, form).rows) for part, path in parts]
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
    places = [f"{p}, {t.index.name} {i}" for _, p, t in tables for i in t.index]
    rows.index = pd.Index(places, name="part")
    return rows


def _read_hub(name: str) -> Table:
    import datasets

    found = re.fullmatch(rf"{HUB}([\w./-]+)(?:\[(.+)\])?", name)
    if not found:
        raise InputError(f"{name}: expected {HUB}OWNER/NAME or {HUB}OWNER/NAME[CONFIG]")
    remedy = "check the name and the connection"
    with read_errors(name, " as hub data set", remedy), reading_hub(found[1], "dataset", False):
        builder = datasets.load_dataset_builder(*found.groups())
        builder.download_and_prepare()
        return Table(f"{name}@{builder.hash}", _frame(builder.as_dataset()))


def _frame(data: Any, unit: str = "row") -> pd.DataFrame:
    """Return a DataFrame, Dataset or DatasetDict as a frame of strings.

    The splits of a DatasetDict become a column. A class label becomes its name.
    """
    if isinstance(data, Mapping):
        return _join([(str(split), str(split), _frame(part)) for split, part in data.items()])
    frame = data.to_pandas() if hasattr(data, "to_pandas") else data
    if hasattr(data, "features"):  # `to_pandas` makes floats of integers beside missing values.
        frame = pd.DataFrame(data.to_dict(), dtype=object)
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
