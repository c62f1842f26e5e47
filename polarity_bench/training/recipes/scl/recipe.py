"""The recipe `scl`: cross-entropy and a supervised contrastive loss on NLI pairs.

The recipe trains on NLI pairs, not on the texts of the polarity task. The task measures how this
training changes P and S. Use `polarity-bench run` to measure STS and transfer, the paper's scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polarity_bench.errors import InputError, reworded
from polarity_bench.training.parameters import ParameterWarning, parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    LAST_ROW,
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
    warn_of_schedule,
)

if TYPE_CHECKING:
    from polarity_bench.data.nli import NliPairs
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.training.recipes.scl.batches import Batch

MOST_APART = 0.01
"""Maximum share of premises with separated pairs before a warning; in SNLI the share is 0.001."""


@dataclass(frozen=True)
class PairBatches:
    """NLI pairs and their batches.

    Attributes:
        pairs: All pairs.
        n_tested: Number of the task's queries that occur in the pairs.
        batches: Positions of the pairs, and the content, of each batch; empty before `prepare`.
    """

    pairs: NliPairs
    n_tested: int = 0
    batches: Sequence[tuple[slice, Batch]] = ()


@dataclass(frozen=True, kw_only=True)
class Scl(Recipe[PairBatches]):
    """One epoch on NLI pairs with the loss (1 - λ) · cross-entropy + λ · contrastive loss.

    With λ = 0 the loss is SBERT's objective. With λ = 0 and `augmented` cross-entropy, the recipe
    trains the paper's baselines with augmented data. The weights after the last step are
    published.

    References:
        Liao (2021), Sentence Embeddings using Supervised Contrastive Learning,
        https://arxiv.org/abs/2106.04791
    """

    name: ClassVar[str] = "scl"
    tags: ClassVar[tuple[str, ...]] = ("supervised-contrastive",)
    sources: ClassVar[str] = (
        "Method: Liao (2021), *Sentence Embeddings using Supervised Contrastive Learning* "
        "(https://arxiv.org/abs/2106.04791)."
    )

    pairs: str | None = parameter(
        None,
        "NLI pairs in the format of SNLI or MultiNLI: files separated by commas, or hub:NAME",
        role="place",
    )
    lambda_: float = parameter(0.3, "weight of the contrastive loss", least=0, most=1)
    temperature: float = parameter(1.0, "temperature of the contrastive loss", above=0)
    similarity: Literal["dot", "cosine"] = parameter("dot", "similarity in the contrastive loss")
    positives: int | Literal["all"] = parameter(
        "all", "maximum number of positives per anchor", least=1
    )
    negatives: int | Literal["all"] = parameter(
        "all", "maximum number of negatives per anchor", least=1
    )
    reading: Literal["as-written", "as-released"] = parameter(
        "as-written", "batches, anchors and limits as in the paper's text, or as in its code"
    )
    cross_entropy: Literal["pairs", "augmented"] = parameter(
        "pairs", "cross-entropy on the batch's pairs, or also on the anchors' candidates"
    )
    pooling: Literal["mean-without-first", "mean"] = parameter(
        "mean-without-first", "pooling of token vectors, instead of the base's pooling"
    )
    batch_size: int = parameter(64, "maximum number of pairs per batch", least=1)
    rate: float = parameter(2e-5, "maximum learning rate", above=0)
    warm_up: float = parameter(0.1, "share of the steps used for warm-up", least=0, below=1)
    schedule: Literal["linear", "constant"] = parameter(
        "constant", "learning rate schedule after the warm-up"
    )
    weight_decay: float = parameter(0.0, "weight decay", least=0)
    dtype: Literal["float32", "bfloat16"] = parameter(
        "float32", "precision of the encoder's forward pass in training"
    )
    seed: int = seed_parameter("seed of the positives, negatives, classifier and dropout")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cross_entropy == "augmented" and self.lambda_:
            raise InputError(
                "`cross_entropy` augmented is a baseline without the contrastive loss, so "
                f"`lambda_` must be 0, got {self.lambda_:g}"
            )

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the parameters of the contrastive loss if its weight is 0."""
        if values.get("lambda_", cls.lambda_):
            return {}
        limits = () if values.get("cross_entropy") == "augmented" else ("positives", "negatives")
        why = "without the contrastive loss (`lambda_` 0); omit"
        return {name: f"{why} `{name}`" for name in ("temperature", "similarity", *limits)}

    @property
    def remarks(self) -> tuple[str, ...]:
        """A warning if the maximum number of negatives is ignored, as in the released code."""
        if self.reading == "as-written" or self.negatives == "all":
            return ()
        why = "as in the released code, the limit is ignored and all negatives are used"
        return (f"negatives {self.negatives}, as-released: {why}",)

    @property
    def title(self) -> str:
        """Name of the run in its figure, with λ."""
        return f"supervised contrast, λ {self.lambda_:g}"

    def check(self) -> None:
        """Check the packages, and check that `pairs` is set."""
        super().check()
        if not self.names:
            raise InputError(
                "`pairs` is required; set it to files of NLI pairs, or to a data set as hub:NAME"
            )

    @property
    def names(self) -> list[str]:
        """Names of the files and data sets with the pairs."""
        return [name.strip() for name in (self.pairs or "").split(",") if name.strip()]

    def resolve_paths(self, folder: Path) -> Scl:
        """Return a copy with the relative paths in `pairs` resolved relative to a folder."""
        from polarity_bench.encoders.load import resolve_name

        if self.pairs is None:
            return self
        return replace(self, pairs=",".join(resolve_name(name, folder) for name in self.names))

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Return the number of texts in all pairs, two per pair."""
        return 2 * _counted(tuple(self.names), access)[0]

    def additional_inputs(
        self, access: DataAccess, task_dir: Path | None, options: EncoderOptions
    ) -> Mapping[str, Callable[[], str]]:
        """Return the digest of the pairs."""
        names = tuple(self.names)
        return {f"`pairs` {', '.join(names)}": lambda: _counted(names, access)[1]}

    def load(self, context: TrainingContext) -> Inputs[PairBatches]:
        """Read the pairs, and warn if they contain queries of the task."""
        from polarity_bench.training.data import equal_to
        from polarity_bench.training.recipes.scl.pooling import check_pooling

        check_pooling(context.base.model, self.pooling)
        inputs = super().load(context)
        n_tested = int(equal_to(context.data.task.query.texts, set(inputs.texts)).sum())
        if n_tested:
            warnings.warn(
                f"the pairs contain {n_tested:,} of the {len(context.data.task.query.texts):,} "
                f"queries of {context.data.task.spec.name}, ignoring case and punctuation",
                ParameterWarning,
                stacklevel=3,
            )
        return replace(inputs, examples=replace(inputs.examples, n_tested=n_tested))

    def read(self, context: TrainingContext) -> Inputs[PairBatches]:
        """Read the NLI pairs."""
        from polarity_bench.data.nli import load_nli

        with reworded("`pairs`: "):
            pairs = load_nli(self.names, context.access)
        return Inputs(pairs.digest, PairBatches(pairs), [*pairs.premises, *pairs.hypotheses])

    def prepare(self, context: TrainingContext, examples: PairBatches) -> PairBatches:
        """Divide the pairs into batches, and draw positives and negatives within the limits."""
        import numpy as np

        from polarity_bench.training.recipes.scl.batches import count_apart, divide, make_batch

        pairs = examples.pairs
        known, premises = np.unique(pairs.premises, return_inverse=True)
        # Duplicates are ignored: a file that is listed twice does not separate a premise's pairs.
        once = dict.fromkeys(zip(premises.tolist(), pairs.hypotheses, strict=True))
        n_apart = count_apart(np.array([premise for premise, _ in once]))
        if n_apart > MOST_APART * len(known):
            warnings.warn(
                f"the pairs of {n_apart:,} of the {len(known):,} premises are not consecutive, so "
                "they may be in different batches and not be contrasted with each other; sort the "
                "files by premise",
                ParameterWarning,
                stacklevel=3,
            )
        rows = divide(premises, self.batch_size, self.reading)
        warn_of_schedule(len(rows), 1.0, self.rate)
        limits = self.reading, self.positives, self.negatives
        batches = [
            make_batch(premises[part], pairs.labels[part], [self.seed, number], *limits)
            for number, part in enumerate(rows)
        ]
        return replace(examples, batches=list(zip(rows, batches, strict=True)))

    def fit(
        self, context: TrainingContext, examples: PairBatches, epochs: EpochScorer
    ) -> FitResult:
        """Train for one epoch, resuming from the last checkpoint."""
        from polarity_bench.classifiers.head import HEAD_FILE
        from polarity_bench.data.nli import HUB_PREFIX
        from polarity_bench.training.loops.descent import DescentPlan, descend
        from polarity_bench.training.recipes.scl.pair_objective import (
            PairObjective,
            tokenize_pairs,
        )
        from polarity_bench.training.recipes.scl.pooling import repool

        model, n_steps = context.base.model, len(examples.batches)
        repool(model, self.pooling)
        tokens = tokenize_pairs(model, examples.pairs, context.base.id.prompt or "")
        contrast = {"temperature": self.temperature, "similarity": self.similarity}
        augmented = self.cross_entropy == "augmented"
        objective = PairObjective(
            model, tokens, self.lambda_, augmented=augmented, seed=self.seed, **contrast
        )
        plan = DescentPlan.of(self, n_steps, after=self.schedule, seed=self.seed)
        objective.train()
        with context.steps(n_steps) as steps:
            losses = descend(
                objective, lambda step: objective(*examples.batches[step]), plan, steps
            )
            speed = steps.speed(objective.n_encoded)
        epochs.add(1, n_steps, sum(losses) / n_steps, self.rate * plan.factor(n_steps - 1))
        n_empty = sum(not len(batch.anchors) for _, batch in examples.batches)
        figures = {
            "pairs": len(examples.pairs),
            "pairs_without_label": examples.pairs.n_skipped,
            "batches": n_steps,
            "batches_without_positives": n_empty,
            "queries_among_pairs": examples.n_tested,
        }
        # A model card names data sets, and files without their folders.
        sources = ", ".join(n if n.startswith(HUB_PREFIX) else Path(n).name for n in self.names)
        classifier = objective.classifier
        files = {} if classifier is None else {HEAD_FILE: classifier.head().to_bytes()}
        return FitResult(
            n_steps,
            self._facts(figures, files),
            figures,
            files,
            speed,
            trained_on=f"pairs of natural language inference ({sources})",
        )

    def _facts(self, figures: Mapping[str, int], files: Collection[str]) -> dict[str, str]:
        head = (
            f"in {', '.join(files)}: a linear layer over (u, v, |u - v|) of a pair; "
            "`polarity-bench predict` labels pairs with it"
        )
        return {
            "Loss": f"{1 - self.lambda_:g} cross-entropy + {self.lambda_:g} contrastive loss",
            "Pairs": f"{figures['pairs']:,}; {figures['pairs_without_label']:,} more have no label",
            "Batches": f"{figures['batches']:,} in one epoch, "
            f"{figures['batches_without_positives']:,} without a positive",
            **({"Head": head} if files else {}),
            **LAST_ROW,
        }


@lru_cache(maxsize=8)
def _counted(names: tuple[str, ...], access: DataAccess) -> tuple[int, str]:
    """Return the number of pairs, and their digest."""
    from polarity_bench.data.nli import load_nli

    pairs = load_nli(list(names), access)
    return len(pairs.premises), pairs.digest
