"""Selection of the score to compare, by column title, metric or score name."""

from __future__ import annotations

from dataclasses import replace

from polarity_bench.errors import InputError, nearest
from polarity_bench.metrics.register import titled_metrics
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey, part_title
from polarity_bench.tasks.catalogue import task_type
from polarity_bench.values import grouped


def measure_of(result: Result, named: str | None, weighting: str = "linear") -> ScoreKey:
    """Return the key of a score. The default k is that of the result's main score.

    Args:
        result: One of the results to compare.
        named: Column title (`P` or `P, negation`), metric (`polarity`) or score name
            (`polarity_of_negation_at_16`). Case is ignored if no name has the same case. None
            selects the main score.
        weighting: Weighting of the ranks, unless the score name contains one.

    Raises:
        InputError: If the result has no such score, several scores have the name but for case, or
            the score has no stored values per query.
    """
    known = _names(result, weighting)
    comparable = [title for title, key in known.items() if is_comparable(key, result)]
    name = result.main_score.metric if named is None else named
    alike = [title for title in known if title.casefold() == name.casefold()]
    if len({known[title] for title in alike}) > 1 and name not in known:
        raise InputError(
            f"`measure` {name}: {result.task} has several such scores ({', '.join(alike)}); give "
            "the name in the same case"
        )
    key = known.get(name) or next((known[title] for title in alike), None)
    if named is None:
        key = result.main_score if result.main_score.k is None else key
    if key is None:
        raise InputError(
            f"`measure` {name}: {result.task} has no such score{nearest(name, comparable)}"
        )
    if not is_comparable(key, result):
        advice = f"; choose one of {', '.join(sorted(comparable)[:12])}" if comparable else ""
        raise InputError(
            f"`measure` {name}: the values per query of this score are not stored{advice}"
        )
    return key


def _names(result: Result, weighting: str) -> dict[str, ScoreKey]:
    """Return the keys of the result's scores, by column title, by metric and by score name."""
    k = result.main_score.k

    def at_its_k(metric: str) -> ScoreKey | None:
        ranked = [] if k is None else [ScoreKey(metric, k, weighting), ScoreKey(metric, k)]
        tried = [*ranked, ScoreKey(metric)]
        return next((key for key in tried if key in result.scores), None)

    titles = {title: at_its_k(metric.name) for title, metric in titled_metrics().items()}
    titles["accuracy"] = titles["kNN accuracy"]
    titles |= dict(task_type(result.kind).columns)
    titles_of = grouped(titles, titles.__getitem__)
    titles |= {
        f"{title}, {part_title(key.part)}": key
        for key in result.scores
        if key.part is not None
        for title in titles_of.get(replace(key, part=None), ())
    }
    metrics = {metric: at_its_k(metric) for metric in {key.metric for key in result.scores}}
    keys = titles | metrics | {str(key): key for key in result.scores}
    return {name: key for name, key in keys.items() if key is not None and key in result.scores}


def is_comparable(key: ScoreKey, result: Result) -> bool:
    """Return whether results store the values per query that make up a score."""
    return bool(task_type(result.kind).arrays_of(key))
