"""Charts of a sweep: P against S of its configurations, and P and S by number of examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import cast

from polarity_bench.render.chart import Drawn, LineChart, Mark, MarkRole, Plane, Series
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.sweeps.published_scores import PublishedTraining
from polarity_bench.sweeps.records import METRICS, Record
from polarity_bench.training.examples.spec import DEFAULT_COUNT

_P, _S = METRICS


def sweep_drawn(
    shown: Mapping[str, Sequence[Record]],
    bases: Sequence[Record],
    reported: Sequence[PublishedTraining],
    weighting: Weighting,
    of: str = "",
) -> Iterator[Drawn]:
    """Lay out a plane for each base and task: the base, its training runs and published numbers.

    Args:
        shown: The training runs of each configuration, by its name.
        bases: The untrained base encoders.
        reported: The published numbers.
        weighting: Weighting of the ranks.
        of: What all runs have in common; appended to the titles.
    """
    columns = dict.fromkeys(each.column for records in shown.values() for each in records)
    for column in columns:
        own = [base for base in bases if base.column == column]
        ks = {each.k for records in shown.values() for each in records if each.column == column}
        marks = [*_base_marks(own), *_marks(shown, column), *_reported_marks(reported, column)]
        (k, *others) = sorted(k for k in ks if k is not None) or (None,)
        if k is not None and not others and len(own) == 1 and len(marks) > 1:
            model, task = column
            yield Plane(f"{task}{of}", Path(model).name, k, weighting, marks)


def _base_marks(bases: Sequence[Record]) -> Iterator[Mark]:
    """Yield marks of the base and of the bounds: gold labels and random retrieval."""
    for base in bases:
        p, s = base.score(_P), base.score(_S)
        if p is None or s is None or base.stored is None:
            continue
        yield Mark("reference", "base", p.mean, s.mean)
        scores = base.stored[1].scores
        for name, role, ending, k in (
            ("gold labels (oracle)", "oracle", "oracle", base.k),
            ("random retrieval", "random", "chance", None),
        ):
            weighting = base.weighting if k else "linear"
            keys = [ScoreKey(f"{metric}_{ending}", k, weighting) for metric in (_P, _S)]
            if all(key in scores for key in keys):
                at = [scores[key].mean for key in keys]
                yield Mark(name, cast("MarkRole", role), at[0], at[1])


def _marks(shown: Mapping[str, Sequence[Record]], column: tuple[str, str]) -> Iterator[Mark]:
    for name, records in shown.items():
        own = [each for each in records if each.column == column]
        p, s = _mean(own, _P), _mean(own, _S)
        if math.isfinite(p) and math.isfinite(s):
            family = str(own[0].settings.get("loss", ""))
            yield Mark(name, "encoder", p, s, tuned=True, family=family)


def _reported_marks(
    reported: Sequence[PublishedTraining], column: tuple[str, str]
) -> Iterator[Mark]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for each in reported:
        if each.column == column:
            found.setdefault((each.name, each.paper), {})[each.metric] = each.value
    for (name, _), values in found.items():
        if {_P, _S} <= values.keys():
            yield Mark(name, "published", values[_P], values[_S])


def by_size(title: str, sizes: Mapping[int | None, Sequence[Record]], task: str) -> list[LineChart]:
    """Lay out P and S by number of examples, with a line for each loss.

    Each point is the mean over all other settings. It is NaN unless all planned runs have a score.

    Args:
        title: Start of the titles of the figures.
        sizes: The training runs of each number of examples; None is the default number, or all if
            there are fewer.
        task: The task that was trained on.
    """
    x = sorted(n if n is not None else DEFAULT_COUNT for n in sizes)
    by_n = {(n if n is not None else DEFAULT_COUNT): records for n, records in sizes.items()}
    losses = dict.fromkeys(
        each.settings["loss"] for n in x for each in by_n[n] if "loss" in each.settings
    )
    return [
        LineChart(
            f"{title}: {short} by examples, {task}",
            "examples an epoch",
            short,
            [float(n) for n in x],
            [
                Series(
                    loss,
                    [_whole([r for r in by_n[n] if r.settings.get("loss") == loss], m) for n in x],
                )
                for loss in losses
            ],
            is_log=True,
        )
        for m, (_, short) in METRICS.items()
    ]


def _whole(records: Sequence[Record], metric: str) -> float:
    """Return the mean if all planned runs have a score, else NaN."""
    return _mean(records, metric) if all(r.score(metric) for r in records) else math.nan


def _mean(records: Sequence[Record], metric: str) -> float:
    means = [score.mean for each in records if (score := each.score(metric))]
    return fmean(means) if means else math.nan
