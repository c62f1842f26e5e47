"""Charts of results: P–S planes, P and S by k, and P by phenomenon."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.rows import BoardRow
from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, LineChart, Mark, MarkRole, Plane, Series
from polarity_bench.results.comparability import Entry, Group
from polarity_bench.results.curve import Curve
from polarity_bench.results.published import PublishedNumber
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score, ScoreKey, Weighting
from polarity_bench.values import grouped

_PHENOMENA = "contrast"
"""Name of the task that is divided by linguistic phenomena."""


X = TypeVar("X")


def k_curves(group: Group, names: Mapping[str, str]) -> Iterator[LineChart]:
    """Yield charts of P and S by k, for encoders that were evaluated at several k.

    S has a chart for each reference that at least two encoders share. If all encoders have the
    same reference, a single encoder is enough. If each encoder is its own reference, as in the
    margins paper, one chart shows the S of all encoders.

    Args:
        group: The retrieval tasks.
        names: Names of encoders, by digest.

    Returns:
        For each task, a chart of P and one chart of S for each reference. Lines are sorted by the
        score at the largest k, best first.
    """
    for task, cells in group.tasks.items():
        entries = sorted(cells)
        shares = grouped(entries, lambda entry: entry.reference or entry.encoder)
        shown = [("P by k", "P", entries)]
        if len(shares) > 1 and all(entry.reference == "" for entry in entries):
            shown.append(("S by k, each encoder as its own reference", "S", entries))
        else:
            for reference in sorted(shares, key=lambda reference: (names[reference], reference)):
                compared = shares[reference]
                if len(shares) == 1 or len({entry.encoder for entry in compared}) > 1:
                    shown.append((f"S under {names[reference]} by k", "S", compared))
        for ending, y_title, compared in shown:
            scores: dict[str, dict[int, Score]] = {}
            for entry in compared:
                score = group.at(task, entry).get(RANKED[y_title])
                if score and math.isfinite(score.mean):
                    scores.setdefault(entry.encoder, {})[entry.k] = score
            several = [(names[e], by_k) for e, by_k in sorted(scores.items()) if len(by_k) > 1]
            if not several:
                continue
            ks = sorted({k for _, by_k in several for k in by_k})
            several.sort(
                key=lambda line: (-line[1][ks[-1]].mean if ks[-1] in line[1] else math.inf, line[0])
            )
            title = f"{task}, {group.weighting} weights: {ending}"
            yield LineChart(title, "k", y_title, ks, series_of(several, ks), is_log=True)


def phenomena(group: Group, names: Mapping[str, str]) -> Iterator[BarChart]:
    """Yield bar charts of P by phenomenon at the task's main k, the best encoder first.

    Args:
        group: The retrieval tasks.
        names: Names of encoders, by digest.

    Yields:
        A bar chart for each main k; nothing if there are no results of the task.
    """
    by_k: dict[int, dict[str, Mapping[ScoreKey, Score]]] = {}
    for entry, result in sorted(group.tasks.get(_PHENOMENA, {}).items()):
        if entry.k == result.main_score.k:
            by_k.setdefault(entry.k, {})[entry.encoder] = result.scores
    for k, scores in sorted(by_k.items()):
        whole_task, first = ScoreKey("polarity", k, group.weighting), next(iter(scores.values()))
        parts = [
            key
            for key in sorted(first, key=str)
            if key.part and replace(key, part=None) == whole_task
        ]
        order = sorted(scores, key=lambda of: (-scores[of][whole_task].mean, names[of]))
        if parts:
            yield BarChart(
                f"{_PHENOMENA}: P by phenomenon, k = {k}, {group.weighting} weights",
                "P",
                [key.part or "" for key in parts],
                series_of([(names[encoder], scores[encoder]) for encoder in order], parts),
                first[ScoreKey("polarity_chance")].mean,
            )


def series_of(
    by_name: Iterable[tuple[str, Mapping[X, Score | None]]], places: Sequence[X]
) -> list[Series]:
    """Return a series of scores for each name, with intervals where they are defined.

    Args:
        by_name: Pairs of a name and its scores, by place.
        places: Places along the axis, such as values of k, in the order of the series.
    """
    series = []
    for name, scores_at in by_name:
        scores = [scores_at.get(place) for place in places]
        values = [score.mean if score else math.nan for score in scores]
        ends = [s.ci95 if s and all(map(math.isfinite, s.ci95)) else None for s in scores]
        series.append(Series(name, values, ends))
    return series


def planes(sections: Sections) -> Iterator[Plane]:
    """Yield a P–S plane for each task, reference and k that at least two encoders share.

    If all encoders have the same reference, a single encoder is enough.

    Raises:
        InputError: If a task has published points, and planes for several references.
    """
    names, weighting = sections.names, sections.ranked.weighting
    tuned = {
        entry
        for cells in sections.ranked.tasks.values()
        for entry, result in cells.items()
        if entry.reference and result.reference_is_default
    }
    for task in sections.ranked.tasks:
        scored = [r for r in sections.first_singles if r.scores.get(task) and r.role == "encoder"]
        shares = grouped(
            scored, lambda row: (row.entry.reference or row.entry.encoder, row.entry.k)
        )
        alone = len({reference for reference, _ in shares}) == 1
        drawn = [share for share in shares if alone or len(shares[share]) > 1]
        published = [row for row in sections.published if len(_published_of(row, task)) == 2]
        if published and len(references := {reference for reference, _ in drawn}) > 1:
            raise InputError(
                f"{_published_of(published[0], task)[0].where}: published points of {task} need "
                "results with one reference, because S depends on it, got "
                f"{len(references)} references; show the results of "
                "one reference, or delete the published S"
            )
        for reference, k in sorted(drawn, key=lambda share: (names[share[0]], share[1])):
            shown = {Entry("", digest, k) for digest in ({reference, ""} if alone else {reference})}
            curves = [
                c for c in sections.curves if (c.task, c.reference.digest) == (task, reference)
            ]
            through = {point.encoder for curve in curves for point in curve.points} - {reference}
            rows = [
                *(row for row in sections.bounds if row.entry in shown),
                *(row for row in shares[reference, k] if row.entry.encoder not in through),
            ]
            at_k = {(k, weighting)}
            printed = [
                row
                for row in published
                if {(each.key.k, each.key.weighting) for each in _published_of(row, task)} == at_k
            ]
            marks = [
                *_of_rows(task, reference, rows, tuned),
                *_of_curves(curves, k, weighting),
                *_of_rows(task, reference, printed, tuned),
            ]
            marks = [mark for mark in marks if math.isfinite(mark.p) and math.isfinite(mark.s)]
            if marks:
                yield Plane(task, names[reference], k, weighting, marks)


def _published_of(row: BoardRow, task: str) -> list[PublishedNumber]:
    """Return the published P and S of a row on a task; missing numbers are left out."""
    places = ((task, metric) for metric in ("polarity", "similarity"))
    return [row.printed[place] for place in places if place in row.printed]


def _of_rows(
    task: str, reference: str, rows: Sequence[BoardRow], tuned: Collection[Entry]
) -> Iterator[Mark]:
    """Yield a mark of the plane for each row that has both P and S."""
    for row in rows:
        p, s = row.score(task, "polarity"), row.score(task, "similarity")
        if p and s:
            role: MarkRole = "base" if row.entry.encoder == reference else "encoder"
            if row.role == "oracle" or row.role == "random" or row.role == "published":
                role = row.role
            name = next((number.name for number in _published_of(row, task)), row.name)
            yield Mark(name, role, p.mean, s.mean, tuned=row.entry in tuned)


def _of_curves(curves: Sequence[Curve], k: int, weighting: Weighting) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for curve in {curve.name: curve for curve in curves if k in curve.ks}.values():
        for point in curve.points:
            yield Mark(curve.name, "curve", point.scores[p], point.scores[s], point.at)
