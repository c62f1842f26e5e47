"""A sentence-transformers evaluator, which reports our scores in a trainer and the model card."""

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
    base_reference,
    distinct_base,
    find_base,
    name_of,
    source_of,
    write_base,
)
from polarity_bench.evaluation.one_task import given_task, score_task
from polarity_bench.tasks.types.base import Settings, Task
from polarity_bench.training.model_card import TRAINED, shown_keys
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PolarityEvaluator(BaseEvaluator):
    """Evaluator that scores a task during training, as `polarity-bench run` does.

    The primary metric is the task's main score. For polarity retrieval, it is joint at the task's
    k.

    Args:
        task: A task, or its name.
        reference: The reference model, which measures S. Its vectors are computed immediately, so
            that it may be the model to be trained. That model is then recorded as the base in the
            model's configuration. None measures each state with the base that the model's
            configuration names, or with the model itself if it names none.
        settings: Settings of the protocol, for a task given by name.
        name: Prefix of the metrics; the task's name by default.
        write_csv: Whether to append each evaluation to a CSV file in the trainer's folder. The
            file's name contains the settings that differ from the task's defaults, such as other
            ks or a reference.

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
        super().__init__()  # type: ignore[no-untyped-call]
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

    def __call__(  # type: ignore[override]  # the base class takes any model, this one encodes
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Score a model, and return the scores with the evaluator's name as prefix."""
        if self._trained_from and model is self._trained:
            write_base(model, self._trained_from)  # lets `run` find the reference
        encoder = SentenceTransformerEncoder(model, name="model")
        reference = self._reference or self._base_of(encoder)
        result = score_task(self.task, self._embed(encoder), reference)
        means = {str(key): score.mean for key, score in result.scores.items()}
        metrics: dict[str, float] = self.prefix_name_to_metrics(means, self.name)
        if self.task.limit is None:  # model cards show only scores of complete tasks
            card = {str(key): 100 * result.scores[key].mean for key in shown_keys(result)}
            card = self.prefix_name_to_metrics(card, self.name)
            self._reference_label = reference.encoder.label if reference else "itself"
            self.store_metrics_in_model_card_data(model, card, epoch, steps)
        if output_path is not None and self.write_csv:
            words = ["polarity_evaluation", self.name or "scores"]
            stem = "__".join(filter(None, ["_".join(words), result.experiment]))
            _append(Path(output_path), stem, {"epoch": epoch, "steps": steps} | metrics)
        return metrics

    @property
    def description(self) -> str:
        """Name of this evaluator's entries in the model card."""
        if not self.task.uses_reference:
            return self.task.spec.heading
        return f"{TRAINED}, reference {self._reference_label}"

    def get_config_dict(self) -> dict[str, Any]:
        """Return the description of this evaluator in the model card."""
        spec = self.task.spec
        config = {"task": spec.name, "version": spec.version, "protocol": dict(self.task.protocol)}
        reference = {"reference": self._reference_label} if self.task.uses_reference else {}
        return {**config, **reference, "unit": "percent"}

    def _base_of(self, encoder: SentenceTransformerEncoder) -> EmbeddedTexts | None:
        base = distinct_base(encoder) if self.task.uses_reference else None
        if base and base not in self._bases and (loaded := base_reference(encoder)):
            self._bases[base] = self._embed(loaded)
        return self._bases[base] if base else None

    def _embed(self, encoder: Encoder) -> EmbeddedTexts:
        return Embedder().embed(encoder, self.task.texts)


def _append(folder: Path, stem: str, row: Mapping[str, float]) -> None:
    """Append a row to a csv file, or to another file if the existing one has other columns."""
    folder.mkdir(parents=True, exist_ok=True)
    file, columns = folder / f"{stem}.csv", list(row)
    if file.exists() and list(pd.read_csv(file, nrows=0)) != columns:
        file = folder / f"{stem}__{digest_of(columns)}.csv"
    pd.DataFrame([row]).to_csv(file, mode="a", header=not file.exists(), index=False)
