"""Scores of the encoder in training: P, S, retention and joint, with its base as the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import SentenceTransformerEncoder
from polarity_bench.metrics.register import METRICS
from polarity_bench.metrics.statistics import Bootstrap
from polarity_bench.progress import Bar, no_bar
from polarity_bench.scores import WEIGHTINGS, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import (
    TaskRetrieval,
    derived_score,
    rank,
    values_per_query,
)
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.training.history import Row, with_null
from polarity_bench.training.processes import is_first

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.training.data import TrainingData

HELD_OUT = "held_out_"


class EpochScorer:
    """Scorer of the encoder in training, on the task and on the held-out queries.

    Scores are computed with the same functions, batches and precision (float32) as in `evaluate`,
    so a later evaluation without a store gives the same numbers. The ranking by the base, which is
    the reference, is computed once. With several processes, only the first process scores.

    Attributes:
        chosen_by: Name of the score that chooses the checkpoint.
        rows: Scores so far, one row for each scored epoch.

    Args:
        data: The task to score on, and the held-out queries.
        base: The encoder to train. Before training, it is the reference.
        embedder: Embedder for the base. Embeddings of the encoder in training are not stored. An
            axis on the untrained base uses the stored vectors of the base.
        bar: Opens progress bars.
    """

    def __init__(
        self,
        data: TrainingData,
        base: SentenceTransformerEncoder,
        embedder: Embedder,
        bar: Bar = no_bar,
    ) -> None:
        self._tasks = {"": data.task}
        if data.held_out is not None:
            self._tasks[HELD_OUT] = data.held_out
        self.chosen_by = f"{HELD_OUT if data.held_out else ''}joint"
        self.rows: list[Row] = []
        self._model, self._base = base.model, base.id
        self._embedder = embedder
        self._reference = self._ranked(base, embedder, bar) if is_first() else {}

    def add(
        self, epoch: int, step: int, loss: float | None = None, rate: float | None = None
    ) -> None:
        """Score the current weights of the encoder, and add a row.

        Args:
            epoch: Number of completed epochs; 0 before training.
            step: Number of completed optimizer steps.
            loss: Mean loss of the last epoch.
            rate: Learning rate of the last step.
        """
        begun = {"epoch": epoch, "step": step, "loss": loss, "learning_rate": rate}
        self.rows.append(with_null({**begun, **self(self._model)}))

    def __call__(self, model: SentenceTransformer) -> dict[str, float]:
        """Score the model in its current state.

        Returns:
            Fractions at the task's k: `polarity`, `similarity`, `retention` and `joint` with linear
            weights; the same scores with other weights and a suffix such as `_uniform`; `joint_low`
            and `joint_high`, the ends of the 95 % interval of `joint`. Scores of the held-out
            queries have the prefix `held_out_`.
        """
        encoder = SentenceTransformerEncoder(
            model,
            name="in training",
            prompt=self._base.prompt or "",
            pooling_added=self._base.pooling_added,
            probed=False,
        )
        ranked = self._reference
        if encoder.id.digest != self._base.digest:  # before training, the base's ranking is reused
            # An axis on the untrained base is computed from the vectors of the base.
            shares_base = encoder.base and encoder.base.id.digest == self._base.digest
            embedder = self._embedder if shares_base else replace(self._embedder, store=None)
            ranked = self._ranked(encoder, embedder)
        all_scores: dict[str, float] = {}
        for prefix, task in self._tasks.items():
            ours, theirs = ranked[prefix], self._reference[prefix]
            scores = _scores(task, ours, None if ours is theirs else theirs)
            all_scores |= {f"{prefix}{name}": value for name, value in scores.items()}
        return all_scores

    def _ranked(
        self, encoder: SentenceTransformerEncoder, embedder: Embedder, bar: Bar = no_bar
    ) -> dict[str, TaskRetrieval]:
        texts = [text for task in self._tasks.values() for text in task.texts]
        with bar(f"scoring {encoder.id.name}", len(set(texts))) as advance:
            embedded = embedder.embed(encoder, texts, advance)
            return {prefix: rank(task, embedded) for prefix, task in self._tasks.items()}


def _scores(
    task: PolarityTask, ours: TaskRetrieval, reference: TaskRetrieval | None
) -> dict[str, float]:
    bootstrap = Bootstrap(values_per_query(task, ours, reference), resampling=task.resampling)
    k = task.ks[-1]
    values: dict[str, float] = {}
    for weighting in WEIGHTINGS:
        ending = "" if weighting == "linear" else f"_{weighting}"
        for metric in ("polarity", "similarity"):
            values[f"{metric}{ending}"] = float(bootstrap.means[ScoreKey(metric, k, weighting)])
        for metric in ("retention", "joint"):
            score = METRICS[metric].shown_score(derived_score(bootstrap, metric, k, weighting))
            values[f"{metric}{ending}"] = score.mean
            if metric == "joint" and weighting == "linear":
                values["joint_low"], values["joint_high"] = score.ci95
    return values
