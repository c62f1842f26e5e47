"""Published numbers: scores from papers, shown next to measured scores but never ranked.

All boards use the same format of `published.csv`, with one number per line:

- `name`: Name of the row, such as the method or the encoder.
- `task`: Name of the task in this project.
- `score`: Name of the score in results, such as `polarity_uniform_at_16`, `macro_f1` or `accuracy`.
  The scores of a sweep are `polarity` and `similarity`, at the k and the weighting of its board.
- `value`: Published number, in percent.
- `source`: Citation, including the table.

The other columns may be empty or missing:

- `std`, `min` and `max`: Standard deviation, minimum and maximum, in percent.
- `model`: Base encoder that was trained; empty for a mean over several base encoders.
- `protocol`: Protocol of the number, if the board has several protocols.
- `twin`: Measured counterpart of the number: an encoder, settings of training runs such as
  `loss=triplet,margin=0.1`, or `reference` for the base encoder of a sweep.
- `star`: 1 if the paper marks the number as significant.
- `note`: Differences from the method of the board, such as weights, folds or layers.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import read_errors
from polarity_bench.render.markdown import escape
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import printable

FILE = "published.csv"
_REQUIRED = ("name", "task", "score", "value", "source")
_OPTIONAL = ("std", "min", "max", "model", "protocol", "twin", "star", "note")


@dataclass(frozen=True)
class PublishedNumber:
    """Number from a paper, with its source and its measured counterpart.

    Attributes:
        name: Name of the row.
        task: Name of the task.
        key: Key of the score.
        value: Published number, as a fraction.
        source: Citation, including the table.
        std: Standard deviation, as a fraction; NaN if missing.
        least: Minimum of the averaged numbers, as a fraction; NaN if missing.
        most: Maximum of the averaged numbers, as a fraction; NaN if missing.
        model: Base encoder; '' if missing.
        protocol: Name of the protocol; '' if missing.
        twin: Measured counterpart, see the module docstring; '' if missing.
        is_significant: Whether the paper marks the number as significant.
        note: Differences from the method of the board; '' if missing.
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
        """Name, source, note, task and score of the number; the weighting is ignored."""
        return self.name, self.source, self.note, self.task, replace(self.key, weighting="linear")

    @property
    def paper(self) -> str:
        """Citation without the tables, because P and S of a row may be in different tables."""
        return re.split(r",? tables? ", self.source, flags=re.IGNORECASE)[0]

    @property
    def score(self) -> Score:
        """Published number as a score without an interval."""
        return Score(self.value, self.std, (math.nan, math.nan), None)


def read_published(file: Path) -> list[PublishedNumber]:
    """Read published numbers; return an empty list if the file does not exist.

    Raises:
        InputError: If a column is missing or unknown, if a cell is invalid, or if a number has no
            name or citation or occurs twice. The message names the line.
    """
    if not file.is_file():
        return []
    numbers = [_number(where, cells) for where, cells in _lines(file)]
    refuse_repeated(
        (
            each,
            (each.name, each.model, each.task, each.key, each.protocol, each.paper, each.note)
            + ((each.twin,) if "=" in each.twin else ()),
        )
        for each in numbers
    )
    return numbers


def refuse_repeated(numbers: Iterable[tuple[PublishedNumber, Hashable]]) -> None:
    """Raise InputError if two published numbers belong to the same cell of a table.

    Args:
        numbers: Published numbers, each with the key of its cell.
    """
    lines: dict[Hashable, str] = {}
    for number, cell in numbers:
        if (first := lines.setdefault(cell, number.where)) != number.where:
            raise InputError(
                f"{number.where}: this line repeats the number in {first}; delete one of the lines"
            )


def footnote_numbers(published: Iterable[PublishedNumber]) -> dict[tuple[str, str], int]:
    """Number the footnotes, one for each pair of source and note, in order of first occurrence."""
    notes = dict.fromkeys((number.source, number.note) for number in published)
    return {note: place for place, note in enumerate(notes, start=1)}


def footnote(number: int, source: str, note: str) -> str:
    """Format the source and the note of a published number as a markdown footnote."""
    return f"\\[{number}\\] {escape(source)}{f'; {escape(note)}' if note else ''}."


def match_published(
    numbers: Sequence[PublishedNumber],
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> list[PublishedNumber]:
    """Check published numbers against the results, and replace the twins' names by digests.

    Args:
        numbers: Published numbers of a board of results.
        tasks: Keys of the scores of each task that has results.
        twins: Digests of the measured encoders, by name.

    Raises:
        InputError: If no result has the task, the score or the twin of a number, or if several
            encoders have the twin's name. The message names the line.
    """
    matched = []
    for number in numbers:
        where, twin = number.where, number.twin
        check_known(number.task, tasks, f"{where}: no result for the task {number.task!r}")
        if twin:
            check_known(twin, twins, f"{where}: no result for the encoder {twin!r}")
        if len(alike := sorted(twins.get(twin, ()))) > 1:
            raise InputError(
                f"{where}: several encoders are named {twin!r}, with the digests "
                f"{', '.join(alike)}; replace the name with the first 8 digits of its digest"
            )
        known, k = tasks[number.task], number.key.k
        if number.key not in {replace(key, k=k) if key.k and k else key for key in known}:
            near = nearest(str(number.key), map(str, known))
            raise InputError(
                f"{where}: results of {number.task} have no score {str(number.key)!r}{near}"
            )
        matched.append(replace(number, twin="".join(alike)))
    return matched


def _lines(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the location and the cells, by column, of each line."""
    known = {*_REQUIRED, *_OPTIONAL}
    # Spreadsheets may write a byte order mark, which the encoding `utf-8-sig` removes.
    with (
        read_errors(file, " as CSV in UTF-8"),
        file.open(encoding="utf-8-sig", newline="") as stream,
    ):
        lines = csv.DictReader(stream)
        columns = set(lines.fieldnames or ())
        if missing := set(_REQUIRED) - columns:
            present = ", ".join(sorted(columns))
            raise InputError(
                f"{file}: the column {min(missing)!r} is missing, got {present}; see 'Published "
                "numbers' in docs/boards.md for the format"
            )
        for name in sorted(columns):
            check_known(name, known, f"{file}: unknown column {name!r}")
        for line in lines:
            where = f"{file}, line {lines.line_num}"
            if surplus := line.get(None):
                raise InputError(
                    f"{where}: expected {len(columns)} cells, got {len(columns) + len(surplus)}, "
                    f"the last is {surplus[-1]!r}; put cells that contain a comma in quotes"
                )
            yield where, {name: printable((line.get(name) or "").strip()) for name in known}


def _number(where: str, cells: Mapping[str, str]) -> PublishedNumber:
    for name, meaning in (("name", "name"), ("source", "citation"), ("score", "score")):
        if not cells[name]:
            raise InputError(f"{where}: the {meaning} is missing; fill in the column {name!r}")
    if cells["star"] not in {"", "0", "1"}:
        raise InputError(f"{where}: 'star' must be 1, 0 or empty, got {cells['star']!r}")
    as_written = ("name", "task", "source", "model", "protocol", "twin", "note")
    return PublishedNumber(
        key=ScoreKey.parse(cells["score"]),
        value=_fraction(where, "value", cells["value"]),
        std=_fraction(where, "std", cells["std"] or None, 0),
        least=_fraction(where, "min", cells["min"] or None),
        most=_fraction(where, "max", cells["max"] or None),
        is_significant=cells["star"] == "1",
        where=where,
        **{name: cells[name] for name in as_written},
    )


def _fraction(where: str, name: str, text: str | None, minimum: float = -100) -> float:
    """Convert a percentage in a cell to a fraction; None becomes NaN."""
    if text is None:
        return math.nan
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not minimum <= percent <= 100:
        raise InputError(
            f"{where}: {name!r} must be a percentage from {minimum:g} to 100, got {text!r}"
        )
    return percent / 100
