"""`polarity-bench compare`: a paired test of two encoders on one task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarity_bench.cli.options import DataFlags, Weight
from polarity_bench.cli.output import OutputFlags, remark
from polarity_bench.errors import InputError, MissingDataError, check_at_least

if TYPE_CHECKING:
    from polarity_bench.compare.paired_comparison import ChangedQuery, Comparison
    from polarity_bench.results.result_files import Result
    from polarity_bench.scores import ScoreKey

Items = Sequence[Mapping[str, str]]


def compare(
    *,
    a: Annotated[str, "Encoder A: name or digest in the results, result file, or folder.", "A"],
    b: Annotated[str, "Encoder B, which is compared with A.", "B"],
    task: Annotated[str, "Task on which both encoders have results.", "-t"],
    results: Annotated[Path, "Folder with the results."] = Path("results"),
    measure: Annotated[
        str | None,
        "Score to compare: P, S, joint, accuracy, 'P, PART', ... [default: the task's main score].",
    ] = None,
    weighting: Weight = "linear",
    n_changed: Annotated[
        int, "Number of queries to show, those with the largest changes first.", "--changed"
    ] = 10,
    fail_if_worse: Annotated[
        bool, "Use a one-sided test, and exit with code 1 if B is significantly worse than A."
    ] = False,
    data: Annotated[DataFlags, ("data_dir", "task_dir")],
    out: OutputFlags,
) -> None:
    """Test whether two encoders differ on a task.

    The command reads the values per query that `run` stores with its results. It prints the
    difference of the scores, a paired test and the queries that changed most. Means are tested by
    permutation; joint, retention, front and correlations by a paired bootstrap. The texts of the
    queries are shown only if the task's data is on this machine.
    """
    from polarity_bench.compare.gate_baseline import check_decidable
    from polarity_bench.compare.paired_comparison import compare as compare_two
    from polarity_bench.compare.paired_comparison import contenders, pair_up

    check_at_least(0, n_changed=n_changed)
    ones, others = (contenders(results, name, task) for name in (a, b))
    aligned, instead = pair_up(ones, others, measure, weighting)
    if instead and fail_if_worse:
        raise InputError(
            f"`fail_if_worse`: {instead}; evaluate both with the same `reference`, or compare only "
            "P with `measure` P, which does not detect a loss of meaning"
        )
    if fail_if_worse:
        check_decidable(aligned)
    if instead:
        remark(instead)
    found = compare_two(aligned, n_changed, alternative="less" if fail_if_worse else "two-sided")
    result = aligned.results[0]
    if result.limit is not None:
        remark(f"{result.task}: the results cover only {result.limit} queries or rows")
    items = _items(result, data) if found.changed else ()
    out.show(lambda: _as_json(found, items), lambda: _text(found, items, out.width))
    if fail_if_worse and found.falls:
        raise typer.Exit(1)


def _items(result: Result, data: DataFlags) -> Items:
    """Load the texts of a result's queries. If they are not available, report the reason."""
    from polarity_bench.tasks.types.base import Settings

    access = replace(data, offline=True).access()
    try:
        spec = data.task(result.task)
        loaded = spec.load(access, Settings(ks=result.ks, limit=result.limit))
        if (spec.digest, loaded.digest) == (result.key.task, result.key.data):
            return loaded.items
        why = f"{spec.file} or its data has changed since the results were stored"
    except MissingDataError:
        why = (
            f"the data of {result.task} is not on this machine; name its folder with `data_dir`, "
            "or run `polarity-bench data fetch` first"
        )
    except InputError as error:
        why = str(error)
    remark(f"queries are shown by number, without texts: {why}")
    return ()


def _text(found: Comparison, items: Items, width: int | None) -> str:
    from polarity_bench.boards.unseen_columns import seen_parts, seen_words
    from polarity_bench.render.format import decimal, percent, probability
    from polarity_bench.render.markdown import escape, table

    aligned, test = found.aligned, found.test
    key, result = aligned.key, aligned.results[0]
    sides = [(result.key.encoder, result.shown(key)) for result in aligned.results]
    heads = [
        ("", ["A", "B"]),
        ("encoder", [encoder.label for encoder, _ in sides]),
        ("digest", [encoder.digest for encoder, _ in sides]),
        (str(key), [percent(score.mean) for _, score in sides]),
        ("95 %", [interval_text(score.ci95) for _, score in sides]),
    ]
    if any(seen := [seen_words(seen_parts(result)) for result in aligned.results]):
        heads.append(("contamination", seen))
    low, high = (percent(end, sign="+") for end in test.interval)
    units = aligned.n_units
    counted = f"{aligned.n_queries:,} queries"
    counted += "" if units == aligned.n_queries else f" in {units:,} units"
    if found.alternative == "two-sided":
        tails, verdict = "two-sided", "significant" if found.is_significant else "not significant"
    else:
        tails, verdict = "one-sided", "B is worse" if found.falls else "no significant decrease"
    level = f"{100 * found.interval_level:g} %"
    p = "n/a (too few queries)" if math.isnan(test.p) else probability(test.p)
    difference = f"{percent(test.difference, sign='+')} points, {level} interval {low} to {high}"
    parts = [
        f"## {escape(result.task)}, {escape(str(key))}",
        table(heads, width=width),
        f"B minus A: {difference}, p = {p} ({found.method}), over {counted}: {verdict} at 5 %.",
    ]
    if not math.isnan(found.detectable):
        parts.append(
            f"Minimum detectable difference (80 % power, p < 0.05, {tails}): "
            f"{percent(found.detectable, 1)} points."
        )
    if found.changed:
        changed = _changed_columns(
            found.changed, items, decimal if aligned.is_correlation else percent
        )
        several = f"{found.n_changed:,} of {aligned.n_queries:,} queries differ"
        parts += [
            f"{several}; these contribute most:",
            table(changed, width=width),
        ]
    elif not found.n_changed:
        parts.append("No query differs.")
    return "\n\n".join([*parts, "Scores times 100."])


def _changed_columns(
    changed: Sequence[ChangedQuery], items: Items, shown: Callable[[float, int], str]
) -> list[tuple[str, list[str]]]:
    """Return table columns of queries: number from 1, text, other fields, values of A and B."""
    known = [dict(items[each.query]) if items else {} for each in changed]
    columns = [("query", [str(each.query + 1) for each in changed])]
    columns += [(title, [item[title] for item in known]) for title in known[0]]
    return columns + [
        (f"{title} of {name}", [shown(each.values[title][i], 2) for each in changed])
        for title in changed[0].values
        for i, name in enumerate("AB")
    ]


def comparison_columns(
    compared: Sequence[Comparison], names: tuple[str, str]
) -> list[tuple[str, list[str]]]:
    """Return table columns with a row for each comparison, all of the same level.

    Args:
        compared: The comparisons.
        names: Titles of the scores of the first and the second encoder.
    """
    from polarity_bench.metrics.register import metric_of
    from polarity_bench.render.format import percent, probability

    scores = [metric_of(e.aligned.key.metric).shown_values(e.aligned.scores) for e in compared]
    return [
        ("task", [each.task for each in compared]),
        ("measure", [_measure(each.aligned.key) for each in compared]),
        *((name, [percent(pair[i]) for pair in scores]) for i, name in enumerate(names)),
        ("difference", [percent(each.test.difference, sign="+") for each in compared]),
        (
            f"{100 * compared[0].interval_level:g} %",
            [interval_text(each.test.interval, sign="+") for each in compared],
        ),
        ("p", [probability(each.test.p) for each in compared]),
        ("detectable", [percent(each.detectable, 1) for each in compared]),
    ]


def _measure(key: ScoreKey) -> str:
    """Return the title of a score as in other tables, with its k and other settings."""
    from polarity_bench.metrics.register import metric_of
    from polarity_bench.scores import part_title

    settings = ["" if key.k is None else f"k = {key.k}", part_title(key.part)]
    settings += ["" if key.weighting == "linear" else key.weighting]
    return ", ".join(filter(None, [metric_of(key.metric).title or key.metric, *settings]))


def interval_text(ends: tuple[float, float], sign: Literal["", "+"] = "") -> str:
    """Return an interval of fractions as text in percent, such as `3.1 to 5.2`."""
    from polarity_bench.render.format import MISSING, percent

    return MISSING if math.isnan(ends[0]) else " to ".join(percent(end, sign=sign) for end in ends)


def comparison_json(found: Comparison, names: tuple[str, str]) -> dict[str, Any]:
    """Return a comparison as a JSON object.

    Args:
        found: The comparison.
        names: JSON keys of the first and the second encoder.
    """
    aligned, test = found.aligned, found.test
    sides = {
        name: {
            "encoder": result.key.encoder.name,
            "encoder_digest": result.key.encoder.digest,
            "file": str(result.path),
            "score": result.shown(aligned.key).mean,
            "seen": result.seen,
        }
        for name, result in zip(names, aligned.results, strict=True)
    }
    return {
        "task": found.task,
        "measure": str(aligned.key),
        **sides,
        "difference": test.difference,
        "interval": test.interval,
        "interval_level": found.interval_level,
        "p": test.p,
        "method": found.method,
        "n": aligned.n_queries,
        "units": aligned.n_units,
        "detectable": found.detectable,
    }


def _as_json(found: Comparison, items: Items) -> dict[str, Any]:
    changed = [
        {
            "query": each.query,
            **(items[each.query] if items else {}),
            "moved": each.moved,
            **each.values,
        }
        for each in found.changed
    ]
    return {
        "unit": "fraction",
        **comparison_json(found, ("a", "b")),
        "significant": found.is_significant,
        "changed": changed,
    }
