"""The recipe `triple-entropy`: cross-entropy with SoftTriple on every token, or another loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.losses.metric import MetricLoss, SoftTriple
from polarity_bench.training.objective import OBJECTIVES, Objective
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
    warn_of_schedule,
)

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.training.data import TrainingData
    from polarity_bench.training.epoch_scores import EpochScorer


@dataclass(frozen=True, kw_only=True)
class TripleEntropy(Objective, Recipe):
    """A classifier of the task's labels: an encoder and its head, which are both published.

    The loss `cce` is cross-entropy alone. No rows are held out: the final weights are published.

    References:
        Sosnowski et al. (2022), TripleEntropy, equation 6.
    """

    family: ClassVar[str] = "recipe"
    name: ClassVar[str] = "triple-entropy"
    tags: ClassVar[tuple[str, ...]] = ("text-classification",)
    sources: ClassVar[str] = (
        "Method: Sosnowski et al. (2022), *Applying SoftTriple Loss for Supervised Language Model "
        "Fine Tuning*."
    )
    needs: ClassVar[dict[str, str]] = {"pytorch_metric_learning": "its losses"}
    extra: ClassVar[str] = "classify"

    loss: MetricLoss = parameter(
        SoftTriple(), "what stands beside cross-entropy; cce: nothing", variants=OBJECTIVES
    )
    epochs: int = parameter(2, "passes over the rows", least=1)
    samples: int | Literal["all"] = parameter("all", "texts drawn, classes alike as all", least=2)
    seed: int = seed_parameter("of the texts, their order, head, proxies and dropout")

    @property
    def title(self) -> str:
        """The titles of the losses."""
        return "CCE" if self.metric is None else f"CCE + {self.metric.title}"

    def load(self, bench: TrainingContext) -> Inputs:
        """Check the base and draw the texts."""
        from polarity_bench.training.loops.classifier import check_encoder

        check_encoder(bench.base.model, self)
        return super().load(bench)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:  # noqa: ARG002
        """Return the number of labelled texts times the number of epochs."""
        n_labels = n_rows if self.samples == "all" else min(self.samples, n_rows)
        return self.epochs * n_labels

    def read(self, data: TrainingData, access: DataAccess, task_dir: Path | None) -> Inputs:
        """Draw the texts."""
        from polarity_bench.data.sampling import sample
        from polarity_bench.values import digest_of

        pool = data.pool
        if self.samples == "all":
            return super().read(data, access, task_dir)
        if self.samples > (n_texts := len(pool.texts)):
            raise InputError(
                f"`samples` {self.samples:,}: there are {n_texts:,} texts to draw from; ask for "
                "fewer, or all"
            )
        drawn = sample(pool.labels, self.samples, self.seed, field="samples")
        texts, labels = [pool.texts[row] for row in drawn], pool.labels[drawn]
        digest = digest_of([texts, labels.tolist(), list(pool.classes)])
        return Inputs(digest, (texts, labels), texts)

    def prepare(self, bench: TrainingContext, inputs: Inputs) -> Any:  # noqa: ARG002
        """Return the texts and the labels."""
        if self.samples == "all":
            return list(inputs.content.texts), inputs.content.labels
        return inputs.content

    def fit(self, bench: TrainingContext, examples: Any, judge: EpochScorer) -> FitResult:
        """Train the encoder and the head together, from the last checkpoint if there is one."""
        import time

        from polarity_bench.classifiers.head import HEAD_FILE
        from polarity_bench.classifiers.tokens import tokenize
        from polarity_bench.training.loops.classifier import fit_classifier, plan_of, shape_encoder
        from polarity_bench.training.loops.descent import Checkpoints

        (texts, labels), base, classes = examples, bench.base, bench.data.pool.classes
        plan = plan_of(self, len(texts), self.seed)
        warn_of_schedule(plan.n_steps, 1.0, self.rate)
        begun = {"epoch": 0, "step": 0, "loss": None, "learning_rate": None}
        rows: list[Any] = [{**begun, **judge(base.model)}]
        shape_encoder(base.model, self, pooling_added=base.id.pooling_added)
        tokens = tokenize(base.model, texts, base.id.prompt or "")
        kept = Checkpoints(bench.folder.checkpoints)
        n_new, started = plan.n_steps - kept.step, time.perf_counter()
        with bench.bar(bench.folder.titled(kept.step), plan.n_steps) as advance:
            fitted = fit_classifier(
                base.model,
                tokens,
                labels,
                classes,
                self,
                seed=self.seed,
                checkpoints=kept,
                progress=advance,
            )
        seconds = time.perf_counter() - started
        last = fitted.losses[-(plan.n_steps // self.epochs) :]
        ended = {"epoch": self.epochs, "step": plan.n_steps, "loss": sum(last) / len(last)}
        rows.append({**ended, "learning_rate": None, **judge(base.model)})
        facts = {
            "Training": f"{len(texts):,} texts, {self.epochs} epochs in batches of "
            f"{self.batch_size}, {self.title}, share of cross-entropy {self.share:g}, rate "
            f"{self.rate:g}, {self.dtype}, seed {self.seed}",
            "Head": f"in {HEAD_FILE}: a linear layer over the encoder's vectors as they are, and "
            "proxies if it was trained with some; `polarity-bench predict` labels a file by it",
            "Checkpoint": "none was chosen: the last row is what lies here",
        }
        speed = n_new * len(texts) * self.epochs / plan.n_steps / seconds if n_new else None
        figures = {"texts": len(texts), "empty_batches": fitted.n_empty}
        files = {HEAD_FILE: fitted.head.to_bytes()}
        return FitResult(rows, plan.n_steps, facts, figures, files, speed)
