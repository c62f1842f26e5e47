"""Tables of cross-validations, which compare each method with cross-entropy.

A star marks a difference from cross-entropy alone (CCE) with p < 0.05 over the paired folds, as in
the few-shot paper. A dagger marks a difference that is still significant after Holm's correction
for all methods of its column. The first table under a heading shows the scores. The tables below
it, one for each data set, show differences and tests.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.boards.config import FILE, Heading, board_file
from polarity_bench.boards.provenance_notes import measured_detail
from polarity_bench.boards.rank_notes import rank_text
from polarity_bench.boards.records import with_rows
from polarity_bench.cross_validation.chance import MAJORITY, PRIOR, is_at_chance
from polarity_bench.cross_validation.fold_results import read_experiments
from polarity_bench.cross_validation.records import (
    MEASURES,
    fold_records,
    n_planned,
    published_folds,
)
from polarity_bench.metrics.pairwise import LEVEL, holm_of_pairs, rank_ranges_of_pairs
from polarity_bench.metrics.significance import detectable_difference, holm, paired_t
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Board, Column, Detail, Table
from polarity_bench.results.frame import Record
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.training.objective import CrossEntropy
from polarity_bench.values import FloatArray, K, grouped

_LEGEND = {
    "compared": "A comparison is one method on one data set under one heading; p (Holm) is "
    "corrected for all methods on that data set.",
    "±": "±: standard deviation over the folds of all seeds (the sum of squares is divided by n).",
    "[": "[low, high]: 95 % interval of the mean difference over the folds, by Student's t.",
    "*": "\\*: differs from CCE with p < 0.05 by a paired t-test over the folds, uncorrected; in "
    "published tables, as the paper marks it.",
    "†": "†: differs from CCE with p < 0.05 after Holm's correction for all methods of the column.",
    "rank": "rank: the range of ranks that paired t-tests of all pairs of methods leave open, "
    "after Holm's correction for all pairs of the table.",
    "chance": f"{MAJORITY} and {PRIOR} are the scores of guessing, and are not ranked.",
}

_MARKS = "\\*, †: better or worse than CCE with p < 0.05, before (\\*) and after (†) correction."

_STATISTICS = ("difference", "low", "high", "p", "p_holm", "detectable")
"""Columns of a comparison with cross-entropy."""
_NO_SCORE: Record = {"value": math.nan, "std": math.nan, "mark": ""}
"""Columns of a record that tables show, without a score."""


def read_board(folder: Path, measure: str | None = None, published: Path | None = None) -> Board:
    """Read all experiments in a folder and build their board, with the texts of `board.toml`.

    Args:
        folder: Folder of the experiments.
        measure: Measure to show; by default, the papers' measure for each protocol.
        published: File of published numbers; by default, `published.csv` in the folder.

    Raises:
        InputError: If the folder has no experiments, or a file has an error.
    """
    printed = published_folds(published or folder / PUBLISHED)
    records = fold_records(read_experiments(folder), measure, printed)
    return fewshot_board(records, board_file(folder / FILE, Heading), folder)


def fewshot_board(
    records: Iterable[Record], author: Heading | None = None, folder: Path | None = None
) -> Board:
    """Build the board of the records from `fold_records`.

    Published numbers appear under the heading with the same measure and protocol.

    Args:
        records: Scores of experiments, of guessing and of papers.
        author: Title, introduction and details of the board; by default, there are none.
        folder: Folder of the board, to which paths of result files are relative. If None, no files
            are named.
    """
    text, tables, compared = author or Heading(), list[Table](), list[Record]()
    details: dict[str, Detail] = {}
    of_tables = grouped(records, lambda record: record.get("table"))
    published = of_tables.pop(None, [])
    for of_table in of_tables.values():
        by_role = grouped(of_table, lambda record: record["role"])
        rows = compare_methods(by_role["measured"])
        tables += _tables(rows, by_role["chance"], published)
        methods = grouped(by_role["measured"], lambda record: record["detail"])
        details |= {key: _provenance(of_method, folder) for key, of_method in methods.items()}
        compared += rows
    return Board(
        text.title or "Cross-validation",
        text.introduction,
        tables,
        _legend(tables),
        details=details,
        finding=finding(compared),
        origin=text.details,
    )


def finding(compared: Iterable[Record]) -> str:
    """Return a sentence on the methods that beat cross-entropy alone, and on the differences.

    Args:
        compared: The rows that `compare_methods` returns.

    Returns:
        The sentence in markdown; '' if no method is compared with cross-entropy.
    """
    tested = [
        row | {"name": escape(re.sub(r" \(.*\)", "", row["method"]))}
        for row in compared
        if not math.isnan(row["p_holm"])
    ]
    if not tested:
        return ""
    n_tested = Counter(row["name"] for row in tested)
    wins = (row["name"] for row in tested if row["p_holm"] < LEVEL and row["difference"] > 0)
    n_won = Counter(wins)
    names = sorted(n_won, key=lambda name: (-n_won[name] / n_tested[name], -n_tested[name], name))
    counts = [f"{name} {n_won[name]} of {n_tested[name]}" for name in names]
    winners = (
        f"these methods win comparisons with cross-entropy alone (CCE): {', '.join(counts)}"
        if counts
        else f"no method wins any of {len(tested)} comparisons with cross-entropy alone (CCE)"
    )
    tested.sort(key=lambda row: row["difference"])
    ends = [
        f"{percent(row['difference'], sign='+')} points [{percent(row['low'], sign='+')}, "
        f"{percent(row['high'], sign='+')}] ({row['name']} on {escape(row['task'])})"
        for row in (tested[0], tested[-1])[: len(tested)]
    ]
    mean = "mean differences range from" if len(ends) > 1 else "the mean difference is"
    return f"After Holm's correction, {winners}; {mean} {' to '.join(ends)}."


def compare_methods(records: Iterable[Record]) -> list[Record]:
    """Compare each method with cross-entropy alone on each data set, over the folds of both.

    If cross-entropy was run with several settings, each method is compared with the run that has
    the most similar settings.

    Returns:
        The rows of each data set from best to worst. The new columns are `difference` from
        cross-entropy, `low` and `high` (the ends of its 95 % interval), `p`, `p_holm` (after Holm's
        correction), `detectable` (the minimum detectable difference) and `mark` (of the score).
        Statistics are NaN if there is no comparison.
    """
    of_tasks = grouped(records, lambda record: record["task"])
    return [row for of_task in of_tasks.values() for row in _compared(of_task)]


def _compared(records: Sequence[Record]) -> list[Record]:
    rows = [
        record | {"role": "encoder"} | _test(*_shared_folds(record, _baseline(record, records)))
        for record in sorted(records, key=lambda record: (-record["value"], record["method"]))
    ]
    tested = [row for row in rows if not math.isnan(row["p"])]
    for row, p_holm in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = float(p_holm)
    for row in rows:
        row["mark"] = "*" * (row["p"] < LEVEL) + "†" * (row["p_holm"] < LEVEL)
        row["mark"] += f" ({row['n']})" if _is_partial(row) else ""
    return rows


def _is_partial(row: Record) -> bool:
    """Return whether folds of a row are missing."""
    return bool(row["n"] < n_planned(row["result"]))


def _test(scores: FloatArray, baseline: FloatArray) -> Record:
    """Return the columns of a comparison with cross-entropy, without Holm's correction."""
    test, n_folds = paired_t(scores, baseline), len(scores)
    deviation = float((scores - baseline).std(ddof=1)) if n_folds > 1 else 0.0
    least = detectable_difference(deviation, n_folds)
    values = [test.difference, *test.interval, test.p, math.nan, least]
    return dict(zip(_STATISTICS, values, strict=True))


def _baseline(record: Record, records: Sequence[Record]) -> Record:
    """Return the cross-entropy row with the most similar settings.

    The row is empty if the record is itself cross-entropy, or if there is no such row.
    """
    settings = record["result"].key.protocol["method"]

    def likeness(other: Record) -> tuple[int, int]:
        other_settings = other["result"].key.protocol["method"]
        n_equal = sum(settings.get(key) == value for key, value in other_settings.items())
        return n_equal, -len(other["method"])

    baselines = [each for each in records if each["recipe"] == CrossEntropy.name]
    is_baseline = record["recipe"] == CrossEntropy.name
    return {} if is_baseline else max(baselines, key=likeness, default={})


def _shared_folds(one: Record, other: Record) -> tuple[FloatArray, FloatArray]:
    """Return the scores of both rows on their common folds, in the same order."""
    shared = [fold for fold in one["folds"] if fold in other.get("folds", ())]
    first, second = (np.array([row["folds"][f] for f in shared]) for row in (one, other))
    return first, second


def _tables(
    rows: Sequence[Record], guesses: Sequence[Record], published: Iterable[Record]
) -> list[Table]:
    """Return the overview, the tests on each data set, and the published numbers.

    Args:
        rows: Rows of one table, from `compare_methods`.
        guesses: Scores of guessing.
        published: Published numbers of all tables.
    """
    first, tasks = rows[0], grouped(rows, lambda row: row["task"])
    notes = _at_chance(rows)
    if any(map(_is_partial, rows)):
        n_folds = n_planned(first["result"])
        notes = [f"In brackets: number of folds with a score, if not all {n_folds}.", *notes]
    question = {name: first[name] for name in ("protocol", "metric")}
    cited = [n for n in published if n["task"] in tasks and question.items() <= n.items()]
    if any(row["mark"].startswith("*") for row in rows):
        notes = [_MARKS, *notes]
    lead = f"{MEASURES[first['metric']]}, times 100."
    overview = replace(_overview(rows, guesses, tasks), heading=first["table"])
    return [
        replace(overview, lead=lead, notes=notes),
        *(_tests(task, of_task) for task, of_task in tasks.items()),
        *([_published(cited, tasks)] if cited else []),
    ]


def _overview(rows: Iterable[Record], guesses: Iterable[Record], tasks: Collection[str]) -> Table:
    """Return the table of scores on each task: methods from best to worst, then guessing."""
    rows, shown = [*rows, *guesses], {row["method"]: row for row in rows}
    cells = {(row["method"], row["task"]): row for row in rows}
    means = {
        method: sum(cells.get((method, task), _NO_SCORE)["value"] for task in tasks) / len(tasks)
        for method, _ in cells
    }
    # Methods without a mean come last.
    order = sorted(shown, key=lambda method: (-np.nan_to_num(means[method], nan=-np.inf), method))
    shown |= {row["method"]: row for row in guesses}
    methods = [*order, MAJORITY, PRIOR]
    columns = _columns(cells, methods, tasks)
    columns += [Column("mean", [means[method] for method in methods])] if len(tasks) > 1 else []
    return with_rows(Table("", [("method", methods)], columns), [shown[each] for each in methods])


def _columns(
    cells: Mapping[tuple[K, str], Record], rows: Sequence[K], tasks: Iterable[str]
) -> list[Column]:
    """Return a column of scores for each task, from records by row and task."""
    columns = []
    for task in tasks:
        records = [cells.get((row, task), _NO_SCORE) for row in rows]
        values, stds, marks = ([each[name] for each in records] for name in _NO_SCORE)
        columns.append(Column(task, values, spreads=stds, marks=marks))
    return columns


def _published(numbers: Sequence[Record], tasks: Mapping[str, Sequence[Record]]) -> Table:
    """Return the table of published numbers, with a note on the size of each data set here."""
    sources = "; ".join(dict.fromkeys(number["source"] for number in numbers))
    sizes = ", ".join(
        f"{sum(of_task[0]['result'].counts.values()):,} rows of {task}"
        for task, of_task in tasks.items()
    )
    lead = (
        f"From {sources}, with other encoders and other folds. The scores above use all parts of a "
        f"data set ({sizes}); a paper may use only the training part."
    )
    cells = {((each["method"], each["encoder"]), each["task"]): each for each in numbers}
    rows = list(dict.fromkeys(row for row, _ in cells))
    heads = [("method", [method for method, _ in rows]), ("encoder", [name for _, name in rows])]
    columns = _columns(cells, rows, tasks)
    return Table("Published", heads, columns, ["published"] * len(rows), lead=escape(lead), level=3)


def _tests(task: str, rows: Sequence[Record]) -> Table:
    """Return the table of tests of each method against cross-entropy on a data set."""
    ranks, power = _ranks(rows), _power(rows)

    def column(title: str, name: str, **options: Any) -> Column:
        return Column(title, [row[name] for row in rows], **options)

    ends = [(row["low"], row["high"]) for row in rows]
    seconds = [float(row["result"].arrays["seconds"].mean()) for row in rows]
    table = Table(
        task,
        [*([("rank", ranks)] if ranks else []), ("method", [row["method"] for row in rows])],
        [
            column("minus CCE", "difference", intervals=ends, unit="points"),
            column("p", "p", unit="probability"),
            column("p (Holm)", "p_holm", unit="probability"),
            column("folds", "n", unit="count"),
            Column("s per fold", seconds, unit="seconds", digits=1),
        ],
        notes=[power] if power else [],
        level=3,
    )
    return with_rows(table, rows)


def _ranks(records: Sequence[Record]) -> list[str]:
    """Return ranges of ranks, from paired tests of all pairs of methods over common folds."""
    n = len(records)
    if n < 2:
        return []
    p, lead = np.ones((n, n)), np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        test = paired_t(*_shared_folds(records[i], records[j]))
        p[i, j] = p[j, i] = test.p
        # If folds are missing, the means over common folds may have another order than the scores.
        lead[i, j], lead[j, i] = test.difference, -test.difference
    differ = holm_of_pairs(np.nan_to_num(p, nan=1.0)) < LEVEL
    return [rank_text(*ends) for ends in rank_ranges_of_pairs(lead, differ)]


def _power(rows: Sequence[Record]) -> str:
    """Return a note on the minimum detectable difference, or on the lack of comparisons."""
    known = [row["detectable"] for row in rows if not math.isnan(row["detectable"])]
    if not known:
        alone = len(rows) == 1
        return "" if alone else "No method shares two folds with CCE alone, so none is compared."
    low, high = percent(min(known), 1), percent(max(known), 1)
    points = low if low == high else f"{low} to {high}"
    return (
        f"Minimum detectable difference from CCE with these folds: {points} points (80 % power, "
        "p < 0.05, uncorrected)."
    )


def _at_chance(rows: Sequence[Record]) -> list[str]:
    """Return a warning that lists the methods no better than guessing, if there are any.

    Methods that predict a single class are among them.
    """
    collapsed = [
        f"{escape(row['method'])} on {escape(row['task'])} ({percent(row['value'])})"
        for row in rows
        for values, counts in [(np.array([*row["folds"].values()]), row["result"].counts)]
        if is_at_chance(values, [*counts.values()], row["metric"])
    ]
    why = "their 95 % interval over the folds does not lie above the better guess"
    return [f"**At or below chance** ({why}): {', '.join(collapsed)}."] if collapsed else []


def _legend(tables: Sequence[Table]) -> list[str]:
    """Return the explanations of the signs that occur in the tables."""
    columns = [column for table in tables for column in table.columns]
    signs = {sign for column in columns for mark in column.marks for sign in mark}
    spreads = [spread for column in columns for spread in column.spreads]
    ends = [end for column in columns for pair in column.intervals for end in pair or ()]
    signs |= {"±"} if np.isfinite(np.array(spreads, float)).any() else set()
    signs |= {"[", "compared"} if np.isfinite(np.array(ends, float)).any() else set()
    signs |= {"chance" for table in tables if "chance" in table.roles}
    signs |= {"rank" for table in tables if "rank" in dict(table.heads)}
    return [text for sign, text in _LEGEND.items() if sign in signs]


def _provenance(records: Sequence[Record], folder: Path | None) -> Detail:
    """Return the provenance of a method, with the number of folds of its experiments."""
    results = (record["result"] for record in records)
    experiments = list({result.key.digest: result for result in results}.values())
    n_folds = sum(len(result.arrays["fold"]) for result in experiments)
    return measured_detail(experiments, folder, folds=str(n_folds))
