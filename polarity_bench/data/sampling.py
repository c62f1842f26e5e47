"""Draw rows at random, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.values import IntArray


def sample(labels: IntArray, n: int, seed: int, *, field: str = "sample") -> IntArray:
    """Draw some rows of a data set, in which every class is as common as in all.

    Args:
        labels: The class of each row, (n,).
        n: How many to draw.
        seed: What draws them.
        field: What the number is called where it was asked for.

    Returns:
        Positions, (n,).

    Raises:
        InputError: If there are not so many, or not one for each class.
    """
    check_count(field, n, labels, "the data has {:,} rows")
    return draw(labels, n, seed)


def check_count(field: str, asked: int, labels: IntArray, said: str) -> None:
    """Refuse to draw more rows than there are, or fewer than there are classes."""
    if asked > len(labels):
        raise InputError(f"`{field}` {asked:,}: {said.format(len(labels))}; ask for fewer")
    if asked < (n_classes := len(np.unique(labels))):
        raise InputError(
            f"`{field}` {asked:,}: there are {n_classes} classes, and each needs a row; ask for "
            f"at least {n_classes}"
        )


def draw(labels: IntArray, n: int, seed: int | Sequence[int]) -> IntArray:
    """Draw each class's share, positions ascending.

    Not by scikit-learn's `train_test_split`, in which a rare class may have no row.
    """
    generator = np.random.default_rng(seed)
    classes, counts = np.unique(labels, return_counts=True)
    drawn = [
        generator.permutation(np.flatnonzero(labels == each))[:share]
        for each, share in zip(classes, class_shares(counts, n), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def class_shares(counts: IntArray, n: int) -> IntArray:
    """Share n rows out: one to each class, then each to the one that lacks most of its due.

    Where no class is rarer than one row in n, this is the method of largest remainders; of equal
    lacks the earlier class goes first.
    """
    shares = np.ones_like(counts)
    for _ in range(n - len(counts)):
        shares[np.argmax(counts * n - shares * counts.sum())] += 1
    return shares
