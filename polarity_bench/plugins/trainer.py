"""A sentence-transformers evaluator: P and S inside a trainer, and in the model card."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator

from polarity_bench.bind import PolarityTask
from polarity_bench.data.load import PolarityData, load_polarity
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders import SentenceTransformerEncoder
from polarity_bench.evaluation import score
from polarity_bench.registry import choose_tasks, load_tasks

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PolarityEvaluator(BaseEvaluator):
    """Score polarity retrieval, as `polarity-bench run` does, while a model trains.

    The primary metric is the joint score at the task's k.

    Args:
        task: A task's name, or its data.
        reference: The model that S is measured with. Its vectors are taken at once, so that it may
            be the very model that is about to be trained; None measures each state with itself.
        ks: How many sources to score; the task's own k by default.
        name: Prefix of the metrics; the task's name by default.
        write_csv: Whether to append each evaluation to a CSV file in the trainer's folder.

    Example:
        >>> evaluator = PolarityEvaluator("contrast")
        >>> evaluator.primary_metric
        'contrast_joint_at_16'
    """

    def __init__(
        self,
        task: str | PolarityData,
        *,
        reference: SentenceTransformer | None = None,
        ks: Sequence[int] = (),
        name: str | None = None,
        write_csv: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if isinstance(task, str):
            (spec,) = choose_tasks(load_tasks(), names=[task])
            task = load_polarity(spec, DataAccess.from_environment(), k=max(ks, default=None))
        self.data = task
        self.name = task.spec.name if name is None else name
        self.write_csv = write_csv
        self._task = PolarityTask(task, tuple(ks) or (task.spec.protocol.k,))
        self.primary_metric = "_".join(filter(None, [self.name, self._task.main_score]))
        self._reference = None if reference is None else self._embed(reference)

    def __call__(  # type: ignore[override]  # the base class takes any model, this one encodes
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Score a model; the names of the scores are prefixed with the evaluator's."""
        result = score(self._task, self._embed(model), self._reference)
        means = {str(key): found.mean for key, found in result.scores.items()}
        metrics: dict[str, float] = self.prefix_name_to_metrics(means, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        if output_path is not None and self.write_csv:
            self._append(Path(output_path), {"epoch": epoch, "steps": steps} | metrics)
        return metrics

    def get_config_dict(self) -> dict[str, Any]:
        """Return what the model card says of this evaluator."""
        return {
            "task": self.data.spec.name,
            "version": self.data.spec.version,
            "k": list(self._task.ks),
        }

    def _embed(self, model: SentenceTransformer) -> Any:
        return Embedder().embed(SentenceTransformerEncoder(model, name="model"), self.data.texts)

    def _append(self, folder: Path, row: dict[str, float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"polarity_evaluation_{self.name or 'scores'}.csv"
        new = not file.exists()
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(row))
            if new:
                writer.writeheader()
            writer.writerow(row)
