"""The interface of recipes: what a recipe provides, and what it gets.

`train` owns the steps that are the same for every recipe: it locks and claims the folder, scores
the encoder before and after training, and publishes it. A recipe owns its parameters, its examples
(`read`, `load`, `prepare`), its training (`fit`), and what the model card says about them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from polarity_bench.errors import InputError, how_to_install
from polarity_bench.training.parameters import Parameters, ParameterWarning
from polarity_bench.training.processes import n_processes

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.classifiers.tokens import TokenRows
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.base import EncoderId
    from polarity_bench.encoders.load import SentenceTransformerEncoder
    from polarity_bench.progress import Bar
    from polarity_bench.tasks.labelled import Text
    from polarity_bench.training.data import TrainingData
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.training.history import Row
    from polarity_bench.training.job import Job
    from polarity_bench.training.loops.descent import Steps
    from polarity_bench.training.objective import Objective
    from polarity_bench.training.run_folder import RunFolder

Examples = TypeVar("Examples", default=Any)

LAST_ROW = {"Checkpoint": "none was chosen; this folder has the weights of the last row"}
"""What the model card says about the checkpoint of a recipe that publishes the final weights."""


@dataclass(frozen=True)
class TrainingContext:
    """Inputs of a recipe; `base` is the encoder to train, which the recipe changes."""

    job: Job
    folder: RunFolder
    base: SentenceTransformerEncoder
    data: TrainingData
    embedder: Embedder
    bar: Bar

    @contextmanager
    def steps(self, n_steps: int) -> Iterator[Steps]:
        """Open a progress bar over all optimizer steps, which resume from the last checkpoint."""
        from polarity_bench.training.loops.descent import Checkpoints, Steps

        checkpoints = Checkpoints(self.folder.checkpoints)
        with self.bar(self.folder.titled(checkpoints.step), n_steps) as advance:
            share = 1 - checkpoints.step / n_steps
            yield Steps(checkpoints, advance, share, time.perf_counter())

    @contextmanager
    def steps_over(
        self, model: SentenceTransformer, texts: Sequence[Text], objective: Objective
    ) -> Iterator[tuple[TokenRows, Steps]]:
        """Tokenize the texts that a classifier is trained on, and open the bar over its steps."""
        from polarity_bench.classifiers.tokens import tokenize

        n_steps = objective.n_steps(len(texts))
        warn_of_schedule(n_steps, 1.0, objective.rate)
        rows = tokenize(model, texts, self.base.id.prompt or "")
        with self.steps(n_steps) as steps:
            yield rows, steps


@dataclass(frozen=True)
class Inputs(Generic[Examples]):
    """Training data of a recipe.

    Attributes:
        digest: 16 hexadecimal digits over the training data.
        examples: The examples, as far as they are made.
        texts: Every text that the recipe learns from.
        encoders: Encoders other than the base that affect the result, by their role.
    """

    digest: str
    examples: Examples
    texts: Sequence[str]
    encoders: Mapping[str, EncoderId] = field(default_factory=dict)


@dataclass(frozen=True)
class FitResult:
    """Result of a recipe. The trained encoder itself is the context's base, which was changed.

    Attributes:
        kept: The step whose weights the base now has; 0 if training brought no better ones, and the
            base is to be published unchanged.
        facts: What the model card says about the training, by heading.
        figures: Numbers for `train.json`.
        files: Contents of files to store with the encoder, by name.
        speed: Training texts per second.
        trained_on: The training texts in words, for the card; None means the task's sources.
    """

    kept: int
    facts: Mapping[str, str]
    figures: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    speed: float | None = None
    trained_on: str | None = None


class EpochLog:
    """The scores of an encoder in training, a row for each scored epoch.

    Args:
        judge: Scores the encoder.
        model: The encoder in training.
    """

    def __init__(self, judge: EpochScorer, model: SentenceTransformer) -> None:
        self.judge = judge
        self.rows: list[Row] = []
        self._model = model

    def add(
        self, epoch: int, step: int, loss: float | None = None, rate: float | None = None
    ) -> None:
        """Score the encoder as it is now, after these epochs and steps.

        Args:
            epoch: Number of epochs done; 0 before training.
            step: Number of optimizer steps done.
            loss: Mean loss of the last epoch.
            rate: Last learning rate.
        """
        begun = {"epoch": epoch, "step": step, "loss": loss, "learning_rate": rate}
        self.rows.append({**begun, **self.judge(self._model)})


@dataclass(frozen=True)
class Recipe(Parameters, Generic[Examples]):
    """A way of training: its fields are the parameters, its methods are the steps.

    `read` returns the training data. `load` checks it and everything else. `prepare` does what may
    take long or fail before anything is written. `fit` trains. Each recipe is a module of its own
    and an entry of `RECIPES`. The module imports nothing heavy except inside methods.
    """

    family: ClassVar[str] = "recipe"
    version: ClassVar[int] = 2
    """Increased whenever the code gives other weights for the same parameters."""
    sources: ClassVar[str]
    """Credits, for the card."""
    tags: ClassVar[tuple[str, ...]] = ()
    """Tags of the card, by which the encoder can be found."""
    needs: ClassVar[Mapping[str, str]] = {}
    """The additional packages that the recipe needs, with the purpose of each."""
    extra: ClassVar[str] = "train"
    """The extra of polarity-bench that installs them."""
    several: ClassVar[bool] = False
    """Whether several processes can train together."""
    scores_first: ClassVar[bool] = True
    """Whether `train` scores the base; if not, `fit` adds that row too."""

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the parameters without effect given these values, and what to do about each."""
        return {}

    def check_used(self, given: Iterable[str]) -> None:
        """Refuse parameters that have no effect.

        Raises:
            InputError: If one of the given parameters has no effect.
        """
        unused = self.unused(vars(self))
        for name in given:
            if name in unused:
                raise InputError(f"`{name}` {getattr(self, name)}: it has no effect {unused[name]}")

    @property
    def title(self) -> str:
        """Name of a run in its figure."""
        return self.name

    @property
    def gathers(self) -> bool:
        """Whether the loss is computed over the joined batches of several processes."""
        return False

    @property
    def hold_out(self) -> tuple[int | None, int]:
        """Number of held-out rows (see `load_training_data`), and the seed that draws them."""
        return 0, 0

    def check(self) -> None:
        """Check that the packages are installed and that the number of processes is allowed."""
        if n_processes() > 1 and not self.several:
            raise InputError(
                f"the recipe {self.name!r} trains in one process, {n_processes()} were started: "
                "run it without torchrun"
            )
        check_packages(f"the recipe {self.name!r}", self.needs, self.extra)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Estimate how many texts the encoder processes in training, to estimate the time.

        Args:
            n_rows: Number of rows of the task's training data.
            access: Where other data may come from.
        """
        return 0

    def read(
        self, data: TrainingData, access: DataAccess, task_dir: Path | None
    ) -> Inputs[Examples]:
        """Read or draw the training data: by default the pool.

        The result must depend only on the parameters and the data, so that anyone who has the
        encoder and the data can find out what the encoder has seen.
        """
        pool: Any = data.pool
        return Inputs(data.pool.digest, pool, data.pool.texts)

    def beside(self, job: Job) -> Mapping[str, Callable[[], str]]:
        """Return the inputs of a job other than the task's rows and the base, by name.

        Returns:
            For each input, a function that returns its digest, or raises InputError if the input is
            not available.
        """
        return {}

    def load(self, bench: TrainingContext) -> Inputs[Examples]:
        """Load and check everything but the base that affects the result."""
        return self.read(bench.data, bench.job.access(), bench.job.task_dir)

    def prepare(self, bench: TrainingContext, examples: Examples) -> Examples:
        """Complete the examples for `fit`; nothing is written yet."""
        return examples

    def fit(self, bench: TrainingContext, examples: Examples, epochs: EpochLog) -> FitResult:
        """Train the context's base on the examples, and add a row to the log after training.

        A recipe may add rows at other epochs too.
        """
        raise NotImplementedError


def check_packages(who: str, needs: Mapping[str, str], extra: str) -> None:
    """Check that these packages are installed.

    Args:
        who: What needs the packages.
        needs: The packages, and what each is needed for.
        extra: The extra of polarity-bench that installs them.

    Raises:
        InputError: If one is not installed; says how to install it.
    """
    for package, what in needs.items():
        if find_spec(package) is None:
            raise InputError(f"{who} needs {package} for {what}; {how_to_install(extra)}")


LEAST_STEPS = 10
LEAST_SHARE = 0.1


def warn_of_schedule(n_steps: int, share: float, rate: float) -> None:
    """Warn if a schedule leaves too few steps, or only steps with a low learning rate.

    Args:
        n_steps: Total number of optimizer steps.
        share: Greatest share of the learning rate that any step reaches.
        rate: The requested learning rate.
    """
    steps = "1 optimizer step" if n_steps == 1 else f"{n_steps:,} optimizer steps"
    if n_steps < LEAST_STEPS:
        why = (
            f"the run is too short to learn much: {steps}, fewer than {LEAST_STEPS}; use more "
            "examples or epochs, or smaller batches"
        )
    elif share < LEAST_SHARE:
        why = (
            f"the warm-up is too long for {steps}: the rate reaches at most {share * rate:.2g} "
            f"instead of {rate:g}; use less warm-up, or more examples or epochs"
        )
    else:
        return
    warnings.warn(why, ParameterWarning, stacklevel=4)
