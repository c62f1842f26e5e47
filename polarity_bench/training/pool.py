"""What examples are made of: the distinct labelled texts of a task's source file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.types import IntArray, Split


@dataclass(frozen=True)
class TrainingPool:
    """The texts that examples are made of, each once, in file order.

    A text that stands in the file twice with one label is kept once: so no example has two equal
    texts, and none is made twice of equal rows. A text with two labels teaches nothing about
    either and is left out.

    Attributes:
        texts: Distinct texts, n of them.
        labels: The class of each, by its position in `classes`, (n,).
        classes: The names of the classes, sorted.
        n_duplicates: Rows left out because their text and label had come before.
        n_contradicting: Rows left out because their text has two labels.
        n_excluded: Rows left out because the caller said so.
    """

    texts: tuple[str, ...]
    labels: IntArray
    classes: tuple[str, ...]
    n_duplicates: int = 0
    n_contradicting: int = 0
    n_excluded: int = 0

    def __len__(self) -> int:
        return len(self.texts)


def training_pool(split: Split, excluded: Collection[str] = ()) -> TrainingPool:
    """Make the pool of a split.

    Args:
        split: The labelled rows.
        excluded: Texts that no example may hold, held out for choosing a checkpoint.

    Raises:
        InputError: If fewer than two classes are left.
    """
    barred = set(excluded)
    labels_of: dict[str, set[str]] = {}
    for text, label in zip(split.texts, split.labels, strict=True):
        labels_of.setdefault(text, set()).add(label)
    kept = [text for text, labels in labels_of.items() if len(labels) == 1 and text not in barred]
    names = [next(iter(labels_of[text])) for text in kept]
    classes = tuple(sorted(set(names)))
    if len(classes) < 2:
        raise InputError(
            f"the training rows have {len(classes)} class once contradicting and held-out texts "
            "are left out; examples need two or more"
        )
    code = {name: i for i, name in enumerate(classes)}
    n_excluded = sum(text in barred for text in split.texts)
    n_contradicting = sum(len(labels_of[text]) > 1 and text not in barred for text in split.texts)
    return TrainingPool(
        texts=tuple(kept),
        labels=np.array([code[name] for name in names], dtype=np.int64),
        classes=classes,
        n_duplicates=len(split) - len(kept) - n_contradicting - n_excluded,
        n_contradicting=n_contradicting,
        n_excluded=n_excluded,
    )
