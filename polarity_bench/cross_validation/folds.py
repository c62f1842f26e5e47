"""Stratified folds of a data set, and small training sets from these folds.

All functions return positions of rows, in ascending order. The positions depend only on the labels
and the seed, so all methods with the same labels and seed use the same rows.

Shapes: n rows.
"""

from __future__ import annotations

import numpy as np

from polarity_bench.errors import InputError, check_at_least
from polarity_bench.values import IntArray


def folds(labels: IntArray, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Split the rows into stratified folds; each fold is the test set once.

    Args:
        labels: Class of each row, (n,).
        n_folds: Number of folds, at least 2 and at most the size of the smallest class.
        seed: Seed of the shuffle, in [0, 2^32).

    Returns:
        The training rows and the test rows of each fold. Each row is in exactly one of the two, and
        both contain every class.

    Raises:
        InputError: If there are fewer than two classes, fewer than two folds, or more folds than
            rows of a class.

    Example:
        Two rows of the second class allow at most two folds:

        >>> labels = np.array([0, 0, 0, 0, 1, 1])
        >>> [labels[test].tolist() for _, test in folds(labels, 2, seed=0)]
        [[0, 0, 1], [0, 0, 1]]
    """
    from sklearn.model_selection import StratifiedKFold

    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"the data must have at least 2 classes, got {len(classes)}")
    check_at_least(2, folds=n_folds)
    if n_folds > (least := int(counts.min())):
        raise InputError(
            f"`folds` must be at most {least:,}, because the class {classes[counts.argmin()]} has "
            f"only {least:,} rows, got {n_folds}"
        )
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(labels, labels))
