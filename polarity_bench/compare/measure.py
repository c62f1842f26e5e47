"""Which score of two results is compared: by a column's title, a metric or a score's name."""

from __future__ import annotations

from polarity_bench.errors import InputError, nearest
from polarity_bench.metrics.correlation import COEFFICIENTS
from polarity_bench.results.result_files import Result
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.catalogue import KINDS

RIGHT = ("accuracy", "exact_accuracy")
"""Of transfer: both are the share of samples that are predicted right, but one is rounded."""
PREDICTED = {"sts": "cosine", "relatedness": "prediction"}
"""What is correlated with people's scores, by kind."""
_OF_PAIRS = {"sgts", "pairwise_accuracy"}


def measure_of(result: Result, named: str | None, weighting: Weighting = "linear") -> ScoreKey:
    """Return the score that a name means, at the k of the result's main score.

    Args:
        result: One of those to be compared.
        named: A column's title (`P`), a metric (`polarity`) or a score's name
            (`polarity_of_negation_at_16`), letter case aside; None is the main score.
        weighting: Of the ranks, where the name says none.

    Raises:
        InputError: If there is no such score, or nothing is stored of it for each query.
    """
    known = _names(result, weighting)
    comparable = [name for name, key in known.items() if is_comparable(key, result)]
    wanted = result.main_score.metric if named is None else named
    folded = {name.casefold(): key for name, key in known.items()}
    key = folded.get(wanted.casefold())
    if named is None:
        key = result.main_score if result.main_score.k is None else key
    if key is None:
        raise InputError(
            f"`measure` {wanted}: {result.task} has no such score{nearest(wanted, comparable)}"
        )
    if not is_comparable(key, result):
        said = f"; say one of {', '.join(sorted(comparable)[:12])}" if comparable else ""
        raise InputError(f"`measure` {wanted}: nothing is stored of it for each query{said}")
    return key


def _names(result: Result, weighting: Weighting) -> dict[str, ScoreKey]:
    """Every score of the result by its title, metric or name."""
    k = result.main_score.k

    def at_its_k(metric: str) -> ScoreKey | None:
        ranked = [] if k is None else [ScoreKey(metric, k, weighting), ScoreKey(metric, k)]
        tried = [*ranked, ScoreKey(metric)]
        return next((key for key in tried if key in result.scores), None)

    titles = {title: at_its_k(metric) for title, metric in RANKED.items()}
    if k is None:
        titles = dict(KINDS[result.kind].columns) if result.kind in KINDS else {}
    else:
        titles["accuracy"] = titles["kNN accuracy"]
    metrics = {metric: at_its_k(metric) for metric in {key.metric for key in result.scores}}
    named = {str(key): key for key in result.scores}
    found = titles | metrics | named
    return {name: key for name, key in found.items() if key is not None and key in result.scores}


def is_comparable(key: ScoreKey, result: Result) -> bool:
    """Whether what a score is made of is stored for each query."""
    if result.kind == "polarity":
        return key.metric not in _OF_PAIRS
    if result.kind == "transfer":
        return key.metric in RIGHT
    return result.kind in PREDICTED and key.metric in COEFFICIENTS
