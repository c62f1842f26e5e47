"""Charts of results: P–S planes, P and S by k, and P by phenomenon."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.provenance_notes import recorded_words
from polarity_bench.boards.rows import BoardRow
from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, LineChart, Mark, MarkRole, Plane, Series
from polarity_bench.results.comparability import Entry, Group
from polarity_bench.results.curve import Curve
from polarity_bench.results.result_files import Result
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score, ScoreKey, Weighting

_PHENOMENA = "contrast"
"""The task whose parts are phenomena."""

_BY_BASE = {"run", "sweep"}
"""Commands that use the recorded base of a trained encoder as its reference by default."""


def k_curves(group: Group, names: Mapping[str, str]) -> list[LineChart]:
    """Lay out P and S by k, for encoders that were evaluated at several k.

    P needs no reference. S has a chart for each reference that two or more encoders share, and for
    the only reference if all encoders have the same one. If each encoder is its own reference, as
    in the margins paper, one chart shows S of each encoder under itself.

    Args:
        group: The retrieval tasks.
        names: Names of encoders, by digest.

    Returns:
        For each task, the lines of P and, for each reference, the lines of S. The lines are sorted
        by their score at the largest k, best first.
    """
    return [lines for task in group.tasks for lines in _k_curves(task, group, names)]


def _k_curves(task: str, group: Group, names: Mapping[str, str]) -> Iterator[LineChart]:
    entries = sorted(group.tasks[task])
    shares: dict[str, list[Entry]] = {}
    for entry in entries:
        shares.setdefault(entry.reference or entry.encoder, []).append(entry)
    start = f"{task}, {group.weighting} weights"
    charts = [(f"{start}: P by k", "P", entries)]
    if len(shares) > 1 and all(entry.reference == "" for entry in entries):
        charts.append((f"{start}: S by k, each encoder under itself", "S", entries))
    else:
        for reference in sorted(shares, key=lambda reference: (names[reference], reference)):
            own = shares[reference]
            if len(shares) == 1 or len({entry.encoder for entry in own}) > 1:
                charts.append((f"{start}: S under {names[reference]} by k", "S", own))
    for title, y_title, own in charts:
        yield from _by_k(title, y_title, task, own, group, names)


def _by_k(
    title: str,
    y_title: str,
    task: str,
    entries: Sequence[Entry],
    group: Group,
    names: Mapping[str, str],
) -> Iterator[LineChart]:
    """Lay out the encoders with finite scores at two or more k."""
    scores: dict[str, dict[int, Score]] = {}
    for entry in entries:
        score = group.at(task, entry).get(RANKED[y_title])
        if score and math.isfinite(score.mean):
            scores.setdefault(entry.encoder, {})[entry.k] = score
    several = {encoder: by_k for encoder, by_k in scores.items() if len(by_k) > 1}
    ks = sorted({k for by_k in several.values() for k in by_k})

    def rank(encoder: str) -> tuple[float, str]:
        last = several[encoder].get(ks[-1])
        return -(last.mean if last else -math.inf), names[encoder]

    if several:
        series = [
            series_of(names[encoder], [several[encoder].get(k) for k in ks])
            for encoder in sorted(several, key=rank)
        ]
        yield LineChart(title, "k", y_title, ks, series, is_log=True)


def phenomena(group: Group, names: Mapping[str, str]) -> Iterator[BarChart]:
    """Lay out P by phenomenon at the task's main k, the encoder with the best P first.

    Args:
        group: The retrieval tasks.
        names: Names of encoders, by digest.

    Yields:
        A bar chart for each main k; nothing without results of the task.
    """
    by_k: dict[int, dict[str, Mapping[ScoreKey, Score]]] = {}
    for entry, (_, result) in sorted(group.tasks.get(_PHENOMENA, {}).items()):
        if entry.k == result.main_score.k:
            by_k.setdefault(entry.k, {})[entry.encoder] = result.scores
    for k, scores in sorted(by_k.items()):
        whole, first = ScoreKey("polarity", k, group.weighting), next(iter(scores.values()))
        parts = [
            key for key in sorted(first, key=str) if key.part and replace(key, part=None) == whole
        ]
        order = sorted(scores, key=lambda e: (-scores[e][whole].mean, names[e]))
        if parts:
            yield BarChart(
                f"{_PHENOMENA}: P by phenomenon, k = {k}, {group.weighting} weights",
                "P",
                [key.part or "" for key in parts],
                [series_of(names[e], [scores[e].get(key) for key in parts]) for e in order],
                first[ScoreKey("polarity_chance")].mean,
            )


def series_of(name: str, scores: Sequence[Score | None]) -> Series:
    """Lay scores out as a series, with their intervals if they have any."""
    values = [score.mean if score else math.nan for score in scores]
    ends = [s.ci95 if s and all(map(math.isfinite, s.ci95)) else None for s in scores]
    return Series(name, values, ends)


def trained(group: Group) -> frozenset[Entry]:
    """Return the entries whose encoder was trained from its reference, as far as results tell.

    The reference of a result is either the base that the encoder records, or an encoder that the
    user asked for. Only the command that made the result tells which: with `run` or `sweep`, if no
    `reference` is given, the reference is the base. For all other commands, nothing is known.
    """
    return frozenset(
        entry
        for cells in group.tasks.values()
        for entry, (_, result) in cells.items()
        if entry.reference and _is_by_base(result)
    )


def _is_by_base(result: Result) -> bool:
    command, *words = recorded_words(result, "command") or [""]
    named = (word[2:].partition("=")[0] for word in words if word.startswith("--"))
    return command in _BY_BASE and "reference" not in named


def planes(sections: Sections) -> Iterator[Plane]:
    """Yield a plane for each task, reference and k that at least two encoders share.

    If all rows share one reference, there is a plane even for a single encoder.

    Raises:
        InputError: If there are published points for a task with several references.
    """
    names, weighting, bounds = sections.names, sections.ranked.weighting, sections.bounds
    tuned = trained(sections.ranked)
    for task in sections.ranked.tasks:
        shares: dict[tuple[str, int], list[BoardRow]] = {}
        for row in sections.first_singles:
            if row.scores.get(task) and row.role == "encoder":
                reference = row.entry.reference or row.entry.encoder
                shares.setdefault((reference, row.entry.k), []).append(row)
        alone = len({reference for reference, _ in shares}) == 1
        drawn = [share for share in shares if alone or len(shares[share]) > 1]
        _check_one_reference(task, {reference for reference, _ in drawn}, sections.published)
        for reference, k in sorted(drawn, key=lambda share: (names[share[0]], share[1])):
            shown = {Entry("", whose, k) for whose in ({reference, ""} if alone else {reference})}
            rows = [*(row for row in bounds if row.entry in shown), *shares[reference, k]]
            curves = [
                c for c in sections.curves if (c.task, c.reference.digest) == (task, reference)
            ]
            marks = [
                *_of_rows(task, reference, rows, curves, tuned),
                *_of_curves(curves, k, weighting),
                *_of_published(task, k, weighting, sections.published),
            ]
            marks = [mark for mark in marks if math.isfinite(mark.p) and math.isfinite(mark.s)]
            if marks:
                yield Plane(task, names[reference], k, weighting, marks)


def _of_rows(
    task: str,
    reference: str,
    rows: Sequence[BoardRow],
    curves: Sequence[Curve],
    trained: Collection[Entry],
) -> Iterator[Mark]:
    """Yield a mark for each row, without encoders that are points of a curve."""
    through = {point.encoder for curve in curves for point in curve.points} - {reference}
    for row in rows:
        p, s = row.score(task, "polarity"), row.score(task, "similarity")
        if p is None or s is None or row.entry.encoder in through:
            continue
        role: MarkRole = "base" if row.entry.encoder == reference else "encoder"
        role = row.role if row.role == "oracle" or row.role == "random" else role
        yield Mark(row.name, role, p.mean, s.mean, tuned=row.entry in trained)


def _of_curves(curves: Sequence[Curve], k: int, weighting: Weighting) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for curve in {curve.name: curve for curve in curves if k in curve.ks}.values():
        for point in curve.points:
            yield Mark(curve.name, "curve", point.scores[p], point.scores[s], point.at)


def _of_published(
    task: str, k: int, weighting: Weighting, published: Sequence[BoardRow]
) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for row in published:
        values = {each.key: each.value for each in row.printed if each.task == task}
        if {p, s} <= values.keys():
            yield Mark(row.printed[0].name, "published", values[p], values[s])


def _check_one_reference(task: str, references: set[str], published: Sequence[BoardRow]) -> None:
    both = {"polarity", "similarity"}
    placed = [row for row in published if both <= row.scores.get(task, {}).keys()]
    if len(references) > 1 and placed:
        raise InputError(
            f"{placed[0].printed[0].where}: published points of {task} need one reference, "
            f"because S depends on it; the results have {len(references)}"
        )
