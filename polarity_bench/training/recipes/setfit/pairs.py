"""Sentence pairs for SetFit, as positions of the texts and whether the classes are equal.

Pairs of texts with the same class and pairs with different classes alternate, so both kinds are
equally frequent. As in SetFit, a text may be paired with itself. Similarities are not used.

Shapes: n texts, p pairs.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.values import BoolArray, IntArray

ROUNDS = 20
"""Rounds as in SetFit before 1.0: 40 pairs for each text, so 2 · 625 texts make 50,000 pairs."""


def paired_by_rounds(
    labels: IntArray, n_pairs: int | None, seed: int
) -> tuple[IntArray, BoolArray]:
    """Pair every text with a random text of its class and one of another class, in each round.

    A pair can occur in several rounds. SetFit before 1.0 made its pairs in this way.

    Args:
        labels: Class of each text, at least two classes, (n,).
        n_pairs: Number of pairs, even; None means 20 rounds.
        seed: Seed of all draws.

    Returns:
        Positions of the texts, (p, 2), and whether their classes are equal, (p,).
    """
    rng = np.random.default_rng(seed)
    n_texts = len(labels)
    half = ROUNDS * n_texts if n_pairs is None else n_pairs // 2
    n_rounds = -(-half // n_texts)
    anchors = np.concatenate([rng.permutation(n_texts) for _ in range(n_rounds)])[:half]
    by_class = np.argsort(labels, kind="stable")
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    size = counts[code[anchors]]
    first = (np.cumsum(counts) - counts)[code[anchors]]  # start of the anchor's class
    same = by_class[first + rng.integers(size)]
    position = rng.integers(n_texts - size)
    other = by_class[np.where(position < first, position, position + size)]
    return _alternate(anchors, same, anchors, other)


def paired_once(labels: IntArray, n_pairs: int | None, seed: int) -> tuple[IntArray, BoolArray]:
    """Return all pairs of texts in random order; pairs of the rarer kind are repeated.

    SetFit since 1.0 makes the same pairs (`oversampling`). Only the order differs: here it depends
    on the seed.

    Args:
        labels: Class of each text, at least two classes, (n,).
        n_pairs: Number of pairs, even; None means that each pair occurs at least once.
        seed: Seed of the order.

    Returns:
        Positions of the texts, (p, 2), and whether their classes are equal, (p,).

    Example:
        Two texts of different classes make three pairs. The only mixed pair is repeated:

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
    return _alternate(left[alike], right[alike], left[unlike], right[unlike])


def _alternate(
    left: IntArray, right: IntArray, other_left: IntArray, other_right: IntArray
) -> tuple[IntArray, BoolArray]:
    pairs = np.stack([np.stack([left, right], 1), np.stack([other_left, other_right], 1)], 1)
    return pairs.reshape(-1, 2), np.tile([True, False], len(left))
