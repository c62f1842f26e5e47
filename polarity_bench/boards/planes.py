"""Planes: P against S of what shares a task, a reference and k, with published points beside."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from polarity_bench.boards.cells import Entry
from polarity_bench.boards.drawn import Mark, MarkRole, Plane
from polarity_bench.boards.rows import Row
from polarity_bench.curves.curve import Curve
from polarity_bench.errors import InputError
from polarity_bench.types import ScoreKey, Weighting


def planes(
    rows: Sequence[Row],
    tasks: Iterable[str],
    names: Mapping[str, str],
    weighting: Weighting,
    *,
    curves: Sequence[Curve] = (),
    published: Sequence[Row] = (),
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
        published: Rows of what is published, drawn beside.
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
    task: str, k: int, weighting: Weighting, published: Sequence[Row]
) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for row in published:
        values = {each.key: each.value for each in row.printed if each.task == task}
        if {p, s} <= values.keys():
            yield Mark(row.printed[0].name, "published", values[p], values[s])


def _check_one_reference(task: str, references: set[str], published: Sequence[Row]) -> None:
    both = {"polarity", "similarity"}
    placed = [row for row in published if both <= row.scores.get(task, {}).keys()]
    if len(references) > 1 and placed:
        raise InputError(
            f"{placed[0].printed[0].where}: published points of {task} need one reference, by "
            f"which their S is; the results have {len(references)}"
        )
