"""Items of a sweep: evaluations, training runs and cross-validations, identified by digests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import StrictInt

from polarity_bench.cross_validation.experiment import VERSION, Experiment
from polarity_bench.cross_validation.methods import Method
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import choose_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.training.job import Job
from polarity_bench.validation import Strict, validated
from polarity_bench.values import digest_of

DIGITS = 12

DIVISION = ("rows", "folds", "sample", "seeds")
"""The settings of a grid that control how the rows of a task are divided into folds."""


@dataclass(frozen=True)
class Setup:
    """Settings of a sweep that its user chooses, not its grid.

    Attributes:
        output: Folder of the sweep; its `runs` holds the trained encoders.
        options: How encoders are loaded; the grid may override some options.
        driver: Identifies the process that runs the sweep. An item fails if one driver has lost it
            several times.
        argv: The user's command line, stored in results that worker processes make. None stores
            the command line of the process itself.
    """

    output: Path
    options: EncoderOptions
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = True
    driver: str = ""
    argv: Sequence[str] | None = None

    def by_a_new_driver(self) -> Setup:
        """Return a copy with a new driver, which has not lost any item yet."""
        return replace(self, driver=uuid.uuid4().hex[:DIGITS])

    def access(self) -> DataAccess:
        """Return the sources of data that are available in this process."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)


class LoadingSettings(Strict):
    """The settings of a grid that load an encoder."""

    prompt: str | None = None
    revision: str | None = None
    max_tokens: StrictInt | None = None


OPTIONS = tuple(LoadingSettings.model_fields)


def loading_of(options: EncoderOptions) -> list[Any]:
    """Return the options that a grid may set."""
    return [getattr(options, name) for name in OPTIONS]


@dataclass(frozen=True)
class GridContext:
    """Where and how the settings of a grid are resolved.

    Attributes:
        folder: Folder of the grid's file, to which paths are relative.
        tasks: All known tasks.
    """

    setup: Setup
    folder: Path
    tasks: Mapping[str, TaskSpec]

    def task_names(self, key: str, **chosen: Any) -> list[str]:
        """Return the canonical names of tasks that a setting chooses, see `choose_tasks`.

        Raises:
            InputError: If a task or a suite is unknown; names the setting.
        """
        try:
            return [spec.name for spec in choose_tasks(self.tasks, **chosen)]
        except InputError as error:
            raise InputError(f"`{key}`: {error}") from error

    def pop_options(self, given: dict[str, Any]) -> EncoderOptions:
        """Remove the options of loading the model from the settings, and return them.

        Raises:
            InputError: If an option has the wrong type.
        """
        options = {name: given.pop(name) for name in OPTIONS if name in given}
        changed = validated(LoadingSettings, options).model_dump(exclude_unset=True)
        return replace(self.setup.options, **changed)


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of an encoder without training.

    Attributes:
        protocols: Settings of the tasks' protocols.
        given: The protocol settings that the grid contains.
    """

    model: str
    options: EncoderOptions
    tasks: Sequence[str]
    protocols: Settings = field(default_factory=Settings)
    given: Mapping[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "evaluation"
    task: ClassVar[str] = ""
    after: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """The encoder, with its prompt and its protocol settings."""
        prompt = "" if self.options.prompt is None else f", prompt {self.options.prompt!r}"
        protocols = "".join(f", {key} {value}" for key, value in self.given.items())
        return f"{self.model} as it is{prompt}{protocols}"

    @cached_property
    def digest(self) -> str:
        """Digest of everything that determines the results."""
        parts: list[Any] = ["evaluate", self.model, loading_of(self.options), list(self.tasks)]
        return digest_of([*parts, *([dict(self.given)] if self.given else [])])[:DIGITS]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in the grid."""
        return {"model": self.model, **self.given}


@dataclass(frozen=True)
class Training:
    """A training run, followed by the evaluation of the trained encoder.

    Attributes:
        job: How to train, and the folder of the run.
        tasks: Tasks of the evaluation.
        name: The settings that distinguish the run from the others in the grid.
        settings: The settings in the grid.
        digest: Digest of everything that determines the results.
        base: The evaluation of its base.
    """

    job: Job
    tasks: Sequence[str]
    name: str
    settings: Mapping[str, Any]
    digest: str
    base: Evaluation | None = None

    kind: ClassVar[str] = "training"

    @property
    def model(self) -> str:
        """The base."""
        return self.job.model

    @property
    def options(self) -> EncoderOptions:
        """How to load the base."""
        return self.job.options

    @property
    def task(self) -> str:
        """The task that the run trains on."""
        return self.job.task

    @property
    def after(self) -> str | None:
        """The digest of the item that must be made first: the evaluation of the base."""
        return None if self.base is None else self.base.digest


@dataclass(frozen=True)
class CrossValidation:
    """Cross-validation of classifiers on an encoder and the rows of a task.

    Attributes:
        method: How the classifiers are trained.
        protocol: The training rows and test rows of each fold.
        task: A transfer or polarity task, which provides the rows.
        options: How to load the encoder.
        name: The settings that distinguish the cross-validation from the others in the grid.
        settings: The settings in the grid, with those of the protocol.
    """

    method: Method
    protocol: Protocol
    task: str
    model: str
    options: EncoderOptions
    name: str
    settings: Mapping[str, Any]

    kind: ClassVar[str] = "cross-validation"
    after: ClassVar[str | None] = None

    @cached_property
    def digest(self) -> str:
        """Digest of everything that determines the results."""
        method, protocol = self.method.to_dict("moves"), self.protocol.spec()
        how = [VERSION, self.task, self.model, loading_of(self.options), method, protocol]
        return digest_of(["cross-validate", *how])[:DIGITS]

    @property
    def tasks(self) -> Sequence[str]:
        """The task, as a list."""
        return [self.task]

    def data(self, setup: Setup) -> LabelledTexts:
        """Load the rows of the task."""
        return LabelledTexts.of(self.task, setup.access(), setup.task_dir)

    def experiment(self, data: LabelledTexts) -> Experiment:
        """Return the experiment on these rows, as the command `fewshot` runs it."""
        return Experiment(self.method, data, self.protocol, self.model, self.options)


Item = Training | Evaluation | CrossValidation
