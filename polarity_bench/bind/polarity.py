"""Polarity retrieval, bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.bind.task import Scored, Vectors
from polarity_bench.data.load import PolarityData
from polarity_bench.errors import InputError
from polarity_bench.protocols.polarity import EmbeddedTask, score_polarity
from polarity_bench.spec import PolaritySpec


@dataclass(frozen=True)
class PolarityTask:
    """Polarity retrieval."""

    data: PolarityData
    ks: tuple[int, ...]
    limit: int | None = None

    def __post_init__(self) -> None:
        if min(self.ks) < 1 or max(self.ks) > len(self.data.source):
            raise InputError(
                f"k must lie between 1 and {len(self.data.source)}, the number of sources, got "
                f"{min(self.ks) if min(self.ks) < 1 else max(self.ks)}"
            )

    version = 1  # raised whenever the code moves a score: older results are made again
    uses_reference = True

    @property
    def spec(self) -> PolaritySpec:
        """The task."""
        return self.data.spec

    @property
    def data_digest(self) -> str:
        """Digest of its texts and labels."""
        return self.data.digest

    @property
    def texts(self) -> Sequence[str]:
        """Sources and queries."""
        return self.data.texts

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Polarity retrieval at these k's."""
        return {"name": "polarity-retrieval", "version": self.version, "k": sorted(set(self.ks))}

    @property
    def experiment(self) -> str:
        """Other k's, or a limit."""
        parts = []
        if list(self.ks) != [self.spec.protocol.k]:
            parts.append("k_" + "-".join(map(str, sorted(set(self.ks)))))
        if self.limit is not None:
            parts.append(f"limit_{self.limit}")
        return "__".join(parts)

    @property
    def main_score(self) -> str:
        """The joint score at the task's own k, or else at the largest."""
        own = self.spec.protocol.k
        return f"joint_at_{own if own in self.ks else max(self.ks)}"

    @property
    def counts(self) -> Mapping[str, int]:
        """Sources, queries, and queries that stand in the source file too."""
        data = self.data
        return {
            "sources": len(data.source),
            "queries": len(data.query),
            "overlap": data.n_overlap,
        }

    def score(self, vectors: Vectors, reference: Vectors | None) -> Scored:
        """Rank once and score all metrics."""
        scored = score_polarity(
            self.data,
            self._embedded(vectors),
            reference=self._embedded(reference) if reference is not None else None,
            ks=self.ks,
        )
        arrays: dict[str, NDArray[Any]] = {
            name: values.astype(np.float32) for name, values in scored.values.items()
        }
        arrays["retrieved_index"] = scored.retrieval.index.astype(np.int32)
        arrays["retrieved_similarity"] = scored.retrieval.similarity.astype(np.float32)
        return Scored(scored.scores, arrays)

    def _embedded(self, vectors: Vectors) -> EmbeddedTask:
        return EmbeddedTask(vectors(self.data.source.texts), vectors(self.data.query.texts))
