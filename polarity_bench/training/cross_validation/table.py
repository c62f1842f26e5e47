"""Tables of cross-validation: what each method scored, and whether it beats cross-entropy.

A star marks a difference from cross-entropy alone (CCE) with p < 0.05 over the paired folds, as in
the few-shot paper; a dagger one that holds after Holm's correction for all methods of its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polarity_bench.boards.markdown import escape, table
from polarity_bench.metrics.paired import PairedTest, detectable_difference, holm, paired_t
from polarity_bench.training.cross_validation.experiment import Outcome
from polarity_bench.training.cross_validation.methods import PROXIES
from polarity_bench.types import FloatArray

BASELINE = "CCE"
LEVEL = 0.05
MEASURES = {"macro_f1": "macro F1", "accuracy": "accuracy"}


@dataclass(frozen=True)
class Line:
    """One way of predicting by one method, on one data set.

    Attributes:
        title: The method, `+ inf` where its proxies take part in prediction.
        values: Its score in each fold, fractions, (n,).
        test: Against cross-entropy over the same folds; None for itself, or where it is absent.
        corrected: That test's p by Holm.
    """

    title: str
    values: FloatArray
    seconds: float
    test: PairedTest | None = None
    corrected: float | None = None

    @property
    def cell(self) -> str:
        """Mean and standard deviation, with what marks them."""
        raw = self.test is not None and self.test.p < LEVEL
        held = self.corrected is not None and self.corrected < LEVEL
        return f"{_spread(self.values)}{'*' if raw else ''}{'†' if held else ''}"


def groups(outcomes: Iterable[Outcome]) -> Mapping[str, Mapping[str, Sequence[Outcome]]]:
    """Sort outcomes by what may stand in one table, then by their data set.

    One encoder, shape of it, version and protocol make a table.
    """
    found: dict[str, dict[str, list[Outcome]]] = {}
    for each in outcomes:
        found.setdefault(heading(each.spec), {}).setdefault(each.spec["task"], []).append(each)
    return found


def heading(spec: Mapping[str, Any]) -> str:
    """Say what all of a table have in common."""
    protocol, method, encoder = spec["protocol"], spec["method"], spec["encoder"]
    rows = "all rows of each fold" if protocol["rows"] is None else f"{protocol['rows']} rows"
    drawn = f" of {protocol['sample']:,} drawn" if protocol["sample"] else ""
    layers = f", first {method['layers']} layers" if method.get("layers") else ""
    seeds = len(protocol["seeds"])
    times = f"{seeds} seeds of " if seeds > 1 else ""
    pooled = "" if method["pooling"] == "own" else f", {method['pooling']} pooling"
    return f"{encoder['name']}{layers}{pooled}, {rows}{drawn}, {times}{protocol['folds']} folds"


def lines(outcomes: Sequence[Outcome], measure: str) -> list[Line]:
    """Return the lines of one data set, compared with cross-entropy over the folds both have."""
    found: list[tuple[Line, Outcome]] = []
    for outcome in outcomes:
        for way in (key for key, value in outcome.folds[0].items() if isinstance(value, dict)):
            values = np.array([fold[way][measure] for fold in outcome.folds])
            title = outcome.spec["title"] + (" + inf" if way == PROXIES else "")
            found.append((Line(title, values, float(np.mean(outcome.seconds))), outcome))
    base = next((line for line, _ in found if line.title == BASELINE), None)
    tested = {}
    if base is not None:
        for line, _ in found:
            n = min(len(line.values), len(base.values))
            if line is not base:
                tested[line.title] = paired_t(line.values[:n], base.values[:n])
    defined = {title: test for title, test in tested.items() if np.isfinite(test.p)}
    corrected = dict(zip(defined, holm([test.p for test in defined.values()]), strict=True))
    return [
        Line(
            line.title,
            line.values,
            line.seconds,
            tested.get(line.title),
            corrected.get(line.title),
        )
        for line, _ in found
    ]


def render(outcomes: Iterable[Outcome], measure: str) -> str:
    """Render all tables: an overview of each group, then each data set's tests."""
    parts: list[str] = []
    for title, by_task in groups(outcomes).items():
        tasks = {task: lines(several, measure) for task, several in by_task.items()}
        parts += [f"## {escape(title)}", f"{MEASURES[measure]}, times 100.", _overview(tasks)]
        for task, theirs in tasks.items():
            parts += [f"### {escape(task)}", _details(theirs), _power(theirs)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _overview(tasks: Mapping[str, Sequence[Line]]) -> str:
    titles = list(dict.fromkeys(line.title for several in tasks.values() for line in several))
    cells = {(task, line.title): line for task, several in tasks.items() for line in several}
    rows = []
    for title in titles:
        own = [cells.get((task, title)) for task in tasks]
        shown = [line.cell if line else "-" for line in own]
        means = [line.values.mean() for line in own if line]
        average = f"{100 * float(np.mean(means)):.2f}" if len(means) == len(tasks) else "-"
        rows.append([title, *shown, average])
    return _grid(["method", *tasks, "mean"], rows)


def _details(several: Sequence[Line]) -> str:
    rows = []
    for line in several:
        test = line.test
        rows.append(
            [
                line.title,
                _spread(line.values),
                f"{100 * test.difference:+.2f}" if test else "-",
                f"[{100 * test.interval[0]:+.2f}, {100 * test.interval[1]:+.2f}]" if test else "-",
                f"{test.p:.4f}" if test else "-",
                f"{line.corrected:.4f}" if line.corrected is not None else "-",
                str(len(line.values)),
                f"{line.seconds:.1f}",
            ]
        )
    heads = ["method", "score", "minus CCE", "95 %", "p", "p (Holm)", "folds", "s a fold"]
    return _grid(heads, rows)


def _power(several: Sequence[Line]) -> str:
    base = next((line for line in several if line.title == BASELINE), None)
    if base is None:
        return "No cross-entropy alone (CCE) was run here, so that nothing is compared."
    found = []
    for line in several:
        n = min(len(line.values), len(base.values))
        if line is not base and n > 1:
            spread = float((line.values[:n] - base.values[:n]).std(ddof=1))
            found.append(detectable_difference(spread, n))
    if not found:
        return ""
    return (
        f"A true difference from CCE must be {100 * min(found):.1f} to {100 * max(found):.1f} "
        "points, by method, for these folds to show it four times in five (p < 0.05, uncorrected)."
    )


def _spread(values: FloatArray) -> str:
    return f"{100 * values.mean():.2f} ± {100 * values.std():.2f}"


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = zip(*rows, strict=True)
    return table([(head, list(cells)) for head, cells in zip(heads, columns, strict=True)])
