"""Random samples of rows, reproducible by their seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.values import IntArray


def sample(labels: IntArray, n: int, seed: int, *, field: str = "sample") -> IntArray:
    """Draw a stratified sample of rows, in which classes are as frequent as in the whole data set.

    Args:
        labels: Class of each row of the data set.
        n: Number of rows to draw.
        seed: Seed of the draw.
        field: Name of the setting for n, for the error message.

    Returns:
        Positions of the drawn rows, (n,).

    Raises:
        InputError: If there are fewer than n rows, or more than n classes.
    """
    check_count(field, n, labels, "the data has {:,} rows")
    return draw(labels, n, seed)


def check_count(field: str, n: int, labels: IntArray, available: str) -> None:
    """Raise `InputError` if there are fewer than n rows, or more than n classes.

    Args:
        field: Name of the setting for n, for the error message.
        n: Number of rows to draw.
        labels: Class of each row.
        available: Part of the message that says how many rows there are, with a `{}` for it.
    """
    if n > len(labels):
        raise InputError(f"`{field}` {n:,}: {available.format(len(labels))}; ask for fewer")
    if n < (n_classes := len(np.unique(labels))):
        raise InputError(
            f"`{field}` {n:,}: each of the {n_classes} classes needs a row; ask for at least "
            f"{n_classes}"
        )


def draw(labels: IntArray, n: int, seed: int | Sequence[int]) -> IntArray:
    """Draw the share of each class and return the positions, ascending.

    scikit-learn's `train_test_split` is not used, because it may leave a rare class without a row.
    """
    generator = np.random.default_rng(seed)
    classes, counts = np.unique(labels, return_counts=True)
    drawn = [
        generator.permutation(np.flatnonzero(labels == each))[:share]
        for each, share in zip(classes, class_shares(counts, n), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def class_shares(counts: IntArray, n: int) -> IntArray:
    """Return how many of n rows each class gets.

    Each class gets one row. Each further row goes to the class that is furthest below its
    proportional share, ties to the earlier class. If no class is rarer than one row in n, this is
    the method of largest remainders.
    """
    shares = np.ones_like(counts)
    for _ in range(n - len(counts)):
        shares[np.argmax(counts * n - shares * counts.sum())] += 1
    return shares
