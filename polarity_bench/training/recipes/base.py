"""Recipe: what a way of training has to offer, and what it is given to work with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polarity_bench.errors import InputError, how_to_install
from polarity_bench.training.parameters import Parameters, ParameterWarning
from polarity_bench.training.processes import n_processes

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.base import EncoderId
    from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder
    from polarity_bench.progress import Bar
    from polarity_bench.training.data import TrainingData
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.training.history import Row
    from polarity_bench.training.job import Job
    from polarity_bench.training.run_folder import RunFolder


@dataclass(frozen=True)
class TrainingContext:
    """What a recipe works with; `base` is the encoder to train, which it changes."""

    job: Job
    folder: RunFolder
    base: SentenceTransformerEncoder
    data: TrainingData
    embedder: Embedder
    bar: Bar


@dataclass(frozen=True)
class Inputs:
    """What a recipe trains on.

    Attributes:
        digest: 16 hexadecimal digits over it.
        content: What `prepare` makes the examples of.
        texts: Every text that it learns from.
        encoders: The encoders beside the base that decide what comes out, by what they do.
    """

    digest: str
    content: Any
    texts: Sequence[str]
    encoders: Mapping[str, EncoderId] = field(default_factory=dict)


@dataclass(frozen=True)
class FitResult:
    """What came of a recipe; the encoder itself is the bench's base, changed.

    Attributes:
        rows: Scores by epoch, the first before training.
        kept: The step whose weights the base now has; 0 if training made none better, and the base
            is to be published as it was.
        facts: What the card says of the training, by heading.
        figures: Numbers for `train.json`.
        files: The content of files to lie beside the encoder, by name.
        speed: Texts trained on in a second.
        trained_on: Which texts, for the card; None: the task's sources.
    """

    rows: Sequence[Row]
    kept: int
    facts: Mapping[str, str]
    figures: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    speed: float | None = None
    trained_on: str | None = None


@dataclass(frozen=True)
class Recipe(Parameters):
    """A way of training: its parameters are its fields, and its steps the methods.

    `read` says what it trains on, `load` checks that and all else, `prepare` does what may take
    long or fail before anything is written, `fit` trains. A recipe is a module of its own and a
    line in `RECIPES`; nothing heavy is imported there but inside the methods.
    """

    family: ClassVar[str] = "recipe"
    version: ClassVar[int] = 2
    """Raised whenever the code gives the same parameters other weights."""
    sources: ClassVar[str]
    """Whose it is, for the card."""
    tags: ClassVar[tuple[str, ...]] = ()
    """What the card is to be found by."""
    needs: ClassVar[Mapping[str, str]] = {}
    """The packages that it needs beside the usual ones, and what for."""
    extra: ClassVar[str] = "train"
    """The extra of polarity-bench that brings them."""
    several: ClassVar[bool] = False
    """Whether several processes may train together."""

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:  # noqa: ARG003
        """Return which parameters have no effect beside these values, and what to do about it."""
        return {}

    def check_used(self, given: Iterable[str]) -> None:
        """Refuse parameters that have no effect.

        Raises:
            InputError: If one of those given has none.
        """
        unused = self.unused(vars(self))
        for name in given:
            if name in unused:
                raise InputError(f"`{name}` {getattr(self, name)}: it has no effect {unused[name]}")

    @property
    def title(self) -> str:
        """What a run is called in its figure."""
        return self.name

    @property
    def gathers(self) -> bool:
        """Whether the loss is computed over the batches of several processes, as over one."""
        return False

    @property
    def hold_out(self) -> tuple[int | None, int]:
        """How many rows choose the checkpoint, see `load_training_data`, and the draw's seed."""
        return 0, 0

    def check(self) -> None:
        """Refuse to begin without the packages, or in more processes than it can use."""
        if n_processes() > 1 and not self.several:
            raise InputError(
                f"the recipe {self.name!r} trains in one process, {n_processes()} were started: "
                "run it without torchrun"
            )
        check_packages(f"the recipe {self.name!r}", self.needs, self.extra)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:  # noqa: ARG002
        """About how many texts go through the encoder to train it, for an estimate of time.

        Args:
            n_rows: Of the task's training data.
            access: Where other data may come from.
        """
        return 0

    def read(
        self,
        data: TrainingData,
        access: DataAccess,  # noqa: ARG002
        task_dir: Path | None,  # noqa: ARG002
    ) -> Inputs:
        """Read or draw what it trains on: the pool, by default.

        Nothing but the parameters and the data may decide it, so that whoever has the encoder and
        the data can tell what it has seen.
        """
        return Inputs(data.pool.digest, data.pool, data.pool.texts)

    def beside(
        self,
        access: DataAccess,  # noqa: ARG002
        task_dir: Path | None,  # noqa: ARG002
        options: EncoderOptions,  # noqa: ARG002
    ) -> Mapping[str, Callable[[], str]]:
        """Say what it learns from beside the task's rows and the base, by name.

        Returns:
            What returns a digest of each, or raises an InputError where it cannot be had.
        """
        return {}

    def load(self, bench: TrainingContext) -> Inputs:
        """Load all that decides what comes out beside the base, and check that it can be used."""
        return self.read(bench.data, bench.job.access(), bench.job.task_dir)

    def prepare(self, bench: TrainingContext, inputs: Inputs) -> Any:  # noqa: ARG002
        """Make what `fit` is given of the inputs; nothing is written yet."""
        return inputs.content

    def judge(self, bench: TrainingContext) -> EpochScorer:
        """Return what scores the encoder before and after training."""
        from polarity_bench.training.epoch_scores import EpochScorer

        return EpochScorer(bench.data, bench.base, bench.embedder, bench.bar)

    def fit(self, bench: TrainingContext, examples: Any, judge: EpochScorer) -> FitResult:
        """Train the bench's base on what `prepare` made, judging it before and after."""
        raise NotImplementedError


def check_packages(who: str, needs: Mapping[str, str], extra: str) -> None:
    """Refuse to begin without these packages.

    Args:
        who: What needs them.
        needs: The packages, and what for.
        extra: The extra of polarity-bench that brings them.

    Raises:
        InputError: If one is not installed; says how to get it.
    """
    for package, what in needs.items():
        if find_spec(package) is None:
            raise InputError(f"{who} needs {package} for {what}; {how_to_install(extra)}")


LEAST_STEPS = 10
LEAST_SHARE = 0.1


def warn_of_schedule(n_steps: int, share: float, rate: float) -> None:
    """Warn if a schedule leaves no real step.

    Args:
        n_steps: Optimizer steps in all.
        share: The greatest share of the learning rate that one of them takes.
        rate: The learning rate asked for.
    """
    steps = "1 optimizer step" if n_steps == 1 else f"{n_steps:,} optimizer steps"
    if n_steps < LEAST_STEPS:
        why = (
            f"the run is too short to learn much: {steps}, fewer than {LEAST_STEPS}; use more "
            "examples or epochs, or smaller batches"
        )
    elif share < LEAST_SHARE:
        why = (
            f"the warm-up is too long for {steps}: the rate reaches {share * rate:.2g} at most, "
            f"{rate:g} was asked for; use less warm-up, or more examples or epochs"
        )
    else:
        return
    warnings.warn(why, ParameterWarning, stacklevel=4)
