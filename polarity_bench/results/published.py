"""Published numbers: what papers print, as rows that compete with nothing.

`published.csv` of a board holds one number a line:

- `name`: of the row; numbers of one name, k and source make one row.
- `task`: of this project.
- `score`: the score's name in results, such as `polarity_uniform_at_16`.
- `value`: in percent, as papers print it, `std` with it where there is one.
- `source`: the citation, with the table.
- `protocol`: of a task that has results by several, which, as tables name it; may be empty.
- `twin`: the encoder measured here that it is compared with; may be empty.
- `note`: how it came about otherwise than the board's (weights, folds, layers); may be empty.
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
    """A number that others have published.

    Attributes:
        key: Which score it is.
        value: A fraction, as `std`, which is nan where there is none.
        twin: Digest of the encoder measured here that it is compared with, '' if with none.
        where: File and line.
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
        """What it answers, whatever its weighting."""
        key = replace(self.key, weighting="linear")
        return self.name, self.source, self.note, self.task, key

    @property
    def score(self) -> Score:
        """It as a score."""
        return Score(self.value, self.std, (math.nan, math.nan), None)


def read_published(
    file: Path,
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> list[PublishedNumber]:
    """Read published numbers; without the file there are none.

    Args:
        file: See the module.
        tasks: The scores of each task that there are results of.
        twins: The encoders measured here, by what they are called: digests.

    Raises:
        InputError: If a column is missing, a cell is not what its column wants, a number has no
            citation or stands there twice; names the line.
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
    """Say in markdown where a published number stands, and how it came about otherwise."""
    return f"\\[{number}\\] {escape(source)}{f'; {escape(note)}' if note else ''}."


def read_cells(
    file: Path, wanted: Sequence[str], further: Sequence[str]
) -> list[tuple[str, dict[str, str]]]:
    """Read the lines of published numbers, each with where it stands; without the file none.

    Args:
        file: A csv file.
        wanted: Its columns, `name` and `source` among them.
        further: Those that it may have; an empty cell stands for one that it has not.

    Raises:
        InputError: If it has other columns, or a line has no name or citation.
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
    """Return the score that is named, of those that results have, of ranks at whatever k."""
    key = ScoreKey.parse(text)
    if key not in {replace(each, k=key.k) if each.k and key.k else each for each in known}:
        near = nearest(text, map(str, known))
        raise InputError(f"{where}: results have no score {text!r}{near}")
    return key


def fraction(where: str, name: str, text: str, least: float = -100) -> float:
    """Read a percentage as a fraction.

    Raises:
        InputError: If it is none, or below the least; names the line.
    """
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not least <= percent <= 100:
        between = "" if least == -100 else f" between {least:g} and 100"
        raise InputError(f"{where}: {name!r} is a percentage{between}, not {text!r}")
    return percent / 100
