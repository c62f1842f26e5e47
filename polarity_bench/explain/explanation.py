"""Two encoders on one polarity task, query by query: what each found, and what that changed.

Reads what `run` left beside its results: the sources that were retrieved, and the values of each
query. Nothing is ranked or scored here. A query is right where the weighted vote of its k nearest
is its label, so that it is fixed or broken by the second encoder; how far P moved says how much.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from polarity_bench.compare.alignment import align
from polarity_bench.compare.paired_comparison import Comparison, compare, contenders
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.results.comparability import FREE
from polarity_bench.results.result_files import Result, Stored, read_arrays
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.types.polarity.task import PolarityTask

Outcome = Literal["fixed by B", "broken by B", "both right", "both wrong"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_BECAME: Mapping[tuple[bool, bool], Outcome] = {
    (False, True): "fixed by B",
    (True, False): "broken by B",
    (True, True): "both right",
    (False, False): "both wrong",
}
_DIGEST = re.compile("[0-9a-f]{8}|[0-9a-f]{16}")
_FOUND = ("retrieved_index", "retrieved_similarity")


@dataclass(frozen=True)
class Neighbour:
    """A source that one encoder retrieved.

    Attributes:
        source: Its position among the task's sources, from 0.
        similarity: To the query, by what the encoder is compared by.
        elsewhere: Its rank under the other encoder, from 1; None where it isn't among those k.
    """

    source: int
    similarity: float
    elsewhere: int | None


@dataclass(frozen=True)
class Answer:
    """What became of a query under both encoders.

    Attributes:
        query: Its position among the task's queries, from 0.
        p: Its P under the one and the other.
        right: Whether the vote of its k nearest is its label, under both.
        found: Its k nearest under both, nearest first.
    """

    query: int
    p: tuple[float, float]
    right: tuple[bool, bool]
    found: tuple[tuple[Neighbour, ...], tuple[Neighbour, ...]]

    @property
    def moved(self) -> float:
        """By how much P rose, to what is no noise of the stored values, so that ties are ties."""
        return round(self.p[1] - self.p[0], 6)

    @property
    def outcome(self) -> Outcome:
        """What the second encoder made of it."""
        return _BECAME[self.right]


@dataclass(frozen=True)
class Explanation:
    """The second of two encoders against the first, on every query of a task.

    Attributes:
        task: The task with its texts.
        p: The comparison of P.
        vote: That of the share of queries whose vote is right.
        answers: One for each query, in the task's order.
    """

    task: PolarityTask
    p: Comparison
    vote: Comparison
    answers: tuple[Answer, ...]

    @property
    def k(self) -> int:
        """How many sources each query retrieves."""
        return self.p.aligned.key.k or 0

    @property
    def weighting(self) -> Weighting:
        """Of the ranks."""
        return self.p.aligned.key.weighting

    @property
    def encoders(self) -> tuple[EncoderId, EncoderId]:
        """The one, and the one that is laid against it."""
        (_, one), (_, other) = self.p.aligned.stored
        return one.key.encoder, other.key.encoder

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many queries each became of, all of them named."""
        counted = Counter(answer.outcome for answer in self.answers)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def most_changed(self, n: int) -> list[Answer]:
        """Return the queries whose P moved most, first the one that did most."""
        moving = [answer for answer in self.answers if answer.moved]
        return sorted(moving, key=lambda answer: -abs(answer.moved))[:n]


def explain(
    task: PolarityTask, one: Stored, other: Stored, k: int, weighting: Weighting = "linear"
) -> Explanation:
    """Lay two results of a task query against query.

    Args:
        task: The task, with the data that both results are of.
        one: The result of an encoder, with its file.
        other: That of the encoder that is laid against it.
        k: How many of the nearest to look at; both results hold scores at it.
        weighting: Of the ranks, in P and in the vote.

    Raises:
        InputError: If the results are of one encoder, of other data, or no pairs, see `align`.
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
    found = _found([read_arrays(path) for path, _ in (one, other)], k)
    answers = [
        Answer(i, (float(p[0]), float(p[1])), (bool(right[0]), bool(right[1])), nearest)
        for i, (p, right, nearest) in enumerate(
            zip(of_p.values.T, of_vote.values.T, found, strict=True)
        )
    ]
    return Explanation(task, compare(of_p, 0), compare(of_vote, 0), tuple(answers))


def same_encoder(one: EncoderId, other: EncoderId) -> str:
    """Say that two names are of one encoder."""
    both = one.label if one.label == other.label else f"{one.label} and {other.label}"
    return f"`model` and `against` are one encoder, {both} ({one.digest}); name two"


def stored_of(
    folder: Path,
    name: str,
    task: PolarityTask,
    k: int,
    *,
    prompt: str | None = None,
    strength: float | None = None,
) -> Stored | None:
    """Return the result of this very task that a digest or a file addresses; None if none.

    A name addresses none: what it is of now, with which settings, is known when it is loaded.

    Args:
        folder: Of the results.
        name: The encoder's digest, its first 8 digits, or its result's file.
        task: The task with its data.
        k: What values per query must be there for.
        prompt: What the encoder must have been asked with, where one is asked for.
        strength: Of its axis, where one is asked for.

    Raises:
        InputError: If a result's file is named that is none.
    """
    is_file = name.endswith(".json") and Path(name).is_file()
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
            f"{name}: of another version of {task.spec.name} or its data, or without k = {k}"
        )
    return None


def _is_current(result: Result, task: PolarityTask, k: int) -> bool:
    ours, theirs = (
        {name: value for name, value in protocol.items() if name not in FREE}
        for protocol in (task.protocol, result.key.protocol)
    )
    same = (result.key.task, result.key.data) == (task.spec.digest, task.digest)
    return same and ours == theirs and k in result.ks


def _found(
    arrays: Sequence[Mapping[str, Any]], k: int
) -> list[tuple[tuple[Neighbour, ...], tuple[Neighbour, ...]]]:
    """Return the k nearest of each query under both, each with its rank under the other."""
    both = [[each[name][:, :k].tolist() for name in _FOUND] for each in arrays]
    (first, _), (second, _) = both
    found = []
    for i, nearest in enumerate(zip(first, second, strict=True)):
        ranks = [{source: rank for rank, source in enumerate(ids, 1)} for ids in nearest]
        sides = [
            tuple(
                Neighbour(source, similarity, ranks[1 - side].get(source))
                for source, similarity in zip(index[i], cosine[i], strict=True)
            )
            for side, (index, cosine) in enumerate(both)
        ]
        found.append((sides[0], sides[1]))
    return found


def as_json(explained: Explanation, n_changed: int) -> dict[str, Any]:
    """Lay out the queries that changed most for a program: fractions, ranks from 1."""
    stored = explained.p.aligned.stored
    sides = {
        name: {
            "encoder": result.key.encoder.name,
            "encoder_digest": result.key.encoder.digest,
            "file": str(path),
            "P": float(explained.p.aligned.scores[i]),
            "right": float(explained.vote.aligned.scores[i]),
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
    return {
        "query": answer.query,
        **task.items[answer.query],
        "P": list(answer.p),
        "moved": answer.moved,
        "right": list(answer.right),
        "outcome": answer.outcome,
        **{
            f"found_by_{name}": [
                {
                    "source": each.source,
                    "text": source.texts[each.source],
                    "label": source.labels[each.source],
                    "similarity": each.similarity,
                    "rank_elsewhere": each.elsewhere,
                }
                for each in found
            ]
            for name, found in zip("ab", answer.found, strict=True)
        },
    }
