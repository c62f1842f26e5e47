"""Tables of results: one run's, and a board of many encoders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from polarity_bench.leaderboard.markdown import Column, escape, table
from polarity_bench.metrics.polarity import Weighting
from polarity_bench.protocols.polarity import score_name
from polarity_bench.results import Result

# Title, metric, whether a greater value is better whoever the reference is.
_METRICS = (
    ("P", "polarity", True),
    ("S", "similarity", False),
    ("retention", "retention", True),
    ("joint", "joint", True),
    ("kNN accuracy", "knn_accuracy", True),
)


def run_table(results: Sequence[Result], weighting: Weighting = "linear") -> str:
    """Render the results of one encoder: a row for each task and k.

    P and S stand in both weightings; the other metrics in the one asked for.
    """
    rows = [(result, k) for result in results for k in ks_of(result)]
    other: Weighting = "uniform" if weighting == "linear" else "linear"
    columns = [
        _column(rows, f"{title} {w}" if w == other else title, metric, w)
        for title, metric, w in [
            ("P", "polarity", weighting),
            ("S", "similarity", weighting),
            ("P", "polarity", other),
            ("S", "similarity", other),
            ("retention", "retention", weighting),
            ("joint", "joint", weighting),
            ("kNN accuracy", "knn_accuracy", weighting),
        ]
    ]
    columns.append(Column("SgTS", [r.scores.get("sgts") for r, _ in rows], best=False))
    heads = [("task", [r.task for r, _ in rows]), ("k", [str(k) for _, k in rows])]
    return table(heads, columns)


def detail_table(result: Result, weighting: Weighting = "linear") -> str | None:
    """Render what only some tasks have: shares of groups, P by part, minimal pairs."""
    k = ks_of(result)[-1]
    known = {score_name(metric, weighting, k) for _, metric, _ in _METRICS}
    known |= {score_name("similarity_reference", weighting, k), f"overlap_at_{k}"}
    suffix = score_name("", weighting, k)
    shown = {
        name.removesuffix(suffix).replace("polarity_", "P, "): value
        for name, value in result.scores.items()
        if name.endswith(suffix)
        and name not in known
        and not (weighting == "linear" and name.endswith(f"_uniform_at_{k}"))
    }
    if "pairwise_accuracy" in result.scores:
        shown["minimal pairs"] = result.scores["pairwise_accuracy"]
    if not shown:
        return None
    columns = [Column(escape(title), [value], best=False) for title, value in shown.items()]
    return table([("task", [result.task]), ("k", [str(k)])], columns)


def board(results: Iterable[Result], weighting: Weighting = "linear") -> str:
    """Render a board: means over the tasks, then a table for each task.

    Rows are sorted by the mean joint score, best first; the best of a column is in bold. S is
    never bold where its references differ. A mean stands only where the encoder has every task.
    """
    chosen = sorted(results, key=lambda r: (r.task, r.key.encoder.label, _reference(r)))
    rows: dict[tuple[str, str, str, int], dict[str, Result]] = {}
    for result in chosen:
        for k in ks_of(result):
            encoder = result.key.encoder
            row = (encoder.label, encoder.digest, _reference(result), k)
            rows.setdefault(row, {})[result.task] = result
    tasks = sorted({result.task for result in chosen})

    def mean(row: tuple[str, str, str, int], metric: str) -> float | None:
        name = score_name(metric, weighting, row[3])
        values = [rows[row][task].scores[name] for task in tasks if task in rows[row]]
        return sum(values) / len(values) if len(values) == len(tasks) else None

    order = sorted(rows, key=lambda row: (-(mean(row, "joint") or -1.0), row))
    sections = []
    if len(tasks) > 1:
        columns = [
            Column(title, [mean(row, metric) for row in order], best=comparable)
            for title, metric, comparable in _METRICS
        ]
        title = f"Mean over {len(tasks)} tasks"
        sections.append(f"## {title}\n\n{table(_heads(order), columns)}")
    for task in tasks:
        present = [row for row in order if task in rows[row]]
        cells = [(rows[row][task], row[3]) for row in present]
        one_reference = len({r.key.reference for r, _ in cells} - {None}) == 1 and all(
            r.key.reference for r, _ in cells
        )
        columns = [
            _column(cells, title, metric, weighting, best=comparable or one_reference)
            for title, metric, comparable in _METRICS
        ]
        sections.append(f"## {escape(task)}\n\n{table(_heads(present), columns)}")
    return "\n\n".join([*sections, _legend(weighting)]) + "\n"


def ks_of(result: Result) -> list[int]:
    """Return the k's that a result holds, ascending."""
    found = (re.fullmatch(r"joint_at_(\d+)", name) for name in result.scores)
    return sorted(int(match[1]) for match in found if match)


def _reference(result: Result) -> str:
    return result.key.reference.label if result.key.reference else "itself"


def _heads(rows: Sequence[tuple[str, str, str, int]]) -> list[tuple[str, list[str]]]:
    """Leading columns; encoders of one name are told apart by their digest."""
    digests: dict[str, set[str]] = {}
    for label, digest, *_ in rows:
        digests.setdefault(label, set()).add(digest)
    names = [
        f"{label} @{digest[:8]}" if len(digests[label]) > 1 else label for label, digest, *_ in rows
    ]
    return [
        ("encoder", names),
        ("reference", [row[2] for row in rows]),
        ("k", [str(row[3]) for row in rows]),
    ]


def _column(
    cells: Sequence[tuple[Result, int]],
    title: str,
    metric: str,
    weighting: Weighting,
    best: bool = False,
) -> Column:
    return Column(title, [r.scores.get(score_name(metric, weighting, k)) for r, k in cells], best)


def _legend(weighting: Weighting) -> str:
    return (
        f"All numbers times 100, ranks weighted {weighting}ly. P: polarity score; S: semantic "
        "similarity score under the reference, comparable only where the reference is the same; "
        "retention: how much of the reference's own S beyond chance is kept; joint: harmonic mean "
        "of P's lift over chance and of retention."
    )
