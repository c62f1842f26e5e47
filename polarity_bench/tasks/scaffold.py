"""Creation of a task file from one or two files of labelled texts.

Comments in the task file explain which values were guessed. The user can then correct the guesses.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import tomlkit

from polarity_bench.data.readers import DELIMITERS, read_header, read_rows
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, InputWarning, nearest
from polarity_bench.files import write_atomically
from polarity_bench.tasks.catalogue import load_tasks, read_task
from polarity_bench.tasks.types.polarity.task import PolarityProtocol, count_overlap

_TEXT = ("text", "sentence", "content", "review", "tweet", "headline", "comment")
_LABEL = ("label", "labels", "class", "polarity", "sentiment", "target", "category", "mood")
_SPLIT = ("split", "part", "subset", "set")
_SOURCE = ("source", "train", "training")
_QUERY = ("query", "test", "validation", "dev")
_MOST_LABELS = 50
_MOST_QUERIES = 5_000
_SEED = 42


@dataclass(frozen=True)
class _Side:
    """One split of the new task.

    Attributes:
        path: Path of the data file.
        rows: Rows of the split, indexed by line number.
        where: Column values that select the rows in the file; empty if the split has all rows.
        note: Comment for the task file about the origin of the rows.
    """

    path: Path
    rows: pd.DataFrame
    where: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def new_task(
    files: Sequence[Path],
    *,
    task_name: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
) -> Path:
    """Write a task file next to its data.

    If two files are given, the first contains the sources and the second the queries. A single file
    is divided by its split column. If there is no split column, queries are drawn at random: a
    fifth of the distinct texts of each label, but at most 5,000 texts in total. Both parts are then
    written to csv files next to the task file.

    Args:
        files: One file or two files with the data.
        task_name: Name of the task; by default, derived from the name of the file or folder.
        text_column: Name of the column with the texts; guessed by default.
        label_column: Name of the column with the labels; guessed by default.

    Returns:
        The path of the task file.

    Raises:
        InputError: If the data or the name is not valid for a polarity task, or an output file
            already exists.

    Warns:
        InputWarning: If texts have several labels.
    """
    if len(files) not in {1, 2}:
        raise InputError(f"expected one file, or two (sources and queries), got {len(files)} files")
    name = _slug(files) if task_name is None else task_name
    file = _folder(files) / f"{name}.toml"
    _check_name(name, file)
    form, header = _read_form(files[0])
    rows = _rows(files[0], form, header)
    form = _choose(files[0], form, rows, text_column, label_column)
    if len(files) == 2:
        sides = [_Side(path, _rows(path, form, [form.text, form.label])) for path in files]
    else:
        sides = _split_by_column(files[0], form, rows)
    _check_pairs(sides or [_Side(files[0], rows)], form)
    if not sides:
        sides = _draw_sides(files[0], form, rows, file)
        form = FormatSpec(text=form.text, label=form.label)
    write_atomically(file, _toml(file, form, header, sides).encode())
    try:
        read_task(file)
    except InputError:  # For instance, the path of the data is not allowed in a task file.
        file.unlink()
        raise
    return file


# Guesses


def _read_form(path: Path) -> tuple[FormatSpec, list[str]]:
    """Guess the format of a file, and return the format and the column names."""
    form = FormatSpec(encoding="utf-8" if _is_utf8(path) else "cp1252")
    header = read_header(path, form)
    if len(header) == 1 and path.suffix != ".parquet":
        delimiter = max(DELIMITERS, key=header[0].count)
        form = form.model_copy(update={"delimiter": delimiter})
        header = read_header(path, form)
    if len(header) < 2:
        raise InputError(
            f"{path}: expected at least two columns (texts and labels), got {header or 'none'}"
        )
    return form, list(dict.fromkeys(header))


def _is_utf8(path: Path) -> bool:
    if path.suffix in {".gz", ".parquet"} or not path.is_file():
        return True  # The reader checks these files and reports a problem.
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _choose(
    path: Path, form: FormatSpec, rows: pd.DataFrame, text: str | None, label: str | None
) -> FormatSpec:
    """Choose or guess the columns of texts and labels, and return the format with their names."""
    header = [str(name) for name in rows]
    for field_name, column in (("text_column", text), ("label_column", label)):
        if column is not None and column not in header:
            raise InputError(
                f"`{field_name}` {column}: {path} has no such column{nearest(column, header)}"
            )
    candidates = [name for name in header if name != label and name.lower() not in _SPLIT]
    text = text or _find_column(_TEXT, candidates) or str(rows[candidates].map(len).sum().idxmax())
    candidates = [name for name in candidates if name != text]
    label = label or _find_column(_LABEL, candidates) or str(rows[candidates].nunique().idxmin())
    labels = rows[label].unique()
    if len(labels) == 1:
        problem = f"every row has the label {labels[0]!r}"
    elif len(labels) > _MOST_LABELS:
        problem = f"the column {label!r} has {len(labels):,} different labels"
    elif label in labels:
        raise InputError(f"{path}: the first line looks like data; add a line of column names")
    else:
        return form.model_copy(update={"text": text, "label": label})
    raise InputError(f"{path}: {problem}; set the columns with `text_column` and `label_column`")


def _find_column(known: Sequence[str], header: Sequence[str]) -> str | None:
    by_name = {name.lower(): name for name in reversed(header)}
    return next((by_name[name] for name in known if name in by_name), None)


def _rows(path: Path, form: FormatSpec, columns: Sequence[str]) -> pd.DataFrame:
    """Read columns of a file, and return them as a frame indexed by line number."""
    rows = read_rows(path, form, columns)
    if not rows:
        raise InputError(f"{path}: the file has no rows")
    lines = [row.line for row in rows]
    return pd.DataFrame([row.values for row in rows], lines, pd.Index(columns), dtype=object)


def _check_pairs(sides: Sequence[_Side], form: FormatSpec) -> None:
    """Raise InputError for empty texts or labels, and warn about texts with several labels."""
    for side in sides:
        for what, column in (("text", form.text), ("label", form.label)):
            empty = side.rows.index[side.rows[column].str.strip() == ""]
            if len(empty):
                raise InputError(f"{side.path}, line {empty[0]}: the {what} is empty")
    rows = pd.concat([side.rows for side in sides])
    n_labels = rows.groupby(_keys(rows, form), sort=False)[form.label].nunique()
    several = n_labels.index[n_labels > 1]
    if len(several):
        files = ", ".join(dict.fromkeys(str(side.path) for side in sides))
        warnings.warn(
            f"{files}: {len(several):,} of {len(n_labels):,} distinct texts have more than one "
            f"label, such as {several[0][:60]!r}; correct or remove them",
            InputWarning,
            stacklevel=3,
        )


def _keys(rows: pd.DataFrame, form: FormatSpec) -> pd.Series[str]:
    """Return the case-folded texts, which identify equal rows."""
    return rows[form.text].str.casefold().rename("key")


# Division of one file into two splits


def _split_by_column(path: Path, form: FormatSpec, rows: pd.DataFrame) -> list[_Side]:
    """Divide a file by its split column; return an empty list if the file has no such column."""
    column = _find_column(
        _SPLIT, [str(name) for name in rows if name not in {form.text, form.label}]
    )
    if column is None:
        return []
    splits = list(rows[column].unique())
    names = [_find_column(known, splits) for known in (_SOURCE, _QUERY)]
    sides = [_Side(path, rows[rows[column] == name], {column: name}) for name in names if name]
    return sides if len(sides) == 2 else []


def _draw_sides(data: Path, form: FormatSpec, rows: pd.DataFrame, file: Path) -> list[_Side]:
    """Draw the queries, and write queries and sources to csv files next to the task file."""
    keys = _keys(rows, form)
    drawn = _draw_query_texts(keys, rows[form.label])
    share = "a fifth" if len(drawn) < _MOST_QUERIES else f"{_MOST_QUERIES:,}"
    is_query = keys.isin(drawn)
    note = f"{share} of the distinct texts of {data.name}, drawn from each label"
    sides = []
    for name, part, remark in (
        ("source", rows[~is_query], f"the rest of {data.name}"),
        ("query", rows[is_query], note),
    ):
        path = file.with_name(f"{file.stem}-{name}.csv")
        content = part.to_csv(index=False, lineterminator="\n").encode()
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"{path} already exists; choose another `task_name`")
        write_atomically(path, content)
        sides.append(_Side(path, part, note=remark))
    return sides


def _draw_query_texts(keys: pd.Series[str], labels: pd.Series[str]) -> set[str]:
    """Draw a fifth of the distinct texts of each label, but at most 5,000 texts in all.

    If a text occurs in several rows, the label of the first row counts.
    """
    is_first = ~keys.duplicated()
    distinct = keys[is_first]
    share = min(1 / 5, _MOST_QUERIES / len(distinct))
    return set(distinct.groupby(labels[is_first]).sample(frac=share, random_state=_SEED))


# The task file


def _slug(files: Sequence[Path]) -> str:
    """Derive a task name from the only file, or from the folder of the first of two files."""
    named = files[0].stem if len(files) == 1 else files[0].absolute().parent.name
    return re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:64]


def _folder(files: Sequence[Path]) -> Path:
    parents = [path.parent for path in files]
    if len(set(parents)) == 1:
        return parents[0]
    return Path(os.path.commonpath([parent.absolute() for parent in parents]))


def _check_name(name: str, file: Path) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise InputError(f"`task_name` needs lower-case letters, digits and hyphens, got {name!r}")
    if name in load_tasks():
        raise InputError(
            f"`task_name` {name!r}: a task with this name already exists; choose another name"
        )
    if file.exists():
        raise InputError(f"{file} already exists; choose another `task_name`")


def _toml(file: Path, form: FormatSpec, header: Sequence[str], sides: Sequence[_Side]) -> str:
    """Return the content of the task file, with comments on the guessed values."""
    source, query = (side.rows for side in sides)
    labels = sorted({*source[form.label], *query[form.label]})
    usual, quarter = PolarityProtocol().k, max(1, len(source) // 4)
    columns = {"text": form.text, "label": form.label}
    format_keys = form.model_dump(include={"delimiter", "encoding"}, exclude_defaults=True)
    document: Any = tomlkit.document()
    document.update(
        {
            "name": file.stem,
            "kind": "polarity",
            "title": file.stem.replace("-", " ").capitalize(),
            "labels": dict(zip(labels, labels, strict=True)),
            "format": columns | format_keys,
            "splits": {
                split: _split(side, form, file.parent)
                for split, side in zip(("source", "query"), sides, strict=True)
            },
            "protocol": {"k": min(usual, quarter), "overlap": 0},
        }
    )
    document["labels"].comment("label in the file = its meaning; fill in the meanings")
    document["format"].comment(f"guessed from the columns {', '.join(map(_quote, header))}")
    protocol = document["protocol"]
    if quarter < usual:
        protocol["k"].comment(f"a quarter of the {len(source)} sources")
    n_overlap = count_overlap(source[form.text], query[form.text])
    remark = f"of {len(query)} queries also occur among the sources"
    protocol["overlap"].comment(remark)
    if n_overlap:
        del protocol["overlap"]
        question = f"overlap = {n_overlap} # {remark}; if this is intended, uncomment this line"
        protocol.add(tomlkit.comment(question))
    return tomlkit.dumps(document)


def _split(side: _Side, form: FormatSpec, folder: Path) -> Any:
    """Return the TOML table of a split, with the number of rows per label as a comment."""
    checksum = hashlib.sha256(side.path.read_bytes()).hexdigest()
    place = side.path.absolute().relative_to(folder.absolute()).as_posix()
    table: Any = tomlkit.table()
    table.update({"path": place, "sha256": checksum, "rows": len(side.rows)})
    if side.note:
        table["path"].comment(side.note)
    counts = side.rows[form.label].value_counts().sort_index()
    table["rows"].comment(", ".join(f"{_quote(label)}: {n}" for label, n in counts.items()))
    if side.where:
        table["where"] = tomlkit.inline_table() | dict(side.where)
    return table


def _quote(value: object) -> str:
    return tomlkit.item(str(value)).as_string()
