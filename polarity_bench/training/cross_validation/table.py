"""Tables of cross-validation: what each method scored, and whether it beats cross-entropy.

A star marks a difference from cross-entropy alone (CCE) with p < 0.05 over the paired folds, as in
the few-shot paper; a dagger one that holds after Holm's correction for all methods of its column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.boards.markdown import MISSING, decimal, escape, percent, probability, table
from polarity_bench.metrics.paired import PairedTest, detectable_difference, holm, paired_t
from polarity_bench.training.cross_validation.experiment import Outcome, read_outcomes
from polarity_bench.training.cross_validation.methods import DENSE, PROXIES, flat
from polarity_bench.training.cross_validation.published import (
    Published,
    of_protocol,
    read_published,
)
from polarity_bench.training.objective import CrossEntropy
from polarity_bench.types import EncoderId, FloatArray, digest_of

LEVEL = 0.05
MEASURES = {"macro_f1": "macro F1", "accuracy": "accuracy"}


@dataclass(frozen=True)
class Line:
    """One way of predicting by one method, on one data set.

    Attributes:
        title: The method, `+ inf` where its proxies take part in prediction.
        values: Its score in each fold, fractions, (n,).
        differences: From cross-entropy in the folds that both have, (m,); None for itself, or
            where there is none.
        test: Of these differences.
        corrected: That test's p by Holm; None where it has none.
    """

    title: str
    values: FloatArray
    seconds: float
    differences: FloatArray | None = None
    test: PairedTest | None = None
    corrected: float | None = None

    @property
    def cell(self) -> str:
        """Mean and standard deviation, with what marks them."""
        raw = self.test is not None and self.test.p < LEVEL
        held = self.corrected is not None and self.corrected < LEVEL
        return f"{_spread(self.values)}{'*' if raw else ''}{'†' if held else ''}"


Tasks = Mapping[str, Sequence[Outcome]]


def groups(outcomes: Iterable[Outcome]) -> Sequence[tuple[str, Tasks]]:
    """Sort outcomes by what may stand in one table, under its heading, then by their data set.

    One encoder, shape of it, version and protocol make a table. Encoders that share a heading are
    told apart by their digests, and so is data that stands for one task.
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
    """Say what all of a table have in common."""
    protocol, method, encoder = spec["protocol"], spec["method"], EncoderId(**spec["encoder"])
    n_rows, seeds = protocol["rows"], protocol["seeds"]
    parts = [
        encoder.label,
        f"first {method['layers']} layers" if method["layers"] else "",
        "" if method["pooling"] == "own" else f"{method['pooling']} pooling",
        ("all rows of each fold" if n_rows is None else f"{n_rows:,} rows")
        + ("" if n_rows is None or "cut" in protocol else " cut by one seed")
        + (f" of {protocol['sample']:,} drawn" if protocol["sample"] else ""),
        f"{protocol['folds']} folds",
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
    ]
    return ", ".join(filter(None, parts))


def lines(outcomes: Sequence[Outcome], measure: str) -> list[Line]:
    """Return the lines of one data set, compared with cross-entropy over the folds both have.

    Where cross-entropy was run with several settings, a method is compared with the one whose
    settings are most like its own.
    """
    found = []
    for outcome in outcomes:
        base = _baseline(outcome, outcomes)
        for way in (key for key, value in outcome.folds[0].items() if isinstance(value, dict)):
            own = _by_fold(outcome, way, measure)
            line = Line(
                outcome.spec["title"] + (" + inf" if way == PROXIES else ""),
                np.array(list(own.values())),
                float(np.mean(outcome.seconds)) if outcome.seconds else math.nan,
            )
            if base is not None:
                line = _compared(line, own, _by_fold(base, DENSE, measure))
            found.append(line)
    tested = [place for place, line in enumerate(found) if line.test and np.isfinite(line.test.p)]
    raw = [test.p for place in tested if (test := found[place].test)]
    for place, p in zip(tested, holm(raw), strict=True):
        found[place] = replace(found[place], corrected=float(p))
    return found


def _baseline(outcome: Outcome, outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return what an outcome is compared with: None if it is cross-entropy, or there is none."""
    if _is_baseline(outcome):
        return None
    own = flat(outcome.spec["method"])

    def likeness(other: Outcome) -> tuple[int, int]:
        theirs, n_said = flat(other.spec["method"]), len(other.spec["title"])
        return sum(own.get(key) == value for key, value in theirs.items()), -n_said

    return max(filter(_is_baseline, outcomes), key=likeness, default=None)


def _is_baseline(outcome: Outcome) -> bool:
    return bool(outcome.spec["method"].get("loss", {}).get("name") == CrossEntropy.name)


def _by_fold(outcome: Outcome, way: str, measure: str) -> dict[tuple[int, int], float]:
    return {(fold["seed"], fold["fold"]): fold[way][measure] for fold in outcome.folds}


Scores = Mapping[tuple[int, int], float]


def _compared(line: Line, own: Scores, theirs: Scores) -> Line:
    shared = [key for key in own if key in theirs]
    if not shared:
        return line
    ours, base = (np.array([scores[key] for key in shared]) for scores in (own, theirs))
    return replace(line, differences=ours - base, test=paired_t(ours, base))


def board(folder: Path, measure: str | None, published: Sequence[Published] = ()) -> str:
    """Render all that a folder of results holds, below its `introduction.md` where it has one.

    Its `published.csv` stands beside, where nothing else is given, and each table shows what
    the papers show of so many rows.

    Raises:
        InputError: If it holds no results.
    """
    outcomes = read_outcomes(folder)
    if not published and (folder / "published.csv").is_file():
        published = read_published(folder / "published.csv")
    file = folder / "introduction.md"
    introduction = file.read_text(encoding="utf-8") + "\n" if file.is_file() else ""
    return introduction + render(outcomes, measure, published)


def render(
    outcomes: Iterable[Outcome], measure: str | None, published: Sequence[Published] = ()
) -> str:
    """Render all tables: an overview of each group, what papers print, each data set's tests."""
    parts: list[str] = []
    for title, by_task in groups(outcomes):
        first = next(iter(by_task.values()))[0]
        protocol, shown = first.spec["protocol"], measure or measure_of(first)
        tasks = {task: lines(several, shown) for task, several in by_task.items()}
        n_folds = protocol["folds"] * len(protocol["seeds"])
        parts += [f"## {escape(title)}", f"{MEASURES[shown]}, times 100."]
        parts += [_overview(tasks, n_folds)]
        if any(len(line.values) < n_folds for several in tasks.values() for line in several):
            parts += [f"In brackets: how many of {n_folds} folds are there yet."]
        parts += [_reported(of_protocol(published, protocol, list(tasks)), list(tasks))]
        for task, theirs in tasks.items():
            parts += [f"### {escape(task)}", _details(theirs), _power(theirs)]
    return "\n\n".join(filter(None, parts)) + "\n"


def measure_of(outcome: Outcome) -> str:
    """Return what the papers show: macro F1 of few rows, accuracy of all of a fold's."""
    return "accuracy" if outcome.spec["protocol"]["rows"] is None else "macro_f1"


def score_of(outcome: Outcome) -> float:
    """Return its mean over the folds by the head alone, of what the papers show, a fraction."""
    return float(np.mean(list(_by_fold(outcome, DENSE, measure_of(outcome)).values())))


def _overview(tasks: Mapping[str, Sequence[Line]], n_folds: int) -> str:
    titles = list(dict.fromkeys(line.title for several in tasks.values() for line in several))
    cells = {(task, line.title): line for task, several in tasks.items() for line in several}
    rows = []
    for title in titles:
        own = [cells.get((task, title)) for task in tasks]
        shown = [_told(line, n_folds) if line else MISSING for line in own]
        means = [float(line.values.mean()) for line in own if line]
        average = percent(float(np.mean(means)) if len(means) == len(tasks) else None)
        rows.append([title, *shown, average])
    return _grid(["method", *tasks, "mean"], rows)


def _reported(
    reported: Mapping[tuple[str, str], Mapping[str, Published]], tasks: Sequence[str]
) -> str:
    if not reported:
        return ""
    rows = [
        [method, encoder, *(theirs[task].cell if task in theirs else MISSING for task in tasks)]
        for (method, encoder), theirs in reported.items()
    ]
    sources = dict.fromkeys(each.source for own in reported.values() for each in own.values())
    said = f"As the paper prints it ({', '.join(sources)}), with other encoders and other folds:"
    return f"{escape(said)}\n\n{_grid(['method', 'encoder', *tasks], rows)}"


def _told(line: Line, n_folds: int) -> str:
    there = len(line.values)
    return line.cell if there == n_folds else f"{line.cell} ({there})"


def _details(several: Sequence[Line]) -> str:
    rows = []
    for line in several:
        test = line.test
        low, high = test.interval if test else (None, None)
        rows.append(
            [
                line.title,
                _spread(line.values),
                percent(test.difference if test else None, sign="+"),
                f"{percent(low, sign='+')} to {percent(high, sign='+')}" if test else MISSING,
                probability(test.p if test else None),
                probability(line.corrected),
                str(len(line.values)),
                decimal(line.seconds, 1),
            ]
        )
    heads = ["method", "score", "minus CCE", "95 %", "p", "p (Holm)", "folds", "s a fold"]
    return _grid(heads, rows)


def _power(several: Sequence[Line]) -> str:
    """Say how large a difference these folds show, or why nothing is compared."""
    compared = [line.differences for line in several if line.differences is not None]
    found = [detectable_difference(float(d.std(ddof=1)), len(d)) for d in compared if len(d) > 1]
    if not found:
        alone = len(several) == 1
        return "" if alone else "Nothing is compared: there are no two folds of CCE alone to do so."
    low, high = percent(min(found), 1), percent(max(found), 1)
    return (
        f"A true difference from CCE must be {low if low == high else f'{low} to {high}'} points, "
        "by method, for these folds to show it four times in five (p < 0.05, uncorrected)."
    )


def _spread(values: FloatArray) -> str:
    return f"{percent(float(values.mean()))} ± {percent(float(values.std()))}"


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = zip(*rows, strict=True)
    return table([(head, list(cells)) for head, cells in zip(heads, columns, strict=True)])
