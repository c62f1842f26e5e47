"""Copying of results into a board's folder. Either all results are added or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.boards.board import board, find_board
from polarity_bench.boards.board_folder import kind_of
from polarity_bench.boards.config import FILE
from polarity_bench.errors import InputError, warn
from polarity_bench.files import remove, write_atomically
from polarity_bench.results.comparability import check_same
from polarity_bench.results.curve import Curve
from polarity_bench.results.curve_files import write_curve
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
    CROSS_VALIDATION,
    Result,
    files_of,
    place,
    read_result,
    read_results,
)
from polarity_bench.sweeps.plan import FILE as PLAN
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.records import check_versions
from polarity_bench.values import count

RESULTS = "results"


def find_results(sources: Sequence[Path]) -> list[Result]:
    """Return the complete results in files and folders.

    Results that were evaluated with a `limit` are skipped.

    Warns:
        InputWarning: If results of a source are skipped.

    Raises:
        InputError: If a source does not exist or has no complete results.
    """
    results: list[Result] = []
    for source in sources:
        if source.is_dir():
            stored = list(read_results(source))
        elif is_stored(source):
            is_whole = is_stored(source.with_suffix(PROVENANCE))
            stored = [read_result(source)] if is_whole else []
        else:
            raise InputError(f"{source}: no such file or folder")
        complete = [result for result in stored if result.limit is None]
        if not complete:
            cut = "; all were cut by a `limit`, so evaluate without it" if stored else ""
            raise InputError(f"{source}: contains no complete results{cut}")
        if n_cut := len(stored) - len(complete):
            warn(
                f"{source}: skipped {count(n_cut, 'result')} cut by a `limit`; boards show "
                "complete results only"
            )
        results += complete
    return results


def add(found: Sequence[Result], folder: Path, curves: Sequence[Curve] = ()) -> list[Path]:
    """Copy results, their additional files and their curves into a board's folder.

    A result replaces the board's result of the same encoder, task and settings. If any two results
    of the board cannot be compared, nothing is written. Afterwards, the results are packed if the
    board belongs to a sweep or was already packed (see `packed_results`).

    Returns:
        The new paths of the results.

    Raises:
        InputError: If two results cannot be compared or belong in one cell, an encoder is not in
            the plan of the board's sweep, or the board contains cross-validations. The message
            names the files.
    """
    if result_paths(folder) and kind_of(folder) == CROSS_VALIDATION:
        raise InputError(
            f"{folder}: the board contains cross-validations, to which only `polarity-bench "
            "fewshot` can add; choose a board of results or of a sweep"
        )
    places: dict[Path, Result] = {}
    for result in found:
        at = place(folder / RESULTS, result.key.encoder, result.experiment, result.result_name)
        check_same(places.setdefault(at, result), result, result.main_score.k or 0)
    if is_sweep := (folder / PLAN).is_file():
        _check_planned(found, folder)
        kept = [each for each in read_results(folder / RESULTS) if each.path not in places]
        check_versions([*kept, *found])
    else:
        is_board = (folder / FILE).is_file() and bool(result_paths(folder))
        parts = find_board(folder) if is_board else None
        kept = [each for each in parts.results if each.path not in places] if parts else []
        complete = [*kept, *found]
        board(replace(parts, results=complete, folder=None) if parts else complete)
    for target, result in places.items():
        if target.resolve() == result.path.resolve():
            continue
        pairs = zip(_files_to_copy(result.path), _files_to_copy(target), strict=True)
        contents = {copy: stored_bytes(source) for source, copy in pairs if is_stored(source)}
        # The provenance is deleted first: without it, the remaining files are not read as a result.
        for old in reversed(files_of(target)):
            remove(old)
        for copy, content in contents.items():
            write_atomically(copy, content)
    for curve in curves:
        write_curve(curve, folder / RESULTS)
    if is_sweep or (folder / RESULTS / PACKED).is_file():
        pack(folder / RESULTS)
    return list(places)


def _check_planned(found: Sequence[Result], folder: Path) -> None:
    """Raise InputError if the plan of the sweep does not contain the encoder of a result."""
    planned = {item.encoder for item in read_plan(folder).items}
    for result in found:
        if (name := result.key.encoder.name) not in planned:
            raise InputError(
                f"{result.path}: the sweep plan {folder / PLAN} does not contain the encoder "
                f"{name!r}; add only results of this sweep"
            )


def _files_to_copy(path: Path) -> list[Path]:
    """Return the files to copy for a result: its own files and the encoder's metadata."""
    return [path.with_name(MODEL_META), *files_of(path)]
