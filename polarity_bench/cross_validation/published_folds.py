"""Scores published in the papers, shown next to our measurements.

They are read from a CSV file with one column for each field of `PublishedFolds`. The papers used
other encoders, and folds that were never published. Published scores are therefore never compared
with ours by a significance test.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from polarity_bench.errors import InputError


@dataclass(frozen=True)
class PublishedFolds:
    """A score as printed in a paper.

    Attributes:
        method: Name of the method, spelled like ours.
        task: Name of the data set.
        sample: Number of its rows that were used; empty for all.
        rows: Number of training rows of each fold that were used; empty for all.
        score: The score as printed, times 100.
        std: Standard deviation over the folds, as printed; may be empty.
        star: 1 if the paper marks the score as significant.
        encoder: The encoder that was trained.
        source: Where the score is printed.
    """

    method: str
    task: str
    sample: str
    rows: str
    score: str
    std: str
    star: str
    encoder: str
    source: str

    @property
    def fraction(self) -> float:
        """The score as a fraction."""
        return float(self.score) / 100

    @property
    def spread(self) -> float | None:
        """The standard deviation as a fraction; None if the paper prints none."""
        return float(self.std) / 100 if self.std else None


def read_published(file: Path) -> Sequence[PublishedFolds]:
    """Read published scores.

    Raises:
        InputError: If the file cannot be read or lacks a column, a score is invalid or repeated, or
            a row has no source.
    """
    names = [each.name for each in fields(PublishedFolds)]
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            if list(reader.fieldnames or ()) != names:
                raise InputError(f"{file}: the columns {', '.join(names)} are wanted")
            found = [PublishedFolds(**row) for row in reader]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{file}: no published scores: {error}") from error
    places: dict[tuple[str, ...], int] = {}
    for line, each in enumerate(found, start=2):
        for name, text in (("score", each.score), ("std", each.std or "0")):
            if not _is_percentage(text):
                raise InputError(f"{file}, line {line}: {name!r} is a percentage, not {text!r}")
        place = each.method, each.encoder, each.task, each.sample, each.rows
        if place in places:
            raise InputError(f"{file}, line {line}: the same number as line {places[place]}")
        places[place] = line
    if unsourced := [line for line, each in enumerate(found, start=2) if not each.source]:
        raise InputError(f"{file}, line {unsourced[0]}: a published score needs its `source`")
    return found


def _is_percentage(text: str) -> bool:
    try:
        return 0 <= float(text) <= 100
    except (TypeError, ValueError):
        return False


def of_protocol(
    published: Sequence[PublishedFolds], protocol: Mapping[str, object], tasks: Sequence[str]
) -> Mapping[tuple[str, str], Mapping[str, PublishedFolds]]:
    """Return the published scores with a protocol's numbers of rows.

    Returns:
        Scores by method and encoder, then by task.
    """
    wanted = tuple(str(protocol[name] or "") for name in ("sample", "rows"))
    found: dict[tuple[str, str], dict[str, PublishedFolds]] = {}
    for each in published:
        if (each.sample, each.rows) == wanted and each.task in tasks:
            found.setdefault((each.method, each.encoder), {})[each.task] = each
    return found
