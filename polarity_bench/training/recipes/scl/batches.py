"""Batches of NLI pairs, with the anchors, positives and negatives of each batch.

Pairs stay in file order. In SNLI's files the pairs of a premise are consecutive; MultiNLI's files
are shuffled. An anchor is the premise of an entailment pair. Its positives are the hypotheses in
the batch that are labelled as entailed by this premise. Its negatives are all other hypotheses in
the batch, including those of other premises.

The paper's text and its released code differ in three points:

| | as-written | as-released |
|:--|:--|:--|
| batches | whole premises, at most b pairs | exactly b pairs; may split the pairs of a premise |
| one anchor for | each distinct premise of an entailment pair | each entailment pair |
| negatives | at most the requested number | all; the requested number is ignored |

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
"""Source of the batching rules: the paper's text or its released code."""

Limit = int | Literal["all"]


@dataclass(frozen=True)
class Batch:
    """A batch of pairs with its anchors, positives and negatives.

    Attributes:
        premises: Number of each pair's premise; equal texts have equal numbers, (b,).
        labels: Class of each pair, (b,).
        anchors: Rows of the premises that are anchors, (a,).
        positives: Mask of the hypotheses that are positives of each anchor, (a, b).
        negatives: Mask of the hypotheses that are negatives of each anchor, (a, b).
    """

    premises: IntArray
    labels: IntArray
    anchors: IntArray
    positives: BoolArray
    negatives: BoolArray


def divide(premises: IntArray, size: int, reading: Reading) -> list[slice]:
    """Divide pairs into batches of at most `size` consecutive pairs.

    With "as-written", a batch ends where the pairs of a premise end, so it may be smaller. If a
    premise has more than `size` pairs, its pairs start a new batch and are split.

    Args:
        premises: Number of each pair's premise, (n,).
        size: Maximum number of pairs in a batch.
        reading: Whether to follow the paper's text or its released code.

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
    """Count the premises with pairs that are not consecutive; batches may separate such pairs.

    Example:
        >>> count_apart(np.array([7, 7, 5, 7, 9]))
        1
    """
    begun = np.append(True, premises[1:] != premises[:-1])
    return int((np.unique(premises[begun], return_counts=True)[1] > 1).sum())


def make_batch(
    premises: IntArray,
    labels: IntArray,
    seed: Sequence[int],
    reading: Reading = "as-written",
    n_positives: Limit = "all",
    n_negatives: Limit = "all",
) -> Batch:
    """Choose the anchors, positives and negatives of a batch.

    If there are more positives or negatives than the maximum, they are drawn at random. A positive
    that is not drawn does not become a negative. With "as-released", the hypothesis of the anchor's
    own pair is always drawn.

    Args:
        premises: Number of each pair's premise, (b,).
        labels: Class of each pair, (b,).
        seed: Seed of the draws.
        reading: Whether to follow the paper's text or its released code.
        n_positives: Maximum number of positives per anchor.
        n_negatives: Maximum number of negatives per anchor; ignored with "as-released".
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
    """Return a mask of at most `limit` candidates per row, those with the smallest keys."""
    if limit == "all":
        return candidates
    ranks = np.where(candidates, keys, np.inf).argsort(axis=1, kind="stable").argsort(axis=1)
    return candidates & (ranks < limit)


def augmented_pairs(batch: Batch) -> tuple[IntArray, IntArray, IntArray]:
    """Return the pairs for the cross-entropy baselines with augmented data.

    The paper trains these baselines "on augmented anchor, positive and negative sentences using
    pure cross-entropy loss", to show that more data alone does not explain the gain of the
    contrastive loss. The paper gives no details, and the released code has no such baseline. Our
    pairs are:

    - the batch's own pairs that are not entailments;
    - each anchor with each of its positives, which are the batch's own entailment pairs;
    - each anchor with each of its negatives.

    Each pair occurs once. A hypothesis of the anchor's own premise keeps its label. The paper
    defines no label for a hypothesis of another premise; we use contradiction. SNLI's annotators
    judged whether a hypothesis describes the scene of the premise, and a hypothesis about another
    photo does not.

    Returns:
        The rows of the premises, the rows of the hypotheses, and the classes of p pairs, (p,) each.
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
