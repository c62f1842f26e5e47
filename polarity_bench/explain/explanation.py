"""Comparison of two encoders on one polarity task, query by query.

The comparison reads the retrieved sources and the values per query that `polarity-bench run` stored
with its results. The module ranks and scores nothing. An encoder is right on a query if the label
of the query wins the weighted vote of the k nearest sources. The second encoder fixes a query if
only the second encoder is right, and breaks a query if only the first encoder is right. The change
of P measures the size of the effect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from polarity_bench.compare.alignment import align
from polarity_bench.compare.paired_comparison import Comparison, compare, contenders
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import AmbiguousNameError, InputError
from polarity_bench.evaluation.one_task import result_key
from polarity_bench.results.comparability import difference
from polarity_bench.results.packed_results import is_stored
from polarity_bench.results.result_files import Result, read_arrays
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.polarity.task import PolarityTask

_BECAME = {
    (False, True): "fixed by B",
    (True, False): "broken by B",
    (True, True): "both right",
    (False, False): "both wrong",
}
OUTCOMES = tuple(_BECAME.values())
_DIGEST = re.compile("[0-9a-f]{8}|[0-9a-f]{16}")


class Neighbour(NamedTuple):
    """Source that an encoder retrieved for a query.

    Attributes:
        source: Position among the task's sources, from 0.
        similarity: Similarity to the query, by the encoder's measure: cosine or inner product.
    """

    source: int
    similarity: float


@dataclass(frozen=True)
class Answer:
    """Scores and retrieved sources of both encoders for one query.

    Attributes:
        query: Position among the task's queries, from 0.
        p: P of the query for each encoder, a fraction.
        right: Whether each encoder is right on the query.
        found: The k nearest sources for each encoder, nearest first.
    """

    query: int
    p: tuple[float, float]
    right: tuple[bool, bool]
    found: tuple[Sequence[Neighbour], Sequence[Neighbour]]

    @property
    def moved(self) -> float:
        """Increase of P from the first to the second encoder, rounded to 6 decimals.

        Rounding removes the noise of stored values, so equal changes tie.
        """
        return round(self.p[1] - self.p[0], 6)

    @property
    def outcome(self) -> str:
        """Outcome of the query: fixed or broken by the second encoder, both right or both wrong."""
        return _BECAME[self.right]


@dataclass(frozen=True)
class Explanation:
    """Comparison of two encoders on every query of a task.

    Attributes:
        task: Task with its texts.
        p: Comparison of P.
        vote: Comparison of the share of queries on which an encoder is right (kNN accuracy).
        answers: Answers of both encoders to each query, in the task's order.
    """

    task: PolarityTask
    p: Comparison
    vote: Comparison
    answers: tuple[Answer, ...]

    @property
    def k(self) -> int:
        """Number of retrieved sources per query."""
        return self.p.aligned.key.k or 0

    @property
    def weighting(self) -> str:
        """Weighting of the ranks in P and in the vote."""
        return self.p.aligned.key.weighting

    @property
    def encoders(self) -> tuple[EncoderId, EncoderId]:
        """First and second encoder of the comparison."""
        one, other = self.p.aligned.results
        return one.key.encoder, other.key.encoder

    @property
    def counts(self) -> dict[str, int]:
        """Number of queries with each outcome, including outcomes without queries."""
        counted = Counter(answer.outcome for answer in self.answers)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def most_changed(self, n: int) -> list[Answer]:
        """Return the answers to the n queries with the largest changes of P, largest first.

        Queries with the same P for both encoders are left out.
        """
        moving = [answer for answer in self.answers if answer.moved]
        return sorted(moving, key=lambda answer: -abs(answer.moved))[:n]


def explain(
    task: PolarityTask, one: Result, other: Result, k: int, weighting: str = "linear"
) -> Explanation:
    """Compare the results of two encoders on a task query by query.

    Args:
        task: Task with its data.
        one: Result of the first encoder.
        other: Result of the second encoder.
        k: Number of nearest sources; both results need scores at this k.
        weighting: Weighting of the ranks, in P and in the vote.

    Raises:
        InputError: If both results have the same encoder, if a result was computed with another
            version of the task or its data, or if the results cannot be paired (see `align`).
    """
    check_distinct(one.key.encoder, other.key.encoder)
    for result in (one, other):
        if (result.key.task, result.key.data) != (task.spec.digest, task.digest):
            raise InputError(
                f"{result.path}: the result was computed with another version of {task.spec.name} "
                f"or its data; run {task.spec.name} again"
            )
    of_p, of_vote = (
        align([one, other], ScoreKey(metric, k, weighting))
        for metric in ("polarity", "knn_accuracy")
    )
    rows = zip(
        of_p.values.T.tolist(),
        of_vote.values.T.astype(bool).tolist(),
        zip(_nearest(one, k), _nearest(other, k), strict=True),
        strict=True,
    )
    answers = [
        Answer(i, tuple(p), tuple(right), nearest) for i, (p, right, nearest) in enumerate(rows)
    ]
    return Explanation(task, compare(of_p, 0), compare(of_vote, 0), tuple(answers))


def check_distinct(one: EncoderId, other: EncoderId) -> None:
    """Raise InputError if two names select the same encoder."""
    if one.digest == other.digest:
        both = " and ".join(dict.fromkeys([one.label, other.label]))
        raise InputError(
            f"`model` and `against` are the same encoder, {both} ({one.digest}); name two encoders"
        )


def labels_of(task: PolarityTask) -> list[str]:
    """Return the labels of a task, in the order of its file if the file names them."""
    return list(dict.fromkeys(task.spec.labels.values())) or sorted({*task.source.labels})


def find_stored(
    folder: Path,
    name: str,
    task: PolarityTask,
    k: int,
    prompt: str | None = None,
    strength: float | None = None,
    by_name: bool = False,
) -> Result | None:
    """Return a stored result of a task by the encoder's digest or by file; None if there is none.

    By default, the encoder's name does not select a result, because its weights and settings are
    only known after the encoder was loaded.

    Args:
        folder: Folder of results.
        name: Digest of the encoder, its first 8 digits, or the file of a result.
        task: Task with its data.
        k: Number of retrieved sources at which the result must have scores.
        prompt: Required prompt of the encoder; None allows any prompt.
        strength: Required strength of the encoder's axis; None allows any strength.
        by_name: Whether the encoder's name selects a result too, as for encoders that are gone.

    Raises:
        InputError: If `name` is a file, but not a result of this task with this data and k, or if
            several encoders have this name.
    """
    is_file = name.endswith(".json") and is_stored(Path(name))
    if not is_file and (Path(name).is_dir() or not (by_name or _DIGEST.fullmatch(name))):
        return None
    try:
        found = contenders(folder, name, task.spec.name)
        fitting = [
            result
            for result in sorted(found, key=lambda result: len(result.experiment))
            if _is_current(result, task, k)
            and (is_file or by_name or result.key.encoder.digest.startswith(name))
            and prompt in {None, result.key.encoder.prompt}
            and strength in {None, result.key.encoder.strength}
        ]
        if fitting and read_arrays(fitting[0].path):
            return fitting[0]
    except InputError as error:
        if is_file or isinstance(error, AmbiguousNameError):
            raise
    if is_file:
        raise InputError(
            f"{name}: the result was computed with another version of {task.spec.name} or its "
            f"data, or does not include k = {k}; run {task.spec.name} again"
        )
    return None


def _is_current(result: Result, task: PolarityTask, k: int) -> bool:
    """Return whether a result has the version, data and protocol of a task, and scores at k."""
    key = result_key(task, result.key.encoder, result.key.reference)
    return difference(result, replace(result, key=key)) is None and k in result.ks


def _nearest(result: Result, k: int) -> list[list[Neighbour]]:
    """Return the k nearest sources of each query of a stored result."""
    names = ("retrieved_index", "retrieved_similarity")
    arrays = read_arrays(result.path, names)
    index, similarity = (arrays[name][:, :k].tolist() for name in names)
    return [list(map(Neighbour, *row)) for row in zip(index, similarity, strict=True)]


def as_json(explained: Explanation, n_changed: int) -> dict[str, Any]:
    """Return the comparison as a JSON value.

    Scores are fractions, and ranks start at 1.

    Args:
        explained: Comparison of two encoders.
        n_changed: Maximum number of queries to include, those with the largest changes of P.
    """
    sides = {
        name: {
            "encoder": result.key.encoder.name,
            "encoder_digest": result.key.encoder.digest,
            "file": str(result.path),
            "P": explained.p.aligned.scores[i],
            "right": explained.vote.aligned.scores[i],
        }
        for i, (name, result) in enumerate(zip("ab", explained.p.aligned.results, strict=True))
    }
    return {
        "unit": "fraction",
        "task": explained.task.spec.name,
        "k": explained.k,
        "weighting": explained.weighting,
        **sides,
        "difference": explained.p.test.difference,
        "n": len(explained.answers),
        "counts": explained.counts,
        "changed": [_row(explained.task, each) for each in explained.most_changed(n_changed)],
    }


def _row(task: PolarityTask, answer: Answer) -> dict[str, Any]:
    source = task.source
    ranks = [{near.source: i for i, near in enumerate(side, 1)} for side in answer.found]
    return {
        "query": answer.query,
        **task.items[answer.query],
        "P": answer.p,
        "moved": answer.moved,
        "right": answer.right,
        "outcome": answer.outcome,
        **{
            f"found_by_{name}": [
                {
                    "source": each.source,
                    "text": source.texts[each.source],
                    "label": source.labels[each.source],
                    "similarity": each.similarity,
                    "rank_elsewhere": other.get(each.source),
                }
                for each in found
            ]
            for name, found, other in zip("ab", answer.found, reversed(ranks), strict=True)
        },
    }
