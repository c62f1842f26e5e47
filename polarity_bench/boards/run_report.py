"""Reports on one encoder as tables, JSON and CSV, and boards as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polarity_bench.boards.unseen_columns import (
    seen_in_training,
    seen_share,
    tasks_with_seen_rows,
    unseen_table,
)
from polarity_bench.metrics.register import METRICS, metric_of, titled_metrics
from polarity_bench.render.csv_text import cell_text
from polarity_bench.render.table import Board, Column, Table
from polarity_bench.results.comparability import pairs_of
from polarity_bench.results.curve import Curve
from polarity_bench.results.result_files import Result, read_arrays, score_with_interval
from polarity_bench.results.score_names import titles
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey, part_title
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.tasks.types.base import Task
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.tasks.types.transfer import ClassifierSpec
from polarity_bench.values import grouped, shortest

_WEIGHTED = ("polarity", "similarity")
"""Metrics that tables of one encoder show in all weightings."""
_OF_SOME_TASKS = 4
"""Detail of metrics that only some tasks have."""


def tables(
    results: Sequence[Result], weighting: str = "linear", columns: Collection[str] = ()
) -> list[Table]:
    """Return tables of one encoder's results: one for each task type, then the details.

    If the encoder was evaluated at several strengths of its axis, each strength has its own rows.

    Args:
        results: Results of the encoder.
        weighting: Weighting of the ranks.
        columns: Titles of the columns to show, or "all". The default is the main scores, and the
            scores over seen and unseen texts.
    """
    of_kinds = grouped(results, lambda result: result.kind)
    laid_out: list[tuple[Table, Collection[str]]] = [
        (_ranked(chosen, weighting), titled_metrics(0))
        if kind.has_k
        else (_plain(chosen), _main_titles(chosen))
        for name, kind in KINDS.items()
        if (chosen := of_kinds.get(name))
    ]
    ranked = [result for result in results if KINDS[result.kind].has_k]
    # All strengths of an encoder have the same training texts, so one result per task is enough.
    known = {result.task: result for result in results if result.seen or result.training}
    of_seen = [_pair(pair, ranked, weighting) for pair in pairs_of(ranked)]
    of_seen += _unseen_tables(results)
    of_seen += [seen_in_training(list(known.values()))] if known else []
    laid_out += [(table, [column.title for column in table.columns]) for table in of_seen]
    of_tasks = grouped(ranked, lambda result: result.task).values()
    laid_out += [(_details(of_task, weighting), ()) for of_task in of_tasks]
    if "all" not in columns:
        laid_out = [(_with_columns(table, columns or main), main) for table, main in laid_out]
    return [table for table, _ in laid_out if table.columns]


def column_titles(tasks: Iterable[Task]) -> set[str]:
    """Return the titles of all columns that tables of these tasks can have."""
    columns = {*titles(), *(f"{title} {weighting}" for title in "PS" for weighting in WEIGHTINGS)}
    for task in tasks:
        if isinstance(task, PolarityTask):
            breakdown = task.spec.protocol.breakdown
            parts = task.query.columns[breakdown] if breakdown else ()
            of_parts = (f"P, {part_title(part)}" for part in parts)
            columns |= {*task.spec.protocol.groups, *of_parts}
    return columns


def _with_columns(table: Table, shown: Collection[str]) -> Table:
    return replace(table, columns=[column for column in table.columns if column.title in shown])


def _main_titles(results: Sequence[Result]) -> list[str]:
    """Return the column titles of the main scores of one task type.

    If no column shows a main score, return all titles.
    """
    columns, main = KINDS[results[0].kind].columns, {result.main_score for result in results}
    return [title for title, key in columns if key in main] or [title for title, _ in columns]


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON values. Scores are fractions; undefined scores are NaN."""
    key, shown = result.key, {key: result.shown(key) for key in result.scores}
    return {
        "task": result.task,
        "kind": result.kind,
        "mteb_name": result.result_name,
        "encoder": key.encoder.name,
        "encoder_digest": key.encoder.digest,
        "reference": key.reference.name if key.reference else None,
        "protocol": dict(key.protocol),
        "run": key.digest,
        "main_score": str(result.main_score),
        "counts": dict(result.counts),
        "seen": result.seen,
        "unseen": result.unseen,
        "seconds": dict(result.seconds),
        "scores": dict(sorted(replace(result, scores=shown).flat.items())),
    }


def board_as_json(board: Board) -> dict[str, Any]:
    """Return a board as JSON values. Scores are fractions, keyed by column title."""
    return {
        "unit": "fraction",
        "title": board.title,
        "tables": [
            {
                "heading": name,
                "rows": [_row(table, i) for i in range(table.n_rows)],
                "notes": list(filter(None, [table.lead, *table.notes])),
            }
            for name, table in board.named_tables
        ],
        "notes": list(board.notes),
    }


def _row(table: Table, i: int) -> dict[str, Any]:
    heads = {title: cells[i] for title, cells in table.heads}
    heads |= {"role": table.roles[i]} if table.roles else {}
    values = {column.title: column.values[i] for column in table.columns}
    ends = {column.title: column.intervals[i] for column in table.columns if column.intervals}
    intervals = {title: pair for title, pair in ends.items() if pair}
    return heads | {"values": values, "intervals": intervals}


def curve_table(curve: Curve, weighting: str = "linear") -> Table:
    """Return the table of a curve: for each k, a row for each point and a row for the front."""
    rows = [(k, point) for k in curve.ks for point in [*curve.points, None]]
    columns = []
    for name in ("polarity", "similarity", "lift", "retention", "joint"):
        metric = METRICS[name]
        scores = [p.scores[ScoreKey(name, k, weighting)] if p else None for k, p in rows]
        columns.append(Column(metric.title or name, metric.shown_values(scores)))
    front = METRICS["front"]
    fronts = {k: front.shown_score(curve.fronts[front.key(k, weighting)]) for k in curve.ks}
    of_rows = [None if point else fronts[k] for k, point in rows]
    columns.append(Column.of("front", of_rows, intervals=True))
    heads = [
        ("task", [curve.task] * len(rows)),
        ("k", [str(k) for k, _ in rows]),
        (curve.dial, [shortest(point.at) if point else "all" for _, point in rows]),
    ]
    return Table("", heads, columns)


def folds_csv(results: Iterable[Result]) -> str:
    """Return the fold scores of transfer and probing tasks as CSV, in fractions."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["encoder", "encoder_digest", "task", "protocol", "fold", "accuracy", "reg"])
    for result in results:
        if issubclass(KINDS[result.kind], ClassifierSpec):
            arrays, key = read_arrays(result.path), result.key
            names = [key.encoder.label, key.encoder.digest, result.task, key.protocol_label]
            head = [cell_text(name) for name in names]
            scores = zip(arrays["fold_accuracy"], arrays["fold_regularization"], strict=True)
            writer.writerows([*head, fold, *map(float, pair)] for fold, pair in enumerate(scores))
    return lines.getvalue()


def samples_jsonl(task: Task, path: Path) -> str:
    """Return the retrieved texts of a stored result, as one line of JSON for each query."""
    lines = (json.dumps(sample, ensure_ascii=False) for sample in task.retrieved(read_arrays(path)))
    return "".join(f"{line}\n" for line in lines)


def _plain(results: Sequence[Result]) -> Table:
    main = {result.main_score for result in results}
    columns = [
        Column.of(title, [_score(result, key) for result in results], intervals=key in main)
        for title, key in KINDS[results[0].kind].columns
        if any(key in result.scores for result in results)
    ]
    return _table(results, columns, protocol=[r.key.protocol_label for r in results])


def _table(results: Sequence[Result], columns: Sequence[Column], **heads: Sequence[str]) -> Table:
    """Return a table with a row for each result."""
    tasks = [result.task for result in results]
    return Table("", [("task", tasks), *heads.items(), *_strengths(results)], columns)


def _score(result: Result, key: ScoreKey) -> Score | None:
    """Return a score as it is shown, with its interval; None if it is missing."""
    score = score_with_interval(result, key)
    return metric_of(key.metric).shown_score(score) if score else None


def _unseen_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables of scores over all rows and over unseen rows, by task type and protocol."""
    tasks = tasks_with_seen_rows(results)
    shown = (result for result in results if result.task in tasks)
    by_group = grouped(shown, lambda result: (result.kind, result.key.protocol_label))
    return [
        unseen_table([("task", [result.task for result in group]), *_strengths(group)], group)
        for group in by_group.values()
    ]


def _ranked(results: Sequence[Result], weighting: str) -> Table:
    """Return the table of retrieval tasks, with a row for each task and k.

    P and S are shown in all weightings, the other scores only in the selected weighting.
    """
    rows, known = _rows(results), titled_metrics(_OF_SOME_TASKS - 1).values()
    others = [other for other in WEIGHTINGS if other != weighting]
    shown = [(m.title, m, weighting) for m in known if m.detail < 2]
    main = {title for title, *_ in shown}
    shown += [(f"{m.title} {w}", m, w) for w in others for m in known if m.name in _WEIGHTED]
    shown += [(m.title, m, weighting) for m in known if m.detail >= 2]
    columns = [
        _column(title, rows, [m.key(k, w) for _, k in rows], intervals=title in main)
        for title, m, w in shown
    ]
    columns = [_without_empty_intervals(c) for c in columns if {*c.values} != {None}]
    return _table([result for result, _ in rows], columns, k=[str(k) for _, k in rows])


def _rows(results: Sequence[Result]) -> list[tuple[Result, int]]:
    return [(result, k) for result in results for k in result.ks]


def _column(
    title: str,
    rows: Sequence[tuple[Result | None, int]],
    keys: Sequence[ScoreKey],
    *,
    intervals: bool = False,
) -> Column:
    """Return the column of the score that each row has under its key."""
    scores = [_score(r, key) if r else None for (r, _), key in zip(rows, keys, strict=True)]
    return Column.of(title, scores, intervals=intervals)


def _without_empty_intervals(column: Column) -> Column:
    """Return a column without intervals of zero width.

    Retention has such an interval if the encoder is its own reference.
    """
    ends = [pair if pair and pair[0] < pair[1] else None for pair in column.intervals]
    return replace(column, intervals=ends)


def _strengths(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Return the leading column of strengths; [] if no result has a strength."""
    strengths = [result.key.encoder.strength for result in results]
    if strengths.count(None) == len(strengths):
        return []
    return [("strength", ["" if each is None else shortest(each) for each in strengths])]


def _pair(pair: tuple[str, str], results: Sequence[Result], weighting: str) -> Table:
    """Return the table of a task and its copy on unseen sources, by strength and k."""
    both = [
        {(r.key.encoder.strength, k): r for r, k in _rows(results) if r.task == task}
        for task in pair
    ]
    some = both[1] | both[0]
    places = list(both[0] | both[1])
    columns = []
    for ending, by_place in zip(("", ", unseen"), both, strict=True):
        rows = [(by_place.get(place), place[1]) for place in places]
        for metric in map(METRICS.__getitem__, _WEIGHTED):
            keys = [metric.key(k, weighting) for _, k in rows]
            columns.append(_column(f"{metric.title}{ending}", rows, keys, intervals=True))
        shares = [seen_share(result) if result else None for result, _ in rows]
        columns.append(Column(f"seen{ending}", shares))
    heads = [("k", [str(k) for _, k in places]), *_strengths([some[place] for place in places])]
    task, unseen = pair
    title = f"{task}: sources of the training file, as in the papers, and unseen ones ({unseen})"
    return Table(title, heads, columns)


def _details(results: Sequence[Result], weighting: str) -> Table:
    """Return the table of scores that only some tasks have.

    These scores are shares of groups, accuracy on minimal pairs, and P by part. The table has a row
    for each result and k.
    """
    first, rows = results[0], _rows(results)
    titles = {
        key: f"P, {part}"
        if (part := part_title(key.part))
        else metric_of(key.metric).title or key.metric
        for key in sorted(first.scores, key=lambda key: (key.part or "", key.k is None, str(key)))
        if (
            (key.k, key.weighting) == (first.ks[-1], weighting)
            and (key.part is not None or key.metric not in METRICS)
        )
        or metric_of(key.metric).detail == _OF_SOME_TASKS
    }
    columns = [
        _column(title, rows, [replace(key, k=key.k and k) for _, k in rows])
        for key, title in titles.items()
    ]
    return _table([result for result, _ in rows], columns, k=[str(k) for _, k in rows])
