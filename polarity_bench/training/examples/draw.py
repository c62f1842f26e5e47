"""Examples: pairs, labelled pairs and triplets, drawn from the neighbours of a pool's texts.

The candidates of a pool are counted, not listed: SST-2 has some 17 million triplets. A draw takes
numbers below their count and only then looks up which texts they mean.

Shapes: n texts, m examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.training.examples import ExampleKind
from polarity_bench.training.examples.neighbours import Neighbours, RaggedRows
from polarity_bench.values import IntArray


@dataclass(frozen=True)
class Draw:
    """Examples by position.

    Attributes:
        positions: Positions in the pool, one column for each text of an example, (m, 2 or 3).
        labels: The label of each example, (m,); none for triplets.
    """

    kind: ExampleKind
    positions: IntArray
    labels: IntArray | None

    def __len__(self) -> int:
        return len(self.positions)


def count_candidates(neighbours: Neighbours, kind: ExampleKind) -> int:
    """Count the examples that a pool's neighbours admit."""
    return int(_per_anchor(neighbours, kind).sum())


def check_count(count: int, n_candidates: int, kind: ExampleKind) -> None:
    """Refuse a number of examples.

    Raises:
        InputError: If there are fewer candidates, or none are asked for.
    """
    if not 1 <= count <= n_candidates:
        raise InputError(
            f"{count:,} {kind} are asked for, the neighbours admit {n_candidates:,}; ask for "
            "another number (`examples`, `dropout`), more `neighbours` or a lower `threshold`"
        )


def dropout_for(count: int, n_candidates: int) -> float:
    """Return the dropout that leaves so many of the candidates.

    Example:
        >>> dropout_for(count=17, n_candidates=100)
        0.83
    """
    return 1 - count / n_candidates


def draw(
    neighbours: Neighbours, labels: IntArray, kind: ExampleKind, count: int, seed: int, epoch: int
) -> Draw:
    """Draw so many of the candidates, none twice, in random order.

    Every candidate is left out with equal probability, which is the papers' dropout with its
    number of survivors fixed: an epoch's length does not depend on the seed.

    Args:
        neighbours: Of the pool's texts.
        labels: The class of each, (n,).
        kind: What to make.
        count: How many, m.
        seed: Of a run, of which each epoch, from 0, has its own draw.
        epoch: Which.

    Raises:
        InputError: If there are fewer candidates, or none are asked for.
    """
    per_anchor = _per_anchor(neighbours, kind)
    ends = np.cumsum(per_anchor)
    n_candidates = int(ends[-1]) if len(ends) else 0
    check_count(count, n_candidates, kind)
    generator = np.random.default_rng([seed, epoch])
    numbers = generator.choice(n_candidates, size=count, replace=False)
    anchor = np.searchsorted(ends, numbers, side="right")
    within = numbers - (ends[anchor] - per_anchor[anchor])
    same, opposite = neighbours.same, neighbours.opposite
    if kind == "triplets":
        n_opposite = opposite.lengths[anchor]
        positive = _at(same, anchor, within // n_opposite)
        negative = _at(opposite, anchor, within % n_opposite)
        return Draw(kind, np.stack([anchor, positive, negative], axis=1), None)
    if kind == "pairs":
        positive = _at(same, anchor, within)
        return Draw(kind, np.stack([anchor, positive], axis=1), labels[anchor])
    n_same = same.lengths[anchor]
    alike = within < n_same
    other = np.empty(count, dtype=np.int64)
    other[alike] = _at(same, anchor[alike], within[alike])
    other[~alike] = _at(opposite, anchor[~alike], (within - n_same)[~alike])
    return Draw(kind, np.stack([anchor, other], axis=1), alike.astype(np.int64))


def _per_anchor(neighbours: Neighbours, kind: ExampleKind) -> IntArray:
    same, opposite = neighbours.same.lengths, neighbours.opposite.lengths
    if kind == "triplets":
        return same * opposite
    return same if kind == "pairs" else same + opposite


def _at(ragged: RaggedRows, row: IntArray, column: IntArray) -> IntArray:
    found: IntArray = ragged.values[ragged.offsets[row] + column].astype(np.int64)
    return found
