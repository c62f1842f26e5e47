"""Provenance of the rows of a sweep's board: training runs, and the command to reproduce them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from polarity_bench.render.table import Detail
from polarity_bench.results.result_files import made_by
from polarity_bench.sweeps.grid import SHIPPED
from polarity_bench.sweeps.published_scores import PublishedTraining
from polarity_bench.sweeps.records import Record, word

_BESIDE = "grid.toml"
"""Name of the copy of its grid in the folder of a published sweep."""


def command_of(grid: str, folder: Path) -> str:
    """Return the command that reproduces a sweep, with the name of its grid.

    Args:
        grid: The grid's file, as stored in the plan; '' if the plan stores none.
        folder: Folder of the sweep. If it has a copy of the grid, the command names the copy.
    """
    if not grid or (folder / _BESIDE).is_file():
        return f"polarity-bench sweep {_BESIDE}"
    file = Path(grid)
    is_ours = file.parent.name == "grids" and file.stem in SHIPPED
    return shlex.join(["polarity-bench", "sweep", file.stem if is_ours else file.name])


def detail_of(
    records: Sequence[Record],
    reported: Sequence[PublishedTraining],
    folder: Path | None,
    command: str = "",
) -> Detail:
    """Return the provenance of a row.

    Args:
        records: The records of the row, if it was measured.
        reported: The published numbers of the row, if it is published.
        folder: Folder of the sweep; paths of files are relative to it. If None, no files are named.
        command: The command that reproduces the sweep.
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
    return Detail(facts, command if stored else "", sorted(files))
