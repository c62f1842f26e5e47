"""Draws of examples: pairs, labelled pairs and triplets from the neighbours of a pool's texts.

The candidates of a pool are counted, not listed: SST-2 has about 17 million triplets. A draw first
takes random numbers below their count, and only then looks up the texts of these candidates.

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
    """Examples as positions.

    Attributes:
        positions: Positions in the pool, one column for each text of an example, (m, 2 or 3).
        labels: Label of each example, (m,); None for triplets.
    """

    positions: IntArray
    labels: IntArray | None


def count_candidates(neighbours: Neighbours, kind: ExampleKind) -> int:
    """Return the number of examples that a pool's neighbours allow."""
    return int(_per_anchor(neighbours, kind).sum())


def check_count(count: int, n_candidates: int, kind: ExampleKind) -> None:
    """Check a requested number of examples.

    Raises:
        InputError: If it is below 1 or above the number of candidates.
    """
    if not 1 <= count <= n_candidates:
        raise InputError(
            f"{count:,} {kind} were requested, but the neighbours give {n_candidates:,}; change "
            "`examples` or `dropout`, or use more `neighbours` or a lower `threshold`"
        )


def draw(
    neighbours: Neighbours, labels: IntArray, kind: ExampleKind, count: int, seed: int, epoch: int
) -> Draw:
    """Draw some of the candidates in random order, none twice.

    Every candidate is left out with the same probability. This is the papers' dropout with a fixed
    number of survivors, so the length of an epoch does not depend on the seed.

    Args:
        neighbours: Neighbours of the pool's texts.
        labels: Class of each text, (n,).
        kind: Kind of examples.
        count: Number of examples, m.
        seed: Seed of the training run. Each epoch has its own draw.
        epoch: Number of the epoch, from 0.

    Raises:
        InputError: If `count` is below 1 or above the number of candidates.
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
        return Draw(np.stack([anchor, positive, negative], axis=1), None)
    if kind == "pairs":
        positive = _at(same, anchor, within)
        return Draw(np.stack([anchor, positive], axis=1), labels[anchor])
    n_same = same.lengths[anchor]
    alike = within < n_same
    other = np.empty(count, dtype=np.int64)
    other[alike] = _at(same, anchor[alike], within[alike])
    other[~alike] = _at(opposite, anchor[~alike], (within - n_same)[~alike])
    return Draw(np.stack([anchor, other], axis=1), alike.astype(np.int64))


def _per_anchor(neighbours: Neighbours, kind: ExampleKind) -> IntArray:
    same, opposite = neighbours.same.lengths, neighbours.opposite.lengths
    if kind == "triplets":
        return same * opposite
    return same if kind == "pairs" else same + opposite


def _at(ragged: RaggedRows, row: IntArray, column: IntArray) -> IntArray:
    positions: IntArray = ragged.values[ragged.offsets[row] + column].astype(np.int64)
    return positions
