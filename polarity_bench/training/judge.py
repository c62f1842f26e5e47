"""P, S, retention and joint of the encoder in training, by the reference of its base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator

from polarity_bench.bind import PolarityTask
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.encoders import SentenceTransformerEncoder
from polarity_bench.evaluation import score
from polarity_bench.training.data import TrainingData
from polarity_bench.types import Encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

METRICS = ("polarity", "similarity", "retention", "joint")
WEIGHTED = (*METRICS, *(f"{metric}_uniform" for metric in METRICS))
HELD_OUT = "held_out_"


class EpochEvaluator(BaseEvaluator):
    """Score the task, and the held-out queries, in one pass over their texts.

    The scores are fractions at the task's k: `polarity`, `similarity`, `retention` and `joint`
    weighted linearly, the same with `_uniform`, and all of them with `held_out_` before.

    `chosen_by` names the score that the checkpoint is chosen by.

    Args:
        data: The task and the held-out queries.
        base: The encoder before training, which is the reference.
        embedder: How the base is embedded; what is in training is not stored.
        prompt: The text put before every text.
    """

    def __init__(
        self, data: TrainingData, base: Encoder, embedder: Embedder, prompt: str | None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.k = data.task.spec.protocol.k
        self._tasks = {"": PolarityTask(data.task, (self.k,))}
        if data.held_out is not None:
            self._tasks[HELD_OUT] = PolarityTask(data.held_out, (self.k,))
        self.chosen_by = f"{HELD_OUT if data.held_out else ''}joint"
        self.primary_metric = self.chosen_by
        self._texts = [text for task in self._tasks.values() for text in task.texts]
        self._prompt = prompt
        self._sizes = (embedder.batch_tokens, embedder.batch_size)
        self._reference = embedder.embed(base, self._texts)

    def __call__(  # type: ignore[override]  # the base class takes any model, this one encodes
        self,
        model: SentenceTransformer,
        output_path: str | None = None,  # noqa: ARG002
        epoch: int = -1,  # noqa: ARG002
        steps: int = -1,  # noqa: ARG002
    ) -> dict[str, float]:
        """Score the model as it is."""
        encoder = SentenceTransformerEncoder(model, name="in training", prompt=self._prompt)
        if encoder.id.digest == self._reference.encoder.digest:  # nothing is trained yet
            return self._scores(self._reference)
        return self._scores(Embedder(None, *self._sizes).embed(encoder, self._texts))

    def _scores(self, corpus: EmbeddedTexts) -> dict[str, float]:
        found = {}
        for prefix, task in self._tasks.items():
            scores = score(task, corpus, self._reference).flat
            for metric in METRICS:
                found[f"{prefix}{metric}"] = scores[f"{metric}_at_{self.k}"]
                found[f"{prefix}{metric}_uniform"] = scores[f"{metric}_uniform_at_{self.k}"]
        return found

    def get_config_dict(self) -> dict[str, Any]:
        """Return what a model card says of this evaluator."""
        return {"k": self.k}
