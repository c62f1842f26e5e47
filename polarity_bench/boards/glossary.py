"""What every column and score is, in a line each."""

from __future__ import annotations

from collections.abc import Iterable

from polarity_bench.errors import InputError, nearest
from polarity_bench.kinds import KINDS
from polarity_bench.types import ScoreKey

MEANINGS = {
    "polarity": "share of the k nearest sources that have the query's label, weighted by rank",
    "similarity": "mean cosine of the query and its k nearest under the reference, by rank",
    "similarity_reference": "the same of those that the reference itself finds nearest",
    "retention": "how much of the reference's own S beyond chance is kept; its own is 1",
    "joint": "harmonic mean of P's lift over chance, clipped at 0, and of retention",
    "knn_accuracy": "how often the weighted vote of the k nearest is the query's label",
    "overlap": "share of the k nearest that the reference finds too",
    "sgts": "Spearman's correlation of cosine with equality of labels (SentiCSE)",
    "pairwise_accuracy": "share of minimal pairs whose two queries both lie nearer the source of "
    "their own polarity than its twin; chance is 0.25",
    "polarity_chance": "the P of retrieval at random",
    "similarity_chance": "the S of retrieval at random",
    "accuracy": "test accuracy of a classifier on frozen vectors, rounded as SentEval rounds",
    "exact_accuracy": "the same, not rounded",
    "dev_accuracy": "accuracy on the rows that chose the regularisation",
    "macro_f1": "mean of the classes' F1",
    "f1": "F1 of the class 1",
    "recall": "share of a class's rows that are found",
    "pearson": "Pearson's correlation with people's scores",
    "spearman": "Spearman's correlation with people's scores",
    "mse": "mean squared error of the predicted scores",
    "dev_pearson": "Pearson's correlation on the dev set, by which training stopped",
}
"""By metric."""

RANKED = {
    "P": "polarity",
    "S": "similarity",
    "retention": "retention",
    "joint": "joint",
    "kNN accuracy": "knn_accuracy",
    "SgTS": "sgts",
    "minimal pairs": "pairwise_accuracy",
}
"""Titles of columns that rank, and their metrics."""

BOLD_NOTE = "Bold: the best of its column."
SCORES_NOTE = (
    "P: polarity score; S: semantic similarity score under the reference; retention: how much of "
    "the reference's own S beyond chance is kept, all of it where the reference is the encoder "
    "itself; joint: harmonic mean of P's lift over chance and of retention, clipped at 0, which "
    "lifts noise: read it with its 95 % interval over the queries, [low, high]. The interval of a "
    "mean adds those of its tasks, which are independent, in quadrature."
)
RIVALS_NOTE = (
    "Scores compete at one k; S, retention and joint only in rows that share a reference other "
    "than their own encoder."
)
"""What stands below boards."""

_PARTS = {
    "all": "over all pairs laid together",
    "mean": "mean over the subsets",
    "wmean": "mean over the subsets, weighted by their pairs",
}
_WEIGHTS = {"linear": "ranks weighted linearly", "uniform": "every rank weighted alike"}


def titles() -> dict[str, ScoreKey]:
    """Return the score of each column title, k left out."""
    found = {title: ScoreKey(metric) for title, metric in RANKED.items()}
    for kind in KINDS.values():
        found.update(kind.columns)
    return found


def explain(name: str, groups: Iterable[str] = ()) -> str:
    """Say in a line what a score or column is.

    Args:
        name: A column's title (`P, negation`) or a score's name (`polarity_of_negation_at_16`).
        groups: Columns of task files whose shares are scored.

    Raises:
        InputError: If there is none of this name.

    Example:
        >>> explain("joint_at_4")
        "harmonic mean of P's lift over chance, clipped at 0, and of retention; at k = 4"
    """
    by_title = {title.casefold(): key for title, key in titles().items()}
    words, _, part = name.strip().partition(", ")
    said = [words.removesuffix(f" {weights}") for weights in _WEIGHTS]
    known = next((by_title[t.casefold()] for t in said if t.casefold() in by_title), None)
    key = known or ScoreKey.parse(name.strip())
    meanings = MEANINGS | {
        group: f"share of the k nearest that have the query's {group}, weighted by rank"
        for group in groups
    }
    if key.metric not in meanings:
        raise InputError(
            f"no score or column {name!r}{nearest(name, {*titles(), *meanings, *MEANINGS})}"
        )
    part = part or key.part or ""
    weights = key.weighting if known is None else words.rpartition(" ")[2]
    at_k = f"at k = {key.k}" if key.k else ""
    only = _PARTS.get(part, f"of {part} alone") if part else ""
    shown = _WEIGHTS[weights] if weights in _WEIGHTS and weights != "linear" else ""
    return "; ".join(filter(None, [meanings[key.metric], only, shown, at_k]))
