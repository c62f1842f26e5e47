"""Random draws of pairs, labelled pairs and triplets from the neighbours of a pool's texts.

A candidate is any example that the neighbours allow. SST-2 has several million candidate triplets,
so candidates are numbered but never listed. A draw picks random numbers and then looks up the texts
of the candidates with these numbers.

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
    """Drawn examples, as positions in the pool.

    Attributes:
        positions: Position of each text in the pool, one column per text of an example,
            (m, 2 or 3).
        labels: Label of each example, (m,); None for triplets.
    """

    positions: IntArray
    labels: IntArray | None


def count_candidates(neighbours: Neighbours, kind: ExampleKind) -> int:
    """Return the number of candidates: examples of this kind that the neighbours allow."""
    return int(_per_anchor(neighbours, kind).sum())


def check_count(count: int, n_candidates: int, kind: ExampleKind) -> None:
    """Check that `count` examples can be drawn.

    Raises:
        InputError: If `count` is below 1 or above the number of candidates.
    """
    if not 1 <= count <= n_candidates:
        raise InputError(
            f"the neighbours allow {n_candidates:,} {kind}, but {count:,} were requested; change "
            "`examples` or `dropout`, or use more `neighbours` or a lower `threshold`"
        )


def draw(
    neighbours: Neighbours, labels: IntArray, kind: ExampleKind, count: int, seed: int, epoch: int
) -> Draw:
    """Draw distinct candidates in random order.

    Every candidate has the same probability. Unlike the dropout of the papers, the draw has a fixed
    number of examples, so the length of an epoch does not depend on the seed.

    Args:
        neighbours: Neighbours of the pool's texts.
        labels: Class of each text, (n,).
        kind: Kind of examples.
        count: Number of examples, m.
        seed: Seed of the training run.
        epoch: Number of the epoch, from 0. Each epoch has a different draw.

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
        positive = _values_at(same, anchor, within // n_opposite)
        negative = _values_at(opposite, anchor, within % n_opposite)
        return Draw(np.stack([anchor, positive, negative], axis=1), None)
    if kind == "pairs":
        positive = _values_at(same, anchor, within)
        return Draw(np.stack([anchor, positive], axis=1), labels[anchor])
    n_same = same.lengths[anchor]
    is_same = within < n_same
    partner = np.empty(count, dtype=np.int64)
    partner[is_same] = _values_at(same, anchor[is_same], within[is_same])
    partner[~is_same] = _values_at(opposite, anchor[~is_same], (within - n_same)[~is_same])
    return Draw(np.stack([anchor, partner], axis=1), is_same.astype(np.int64))


def _per_anchor(neighbours: Neighbours, kind: ExampleKind) -> IntArray:
    """Return the number of candidates with each text as the anchor, (n,)."""
    same, opposite = neighbours.same.lengths, neighbours.opposite.lengths
    if kind == "triplets":
        return same * opposite
    return same if kind == "pairs" else same + opposite


def _values_at(ragged: RaggedRows, row: IntArray, column: IntArray) -> IntArray:
    """Return the values at these rows and columns, (m,)."""
    return np.asarray(ragged.values[ragged.offsets[row] + column], dtype=np.int64)
