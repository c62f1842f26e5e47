"""The recipe `margins`: metric-learning losses on examples that are made from neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from polarity_bench.training.recipes.base import (
    FitResult,
    Inputs,
    TrainingContext,
    warn_of_schedule,
)
from polarity_bench.training.recipes.margins.settings import Draws, MarginSettings

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.epoch_scores import EpochScorer


@dataclass(frozen=True, kw_only=True)
class Margins(MarginSettings):
    """Fine-tuning on examples from neighbours, with new examples for each epoch.

    The published weights are by default from the epoch with the best joint score.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning.
    """

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Estimate the number of texts in the examples of all epochs."""
        from polarity_bench.training.examples import COLUMNS

        kind = self.loss.examples
        most = n_rows * self.neighbours * (self.neighbours // 4 if kind == "triplets" else 1)
        return self.epochs * self.solve_count(most) * len(COLUMNS[kind])

    def additional_inputs(
        self, access: DataAccess, task_dir: Path | None, options: EncoderOptions
    ) -> Mapping[str, Callable[[], str]]:
        """Return the digest of the encoder for the neighbours, or of the user's own examples."""
        from polarity_bench.encoders.load import load_encoder
        from polarity_bench.training.examples.source import read_examples
        from polarity_bench.values import digest_of

        kind = self.loss.examples
        if (file := self.examples_from) is not None:
            return {
                f"`examples_from` {file}, {kind},": lambda: digest_of(read_examples(file, kind))
            }
        if (guide := self.example_encoder) is not None:
            others = options.of_others
            return {f"`example_encoder` {guide}": lambda: load_encoder(guide, others).id.digest}
        return {}

    def load(self, context: TrainingContext) -> Inputs[Draws]:
        """Load the encoder that finds the neighbours, or the user's own examples."""
        from polarity_bench.encoders.load import load_encoder
        from polarity_bench.training.recipes.margins.trainer import check_device, check_tracker

        check_tracker(self.report_to)
        check_device(context.base.device)
        inputs = super().load(context)
        if self.examples_from is not None:
            columns = inputs.examples.columns
            context.data.check_given({k: v for k, v in columns.items() if k != "label"})
            return inputs
        guide: Encoder = context.base
        if self.example_encoder is not None:
            guide = load_encoder(self.example_encoder, context.options.of_others)
        return replace(inputs, examples=Draws(guide=guide), encoders={"example_encoder": guide.id})

    def read(self, context: TrainingContext) -> Inputs[Draws]:
        """Return the user's own examples, or none; `prepare` then draws them from the pool."""
        from polarity_bench.training.examples.source import read_examples
        from polarity_bench.values import digest_of

        if self.examples_from is None:
            return Inputs(context.data.pool.digest, Draws(), context.data.pool.texts)
        columns = read_examples(self.examples_from, self.loss.examples)
        texts = [text for name, column in columns.items() if name != "label" for text in column]
        return Inputs(digest_of(columns), Draws(columns), texts)

    def prepare(self, context: TrainingContext, examples: Draws) -> Draws:
        """Make the examples of all epochs, and check the batch size and the schedule."""
        from polarity_bench.training.examples.neighbour_cache import pool_neighbours
        from polarity_bench.training.examples.source import ExampleSource, shuffled
        from polarity_bench.training.recipes.margins.trainer import (
            learning_rate_factor,
            steps_in_epoch,
        )

        if examples.guide is None:
            given = examples.columns
            size = len(next(iter(given.values())))
            count = self.examples or (size if self.dropout is None else self.solve_count(size))
            draws = [shuffled(given, count, self.seed, epoch) for epoch in range(self.epochs)]
        else:
            pool = context.data.pool
            neighbours = pool_neighbours(pool, examples.guide, self, context.embedder, context.bar)
            source = ExampleSource(pool, neighbours, self.loss.examples, self)
            draws = [source.columns(self.seed, epoch) for epoch in range(self.epochs)]
        n_examples = len(next(iter(draws[0].values())))
        self.check_batch(n_examples)
        n_steps = steps_in_epoch(self, n_examples)
        factor = learning_rate_factor(self, n_steps)
        shares = [factor(step) for step in range(self.epochs * n_steps)]
        warn_of_schedule(len(shares), max(shares), self.rate)
        return Draws({name: [v for drawn in draws for v in drawn[name]] for name in draws[0]})

    def fit(self, context: TrainingContext, examples: Draws, epochs: EpochScorer) -> FitResult:
        """Train, resuming from the last complete checkpoint, and load the weights to publish."""
        from polarity_bench.training.recipes.margins.trainer import run_epochs

        rows, kept, speed = run_epochs(self, context, examples.columns, epochs)
        epochs.rows.extend(rows)
        chosen_by = "the last"
        if self.checkpoint == "best":
            whose = "held-out queries" if context.data.held_out else "the task's own queries"
            chosen_by = f"chosen by the joint score of {whose}"
        source = f"{self.mined_words}, by {self.example_encoder or context.base.id.label}"
        if self.examples_from is not None:
            source = "provided by the user"
        epoch = next(row["epoch"] for row in rows if row["step"] == kept)
        n_examples = len(next(iter(examples.columns.values()))) // self.epochs
        facts = {
            "Loss": self.loss.title,
            "Examples": f"{self.loss.examples}, {n_examples:,} per epoch, {source}",
            "Checkpoint": f"after step {kept} (epoch {epoch:g}), {chosen_by}",
        }
        return FitResult(kept, facts, {"examples_per_epoch": n_examples}, speed=speed)
