"""The recipe `triple-entropy`: cross-entropy with a metric loss, by default SoftTriple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from polarity_bench.training.losses.metric import MetricLoss, SoftTriple
from polarity_bench.training.objective import OBJECTIVES, Objective
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    LAST_ROW,
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
)

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.tasks.labelled import LabelledTexts
    from polarity_bench.training.epoch_scores import EpochScorer


@dataclass(frozen=True, kw_only=True)
class TripleEntropy(Recipe["LabelledTexts"], Objective):
    """Fine-tuning of an encoder and a classifier head on the task's labels; publishes both.

    The loss `cce` is cross-entropy alone. No rows are held out, and the final weights are
    published.

    References:
        Sosnowski et al. (2022), TripleEntropy, equation 6.
    """

    name: ClassVar[str] = "triple-entropy"
    tags: ClassVar[tuple[str, ...]] = ("text-classification",)
    sources: ClassVar[str] = (
        "Method: Sosnowski et al. (2022), *Applying SoftTriple Loss for Supervised Language Model "
        "Fine Tuning*."
    )
    needs: ClassVar[tuple[str, ...]] = ("pytorch_metric_learning",)
    extra: ClassVar[str] = "classify"

    loss: MetricLoss = parameter(
        SoftTriple(), "loss added to cross-entropy; cce: cross-entropy alone", variants=OBJECTIVES
    )
    epochs: int = parameter(2, "passes over the rows", least=1)
    samples: int | Literal["all"] = parameter(
        "all", "number of texts to draw, stratified by class", least=2
    )
    seed: int = seed_parameter("seed of the texts, their order, the head, proxies and dropout")

    @property
    def title(self) -> str:
        """Titles of the combined losses."""
        return "CCE" if self.metric is None else f"CCE + {self.metric.title}"

    def load(self, context: TrainingContext) -> Inputs[LabelledTexts]:
        """Check the base, and draw the training texts."""
        from polarity_bench.training.loops.classifier_training import check_encoder

        check_encoder(context.base.model, self)
        return super().load(context)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Return the number of training texts times the number of epochs."""
        n_labels = n_rows if self.samples == "all" else min(self.samples, n_rows)
        return self.epochs * n_labels

    def read(self, context: TrainingContext) -> Inputs[LabelledTexts]:
        """Draw the training texts from the pool, stratified by class."""
        data = context.data
        given = data.pool.labelled(data.task.spec.name)
        drawn = given.drawn(self.samples, self.seed, field="samples")
        digest = data.pool.digest if drawn is given else drawn.digest
        return Inputs(digest, drawn, cast("Sequence[str]", drawn.texts))

    def fit(
        self, context: TrainingContext, examples: LabelledTexts, epochs: EpochScorer
    ) -> FitResult:
        """Train the encoder and the head together, resuming from the last checkpoint."""
        from polarity_bench.classifiers.head import HEAD_FILE
        from polarity_bench.training.loops.classifier_training import shape_encoder

        model, n_texts = context.base.model, len(examples.texts)
        shape_encoder(model, self, pooling_added=context.base.id.pooling_added)
        fitted, speed = context.fit_classifier(model, examples, self, self.seed)
        n_steps = len(fitted.losses)
        epochs.add(self.epochs, n_steps, fitted.loss)
        facts = {
            "Training": f"{n_texts:,} texts, {self.title}",
            "Head": f"in {HEAD_FILE}: a linear layer over the encoder's vectors, not normalised, "
            "and proxies if the loss has any; `polarity-bench predict` labels texts with it",
            **LAST_ROW,
        }
        figures = {"texts": n_texts, "empty_batches": fitted.n_empty}
        return FitResult(n_steps, facts, figures, {HEAD_FILE: fitted.head.to_bytes()}, speed)
