"""Batches of NLI pairs, and in each: the anchors, what is positive to them and what negative.

Pairs stay in file order, in which those of one premise stand together (in SNLI's files; MultiNLI's
are shuffled). An anchor is the premise of
an entailment pair; its positives are the hypotheses of the batch that it entails; its negatives are
all other hypotheses of the batch, of its own premise or of another one.

What the paper writes and what its released code does differ in three points:

| | as-written | as-released |
|:--|:--|:--|
| batches | whole premises, of at most b pairs | every b pairs, wherever a premise is cut |
| an anchor for | each distinct premise that entails something | each entailment pair |
| negatives | at most so many as asked for | all, whatever is asked for |

Shapes: n pairs, b pairs of a batch, a anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from polarity_bench.data.nli import CONTRADICTION, ENTAILMENT
from polarity_bench.values import BoolArray, IntArray

Reading = Literal["as-written", "as-released"]
"""Of a paper and its code."""

Limit = int | Literal["all"]


@dataclass(frozen=True)
class Batch:
    """Pairs that go through the encoder together.

    Attributes:
        premises: A number for each pair's premise, equal where the text is, (b,).
        labels: The class of each pair, (b,).
        anchors: Rows whose premises are anchors, (a,).
        positives: Which rows' hypotheses are positive to each anchor, (a, b).
        negatives: Which are negative, (a, b).
    """

    premises: IntArray
    labels: IntArray
    anchors: IntArray
    positives: BoolArray
    negatives: BoolArray


def divide(premises: IntArray, size: int, reading: Reading) -> list[slice]:
    """Divide pairs into batches of at most `size`, in their order.

    As written, a batch ends where the pairs of a premise do, so that it may be smaller; a premise
    of more pairs than a batch holds begins one of its own and is cut.

    Args:
        premises: A number for each pair's premise, (n,).
        size: Most pairs in a batch.
        reading: Of the paper.

    Example:
        >>> [(b.start, b.stop) for b in divide(np.array([7, 7, 5, 5, 5, 9]), 4, "as-written")]
        [(0, 2), (2, 6)]
        >>> [(b.start, b.stop) for b in divide(np.array([7, 7, 5, 5, 5, 9]), 4, "as-released")]
        [(0, 4), (4, 6)]
    """
    n = len(premises)
    if reading == "as-released":
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]
    begun = [0, *(np.flatnonzero(premises[1:] != premises[:-1]) + 1).tolist(), n]
    borders = [0]
    for start, stop in pairwise(begun):
        if stop - borders[-1] > size and start > borders[-1]:
            borders.append(start)
        while stop - borders[-1] > size:
            borders.append(borders[-1] + size)
    return [slice(*ends) for ends in zip(borders, [*borders[1:], n], strict=True)]


def count_apart(premises: IntArray) -> int:
    """Count the premises whose pairs do not stand together, so that batches divide them.

    Example:
        >>> count_apart(np.array([7, 7, 5, 7, 9]))
        1
    """
    begun = np.append(True, premises[1:] != premises[:-1])
    return int((np.unique(premises[begun], return_counts=True)[1] > 1).sum())


def make_batch(
    premises: IntArray,
    labels: IntArray,
    reading: Reading,
    n_positives: Limit,
    n_negatives: Limit,
    seed: Sequence[int],
) -> Batch:
    """Say who is contrasted with whom in a batch.

    A positive that a limit leaves out is no negative either. As released, the hypothesis of the
    anchor's own pair is always among its positives.

    Args:
        premises: A number for each pair's premise, (b,).
        labels: The class of each pair, (b,).
        reading: Of the paper.
        n_positives: Most positives of an anchor.
        n_negatives: Most negatives; as released, without effect.
        seed: Of what is drawn where there are more.
    """
    entailed = labels == ENTAILMENT
    anchors = np.flatnonzero(entailed)
    if reading == "as-written":
        _, first = np.unique(premises[anchors], return_index=True)
        anchors = anchors[np.sort(first)]
    positives = (premises[anchors, None] == premises) & entailed
    negatives = ~positives
    generator = np.random.default_rng(seed)
    keys = generator.random((2, *positives.shape))
    if reading == "as-released":
        keys[0, np.arange(len(anchors)), anchors] = -1.0
        n_negatives = "all"
    return Batch(
        premises,
        labels,
        anchors,
        _limited(positives, n_positives, keys[0]),
        _limited(negatives, n_negatives, keys[1]),
    )


def _limited(candidates: BoolArray, limit: Limit, keys: np.ndarray) -> BoolArray:
    """Keep those of each row with the least keys."""
    if limit == "all":
        return candidates
    ranks = np.where(candidates, keys, np.inf).argsort(axis=1, kind="stable").argsort(axis=1)
    kept: BoolArray = candidates & (ranks < limit)
    return kept


def augmented_pairs(batch: Batch) -> tuple[IntArray, IntArray, IntArray]:
    """Return the pairs that the baselines with augmented data are trained on, by cross-entropy.

    The paper says only that they are trained "on augmented anchor, positive and negative sentences
    using pure cross-entropy loss", so that a gain of the contrast does not come from more data; the
    released code has no such baseline. Here they are: the batch's own pairs that are no entailment,
    each anchor with each of its positives, which are the batch's own entailment pairs, and each
    anchor with each of its negatives. Each pair counts once.

    A hypothesis of the anchor's own premise keeps its label. The paper gives none to a hypothesis
    of another premise. It is taken for a contradiction: SNLI's annotators were to judge whether a
    hypothesis describes the very scene of the premise, and one of another photo does not.

    Returns:
        The row of each pair's premise, that of its hypothesis, and its class, (p,) each.
    """
    anchors, hypotheses = np.nonzero(batch.positives | batch.negatives)
    others = np.flatnonzero(batch.labels != ENTAILMENT)
    lefts = np.concatenate([others, batch.anchors[anchors]])
    rights = np.concatenate([others, hypotheses])
    cells = np.stack([batch.premises[lefts], rights])
    _, once = np.unique(cells, axis=1, return_index=True)
    lefts, rights = lefts[once], rights[once]
    own = batch.premises[lefts] == batch.premises[rights]
    return lefts, rights, np.where(own, batch.labels[rights], CONTRADICTION)
