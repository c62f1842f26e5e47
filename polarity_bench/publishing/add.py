"""Add: results brought into a board, or none of them where one does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.boards.board import FILE, board, find_board
from polarity_bench.boards.chosen import Stored
from polarity_bench.errors import InputError
from polarity_bench.files import write_atomically
from polarity_bench.results import place, read_results

RESULTS = "results"


def find_results(sources: Sequence[Path]) -> list[Stored]:
    """Find the results in files and below folders.

    Raises:
        InputError: If one holds none, or a result is of a quick look.
    """
    found: list[Stored] = []
    for source in sources:
        folder = source.parent if source.is_file() else source
        if not folder.is_dir():
            raise InputError(f"{source}: there is no such file or folder")
        own = [each for each in read_results(folder) if source in (folder, each[0])]
        if not own:
            raise InputError(f"{source}: holds no results")
        for path, result in own:
            if result.limit is not None:
                raise InputError(f"{path}: made with a `limit`, for a quick look; on no board")
        found += own
    return found


def add(found: Sequence[Stored], folder: Path) -> list[Path]:
    """Copy results into a board's folder, with all that belongs to each.

    One that is there, of the same encoder, task and settings, is replaced. Before anything is
    written the board is laid out with what is to come: where two do not go together nothing is
    added.

    Returns:
        The results' new places.

    Raises:
        InputError: If results do not go together; names the files.
    """
    coming = {
        place(folder / RESULTS, r.key.encoder, r.experiment, r.result_name): (p, r)
        for p, r in found
    }
    there = find_board(folder) if _holds_any(folder) else None
    kept = [each for each in there.stored if each[0] not in coming] if there else []
    asked = there and replace(there, stored=[*kept, *coming.values()], folder=None)
    board(asked if asked else list(coming.values()))
    for target, (path, _) in coming.items():
        if target == path:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        ours = [p for p in path.parent.glob(f"{path.stem}.*") if p.is_file()]
        ours.sort(key=lambda p: p.name.endswith(".provenance.json"))  # which says it is whole
        for each in [path.with_name("model_meta.json"), *ours]:
            if each.is_file():
                write_atomically(target.with_name(each.name), each.read_bytes())
    return list(coming)


def _holds_any(folder: Path) -> bool:
    return (folder / FILE).is_file() and next(folder.rglob("*.provenance.json"), None) is not None
