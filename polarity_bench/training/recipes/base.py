"""The base class of recipes, with the types of its inputs and results.

`train` performs the steps that are the same for every recipe: it locks and claims the folder,
scores the encoder before and after training, and publishes it. A recipe defines its parameters, its
examples (`read`, `load`, `prepare`), its training (`fit`), and their description for the model
card.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from polarity_bench.errors import InputError, check_installed
from polarity_bench.progress import Bar, no_bar
from polarity_bench.training.parameters import Parameters, ParameterWarning
from polarity_bench.training.processes import n_processes

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.base import Encoder, EncoderId
    from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder
    from polarity_bench.tasks.labelled import LabelledTexts
    from polarity_bench.training.data import TrainingData
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.training.loops.classifier_training import FittedHead
    from polarity_bench.training.loops.descent import Steps
    from polarity_bench.training.objective import Objective
    from polarity_bench.training.run_folder import RunFolder

Examples = TypeVar("Examples", default=Any)

LAST_ROW = {"Checkpoint": "the final weights; the last row has their scores"}
"""Model card entry about the checkpoint, for recipes that publish the final weights."""


@dataclass(frozen=True)
class TrainingContext:
    """Inputs of a recipe.

    Attributes:
        folder: The run folder.
        base: The encoder to train; the recipe changes its weights.
        options: Options that the base was loaded with.
        data: The training pool, and the task to score on.
        embedder: Embedder for encoders that are not in training.
        access: Where to look for data.
        task_dir: Folder with the user's task files, if any.
        bar: Opens progress bars.
    """

    folder: RunFolder
    base: SentenceTransformerEncoder
    options: EncoderOptions
    data: TrainingData
    embedder: Embedder
    access: DataAccess
    task_dir: Path | None = None
    bar: Bar = no_bar

    @contextmanager
    def steps(self, n_steps: int) -> Iterator[Steps]:
        """Open the checkpoints and a progress bar for all optimizer steps of a run."""
        from polarity_bench.training.loops.descent import Checkpoints, Steps

        checkpoints = Checkpoints(self.folder.checkpoints)
        with self.bar(self.folder.titled(checkpoints.step), n_steps) as advance:
            share = 1 - checkpoints.step / n_steps
            yield Steps(checkpoints, advance, share, time.perf_counter())

    def fit_classifier(
        self,
        model: SentenceTransformer,
        given: LabelledTexts,
        objective: Objective,
        seed: int,
        **further: Any,
    ) -> tuple[FittedHead, float | None]:
        """Train a classifier on labelled texts, with checkpoints and a progress bar.

        Args:
            model: The encoder, prepared by `shape_encoder`.
            given: The training texts, without the base's prompt.
            objective: Losses and settings of the training.
            seed: Seed of the training.
            **further: Further arguments of `loops.classifier_training.fit_classifier`.

        Returns:
            The results, and the training speed in texts per second.
        """
        from polarity_bench.classifiers.tokens import tokenize
        from polarity_bench.training.loops.classifier_training import fit_classifier

        n_steps = objective.n_steps(len(given.texts))
        warn_of_schedule(n_steps, 1.0, objective.rate)
        rows = tokenize(model, given.texts, self.base.id.prompt or "")
        labels, classes = given.labels, given.classes
        with self.steps(n_steps) as steps:
            further |= {"seed": seed, "steps": steps}
            fitted = fit_classifier(model, rows, labels, classes, objective, **further)
            return fitted, steps.speed(steps.share * len(rows) * objective.epochs)


@dataclass(frozen=True)
class Inputs(Generic[Examples]):
    """Training data of a recipe.

    Attributes:
        digest: Digest of the training data, 16 hexadecimal digits.
        examples: The examples; `Recipe.prepare` may complete them.
        texts: All texts that the encoder is trained on.
        encoders: Other encoders that affect the result, by role.
        learnt_from: Names of the other encoders whose knowledge the result has, and the encoders.
            Their training texts count as training texts of the result.
    """

    digest: str
    examples: Examples
    texts: Sequence[str]
    encoders: Mapping[str, EncoderId] = field(default_factory=dict)
    learnt_from: Sequence[tuple[str, Encoder]] = ()


@dataclass(frozen=True)
class FitResult:
    """Result of a recipe. The trained encoder is the context's base, changed in place.

    Attributes:
        kept: Step of the base's current weights; 0 if training did not improve the base, which is
            then published unchanged.
        facts: Entries about the training for the model card, by heading.
        figures: Numbers and digests for `train.json`.
        files: Contents of files to store with the encoder, by name.
        speed: Training texts per second; None if unknown.
        trained_on: Description of the training texts for the card; None means the task's sources.
    """

    kept: int
    facts: Mapping[str, str]
    figures: Mapping[str, int | str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    speed: float | None = None
    trained_on: str | None = None


@dataclass(frozen=True)
class Recipe(Parameters, Generic[Examples]):
    """Base class of training methods. Fields are the parameters, and methods are the steps.

    `read` returns the training data. `load` calls `read` and checks all other inputs except the
    base. `prepare` completes the examples. This step may be slow or fail, so it runs before
    anything is written. `fit` trains.

    Each recipe has its own module or package and an entry in `RECIPES`. Slow imports belong inside
    methods, because the command line imports all recipes.
    """

    family: ClassVar[str] = "recipe"
    sources: ClassVar[str]
    """Credits for the model card."""
    tags: ClassVar[tuple[str, ...]] = ()
    """Tags for the model card, for searching on the hub."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Packages that the recipe needs, besides those that are always installed."""
    extra: ClassVar[str] = "train"
    """The extra of polarity-bench that installs the packages in `needs`."""
    several: ClassVar[bool] = False
    """Whether several processes can train together."""
    scores_first: ClassVar[bool] = True
    """Whether `train` scores the base before training; otherwise `fit` adds that row."""

    @property
    def title(self) -> str:
        """Name of the run in the title of its figure."""
        return self.name

    @property
    def gathers(self) -> bool:
        """Whether the loss is computed on the joined batches of several processes."""
        return False

    @property
    def hold_out(self) -> tuple[int | None, int]:
        """Number of held-out rows (see `load_training_data`), and the seed that draws them."""
        return 0, 0

    def check(self) -> None:
        """Check the installed packages and the number of processes.

        Raises:
            InputError: If a package is missing, or the recipe cannot train in several processes.
        """
        if n_processes() > 1 and not self.several:
            raise InputError(
                f"the recipe {self.name!r} must run in one process, got {n_processes()}; run it "
                "without torchrun"
            )
        check_installed(f"the recipe {self.name!r}", *self.needs, extra=self.extra)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Estimate the number of texts that the encoder processes in training.

        The estimate is used to predict the duration.

        Args:
            n_rows: Number of rows of the task's training data.
            access: Where to look for other data.
        """
        return 0

    def read(self, context: TrainingContext) -> Inputs[Examples]:
        """Read or draw the training data; by default, the whole pool.

        The result depends only on the parameters and the data.
        """
        pool: Any = context.data.pool
        return Inputs(pool.digest, pool, pool.texts)

    def additional_inputs(
        self, access: DataAccess, task_dir: Path | None, options: EncoderOptions
    ) -> Mapping[str, Callable[[], str]]:
        """Return the additional inputs, besides the task's rows and the base.

        Args:
            access: Where to look for data.
            task_dir: Folder with the user's task files, if any.
            options: Options that the base is loaded with.

        Returns:
            For each input, by name, a function that returns the digest of the input, or raises
            InputError if the input is not available.
        """
        return {}

    def load(self, context: TrainingContext) -> Inputs[Examples]:
        """Load and check all inputs that affect the result, except the base."""
        return self.read(context)

    def prepare(self, context: TrainingContext, examples: Examples) -> Examples:
        """Complete the examples for `fit`, before anything is written to the run folder."""
        return examples

    def fit(self, context: TrainingContext, examples: Examples, epochs: EpochScorer) -> FitResult:
        """Train the context's base on the examples, and add a row of scores after training.

        A recipe may also add rows after other epochs.
        """
        raise NotImplementedError


LEAST_STEPS = 10
LEAST_SHARE = 0.1


def warn_of_schedule(n_steps: int, share: float, rate: float) -> None:
    """Warn if a run has too few steps, or its warm-up never reaches a useful learning rate.

    Args:
        n_steps: Total number of optimizer steps.
        share: Highest learning rate of any step, divided by `rate`.
        rate: The requested maximum learning rate.
    """
    if n_steps < LEAST_STEPS:
        why = (
            f"the run is too short: expected at least {LEAST_STEPS} optimizer steps, got "
            f"{n_steps}; use more examples or epochs, or smaller batches"
        )
    elif share < LEAST_SHARE:
        why = (
            f"the warm-up is too long for {n_steps:,} optimizer steps: the learning rate reaches "
            f"at most {share * rate:.2g} instead of {rate:g}; use a shorter warm-up, or more "
            "examples or epochs"
        )
    else:
        return
    warnings.warn(why, ParameterWarning, stacklevel=4)
