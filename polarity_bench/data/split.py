"""Splits: the labelled texts of one part of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polarity_bench.values import IntArray


@dataclass(frozen=True)
class Split:
    """Labelled texts of one split, in file order.

    Attributes:
        texts: Texts of the split.
        labels: Label of each text.
        columns: Additional columns of the file, keyed by name, with one value per text.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, positions: Sequence[int] | IntArray) -> Split:
        """Return a split with the rows at `positions`, in that order."""
        return Split(
            texts=tuple(self.texts[i] for i in positions),
            labels=tuple(self.labels[i] for i in positions),
            columns={
                name: tuple(values[i] for i in positions) for name, values in self.columns.items()
            },
        )
