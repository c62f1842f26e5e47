"""Items of a sweep: evaluations, training runs and cross-validations, identified by digests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import StrictInt

from polarity_bench.cross_validation.fold_results import VERSION, Experiment
from polarity_bench.cross_validation.methods import Method
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import reworded
from polarity_bench.tasks.catalogue import choose_task, choose_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.training.job import Job
from polarity_bench.validation import Strict, validated
from polarity_bench.values import digest_of

DIGITS = 12
"""Number of hexadecimal digits of an item's digest."""

DIVISION = ("rows", "folds", "sample", "seeds")
"""Settings of a grid that control how the rows of a task are divided into folds."""


@dataclass(frozen=True)
class Setup:
    """Settings of a sweep that come from the command line, not from the grid.

    Attributes:
        output: Folder of the sweep. Trained encoders are stored in its subfolder `runs`.
        options: Options for loading encoders. The grid may override some of them.
        data_dir: Folder with the user's data; None uses the default.
        task_dir: Folder with the user's own task files; None if there is none.
        store: Whether embeddings are cached on disk.
        driver: Identifier of the process that runs the sweep. An item fails if worker processes of
            one driver are killed several times while they run the item.
        argv: Command line to store in results. None stores the command line of the process that
            creates the result.
    """

    output: Path
    options: EncoderOptions
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = True
    driver: str = ""
    argv: Sequence[str] | None = None

    def with_new_driver(self) -> Setup:
        """Return a copy with the identifier of a new driver."""
        return replace(self, driver=uuid.uuid4().hex[:DIGITS])

    def access(self) -> DataAccess:
        """Return the data sources for this process, from this setup and the environment."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)


class LoadingSettings(Strict):
    """Settings of a grid that control how an encoder is loaded."""

    prompt: str | None = None
    revision: str | None = None
    max_tokens: StrictInt | None = None


OPTIONS = tuple(LoadingSettings.model_fields)
"""Names of the loading options that a grid may set."""


def loading_of(options: EncoderOptions) -> list[Any]:
    """Return the values of the loading options that a grid may set."""
    return [getattr(options, name) for name in OPTIONS]


@dataclass(frozen=True)
class GridContext:
    """Context in which the settings of a grid are resolved.

    Attributes:
        setup: Folders and loading options.
        folder: Folder of the grid's file. Paths in the grid are relative to this folder.
        tasks: All known tasks, by name.
    """

    setup: Setup
    folder: Path
    tasks: Mapping[str, TaskSpec]

    def task_names(self, key: str, **chosen: Any) -> list[str]:
        """Return the canonical names of the tasks that a setting selects.

        Args:
            key: Name of the setting, for errors.
            **chosen: Arguments for `choose_tasks`.

        Raises:
            InputError: If a task or a suite is unknown; the message names the setting.
        """
        with reworded(f"`{key}`: "):
            return [spec.name for spec in choose_tasks(self.tasks, **chosen)]

    def task_name(self, name: str) -> str:
        """Return the canonical name of one task.

        Raises:
            InputError: If the task is unknown, or names several tasks of mteb.
        """
        with reworded("`task`: "):
            return choose_task(self.tasks, name).name

    def pop_options(self, given: dict[str, Any]) -> EncoderOptions:
        """Remove the loading options from the settings, and return the resulting options.

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
        model: Name or folder of the encoder.
        options: Options for loading the encoder.
        tasks: Names of the tasks.
        protocols: Settings of the tasks' protocols.
        given: Protocol settings as written in the grid.
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
        """Name of the item: the encoder, its prompt and the protocol settings."""
        prompt = "" if self.options.prompt is None else f", prompt {self.options.prompt!r}"
        protocols = "".join(f", {key} {value}" for key, value in self.given.items())
        return f"{self.model} as it is{prompt}{protocols}"

    @cached_property
    def digest(self) -> str:
        """Digest of the settings that determine the results."""
        parts: list[Any] = ["evaluate", self.model, loading_of(self.options), list(self.tasks)]
        return digest_of([*parts, *([dict(self.given)] if self.given else [])])[:DIGITS]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the evaluation as written in the grid."""
        return {"model": self.model, **self.given}


@dataclass(frozen=True)
class Training:
    """A training run, followed by the evaluation of the trained encoder.

    Attributes:
        job: Recipe, task, base and folder of the training run.
        tasks: Names of the tasks on which the trained encoder is evaluated.
        name: Settings that distinguish the run from the other training runs in the grid.
        settings: Settings of the run as written in the grid.
        digest: Digest of the settings that determine the results.
        base: Evaluation of the base encoder.
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
        """Name or folder of the base encoder."""
        return self.job.model

    @property
    def options(self) -> EncoderOptions:
        """Options for loading the base encoder."""
        return self.job.options

    @property
    def task(self) -> str:
        """Name of the task that the run trains on."""
        return self.job.task

    @property
    def after(self) -> str | None:
        """Digest of the item that must be run first: the evaluation of the base."""
        return None if self.base is None else self.base.digest


@dataclass(frozen=True)
class CrossValidation:
    """Cross-validation of classifiers on an encoder and the rows of a task.

    Attributes:
        method: Method that trains the classifiers.
        protocol: Division of the rows into training rows and test rows of each fold.
        task: Name of the transfer or polarity task that provides the rows.
        model: Name or folder of the encoder.
        options: Options for loading the encoder.
        name: Settings that distinguish the cross-validation from the others in the grid.
        settings: Settings as written in the grid, together with those of the protocol.
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
        """Digest of the settings that determine the results."""
        method, protocol = self.method.to_dict("moves"), self.protocol.spec()
        how = [VERSION, self.task, self.model, loading_of(self.options), method, protocol]
        return digest_of(["cross-validate", *how])[:DIGITS]

    @property
    def tasks(self) -> Sequence[str]:
        """Name of the task, as a list with one element."""
        return [self.task]

    def data(self, setup: Setup) -> LabelledTexts:
        """Load the rows of the task."""
        return LabelledTexts.of(self.task, setup.access(), setup.task_dir)

    def experiment(self, data: LabelledTexts) -> Experiment:
        """Return the experiment on the rows of the task, as the command `fewshot` runs it."""
        return Experiment(self.method, data, self.protocol, self.model, self.options)


Item = Training | Evaluation | CrossValidation
