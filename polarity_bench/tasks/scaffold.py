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
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomlkit

from polarity_bench.data.layouts import HUB, QUERY, SOURCE, Table, read_table
from polarity_bench.data.readers import NOT_TEXT, as_text
from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, InputWarning, nearest
from polarity_bench.files import cache_folder, write_atomically
from polarity_bench.tasks.catalogue import load_tasks, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import (
    PolarityProtocol,
    PolarityTask,
    check_labels,
    count_overlap,
)
from polarity_bench.values import digest_of

_TEXT = ("text", "sentence", "content", "review", "tweet", "headline", "comment")
_LABEL = (
    *("label", "labels", "class", "polarity", "sentiment", "target", "category", "mood"),
    *("gold", "score", "stars", "rating", "y"),
)
_SPLIT = ("split", "part", "subset", "set")
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
    data: Sequence[Any],
    *,
    task_name: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    drop_empty: bool = False,
    folder: Path | None = None,
) -> Path:
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
        labels: Labels of the data, keyed by the name of the class: values and ranges, separated by
            commas, such as `{"negative": "1,2", "positive": "3.5.."}`. Rows with other labels are
            left out.
        drop_empty: Whether to leave out rows with an empty text or label.
        folder: Folder of the task file; by default, the folder of the data.

    Returns:
        The path of the task file.

    Raises:
        InputError: If the data or the name is not valid for a polarity task, or an output file
            already exists.

    Warns:
        InputWarning: If texts have several labels, or labels differ only in case or white space.
    """
    if len(data) not in {1, 2}:
        raise InputError(f"expected one file, or two (sources and queries), got {len(data)} files")
    name = _slug(data) if task_name is None else task_name
    file = (folder or _folder(data)) / f"{name}.toml"
    _check_name(name, file)
    tables = [read_table(each, columns, (text_column, label_column)) for each in data]
    form = _choose(tables, text_column, label_column, labels)
    notes: list[str] = []
    if len(tables) == 1:
        tables = [_without_other_parts(tables[0], form)]
    classes = _names_of({v for t in tables for v in t.rows[form.label]}, labels or {})
    if labels:
        notes.append("classes " + "; ".join(f"{name} = {parts}" for name, parts in labels.items()))
    cleaned = [_clean(table, form, classes, drop_empty, notes) for table in tables]
    names = {name: name for name in labels or ()}
    names = names or _merge(pd.concat([table.rows[form.label] for table in cleaned]))
    if len({*names.values()}) < 2:
        problem = f"{name}: every row has the label {min(names.values())!r}; "
        raise InputError(f"{problem}a polarity task needs at least two classes; correct `labels`")
    rows = cleaned[0].rows
    data_file = Path(tables[0].place)
    if len(tables) == 2:
        sides = [_Side(Path(table.place), table.rows) for table in cleaned]
    else:
        sides = _split_by_column(data_file, form, rows)
    pool = pd.concat([side.rows for side in sides]) if sides else rows
    keys = pd.Series(list(map(str.casefold, pool[form.text])), pool.index, dtype=object, name="key")
    _check_pairs(tables, keys, pool[form.label].map(names))
    # A task file declares one format for both files, and no rows to leave out.
    is_declared = sides and not (notes or folder) and tables[0].form == tables[-1].form is not None
    sides = sides or _draw_sides(data_file, rows, keys, rows[form.label].map(names))
    check_labels(
        name, *({names[value] for value in side.rows[form.label].unique()} for side in sides)
    )
    if not is_declared:
        sides = _write_sides(sides, file)
        form = FormatSpec(text=form.text, label=form.label)
    notes += [f"made from {table.place}" for table in tables if table.form is None]
    content = _toml(file, form, [str(column) for column in tables[0].rows], sides, names, notes)
    write_atomically(file, content.encode())
    try:
        read_task(file)
    except InputError:  # For instance, the path of the data is not allowed in a task file.
        file.unlink()
        raise
    return file


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
        **options: The options `labels`, `columns` and `drop_empty` of `new_task`. The values of
            `labels` may also be lists.

    Raises:
        InputError: If the data or the name is not valid for a polarity task.
    """
    options |= {"text_column": text, "label_column": label}
    if given := options.get("labels"):
        parts = {n: p if isinstance(p, list | tuple) else [p] for n, p in given.items()}
        options["labels"] = {n: ",".join(map(str, each)) for n, each in parts.items()}
    tables = [read_table(each, options.get("columns", ()), (text, label)) for each in data]
    rows = [[list(table.rows), table.rows.to_numpy().tolist()] for table in tables]
    place = Path(folder) if folder else cache_folder() / "tasks" / digest_of([options, rows])
    file = place / f"{name}.toml"
    if folder or not file.exists():
        file = new_task(tables, task_name=name, folder=place, **options)
    task = read_task(file).load(DataAccess(offline=True), Settings())
    assert isinstance(task, PolarityTask)  # noqa: S101  `new_task` writes no other kind
    return task


# Guesses


def _choose(
    tables: Sequence[Table], text: str | None, label: str | None, labels: Mapping[str, str] | None
) -> FormatSpec:
    """Choose or guess the columns of texts and labels, and return the format with their names."""
    table, rows = tables[0], tables[0].rows
    header = [str(name) for name in rows]
    for field_name, column in (("text_column", text), ("label_column", label)):
        if column is not None and column not in header:
            raise InputError(
                f"`{field_name}` {column}: {table.place} has no such column"
                f"{nearest(column, header)}"
            )
    if len(header) < 2:
        raise InputError(
            f"{table.place}: expected at least two columns (texts and labels), got "
            f"{header or 'none'}"
        )
    if rows.empty:
        raise InputError(f"{table.place}: the file has no rows")
    candidates = [name for name in header if name != label and name.lower() not in _SPLIT]
    candidates = candidates or [name for name in header if name != label]
    text = text or _find_column(_TEXT, candidates) or str(rows[candidates].map(len).sum().idxmax())
    n_labels = rows.drop(columns=text).nunique()
    candidates = [name for name in n_labels.index if name.lower() not in _SPLIT]
    fits = [n for n in candidates if n_labels[n] >= 2 and (labels or n_labels[n] <= _MOST_LABELS)]
    candidates = fits or candidates or list(n_labels.index)
    label = label or _find_column(_LABEL, candidates) or _find_word(_LABEL, candidates)
    label = label or str(n_labels[candidates].idxmin())
    for other in tables[1:]:
        for name in (text, label):
            if name not in other.rows:
                known = nearest(name, map(str, other.rows))
                raise InputError(f"{other.place}: no column {name!r}, as in {table.place}{known}")
    found = rows[label].unique()
    if len(found) == 1:
        problem = f"every row has the label {found[0]!r}"
    elif len(found) > _MOST_LABELS and not labels:
        problem = f"the column {label!r} has {len(found):,} different labels"
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
    """Check the rows of a table, name their classes, and leave out rows.

    Args:
        table: The rows.
        form: Format with the columns of texts and labels.
        classes: Class of each label to keep; all labels are kept if it is empty.
        drop_empty: Whether to leave out rows with an empty text or label.
        notes: List that receives remarks for the task file on the rows that are left out.

    Raises:
        InputError: If a row is not text, or has an empty text or label.
    """
    rows = table.rows
    texts, labels = list(rows[form.text]), list(rows[form.label])
    if NOT_TEXT.search("\n".join(texts)) or NOT_TEXT.search("\n".join(labels)):
        pairs = enumerate(zip(texts, labels, strict=True))
        damaged = next(i for i, pair in pairs if NOT_TEXT.search("\t".join(pair)))
        raise InputError(
            f"{table.where(rows.index[damaged])}: the text or label contains a NUL byte, or is "
            "not text; convert the file to UTF-8"
        )
    filled = {label for label in {*labels} if label.strip()}
    is_empty = np.array(
        [y not in filled or not text.strip() for text, y in zip(texts, labels, strict=True)]
    )
    if n_empty := int(is_empty.sum()):
        if not drop_empty:
            first = "; ".join(map(table.where, rows.index[is_empty][:3]))
            raise InputError(
                f"{first}: the text or label is empty in {n_empty:,} of {len(rows):,} rows; fill "
                "them in, or use `drop_empty` to leave these rows out"
            )
        notes.append(f"{table.place}: rows left out, with an empty text or label: {n_empty:,}")
        rows = rows[~is_empty]
    if classes:
        is_kept = rows[form.label].isin(classes)
        counts = rows[form.label][~is_kept].value_counts().head(_MOST_LABELS)
        if len(counts):
            numbers = ", ".join(f"{_quote(label)}: {n}" for label, n in counts.items())
            notes.append(f"{table.place}: rows left out: {(~is_kept).sum():,} ({numbers})")
        rows = rows[is_kept]
        rows = rows.assign(**{form.label: rows[form.label].map(classes)})
    if rows.empty:
        raise InputError(f"{table.place}: no rows are left; fill in the file, or correct `labels`")
    return replace(table, rows=rows)


def _names_of(found: Collection[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Return the class of each label of the data that `labels` names."""
    names: dict[str, str] = {}
    for name, parts in labels.items():
        for part in parts.split(","):
            matching = [label for label in sorted(found) if _is_in(label, part)]
            if not matching:
                raise InputError(
                    f"`labels`: no row has the label {part!r} of {name!r}{nearest(part, found)}"
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
    if not dots:
        return _fold(label) == _fold(part)
    try:
        return float(low or "-inf") <= float(label) <= float(high or "inf")
    except ValueError:
        return False


def _fold(label: str) -> str:
    """Return a form that is equal for labels that a person reads as equal."""
    folded = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
    try:
        return as_text(float(folded)) or folded
    except (ValueError, OverflowError):
        return folded


def _merge(labels: pd.Series[str]) -> dict[str, str]:
    """Return a name for each label; labels that a person reads as equal share the most frequent.

    Warns:
        InputWarning: If labels share a name.
    """
    counts = labels.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    usual: dict[str, str] = {}
    for label in counts.index:
        usual.setdefault(_fold(label), label.strip())
    if len(usual) < len(counts):
        same = [repr(label) for label in counts.index if label != usual[_fold(label)]]
        warnings.warn(
            f"the labels {', '.join(same)} differ from others only in case, white space or digits; "
            "the task file gives them the same name; change [labels] there if they are different "
            "classes, or set `labels`",
            InputWarning,
            stacklevel=3,
        )
    return {label: usual[_fold(label)] for label in sorted(counts.index)}


def _check_pairs(tables: Sequence[Table], keys: pd.Series[str], labels: pd.Series[str]) -> None:
    """Warn about texts with several labels; case-folded texts are the keys of equal rows."""
    is_repeated = keys.duplicated(keep=False)
    n_labels = labels[is_repeated].groupby(keys[is_repeated], sort=False).nunique()
    several = n_labels.index[n_labels > 1]
    if len(several):
        files = ", ".join(dict.fromkeys(table.place for table in tables))
        warnings.warn(
            f"{files}: {len(several):,} of {keys.nunique():,} distinct texts have more than one "
            f"label, such as {several[0][:60]!r}; correct or remove them",
            InputWarning,
            stacklevel=3,
        )


# Division of one file into two splits


def _without_other_parts(table: Table, form: FormatSpec) -> Table:
    """Leave out rows that a split column puts into neither sources nor queries.

    Warns:
        InputWarning: If rows are left out.
    """
    sides = _split_by_column(Path(table.place), form, table.rows)
    if not sides:
        return table
    used = table.rows.index.isin([i for side in sides for i in side.rows.index])
    if n_others := int((~used).sum()):
        column, *_ = sides[0].where
        parts = ", ".join(map(repr, table.rows[column][~used].unique()[:5]))
        warnings.warn(
            f"{table.place}: {n_others:,} rows are not used, because their {column!r} is {parts}",
            InputWarning,
            stacklevel=3,
        )
    return replace(table, rows=table.rows[used])


def _split_by_column(path: Path, form: FormatSpec, rows: pd.DataFrame) -> list[_Side]:
    """Divide a file by its split column; return an empty list if the file has no such column."""
    column = _find_column(
        _SPLIT, [str(name) for name in rows if name not in {form.text, form.label}]
    )
    if column is None:
        return []
    splits = list(rows[column].unique())
    names = [_find_column(known, splits) for known in (SOURCE, QUERY)]
    sides = [_Side(path, rows[rows[column] == name], {column: name}) for name in names if name]
    return sides if len(sides) == 2 else []


def _draw_sides(
    data: Path, rows: pd.DataFrame, keys: pd.Series[str], labels: pd.Series[str]
) -> list[_Side]:
    """Draw the queries from the rows of one file; the other rows are the sources."""
    drawn = _draw_query_texts(keys, labels)
    share = "a fifth" if len(drawn) < _MOST_QUERIES else f"{_MOST_QUERIES:,}"
    is_query = keys.isin(drawn)
    if labels[is_query].nunique() < 2:
        raise InputError(
            f"{data}: {keys.nunique()} distinct texts are too few to draw queries; at least two "
            "labels need three texts each; add texts, or give the queries as a second file"
        )
    note = f"{share} of the distinct texts of {data.name}, drawn from each label"
    return [
        _Side(data, rows[~is_query], note=f"the rest of {data.name}"),
        _Side(data, rows[is_query], note=note),
    ]


def _write_sides(sides: Sequence[_Side], file: Path) -> list[_Side]:
    """Write sources and queries to csv files next to the task file."""
    written = []
    for name, side in zip(("source", "query"), sides, strict=True):
        path = file.with_name(f"{file.stem}-{name}.csv")
        text = io.StringIO()  # `to_csv` takes several times as long.
        columns = [list(side.rows[name]) for name in side.rows]
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(side.rows.columns)
        writer.writerows(zip(*columns, strict=True))
        content = text.getvalue().encode()
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"{path} already exists; choose another `task_name`")
        write_atomically(path, content)
        note = side.note or f"from {side.path.name}"
        written.append(_Side(path, side.rows, note=note))
    return written


def _draw_query_texts(keys: pd.Series[str], labels: pd.Series[str]) -> set[str]:
    """Draw a fifth of the distinct texts of each label, but at most 5,000 texts in all.

    If a text occurs in several rows, the label of the first row counts.
    """
    is_first = ~keys.duplicated()
    distinct = keys[is_first]
    share = min(1 / 5, _MOST_QUERIES / len(distinct))
    return set(distinct.groupby(labels[is_first]).sample(frac=share, random_state=_SEED))


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


def _check_name(name: str, file: Path) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise InputError(f"`task_name` needs lower-case letters, digits and hyphens, got {name!r}")
    if name in load_tasks():
        raise InputError(
            f"`task_name` {name!r}: a task with this name already exists; choose another name"
        )
    if file.exists():
        raise InputError(f"{file} already exists; choose another `task_name`")


def _toml(
    file: Path,
    form: FormatSpec,
    header: Sequence[str],
    sides: Sequence[_Side],
    names: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """Return the content of the task file, with comments on the guessed values."""
    source, query = (side.rows for side in sides)
    usual, quarter = PolarityProtocol().k, max(1, len(source) // 4)
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
            "labels": names,
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
    with side.path.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    place = side.path.absolute().relative_to(folder.absolute()).as_posix()
    table: Any = tomlkit.table()
    table.update({"path": place, "sha256": checksum, "rows": len(side.rows)})
    if side.note:
        table["path"].comment(_printable(side.note))
    counts = side.rows[form.label].value_counts().sort_index()
    table["rows"].comment(", ".join(f"{_quote(label)}: {n}" for label, n in counts.items()))
    if side.where:
        table["where"] = tomlkit.inline_table() | dict(side.where)
    return table


def _printable(text: str) -> str:
    """Return a text for a comment, which must be one line without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _quote(value: object) -> str:
    return tomlkit.item(str(value)).as_string()
