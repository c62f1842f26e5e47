"""Explorer: an HTML page in one file that shows the retrieved sources of two encoders per query.

Sentences are stored as JSON and inserted as text nodes. Equal results give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polarity_bench.compare.paired_comparison import Comparison
from polarity_bench.explain.explanation import OUTCOMES, Answer, Explanation, labels_of
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.render.format import percent, probability
from polarity_bench.render.html.templates import one_file

_P_DIGITS, _COSINE_DIGITS = 4, 3


def page(explained: Explanation) -> bytes:
    """Render the comparison of two encoders as an HTML page.

    Raises:
        InputError: If jinja2 is not installed.
    """
    return one_file("explorer", _data(explained), **_head(explained))


def _head(explained: Explanation) -> dict[str, Any]:
    """Return the template's values for the part of the page above the queries."""
    task, counts = explained.task, explained.counts
    rows = [
        {"name": name, "encoder": encoder.label, "digest": encoder.digest}
        for name, encoder in zip("AB", explained.encoders, strict=True)
    ]
    return {
        "task": task.spec.name,
        "title": task.spec.title,
        "description": task.spec.description,
        "k": explained.k,
        "weighting": explained.weighting,
        "n_sources": f"{len(task.source):,}",
        "n_queries": f"{len(task.query):,}",
        "limit": task.limit,
        "rows": rows,
        "scores": [_score("P", explained.p), _score("Right", explained.vote)],
        "filters": [("all", f"{len(explained.answers):,}")]
        + [(outcome, f"{counts[outcome]:,}") for outcome in OUTCOMES],
    }


def _score(name: str, comparison: Comparison) -> dict[str, Any]:
    test = comparison.test
    return {
        "name": name,
        "both": [percent(float(score)) for score in comparison.aligned.scores],
        "difference": _signed_percent(test.difference),
        "interval": " to ".join(map(_signed_percent, test.interval)),
        "p": probability(test.p),
    }


def _signed_percent(difference: float) -> str:
    return percent(difference, sign="+").replace("-", "\N{MINUS SIGN}")


def _data(explained: Explanation) -> dict[str, Any]:
    """Return the data for the page's script.

    Each retrieved source is stored once, and queries refer to sources by position.
    """
    task = explained.task
    labels = labels_of(task)
    used = sorted({each.source for a in explained.answers for side in a.found for each in side})
    positions = {source: position for position, source in enumerate(used)}
    columns = _columns(explained)
    weights = rank_weights(explained.k, explained.weighting)
    return {
        "task": task.spec.name,
        "labels": labels,
        "encoders": [encoder.label for encoder in explained.encoders],
        "outcomes": OUTCOMES,
        "weights": [round(float(weight), 6) for weight in weights],
        "columns": columns,
        "sources": [[task.source.texts[i], labels.index(task.source.labels[i])] for i in used],
        "queries": [
            [
                task.query.texts[answer.query],
                labels.index(task.query.labels[answer.query]),
                [task.query.columns[column][answer.query] for column in columns],
                [round(p, _P_DIGITS) for p in answer.p],
                answer.moved,
                OUTCOMES.index(answer.outcome),
                *_sides(answer, positions),
            ]
            for answer in explained.answers
        ],
    }


def _sides(answer: Answer, positions: dict[int, int]) -> list[list[Any]]:
    return [
        [[positions[n.source] for n in side], [round(n.similarity, _COSINE_DIGITS) for n in side]]
        for side in answer.found
    ]


def _columns(explained: Explanation) -> Sequence[str]:
    """Return the task's columns to show with each query: the breakdown of P and the groups."""
    protocol = explained.task.spec.protocol
    return list(dict.fromkeys([*filter(None, [protocol.breakdown]), *protocol.groups]))
