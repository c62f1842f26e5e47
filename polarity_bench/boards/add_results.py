"""Add results to a board: all of them, or none if one does not fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.boards.board import FILE, board, find_board
from polarity_bench.boards.board_folder import kind_of
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.files import find_files, make_folder, remove, write_atomically
from polarity_bench.results.curve import Curve
from polarity_bench.results.curve_files import read_curves, write_curve
from polarity_bench.results.result_files import (
    PROVENANCE,
    Result,
    Stored,
    files_of,
    place,
    read_results,
)
from polarity_bench.sweeps.plan import FILE as PLAN

RESULTS = "results"


def find_results(sources: Sequence[Path]) -> list[Stored]:
    """Find the results in files and below folders, without those that were cut by a limit.

    Warns:
        InputWarning: If some results of a source were cut by a limit.

    Raises:
        InputError: If a source does not exist, or has no complete results.
    """
    found: list[Stored] = []
    for source in sources:
        folder = source.parent if source.is_file() else source
        if not folder.is_dir():
            raise InputError(f"{source}: there is no such file or folder")
        own = [each for each in read_results(folder) if source in (folder, each[0])]
        whole = [each for each in own if each[1].limit is None]
        if not whole:
            cut = ", but such as were cut by a `limit`, which are on no board" if own else ""
            raise InputError(f"{source}: holds no results{cut}")
        if n_cut := len(own) - len(whole):
            said = "1 result" if n_cut == 1 else f"{n_cut} results"
            remark = f"{source}: {said} cut by a `limit` left out, which are on no board"
            warnings.warn(remark, InputWarning, stacklevel=2)
        found += whole
    return found


def find_curves(sources: Sequence[Path], found: Sequence[Stored]) -> list[Curve]:
    """Find the curves below folders. All results of a curve must be among the given ones.

    Warns:
        InputWarning: If a curve was made from other results; the curve is left out.
    """
    results = [result for _, result in found]
    return [curve for each in sources if each.is_dir() for curve in read_curves(each, results)]


def add(found: Sequence[Stored], folder: Path, curves: Sequence[Curve] = ()) -> list[Path]:
    """Copy results, with all files that belong to them, and their curves into a board's folder.

    A result replaces the board's result of the same encoder, task and settings. Before anything is
    written, the board is laid out with the new results. If two results cannot be compared, nothing
    is added.

    Returns:
        The new paths of the results.

    Raises:
        InputError: If two results cannot be compared; names the files.
    """
    refuse_other_kinds(folder)
    there = find_board(folder) if _holds_any(folder) else None
    places = {place(folder / RESULTS, *_whose(result)): (path, result) for path, result in found}
    kept = [each for each in there.stored if each[0] not in places] if there else []
    whole = [*kept, *found]
    board(replace(there, stored=whole, folder=None) if there else whole)
    for target, (path, _) in places.items():
        if target == path:
            continue
        make_folder(target.parent)
        for old in reversed(files_of(target)):  # provenance first: the rest alone is no result
            remove(old)
        named = [path.with_name("model_meta.json"), *files_of(path)]
        for source, copy in zip(
            named, [target.with_name(named[0].name), *files_of(target)], strict=True
        ):
            if source.is_file():
                write_atomically(copy, source.read_bytes())
    for curve in curves:
        write_curve(curve, folder / RESULTS)
    return list(places)


def refuse_other_kinds(folder: Path) -> None:
    """Raise an error if a board is of a sweep or of cross-validations.

    Only the command that made such a board can extend it.

    Raises:
        InputError: If the folder is such a board.
    """
    if next(folder.glob("*/*.jsonl"), None) is None and not (folder / PLAN).is_file():
        return
    kind = kind_of(folder)
    if kind != "results":
        raise InputError(
            f"{folder}: a board of a {kind}, which is gone on with by the command that made it; "
            "results are added to boards of results"
        )


def _whose(result: Result) -> tuple[EncoderId, str, str]:
    return result.key.encoder, result.experiment, result.result_name


def _holds_any(folder: Path) -> bool:
    return (folder / FILE).is_file() and bool(find_files(folder, PROVENANCE))
