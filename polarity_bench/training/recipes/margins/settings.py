"""Parameters of the recipe `margins`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.examples.card import PAPER
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.processes import n_processes
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.recipes.margins.losses import LOSSES, Loss, Triplet

if TYPE_CHECKING:
    from polarity_bench.encoders.base import Encoder

Schedule = Literal["linear", "cosine", "constant"]
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
class MarginSettings(Recipe[Draws], ExampleSpec):
    """Parameters of the recipe `margins`."""

    name: ClassVar[str] = "margins"
    sources: ClassVar[str] = f"Metrics, examples and margins: {PAPER}."
    needs: ClassVar[tuple[str, ...]] = ("accelerate",)
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
            self.check_batch(self.examples)

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

    def check_batch(self, n_examples: int) -> None:
        """Raise InputError if there are fewer examples than in a batch."""
        if n_examples < self.batch_size:
            raise InputError(
                f"expected at least one batch of {self.batch_size} examples, got {n_examples} "
                "examples; use more `examples` or a smaller `batch_size`"
            )
