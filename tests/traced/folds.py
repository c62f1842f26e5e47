"""The numbers of a board of cross-validations, from the scores of its folds."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy import stats
from scipy.optimize import brentq

from polarity_bench.results.packed_results import read_stored, result_paths
from traced.lines import Line, Number
from traced.raw import one

LEVEL = 0.05


@dataclass(frozen=True)
class Way:
    """A method's way of predicting, on the folds of a data set.

    Attributes:
        scores: Scores by seed and number of the fold.
        seconds: Duration of each fold.
    """

    title: str
    scores: Mapping[tuple[int, int], float]
    seconds: Sequence[float]
    is_base: bool


@dataclass(frozen=True)
class Compared:
    """Comparison of a way with cross-entropy alone: difference, p, and Holm-corrected p."""

    difference: Number
    p: float
    corrected: float


class Folds:
    """The numbers of a board of cross-validations."""

    def __init__(self, folder: Path) -> None:
        self.found: dict[str, dict[str, list[Way]]] = {}
        self.protocols: dict[str, Mapping[str, Any]] = {}
        self.counts: dict[str, list[int]] = {}
        self.tests: dict[int, dict[str, Compared]] = {}  # by id of the compared ways
        for path in sorted(result_paths(folder), key=lambda path: path.stem):
            made = read_stored(path.with_suffix(".provenance.json"))
            arrays = load_file(path.with_suffix(".queries.safetensors"))
            task, heading = made["task"]["name"], heading_of(made)
            self.protocols[heading] = made["protocol"]
            self.counts[task] = list(made["counts"].values())
            self.found.setdefault(heading, {}).setdefault(task, []).extend(ways_of(made, arrays))
        with (folder / "published.csv").open(encoding="utf-8", newline="") as stream:
            self.cited = list(csv.DictReader(stream))

    def number(self, line: Line) -> Number:
        """Return the number of a line."""
        heading, _, task = line.table.partition(" / ")
        tasks, title = self.found[heading], line.heads["method"]
        if line.role == "published":
            return self._published(line, self.protocols[heading])
        if line.role == "chance":
            rows, mean = self.protocols[heading]["rows"], line.column == "mean"
            return Number(
                fmean(
                    guess(title, self.counts[t], rows) for t in (tasks if mean else [line.column])
                )
            )
        if task:
            return self._of_details(tasks[task], title, line.column)
        if line.column == "mean":
            own = [one([w for w in ways if w.title == title]) for ways in tasks.values()]
            return Number(fmean(fmean(way.scores.values()) for way in own))
        way = one([way for way in tasks[line.column] if way.title == title])
        protocol = self.protocols[heading]
        return self._scored(tasks[line.column], way, protocol["folds"] * len(protocol["seeds"]))

    def smallest(self, lines: Sequence[Line]) -> list[str]:
        """Return the minimum detectable differences of each table of tests, in order."""
        tables = dict.fromkeys(line.table.partition(" / ") for line in lines)
        return [smallest(self.found[of][task]) for of, _, task in tables if task in self.found[of]]

    def finding(self) -> tuple[list[tuple[str, int, int]], list[tuple[float, float, float, str]]]:
        """Return who beats cross-entropy in how many comparisons, and the extreme differences."""
        tried, won = Counter[str](), Counter[str]()
        differences = []
        for tasks in self.found.values():
            for task, ways in tasks.items():
                for title, found in self._compared(ways).items():
                    name = re.sub(r" \(.*\)", "", title)
                    tried[name] += 1
                    won[name] += found.corrected < LEVEL and found.difference.value > 0
                    ends = (found.difference.value, found.difference.low, found.difference.high)
                    low, mean, high = sorted(round(100 * end, 2) for end in ends)
                    differences.append((mean, low, high, f"{name} on {task}"))
        names = sorted(filter(won.get, tried), key=lambda n: (-won[n] / tried[n], -tried[n]))
        winners = [(name, won[name], tried[name]) for name in names]
        return winners, [min(differences), max(differences)]

    def unranked(self, lines: Sequence[Line]) -> list[str]:
        """Return a message for each table whose ranks differ from those by tests of all pairs."""
        tables: dict[str, dict[str, str]] = {}
        for line in lines:
            if line.heads.get("rank"):
                tables.setdefault(line.table, {})[line.heads["method"]] = line.heads["rank"]
        wrong = []
        for table, shown in tables.items():
            heading, _, task = table.partition(" / ")
            wanted = ranks_of(self.found[heading][task])
            wrong += [f"{table}: ranks are {shown}, not {wanted}"] if shown != wanted else []
        return wrong

    def _compared(self, ways: Sequence[Way]) -> dict[str, Compared]:
        if id(ways) not in self.tests:
            self.tests[id(ways)] = compared(ways)
        return self.tests[id(ways)]

    def _scored(self, ways: Sequence[Way], way: Way, n_folds: int) -> Number:
        found = self._compared(ways).get(way.title)
        marks = "*" if found and found.p < LEVEL else ""
        marks += "†" if found and found.corrected < LEVEL else ""
        marks += f" ({len(way.scores)})" if len(way.scores) < n_folds else ""
        values = list(way.scores.values())
        return Number(fmean(values), std=pstdev(values), mark=marks.strip())

    def _of_details(self, ways: Sequence[Way], title: str, column: str) -> Number:
        way = one([each for each in ways if each.title == title])
        if column in {"folds", "s per fold"}:
            return Number(len(way.scores) if column == "folds" else fmean(way.seconds))
        found = self._compared(ways)[title]
        columns = {"p": Number(found.p), "p (Holm)": Number(found.corrected)}
        return {"minus CCE": found.difference, **columns}[column]

    def _published(self, line: Line, protocol: Mapping[str, Any]) -> Number:
        sizes = [f"{name}={protocol[name]}" for name in ("rows", "sample") if protocol[name]]
        wanted = {"name": line.heads["method"], "model": line.heads["encoder"]}
        wanted |= {"task": line.column, "protocol": ",".join(sizes)}
        wanted |= {"score": "accuracy" if protocol["rows"] is None else "macro_f1"}
        cited = one([e for e in self.cited if wanted.items() <= e.items() and e["source"].strip()])
        std = float(cited["std"]) / 100 if cited["std"] else math.nan
        mark = "*" if cited["star"] == "1" else ""
        return Number(float(cited["value"]) / 100, std=std, mark=mark)


def smallest(ways: Sequence[Way]) -> str:
    """Return the smallest and the largest minimum detectable difference of the ways (80 % power).

    The power of the paired t-test is the mass of the non-central t distribution beyond its critical
    value. The other tail is negligible.
    """
    base = one([way for way in ways if way.is_base])
    found = []
    for way in ways:
        shared = way.scores.keys() & base.scores.keys()
        differences = [way.scores[key] - base.scores[key] for key in shared]
        if way is not base and (n := len(differences)) > 1:
            critical = stats.t.ppf(0.975, n - 1)
            away = brentq(lambda at, t, n: stats.nct.sf(t, n - 1, at) - 0.8, 0, 9, (critical, n))
            found.append(100 * away * stdev(differences) / math.sqrt(n))
    ends = f"{min(found):.1f}", f"{max(found):.1f}"
    return " to ".join(dict.fromkeys(ends))


def guess(way: str, counts: Sequence[int], rows: int | None) -> float:
    """Return the score of a guess, from its hits and misses for each class of the whole data."""
    n, most = sum(counts), counts.index(max(counts))
    drawn = [n * (c == most) if way == "Majority class" else own for c, own in enumerate(counts)]
    hits = [count * given / n for count, given in zip(counts, drawn, strict=True)]
    if rows is None:
        return sum(hits) / n
    return fmean(2 * h / (c + d) for h, c, d in zip(hits, counts, drawn, strict=True))


def ranks_of(ways: Sequence[Way]) -> dict[str, str]:
    """Return rank ranges by scipy's paired t-tests of all pairs, corrected stepwise by Holm."""
    tests = []
    for one_way, other in combinations(ways, 2):
        shared = sorted(one_way.scores.keys() & other.scores.keys())
        own, theirs = ([each.scores[key] for key in shared] for each in (one_way, other))
        tests.append((float(stats.ttest_rel(own, theirs).pvalue), one_way.title, other.title))
    means = {way.title: fmean(way.scores.values()) for way in ways}
    better, worse = dict.fromkeys(means, 0), dict.fromkeys(means, 0)
    for place, (p, *pair) in enumerate(sorted(tests)):
        if p * (len(tests) - place) >= LEVEL:
            break
        low, high = sorted(pair, key=lambda title: means[title])
        better[low] += 1
        worse[high] += 1
    ends = {title: (1 + better[title], len(means) - worse[title]) for title in means}
    return {t: "\N{EN DASH}".join(dict.fromkeys(map(str, own))) for t, own in ends.items()}


def heading_of(made: Mapping[str, Any]) -> str:
    """Return the heading for the provenance of a result."""
    protocol = made["protocol"]
    rows, seeds, layers = protocol["rows"], protocol["seeds"], protocol["method"]["layers"]
    parts = [str(made["encoder"]["name"])]
    parts += [f"first {layers} layers"] if layers else []
    size = "all training rows" if rows is None else f"{rows:,} rows"
    parts += [size + (f" from a sample of {protocol['sample']:,}" if protocol["sample"] else "")]
    parts += [f"{protocol['folds']} folds"]
    return ", ".join([*parts, f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"])


def ways_of(made: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[Way]:
    """Return the ways of predicting of a result: by the head, and with proxies if it has them."""
    measure = "accuracy" if made["protocol"]["rows"] is None else "macro_f1"
    folds = [*zip(arrays["seed"].tolist(), arrays["fold"].tolist(), strict=True)]
    return [
        Way(
            made["training"]["title"] + ending,
            dict(zip(folds, arrays[name].tolist(), strict=True)),
            arrays["seconds"].tolist(),
            made["protocol"]["method"]["name"] == "cce",
        )
        for name, ending in ((measure, ""), (f"{measure}_proxies", " + inf"))
        if name in arrays
    ]


def compared(ways: Sequence[Way]) -> dict[str, Compared]:
    """Compare every way with cross-entropy by scipy's paired t-test, with Holm's correction."""
    base = one([way for way in ways if way.is_base])
    tests = {}
    for way in ways:
        shared = sorted(way.scores.keys() & base.scores.keys())
        if way is not base:
            own, theirs = ([each.scores[key] for key in shared] for each in (way, base))
            tests[way.title] = fmean(np.subtract(own, theirs)), stats.ttest_rel(own, theirs)
    order = sorted(tests, key=lambda title: tests[title][1].pvalue)
    found: dict[str, Compared] = {}
    least = 0.0
    for place, title in enumerate(order):
        difference, test = tests[title]
        least = max(least, min(1.0, test.pvalue * (len(order) - place)))
        low, high = test.confidence_interval(0.95)
        found[title] = Compared(Number(difference, low, high), float(test.pvalue), least)
    return found
