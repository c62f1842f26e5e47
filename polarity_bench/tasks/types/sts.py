"""Semantic textual similarity (STS) without training.

The scores are correlations between the encoder's similarities and human scores. Correlations are in
[-1, 1]; a correlation with a constant is NaN. Each year (STS12 to STS16) has several subsets, which
are correlated separately. Three scores summarise a year, and publications differ in their choice:

- `mean`: the mean over the subsets.
- `wmean`: the mean weighted by the number of pairs, as in the SentEval toolkit.
- `all`: one correlation over the pairs of all subsets, as in SimCSE and mteb.

Shapes: n pairs, d dimensions.

References:
    Agirre et al. (2012), SemEval-2012 task 6, https://aclanthology.org/S12-1051
    Gao et al. (2021), SimCSE, appendix B, https://arxiv.org/abs/2104.08821
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from polarity_bench.data.senteval import read_sts
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.metrics.correlation import (
    COEFFICIENTS,
    Correlation,
    correlate,
    spearman_interval,
)
from polarity_bench.metrics.similarity import cosine, dot
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.base import Settings, TaskScores
from polarity_bench.tasks.types.rows_task import FilesSpec, Parts, RowsTask
from polarity_bench.values import BoolArray, FloatArray

_SUMMARIES = ("all", "mean", "wmean")


class StsSpec(FilesSpec):
    """Content of the task file of an STS task.

    With the reader `sts`, each subset has two files, `SUBSET` and `SUBSET-scores`. With the reader
    `stsb`, each subset has one file.
    """

    kind: Literal["sts"]
    reader: Literal["sts", "stsb"]
    """Layout of the files: `sts` for STS12 to STS16, or `stsb` for STS-B."""
    subsets: tuple[str, ...] = Field(
        json_schema_extra={"items": {"type": "string", "not": {"enum": [*_SUMMARIES]}}}
    )
    """Names of the subsets."""

    moving: ClassVar[tuple[str, ...]] = ("reader", "subsets", "files")
    heading: ClassVar[str] = "STS"
    measure: ClassVar[str] = "Spearman all"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (
        ("Spearman all", ScoreKey("spearman", part="all")),
        ("Spearman mean", ScoreKey("spearman", part="mean")),
        ("Spearman wmean", ScoreKey("spearman", part="wmean")),
        ("Pearson all", ScoreKey("pearson", part="all")),
    )
    has_subsets: ClassVar[bool] = True
    mteb_type: ClassVar[str] = "STS"
    mteb_prompt: ClassVar[str] = "Retrieve semantically similar text."

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the similarities and the human scores, for a correlation."""
        return ("cosine", "gold") if key.metric in COEFFICIENTS else ()

    @model_validator(mode="after")
    def _check_reader(self) -> Self:
        subsets = set(self.subsets)
        if taken := subsets.intersection(_SUMMARIES):
            raise ValueError(
                f"'subsets': {min(taken)!r} is the name of a summary score; rename the subset"
            )
        scores = {f"{subset}-scores" for subset in subsets} if self.reader == "sts" else set()
        self.check_files(subsets | scores)
        return self

    def load(self, access: DataAccess, settings: Settings) -> StsTask:
        """Load the pairs of the task and check their number."""
        return StsTask(self, self.read(access, settings), settings)

    def _parts(self, paths: Mapping[str, Path]) -> Parts:
        if self.reader != "sts":
            return super()._parts(paths)
        return {name: read_sts(paths[name], paths[f"{name}-scores"]) for name in self.subsets}


@dataclass(frozen=True)
class StsTask(RowsTask):
    """An STS task with its data."""

    @cached_property
    def texts(self) -> list[str]:
        """Both texts of each pair, pair by pair."""
        return [text for pairs in self.parts.values() for pair in pairs for text in pair.texts]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name and version of the protocol; it has no parameters."""
        return {"name": "sts-cosine", "version": self.version}

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Correlate the encoder's similarities with human scores, per subset and over all pairs."""
        gold, similarities = {}, {}
        for name, pairs in self.parts.items():
            gold[name] = np.array([pair.label for pair in pairs], dtype=np.float64)
            sides = zip(*(pair.texts for pair in pairs), strict=True)
            first, second = map(embedded.vectors, sides)
            compare = {"cosine": cosine, "dot": dot}[first.similarity]
            similarities[name] = compare(first.vectors, second.vectors)
        correlations = sts(similarities, gold)
        scores = {
            ScoreKey(metric, part=part): Score.single(getattr(correlation, metric), correlation.n)
            for part, correlation in correlations.items()
            for metric in ("spearman", "pearson")
        }
        columns = np.concatenate(list(similarities.values())), np.concatenate(list(gold.values()))
        interval = spearman_interval(*columns)
        scores[self.main_score] = replace(scores[self.main_score], ci95=interval)
        return TaskScores(scores, {"cosine": columns[0], "gold": columns[1]})

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Return the Spearman correlation over the pairs in `rows`, across all subsets."""
        sides = arrays["cosine"][rows], arrays["gold"][rows]
        correlation = correlate(*sides)
        return Score.single(correlation.spearman, correlation.n, spearman_interval(*sides))


def sts(
    similarities: Mapping[str, FloatArray], gold: Mapping[str, FloatArray]
) -> dict[str, Correlation]:
    """Correlate similarities with human scores, per subset and in summary.

    Args:
        similarities: Similarity of each pair, (n,), keyed by subset.
        gold: Human score of each pair, (n,), keyed by subset, in the same order.

    Returns:
        The correlation of each subset, followed by the summaries `mean`, `wmean` and `all`.
    """
    subsets = {name: correlate(similarities[name], gold[name]) for name in gold}
    n_pairs = [subset.n for subset in subsets.values()]
    summaries = {"mean": _average(subsets), "wmean": _average(subsets, weights=n_pairs)}
    together = (np.concatenate([side[name] for name in gold]) for side in (similarities, gold))
    return subsets | summaries | {"all": correlate(*together)}


def _average(
    subsets: Mapping[str, Correlation], weights: Sequence[int] | None = None
) -> Correlation:
    return Correlation(
        pearson=float(np.average([s.pearson for s in subsets.values()], weights=weights)),
        spearman=float(np.average([s.spearman for s in subsets.values()], weights=weights)),
        n=sum(subset.n for subset in subsets.values()),
    )
