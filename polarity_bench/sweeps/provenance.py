"""Provenance: which trainings a row of a sweep's board is of, and what makes them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polarity_bench.boards.provenance import made_by
from polarity_bench.boards.table import Detail
from polarity_bench.sweeps.published import Reported
from polarity_bench.sweeps.records import Record, word

COMMAND = "polarity-bench sweep grid.toml"


def detail_of(
    records: Sequence[Record], reported: Sequence[Reported], folder: Path | None
) -> Detail:
    """Say how a row came about.

    Args:
        records: What it is of.
        reported: What is published of it; a row has one of the two.
        folder: Of the sweep, which files are named from; None names none.
    """
    if reported:
        return Detail({}, source=", ".join(dict.fromkeys(each.source for each in reported)))
    stored = [each.stored for each in records if each.stored]
    said = dict.fromkeys(f"{k} {word(v)}" for each in records for k, v in each.said.items())
    facts = {"settings": ", ".join(said), "trainings": f"{len(stored)} of {len(records)}"}
    if records and records[0].kind == "evaluation":
        facts = {"encoder": ", ".join(dict.fromkeys(each.encoder for each in records))}
    if stored:
        latest = max((result for _, result in stored), key=lambda result: result.date)
        facts |= made_by(latest)
    files = [] if folder is None else [path.relative_to(folder).as_posix() for path, _ in stored]
    return Detail(facts, COMMAND if stored else "", sorted(files))
