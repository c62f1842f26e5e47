"""Add results to a board: all of them, or none if one does not fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.boards.board import FILE, board, find_board
from polarity_bench.boards.board_folder import holds_folds, kind_of
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.files import remove, write_atomically
from polarity_bench.results.comparability import count
from polarity_bench.results.curve import Curve
from polarity_bench.results.curve_files import read_curves, write_curve
from polarity_bench.results.packed_results import (
    MODEL_META,
    PACKED,
    PROVENANCE,
    is_stored,
    pack,
    result_paths,
    stored_bytes,
)
from polarity_bench.results.result_files import (
    Stored,
    files_of,
    place,
    read_result,
    read_results,
)
from polarity_bench.sweeps.plan import FILE as PLAN
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.to_frame import check_versions

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
        if source.is_dir():
            stored = list(read_results(source))
        elif is_stored(source):
            is_whole = is_stored(source.with_suffix(PROVENANCE))
            stored = [(source, read_result(source))] if is_whole else []
        else:
            raise InputError(f"{source}: there is no such file or folder")
        complete = [each for each in stored if each[1].limit is None]
        if not complete:
            cut = "; all were cut by a `limit`, and boards leave those out" if stored else ""
            raise InputError(f"{source}: holds no results{cut}")
        if n_cut := len(stored) - len(complete):
            remark = f"{source}: left out {count(n_cut, 'result')} cut by a `limit`; "
            remark += "boards show complete results only"
            warnings.warn(remark, InputWarning, stacklevel=2)
        found += complete
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
    written, the new results are compared with the others. If two results cannot be compared,
    nothing is added. The results of a sweep are then packed (see `packed_results`), and so are
    those of a board whose results are packed already.

    Returns:
        The new paths of the results.

    Raises:
        InputError: If two results cannot be compared, or the board is of a sweep that has no such
            encoder; names the files.
    """
    refuse_cross_validations(folder)
    places = {
        place(folder / RESULTS, r.key.encoder, r.experiment, r.result_name): (path, r)
        for path, r in found
    }
    if is_sweep := (folder / PLAN).is_file():
        _check_planned(found, folder)
        kept = [each for each in read_results(folder / RESULTS) if each[0] not in places]
        check_versions([*kept, *found])
    else:
        is_board = (folder / FILE).is_file() and bool(result_paths(folder))
        parts = find_board(folder) if is_board else None
        kept = [each for each in parts.stored if each[0] not in places] if parts else []
        complete = [*kept, *found]
        board(replace(parts, stored=complete, folder=None) if parts else complete)
    for target, (path, _) in places.items():
        if target == path:
            continue
        for old in reversed(files_of(target)):  # provenance first: the rest alone is no result
            remove(old)
        for source, copy in zip(_copied(path), _copied(target), strict=True):
            if is_stored(source):
                write_atomically(copy, stored_bytes(source))
    for curve in curves:
        write_curve(curve, folder / RESULTS)
    if is_sweep or (folder / RESULTS / PACKED).is_file():
        pack(folder / RESULTS)
    return list(places)


def refuse_cross_validations(folder: Path) -> None:
    """Refuse a board of cross-validations, which only `polarity-bench fewshot` extends.

    Raises:
        InputError: If the board holds cross-validations.
    """
    if holds_folds(folder) and kind_of(folder) == "cross-validation":
        raise InputError(
            f"{folder}: this is a board of a cross-validation, and only `polarity-bench fewshot` "
            "extends it; name a board of results or of a sweep"
        )


def _check_planned(found: Sequence[Stored], folder: Path) -> None:
    """Refuse results of encoders that are not in the sweep in a folder."""
    planned = {item.encoder for item in read_plan(folder).items}
    for path, result in found:
        if (name := result.key.encoder.name) not in planned:
            raise InputError(
                f"{path}: no item of {folder / PLAN} trains or evaluates its encoder, got "
                f"{name!r}; add results of this sweep"
            )


def _copied(path: Path) -> list[Path]:
    """Return the files that are copied with a result: its own, and the encoder's metadata."""
    return [path.with_name(MODEL_META), *files_of(path)]
