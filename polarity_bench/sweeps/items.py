"""Items: what a sweep makes, each by itself, told apart by digits over all that decides it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from polarity_bench.cross_validation.experiment import VERSION, Experiment
from polarity_bench.cross_validation.methods import Method
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.job import Job
from polarity_bench.values import digest_of

DIGITS = 12
OPTIONS = {"prompt": (str, "text"), "revision": (str, "text"), "max_tokens": (int, "a number")}
"""How an encoder is loaded, as far as a grid may say it, with the type of each."""

DIVISION = ("rows", "folds", "sample", "seeds")
"""How a grid may have a task's rows divided."""


@dataclass(frozen=True)
class Setup:
    """What a grid leaves to who runs it.

    Attributes:
        output: Folder of the sweep; encoders are to lie in its `runs`.
        options: How encoders are loaded, but for what the grid says.
        driver: Who has it made: an item is given up when one driver has lost it several times.
        argv: The user's command line, for results made in processes that are told none; None is
            that of the process.
    """

    output: Path
    options: EncoderOptions
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = True
    driver: str = ""
    argv: Sequence[str] | None = None

    def by_a_new_driver(self) -> Setup:
        """Return it as that of a driver that has lost nothing yet."""
        return replace(self, driver=uuid.uuid4().hex[:DIGITS])

    def access(self) -> DataAccess:
        """Say where data may come from, here and now."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)


def options_of(given: dict[str, Any], setup: Setup) -> EncoderOptions:
    """Take out of the settings how the model is to be loaded.

    Raises:
        InputError: If it cannot be so.
    """
    own = {name: given.pop(name) for name in OPTIONS if name in given}
    for name, value in own.items():
        kind, wanted = OPTIONS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"`{name}` {value}: {wanted} is wanted")
    return replace(setup.options, **own)


@dataclass(frozen=True)
class Evaluation:
    """An encoder to be evaluated as it is.

    Attributes:
        protocols: What is asked of them.
        said: What of that the grid says.
    """

    model: str
    options: EncoderOptions
    tasks: Sequence[str]
    protocols: Settings = field(default_factory=Settings)
    said: Mapping[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "evaluation"
    after: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """The encoder."""
        prompt = "" if self.options.prompt is None else f", prompt {self.options.prompt!r}"
        asked = "".join(f", {key} {value}" for key, value in self.said.items())
        return f"{self.model} as it is{prompt}{asked}"

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        own: list[Any] = ["evaluate", self.model, _loading(self.options), list(self.tasks)]
        return digest_of([*own, *([dict(self.said)] if self.said else [])])[:DIGITS]

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the grid says of it."""
        return {"model": self.model, **self.said}


@dataclass(frozen=True)
class Training:
    """An encoder to be trained, then evaluated.

    Attributes:
        job: How, and where it is to lie.
        tasks: What it is evaluated on.
        name: The settings that tell it from the others.
        settings: What the grid says of it.
        digest: Digits over all that decides what comes out.
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
    def after(self) -> str | None:
        """The digits of what is to be made before it."""
        return None if self.base is None else self.base.digest


@dataclass(frozen=True)
class CrossValidation:
    """Classifiers to be made of an encoder and some rows of a task, and tested on the others.

    Attributes:
        method: How they are made.
        protocol: Which rows each fold learns from and is tested on.
        task: Whose rows, a transfer or polarity task.
        options: How to load the encoder.
        name: The settings that tell it from the others.
        settings: What the grid says of it, and its protocol.
        data_dir: Folder with data sets.
        task_dir: Folder with task files of the user's own.
    """

    method: Method
    protocol: Protocol
    task: str
    model: str
    options: EncoderOptions
    name: str
    settings: Mapping[str, Any]
    data_dir: Path | None = None
    task_dir: Path | None = None

    kind: ClassVar[str] = "cross-validation"
    after: ClassVar[str | None] = None

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        method, protocol = self.method.to_dict("moves"), self.protocol.said()
        how = [VERSION, self.task, self.model, _loading(self.options), method, protocol]
        return digest_of(["cross-validate", *how])[:DIGITS]

    @property
    def tasks(self) -> Sequence[str]:
        """Its task alone."""
        return [self.task]

    def data(self) -> LabelledTexts:
        """Load its rows."""
        access = DataAccess.from_environment(self.data_dir, self.options.offline)
        return LabelledTexts.of(self.task, access, self.task_dir)

    def experiment(self, data: LabelledTexts) -> Experiment:
        """Return it as what `fewshot` runs, over its rows."""
        return Experiment(self.method, data, self.protocol, self.model, self.options)


def _loading(options: EncoderOptions) -> list[Any]:
    return [getattr(options, name) for name in OPTIONS]


Item = Training | Evaluation | CrossValidation
