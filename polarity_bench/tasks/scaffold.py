"""Creation of a task file from labelled texts in files, folders, data sets or data frames.

Comments in the task file explain which values were guessed. The user can then correct the guesses.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import tomlkit
from pyarrow.csv import CSVWriter

from polarity_bench.data.layouts import HUB, LABEL, QUERY, SOURCE, TEXT, Table, read_table
from polarity_bench.data.readers import NOT_TEXT
from polarity_bench.data.specs import FormatSpec
from polarity_bench.data.split import Split
from polarity_bench.errors import InputError, check_known, nearest, warn
from polarity_bench.files import cache_folder, write_atomically
from polarity_bench.tasks.catalogue import load_tasks, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.splits import PolarityProtocol
from polarity_bench.tasks.types.polarity.task import PolarityTask, check_labels, count_overlap
from polarity_bench.values import digest_of

_SPLIT = ("split", "part", "subset", "set")
_MOST_LABELS = 50
_LONGEST_LABEL = 10_000
"""Longest label, in characters. To write longer names to a task file takes seconds."""
_MOST_QUERIES = 5_000
_SEED = 42
_ROWS_AT_ONCE = 100_000
"""Rows that are written at once, to save memory."""


def new_task(
    data: Sequence[Any],
    *,
    task_name: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    labels: Sequence[tuple[str, str]] = (),
    drop_empty: bool = False,
    folder: Path | None = None,
) -> PolarityTask:
    """Write a task file next to its data.

    If two files are given, the first contains the sources and the second the queries. A single file
    is divided by its split column. If there is no split column, queries are drawn at random: a
    fifth of the distinct texts of each label, but at most 5,000 texts in total. Both parts are then
    written to csv files next to the task file. The rows are also written to csv files if a task
    file cannot declare the layout of the data, or if rows are left out.

    Args:
        data: One or two of: the path of a file or folder, the name of a hub data set
            (`hf:NAME[CONFIG]`), a DataFrame, a Dataset or a DatasetDict.
        task_name: Name of the task; by default, derived from the name of the file or folder. It is
            required for data that has no name.
        text_column: Name of the column with the texts; guessed by default.
        label_column: Name of the column with the labels; guessed by default.
        columns: Column names of files without a header line.
        labels: Names of classes, each with a label of the data or a range of numbers, such as
            `("positive", "3.5..")`. Rows with other labels are left out.
        drop_empty: Whether to leave out rows with an empty text or label.
        folder: Folder of the task file; by default, the folder of the data.

    Returns:
        The task, with its rows.

    Raises:
        InputError: If the data or the name is not valid for a polarity task, or an output file
            already exists with other content. If the message names the new task file, it is kept.

    Warns:
        InputWarning: If texts have several labels, or labels differ only in case or white space.
    """
    if len(data) not in {1, 2}:
        raise InputError(f"expected one file, or two (sources and queries), got {len(data)} files")
    name = _slug(data) if task_name is None else task_name
    file = (folder or _folder(data)) / f"{name}.toml"
    _check_name(name)
    notes = [f"class {_quote(name)} = {_quote(value)}" for name, value in labels]
    hint = _hint(columns, text_column, label_column)
    tables = [read_table(each, hint) for each in data]
    form = _choose(tables, text_column, label_column, bool(labels))
    if len(tables) == 1:
        tables = _split_by_column(tables[0], form)
    classes = _names_of({v for t in tables for v in t.rows[form.label]}, labels)
    tables = [_clean(table, form, classes, drop_empty, notes) for table in tables]
    if classes:
        of_data = form.label
        tables, form = _with_classes(tables, form, classes)
        notes.append(f"the column {_quote(form.label)} has the class of {_quote(of_data)}")
    # A task file declares one format for both files, and no rows to leave out.
    is_declared = not (notes or folder) and tables[0].form == tables[-1].form is not None
    notes += [f"made from {place}" for place in {t.place: None for t in tables if t.form is None}]
    pool = pd.concat([table.rows for table in tables])
    names = {name: name for name, _ in labels} or _merge(pool[form.label])
    check_labels(name, names.values(), names.values())
    keys = pd.Series(list(map(str.casefold, pool[form.text])), pool.index, dtype=object, name="key")
    named = _renamed(pool[form.label], names)
    _check_pairs(tables, form, keys, named)
    if len(tables) == 1:
        tables, is_declared = _draw_splits(tables[0], keys, named), False
    del pool, keys, named  # They need as much memory as the texts.
    source, query = (
        Split(tuple(rows[form.text]), tuple(names[label] for label in rows[form.label]))
        for rows in (table.rows for table in tables)
    )
    check_labels(name, source.labels, query.labels)
    if not is_declared:
        tables = _write_splits(tables, file)
        form = FormatSpec(text=form.text, label=form.label)
    n_overlap = count_overlap(source.texts, query.texts)
    content = _toml(file, form, tables, names, notes, n_overlap, is_named=bool(labels))
    _write_new(file, content.encode(), file)
    try:
        spec: Any = read_task(file)
    except InputError:  # For instance, the path of the data is not allowed in a task file.
        file.unlink()
        raise
    task: PolarityTask = spec.assemble(source, query, Settings())
    return task


def task_from(
    *data: Any,
    text: str | None = None,
    label: str | None = None,
    name: str = "own-data",
    folder: str | Path | None = None,
    **options: Any,
) -> PolarityTask:
    """Make a task from data frames, data sets or files, with the checks of `tasks new`.

    `evaluate` takes the task itself. `Job` takes its name and its file: `task=task.spec.name` and
    `task_dir=task.spec.file`.

    Args:
        *data: The data, or sources and queries, as `new_task` takes them.
        text: Name of the column with the texts; guessed by default.
        label: Name of the column with the labels; guessed by default.
        name: Name of the task.
        folder: Folder for the task file; by default, a folder in the cache for this data.
        **options: The options `columns` and `drop_empty` of `new_task`, and `labels`: labels of the
            data, keyed by the name of the class, as a list or separated by commas, such as
            `{"negative": [1, 2], "positive": "3.5.."}`.

    Raises:
        InputError: If the data or the name is not valid for a polarity task.
    """
    options |= {"text_column": text, "label_column": label}
    options["labels"] = [
        (name, str(value))
        for name, values in (options.get("labels") or {}).items()
        for value in (values if isinstance(values, list | tuple) else str(values).split(","))
    ]
    hint = _hint(options.get("columns", ()), text, label)
    tables = [read_table(each, hint) for each in data]
    rows = [[list(table.rows), table.rows.to_numpy().tolist()] for table in tables]
    # Increase the number with every change to the content of task files.
    place = Path(folder) if folder else cache_folder() / "tasks" / digest_of([2, options, rows])
    return new_task(tables, task_name=name, folder=place, **options)


# Guesses


def _hint(columns: Sequence[str], text: str | None, label: str | None) -> FormatSpec:
    return FormatSpec(header=tuple(columns), text=text or "text", label=label or "label")


def _choose(
    tables: Sequence[Table], text: str | None, label: str | None, has_classes: bool
) -> FormatSpec:
    """Choose or guess the columns of texts and labels, and return the format with their names."""
    table, rows = tables[0], tables[0].rows
    header = [str(name) for name in rows]
    for field_name, column in (("text_column", text), ("label_column", label)):
        if column is not None:
            check_known(
                column, header, f"`{field_name}` {column}: {table.place} has no such column"
            )
    if len(header) < 2:
        raise InputError(
            f"{table.place}: expected at least two columns (texts and labels), got "
            f"{header or 'none'}; give a file with a label for each text"
        )
    if rows.empty:
        raise InputError(f"{table.place}: the file has no rows; give a file with labelled texts")
    candidates = [name for name in header if name != label and name.lower() not in _SPLIT]
    candidates = candidates or [name for name in header if name != label]
    text = text or _find_column(TEXT, candidates) or str(rows[candidates].map(len).sum().idxmax())
    n_labels = rows.drop(columns=text).nunique()
    candidates = [name for name in n_labels.index if name.lower() not in _SPLIT]
    fits = [
        n for n in candidates if n_labels[n] >= 2 and (has_classes or n_labels[n] <= _MOST_LABELS)
    ]
    candidates = fits or candidates or list(n_labels.index)
    label = label or _find_column(LABEL, candidates) or _find_word(LABEL, candidates)
    label = label or str(n_labels[candidates].idxmin())
    for other in tables[1:]:
        for name in (text, label):
            problem = f"{other.place}: no column {name!r}, as in {table.place}; rename a column"
            check_known(name, [str(column) for column in other.rows], problem)
    found = rows[label].unique()
    longest = max(map(len, found))
    if len(found) == 1:
        problem = f"every row has the label {found[0]!r}"
    elif max(len(found) / _MOST_LABELS, longest / _LONGEST_LABEL) > 1 and not has_classes:
        n = f"{len(found):,} different labels of up to {longest:,} characters"
        problem = f"the column {label!r} has {n}"
    else:
        return (table.form or FormatSpec()).model_copy(update={"text": text, "label": label})
    raise InputError(
        f"{table.place}: {problem}; set the columns with `text_column` and `label_column`"
    )


def _find_column(known: Sequence[str], header: Sequence[str]) -> str | None:
    by_name = {name.lower(): name for name in reversed(header)}
    return next((by_name[name] for name in known if name in by_name), None)


def _find_word(known: Sequence[str], header: Sequence[str]) -> str | None:
    """Return the first column with a known word in its name, such as `star_rating`."""
    words = {name: re.split(r"[\W_]", name.lower()) for name in header}
    return next((name for word in known for name in header if word in words[name]), None)


# Checks of rows, and rows that are left out


def _clean(
    table: Table, form: FormatSpec, classes: Mapping[str, str], drop_empty: bool, notes: list[str]
) -> Table:
    """Check the rows of a table, and leave out rows.

    Args:
        table: The rows.
        form: Format with the columns of texts and labels.
        classes: The labels to keep are its keys; all labels are kept if it is empty.
        drop_empty: Whether to leave out rows with an empty text or label.
        notes: List that receives remarks for the task file on the rows that are left out.

    Raises:
        InputError: If a row is not text, or has an empty text or label.
    """
    rows, place = table.rows, ", ".join([table.place, *table.where.values()])
    for column in rows:
        if NOT_TEXT.search("\n".join(rows[column])):
            damaged = next(i for i, value in rows[column].items() if NOT_TEXT.search(value))
            raise InputError(
                f"{table.at(damaged)}: the column {column!r} contains a NUL byte, or is not text; "
                "convert the file to UTF-8"
            )
    pairs = zip(rows[form.text], rows[form.label], strict=True)
    is_empty = np.array([not text.strip() or not label.strip() for text, label in pairs])
    if n_empty := int(is_empty.sum()):
        if not drop_empty:
            first = "; ".join(map(table.at, rows.index[is_empty][:3]))
            raise InputError(
                f"{first}: the text or label is empty in {n_empty:,} of {len(rows):,} rows; fill "
                "them in, or use `drop_empty` to leave these rows out"
            )
        notes.append(f"{place}: rows left out, with an empty text or label: {n_empty:,}")
        rows = rows[~is_empty]
    is_kept = rows[form.label].isin(classes or set(rows[form.label]))
    if n_others := int((~is_kept).sum()):
        counts = rows[form.label][~is_kept].value_counts().head(_MOST_LABELS)
        numbers = ", ".join(f"{_quote(label)}: {n}" for label, n in counts.items())
        notes.append(f"{place}: rows left out: {n_others:,} ({numbers})")
    rows = rows[is_kept]
    if rows.empty:
        raise InputError(f"{place}: no rows are left; fill in the file, or correct `labels`")
    return replace(table, rows=rows)


def _with_classes(
    tables: Sequence[Table], form: FormatSpec, classes: Mapping[str, str]
) -> tuple[list[Table], FormatSpec]:
    """Add a column with the class of each row. The labels of the data stay, for breakdowns of P.

    Returns:
        The tables, and the format with the new column as that of the labels.
    """
    column = "class"
    while any(column in table.rows for table in tables):
        column += "_"
    added = [
        replace(t, rows=t.rows.assign(**{column: _renamed(t.rows[form.label], classes)}))
        for t in tables
    ]
    return added, form.model_copy(update={"label": column})


def _renamed(labels: pd.Series[str], names: Mapping[str, str]) -> pd.Series[str]:
    # `labels.map` would make a new string for each row.
    return pd.Series([names[label] for label in labels], labels.index, dtype=object)


def _names_of(found: Collection[str], labels: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the class of each label of the data that `labels` names."""
    names: dict[str, str] = {}
    for name, value in labels:
        matching = [label for label in sorted(found) if _is_in(label, value)]
        if not matching:
            raise InputError(
                f"`labels`: no row has the label {value!r} of {name!r}{nearest(value, found)}"
            )
        for label in matching:
            if names.setdefault(label, name) != name:
                raise InputError(
                    f"`labels`: the label {label!r} belongs to {names[label]!r} and {name!r}; "
                    "correct the values"
                )
    return names


def _is_in(label: str, part: str) -> bool:
    """Tell whether a label equals a value, or lies in a range such as `1..2` or `3.5..`."""
    low, dots, high = part.strip().partition("..")
    values = _fold(low or "-inf"), _fold(label), _fold(high or "inf")
    if not dots:
        return bool(values[0] == values[1])
    return all(isinstance(value, Decimal) for value in values) and [*values] == sorted(values)


def _fold(label: str) -> Any:
    """Return a text or number that is equal for labels that a person reads as equal."""
    full = re.sub(r"[\uff01-\uff5e]", lambda c: unicodedata.normalize("NFKC", c[0]), label)
    folded = " ".join(unicodedata.normalize("NFC", full).casefold().split())
    try:
        number = Decimal(folded)
    except InvalidOperation:
        return folded
    return folded if number.is_nan() else number


def _merge(labels: pd.Series[str]) -> dict[str, str]:
    """Return a name for each label; labels that a person reads as equal share the most frequent.

    Warns:
        InputWarning: If labels share a name.
    """
    counts = labels.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    usual: dict[Any, str] = {}
    for label in counts.index:
        usual.setdefault(_fold(label), label.strip())
    if len(usual) < len(counts):
        same = [repr(label) for label in counts.index if label != usual[_fold(label)]]
        warn(
            f"the labels {', '.join(same)} differ from others only in case, white space or digits; "
            "the task file gives them the same name; change [labels] there if they are different "
            "classes, or set `labels`"
        )
    return {label: usual[_fold(label)] for label in sorted(counts.index)}


def _check_pairs(
    tables: Sequence[Table], form: FormatSpec, keys: pd.Series[str], labels: pd.Series[str]
) -> None:
    """Warn about texts with several labels; case-folded texts are the keys of equal rows."""
    is_repeated = keys.duplicated(keep=False)
    n_labels = labels[is_repeated].groupby(keys[is_repeated], sort=False).nunique()
    several = n_labels.index[n_labels > 1]
    if len(several):
        rows = [(table, index) for table in tables for index in table.rows.index]
        places = np.flatnonzero(keys == several[0])
        other = next(place for place in places if labels.iloc[place] != labels.iloc[places[0]])
        lines = "; ".join(table.at(index) for table, index in (rows[places[0]], rows[other]))
        table, first = rows[places[0]]
        warn(
            f"{lines}: {len(several):,} of {keys.nunique():,} distinct texts have more than one "
            f"label, such as {table.rows.at[first, form.text][:60]!r}; correct or remove them"
        )


# Division of one file into two splits


def _split_by_column(table: Table, form: FormatSpec) -> list[Table]:
    """Divide a table by its split column; return the table itself if it has no such column.

    Warns:
        InputWarning: If rows are neither sources nor queries.
    """
    rows = table.rows
    others = [str(name) for name in rows if name not in {form.text, form.label}]
    column = _find_column(_SPLIT, others)
    splits = [] if column is None else list(rows[column].unique())
    names = [name for known in (SOURCE, QUERY) if (name := _find_column(known, splits))]
    if column is None or len(names) < 2:
        return [table]
    is_used = rows[column].isin(names)
    if n_others := int((~is_used).sum()):
        parts = ", ".join(map(repr, rows[column][~is_used].unique()[:5]))
        warn(f"{table.place}: {n_others:,} rows are not used, because their {column!r} is {parts}")
    return [replace(table, rows=rows[rows[column] == name], where={column: name}) for name in names]


def _draw_splits(table: Table, keys: pd.Series[str], labels: pd.Series[str]) -> list[Table]:
    """Draw the queries from the rows of a table; the other rows are the sources."""
    distinct = keys[is_first := ~keys.duplicated()]  # The label of the first row counts.
    ratio = min(1 / 5, _MOST_QUERIES / len(distinct))
    drawn = set(distinct.groupby(labels[is_first]).sample(frac=ratio, random_state=_SEED))
    is_query = keys.isin(drawn)
    if labels[is_query].nunique() < 2:
        raise InputError(
            f"{table.place}: {keys.nunique()} distinct texts are too few to draw queries; at least "
            "two labels need three texts each; add texts, or give the queries as a second file"
        )
    share = "a fifth" if len(drawn) < _MOST_QUERIES else f"{_MOST_QUERIES:,}"
    data = Path(table.place).name
    note = f"{share} of the distinct texts of {data}, drawn from each label"
    sides = ((table.rows[~is_query], f"the rest of {data}"), (table.rows[is_query], note))
    return [replace(table, rows=rows, note=note) for rows, note in sides]


def _write_splits(tables: Sequence[Table], file: Path) -> list[Table]:
    """Write sources and queries to csv files next to the task file."""
    written = []
    for path, table in zip(_split_files(file), tables, strict=True):
        content, schema = io.BytesIO(), pa.schema([(column, pa.string()) for column in table.rows])
        with CSVWriter(content, schema) as writer:
            for start in range(0, len(table.rows), _ROWS_AT_ONCE):
                part = table.rows[start : start + _ROWS_AT_ONCE]
                writer.write(pa.Table.from_pandas(part, schema, preserve_index=False))
        _write_new(path, content.getvalue(), file)
        with path.open(encoding="utf-8", newline="") as lines:
            rows = csv.reader(lines, strict=True)
            values = zip(*(table.rows[column] for column in table.rows), strict=True)
            pairs = zip_longest(map(tuple, rows), chain([tuple(table.rows)], values))
            if any(found != expected for found, expected in pairs):
                raise InputError(f"{path}: the rows do not read back as they were written")
        note = table.note or f"from {Path(table.place).name}"
        written.append(Table(str(path), table.rows, note=note))
    return written


def _write_new(path: Path, content: bytes, file: Path) -> None:
    """Write a file of a task, unless it exists with this content.

    Raises:
        InputError: If the file exists with other content. The message names all files of this task.
    """
    if not path.exists():
        write_atomically(path, content)
    elif path.read_bytes() != content:
        existing = [each for each in (file, *_split_files(file)) if each.exists()]
        files = "the file" if existing == [path] else ", ".join(map(str, existing))
        raise InputError(f"{path} already exists; choose another `task_name`, or remove {files}")


def _split_files(file: Path) -> tuple[Path, Path]:
    """Return the csv files of the sources and of the queries that belong to a task file."""
    source, query = (file.with_name(f"{file.stem}-{name}.csv") for name in ("source", "query"))
    return source, query


# The task file


def _slug(data: Sequence[Any]) -> str:
    """Derive a task name from the only file, or from the folder of the first of two files."""
    first = Path(data[0]).absolute()
    named = first.stem if len(data) == 1 else first.parent.name
    return re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:64]


def _folder(data: Sequence[Any]) -> Path:
    parents = [Path() if str(each).startswith(HUB) else Path(each).parent for each in data]
    if len(set(parents)) == 1:
        return parents[0]
    return Path(os.path.commonpath([parent.absolute() for parent in parents]))


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise InputError(f"`task_name` needs lower-case letters, digits and hyphens, got {name!r}")
    if name in load_tasks():
        raise InputError(
            f"`task_name` {name!r}: a task with this name already exists; choose another name"
        )


def _toml(
    file: Path,
    form: FormatSpec,
    tables: Sequence[Table],
    names: Mapping[str, str],
    notes: Sequence[str],
    n_overlap: int,
    *,
    is_named: bool,
) -> str:
    """Return the content of the task file, with comments on the guessed values."""
    n_source, n_query = (len(table.rows) for table in tables)
    usual, quarter = PolarityProtocol().k, max(1, n_source // 4)
    columns = {"text": form.text, "label": form.label}
    declared = {"type", "delimiter", "quoted", "header", "encoding"}
    format_keys = form.model_dump(include=declared, exclude_defaults=True)
    document: Any = tomlkit.document()
    for note in notes:
        document.add(tomlkit.comment(_printable(note)))
    document.update(
        {
            "name": file.stem,
            "kind": "polarity",
            "title": file.stem.replace("-", " ").capitalize(),
            "languages": ["eng-Latn"],
            "labels": names,
            "format": columns | format_keys,
            "splits": {
                split: _split(table, form, file.parent)
                for split, table in zip(("source", "query"), tables, strict=True)
            },
            "protocol": {"k": min(usual, quarter), "overlap": 0},
        }
    )
    meanings = "" if is_named else "; fill in the meanings"
    if not is_named and len(names) > 2 and all(isinstance(_fold(n), Decimal) for n in names):
        meanings += ", or group the labels of a scale (docs/own-data.md)"
    document["languages"].comment('assumed; for German texts, write "deu-Latn"')
    document["labels"].comment(f"label in the file = its meaning{meanings}")
    of_data = [name for name in tables[0].rows if not is_named or name != form.label]
    header = ", ".join(map(_quote, of_data))
    document["format"].comment(f"guessed from the columns {header}")
    protocol = document["protocol"]
    if quarter < usual:
        protocol["k"].comment(f"a quarter of the {n_source} sources")
    remark = f"of {n_query} queries also occur among the sources"
    protocol["overlap"].comment(remark)
    if n_overlap:
        del protocol["overlap"]
        question = f"overlap = {n_overlap} # {remark}; if this is intended, uncomment this line"
        protocol.add(tomlkit.comment(question))
    return tomlkit.dumps(document)


def _split(split: Table, form: FormatSpec, folder: Path) -> Any:
    """Return the TOML table of a split, with the number of rows per label as a comment."""
    path = Path(split.place)
    with path.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    place = path.absolute().relative_to(folder.absolute()).as_posix()
    table: Any = tomlkit.table()
    table.update({"path": place, "sha256": checksum, "rows": len(split.rows)})
    if split.note:
        table["path"].comment(_printable(split.note))
    counts = split.rows[form.label].value_counts().sort_index()
    table["rows"].comment(", ".join(f"{_quote(label)}: {n}" for label, n in counts.items()))
    if split.where:
        table["where"] = tomlkit.inline_table() | dict(split.where)
    return table


def _printable(text: str) -> str:
    """Return a text for a comment, which must be one line without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _quote(value: object) -> str:
    return tomlkit.item(str(value)).as_string()
