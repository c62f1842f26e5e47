"""Folds of a data set, few rows cut from each, and samples of it: stratified, by a seed.

All are positions in the data's order, ascending. They hang on the labels and the seed alone, so
that every way of training that is given the same ones sees the same rows.

Shapes: n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polarity_bench.data.sampling import check_count, draw
from polarity_bench.errors import InputError
from polarity_bench.values import IntArray


class Fold(NamedTuple):
    """What is trained and what is tested on, every row of the data in one of them."""

    train: IntArray
    test: IntArray


def folds(labels: IntArray, n_folds: int, seed: int) -> list[Fold]:
    """Split the rows into folds, each of which is tested on once; every class is in all.

    Args:
        labels: The class of each row, (n,).
        n_folds: At least 2, at most the rows of the smallest class.
        seed: What the rows are shuffled by, in [0, 2^32).

    Raises:
        InputError: If there are fewer than two classes, or folds, or more folds than rows of a
            class.

    Example:
        Two rows of the second class make at most two folds:

        >>> labels = np.array([0, 0, 0, 0, 1, 1])
        >>> [labels[fold.test].tolist() for fold in folds(labels, 2, seed=0)]
        [[0, 0, 1], [0, 0, 1]]
    """
    from sklearn.model_selection import StratifiedKFold

    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"rows of at least 2 classes are wanted, got {len(classes)}")
    if n_folds < 2:
        raise InputError(f"`folds` must be at least 2, got {n_folds}")
    if n_folds > (least := int(counts.min())):
        raise InputError(
            f"`folds` {n_folds}: the class {classes[counts.argmin()]} has {least:,} rows, too few "
            f"for one in each fold; ask for at most {least:,}"
        )
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(labels, labels)]


def cut(train: IntArray, labels: IntArray, rows: int, seed: int | Sequence[int]) -> IntArray:
    """Cut a fold's training rows down to few, in which every class is as common as in the fold.

    Args:
        train: Positions of the fold's training rows.
        labels: The class of each row of the data, (n,).
        rows: How many to keep.
        seed: What draws them; another for each fold, since one takes the same places of all.

    Returns:
        Some of the training positions, (rows,).

    Raises:
        InputError: If there are not so many, or not one for each class, or a class of the data is
            not among them.

    Example:
        >>> labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
        >>> labels[cut(np.arange(1, 9), labels, rows=3, seed=0)]
        array([0, 0, 1])
    """
    if missing := sorted(set(labels.tolist()) - set(labels[train].tolist())):
        raise InputError(f"the fold has no training row of the class {missing[0]}")
    check_count("rows", rows, labels[train], "the fold has {:,} training rows")
    return train[draw(labels[train], rows, seed)]
