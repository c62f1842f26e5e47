"""Published means over all training runs with the same number of examples.

`published-sizes.csv` in a sweep's folder holds one mean per line, with its range:

- `name`: name of the row, the number of examples.
- `score`: `polarity` or `similarity`, with the weighting of the board.
- `value`: the mean in percent, as papers print it.
- `std`, `min` and `max`: in percent; may be empty.
- `source`: the citation, with the table.
- `twin`: settings of the training runs below whose row it is shown (`examples=50,warm_up=0.1`);
  they must contain the number of examples.
- `note`: what else the mean is over; may be empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.errors import InputError, nearest
from polarity_bench.results.published import footnote, fraction, read_cells
from polarity_bench.sweeps.published_scores import has_all, settings_said
from polarity_bench.sweeps.records import METRICS, Record

FILE = "published-sizes.csv"
_WANTED = ("name", "score", "value", "source", "twin")
_FURTHER = ("std", "min", "max", "note")


@dataclass(frozen=True)
class ReportedSize:
    """A published mean over training runs with the same number of examples.

    Attributes:
        value: The mean, a fraction.
        std: Standard deviation, a fraction; NaN if there is none.
        least: Minimum, a fraction; NaN if there is none.
        most: Maximum, a fraction; NaN if there is none.
        twin: Settings of the training runs below whose row it is shown.
        number: Number of the footnote.
        footnote: The citation and the differences in method, in markdown.
    """

    name: str
    metric: str
    value: float
    std: float
    least: float
    most: float
    twin: Mapping[str, str]
    number: int
    footnote: str


def read_reported_sizes(file: Path, trainings: Sequence[Record]) -> list[ReportedSize]:
    """Read the published means; without the file, there are none.

    Raises:
        InputError: If a column is missing, a cell has a wrong value, a number has no citation or
            occurs twice, no training run has the settings of a twin, or all training runs have the
            same number of examples, so that no table shows the means; names the line.
    """
    settings = {key for each in trainings for key in each.settings}
    numbers: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, ...], str] = {}
    found = []
    cells = read_cells(file, _WANTED, _FURTHER)
    if cells and len({each.settings.get("examples") for each in trainings}) == 1:
        raise InputError(
            f"{cells[0][0]}: all trainings have one number of examples: no table of it"
        )
    for where, cell in cells:
        if cell["score"] not in METRICS:
            near = nearest(cell["score"], METRICS)
            raise InputError(f"{where}: the score {cell['score']!r}{near}")
        twin = settings_said(where, cell["twin"], settings)
        if "examples" not in twin:
            raise InputError(f"{where}: `twin` {cell['twin']!r} says no number of `examples`")
        own = [each.encoder for each in trainings if has_all(each, twin)]
        if not own:
            raise InputError(f"{where}: no training has all that `twin` says: {cell['twin']!r}")
        for encoder in own:
            place = cell["name"], cell["score"], cell["source"], cell["note"], encoder
            if (before := places.setdefault(place, where)) != where:
                raise InputError(f"{where}: the same number as {before}")
        said = cell["source"], cell["note"]
        number = numbers.setdefault(said, len(numbers) + 1)
        value = fraction(where, "value", cell["value"])
        std, least, most = (
            fraction(where, name, cell[name]) if cell[name] else math.nan
            for name in ("std", "min", "max")
        )
        shown = footnote(number, *said)
        of = cell["name"], cell["score"]
        found.append(ReportedSize(*of, value, std, least, most, twin, number, shown))
    return found


def sizes_of(
    reported: Sequence[ReportedSize], records: Sequence[Record]
) -> dict[tuple[str, int], dict[str, ReportedSize]]:
    """Return the published means of these training runs, by name and footnote, then by metric."""
    found: dict[tuple[str, int], dict[str, ReportedSize]] = {}
    for each in reported:
        if any(has_all(record, each.twin) for record in records):
            found.setdefault((each.name, each.number), {})[each.metric] = each
    return found
