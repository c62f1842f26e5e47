"""Tables of cross-validations, which compare each method with cross-entropy.

A star marks a difference from cross-entropy alone (CCE) with p < 0.05 over the paired folds, as in
the few-shot paper. A dagger marks a difference that is still significant after Holm's correction
for all methods of its column. The first table under a heading shows the scores. The tables below
it, one for each data set, show differences and tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polarity_bench.boards.config import Heading, board_file
from polarity_bench.boards.provenance_notes import measured_detail
from polarity_bench.boards.rank_notes import rank_text
from polarity_bench.cross_validation.chance import MAJORITY, PRIOR, is_at_chance
from polarity_bench.cross_validation.experiment import read_experiments
from polarity_bench.cross_validation.to_frame import (
    MEASURES,
    WITH_PROXIES,
    fold_frame,
    n_planned,
    published_folds,
)
from polarity_bench.metrics.pairwise import LEVEL, holm_of_pairs, rank_ranges
from polarity_bench.metrics.significance import detectable_difference, holm, paired_t
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Board, Column, Detail, Role, Table
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.training.objective import CrossEntropy
from polarity_bench.values import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame, Series

FILE = "board.toml"

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

Record = Mapping[Hashable, Any]
"""Values of a row of the table of records, by column name."""


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
    frame = fold_frame(read_experiments(folder), measure, printed)
    return fewshot_board(frame, board_file(folder / FILE, Heading), folder)


def fewshot_board(
    frame: DataFrame, author: Heading | None = None, folder: Path | None = None
) -> Board:
    """Build the board of a table of records from `fold_frame`.

    Published numbers appear under the heading with the same measure and protocol.

    Args:
        frame: Scores of experiments, of guessing and of papers.
        author: Title, introduction and details of the board; by default, there are none.
        folder: Folder of the board, to which paths of result files are relative. If None, no files
            are named.
    """
    text, compared = author or Heading(), compare_methods(frame)
    tables: list[Table] = []
    details: dict[str, Detail] = {}
    for _, rows in compared.groupby("table", sort=False):
        tables += _tables(rows, frame)
        methods = rows[rows["role"] == "measured"].sort_index().groupby("row", sort=False)
        details |= {str(key): _provenance(records, folder) for key, records in methods}
    return Board(
        text.title or "Cross-validation",
        text.introduction,
        tables,
        _legend(tables),
        details=details,
        finding=finding(compared),
        origin=text.details,
    )


def finding(compared: DataFrame) -> str:
    """Return a sentence on the methods that beat cross-entropy alone, and on the differences.

    Args:
        compared: The rows that `compare_methods` returns.

    Returns:
        The sentence in markdown; '' if no method is compared with cross-entropy.
    """
    tested = compared[compared["p_holm"].notna()].sort_values("difference")
    if tested.empty:
        return ""
    names = tested["method"].str.replace(r" \(.*\)", "", regex=True).map(escape)
    is_win = (tested["p_holm"] < LEVEL) & (tested["difference"] > 0)
    wins = is_win.groupby(names).agg(["mean", "sum", "size"])
    wins = wins[wins["sum"] > 0].sort_values(["mean", "size"], ascending=False)
    counts = [f"{name} {n_wins} of {n}" for name, _, n_wins, n in wins.itertuples()]
    winners = (
        f"these methods win comparisons with cross-entropy alone (CCE): {', '.join(counts)}"
        if counts
        else f"no method wins any of {len(tested)} comparisons with cross-entropy alone (CCE)"
    )
    ends = [
        f"{percent(row['difference'], 2, '+')} points [{percent(row['low'], 2, '+')}, "
        f"{percent(row['high'], 2, '+')}] ({names.iloc[place]} on {escape(row['task'])})"
        for place in sorted({0, len(tested) - 1})
        for row in [tested.iloc[place]]
    ]
    mean = "mean differences range from" if len(ends) > 1 else "the mean difference is"
    return f"After Holm's correction, {winners}; {mean} {' to '.join(ends)}."


def compare_methods(frame: DataFrame) -> DataFrame:
    """Compare each method with cross-entropy alone on each data set, over the folds of both.

    If cross-entropy was run with several settings, each method is compared with the run that has
    the most similar settings.

    Returns:
        The measured rows of each data set from best to worst, then the rows of guessing. The new
        columns are `difference` from cross-entropy, `low` and `high` (the ends of its 95 %
        interval), `p`, `p_holm` (after Holm's correction), `detectable` (the minimum detectable
        difference), `mark` (of the score) and `row` (the key in the details). Statistics are NaN
        if there is no comparison.
    """
    import pandas as pd

    measured = frame[frame["role"] == "measured"].groupby(["table", "task"], sort=False)
    guesses = frame[frame["role"] == "chance"].assign(mark="", row="")
    return pd.concat([*(_compared(rows) for _, rows in measured), guesses])


def _compared(rows: DataFrame) -> DataFrame:
    rows = rows.sort_values(["value", "method"], ascending=[False, True])
    records = rows.to_dict("records")
    tests = [_test(*_shared_folds(record, _baseline(record, records))) for record in records]
    rows[["difference", "low", "high", "p", "detectable"]] = tests
    tested = rows["p"].notna()
    rows.loc[tested, "p_holm"] = holm(rows.loc[tested, "p"].to_numpy())
    rows["mark"] = (rows["p"] < LEVEL).map({True: "*", False: ""})
    rows["mark"] += (rows["p_holm"] < LEVEL).map({True: "†", False: ""})
    rows.loc[_is_partial(rows), "mark"] += rows["n"].map(" ({:.0f})".format)
    rows["row"] = rows["table"] + ": " + rows["method"].str.removesuffix(WITH_PROXIES)
    return rows


def _is_partial(rows: DataFrame) -> Series[bool]:
    """Return whether folds are missing, for each row."""
    return rows["n"] < rows["result"].map(n_planned)


def _test(scores: FloatArray, baseline: FloatArray) -> list[float]:
    """Return the difference, both ends of its interval, p and the minimum detectable difference."""
    test, n_folds = paired_t(scores, baseline), len(scores)
    deviation = float((scores - baseline).std(ddof=1)) if n_folds > 1 else 0.0
    return [test.difference, *test.interval, test.p, detectable_difference(deviation, n_folds)]


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
    shared = [fold for fold in one["folds"] if fold in other.get("folds", {})]
    first, second = (np.array([row["folds"][f] for f in shared]) for row in (one, other))
    return first, second


def _tables(rows: DataFrame, frame: DataFrame) -> list[Table]:
    """Return the overview, the tests on each data set, and the published numbers."""
    measured = rows[rows["role"] == "measured"]
    first = measured.iloc[0]
    tasks = {str(task): of_task for task, of_task in measured.groupby("task", sort=False)}
    notes = _at_chance(measured)
    if _is_partial(measured).any():
        n_folds = n_planned(first["result"])
        notes = [f"In brackets: number of folds scored so far, out of {n_folds}.", *notes]
    lead = f"{MEASURES[first['metric']]}, times 100."
    published = frame[
        (frame["role"] == "published")
        & (frame["protocol"] == first["protocol"])
        & (frame["metric"] == first["metric"])
        & frame["task"].isin([*tasks])
    ]
    return [
        _overview(rows, first["table"], lead, notes),
        *(_tests(task, of_task) for task, of_task in tasks.items()),
        *([_published(published, tasks)] if len(published) else []),
    ]


def _overview(rows: DataFrame, heading: str, lead: str, notes: Sequence[str]) -> Table:
    """Return the table of scores on each task: methods from best to worst, then guessing."""
    import pandas as pd

    tasks = {task: _by_method(of_task) for task, of_task in rows.groupby("task", sort=False)}
    values = pd.DataFrame({task: scores["value"] for task, scores in tasks.items()})
    known = _by_method(rows).assign(mean=values.mean(axis=1, skipna=False)).sort_index()
    is_guess = known["role"] == "chance"
    best_first = known[~is_guess].sort_values("mean", ascending=False, kind="stable")
    known = pd.concat([best_first, known[is_guess].loc[[MAJORITY, PRIOR]]])
    methods = known.index.tolist()
    columns = [_scores(str(task), scores.reindex(methods)) for task, scores in tasks.items()]
    return Table(
        heading,
        [("method", methods)],
        columns + ([Column("mean", known["mean"].tolist())] if len(columns) > 1 else []),
        ["chance" if role == "chance" else "encoder" for role in known["role"]],
        details=known["row"].tolist(),
        lead=lead,
        notes=notes,
    )


def _by_method(rows: DataFrame) -> DataFrame:
    return rows.drop_duplicates("method", keep="last").set_index("method")


def _scores(title: str, rows: DataFrame) -> Column:
    marks = rows["mark"].fillna("").tolist()
    return Column(title, rows["value"].tolist(), spreads=rows["std"].tolist(), marks=marks)


def _published(rows: DataFrame, tasks: Mapping[str, DataFrame]) -> Table:
    """Return the table of published numbers, with a note on the size of each data set here."""
    sources = "; ".join(rows["source"].unique())
    sizes = ", ".join(
        f"{sum(of_task['result'].iloc[0].counts.values()):,} rows of {task}"
        for task, of_task in tasks.items()
    )
    lead = (
        f"From {sources}, with other encoders and other folds. The scores above use all parts of a "
        f"data set ({sizes}); a paper may use only the training part."
    )
    index = rows.set_index(["method", "encoder"]).index.unique()
    columns = [
        _scores(task, rows[rows["task"] == task].set_index(["method", "encoder"]).reindex(index))
        for task in tasks
    ]
    heads = [(name, index.get_level_values(name).tolist()) for name in ("method", "encoder")]
    roles: list[Role] = ["published"] * len(index)
    return Table("Published", heads, columns, roles, lead=escape(lead), level=3)


def _tests(task: str, rows: DataFrame) -> Table:
    """Return the table of tests of each method against cross-entropy on a data set."""
    ranks = _ranks(rows.to_dict("records"))
    power = _power(rows)
    seconds = [float(result.arrays["seconds"].mean()) for result in rows["result"]]
    return Table(
        task,
        [*([("rank", ranks)] if ranks else []), ("method", rows["method"].tolist())],
        [
            Column(
                "minus CCE",
                rows["difference"].tolist(),
                [*zip(rows["low"], rows["high"], strict=True)],
                unit="points",
            ),
            Column("p", rows["p"].tolist(), unit="probability"),
            Column("p (Holm)", rows["p_holm"].tolist(), unit="probability"),
            Column("folds", rows["n"].tolist(), unit="count"),
            Column("s per fold", seconds, unit="seconds", digits=1),
        ],
        details=rows["row"].tolist(),
        notes=[power] if power else [],
        level=3,
    )


def _ranks(records: Sequence[Record]) -> list[str]:
    """Return ranges of ranks, from paired tests of all pairs of methods over common folds."""
    n = len(records)
    if n < 2:
        return []
    p = np.ones((n, n))
    for i, j in combinations(range(n), 2):
        p[i, j] = p[j, i] = paired_t(*_shared_folds(records[i], records[j])).p
    scores = np.array([record["value"] for record in records])
    ranges = rank_ranges(scores, holm_of_pairs(np.nan_to_num(p, nan=1.0)), LEVEL)
    return [rank_text(*ends) for ends in ranges]


def _power(rows: DataFrame) -> str:
    """Return a note on the minimum detectable difference, or on the lack of comparisons."""
    known = rows["detectable"].dropna()
    if known.empty:
        alone = len(rows) == 1
        return "" if alone else "No method shares two folds with CCE alone, so none is compared."
    low, high = percent(known.min(), 1), percent(known.max(), 1)
    points = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"Minimum detectable difference from CCE with these folds: {points} points (80 % power, "
        "p < 0.05, uncorrected)."
    )


def _at_chance(rows: DataFrame) -> list[str]:
    """Return a warning that lists the methods no better than guessing, if there are any.

    Methods that predict a single class are among them.
    """
    collapsed = [
        f"{escape(row['method'])} on {escape(row['task'])} ({percent(row['value'])})"
        for row in rows.to_dict("records")
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


def _provenance(rows: DataFrame, folder: Path | None) -> Detail:
    """Return the provenance of a method, with the number of folds of its experiments."""
    experiments = list({result.key.digest: result for result in rows["result"]}.values())
    detail = measured_detail(experiments, folder)
    n_folds = sum(len(result.arrays["fold"]) for result in experiments)
    return replace(detail, facts={**detail.facts, "folds": str(n_folds)})
