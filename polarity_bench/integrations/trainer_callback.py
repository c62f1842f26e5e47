"""Evaluator for sentence-transformers trainers, which also writes scores to the model card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sentence_transformers.base.evaluation import BaseEvaluator

from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import SentenceTransformerEncoder
from polarity_bench.encoders.reference_encoder import (
    Base,
    default_reference,
    distinct_base,
    find_base,
    name_of,
    source_of,
    write_base,
)
from polarity_bench.evaluation.one_task import given_task, score_task
from polarity_bench.integrations.hub_card import shown_keys
from polarity_bench.tasks.types.base import Settings, Task
from polarity_bench.training.model_card import TRAINED
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PolarityEvaluator(BaseEvaluator):
    """Evaluator that scores a model on a task during training.

    The scores equal those of `polarity-bench run`. The primary metric is the main score of the
    task; for polarity retrieval, this is joint at the k of the task file.

    Args:
        task: A task, or its name.
        reference: The reference model for S. The model to train may be its own reference, because
            the vectors of the reference are computed immediately. In this case, the untrained model
            is recorded as the base in the model's configuration, unless a base is recorded already.
            The default is the recorded base of the evaluated model or, without a base, the model
            itself.
        settings: Settings of the protocol, if `task` is a name.
        name: Prefix of the metrics; the name of the task by default.
        write_csv: Whether to append each evaluation to a CSV file in the trainer's folder. The name
            of the file contains the non-default settings, such as the values of k or the reference.

    Example:
        >>> evaluator = PolarityEvaluator("contrast")
        >>> evaluator.primary_metric
        'contrast_joint_at_16'
    """

    def __init__(
        self,
        task: str | Task,
        *,
        reference: SentenceTransformer | None = None,
        settings: Settings | None = None,
        name: str | None = None,
        write_csv: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library has no types here
        self.task = given_task(task, settings)
        self.name = self.task.spec.name if name is None else name
        self.write_csv = write_csv
        self.primary_metric = "_".join(filter(None, [self.name, str(self.task.main_score)]))
        self._reference: EmbeddedTexts | None = None
        self._trained_from: Base | None = None
        self._trained = reference
        if reference is not None:
            encoder = SentenceTransformerEncoder(reference, name=name_of(reference))
            self._reference = self._embed(encoder)
            if (source := source_of(reference)) and find_base(reference) is None:
                self._trained_from = Base(source, encoder.id)
        self._bases: dict[Base, EmbeddedTexts] = {}
        self._reference_label = "itself"

    def __call__(  # type: ignore[override]  # The base class accepts any model.
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Score a model on the task.

        Args:
            model: The model to evaluate.
            output_path: Folder of the CSV file; None to write no file.
            epoch: Number of the epoch, for the CSV file and the model card.
            steps: Number of the step, for the CSV file and the model card.

        Returns:
            The scores, keyed by metric with the evaluator's name as prefix. Joint and front are
            negative below chance.
        """
        if self._trained_from and model is self._trained:
            # The base in the configuration is the default reference of `polarity-bench run`.
            write_base(model, self._trained_from)
        encoder = SentenceTransformerEncoder(model, name="model", probed=False)
        reference = self._reference or self._base_of(encoder)
        result = score_task(self.task, self._embed(encoder), reference)
        means = {str(key): score.mean for key, score in result.scores.items()}
        metrics: dict[str, float] = self.prefix_name_to_metrics(means, self.name)
        if self.task.limit is None:  # Model cards show only scores of complete tasks.
            card = {str(key): 100 * result.shown(key).mean for key in shown_keys(result)}
            card = self.prefix_name_to_metrics(card, self.name)
            self._reference_label = "itself" if reference is None else reference.encoder.label
            self.store_metrics_in_model_card_data(model, card, epoch, steps)
        if output_path is not None and self.write_csv:
            words = ["polarity_evaluation", self.name or "scores"]
            stem = "__".join(filter(None, ["_".join(words), result.experiment]))
            _append(Path(output_path), stem, {"epoch": epoch, "steps": steps} | metrics)
        return metrics

    @property
    def description(self) -> str:
        """Name of the evaluator's entries in the model card."""
        if not self.task.uses_reference:
            return self.task.spec.heading
        return f"{TRAINED}, reference {self._reference_label}"

    def get_config_dict(self) -> dict[str, Any]:
        """Return the evaluator's configuration, for the model card."""
        spec = self.task.spec
        config = {"task": spec.name, "version": spec.version, "protocol": dict(self.task.protocol)}
        reference = {"reference": self._reference_label} if self.task.uses_reference else {}
        return {**config, **reference, "unit": "percent"}

    def _base_of(self, encoder: SentenceTransformerEncoder) -> EmbeddedTexts | None:
        base = distinct_base(encoder) if self.task.uses_reference else None
        if base and base not in self._bases and (loaded := default_reference(encoder)):
            self._bases[base] = self._embed(loaded)
        return self._bases[base] if base else None

    def _embed(self, encoder: Encoder) -> EmbeddedTexts:
        return Embedder.on(encoder).embed(encoder, self.task.texts)


def _append(folder: Path, stem: str, row: Mapping[str, float]) -> None:
    """Append a row to a CSV file.

    If the existing file has other columns, the row is appended to a file with a digest of the
    columns in its name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, columns = folder / f"{stem}.csv", list(row)
    if file.exists() and list(pd.read_csv(file, nrows=0)) != columns:
        file = folder / f"{stem}__{digest_of(columns)}.csv"
    pd.DataFrame([row]).to_csv(file, mode="a", header=not file.exists(), index=False)
