"""Tables of cross-validations: the scores of each method, and whether it beats cross-entropy.

A star marks a difference from cross-entropy alone (CCE) with p < 0.05 over the paired folds, as in
the few-shot paper. A dagger marks a difference that is still significant after Holm's correction
for all methods of its column.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.boards.config import Heading, board_file
from polarity_bench.cross_validation.chance import MAJORITY, PRIOR, guessed, is_at_chance
from polarity_bench.cross_validation.experiment import (
    Outcome,
    default_measure,
    read_outcomes,
    score_by_fold,
)
from polarity_bench.cross_validation.methods import DENSE, PROXIES, flat, make_method, parameters_of
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.cross_validation.published_folds import (
    PublishedFolds,
    of_protocol,
    read_published,
)
from polarity_bench.encoders.base import EncoderId
from polarity_bench.metrics.pairwise import holm_of_pairs, rank_ranges
from polarity_bench.metrics.significance import PairedTest, detectable_difference, holm, paired_t
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape, section
from polarity_bench.render.markdown import render as render_board
from polarity_bench.render.table import Board, Column, Detail, Role, Table
from polarity_bench.training.objective import CrossEntropy
from polarity_bench.values import FloatArray, digest_of

LEVEL = 0.05
FILE = "board.toml"
_WITH_PROXIES = " + inf"
MEASURES = {"macro_f1": "macro F1", "accuracy": "accuracy"}


_RANKS = (
    "Ranks are ranges, by paired t-tests of all pairs over the folds that both have, corrected by "
    "Holm's method for all pairs of the table. p (Holm) is corrected for tests against CCE alone."
)
_LEGEND = {
    "±": "±: standard deviation over the folds (of these, divided by n).",
    "[": "[low, high]: 95 % interval of the mean difference over the folds, by Student's t.",
    "*": "\\*: differs from CCE with p < 0.05 by a paired t-test over the folds, uncorrected; of "
    "published numbers, as the paper marks them.",
    "†": "†: differs from CCE with p < 0.05 after Holm's correction for all methods of the column.",
    "chance": f"{MAJORITY} and {PRIOR} bound the methods, and compete with none.",
}

Scores = Mapping[tuple[int, int], float]
"""The score of each fold, by the seed and the number of the fold."""


@dataclass(frozen=True)
class FewshotRow:
    """Scores of one method on one data set, with one way of predicting.

    Attributes:
        title: The method, with `+ inf` if its proxies take part in prediction.
        folds: The score of each fold, a fraction, by the seed and the number of the fold.
        differences: Differences from cross-entropy in the folds that both have, (m,); None for
            cross-entropy itself, or if there is no cross-entropy to compare with.
        test: Paired test of these differences.
        corrected: The test's p after Holm's correction; None if the test has no p.
    """

    title: str
    folds: Scores
    seconds: float
    differences: FloatArray | None = None
    test: PairedTest | None = None
    corrected: float | None = None

    @property
    def values(self) -> FloatArray:
        """The scores of the folds, (n,)."""
        return np.array(list(self.folds.values()))

    def mark(self, n_folds: int) -> str:
        """Return the marks of the mean: significance, and the number of folds if some are missing.

        The star stands for the raw p, the dagger for the corrected p.
        """
        raw = self.test is not None and self.test.p < LEVEL
        held = self.corrected is not None and self.corrected < LEVEL
        there = len(self.values)
        partly = "" if there == n_folds else f" ({there})"
        return f"{'*' if raw else ''}{'†' if held else ''}{partly}"


Tasks = Mapping[str, Sequence[Outcome]]


def groups(outcomes: Iterable[Outcome]) -> Sequence[tuple[str, Tasks]]:
    """Group outcomes by table, under the table's heading, then by data set.

    Outcomes with the same encoder, pooling and layers, version and protocol share a table. If two
    tables have the same heading, the headings add the digests of the encoders. If one task has two
    versions of its data, their names add the digests of the data.
    """
    headings: dict[str, str] = {}
    encoders: dict[str, str] = {}
    found: dict[str, dict[tuple[str, str], list[Outcome]]] = {}
    for each in outcomes:
        spec, method = each.spec, each.spec["method"]
        encoder = EncoderId(**spec["encoder"])
        shape = [method.get("pooling"), method.get("layers")]
        key = digest_of([spec["version"], encoder.digest, shape, dict(spec["protocol"])])
        headings.setdefault(key, heading(spec))
        encoders[key] = encoder.digest
        found.setdefault(key, {}).setdefault((spec["task"], spec["data"]), []).append(each)
    n_alike = Counter(headings.values())
    titles = {
        key: f"{said}, encoder {encoders[key]}" if n_alike[said] > 1 else said
        for key, said in headings.items()
    }
    return [(titles[key], _by_task(tasks)) for key, tasks in found.items()]


def _by_task(found: Mapping[tuple[str, str], Sequence[Outcome]]) -> Tasks:
    n_alike = Counter(task for task, _ in found)
    return {
        f"{task} (data {data})" if n_alike[task] > 1 else task: several
        for (task, data), several in found.items()
    }


def heading(spec: Mapping[str, Any]) -> str:
    """Return the heading of a table: what all its outcomes have in common."""
    protocol, method, encoder = spec["protocol"], spec["method"], EncoderId(**spec["encoder"])
    n_rows, seeds = protocol["rows"], protocol["seeds"]
    parts = [
        encoder.label,
        ("first layer" if method["layers"] == 1 else f"first {method['layers']} layers")
        if method["layers"]
        else "",
        "" if method["pooling"] == "own" else f"{method['pooling']} pooling",
        ("all rows of each fold" if n_rows is None else f"{n_rows:,} rows")
        + ("" if n_rows is None or "cut" in protocol else " cut by one seed")
        + (f" of {protocol['sample']:,} drawn" if protocol["sample"] else ""),
        f"{protocol['folds']} folds",
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
    ]
    return ", ".join(filter(None, parts))


def lines(outcomes: Sequence[Outcome], measure: str) -> list[FewshotRow]:
    """Return the rows of one data set, compared with cross-entropy over the folds that both have.

    If cross-entropy was run with several settings, a method is compared with the run whose
    settings are most similar to its own.
    """
    found = []
    for outcome in outcomes:
        base = _baseline(outcome, outcomes)
        for way in (key for key, value in outcome.folds[0].items() if isinstance(value, dict)):
            own = score_by_fold(outcome, way, measure)
            line = FewshotRow(
                outcome.spec["title"] + (_WITH_PROXIES if way == PROXIES else ""),
                own,
                float(np.mean(outcome.seconds)) if outcome.seconds else math.nan,
            )
            if base is not None:
                line = _compared(line, own, score_by_fold(base, DENSE, measure))
            found.append(line)
    tested = [place for place, line in enumerate(found) if line.test and np.isfinite(line.test.p)]
    raw = [test.p for place in tested if (test := found[place].test)]
    for place, p in zip(tested, holm(raw), strict=True):
        found[place] = replace(found[place], corrected=float(p))
    return found


def _baseline(outcome: Outcome, outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the cross-entropy outcome to compare with; None for cross-entropy, or without one."""
    if _is_baseline(outcome):
        return None
    own = flat(outcome.spec["method"])

    def likeness(other: Outcome) -> tuple[int, int]:
        theirs, n_said = flat(other.spec["method"]), len(other.spec["title"])
        return sum(own.get(key) == value for key, value in theirs.items()), -n_said

    return max(filter(_is_baseline, outcomes), key=likeness, default=None)


def _is_baseline(outcome: Outcome) -> bool:
    return bool(outcome.spec["method"].get("loss", {}).get("name") == CrossEntropy.name)


def _compared(line: FewshotRow, own: Scores, theirs: Scores) -> FewshotRow:
    shared = [key for key in own if key in theirs]
    if not shared:
        return line
    ours, base = (np.array([scores[key] for key in shared]) for scores in (own, theirs))
    return replace(line, differences=ours - base, test=paired_t(ours, base))


def read_board(
    folder: Path, measure: str | None = None, published: Sequence[PublishedFolds] = ()
) -> Board:
    """Lay out all results in a folder, as its `board.toml` says.

    If no published numbers are given, those in the folder's `published.csv` are shown. Each table
    shows the numbers that papers report for the same number of rows.

    Raises:
        InputError: If the folder has no results.
    """
    outcomes = read_outcomes(folder)
    if not published and (folder / "published.csv").is_file():
        published = read_published(folder / "published.csv")
    said = board_file(folder / FILE, Heading)
    return Board(
        said.title or "Cross-validation",
        said.introduction,
        found := tables(outcomes, measure, published),
        legend(found),
        details=details_of(outcomes),
    )


def report_of(
    folder: Path, measure: str | None = None, published: Sequence[PublishedFolds] = ()
) -> str:
    """Render all results in a folder as markdown; as a board if the folder has a `board.toml`.

    Raises:
        InputError: If the folder has no results.
    """
    board = read_board(folder, measure, published)
    if (folder / FILE).is_file():
        return render_board(board)
    return _sections(board.tables)


def legend(tables: Sequence[Table]) -> list[str]:
    """Explain the signs that occur in the tables."""
    columns = [column for table in tables for column in table.columns]
    marks = "".join(mark for column in columns for mark in column.marks)
    there = {sign for sign in "*†" if sign in marks}
    there |= {"±"} if any(any(map(_is_shown, column.spreads)) for column in columns) else set()
    there |= {"["} if any(any(column.intervals) for column in columns) else set()
    there |= {"chance"} if any("chance" in table.roles for table in tables) else set()
    return [said for sign, said in _LEGEND.items() if sign in there]


def _is_shown(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _sections(tables: Sequence[Table]) -> str:
    return "\n\n".join(filter(None, [*map(section, tables), " ".join(legend(tables))])) + "\n"


def render(
    outcomes: Iterable[Outcome], measure: str | None, published: Sequence[PublishedFolds] = ()
) -> str:
    """Render all tables as markdown."""
    return _sections(tables(outcomes, measure, published))


def tables(
    outcomes: Iterable[Outcome], measure: str | None, published: Sequence[PublishedFolds] = ()
) -> list[Table]:
    """Lay out the tables: an overview of each group, published numbers, tests on each data set."""
    found: list[Table] = []
    for title, by_task in groups(outcomes):
        first = next(iter(by_task.values()))[0]
        protocol, shown = first.spec["protocol"], measure or default_measure(first)
        tasks = {task: lines(several, shown) for task, several in by_task.items()}
        n_folds = protocol["folds"] * len(protocol["seeds"])
        partly = any(len(line.values) < n_folds for several in tasks.values() for line in several)
        notes = [f"In brackets: how many of {n_folds} folds are there yet."] if partly else []
        counted = {task: own[0].counts for task, own in by_task.items() if own[0].counts}
        chance = {task: guessed(counts, shown) for task, counts in counted.items()}
        notes += _at_chance(tasks, counted, shown)
        lead = f"{MEASURES[shown]}, times 100."
        overview = _overview(tasks, n_folds, chance)
        overview = replace(overview, heading=title, lead=lead, notes=notes)
        found.append(_with_keys(overview, title))
        printed = published if shown == default_measure(first) else ()  # papers report one
        pools = {task: int(several[0].spec["rows"]) for task, several in by_task.items()}
        found += _reported(of_protocol(printed, protocol, list(tasks)), pools)
        found += [_with_keys(_details(task, theirs), title) for task, theirs in tasks.items()]
    return found


def _with_keys(table: Table, heading: str) -> Table:
    """Add the key of its details to each row of a table of methods; guesses have no details."""
    methods = dict(table.heads)["method"]
    keys = [
        "" if table.role(row) == "chance" else _key(heading, method)
        for row, method in enumerate(methods)
    ]
    return replace(table, details=keys)


def details_of(outcomes: Iterable[Outcome]) -> dict[str, Detail]:
    """Return the provenance of the rows of all tables, by the keys in the tables."""
    found = {}
    for title, by_task in groups(outcomes):
        of_method: dict[str, list[Outcome]] = {}
        for each in itertools.chain.from_iterable(by_task.values()):
            of_method.setdefault(each.spec["title"], []).append(each)
        for method, several in of_method.items():
            encoder = EncoderId(**several[0].spec["encoder"])
            n_folds = sum(len(each.folds) for each in several)
            facts = {"encoder": encoder.label, "digest": encoder.digest, "folds": str(n_folds)}
            found[_key(title, method)] = Detail(facts, command_of(several))
    return found


def command_of(outcomes: Sequence[Outcome]) -> str:
    """Return the command that makes the outcomes of one method.

    It has only the options that differ from the defaults. The encoder has the name that results
    give it, which may be the name of a folder.
    """
    spec = outcomes[0].spec
    encoder, method, protocol = spec["encoder"], flat(spec["method"]), spec["protocol"]
    name = method["name"]
    usual, default = flat(make_method(name, {}).to_dict("moves")), Protocol()
    options = {
        "task": ",".join(dict.fromkeys(each.spec["task"] for each in outcomes)),
        "loss": name,
        "model": encoder["name"],
        **{key: encoder[key] for key in ("revision", "prompt", "max_tokens")},
        "rows": _unless(protocol["rows"] or "all", default.rows),
        "folds": _unless(protocol["folds"], default.folds),
        "sample": protocol["sample"],
        "seeds": _unless(",".join(map(str, protocol["seeds"])), "0"),
        **{key: _unless(method.get(key), usual[key]) for key in sorted(parameters_of(name))},
    }
    words = [(f"--{key.rstrip('_').replace('_', '-')}", value) for key, value in options.items()]
    said = [str(word) for pair in words if pair[1] is not None for word in pair]
    return shlex.join(["polarity-bench", "fewshot", *said])


def _unless(value: Any, usual: Any) -> Any:
    return None if value == usual else value


def _key(heading: str, method: str) -> str:
    """Return the key of a row's details; a method with and without proxies shares one key."""
    return f"{heading}: {method.removesuffix(_WITH_PROXIES)}"


def _at_chance(
    tasks: Mapping[str, Sequence[FewshotRow]], counted: Mapping[str, Sequence[int]], measure: str
) -> list[str]:
    """Return a warning that names the methods no better than guesses, if there are any.

    Methods that collapse to one class are among them.
    """
    found = [
        f"{escape(line.title)} on {escape(task)} ({percent(float(line.values.mean()))})"
        for task, counts in counted.items()
        for line in _by_mean(tasks[task])
        if is_at_chance(line.values, counts, measure)
    ]
    if not found:
        return []
    why = "as their 95 % interval over the folds is not above the better of both guesses"
    return [f"**At or below chance**, {why}: {', '.join(found)}."]


def _overview(
    tasks: Mapping[str, Sequence[FewshotRow]],
    n_folds: int,
    chance: Mapping[str, Mapping[str, float]],
) -> Table:
    """Lay out the means of each task, the best method first, and below them the scores of guesses.

    Args:
        tasks: The rows of each task.
        n_folds: The planned number of folds of each row.
        chance: The score of each way of guessing, for each task with known class counts.
    """
    cells = {(task, line.title): line for task, several in tasks.items() for line in several}
    means: dict[str, float] = {}
    for title in dict.fromkeys(line.title for several in tasks.values() for line in several):
        own = [cells[task, title] for task in tasks if (task, title) in cells]
        whole = len(own) == len(tasks)
        means[title] = float(np.mean([line.values.mean() for line in own])) if whole else -math.inf
    titles = sorted(means, key=lambda title: (-means[title], title))
    guesses = list(dict.fromkeys(way for scores in chance.values() for way in scores))
    of_guesses = [[chance.get(task, {}).get(way) for task in tasks] for way in guesses]
    columns = [
        _with_guesses(
            _scores(task, [cells.get((task, title)) for title in titles], n_folds),
            [scores[place] for scores in of_guesses],
        )
        for place, task in enumerate(tasks)
    ]
    shown = [means[title] if math.isfinite(means[title]) else None for title in titles]
    for own_scores in of_guesses:
        known = [score for score in own_scores if score is not None]
        shown.append(float(np.mean(known)) if len(known) == len(tasks) else None)
    columns.append(Column("mean", shown))
    roles: list[Role] = ["encoder"] * len(titles)
    roles += ["chance"] * len(guesses)
    return Table("", [("method", [*titles, *guesses])], columns, roles)


def _with_guesses(column: Column, guesses: Sequence[float | None]) -> Column:
    """Append the scores of guesses to a column."""
    return replace(
        column,
        values=[*column.values, *guesses],
        spreads=[*column.spreads, *(None for _ in guesses)],
        marks=[*column.marks, *("" for _ in guesses)],
    )


def _scores(title: str, several: Sequence[FewshotRow | None], n_folds: int | None = None) -> Column:
    """Lay out means and standard deviations, with marks if the planned number of folds is given."""
    return Column(
        title,
        [float(line.values.mean()) if line else None for line in several],
        spreads=[float(line.values.std()) if line else None for line in several],
        marks=() if n_folds is None else [line.mark(n_folds) if line else "" for line in several],
    )


def _reported(
    reported: Mapping[tuple[str, str], Mapping[str, PublishedFolds]], pools: Mapping[str, int]
) -> list[Table]:
    """Lay out the published numbers, under a note on how many rows each data set has here."""
    if not reported:
        return []
    sources = dict.fromkeys(each.source for own in reported.values() for each in own.values())
    sizes = ", ".join(f"{n_rows:,} of {task}" for task, n_rows in pools.items())
    said = (
        f"As the paper prints it ({'; '.join(sources)}), with other encoders and other folds. The "
        f"rows above are of all parts of a data set ({sizes}), which a paper may not use:"
    )
    columns = []
    for task in pools:
        own = [theirs.get(task) for theirs in reported.values()]
        columns.append(
            Column(
                task,
                [each.fraction if each else None for each in own],
                spreads=[each.spread if each else None for each in own],
                marks=["*" if each and each.star == "1" else "" for each in own],
            )
        )
    heads = [
        ("method", [method for method, _ in reported]),
        ("encoder", [encoder for _, encoder in reported]),
    ]
    return [Table("", heads, columns, ["published"] * len(reported), lead=escape(said))]


def _details(task: str, several: Sequence[FewshotRow]) -> Table:
    several = _by_mean(several)
    tests = [line.test for line in several]
    columns = [
        _scores("score", several),
        Column(
            "minus CCE",
            [test.difference if test else None for test in tests],
            intervals=[test.interval if test else None for test in tests],
            unit="points",
        ),
        Column("p", [test.p if test else None for test in tests], unit="probability"),
        Column("p (Holm)", [line.corrected for line in several], unit="probability"),
        Column("folds", [float(len(line.values)) for line in several], unit="count"),
        Column("s a fold", [line.seconds for line in several], unit="seconds", digits=1),
    ]
    heads = [("method", [line.title for line in several])]
    power = _power(several)
    notes = [power] if power else []
    if ranks := _ranks(several):
        heads = [("rank", ranks), *heads]
        notes = [_RANKS, *notes]
    return Table(task, heads, columns, notes=notes, level=3)


def _by_mean(several: Sequence[FewshotRow]) -> list[FewshotRow]:
    return sorted(several, key=lambda line: (-line.values.mean(), line.title))


def _ranks(several: Sequence[FewshotRow]) -> list[str]:
    """Return ranks as ranges, by paired tests of all pairs over the folds that both have."""
    n = len(several)
    if n < 2:
        return []
    p = np.ones((n, n))
    for i, j in combinations(range(n), 2):
        own, theirs = several[i].folds, several[j].folds
        shared = [fold for fold in own if fold in theirs]
        ours, other = (np.array([folds[fold] for fold in shared]) for folds in (own, theirs))
        found = paired_t(ours, other).p
        p[i, j] = p[j, i] = 1.0 if math.isnan(found) else found
    scores = np.array([line.values.mean() for line in several])
    ranges = rank_ranges(scores, holm_of_pairs(p), LEVEL)
    return [str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in ranges]


def _power(several: Sequence[FewshotRow]) -> str:
    """Return a note on the minimum detectable difference, or on why nothing is compared."""
    compared = [line.differences for line in several if line.differences is not None]
    found = [detectable_difference(float(d.std(ddof=1)), len(d)) for d in compared if len(d) > 1]
    if not found:
        alone = len(several) == 1
        return "" if alone else "Nothing is compared: there are no two folds of CCE alone to do so."
    low, high = percent(min(found), 1), percent(max(found), 1)
    points = f"{low} points" if low == high else f"{low} to {high} points, by method,"
    return (
        f"A true difference from CCE must be {points} for these folds to show it four times in "
        "five (p < 0.05, uncorrected)."
    )
