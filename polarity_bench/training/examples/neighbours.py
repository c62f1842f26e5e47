"""Nearest neighbours of each text of a pool, in the text's own class and in the other classes.

Neighbours are mined either as the margins paper describes or as the paper's released code does. The
paper considers only two classes and leaves more to future work. With more than two classes, this
module treats all classes other than the text's own as one class.

Shapes: n texts, k neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.retrieval import top_k
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RaggedRows:
    """Rows of different lengths: row i is `values[offsets[i] : offsets[i + 1]]`."""

    values: IntArray
    offsets: IntArray

    @property
    def lengths(self) -> IntArray:
        """Length of each row, (n,)."""
        return np.diff(self.offsets)

    @classmethod
    def of(cls, index: IntArray, kept: BoolArray) -> RaggedRows:
        """Create the rows from the cells of `index` that `kept` marks, both (n, k)."""
        offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return cls(index[kept].astype(np.int32), offsets)


@dataclass(frozen=True)
class Neighbours:
    """Neighbours of each text, as positions in the pool, nearest first.

    Attributes:
        same: Neighbours of the text's own class.
        opposite: Neighbours of any other class.
    """

    same: RaggedRows
    opposite: RaggedRows


def find_neighbours(embeddings: Embeddings, labels: IntArray, spec: ExampleSpec) -> Neighbours:
    """Find the neighbours of each text in a pool. A text is never its own neighbour.

    - `as-written`: the k nearest texts of the same class and the k nearest texts of the other
      classes, if their cosine similarity is at least the threshold.
    - `as-released`: the k nearest texts of any class, then divided by class. The released code
      computes the threshold but does not apply it. It also drops the first hit, assuming that this
      hit is the text itself.

    Args:
        embeddings: Embeddings of the pool's distinct texts, (n, d).
        labels: Class of each text, (n,).
        spec: Mining settings. If `as-written`, `spec.neighbours` is the number of nearest texts
            from the text's own class, and from the other classes. If `as-released`, the threshold
            is ignored.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.3, and
        `data_generation/util.py` in the released code.
    """
    k = spec.neighbours
    if spec.mining == "as-released":
        everything = np.arange(len(labels))
        index, similarity = _nearest(embeddings, everything, everything, k)
        kept = np.isfinite(similarity)
        is_same_class = labels[index] == labels[:, None]
        return Neighbours(
            RaggedRows.of(index, kept & is_same_class), RaggedRows.of(index, kept & ~is_same_class)
        )
    tables = [_table(len(labels), k), _table(len(labels), k)]  # of the own class, of the others
    for label in np.unique(labels):
        members, rest = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        for (index, similarity), sources in zip(tables, (members, rest), strict=True):
            index[members], similarity[members] = _nearest(embeddings, members, sources, k)
    same, opposite = (RaggedRows.of(index, near >= spec.threshold) for index, near in tables)
    return Neighbours(same, opposite)


def _table(n: int, k: int) -> tuple[IntArray, FloatArray]:
    """Return tables of neighbours and similarities without any neighbour, (n, k) each."""
    return np.zeros((n, k), dtype=np.int64), np.full((n, k), -np.inf)


def _nearest(
    embeddings: Embeddings, queries: IntArray, sources: IntArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Return the k nearest sources of each query and their similarities, (n, k) each.

    A query is never its own source. Cells without a source have the similarity -inf.
    """
    index, similarity = _table(len(queries), k)
    itself = np.intersect1d(queries, sources).size > 0
    reached = min(k, len(sources) - itself)
    if reached == 0:
        return index, similarity
    # `find_neighbours` passes either the same positions twice or two disjoint arrays, so query i is
    # source i or is not a source at all.
    excluded = [[i] for i in range(len(queries))] if itself else []
    retrieved = top_k(
        Embeddings(embeddings.vectors[queries], embeddings.similarity),
        Embeddings(embeddings.vectors[sources], embeddings.similarity),
        reached,
        excluded=excluded,
    )
    index[:, :reached], similarity[:, :reached] = sources[retrieved.index], retrieved.similarity
    return index, similarity
