"""Rows of methods: seeds of one method are one row, and so are the strengths of one dial.

A method is what `board.toml` lists under `[[method]]`; any other encoder is a method by itself.
The strength of a dial is chosen on the shown tasks, by the mean over the seeds. Therefore a row
with a chosen strength is never ranked and never bold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from polarity_bench.boards.config import Method
from polarity_bench.boards.rows import BoardRow, curve_rows
from polarity_bench.results.comparability import Entry, Group
from polarity_bench.results.curve import Curve
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.types.polarity.scoring import unclipped
from polarity_bench.values import digest_of


def recorded_methods(results: Iterable[Result], listed: Sequence[Method]) -> list[Method]:
    """Return the methods that results record: trainings that differ in nothing but the seed.

    Args:
        results: The results of a board.
        listed: The methods that the board lists; their encoders belong to no other method.
    """
    taken = {name for method in listed for name in method.encoders}
    by_training: dict[str, dict[int, str]] = {}
    for result in results:
        name, training = result.key.encoder.name, dict(result.training or {})
        seed = training.pop("seed", None)
        if seed is not None and not {name, name.rpartition("/")[2]} & taken:
            by_training.setdefault(digest_of(training), {})[seed] = name
    return [
        Method(name=names[0].rstrip("-_. 0123456789") or names[0], encoders=names)
        for seeds in by_training.values()
        if len(names := tuple(sorted({*seeds.values()}))) > 1
    ]


@dataclass(frozen=True)
class _Run:
    """One training of a method, or one encoder: its rows by strength, and its curves by task."""

    name: str
    rows: Mapping[float, BoardRow]
    curves: Sequence[Curve] = ()


def method_rows(
    rows: Sequence[BoardRow],
    curves: Sequence[Curve],
    ranked: Group,
    tasks: Sequence[str],
    methods: Sequence[Method],
    names: Mapping[str, Iterable[str]],
    keep: float | None = None,
) -> list[BoardRow]:
    """Return one row for each method; the rows that it stands for are its `members`.

    Args:
        rows: The rows of the encoders.
        curves: Curves over the strengths of encoders.
        ranked: The retrieval tasks.
        tasks: The tasks on whose mean a strength is chosen.
        methods: The methods that the board lists.
        names: The names by which each encoder can be listed, by digest.
        keep: The strength has the highest P among those whose retention is at least this fraction;
            by default it has the highest joint.
    """
    listed = {name: method.name for method in methods for name in method.encoders}
    runs = _runs(sorted(rows, key=lambda row: (row.name, row.entry)), curves, tasks)
    by_method: dict[tuple[str, str, int], list[_Run]] = {}
    for number, run in enumerate(runs):
        entry = next(iter(run.rows.values())).entry
        known = [run.name, *names.get(entry.encoder, ())]
        name = next((listed[each] for each in known if each in listed), "")
        key = (name or f"\0{number}", entry.reference if name else "", entry.k)
        by_method.setdefault(key, []).append(run)
    return [
        _method_row(name.partition("\0")[0] or several[0].name, several, ranked, tasks, keep)
        for (name, _, _), several in by_method.items()
    ]


def _runs(rows: Sequence[BoardRow], curves: Sequence[Curve], tasks: Sequence[str]) -> list[_Run]:
    by_entry = {row.entry: row for row in rows}
    dials: dict[tuple[str, str, str, int], dict[str, Curve]] = {}
    for curve in curves:
        for k in curve.ks:
            whose = (curve.encoder, curve.dial, curve.reference.digest, k)
            dials.setdefault(whose, {})[curve.task] = curve
    runs, taken = [], set()
    for (_, _, reference, k), by_task in dials.items():
        if not tasks or not set(tasks) <= by_task.keys():
            continue
        own = [by_task[task] for task in tasks]
        entries = {
            point.at: Entry(point.encoder, "" if point.encoder == reference else reference, k)
            for point in own[0].points
            if all(point.at in {other.at for other in curve.points} for curve in own)
        }
        if all(entry in by_entry for entry in entries.values()):
            points = {at: by_entry[entry] for at, entry in entries.items()}
            runs.append(_Run(own[0].name, points, own))
            taken |= {entry for entry in entries.values() if entry.reference}
    return [*runs, *(_Run(row.name, {math.nan: row}) for row in rows if row.entry not in taken)]


def _method_row(
    name: str, runs: Sequence[_Run], ranked: Group, tasks: Sequence[str], keep: float | None
) -> BoardRow:
    has_dial = all(run.curves for run in runs)
    if not has_dial and any(run.curves for run in runs):
        runs = [run for run in runs if run.curves]
        has_dial = True
    if not has_dial:
        members = [next(iter(run.rows.values())) for run in runs]
        if len(members) == 1 and name == members[0].name:
            return members[0]
        return _combined(name, members, members)
    shared = sorted(set.intersection(*(set(run.rows) for run in runs)))
    chosen = max(shared, key=lambda at: _worth([run.rows[at] for run in runs], tasks, keep))
    members = []
    for run in runs:
        row = run.rows[chosen]
        of_curve = curve_rows(ranked, run.curves, tasks, at=chosen)
        (curve,) = (other for other in of_curve if other.entry.k == row.entry.k)
        members.append(replace(row, scores={**row.scores, **curve.scores}))
    singles = list(dict.fromkeys(row.entry for run in runs for row in run.rows.values()))
    by_entry = {row.entry: row for run in runs for row in run.rows.values()}
    return replace(
        _combined(name, members, [by_entry[entry] for entry in singles]),
        strength=chosen,
        n_strengths=len(shared),
        dial=runs[0].curves[0].dial,
    )


def _combined(name: str, members: Sequence[BoardRow], singles: Sequence[BoardRow]) -> BoardRow:
    first = members[0]
    row = BoardRow(
        name, first.entry, {}, "method", members=members, singles=singles, detail=first.detail
    )
    tasks = [task for task in first.scores if all(task in member.scores for member in members)]
    scores = {
        task: {
            metric: score for metric in first.scores[task] if (score := row.mean([task], metric))
        }
        for task in tasks
    }
    return replace(row, scores=scores)


def _worth(
    rows: Sequence[BoardRow], tasks: Sequence[str], keep: float | None
) -> tuple[bool, float, float]:
    """Return the sort key of a strength, from its rows of all seeds; the greatest is chosen."""

    def mean(metric: str) -> float:
        means = [unclipped(row.scores[task], metric).mean for row in rows for task in tasks]
        return fmean(means) if not any(map(math.isnan, means)) else -math.inf

    if keep is None:
        return True, mean("joint"), mean("polarity")
    return mean("retention") >= keep, mean("polarity"), mean("joint")
