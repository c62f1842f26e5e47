"""Published scores of training runs like those of a sweep, to compare with measured scores.

`published.csv` in a sweep's folder holds one number per line:

- `name`: name of the row.
- `model` and `task`: the column, with the names used in the grid.
- `score`: `polarity` or `similarity`, with the weighting of the board.
- `value`: the number in percent, as papers print it.
- `std`: its standard deviation, in percent; may be empty.
- `source`: the citation, with the table.
- `twin`: settings of the comparable training runs (`loss=triplet,margin=0.1`), or `reference` for
  the base; may be empty.
- `note`: differences in method (examples, layers); may be empty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.errors import InputError, nearest
from polarity_bench.results.published import footnote, fraction, read_cells
from polarity_bench.sweeps.records import METRICS, Record, is_said

_WANTED = ("name", "model", "task", "score", "value", "source")
_FURTHER = ("std", "twin", "note")
REFERENCE = "reference"


@dataclass(frozen=True)
class PublishedTraining:
    """A published number of a training run.

    Attributes:
        column: Model and task.
        value: The number, a fraction.
        std: Standard deviation, a fraction; NaN if there is none.
        twin: Settings of the comparable training runs; {} for the base, None for no comparison.
        number: Number of the footnote.
        source: The citation.
        footnote: The citation and the differences in method, in markdown.
        where: File and line.
    """

    name: str
    column: tuple[str, str]
    metric: str
    value: float
    std: float
    twin: Mapping[str, str] | None
    number: int
    source: str
    footnote: str
    where: str

    @property
    def paper(self) -> str:
        """The citation without its tables, since P and S of one row may be in two tables."""
        return re.split(r",? tables? ", self.source, flags=re.IGNORECASE)[0]


def read_reported(
    file: Path, columns: Collection[tuple[str, str]], settings: Collection[str]
) -> list[PublishedTraining]:
    """Read the published numbers; without the file, there are none.

    Args:
        file: Path of the file, see the module.
        columns: Models and tasks of the training runs.
        settings: Names of the settings of training runs.

    Raises:
        InputError: If a column is missing, a cell has a wrong value, or a number has no citation;
            names the line.
    """
    numbers: dict[tuple[str, str], int] = {}
    cells = read_cells(file, _WANTED, _FURTHER)
    return [_reported(where, cell, columns, settings, numbers) for where, cell in cells]


def _reported(
    where: str,
    cell: Mapping[str, str],
    columns: Collection[tuple[str, str]],
    settings: Collection[str],
    numbers: dict[tuple[str, str], int],
) -> PublishedTraining:
    column = cell["model"], cell["task"]
    if column not in columns:
        near = nearest(", ".join(column), {", ".join(each) for each in columns})
        raise InputError(f"{where}: nothing is trained of {', '.join(column)}{near}")
    if cell["score"] not in METRICS:
        raise InputError(f"{where}: the score {cell['score']!r}{nearest(cell['score'], METRICS)}")
    said = cell["source"], cell["note"]
    number = numbers.setdefault(said, len(numbers) + 1)
    return PublishedTraining(
        cell["name"],
        column,
        cell["score"],
        fraction(where, "value", cell["value"]),
        fraction(where, "std", cell["std"]) if cell["std"] else math.nan,
        _twin(where, cell["twin"], settings),
        number,
        cell["source"],
        footnote(number, *said),
        where,
    )


def _twin(where: str, text: str, settings: Collection[str]) -> dict[str, str] | None:
    if not text:
        return None
    return {} if text == REFERENCE else settings_said(where, text, settings)


def settings_said(where: str, text: str, settings: Collection[str]) -> dict[str, str]:
    """Read the settings of a twin, such as `loss=triplet,margin=0.1`.

    Raises:
        InputError: If no training run has one of the settings; names the line.
    """
    found = {}
    for said in text.split(","):
        key, equals, value = said.strip().partition("=")
        if not equals or key not in settings:
            near = nearest(key, settings)
            raise InputError(f"{where}: the twin {said.strip()!r}: no such setting{near}")
        found[key] = value
    return found


def check_reported(reported: Sequence[PublishedTraining], records: Sequence[Record]) -> None:
    """Check that no number occurs twice, and that each twin matches one configuration.

    Raises:
        InputError: If a number occurs twice, or a twin matches no training run, or training runs
            that differ in more than the seed; names the line.
    """
    places: dict[tuple[object, ...], str] = {}
    for each in reported:
        place = each.name, each.paper, each.column, each.metric
        if place in places:
            raise InputError(f"{each.where}: the same number as {places[place]}")
        places[place] = each.where
        if each.twin is None:
            continue
        twins = [record for record in records if _is_twin(each, record)]
        kinds = {
            tuple(sorted((k, str(v)) for k, v in twin.said.items() if k != "seed"))
            for twin in twins
        }
        if not twins:
            raise InputError(f"{each.where}: no training has all that `twin` says")
        if len(kinds) > 1 and each.twin:
            raise InputError(
                f"{each.where}: `twin` fits {len(kinds)} kinds of trainings; say more settings"
            )


def reported_of(
    reported: Sequence[PublishedTraining], records: Sequence[Record]
) -> list[PublishedTraining]:
    """Return the published numbers of these training runs, or of this base."""
    return [each for each in reported if any(_is_twin(each, record) for record in records)]


def _is_twin(reported: PublishedTraining, record: Record) -> bool:
    if reported.twin is None or reported.column != record.column:
        return False
    if (reported.twin == {}) != (record.kind == "evaluation"):
        return False
    return has_all(record, reported.twin)


def has_all(record: Record, said: Mapping[str, str]) -> bool:
    """Return whether a training run has the settings of a twin."""
    own = record.settings
    return all(key in own and is_said(own[key], text) for key, text in said.items())
