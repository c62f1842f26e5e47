"""History of a training run: the scores of each epoch, as CSV and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.errors import InputError, how_to_install, warn
from polarity_bench.files import write_atomically
from polarity_bench.render.chart import LineChart, Series
from polarity_bench.scores import WEIGHTINGS

SCORE_TITLES = {"polarity": "P", "similarity": "S", "retention": "retention", "joint": "joint"}
"""Titles of the polarity scores that histories and model cards show, by metric."""

Row = Mapping[str, float | None]
"""One row of the history. Scores are fractions, or None if undefined."""


def history_rows(log: Sequence[Mapping[str, Any]]) -> list[dict[str, float | None]]:
    """Return one row for each evaluation in a trainer's log; the first row is before training.

    `loss` is the mean loss over the steps of the epoch. `learning_rate` is the rate of its last
    step. Both are None before training.
    """
    entries: dict[int, dict[str, Any]] = {}
    for entry in log:
        entries.setdefault(int(entry["step"]), {}).update(entry)
    rows = []
    for step, entry in sorted(entries.items()):
        scores = {
            key.removeprefix("eval_"): value
            for key, value in entry.items()
            if key.startswith("eval_") and not key.endswith(("_runtime", "_per_second"))
        }
        if scores:
            training = {key: entry.get(key) for key in ("loss", "learning_rate")}
            ordered = {key: scores[key] for key in sorted(scores, key=_place)}
            rows.append(with_null({"epoch": entry["epoch"], "step": step} | training | ordered))
    return rows


def with_null(row: Row) -> dict[str, float | None]:
    """Replace non-finite values by None, which every file format can represent."""
    return {
        name: None if value is None or not math.isfinite(value) else value
        for name, value in row.items()
    }


def best_row(rows: Sequence[Row], metric: str) -> Row:
    """Return the trained row with the highest metric, or the first of several such rows.

    Joint scores are those that are shown, at least 0, and can be equal. P breaks ties, because
    below chance an encoder that forgets meaning has a higher joint.

    Raises:
        InputError: If the metric is undefined in every trained row.
    """
    trained = [row for row in rows if row["step"] and row[metric] is not None]
    if not trained:
        raise InputError(
            f"{metric} is undefined for every epoch: the task has too few queries or sources; use "
            "a larger task"
        )
    return max(trained, key=lambda row: _rank(row, metric))


def kept_row(rows: Sequence[Row], metric: str) -> Row:
    """Return the best trained row, or the row before training if no trained row is better."""
    best, before = best_row(rows, metric), rows[0]
    return before if _rank(before, metric) >= _rank(best, metric) else best


def _rank(row: Row, metric: str) -> tuple[float, float]:
    """Return a sort key: a joint score, and P of the same queries to break ties."""
    p = metric.replace("joint", "polarity")
    return row[metric] or 0.0, row.get(p) or 0.0


def is_over(rows: Sequence[Row], metric: str, *, epochs: int, patience: int) -> bool:
    """Return whether training ends after these rows.

    Training ends after `epochs` epochs, or earlier if `patience` epochs have passed since the best
    one. A `patience` of 0 disables early stopping.
    """
    trained = [row for row in rows if row["step"]]
    if len(trained) >= epochs:
        return True
    if not patience or not trained:
        return False
    return trained[-1]["epoch"] - best_row(rows, metric)["epoch"] >= patience  # type: ignore[operator]  # an epoch is never None


def _place(name: str) -> tuple[bool, bool, str]:
    """Return a sort key: the task's own scores before held-out ones, linear before others."""
    return name.startswith("held_out_"), name.rpartition("_")[2] in WEIGHTINGS, name


def write_history(rows: Sequence[Row], folder: Path) -> None:
    """Write `history.csv`, with an empty cell for None."""
    import pandas as pd

    # With dtype object, pandas does not convert integers to floats in columns with missing values.
    text = pd.DataFrame(rows, dtype=object).to_csv(index=False, lineterminator="\n")
    write_atomically(folder / "history.csv", text.encode())


def draw_history(rows: Sequence[Row], folder: Path, title: str) -> None:
    """Draw P, S, retention and joint by epoch to `history.svg`, if there are at least two rows.

    Warns:
        InputWarning: If altair or vl-convert, which draw the figure, is not installed.
    """
    from polarity_bench.render.figures.figure_files import can_draw

    if len(rows) < 2:
        return
    if not can_draw():
        missing = "altair and vl-convert are not installed"
        warn(f"history.svg is not drawn: {missing}; {how_to_install('report')}")
        return
    write_atomically(folder / "history.svg", plot(rows, title))


def plot(rows: Sequence[Row], title: str) -> bytes:
    """Return an SVG figure of P, S, retention and joint by epoch."""
    from polarity_bench.render.figures.figure_files import draw_charts

    epochs = [row["epoch"] or 0.0 for row in rows]
    curves = [
        Series(label, [math.nan if (value := row[metric]) is None else value for row in rows])
        for metric, label in SCORE_TITLES.items()
    ]
    chart = LineChart(title, "epoch", "score", epochs, curves)
    return draw_charts([chart], "svg")
