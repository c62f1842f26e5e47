"""Planes: P against S of what shares a task, a reference and k, with published points beside."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.boards.cells import Entry
from polarity_bench.boards.drawn import Mark, MarkRole, Plane
from polarity_bench.boards.rows import Row
from polarity_bench.curves.curve import Curve
from polarity_bench.errors import InputError, nearest
from polarity_bench.types import WEIGHTINGS, ScoreKey, Weighting

_COLUMNS = ("name", "task", "k", "weighting", "P", "S", "source")


@dataclass(frozen=True)
class Published:
    """A point that others have published.

    Attributes:
        p: A fraction, as `s`.
        s: By the reference of the board, of which there must be one.
        source: Where it stands.
    """

    name: str
    task: str
    k: int
    weighting: Weighting
    p: float
    s: float
    source: str


def read_published(file: Path, tasks: Iterable[str]) -> list[Published]:
    """Read published points: P and S are in percent, as papers print them.

    Args:
        file: Its columns are `name,task,k,weighting,P,S,source`; without the file there are none.
        tasks: The tasks that there are.

    Raises:
        InputError: If a column is missing or a cell is not what its column wants; names the line.
    """
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        lines = csv.DictReader(stream)
        if missing := set(_COLUMNS) - set(lines.fieldnames or ()):
            raise InputError(f"{file}: the column {min(missing)!r} is missing")
        known = set(tasks)
        return [_published(f"{file}, line {lines.line_num}", line, known) for line in lines]


def _published(where: str, line: Mapping[str, str | None], tasks: set[str]) -> Published:
    cell = {name: line[name] or "" for name in _COLUMNS}
    if cell["task"] not in tasks:
        raise InputError(
            f"{where}: no result of the task {cell['task']!r}{nearest(cell['task'], tasks)}"
        )
    weighting = next((w for w in WEIGHTINGS if w == cell["weighting"]), None)
    if weighting is None:
        raise InputError(f"{where}: the weighting is linear or uniform, not {cell['weighting']!r}")
    if not cell["name"]:
        raise InputError(f"{where}: the name is missing")
    p, s = (_fraction(where, name, cell[name]) for name in ("P", "S"))
    if not cell["k"].isdecimal():
        raise InputError(f"{where}: k is a whole number, not {cell['k']!r}")
    return Published(cell["name"], cell["task"], int(cell["k"]), weighting, p, s, cell["source"])


def _fraction(where: str, name: str, text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not -100 <= percent <= 100:
        raise InputError(f"{where}: {name} is a percentage, not {text!r}")
    return percent / 100


def planes(
    rows: Sequence[Row],
    tasks: Iterable[str],
    names: Mapping[str, str],
    weighting: Weighting,
    *,
    curves: Sequence[Curve] = (),
    published: Sequence[Published] = (),
    trained: Collection[Entry] = (),
) -> Iterator[Plane]:
    """Yield a plane for each task, reference and k by which two encoders or more compare.

    Where all rows share one reference, they make a plane even if they are one.

    Args:
        rows: Of encoders and of bounds.
        tasks: In the order of the planes.
        names: Of encoders, by digest.
        weighting: Of the ranks, by which the rows' scores are.
        curves: Of these encoders.
        published: What is drawn beside.
        trained: Who was made from its reference.

    Raises:
        InputError: If there are published points for a task with several references.
    """
    for task in tasks:
        there = [row for row in rows if row.scores.get(task) and row.role == "encoder"]
        shares: dict[tuple[str, int], list[Row]] = {}
        for row in there:
            reference = row.entry.reference or row.entry.encoder
            shares.setdefault((reference, row.entry.k), []).append(row)
        alone = len({reference for reference, _ in shares}) == 1
        drawn = [share for share in shares if alone or len(shares[share]) > 1]
        _check_one_reference(task, {reference for reference, _ in drawn}, published)
        for reference, k in sorted(drawn, key=lambda share: (names[share[0]], share[1])):
            whose = {reference, ""} if alone else {reference}
            bounds = [row for row in rows if row.role in ("oracle", "random")]
            bounds = [r for r in bounds if r.entry.k == k and r.entry.reference in whose]
            theirs = [c for c in curves if (c.task, c.reference.digest) == (task, reference)]
            marks = [
                *_of_rows(task, reference, [*bounds, *shares[reference, k]], theirs, trained),
                *_of_curves(theirs, k, weighting),
                *_of_published(task, k, weighting, published),
            ]
            marks = [mark for mark in marks if math.isfinite(mark.p) and math.isfinite(mark.s)]
            if marks:
                yield Plane(task, names[reference], k, weighting, marks)


def _of_rows(
    task: str,
    reference: str,
    rows: Sequence[Row],
    curves: Sequence[Curve],
    trained: Collection[Entry],
) -> Iterator[Mark]:
    """Mark each row, but those that a curve goes through."""
    through = {point.encoder for curve in curves for point in curve.points} - {reference}
    for row in rows:
        p, s = row.score(task, "polarity"), row.score(task, "similarity")
        if p is None or s is None or row.entry.encoder in through:
            continue
        role: MarkRole = "base" if row.entry.encoder == reference else "encoder"
        role = role if row.role == "encoder" else row.role
        yield Mark(row.name, role, p.mean, s.mean, tuned=row.entry in trained)


def _of_curves(curves: Sequence[Curve], k: int, weighting: Weighting) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for curve in {curve.name: curve for curve in curves if k in curve.ks}.values():
        for point in curve.points:
            yield Mark(curve.name, "curve", point.scores[p], point.scores[s], point.at)


def _of_published(
    task: str, k: int, weighting: Weighting, published: Sequence[Published]
) -> Iterator[Mark]:
    for each in published:
        if (each.task, each.k, each.weighting) == (task, k, weighting):
            yield Mark(each.name, "published", each.p, each.s)


def _check_one_reference(task: str, references: set[str], published: Sequence[Published]) -> None:
    if len(references) > 1 and any(each.task == task for each in published):
        raise InputError(
            f"published points of {task} need one reference, by which their S is; the results have "
            f"{len(references)}"
        )
