"""Neighbours of each text of the pool, in its own class and in the other classes.

They are mined in one of two ways: as the margins paper describes, or as its released code does.
With more than two classes, each class is compared with all others together, which the paper names
as future work.

Shapes: n texts, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.retrieval import top_k
from polarity_bench.training.examples import Mining
from polarity_bench.values import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RaggedRows:
    """Rows of different lengths: row i is `values[offsets[i] : offsets[i + 1]]`."""

    values: IntArray
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """The length of each row, (n,)."""
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> IntArray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def of(cls, index: IntArray, kept: BoolArray) -> RaggedRows:
        """Create the rows from the marked cells of a table, (n, k)."""
        offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(index[kept].astype(np.int32), offsets)


@dataclass(frozen=True)
class Neighbours:
    """Positions of neighbours in the pool, nearest first.

    Attributes:
        same: Neighbours in each text's own class.
        opposite: Neighbours in any other class.
    """

    same: RaggedRows
    opposite: RaggedRows


def find_neighbours(
    embeddings: Embeddings,
    labels: IntArray,
    *,
    mining: Mining = "as-written",
    k: int = 16,
    threshold: float = 0.5,
) -> Neighbours:
    """Find the neighbours of each text in its pool; a text is never its own neighbour.

    - `as-written`: the k nearest texts of the same class and the k nearest of the other classes, if
      their cosine is at least the threshold.
    - `as-released`: the k nearest texts of all, divided by class. The released code computes the
      threshold but does not apply it, and it drops the first hit, assuming that it is the text
      itself.

    Args:
        embeddings: Embeddings of the pool's distinct texts, (n, d).
        labels: Class of each text, (n,).
        mining: Which of the two ways.
        k: Number of neighbours.
        threshold: Minimum cosine similarity, in [-1, 1]; not used `as-released`.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.3, and its
        `data_generation/util.py`.
    """
    if mining == "as-released":
        everything = np.arange(len(labels))
        index, similarity = _nearest(embeddings, everything, everything, k)
        kept = np.isfinite(similarity)
        alike = labels[index] == labels[:, None]
        return Neighbours(RaggedRows.of(index, kept & alike), RaggedRows.of(index, kept & ~alike))
    own = _table(len(labels), k)
    other = _table(len(labels), k)
    for label in np.unique(labels):
        members, rest = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        for (index, similarity), sources in ((own, members), (other, rest)):
            index[members], similarity[members] = _nearest(embeddings, members, sources, k)
    return Neighbours(*(RaggedRows.of(index, near >= threshold) for index, near in (own, other)))


def _table(n: int, k: int) -> tuple[IntArray, FloatArray]:
    return np.zeros((n, k), dtype=np.int64), np.full((n, k), -np.inf)


def _nearest(
    embeddings: Embeddings, queries: IntArray, sources: IntArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Return the k nearest sources of each query except itself; -inf if there are fewer."""
    index, similarity = _table(len(queries), k)
    itself = np.intersect1d(queries, sources).size > 0
    reached = min(k, len(sources) - itself)
    if reached == 0:
        return index, similarity
    # If the queries are among the sources, both arrays hold the same positions.
    excluded = [[i] for i in range(len(queries))] if itself else []
    retrieved = top_k(
        Embeddings(embeddings.vectors[queries], embeddings.similarity),
        Embeddings(embeddings.vectors[sources], embeddings.similarity),
        reached,
        excluded=excluded,
    )
    index[:, :reached], similarity[:, :reached] = sources[retrieved.index], retrieved.similarity
    return index, similarity
