"""Charts of one run: P–S planes, and bar charts for results without S."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from polarity_bench.boards.board import BoardParts, board
from polarity_bench.boards.charts import series_of
from polarity_bench.boards.config import BoardFile
from polarity_bench.encoders.base import EncoderId
from polarity_bench.files import folder_name
from polarity_bench.render.chart import BarChart, Chart
from polarity_bench.results.comparability import difference
from polarity_bench.results.curve import Curve
from polarity_bench.results.result_files import Result, read_results
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.values import grouped


def plotted(results: Sequence[Result], weighting: str, curves: Sequence[Curve] = ()) -> list[Chart]:
    """Return the charts of one run, including results that were cut by a limit.

    Returns:
        A plane for each task with S, at its main k, and a bar chart of the other tasks for each
        task type.
    """
    main = {result.task: result.main_score.k for result in results}
    titles = {r.task: f"{r.task}, {r.limit} queries" if r.limit else r.task for r in results}
    ranked = [result for result in results if KINDS[result.kind].has_k]
    ranked_board = board(BoardParts(ranked, BoardFile(weighting=weighting), curves))
    planes = [plane for plane in ranked_board.planes if plane.k == main[plane.task]]
    on_planes = {plane.task for plane in planes}
    others = [result for result in results if result.task not in on_planes]
    return [*(replace(p, task=titles[p.task]) for p in planes), *_bars(others, weighting)]


def _bars(results: Sequence[Result], weighting: str) -> Iterator[BarChart]:
    """Yield a bar chart for each task type, with a group of bars for each task.

    Bars of retrieval tasks show P. Bars of other tasks show the main score.
    """
    for kind, of_kind in grouped(results, lambda result: result.kind).items():
        has_k = KINDS[kind].has_k
        scores: dict[str, dict[str, Score | None]] = {}
        for result in of_kind:
            main = result.main_score
            key = ScoreKey("polarity", main.k, weighting) if has_k else main
            scores.setdefault(result.key.encoder.label, {})[result.task] = result.scores.get(key)
        tasks = list(dict.fromkeys(result.task for result in of_kind))
        series = series_of(scores.items(), tasks)
        measure = "P" if has_k else KINDS[kind].measure
        if any(math.isfinite(value) for each in series for value in each.values):
            yield BarChart(KINDS[kind].heading, measure, tasks, series)


def references_of(results: Sequence[Result], output: Path) -> tuple[list[Result], list[EncoderId]]:
    """Find comparable results of the run's reference encoders.

    Args:
        results: Results of the run.
        output: Folder in which to look for results.

    Returns:
        The results of reference encoders, and the reference encoders whose results are missing.
    """
    known = {(result.key.encoder.digest, result.task) for result in results}
    references: list[Result] = []
    lacking: dict[str, EncoderId] = {}
    for result in results:
        reference = result.key.reference
        if reference is None or reference.is_absent or (reference.digest, result.task) in known:
            continue
        folder = output / folder_name(reference.name) / reference.digest
        same = [
            each
            for each in read_results(folder)
            if each.key.reference is None and result.main_score.k in each.ks
            if difference(each, result) is None
        ]
        if same:
            references.append(same[0])
            known.add((reference.digest, result.task))
        else:
            lacking[reference.digest] = reference
    return references, list(lacking.values())
