"""Dial page: an HTML page in one file with a slider for the strength of an encoder's axis.

The page holds the sources that `polarity-bench run` retrieves for each query at each strength, and
their cosine with the query under the reference encoder. It ranks nothing: its script computes only
P and S of the chosen query from these rows. The scores over all queries are those of the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polarity_bench.explain.explanation import labels_of
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.render.html.templates import one_file
from polarity_bench.results.result_files import TRAINED_BY, Result
from polarity_bench.retrieval import cosine_at
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import TaskRetrieval
from polarity_bench.tasks.types.polarity.task import PolarityTask

STRENGTHS = tuple(step / 20 for step in range(-20, 21))
"""Strengths on the page: -1 to 1 in steps of 0.05."""

_FIRST = ord("0")  # character of a query's first retrieved source


@dataclass(frozen=True)
class Dial:
    """Results of one encoder on a task at several strengths.

    Attributes:
        task: Task with its texts.
        by_strength: Result at each strength, with its arrays.
        reference: Retrieval by the reference encoder, which measures S.
        weighting: Weighting of the ranks in P and S.
    """

    task: PolarityTask
    by_strength: Mapping[float, Result]
    reference: TaskRetrieval
    weighting: str = "linear"


def dial_page(dial: Dial, start: float = 0.0) -> bytes:
    """Render the page, which opens at the strength nearest to `start`.

    Raises:
        InputError: If jinja2 is not installed.
    """
    task, strengths = dial.task, sorted(dial.by_strength)
    result = dial.by_strength[strengths[0]]
    return one_file(
        "dial",
        _data(dial, strengths, start),
        task=task,
        k=task.ks[-1],
        weighting=dial.weighting,
        n_strengths=len(strengths),
        key=result.key,
        command=result.environment.get(TRAINED_BY, ""),
        seen={part: counts["normalised"] for part, counts in (result.seen or {}).items()},
    )


def _data(dial: Dial, strengths: list[float], start: float) -> dict[str, Any]:
    """Return the data for the page's script.

    Each source is stored once. The retrieved sources of a query are a string with one character for
    each strength and rank: its distance from `_FIRST` is a position in the query's own list of
    sources, so they take one byte each. Cosines are integers, in units of 1e-4.
    """
    task, k = dial.task, dial.task.ks[-1]
    keys = [ScoreKey(metric, k, dial.weighting) for metric in ("polarity", "similarity")]
    results = [dial.by_strength[strength] for strength in strengths]
    arrays = [result.arrays for result in results]
    index = np.stack([each["retrieved_index"][:, :k] for each in arrays], axis=1)  # (q, a, k)
    found = [np.unique(rows) for rows in index]
    # All queries need the same number of sources here, so some sources are repeated.
    even = np.stack([np.resize(sources, max(map(len, found))) for sources in found])
    cosines = cosine_at(dial.reference.query, dial.reference.source, even) * 1e4
    used = np.unique(np.concatenate(found))
    # Open at the query whose P and S are nearest to the means over all queries.
    values = np.array([[each[str(key)] for key in keys] for each in arrays])  # (a, 2, q)
    distance = ((values - values.mean(axis=2, keepdims=True)) ** 2).sum(axis=(0, 1))
    labels = labels_of(task)
    column = (*task.spec.protocol.groups, None)[0]
    return {
        "labels": labels,
        "strengths": strengths,
        "start": int(np.abs(np.array(strengths) - start).argmin()),
        "query": int(distance.argmin()),
        "weights": [round(float(weight), 6) for weight in rank_weights(k, dial.weighting)],
        "scores": [[_numbers(result.scores[key]) for key in keys] for result in results],
        "sources": [[task.source.texts[i], labels.index(task.source.labels[i])] for i in used],
        "queries": [
            [
                task.query.texts[i],
                labels.index(task.query.labels[i]),
                (task.query.columns[column] if column else task.query.labels)[i],
                np.searchsorted(used, sources).tolist(),
                cosines[i, : len(sources)].round().astype(int).tolist(),
                "".join(
                    chr(_FIRST + position) for position in np.searchsorted(sources, index[i]).flat
                ),
            ]
            for i, sources in enumerate(found)
        ],
    }


def _numbers(score: Score) -> list[float | None]:
    """Return the mean of a score and its interval, None if undefined."""
    numbers = (score.mean, *score.ci95)
    return [None if math.isnan(number) else round(number, 6) for number in numbers]
