"""Random samples of rows, stratified or balanced by class, and reproducible from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.values import IntArray


def sample(
    labels: IntArray,
    n: int,
    seed: int | Sequence[int],
    *,
    field: str = "sample",
    of: str = "the data has {:,} rows",
) -> IntArray:
    """Draw a stratified sample of rows, with the class frequencies of the whole data set.

    scikit-learn's `train_test_split` is not used, because it may draw no row of a rare class.

    Args:
        labels: Class of each row of the data set, (rows,).
        n: Number of rows to draw.
        seed: Seed of the draw.
        field: Name of the setting for n, for the error message.
        of: Part of the message that states the number of rows, with a placeholder `{}`.

    Returns:
        Positions of the drawn rows, (n,), ascending.

    Raises:
        InputError: If there are fewer than n rows, or more than n classes.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if n > (n_rows := len(labels)):
        raise InputError(f"`{field}` {n:,}: {of.format(n_rows)}; choose at most {n_rows:,}")
    if n < (n_classes := len(classes)):
        raise InputError(
            f"`{field}` {n:,}: each of the {n_classes} classes needs a row; choose at least "
            f"{n_classes}"
        )
    generator = np.random.default_rng(seed)
    drawn = [
        generator.permutation(np.flatnonzero(labels == code))[:share]
        for code, share in zip(classes, class_shares(counts, n), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def draw_balanced(labels: Sequence[str], n: int, seed: int) -> IntArray:
    """Draw up to n rows, and return their positions, ascending.

    Classes take turns, so their numbers of rows are as equal as possible. A smaller n draws a part
    of the rows of a larger n.

    Args:
        labels: Class of each row.
        n: Number of rows to draw; all rows if there are fewer.
        seed: Seed of the draw.
    """
    import pandas as pd

    shuffled = np.random.default_rng(seed).permutation(len(labels))
    ordered = pd.Series([labels[i] for i in shuffled])
    n_before = ordered.groupby(ordered).cumcount()
    return np.sort(shuffled[np.argsort(n_before, kind="stable")][:n])


def class_shares(counts: IntArray, n: int) -> IntArray:
    """Divide n rows among classes in proportion to their counts, with at least one row per class.

    Each class gets one row. Each further row goes to the class that is furthest below its
    proportional share. Ties go to the earlier class. If the proportional share of every class is at
    least one row, the result equals the method of largest remainders (Hamilton).

    Args:
        counts: Number of rows of each class, (classes,).
        n: Number of rows to divide, at least the number of classes.

    Returns:
        Number of rows for each class, (classes,).
    """
    shares = np.ones_like(counts)
    for _ in range(n - len(counts)):
        shares[np.argmax(counts * n - shares * counts.sum())] += 1
    return shares
