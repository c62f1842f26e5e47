"""Creation of a task file for one or two existing files of labelled texts.

The task file lists each guess next to its alternatives, so that the user can correct it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from polarity_bench.data.readers import DELIMITERS, FileRow, read_header, read_rows
from polarity_bench.data.schema import FormatSpec
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
class Columns:
    """Names of the columns with the texts and the labels; None means that the column is guessed."""

    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class _Side:
    """A future split: its file, the condition that selects its rows, and the texts and labels."""

    path: Path
    rows: Sequence[tuple[str, ...]]
    where: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def new_task(
    files: Sequence[Path], *, task_name: str | None = None, columns: Columns | None = None
) -> Path:
    """Write a task file next to its data.

    Given two files, the first holds the sources and the second the queries. A single file is
    divided by the column that names the split. Without such a column, a fifth of the distinct
    texts of each label, but at most 5,000 in all, are drawn as queries. Both parts are then
    written, with all columns, to csv files next to the task file.

    Returns:
        The path of the task file, which was read back as a check.

    Raises:
        InputError: If the data does not make a polarity task, or an output file already exists.

    Warns:
        InputWarning: If texts have several labels.
    """
    if len(files) not in {1, 2}:
        raise InputError(f"one file or two, sources and queries, are wanted, got {len(files)}")
    name = _slug(files) if task_name is None else task_name
    file = _folder(files) / f"{name}.toml"
    _check_name(name, file)
    form, header = _read_form(files[0])
    rows = _rows(files[0], form, header)
    form = _choose(files[0], form, header, rows, columns or Columns())
    if len(files) == 2:
        sides = [_Side(path, _pairs(path, form)) for path in files]
    else:
        sides = _declared_sides(files[0], form, header, rows)
    _warn_of_contradictions(files, sides or [_Side(files[0], _pairs(files[0], form))])
    if not sides:
        sides = _drawn_sides(files[0], form, header, rows, file)
        form = FormatSpec(text=form.text, label=form.label)
    write_atomically(file, _toml(name, form, header, sides).encode())
    try:
        read_task(file)
    except InputError:  # for instance, the path of the data is not allowed in a task file
        file.unlink()
        raise
    return file


# Guesses


def _read_form(path: Path) -> tuple[FormatSpec, list[str]]:
    """Return the guessed format of a file, and the names of its columns."""
    form = FormatSpec(encoding="utf-8" if _is_utf8(path) else "cp1252")
    header = read_header(path, form)
    if len(header) == 1 and path.suffix != ".parquet":
        delimiter = max(DELIMITERS, key=header[0].count)
        form = form.model_copy(update={"delimiter": delimiter})
        header = read_header(path, form)
    if len(header) < 2:
        raise InputError(
            f"{path}: two columns are wanted, texts and labels; there is {header or 'nothing'}"
        )
    return form, header


def _is_utf8(path: Path) -> bool:
    if path.suffix in {".gz", ".parquet"} or not path.is_file():
        return True  # otherwise the reader reports the problem
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _choose(
    path: Path, form: FormatSpec, header: Sequence[str], rows: Sequence[FileRow], asked: Columns
) -> FormatSpec:
    """Return the format with the columns of texts and labels filled in."""
    for field_name, column in (("text_column", asked.text), ("label_column", asked.label)):
        if column is not None and column not in header:
            raise InputError(
                f"`{field_name}` {column}: no column of {path}{nearest(column, header)}"
            )
    values = {name: [row.values[i] for row in rows] for i, name in enumerate(header)}
    left = [name for name in header if name != asked.label and name.lower() not in _SPLIT]
    text = asked.text or _named(_TEXT, left) or max(left, key=lambda n: sum(map(len, values[n])))
    left = [name for name in left if name != text]
    label = asked.label or _named(_LABEL, left) or min(left, key=lambda n: len(set(values[n])))
    form = form.model_copy(update={"text": text, "label": label})
    found = set(values[label])
    if len(found) == 1:
        problem = f"every row has the label {found.pop()!r}"
    elif len(found) > _MOST_LABELS:
        problem = f"{len(found):,} different labels in {label!r}"
    elif label in found:
        raise InputError(f"{path}: the first line looks like data; a heading is wanted there")
    else:
        return form
    raise InputError(f"{path}: {problem}; name the columns with `text_column` and `label_column`")


def _named(known: Sequence[str], header: Sequence[str]) -> str | None:
    by_name = {name.lower(): name for name in reversed(header)}
    return next((by_name[name] for name in known if name in by_name), None)


def _rows(path: Path, form: FormatSpec, columns: Sequence[str]) -> list[FileRow]:
    rows = read_rows(path, form, columns)
    if not rows:
        raise InputError(f"{path}: no rows")
    return rows


def _pairs(path: Path, form: FormatSpec) -> list[tuple[str, ...]]:
    """Return the text and label of each row of a file."""
    rows = _rows(path, form, [form.text, form.label])
    for row in rows:
        for what, value in zip(("text", "label"), row.values, strict=True):
            if not value.strip():
                raise InputError(f"{path}, line {row.line}: the {what} is empty")
    return [row.values for row in rows]


# Division of one file into two splits


def _declared_sides(
    path: Path, form: FormatSpec, header: Sequence[str], rows: Sequence[FileRow]
) -> list[_Side]:
    """Divide a file by the column that names the split; return an empty list without one."""
    column = _named(_SPLIT, [name for name in header if name not in {form.text, form.label}])
    if column is None:
        return []
    by_part: dict[str, list[tuple[str, ...]]] = {}
    where = header.index(column)
    for row, pair in zip(rows, _pairs(path, form), strict=True):
        by_part.setdefault(row.values[where], []).append(pair)
    names = [_named(known, list(by_part)) for known in (_SOURCE, _QUERY)]
    return [_Side(path, by_part[name], {column: name}) for name in names if name] * all(names)


def _drawn_sides(
    data: Path, form: FormatSpec, header: Sequence[str], rows: Sequence[FileRow], file: Path
) -> list[_Side]:
    """Draw queries, and write both parts to csv files next to the task file."""
    pairs = _pairs(data, form)
    drawn = _drawn_texts(pairs)
    share = "a fifth" if len(drawn) < _MOST_QUERIES else f"{_MOST_QUERIES:,}"
    notes = {"source": f" # the rest of {data.name}"}
    notes["query"] = f" # {share} of the distinct texts of {data.name}, drawn from each label"
    sides = []
    for name, is_query in (("source", False), ("query", True)):
        kept = [i for i, pair in enumerate(pairs) if (pair[0].casefold() in drawn) == is_query]
        out = io.StringIO()
        lines = [tuple(header), *(rows[i].values for i in kept)]
        csv.writer(out, lineterminator="\n").writerows(lines)
        path = file.with_name(f"{file.stem}-{name}.csv")
        if path.exists() and path.read_bytes() != out.getvalue().encode():
            raise InputError(f"{path} is there already; give another `task_name`")
        write_atomically(path, out.getvalue().encode())
        sides.append(_Side(path, [pairs[i] for i in kept], note=notes[name]))
    return sides


def _drawn_texts(pairs: Sequence[tuple[str, ...]]) -> set[str]:
    """Draw a fifth of the distinct texts of each label, but at most 5,000 texts in all.

    A text that occurs in several rows has the label of the first row.
    """
    label_of: dict[str, str] = {}
    for text, label in pairs:
        label_of.setdefault(text.casefold(), label)
    share = min(1 / 5, _MOST_QUERIES / len(label_of))
    generator = np.random.default_rng(_SEED)
    drawn: set[str] = set()
    for label in sorted(set(label_of.values())):
        keys = [key for key, own in label_of.items() if own == label]
        order = generator.permutation(len(keys))
        drawn |= {keys[i] for i in order[: round(share * len(keys))]}
    return drawn


def _warn_of_contradictions(files: Sequence[Path], sides: Sequence[_Side]) -> None:
    """Warn of texts that have several labels."""
    labels: dict[str, set[str]] = {}
    for side in sides:
        for text, label in side.rows:
            labels.setdefault(text.casefold(), set()).add(label)
    several = [text for text, own in labels.items() if len(own) > 1]
    if several:
        warnings.warn(
            f"{', '.join(map(str, files))}: {len(several):,} of {len(labels):,} distinct texts "
            f"have more than one label, such as {several[0][:60]!r}; correct or remove them",
            InputWarning,
            stacklevel=3,
        )


# The task file


def _slug(files: Sequence[Path]) -> str:
    """Return a task name: from the name of a single file, or of the folder of two files."""
    named = files[0].stem if len(files) == 1 else files[0].absolute().parent.name
    return re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:64]


def _folder(files: Sequence[Path]) -> Path:
    parents = [path.parent for path in files]
    if len(set(parents)) == 1:
        return parents[0]
    return Path(os.path.commonpath([parent.absolute() for parent in parents]))


def _check_name(name: str, file: Path) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        raise InputError(f"`task_name` {name!r}: lower-case letters, digits and hyphens are wanted")
    if name in load_tasks():
        raise InputError(f"`task_name` {name!r}: there is a task of that name; give another")
    if file.exists():
        raise InputError(f"{file} is there already; give another `task_name`")


def _toml(name: str, form: FormatSpec, header: Sequence[str], sides: Sequence[_Side]) -> str:
    labels = sorted({label for side in sides for _, label in side.rows})
    default = FormatSpec()
    lines = [
        f"name = {_quoted(name)}",
        'kind = "polarity"',
        f"title = {_quoted(name.replace('-', ' ').capitalize())}",
        "",
        "[labels] # as the file writes them, and what they mean: put that in",
        *(f"{_quoted(label)} = {_quoted(label)}" for label in labels),
        "",
        f"[format] # guessed among the columns {', '.join(map(_quoted, header))}",
        f"text = {_quoted(form.text)}",
        f"label = {_quoted(form.label)}",
        *(
            f"{key} = {_quoted(getattr(form, key))}"
            for key in ("delimiter", "encoding")
            if getattr(form, key) != getattr(default, key)
        ),
    ]
    folder = _folder([side.path for side in sides])
    for side, split in zip(sides, ("source", "query"), strict=True):
        place = side.path.absolute().relative_to(folder.absolute()).as_posix()
        lines += ["", f"[splits.{split}]", f"path = {_quoted(place)}{side.note}"]
        lines.append(f'sha256 = "{hashlib.sha256(side.path.read_bytes()).hexdigest()}"')
        if side.where:
            lines.append(f"where = {_inline(side.where)}")
        counts = sorted(Counter(label for _, label in side.rows).items())
        shown = ", ".join(f"{_quoted(label)}: {n}" for label, n in counts)
        lines.append(f"rows = {len(side.rows)} # {shown}")
    return "\n".join([*lines, "", *_protocol(*sides), ""])


def _protocol(source: _Side, query: _Side) -> list[str]:
    usual = PolarityProtocol().k
    k = min(usual, max(1, len(source.rows) // 4))
    line = f"k = {k}" if k == usual else f"k = {k} # of {len(source.rows)} sources, a quarter"
    n_queries = len(query.rows)
    found = count_overlap((text for text, _ in source.rows), (text for text, _ in query.rows))
    said = f"of {n_queries} queries stand among the sources too"
    if not found:
        return ["[protocol]", line, f"overlap = 0 # {said}"]
    return ["[protocol]", line, f"# overlap = {found} # {said}: is it meant? Then declare it"]


def _inline(values: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{_quoted(k)} = {_quoted(v)}" for k, v in values.items()) + " }"


def _quoted(value: object) -> str:
    """Return a text or number as TOML.

    TOML's basic strings are JSON's strings, except that TOML does not allow the character DEL.
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
