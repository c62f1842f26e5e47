"""Published numbers: scores from papers, shown next to measured ones and never ranked.

Every board has one format of `published.csv`, with one number per line:

- `name`: Name of the row, such as the method or the encoder.
- `task`: Name of the task in this project.
- `score`: Name of the score in results, such as `polarity_uniform_at_16`, `macro_f1` or `accuracy`.
  A sweep's scores are `polarity` and `similarity`, at the k and the weighting of its board.
- `value`: The number in percent, as papers print it.
- `source`: The citation, with the table.

The other columns may be empty or missing:

- `std`, `min` and `max`: Standard deviation, minimum and maximum, in percent.
- `model`: The base encoder that was trained; empty for a mean over several.
- `protocol`: The protocol that the number belongs to, if the board has several.
- `twin`: What the number is compared with: an encoder measured here, or settings of trainings such
  as `loss=triplet,margin=0.1`, or `reference` for the base encoder of a sweep.
- `star`: 1 if the paper marks the number as significant.
- `note`: How the measurement differs from the board's (weights, folds, layers).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polarity_bench.errors import InputError, nearest
from polarity_bench.render.markdown import escape
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import printable

FILE = "published.csv"
_REQUIRED = ("name", "task", "score", "value", "source")
_OPTIONAL = ("std", "min", "max", "model", "protocol", "twin", "star", "note")


@dataclass(frozen=True)
class PublishedNumber:
    """A published number.

    Attributes:
        name: Name of the row.
        task: Name of the task.
        key: Key of the score.
        value: The number, as a fraction.
        std: Its standard deviation, as a fraction; NaN if there is none.
        least: The minimum of the averaged numbers, as a fraction; NaN if not given.
        most: The maximum of them, as a fraction; NaN if not given.
        model: The base encoder, or ''.
        protocol: Name of the protocol, or ''.
        twin: What the number is compared with, or ''.
        is_significant: Whether the paper marks the number as significant.
        source: The citation.
        note: How the measurement differs from the board's, or ''.
        where: File and line, for messages.
    """

    name: str
    task: str
    key: ScoreKey
    value: float
    source: str
    std: float = math.nan
    least: float = math.nan
    most: float = math.nan
    model: str = ""
    protocol: str = ""
    twin: str = ""
    is_significant: bool = False
    note: str = ""
    where: str = ""

    @property
    def question(self) -> tuple[str, str, str, str, ScoreKey]:
        """Name, source, note, task and score, without the weighting."""
        key = replace(self.key, weighting="linear")
        return self.name, self.source, self.note, self.task, key

    @property
    def paper(self) -> str:
        """The citation without its tables, since P and S of one row may be in two tables."""
        return re.split(r",? tables? ", self.source, flags=re.IGNORECASE)[0]

    @property
    def score(self) -> Score:
        """The number as a score without an interval."""
        return Score(self.value, self.std, (math.nan, math.nan), None)


def read_published(file: Path) -> list[PublishedNumber]:
    """Read published numbers; return an empty list if the file does not exist.

    Raises:
        InputError: If a column is missing or unknown, a cell is invalid, or a number has no name or
            citation or occurs twice. The message names the line.
    """
    if not file.is_file():
        return []
    numbers = [_number(where, cells) for where, cells in _lines(file)]
    lines: dict[tuple[object, ...], str] = {}
    for number in numbers:
        settings = number.twin if "=" in number.twin else ""
        same = (number.name, number.model, number.task, number.key, number.protocol, settings)
        if (first := lines.setdefault((*same, number.paper, number.note), number.where)) != (
            number.where
        ):
            raise InputError(f"{number.where}: the same number as {first}; delete one of them")
    return numbers


def footnote_numbers(published: Iterable[PublishedNumber]) -> dict[tuple[str, str], int]:
    """Return the number of the footnote of each source and note, in order of first occurrence."""
    notes = dict.fromkeys((number.source, number.note) for number in published)
    return {note: place for place, note in enumerate(notes, start=1)}


def footnote(number: int, source: str, note: str) -> str:
    """Return a footnote in markdown: the source of a published number, and its note."""
    return f"\\[{number}\\] {escape(source)}{f'; {escape(note)}' if note else ''}."


def match_published(
    numbers: Sequence[PublishedNumber],
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> list[PublishedNumber]:
    """Return the numbers with the digest of their twin, after checks against the results.

    Args:
        numbers: Published numbers of a board of results.
        tasks: The scores of each task that has results.
        twins: Digests of the encoders measured here, by name.

    Raises:
        InputError: If no result has the task, the score or the twin; the message names the line.
    """
    matched = []
    for number in numbers:
        where, twin = number.where, number.twin
        if number.task not in tasks:
            near = nearest(number.task, tasks)
            raise InputError(f"{where}: no result of the task {number.task!r}{near}")
        if twin and twin not in twins:
            raise InputError(f"{where}: no result of the encoder {twin!r}{nearest(twin, twins)}")
        if len(alike := sorted(twins.get(twin, ()))) > 1:
            raise InputError(f"{where}: {twin!r} names several encoders: {', '.join(alike)}")
        known, k = tasks[number.task], number.key.k
        if number.key not in {replace(key, k=k) if key.k and k else key for key in known}:
            near = nearest(str(number.key), map(str, known))
            raise InputError(f"{where}: results have no score {str(number.key)!r}{near}")
        matched.append(replace(number, twin="".join(alike)))
    return matched


def _lines(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each line its location and its cells by column."""
    known = {*_REQUIRED, *_OPTIONAL}
    with file.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets write a BOM
        lines = csv.DictReader(stream)
        columns = set(lines.fieldnames or ())
        if missing := set(_REQUIRED) - columns:
            present = ", ".join(sorted(columns))
            raise InputError(
                f"{file}: the column {min(missing)!r} is missing, got {present}; "
                "docs/boards.md, 'Published numbers', describes the format of every board"
            )
        if unknown := columns - known:
            wrong = min(unknown)
            raise InputError(f"{file}: unknown column {wrong!r}{nearest(wrong, known)}")
        for line in lines:
            where = f"{file}, line {lines.line_num}"
            if surplus := line.get(None):
                raise InputError(
                    f"{where}: there are {len(columns)} columns, got {len(columns) + len(surplus)} "
                    f"cells, the last is {surplus[-1]!r}; put a cell that holds a comma in quotes"
                )
            yield where, {name: printable((line.get(name) or "").strip()) for name in known}


def _number(where: str, cells: Mapping[str, str]) -> PublishedNumber:
    for name, meaning in (("name", "name"), ("source", "citation"), ("score", "score")):
        if not cells[name]:
            raise InputError(f"{where}: the {meaning} is missing; write it in `{name}`")
    std, least, most = (
        _fraction(where, name, cells[name], minimum) if cells[name] else math.nan
        for name, minimum in (("std", 0.0), ("min", -100.0), ("max", -100.0))
    )
    if cells["star"] not in {"", "0", "1"}:
        raise InputError(f"{where}: 'star' must be 1, 0 or empty, got {cells['star']!r}")
    as_written = ("name", "task", "source", "model", "protocol", "twin", "note")
    return PublishedNumber(
        key=ScoreKey.parse(cells["score"]),
        value=_fraction(where, "value", cells["value"]),
        std=std,
        least=least,
        most=most,
        is_significant=cells["star"] == "1",
        where=where,
        **{name: cells[name] for name in as_written},
    )


def _fraction(where: str, name: str, text: str, minimum: float = -100) -> float:
    """Read a percentage as a fraction."""
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not minimum <= percent <= 100:
        between = "" if minimum == -100 else f" between {minimum:g} and 100"
        raise InputError(f"{where}: {name!r} is a percentage{between}, not {text!r}")
    return percent / 100
