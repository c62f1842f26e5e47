"""A sentence-transformers evaluator: P and S inside a trainer, and in the model card."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from polarity_bench.evaluation.one_task import given_task, score
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.base import Settings, Task
from polarity_bench.training.model_card import IN_CARDS, TRAINED
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PolarityEvaluator(BaseEvaluator):
    """Score a task, as `polarity-bench run` does, while a model trains.

    The primary metric is the task's main score: for polarity retrieval joint, at the task's k.

    Args:
        task: A task, or its name.
        reference: The model that S is measured with. Its vectors are taken at once, so that it may
            be the very model that is about to be trained, which is recorded as the base in the
            configuration of the model. None measures each state with the base that its
            configuration names, or else with itself.
        settings: What is asked of the protocol of a task given by name.
        name: Prefix of the metrics; the task's name by default.
        write_csv: Whether to append each evaluation to a CSV file in the trainer's folder. Its name
            says what differs from the task's defaults, such as other k's or a reference.

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
        """Score a model; the names of the scores are prefixed with the evaluator's."""
        if self._trained_from and model is self._trained:
            write_base(model, self._trained_from)  # so that `run` finds the reference
        encoder = SentenceTransformerEncoder(model, name="model")
        reference = self._reference or self._base_of(encoder)
        result = score(self.task, self._embed(encoder), reference)
        means = {str(key): found.mean for key, found in result.scores.items()}
        metrics: dict[str, float] = self.prefix_name_to_metrics(means, self.name)
        if self.task.limit is None:  # a quick look is no result
            card = {str(key): 100 * result.scores[key].mean for key in self._in_card(result)}
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
        """What the model card calls the entries of this evaluator."""
        if not self.task.uses_reference:
            return self.task.spec.heading
        return f"{TRAINED}, reference {self._reference_label}"

    def get_config_dict(self) -> dict[str, Any]:
        """Return what the model card says of this evaluator."""
        spec = self.task.spec
        said = {"task": spec.name, "version": spec.version, "protocol": dict(self.task.protocol)}
        reference = {"reference": self._reference_label} if self.task.uses_reference else {}
        return {**said, **reference, "unit": "percent"}

    def _in_card(self, result: Result) -> list[ScoreKey]:
        """Return the scores that the model card shows: P, S, retention and joint at each k."""
        keys = [ScoreKey(metric, k) for k in result.ks for metric in IN_CARDS]
        return [k for k in keys or [result.main_score] if math.isfinite(result.scores[k].mean)]

    def _base_of(self, encoder: SentenceTransformerEncoder) -> EmbeddedTexts | None:
        base = distinct_base(encoder) if self.task.uses_reference else None
        if base is None:
            return None
        if base not in self._bases and (loaded := base_reference(encoder)):
            self._bases[base] = self._embed(loaded)
        return self._bases[base]

    def _embed(self, encoder: Encoder) -> EmbeddedTexts:
        return Embedder().embed(encoder, self.task.texts)


def _append(folder: Path, stem: str, row: Mapping[str, float]) -> None:
    """Append a row to the file of this name, or of a name of its own if that has other columns."""
    folder.mkdir(parents=True, exist_ok=True)
    file, columns = folder / f"{stem}.csv", list(row)
    if file.exists():
        with file.open(newline="", encoding="utf-8") as stream:
            if next(csv.reader(stream), []) != columns:
                file = folder / f"{stem}__{digest_of(columns)}.csv"
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns)
        if new:
            writer.writeheader()
        writer.writerow(row)
