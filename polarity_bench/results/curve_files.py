"""Curve files, stored in the folder of the results that the curves are computed from.

The path of a curve is `curves/TASK.NAME.ENCODER.DIGEST.json` in the folder of the results. ENCODER
is the digest of the encoder, so encoders with the same name have separate curves. DIGEST is the
digest of the task, data, reference encoder and protocol. The file contains the checksum of each
result of the curve. If a result is missing or was recomputed, the curve is stale, and boards skip
the curve.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.files import (
    find_files,
    folder_name,
    json_bytes,
    read_json,
    write_atomically,
)
from polarity_bench.results.curve import Curve, Dial, Point, make_curve
from polarity_bench.results.result_files import Result, scores_digest, with_checksum
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import task_type
from polarity_bench.values import shortest

FORMAT = 1
_FOLDER = "curves"
_FIELDS = ("name", "dial", "task", "question", "limit")
_FIELDS_OF_A_POINT = ("encoder", "run", "scores_sha256")


def write_curves(
    name: str, dial: Dial, results: Mapping[float, Sequence[Result]], output: Path
) -> list[Path]:
    """Compute and write the curve of every polarity task with at least two results.

    Args:
        name: Name of the encoder with the dial.
        dial: Varied parameter.
        results: Results of a suite at each setting of the dial.
        output: Folder of the results.

    Returns:
        Paths of the curve files.

    Raises:
        InputError: If the results of a task cannot form a curve (see `make_curve`), or if the
            folder is not writable.
    """
    by_task: dict[str, dict[float, Result]] = {}
    for at, of_suite in results.items():
        for result in of_suite:
            if task_type(result.kind).ranks:
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
    try:
        version, is_edited = stored["format"], stored != with_checksum(stored)
        if version == FORMAT and not is_edited:
            return _from_json(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not a curve of polarity-bench ({error!r}); compute the curve again"
        ) from error
    if version == FORMAT:
        raise InputError(f"{path}: the curve was edited or is damaged; compute the curve again")
    raise InputError(
        f"{path}: expected a curve in format {FORMAT}, got format {version}; compute the curve "
        "again"
    )


def read_curves(folder: Path, results: Sequence[Result]) -> Iterator[Curve]:
    """Read every current curve below a folder, sorted by path.

    Args:
        folder: Folder of results.
        results: Results in the folder.

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
        warnings.warn(
            f"{path}: the curve is skipped, because its results at {curve.dial} "
            f"{', '.join(shortest(at) for at in stale)} are missing or were recomputed; compute "
            "the curve again",
            InputWarning,
            stacklevel=2,
        )


def _as_json(curve: Curve) -> dict[str, Any]:
    points = [
        {
            curve.dial: point.at,
            **{field: getattr(point, field) for field in _FIELDS_OF_A_POINT},
            "scores": {str(key): value for key, value in point.scores.items()},
        }
        for point in curve.points
    ]
    content = {
        "format": FORMAT,
        **{field: getattr(curve, field) for field in _FIELDS},
        "encoder": curve.encoder,
        "reference": curve.reference.to_dict(with_defaults=True),
        "points": points,
        "fronts": {
            str(key): {"mean": score.mean, "ci95": score.ci95, "n": score.n}
            for key, score in curve.fronts.items()
        },
    }
    plain: dict[str, Any] = to_jsonable_python(content, inf_nan_mode="null")
    return plain


def _from_json(stored: Mapping[str, Any]) -> Curve:
    points = [
        Point(
            at=float(point[stored["dial"]]),
            **{field: point[field] for field in _FIELDS_OF_A_POINT},
            scores={ScoreKey.parse(n): _or_nan(value) for n, value in point["scores"].items()},
        )
        for point in stored["points"]
    ]
    fronts = {}
    for name, front in stored["fronts"].items():
        low, high = map(_or_nan, front["ci95"])
        fronts[ScoreKey.parse(name)] = Score.single(_or_nan(front["mean"]), front["n"], (low, high))
    return Curve(
        **{field: stored[field] for field in _FIELDS},
        encoder=stored["encoder"],
        reference=EncoderId(**stored["reference"]),
        points=tuple(points),
        fronts=fronts,
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
