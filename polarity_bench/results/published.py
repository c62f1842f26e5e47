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

In the table of records (see `results.frame`), `name` is the column `encoder`, `model` is `base`,
`min` and `max` are `seed_min` and `seed_max`, and `file` has the file and the line for messages.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import read_errors
from polarity_bench.render.markdown import escape
from polarity_bench.results.frame import Record, score_columns
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import printable

FILE = "published.csv"
_REQUIRED = ("name", "task", "score", "value", "source")
_OPTIONAL = ("std", "min", "max", "model", "protocol", "twin", "star", "note")


def read_published(file: Path) -> list[Record]:
    """Read published numbers as records; return an empty list if the file does not exist.

    The records have the columns of `results.frame` except those of footnotes, which depend on the
    numbers that a board shows (see `with_footnotes`).

    Raises:
        InputError: If a column is missing or unknown, if a cell is invalid, or if a number has no
            name or citation or occurs twice. The message names the line.
    """
    if not file.is_file():
        return []
    numbers = [_number(where, cells) for where, cells in _lines(file)]
    identity = ("encoder", "base", "task", "key", "protocol", "paper", "note")
    refuse_repeated(
        (each, (*(each[name] for name in identity), each["twin"] if "=" in each["twin"] else ""))
        for each in numbers
    )
    return numbers


def refuse_repeated(numbers: Iterable[tuple[Record, Hashable]]) -> None:
    """Raise InputError if two published numbers belong to the same cell of a table.

    Args:
        numbers: Published numbers, each with the key of its cell.
    """
    lines: dict[Hashable, str] = {}
    for number, cell in numbers:
        where = number["file"]
        if (first := lines.setdefault(cell, where)) != where:
            raise InputError(
                f"{where}: this line repeats the number in {first}; delete one of the lines"
            )


def with_footnotes(numbers: Iterable[Record]) -> list[Record]:
    """Return published numbers with the names of their rows and with footnotes.

    Each pair of source and note has one footnote. Footnotes are numbered in order of first
    occurrence.
    """
    cited: dict[tuple[str, str], int] = {}
    noted = []
    for number in numbers:
        source, note = number["source"], number["note"]
        n = cited.setdefault((source, note), len(cited) + 1)
        footnote = f"\\[{n}\\] {escape(source)}{f'; {escape(note)}' if note else ''}."
        name = f"{number['encoder']}, as published [{n}]"
        noted.append(number | {"name": name, "footnote": footnote, "cited": n})
    return noted


def match_published(
    numbers: Sequence[Record],
    tasks: Mapping[str, Collection[ScoreKey]],
    twins: Mapping[str, Collection[str]],
) -> list[Record]:
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
        where, task, key, twin = (number[name] for name in ("file", "task", "key", "twin"))
        check_known(task, tasks, f"{where}: no result for the task {task!r}")
        if twin:
            check_known(twin, twins, f"{where}: no result for the encoder {twin!r}")
        if len(alike := sorted(twins.get(twin, ()))) > 1:
            raise InputError(
                f"{where}: several encoders are named {twin!r}, with the digests "
                f"{', '.join(alike)}; replace the name with the first 8 digits of its digest"
            )
        known, k = tasks[task], key.k
        if key not in {replace(other, k=k) if other.k and k else other for other in known}:
            near = nearest(str(key), map(str, known))
            raise InputError(f"{where}: results of {task} have no score {str(key)!r}{near}")
        matched.append(number | {"twin": "".join(alike)})
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
        for name, n in Counter(lines.fieldnames or ()).items():
            if n > 1:
                raise InputError(f"{file}: the column {name!r} occurs {n} times; keep one")
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


def _number(where: str, cells: Mapping[str, str]) -> Record:
    """Return the record of a published number from the cells of its line."""
    for name, meaning in (("name", "name"), ("source", "citation"), ("score", "score")):
        if not cells[name]:
            raise InputError(f"{where}: the {meaning} is missing; fill in the column {name!r}")
    if cells["star"] not in {"", "0", "1"}:
        raise InputError(f"{where}: 'star' must be 1, 0 or empty, got {cells['star']!r}")
    key = ScoreKey.parse(cells["score"])
    value = _fraction(where, "value", cells["value"])
    std = _fraction(where, "std", cells["std"] or None, 0)
    return {
        **{name: cells[name] for name in ("task", "protocol", "source", "note", "twin")},
        "encoder": cells["name"],
        "base": cells["model"],
        "role": "published",
        "key": key,
        **score_columns(key, Score(value, std, (math.nan, math.nan), None)),
        "seed_min": _fraction(where, "min", cells["min"] or None),
        "seed_max": _fraction(where, "max", cells["max"] or None),
        # P and S of a row may be in different tables of the paper.
        "paper": re.split(r",? tables? ", cells["source"], flags=re.IGNORECASE)[0],
        "mark": "*" if cells["star"] == "1" else "",
        "file": where,
    }


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
