"""SetFit's sentence pairs: which texts are joined, and whether they are of one class.

Pairs come in twos, one of a single class and then one of two classes, so that both kinds are
equally many. A text may be joined with itself, as SetFit does it; no similarity is looked at.

Shapes: n texts, p pairs.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.values import BoolArray, IntArray

ROUNDS = 20
"""As in SetFit before 1.0: 40 pairs of each text, 50,000 of 625 texts of each of two classes."""


def paired_by_rounds(
    labels: IntArray, n_pairs: int | None, seed: int
) -> tuple[IntArray, BoolArray]:
    """Join every text once in each round with one of its class and with one of another.

    Both are drawn anew each time, so that a pair may come again. The rule of SetFit before 1.0.

    Args:
        labels: The class of each text, of two classes or more, (n,).
        n_pairs: How many, an even number; None makes 20 rounds.
        seed: Of all draws.

    Returns:
        Positions of the texts, (p, 2), and whether they are of one class, (p,).
    """
    rng = np.random.default_rng(seed)
    n_texts = len(labels)
    half = ROUNDS * n_texts if n_pairs is None else n_pairs // 2
    n_rounds = -(-half // n_texts)
    anchors = np.concatenate([rng.permutation(n_texts) for _ in range(n_rounds)])[:half]
    by_class = np.argsort(labels, kind="stable")
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    size = counts[code[anchors]]
    first = (np.cumsum(counts) - counts)[code[anchors]]  # where the anchor's class begins
    same = by_class[first + rng.integers(size)]
    place = rng.integers(n_texts - size)
    other = by_class[np.where(place < first, place, place + size)]
    return _in_turn(anchors, same, anchors, other)


def paired_once(labels: IntArray, n_pairs: int | None, seed: int) -> tuple[IntArray, BoolArray]:
    """Take every pair of two texts in random order; of the fewer kind, begin again.

    The rule of SetFit since 1.0, `oversampling`, but for the order, which the seed decides.

    Args:
        labels: The class of each text, of two classes or more, (n,).
        n_pairs: How many, an even number; None takes each pair at least once.
        seed: Of the order.

    Returns:
        Positions of the texts, (p, 2), and whether they are of one class, (p,).

    Example:
        Two texts of two classes make three pairs, and the one of both is taken twice:

        >>> positions, same = paired_once(np.array([0, 1]), None, seed=0)
        >>> sorted(positions[same].tolist()), positions[~same].tolist()
        ([[0, 0], [1, 1]], [[0, 1], [0, 1]])
    """
    left, right = np.triu_indices(len(labels))
    order = np.random.default_rng(seed).permutation(len(left))
    left, right = left[order], right[order]
    same = labels[left] == labels[right]
    kinds = np.flatnonzero(same), np.flatnonzero(~same)
    half = max(map(len, kinds)) if n_pairs is None else n_pairs // 2
    alike, unlike = (np.resize(kind, half) for kind in kinds)
    return _in_turn(left[alike], right[alike], left[unlike], right[unlike])


def _in_turn(
    left: IntArray, right: IntArray, other_left: IntArray, other_right: IntArray
) -> tuple[IntArray, BoolArray]:
    pairs = np.stack([np.stack([left, right], 1), np.stack([other_left, other_right], 1)], 1)
    return pairs.reshape(-1, 2), np.tile([True, False], len(left))
