"""What is said of one encoder's results: tables, JSON, and the scores of each fold."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polarity_bench.boards.table import Board, Column, Table
from polarity_bench.kinds import KINDS
from polarity_bench.kinds.polarity_scores import METRICS
from polarity_bench.kinds.task import Task
from polarity_bench.results import Result, read_arrays
from polarity_bench.types import WEIGHTINGS, ScoreKey, Weighting


def tables(results: Sequence[Result], weighting: Weighting = "linear") -> list[Table]:
    """Lay out the results of one encoder: a table for each kind of task, then details."""
    laid_out = []
    for name, kind in KINDS.items():
        chosen = [result for result in results if result.kind == name]
        if chosen:
            lay_out = _ranked if kind.ranks else _plain
            laid_out.append(lay_out(chosen, weighting))
    details = (_details(result, weighting) for result in results if KINDS[result.kind].ranks)
    return laid_out + [detail for detail in details if detail.columns]


def as_json(result: Result) -> dict[str, Any]:
    """Lay a result out for a program to read: scores are fractions, undefined ones null."""
    key = result.key
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
        "seconds": dict(result.seconds),
        "scores": {name: _defined(value) for name, value in sorted(result.flat.items())},
    }


def board_as_json(board: Board) -> dict[str, Any]:
    """Lay a board out for a program to read: fractions by the titles of their columns."""
    return {
        "unit": "fraction",
        "title": board.title,
        "tables": [
            {"heading": table.heading, "rows": [_row(table, i) for i in range(table.n_rows)]}
            for table in board.tables
        ],
        "notes": list(board.notes),
    }


def _row(table: Table, i: int) -> dict[str, Any]:
    heads = {title: cells[i] for title, cells in table.heads}
    heads |= {"role": table.roles[i]} if table.roles else {}
    values = {column.title: _defined(column.values[i]) for column in table.columns}
    ends = {column.title: column.intervals[i] for column in table.columns if column.intervals}
    return heads | {
        "values": values,
        "intervals": {title: list(map(_defined, pair)) for title, pair in ends.items() if pair},
    }


def _defined(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def folds_csv(stored: Iterable[tuple[Result, Path]]) -> str:
    """Lay out the scores of each fold of the transfer tasks, as fractions."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["encoder", "encoder_digest", "task", "protocol", "fold", "accuracy", "reg"])
    for result, path in stored:
        if result.kind != "transfer":
            continue
        arrays = read_arrays(path)
        folds = zip(arrays["fold_accuracy"], arrays["fold_regularization"], strict=True)
        encoder, protocol = result.key.encoder, result.key.protocol_label
        for fold, (accuracy, regularization) in enumerate(folds):
            row = [encoder.label, encoder.digest, result.task, protocol, fold]
            writer.writerow([*row, float(accuracy), float(regularization)])
    return lines.getvalue()


def samples_jsonl(task: Task, path: Path) -> str:
    """Lay out what was retrieved, a JSON line for each query, from a stored result of the task."""
    arrays = read_arrays(path)
    lines = (json.dumps(sample, ensure_ascii=False) for sample in task.retrieved(arrays))
    return "".join(f"{line}\n" for line in lines)


def _plain(results: Sequence[Result], _: Weighting) -> Table:
    columns = [
        Column.of(title, [result.scores.get(key) for result in results])
        for title, key in KINDS[results[0].kind].columns
        if any(key in result.scores for result in results)
    ]
    heads = [
        ("task", [result.task for result in results]),
        ("protocol", [result.key.protocol_label for result in results]),
    ]
    return Table("", heads, columns)


def _ranked(results: Sequence[Result], weighting: Weighting) -> Table:
    """A row for each task and k. P and S stand in both weightings, the rest in the one asked."""
    rows = [(result, k) for result in results for k in result.ks]
    (other,) = set(WEIGHTINGS) - {weighting}
    wanted = [
        ("P", "polarity", weighting),
        ("S", "similarity", weighting),
        ("retention", "retention", weighting),
        ("joint", "joint", weighting),
        ("front", "front", weighting),
        (f"P {other}", "polarity", other),
        (f"S {other}", "similarity", other),
        ("kNN accuracy", "knn_accuracy", weighting),
    ]
    columns = [
        Column.of(
            title,
            [result.scores.get(ScoreKey(metric, k, w)) for result, k in rows],
            intervals=metric in {"joint", "front"},
        )
        for title, metric, w in wanted
        if metric != "front" or any(key.metric == "front" for r in results for key in r.scores)
    ]
    columns.append(Column.of("SgTS", [result.scores.get(ScoreKey("sgts")) for result, _ in rows]))
    heads = [("task", [result.task for result, _ in rows]), ("k", [str(k) for _, k in rows])]
    return Table("", heads, columns)


def _details(result: Result, weighting: Weighting) -> Table:
    """Lay out what only some tasks have, a row for each k: shares of groups, pairs, P by part."""
    own = [
        key
        for key in sorted(result.scores, key=str)
        if (key.k, key.weighting) == (result.ks[-1], weighting)
        and (key.part or key.metric not in METRICS)
    ]
    pairs = result.scores.get(ScoreKey("pairwise_accuracy"))
    columns = [_at_every_k(key.metric, key, result) for key in own if not key.part]
    columns += [Column.of("minimal pairs", [pairs] * len(result.ks))] if pairs else []
    columns += [_at_every_k(f"P, {key.part}", key, result) for key in own if key.part]
    ks = [str(k) for k in result.ks]
    return Table("", [("task", [result.task] * len(ks)), ("k", ks)], columns)


def _at_every_k(title: str, key: ScoreKey, result: Result) -> Column:
    return Column.of(title, [result.scores.get(replace(key, k=k)) for k in result.ks])
