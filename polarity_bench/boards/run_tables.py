"""Tables of one run's results: one for each kind of task, each naming its protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polarity_bench.boards.markdown import Column, table
from polarity_bench.protocols.polarity import score_name
from polarity_bench.results import Result
from polarity_bench.types import Weighting

_PLAIN = {
    "transfer": (
        ("accuracy", "accuracy"),
        ("dev accuracy", "dev_accuracy"),
        ("macro-F1", "macro_f1"),
        ("F1", "f1"),
    ),
    "relatedness": (("Pearson", "pearson"), ("Spearman", "spearman")),
    "sts": (
        ("Spearman all", "spearman_all"),
        ("Spearman mean", "spearman_mean"),
        ("Spearman wmean", "spearman_wmean"),
        ("Pearson all", "pearson_all"),
    ),
}


def run_tables(results: Sequence[Result], weighting: Weighting = "linear") -> list[str]:
    """Render the results of one encoder: a table for each kind of task, then details."""
    tables = []
    retrieval = [result for result in results if result.kind == "polarity"]
    if retrieval:
        tables.append(_polarity_table(retrieval, weighting))
    for kind, metrics in _PLAIN.items():
        chosen = [result for result in results if result.kind == kind]
        if chosen:
            columns = [
                Column(title, [result.flat.get(metric) for result in chosen], best=False)
                for title, metric in metrics
                if any(metric in result.flat for result in chosen)
            ]
            heads = [
                ("task", [result.task for result in chosen]),
                ("protocol", [protocol_label(result) for result in chosen]),
            ]
            tables.append(table(heads, columns))
    details = (_detail_table(result, weighting) for result in retrieval)
    return tables + [detail for detail in details if detail is not None]


def protocol_label(result: Result) -> str:
    """Name a result's protocol, with its preset and folds where it has any."""
    protocol = result.key.protocol
    preset = f" {protocol['preset']}" if "preset" in protocol else ""
    folds = f", k = {protocol['kfold']}" if "kfold" in protocol else ""
    return f"{protocol['name']}{preset}{folds}"


def ks_of(result: Result) -> list[int]:
    """Return the k's that a polarity result holds, ascending."""
    found = (re.fullmatch(r"joint_at_(\d+)", name) for name in result.flat)
    return sorted(int(match[1]) for match in found if match)


def _polarity_table(results: Sequence[Result], weighting: Weighting) -> str:
    """A row for each task and k. P and S stand in both weightings, the rest in the one asked."""
    rows = [(result, k) for result in results for k in ks_of(result)]
    other: Weighting = "uniform" if weighting == "linear" else "linear"
    wanted = [
        ("P", "polarity", weighting),
        ("S", "similarity", weighting),
        (f"P {other}", "polarity", other),
        (f"S {other}", "similarity", other),
        ("retention", "retention", weighting),
        ("joint", "joint", weighting),
        ("kNN accuracy", "knn_accuracy", weighting),
    ]
    columns = [
        Column(title, [r.flat.get(score_name(metric, w, k)) for r, k in rows], best=False)
        for title, metric, w in wanted
    ]
    columns.append(Column("SgTS", [r.flat.get("sgts") for r, _ in rows], best=False))
    heads = [("task", [r.task for r, _ in rows]), ("k", [str(k) for _, k in rows])]
    return table(heads, columns)


_COMMON = ("polarity", "similarity", "similarity_reference", "retention", "joint", "knn_accuracy")


def _detail_table(result: Result, weighting: Weighting) -> str | None:
    """Render what only some tasks have: shares of groups, P by part, minimal pairs."""
    k = ks_of(result)[-1]
    common = {score_name(metric, w, k) for metric in _COMMON for w in ("linear", "uniform")}
    ending = score_name("", weighting, k)
    shown = {
        name.removesuffix(ending).replace("polarity_of_", "P, "): value
        for name, value in sorted(result.flat.items())
        if name.endswith(ending)
        and name not in {*common, f"overlap_at_{k}"}
        and (weighting == "uniform" or "_uniform_at_" not in name)
    }
    if "pairwise_accuracy" in result.flat:
        shown["minimal pairs"] = result.flat["pairwise_accuracy"]
    if not shown:
        return None
    columns = [Column(title, [value], best=False) for title, value in shown.items()]
    return table([("task", [result.task]), ("k", [str(k)])], columns)
