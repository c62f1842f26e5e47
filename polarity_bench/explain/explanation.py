"""Comparison of two encoders on one polarity task, query by query.

The comparison reads the retrieved sources and the values per query that `run` stored with its
results. Nothing is ranked or scored here. A query is right if the weighted vote of its k nearest
sources is its label. The second encoder fixes or breaks a query if only one encoder is right. The
change of P says by how much.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from polarity_bench.compare.alignment import align
from polarity_bench.compare.paired_comparison import Comparison, compare, contenders
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.results.comparability import FREE
from polarity_bench.results.packed_results import is_stored
from polarity_bench.results.result_files import Result, Stored, read_arrays
from polarity_bench.scores import ScoreKey, Weighting
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
    """A source that one encoder retrieved.

    Attributes:
        source: Position among the task's sources, from 0.
        similarity: Similarity to the query, by the encoder's own measure.
    """

    source: int
    similarity: float


@dataclass(frozen=True)
class Answer:
    """A query under both encoders.

    Attributes:
        query: Position among the task's queries, from 0.
        p: P of the query under each encoder.
        right: Whether the vote of the k nearest sources is the query's label, under each encoder.
        found: The k nearest sources under each encoder, nearest first.
    """

    query: int
    p: tuple[float, float]
    right: tuple[bool, bool]
    found: tuple[Sequence[Neighbour], Sequence[Neighbour]]

    @property
    def moved(self) -> float:
        """The increase of P, rounded to 6 digits.

        Rounding removes the noise of the stored values, so that equal changes stay tied.
        """
        return round(self.p[1] - self.p[0], 6)

    @property
    def outcome(self) -> str:
        """The outcome under the second encoder, compared with the first."""
        return _BECAME[self.right]


@dataclass(frozen=True)
class Explanation:
    """Comparison of the second of two encoders with the first, on every query of a task.

    Attributes:
        task: The task with its texts.
        p: Comparison of P.
        vote: Comparison of the share of queries whose vote is right.
        answers: The answer to each query, in the task's order.
    """

    task: PolarityTask
    p: Comparison
    vote: Comparison
    answers: tuple[Answer, ...]

    @property
    def k(self) -> int:
        """Number of sources that each query retrieves."""
        return self.p.aligned.key.k or 0

    @property
    def weighting(self) -> Weighting:
        """Weighting of the ranks."""
        return self.p.aligned.key.weighting

    @property
    def encoders(self) -> tuple[EncoderId, EncoderId]:
        """The first and the second encoder."""
        (_, one), (_, other) = self.p.aligned.stored
        return one.key.encoder, other.key.encoder

    @property
    def counts(self) -> dict[str, int]:
        """Number of queries of each outcome, including outcomes without queries."""
        counted = Counter(answer.outcome for answer in self.answers)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def most_changed(self, n: int) -> list[Answer]:
        """Return the n queries whose P changed most, largest change first."""
        moving = [answer for answer in self.answers if answer.moved]
        return sorted(moving, key=lambda answer: -abs(answer.moved))[:n]


def explain(
    task: PolarityTask, one: Stored, other: Stored, k: int, weighting: Weighting = "linear"
) -> Explanation:
    """Compare two results of a task query by query.

    Args:
        task: The task, with the data of both results.
        one: The first encoder's result, with its file.
        other: The second encoder's result, with its file.
        k: Number of nearest sources; both results need scores at this k.
        weighting: Weighting of the ranks, in P and in the vote.

    Raises:
        InputError: If both results are of one encoder, are of other data, or cannot be paired; see
            `align`.
    """
    names = [result.key.encoder for _, result in (one, other)]
    if names[0].digest == names[1].digest:
        raise InputError(same_encoder(*names))
    for path, result in (one, other):
        if (result.key.task, result.key.data) != (task.spec.digest, task.digest):
            raise InputError(
                f"{path}: made from another version of {task.spec.name} or its data; run it again"
            )
    of_p, of_vote = (
        align([one, other], ScoreKey(metric, k, weighting))
        for metric in ("polarity", "knn_accuracy")
    )
    rows = zip(
        of_p.values.T.tolist(),
        of_vote.values.T.astype(bool).tolist(),
        zip(*(_nearest(path, k) for path, _ in (one, other)), strict=True),
        strict=True,
    )
    answers = [
        Answer(i, tuple(p), tuple(right), nearest) for i, (p, right, nearest) in enumerate(rows)
    ]
    return Explanation(task, compare(of_p, 0), compare(of_vote, 0), tuple(answers))


def same_encoder(one: EncoderId, other: EncoderId) -> str:
    """Return the error message for two names of one encoder."""
    both = one.label if one.label == other.label else f"{one.label} and {other.label}"
    return f"`model` and `against` are the same encoder, {both} ({one.digest}); name two encoders"


def stored_of(
    folder: Path,
    name: str,
    task: PolarityTask,
    k: int,
    *,
    prompt: str | None = None,
    strength: float | None = None,
) -> Stored | None:
    """Return a stored result of this task by digest or file; None if there is none.

    A result cannot be found by the encoder's name, because the weights and settings behind a name
    are only known once the encoder is loaded.

    Args:
        folder: Folder of results.
        name: The encoder's digest, its first 8 digits, or the file of a result.
        task: The task with its data.
        k: The k at which the result must have scores.
        prompt: The prompt that the encoder must have; None allows any.
        strength: The strength of the axis that the encoder must have; None allows any.

    Raises:
        InputError: If `name` is a file, but not a result of this task, its data and this k.
    """
    is_file = name.endswith(".json") and is_stored(Path(name))
    if not is_file and (Path(name).is_dir() or not _DIGEST.fullmatch(name)):
        return None
    try:
        found = contenders(folder, name, task.spec.name)
        fitting = [
            each
            for each in sorted(found, key=lambda each: len(each[1].experiment))
            if _is_current(each[1], task, k)
            and (is_file or each[1].key.encoder.digest.startswith(name))
            and prompt in {None, each[1].key.encoder.prompt}
            and strength in {None, each[1].key.encoder.strength}
        ]
        if fitting and read_arrays(fitting[0][0]):
            return fitting[0]
    except InputError:
        if is_file:
            raise
    if is_file:
        raise InputError(
            f"{name}: made from another version of {task.spec.name} or its data, or without k = {k}"
        )
    return None


def _is_current(result: Result, task: PolarityTask, k: int) -> bool:
    ours, theirs = (
        {name: value for name, value in protocol.items() if name not in FREE}
        for protocol in (task.protocol, result.key.protocol)
    )
    same = (result.key.task, result.key.data) == (task.spec.digest, task.digest)
    return same and ours == theirs and k in result.ks


def _nearest(path: Path, k: int) -> list[list[Neighbour]]:
    """Return the k nearest sources of each query of a result."""
    names = ("retrieved_index", "retrieved_similarity")
    arrays = read_arrays(path, names)
    index, similarity = (arrays[name][:, :k].tolist() for name in names)
    return [list(map(Neighbour, *row)) for row in zip(index, similarity, strict=True)]


def as_json(explained: Explanation, n_changed: int) -> dict[str, Any]:
    """Return the comparison and the n most changed queries as JSON: fractions, ranks from 1."""
    stored = explained.p.aligned.stored
    sides = {
        name: {
            "encoder": result.key.encoder.name,
            "encoder_digest": result.key.encoder.digest,
            "file": str(path),
            "P": explained.p.aligned.scores[i],
            "right": explained.vote.aligned.scores[i],
        }
        for i, (name, (path, result)) in enumerate(zip("ab", stored, strict=True))
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
