"""Curve files, stored in the folder of the results that the curves are computed from.

The path of a curve is `curves/TASK.NAME.ENCODER.DIGEST.json` in the folder of the results. ENCODER
is the digest of the encoder, so encoders with the same name have separate curves. DIGEST is the
digest of the task, data, reference encoder and protocol. The file contains the checksum of each
result of the curve. If a result is missing or was recomputed, the curve is stale, and boards skip
the curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.errors import reworded, warn
from polarity_bench.files import (
    find_files,
    folder_name,
    json_bytes,
    read_json,
    with_checksum,
    write_atomically,
)
from polarity_bench.results.curve import Curve, Dial, make_curve
from polarity_bench.results.result_files import (
    Result,
    check_record,
    scores_digest,
)
from polarity_bench.tasks.catalogue import task_type
from polarity_bench.validation import as_json, validated
from polarity_bench.values import shortest

FORMAT = 1
_FOLDER = "curves"
_AGAIN = "compute the curve again"


def write_curves(
    name: str, dial: Dial, results: Mapping[float, Sequence[Result]], output: Path
) -> list[Path]:
    """Compute and write the curve of every polarity task with at least two results.

    Returns:
        Paths of the curve files.

    Raises:
        InputError: If the results of a task cannot form a curve (see `make_curve`), or if the
            folder is not writable.
    """
    by_task: dict[str, dict[float, Result]] = {}
    for at, of_suite in results.items():
        for result in of_suite:
            if task_type(result.kind).has_k:
                by_task.setdefault(result.task, {})[at] = result
    curves = [make_curve(name, dial, points) for points in by_task.values() if len(points) > 1]
    return [write_curve(curve, output) for curve in curves]


def write_curve(curve: Curve, output: Path) -> Path:
    """Write a curve to a file in the folder of its results, and return the path of the file.

    A curve of the same encoder, task, data, reference encoder and protocol is overwritten.

    Raises:
        InputError: If the folder is not writable.
    """
    named = (folder_name(curve.task), folder_name(curve.name))
    path = output / _FOLDER / ".".join([*named, curve.encoder[:8], curve.question[:8], "json"])
    write_atomically(path, json_bytes(with_checksum(_as_json(curve))))
    return path


def read_curve(path: Path) -> Curve:
    """Read a curve that `write_curve` wrote.

    Raises:
        InputError: If the file was edited, is damaged or does not contain a curve.
    """
    stored = read_json(path)
    check_record(path, stored, "curve", FORMAT, _AGAIN)
    with reworded(f"{path}: not a curve of polarity-bench (", f"); {_AGAIN}"):
        return validated(Curve, stored)


def read_curves(folder: Path, results: Sequence[Result]) -> Iterator[Curve]:
    """Read every current curve below a folder, sorted by path.

    Yields:
        Curves that were computed from these results.

    Raises:
        InputError: If a file is not a valid curve. The message names the file.

    Warns:
        InputWarning: If a curve is skipped because one of its results is missing or was
            recomputed.
    """
    paths = [path for path in find_files(folder, ".json") if path.parent.name == _FOLDER]
    current = {(result.key.digest, scores_digest(result)) for result in results if paths}
    for path in paths:
        curve = read_curve(path)
        stale = [p.at for p in curve.points if (p.run, p.scores_sha256) not in current]
        if not stale:
            yield curve
            continue
        warn(
            f"{path}: the curve is skipped, because its results at {curve.dial} "
            f"{', '.join(shortest(at) for at in stale)} are missing or were recomputed; {_AGAIN}"
        )


def _as_json(curve: Curve) -> dict[str, Any]:
    content = as_json(curve)
    points = [{curve.dial: point.pop("at"), **point} for point in content["points"]]
    return {"format": FORMAT, **content, "points": points}
