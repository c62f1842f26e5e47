"""Published numbers: scores from papers, shown as rows that are not ranked.

A board's `published.csv` holds one number per line:

- `name`: Name of the row. Numbers with the same name, k and source form one row.
- `task`: Name of the task in this project.
- `score`: Name of the score in results, such as `polarity_uniform_at_16`.
- `value`: The number in percent, as papers print it.
- `source`: The citation, with the table.
- `std`: Standard deviation in percent; may be empty.
- `protocol`: The protocol, as tables name it, if the task has results by several protocols; may be
  empty.
- `twin`: The encoder measured here that the number is compared with; may be empty.
- `note`: How the measurement differs from the board's (weights, folds, layers); may be empty.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polarity_bench.errors import InputError, nearest
from polarity_bench.render.markdown import escape
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import printable

FILE = "published.csv"
_WANTED = ("name", "task", "score", "value", "source")
_FURTHER = ("std", "protocol", "twin", "note")


@dataclass(frozen=True)
class PublishedNumber:
    """A published number.

    Attributes:
        name: Name of the row.
        task: Name of the task.
        key: Key of the score.
        value: The number, as a fraction.
        std: Its standard deviation, as a fraction; NaN if there is none.
        source: The citation.
        twin: Digest of the encoder measured here that the number is compared with, or ''.
        note: How the measurement differs from the board's, or ''.
        protocol: Name of the protocol in tables, or ''.
        where: File and line, for messages.
    """

    name: str
    task: str
    key: ScoreKey
    value: float
    std: float
    source: str
    twin: str
    note: str
    protocol: str
    where: str

    @property
    def question(self) -> tuple[str, str, str, str, ScoreKey]:
        """Name, source, note, task and score, without the weighting."""
        key = replace(self.key, weighting="linear")
        return self.name, self.source, self.note, self.task, key

    @property
    def score(self) -> Score:
        """The number as a score without an interval."""
        return Score(self.value, self.std, (math.nan, math.nan), None)


def read_published(
    file: Path,
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> list[PublishedNumber]:
    """Read published numbers; return an empty list if the file does not exist.

    Args:
        file: The csv file, in the format described in the module docstring.
        tasks: The scores of each task that has results.
        twins: Digests of the encoders measured here, by name.

    Raises:
        InputError: If a column is missing, a cell is invalid, or a number has no citation or
            occurs twice. The message names the line.
    """
    cells = read_cells(file, _WANTED, _FURTHER)
    found = [_published(where, cell, tasks, twins) for where, cell in cells]
    places: dict[tuple[object, ...], str] = {}
    for each in found:
        place = *each.question, each.key.weighting, each.protocol
        if place in places:
            raise InputError(f"{each.where}: the same number as {places[place]}")
        places[place] = each.where
    return found


def footnote(number: int, source: str, note: str) -> str:
    """Return a footnote in markdown: the source of a published number, and its note."""
    return f"\\[{number}\\] {escape(source)}{f'; {escape(note)}' if note else ''}."


def read_cells(
    file: Path, wanted: Sequence[str], further: Sequence[str]
) -> list[tuple[str, dict[str, str]]]:
    """Read the lines of a file of published numbers; return an empty list without the file.

    Args:
        file: A csv file.
        wanted: Required columns, including `name` and `source`.
        further: Optional columns. Their cells are empty if the file lacks the column.

    Returns:
        For each line its location, for messages, and its cells by column.

    Raises:
        InputError: If a column is missing or unknown, or a line has no name or citation.
    """
    if not file.is_file():
        return []
    with file.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets write a BOM
        lines = csv.DictReader(stream)
        columns, known = set(lines.fieldnames or ()), {*wanted, *further}
        if missing := set(wanted) - columns:
            raise InputError(f"{file}: the column {min(missing)!r} is missing")
        if unknown := columns - known:
            wrong = min(unknown)
            raise InputError(f"{file}: unknown column {wrong!r}{nearest(wrong, known)}")
        found = []
        for line in lines:
            where = f"{file}, line {lines.line_num}"
            if surplus := line.get(None):
                raise InputError(
                    f"{where}: there are {len(columns)} columns, got {len(columns) + len(surplus)} "
                    f"cells, the last is {surplus[-1]!r}; put a cell that holds a comma in quotes"
                )
            cell = {name: printable((line.get(name) or "").strip()) for name in known}
            for name, what in (("name", "name"), ("source", "citation")):
                if not cell[name]:
                    raise InputError(f"{where}: the {what} is missing: say it in `{name}`")
            found.append((where, cell))
    return found


def _published(
    where: str,
    cell: Mapping[str, str],
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> PublishedNumber:
    if cell["task"] not in tasks:
        near = nearest(cell["task"], tasks)
        raise InputError(f"{where}: no result of the task {cell['task']!r}{near}")
    if cell["twin"] and cell["twin"] not in twins:
        near = nearest(cell["twin"], twins)
        raise InputError(f"{where}: no encoder {cell['twin']!r} is measured here{near}")
    if len(alike := sorted(twins.get(cell["twin"], ()))) > 1:
        raise InputError(f"{where}: {cell['twin']!r} names several encoders: {', '.join(alike)}")
    if not cell["score"]:
        raise InputError(f"{where}: the score is missing, e.g. polarity_uniform_at_16")
    return PublishedNumber(
        cell["name"],
        cell["task"],
        _key(where, cell["score"], tasks[cell["task"]]),
        fraction(where, "value", cell["value"]),
        fraction(where, "std", cell["std"], least=0) if cell["std"] else math.nan,
        cell["source"],
        "".join(alike),
        cell["note"],
        cell["protocol"],
        where,
    )


def _key(where: str, text: str, known: Collection[ScoreKey]) -> ScoreKey:
    """Return the key of a named score that results have; its k may differ from theirs."""
    key = ScoreKey.parse(text)
    if key not in {replace(each, k=key.k) if each.k and key.k else each for each in known}:
        near = nearest(text, map(str, known))
        raise InputError(f"{where}: results have no score {text!r}{near}")
    return key


def fraction(where: str, name: str, text: str, least: float = -100) -> float:
    """Read a percentage as a fraction.

    Raises:
        InputError: If the text is not a percentage, or is below the minimum. The message names the
            line.
    """
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not least <= percent <= 100:
        between = "" if least == -100 else f" between {least:g} and 100"
        raise InputError(f"{where}: {name!r} is a percentage{between}, not {text!r}")
    return percent / 100
