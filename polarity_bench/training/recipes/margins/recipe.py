"""The recipe `margins`: metric-learning losses on examples that are made from neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from polarity_bench.errors import InputError
from polarity_bench.training.examples.card import PAPER
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.processes import n_processes
from polarity_bench.training.recipes.base import (
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
    options_of_other_encoder,
    warn_of_schedule,
)
from polarity_bench.training.recipes.margins.losses import LOSSES, Loss, Triplet

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.data import TrainingData
    from polarity_bench.training.epoch_scores import EpochScorer

Schedule = Literal["linear", "cosine", "constant"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
TrainDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Draws:
    """The examples of all epochs, in order of the epochs.

    Attributes:
        columns: The drawn examples. Before `prepare`, the user's own examples, or empty.
        guide: The encoder that finds the neighbours; None if the user provides the examples.
    """

    columns: Mapping[str, list[Any]] = field(default_factory=dict)
    guide: Encoder | None = None


@dataclass(frozen=True, kw_only=True)
class Margins(Recipe[Draws], ExampleSpec):
    """Fine-tuning on examples from neighbours, with new examples for each epoch.

    The published weights are by default from the epoch with the best joint score.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning.
    """

    name: ClassVar[str] = "margins"
    sources: ClassVar[str] = f"Metrics, examples and margins: {PAPER}."
    needs: ClassVar[Mapping[str, str]] = {"accelerate": "the trainer"}
    several: ClassVar[bool] = True
    scores_first: ClassVar[bool] = False

    loss: Loss = parameter(Triplet(), "the loss to minimise", variants=LOSSES)
    examples_from: Path | None = parameter(
        None, "your own examples: a folder from `examples`, or a parquet file", role="place"
    )
    example_encoder: str | None = parameter(
        None, "encoder that finds the neighbours [default: the model]", role="place"
    )
    epochs: int = parameter(5, "number of epochs, each with new examples", least=1)
    batch_size: int = parameter(64, "examples per batch", least=1)
    rate: float = parameter(3e-5, "maximum learning rate", above=0)
    warm_up: float | Literal["as-released"] = parameter(
        0.1, "warm-up: share of all steps, number of steps, or as-released", least=0
    )
    schedule: Schedule = parameter("linear", "learning rate schedule after the warm-up")
    weight_decay: float = parameter(0.01, "weight decay", least=0)
    dtype: TrainDtype = parameter("float32", "precision of the forward pass in training")
    accumulation: int = parameter(
        1, "gradient accumulation: batches per optimizer step, each with its own loss", least=1
    )
    seed: int = seed_parameter("seed of the examples, their order and dropout")
    patience: int = parameter(
        3, "epochs without improvement before training stops; 0: never", least=0
    )
    checkpoint: Literal["best", "last"] = parameter(
        "best", "epoch to publish: best joint score, or last (as in the paper)"
    )
    held_out: int | None = parameter(
        None,
        "number of training rows held out to choose the checkpoint [default: 500, or a tenth of "
        "a small data set]; 0: use the task's own queries",
        least=0,
    )
    report_to: str = parameter(
        "none", "experiment tracker of transformers, e.g. tensorboard", role="aside"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.warm_up, str):
            if self.schedule != "linear":
                raise InputError(
                    f"`schedule` must be linear with the `warm_up` {self.warm_up}, which has its "
                    f"own schedule, got {self.schedule}; leave `schedule` out"
                )
        elif self.warm_up > 1 and self.warm_up != int(self.warm_up):
            raise InputError(
                "`warm_up` must be a share of the steps below 1, an integer number of steps, or "
                f"'as-released', got {self.warm_up}"
            )
        if self.examples is not None:
            self._check_batch(self.examples)

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the parameters for making examples if the user provides the examples."""
        names = ("example_encoder", "mining", "neighbours", "threshold")
        of = names if values.get("examples_from") is not None else ()
        return {n: f"on existing examples; omit `{n}`, or omit `examples_from`" for n in of}

    @property
    def title(self) -> str:
        """The title of the loss."""
        return self.loss.title

    @property
    def hold_out(self) -> tuple[int | None, int]:
        """Number of rows held out to choose the checkpoint, and the seed that draws them."""
        return self.held_out, self.seed

    @property
    def stops_after(self) -> int:
        """Number of epochs without improvement after which training stops; 0 means never."""
        return self.patience if self.checkpoint == "best" else 0

    @property
    def gathers(self) -> bool:
        """Whether batches are joined: several processes train, and the loss compares examples."""
        return self.loss.compares_batch and n_processes() > 1

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the loss, and about accumulation with a loss that compares examples."""
        if self.accumulation == 1 or not self.loss.compares_batch:
            return self.loss.remarks
        size = self.batch_size
        remark = (
            f"accumulation {self.accumulation}: the loss {self.loss.name} compares the examples "
            f"of a batch, so {self.accumulation} batches of {size} are not equivalent to one batch "
            f"of {self.accumulation * size}; use a larger batch size, or several processes"
        )
        return (*self.loss.remarks, remark)

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
            options = options_of_other_encoder(options)
            return {f"`example_encoder` {guide}": lambda: load_encoder(guide, options).id.digest}
        return {}

    def load(self, bench: TrainingContext) -> Inputs[Draws]:
        """Load the encoder that finds the neighbours, or the user's own examples."""
        from polarity_bench.encoders.load import load_encoder
        from polarity_bench.training.recipes.margins.trainer import check_device, check_tracker

        check_tracker(self.report_to)
        check_device(bench.base.device)
        inputs = super().load(bench)
        if self.examples_from is not None:
            columns = inputs.examples.columns
            bench.data.check_given({k: v for k, v in columns.items() if k != "label"})
            return inputs
        guide: Encoder = bench.base
        if self.example_encoder is not None:
            guide = load_encoder(self.example_encoder, options_of_other_encoder(bench.options))
        return replace(inputs, examples=Draws(guide=guide), encoders={"example_encoder": guide.id})

    def read(self, data: TrainingData, access: DataAccess, task_dir: Path | None) -> Inputs[Draws]:
        """Return the user's own examples, or none; `prepare` then draws them from the pool."""
        from polarity_bench.training.examples.source import read_examples
        from polarity_bench.values import digest_of

        if self.examples_from is None:
            return Inputs(data.pool.digest, Draws(), data.pool.texts)
        columns = read_examples(self.examples_from, self.loss.examples)
        texts = [text for name, column in columns.items() if name != "label" for text in column]
        return Inputs(digest_of(columns), Draws(columns), texts)

    def prepare(self, bench: TrainingContext, examples: Draws) -> Draws:
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
            kind, pool = self.loss.examples, bench.data.pool
            guide = examples.guide
            neighbours = pool_neighbours(pool, guide, self, bench.embedder, bench.bar)
            source = ExampleSource(pool, neighbours, kind, self, guide.id)
            draws = [source.columns(self.seed, epoch) for epoch in range(self.epochs)]
        n_examples = len(next(iter(draws[0].values())))
        self._check_batch(n_examples)
        n_steps = steps_in_epoch(self, n_examples)
        factor = learning_rate_factor(self, n_steps)
        shares = [factor(step) for step in range(self.epochs * n_steps)]
        warn_of_schedule(len(shares), max(shares), self.rate)
        return Draws({name: [v for drawn in draws for v in drawn[name]] for name in draws[0]})

    def fit(self, bench: TrainingContext, examples: Draws, epochs: EpochScorer) -> FitResult:
        """Train, resuming from the last complete checkpoint, and load the weights to publish."""
        from polarity_bench.training.recipes.margins.trainer import run_epochs

        rows, kept, speed = run_epochs(self, bench, examples.columns, epochs)
        epochs.rows.extend(rows)
        chosen_by = "the last"
        if self.checkpoint == "best":
            whose = "held-out queries" if bench.data.held_out else "the task's own queries"
            chosen_by = f"chosen by the joint score of {whose}"
        epoch = next(row["epoch"] for row in rows if row["step"] == kept)
        n_examples = len(next(iter(examples.columns.values()))) // self.epochs
        facts = {
            "Loss": self.loss.title,
            "Examples": f"{self.loss.examples}, {n_examples:,} per epoch, {self._source(bench)}",
            "Checkpoint": f"after step {kept} (epoch {epoch:g}), {chosen_by}",
        }
        return FitResult(kept, facts, {"examples_per_epoch": n_examples}, speed=speed)

    def _source(self, bench: TrainingContext) -> str:
        if self.examples_from is not None:
            return "provided by the user"
        return f"{self.mined_words}, by {self.example_encoder or bench.base.id.label}"

    def _check_batch(self, n_examples: int) -> None:
        if n_examples < self.batch_size:
            raise InputError(
                f"expected at least one batch of {self.batch_size} examples, got {n_examples} "
                "examples; use more `examples` or a smaller `batch_size`"
            )
