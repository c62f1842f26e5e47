"""Charts of results: P–S planes, P and S by k, and P by part of the queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

from polarity_bench.boards.columns import GAINED, Sections
from polarity_bench.boards.records import entry_of
from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, LineChart, Mark, MarkRole, Plane, Series
from polarity_bench.results.curve import Curve
from polarity_bench.results.frame import Record
from polarity_bench.results.means import score_of
from polarity_bench.scores import Score, ScoreKey, part_title
from polarity_bench.values import grouped

X = TypeVar("X")


def k_curves(sections: Sections) -> Iterator[LineChart]:
    """Yield charts of P and S by k, for encoders that were evaluated at several k.

    S has a chart for each reference that at least two encoders share. If all encoders have the
    same reference, a single encoder is enough. If each encoder is its own reference, as in the
    margins paper, one chart shows the S of all encoders.

    Yields:
        For each task, a chart of P and one chart of S for each reference. Lines are sorted by the
        score at the largest k, best first.
    """
    names, weighting = sections.names, sections.config.weighting
    entries = sorted(sections.rows, key=lambda row: entry_of(row)[1:])
    for task in sections.ranked:
        of_task = [row for row in entries if (row["row"], task) in sections.cells]
        shares = grouped(of_task, lambda row: row["reference"] or row["encoder"])
        shown = [("P by k", "P", of_task)]
        if len(shares) > 1 and not any(row["reference"] for row in of_task):
            shown.append(("S by k, each encoder as its own reference", "S", of_task))
        else:
            for reference in sorted(shares, key=lambda reference: (names[reference], reference)):
                compared = shares[reference]
                if len(shares) == 1 or len({row["encoder"] for row in compared}) > 1:
                    shown.append((f"S under {names[reference]} by k", "S", compared))
        for ending, y_title, compared in shown:
            scores: dict[str, dict[int, Score]] = {}
            for row in compared:
                record = sections.cells[row["row"], task].get(GAINED[y_title])
                if record and math.isfinite(record["value"]):
                    scores.setdefault(row["encoder"], {})[row["k"]] = score_of(record)
            several = [(names[e], by_k) for e, by_k in sorted(scores.items()) if len(by_k) > 1]
            if not several:
                continue
            ks = sorted({k for _, by_k in several for k in by_k})
            several.sort(
                key=lambda line: (-line[1][ks[-1]].mean if ks[-1] in line[1] else math.inf, line[0])
            )
            title = f"{task}, {weighting} weights: {ending}"
            yield LineChart(title, "k", y_title, ks, series_of(several, ks), is_log=True)


def method_curves(sections: Sections) -> Iterator[LineChart]:
    """Yield charts of P and S by the number `at` of methods, with their base as a flat line.

    Raises:
        InputError: If the numbers have no title, if two methods have the same place on a line, or
            if a line has the name of the base.
    """
    x_title, weighting = sections.config.numbers, sections.config.weighting
    methods = sections.config.method
    placed = {each.name: (each.line, each.at) for each in methods if each.at is not None}
    if placed and not x_title:
        raise InputError(
            "methods have a number `at`, but `numbers` is empty; give it the title of these "
            "numbers, such as `labels`"
        )
    rows = sections.first_rows
    shown = [row for row in rows if row["role"] == "method" and row["name"] in placed]
    for (reference, k), share in grouped(shown, lambda row: (row["reference"], row["k"])).items():
        lines = dict[str, dict[float, Record]]()
        for row in share:
            line, at = placed[row["name"]]
            if (other := lines.setdefault(line, {}).setdefault(at, row)) is not row:
                raise InputError(
                    f"the methods {other['name']!r} and {row['name']!r} have the same `at`, but a "
                    "line has one point for each; change one of them, or give each another `line`"
                )
        xs = sorted({at for by_x in lines.values() for at in by_x})
        base = [row for row in rows if (row["encoder"], row["k"]) == (reference, k)][:1]
        for row in base:
            if row["name"] in lines:
                raise InputError(
                    f"the `line` {row['name']!r} has the name of the base, whose line is flat; "
                    "give it another name"
                )
            lines[row["name"]] = dict.fromkeys(xs, row)
        for task, (title, metric) in product(sections.ranked, GAINED.items()):
            scores = {
                name: {
                    x: score_of(mean)
                    for x, row in by_x.items()
                    if (mean := sections.mean(row, [task], metric))
                }
                for name, by_x in lines.items()
            }
            heading = f"{task}, k = {k}, {weighting} weights: {title} by {x_title}"
            series = series_of(scores.items(), xs)
            yield LineChart(heading, x_title, title, xs, series, is_log=True)


def parts_of_p(sections: Sections) -> Iterator[BarChart]:
    """Yield bar charts of P by part of the queries at the task's main k, the best encoder first.

    Yields:
        A bar chart for each retrieval task with a breakdown of P, and for each of its main k.
    """
    names, weighting = sections.names, sections.config.weighting
    rows = sorted(sections.rows, key=lambda row: entry_of(row)[1:])
    for task, of_task in sections.ranked.items():
        at_main = [row for row in rows if row["row"] in of_task]
        at_main = [row for row in at_main if row["k"] == of_task[row["row"]].main_score.k]
        for k, of_k in sorted(grouped(at_main, lambda row: row["k"]).items()):
            scores = {row["encoder"]: of_task[row["row"]].scores for row in of_k}
            whole_task, first = ScoreKey("polarity", k, weighting), next(iter(scores.values()))
            of_parts = (key for key in first if key.part is not None)
            parts = [key for key in of_parts if replace(key, part=None) == whole_task]
            if parts:
                parts.sort(key=str)
                order = sorted(scores, key=lambda of: (-scores[of][whole_task].mean, names[of]))
                yield BarChart(
                    f"{task}: P by part of the queries, k = {k}, {weighting} weights",
                    "P",
                    [part_title(key.part) for key in parts],
                    series_of([(names[encoder], scores[encoder]) for encoder in order], parts),
                    first[ScoreKey("polarity_chance")].mean,
                )


def gain_bars(sections: Sections) -> Iterator[BarChart]:
    """Yield a bar chart of the gains of P and one of those of S, for each reference and k."""
    weighting, tasks = sections.config.weighting, list(sections.ranked)
    shares = grouped(sections.gaining, lambda row: (row["reference"], row["k"]))
    for (reference, k), rows in shares.items():
        for title in GAINED:
            gains = [
                (row["name"], {task: sections.gain(row, task, title) for task in tasks})
                for row in rows
            ]
            heading = f"gain over {sections.names[reference]}, k = {k}, {weighting} weights"
            yield BarChart(
                f"{title}: {heading}", f"gain of {title}", tasks, series_of(gains, tasks)
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
    names, weighting = sections.names, sections.config.weighting
    encoders = [row for row in sections.first_singles if row["role"] == "encoder"]
    tuned = {row for (row, _), result in sections.results.items() if result.reference_is_default}
    for task in sections.ranked:
        at_task = [record for record in sections.further if record["place"] == task]
        scored = [row for row in encoders if (row["row"], task) in sections.results]
        shares = grouped(scored, lambda row: (row["reference"] or row["encoder"], row["k"]))
        alone = len({reference for reference, _ in shares}) == 1
        compared = [share for share in shares if alone or len(shares[share]) > 1]
        numbers = (record for record in at_task if record["role"] == "published")
        printed = points(numbers, "row")
        if printed and len(references := {reference for reference, _ in compared}) > 1:
            raise InputError(
                f"{printed[0][0]['file']}: published points of {task} need results with one "
                f"reference, because S depends on it, got {len(references)} references; show the "
                "results of one reference, or delete the published S"
            )
        for reference, k in sorted(compared, key=lambda share: (names[share[0]], share[1])):
            curves = [
                c for c in sections.curves if (c.task, c.reference.digest) == (task, reference)
            ]
            through = {point.encoder for curve in curves for point in curve.points} - {reference}
            shown = {reference, ""} if alone else {reference}
            at_k = [each for each in at_task if each["role"] != "published" and each["k"] == k]
            bounds = points((each for each in at_k if each["reference"] in shown), "row")
            marks = [mark_of(p, s, p["role"]) for p, s in bounds]
            for row in shares[reference, k]:
                if row["encoder"] not in through:
                    is_base, key = row["encoder"] == reference, (row["row"], task)
                    p, s = (sections.cells[key][metric] for metric in GAINED.values())
                    is_tuned = bool(row["reference"]) and row["row"] in tuned
                    marks.append(mark_of(p, s, "base" if is_base else "encoder", tuned=is_tuned))
            marks += _of_curves(curves, k, weighting)
            marks += [
                mark_of(p, s, "published", p["encoder"])
                for p, s in printed
                if all((n["k"], n["weighting"]) == (k, weighting) for n in (p, s))
            ]
            yield from plane_of(task, names[reference], k, weighting, marks)


def mark_of(p: Record, s: Record, role: MarkRole, name: str = "", **options: Any) -> Mark:
    """Return the point of a record of P and one of S, with the name of their row by default."""
    return Mark(name or p["name"], role, p["value"], s["value"], **options)


def plane_of(
    task: str, reference: str, k: int, weighting: str, marks: Iterable[Mark], least: int = 1
) -> list[Plane]:
    """Return the plane of the points with both scores; [] if there are fewer than `least`."""
    shown = [mark for mark in marks if math.isfinite(mark.p) and math.isfinite(mark.s)]
    return [Plane(task, reference, k, weighting, shown)] if len(shown) >= least else []


def points(records: Iterable[Record], *by: str, ending: str = "") -> list[tuple[Record, Record]]:
    """Return the records of P and S of each group that has both.

    Args:
        records: Records of one task.
        by: Columns by which records are grouped.
        ending: Ending of both metrics, such as `_oracle`.
    """
    p, s = (f"{metric}{ending}" for metric in GAINED.values())
    groups = grouped(records, lambda record: tuple(record[name] for name in by)).values()
    by_metric = ({record["metric"]: record for record in group} for group in groups)
    return [(each[p], each[s]) for each in by_metric if {p, s} <= each.keys()]


def _of_curves(curves: Sequence[Curve], k: int, weighting: str) -> Iterator[Mark]:
    p, s = (ScoreKey(metric, k, weighting) for metric in ("polarity", "similarity"))
    for curve in {curve.name: curve for curve in curves if k in curve.ks}.values():
        for point in curve.points:
            yield Mark(curve.name, "curve", point.scores[p], point.scores[s], point.at)
