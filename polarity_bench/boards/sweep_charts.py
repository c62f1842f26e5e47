"""Charts of a sweep: P–S planes of its configurations, and P and S by number of examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from polarity_bench.render.chart import Drawn, LineChart, Mark, MarkRole, Plane, Series
from polarity_bench.results.aggregate import seed_means
from polarity_bench.sweeps.to_frame import METRICS
from polarity_bench.training.examples.spec import DEFAULT_COUNT

if TYPE_CHECKING:
    from pandas import DataFrame

_P, _S = METRICS
_BASES: tuple[tuple[str, MarkRole, str], ...] = (
    ("reference", "base", ""),
    ("gold labels (oracle)", "oracle", "_oracle"),
    ("random retrieval", "random", "_chance"),
)


def sweep_planes(
    runs: DataFrame,
    bases: DataFrame,
    published: DataFrame,
    weighting: str,
    ending: str = "",
) -> Iterator[Drawn]:
    """Yield a P–S plane for each base and task, with the training runs and published numbers.

    Args:
        runs: Records of training runs, with the name of their configuration in `name`.
        bases: Records of the untrained base encoders.
        published: The published numbers.
        weighting: Weighting of the ranks.
        ending: Text with the settings of all runs, which is appended to titles.
    """
    for (model, task), trained in runs.groupby(["base", "task"], sort=False):
        base, numbers = (
            each[(each["base"] == model) & (each["task"] == task)] for each in (bases, published)
        )
        marks: list[Mark] = []
        for name, role, ending_of_metric in _BASES:
            metrics = [f"{metric}{ending_of_metric}" for metric in METRICS]
            marks += _marks(base, ["item"], role, metrics, name)
        marks += _marks(trained, ["name"], "encoder", [*METRICS])
        marks += _marks(numbers, ["encoder", "paper"], "published", [*METRICS])
        ks = trained["k"].dropna().unique()
        if len(ks) == 1 and base["item"].nunique() == 1 and len(marks) > 1:
            yield Plane(f"{task}{ending}", Path(str(model)).name, int(ks[0]), weighting, marks)


def _marks(
    records: DataFrame, by: list[str], role: MarkRole, metrics: list[str], name: str = ""
) -> Iterator[Mark]:
    """Yield a mark of the plane for each group of records that has both scores.

    Args:
        records: Records of one base and task.
        by: Columns by which records are grouped. The first column names the mark.
        role: Role of the marks.
        metrics: Metrics of P and of S.
        name: Name of all marks, instead of the values of the first column.
    """
    means = seed_means(records[records["metric"].isin(metrics)], [*by, "metric"])
    families: dict[str, str] = {}
    if role == "encoder" and "settings.loss" in records:
        losses = zip(records["name"], records["settings.loss"], strict=True)
        families = {name: loss for name, loss in losses if isinstance(loss, str)}
    for values, group in means[means["value"].notna()].groupby(by, sort=False):
        at = dict(zip(group["metric"], group["value"], strict=True))
        if at.keys() == {*metrics}:
            p, s = (float(at[metric]) for metric in metrics)
            label = name or str(values[0])
            yield Mark(label, role, p, s, tuned=role == "encoder", family=families.get(label, ""))


def size_charts(title: str, trainings: DataFrame, task: str) -> list[LineChart]:
    """Return charts of P and S by number of examples, with a line for each loss.

    Each point is the mean over all other settings. It is NaN if a planned run has no score.

    Args:
        title: Start of the titles of the charts.
        trainings: Records of training runs. Runs without a number of examples use the default.
        task: Name of the task on whose data the encoders were trained.
    """
    sizes = [DEFAULT_COUNT if n is None or n != n else n for n in trainings["settings.examples"]]
    runs = trainings.assign(size=sizes).sort_values("size", kind="stable")
    means = seed_means(runs, ["settings.loss", "size", "metric"])
    complete = means.assign(value=means["value"].where(means["n_seeds"] == means["n_planned"]))
    points = complete.pivot(index="size", columns=["metric", "settings.loss"], values="value")
    return [
        LineChart(
            f"{title}: {short} by examples, {task}",
            "examples per epoch",
            short,
            [float(n) for n in points.index],
            [
                Series(loss, points[metric, loss].tolist())
                for loss in dict.fromkeys(means["settings.loss"])
            ],
            is_log=True,
        )
        for metric, (_, short) in METRICS.items()
    ]
