"""Unsupervised semantic textual similarity, bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polarity_bench.bind.task import Scored, Vectors
from polarity_bench.data.load_rows import RowsData
from polarity_bench.data.senteval import PairRow
from polarity_bench.metrics.correlation import spearman_interval
from polarity_bench.protocols.sts import Correlation, cosine, sts
from polarity_bench.spec import StsSpec
from polarity_bench.types import Score


@dataclass(frozen=True)
class StsTask:
    """Unsupervised semantic textual similarity."""

    data: RowsData
    spec: StsSpec

    version = 1  # raised whenever the code moves a score
    uses_reference = False
    experiment = ""

    @property
    def data_digest(self) -> str:
        """Digest of the rows."""
        return self.data.digest

    @cached_property
    def texts(self) -> Sequence[str]:
        """Both sides of every pair."""
        rows = [row for part in self.data.parts.values() for row in part]
        return [
            text for row in rows if isinstance(row, PairRow) for text in (row.first, row.second)
        ]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Cosine, correlated."""
        return {"name": "sts-cosine", "version": self.version}

    @property
    def main_score(self) -> str:
        """The name of the main score."""
        return self.spec.main_score

    @property
    def counts(self) -> Mapping[str, int]:
        """Pairs by subset."""
        return {name: len(rows) for name, rows in self.data.parts.items()}

    def score(self, vectors: Vectors, reference: Vectors | None) -> Scored:  # noqa: ARG002
        """Correlate cosine with people's scores, by subset and over all."""
        gold, found = {}, {}
        for name, rows in self.data.parts.items():
            pairs = [row for row in rows if isinstance(row, PairRow)]
            gold[name] = np.array([row.label for row in pairs], dtype=np.float64)
            found[name] = cosine(
                vectors([row.first for row in pairs]).vectors,
                vectors([row.second for row in pairs]).vectors,
            )
        outcome = sts(found, gold)
        everything = np.concatenate(list(found.values())), np.concatenate(list(gold.values()))
        scores: dict[str, Score] = {}
        summaries = {"mean": outcome.mean, "wmean": outcome.weighted, "all": outcome.all}
        for name, correlation in {**outcome.subsets, **summaries}.items():
            scores |= _correlation_scores(name, correlation)
        scores["spearman_all"] = Score(
            outcome.all.spearman, math.nan, spearman_interval(*everything), outcome.all.n
        )
        return Scored(scores, {"cosine": everything[0], "gold": everything[1]})


def _correlation_scores(name: str, correlation: Correlation) -> dict[str, Score]:
    return {
        f"spearman_{name}": Score.single(correlation.spearman, correlation.n),
        f"pearson_{name}": Score.single(correlation.pearson, correlation.n),
    }
