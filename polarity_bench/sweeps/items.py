"""Items: what a sweep makes, each by itself, told apart by digits over all that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders import EncoderOptions
from polarity_bench.training.job import Job
from polarity_bench.types import digest_of

DIGITS = 12
OPTIONS = {"prompt": (str, "text"), "revision": (str, "text"), "max_tokens": (int, "a number")}
"""How an encoder is loaded, as far as a grid may say it, with the type of each."""


@dataclass(frozen=True)
class Setup:
    """What a grid leaves to who runs it.

    Attributes:
        output: Folder of the sweep; encoders are to lie in its `runs`.
        options: How encoders are loaded, but for what the grid says.
    """

    output: Path
    options: EncoderOptions
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = True

    def access(self) -> DataAccess:
        """Say where data may come from, here and now."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)


@dataclass(frozen=True)
class Evaluation:
    """An encoder to be evaluated as it is."""

    model: str
    options: EncoderOptions
    tasks: Sequence[str]

    kind: ClassVar[str] = "evaluation"
    after: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """The encoder."""
        prompt = "" if self.options.prompt is None else f", prompt {self.options.prompt!r}"
        return f"{self.model} as it is{prompt}"

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        options = [getattr(self.options, name) for name in OPTIONS]
        return digest_of(["evaluate", self.model, options, list(self.tasks)])[:DIGITS]

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the grid says of it."""
        return {"model": self.model}


@dataclass(frozen=True)
class Training:
    """An encoder to be trained, then evaluated.

    Attributes:
        job: How, and where it is to lie.
        tasks: What it is evaluated on.
        name: The settings that tell it from the others.
        settings: What the grid says of it.
    """

    job: Job
    tasks: Sequence[str]
    name: str
    settings: Mapping[str, Any]

    kind: ClassVar[str] = "training"

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        return digest_of([self.job.digest, list(self.tasks)])[:DIGITS]

    @property
    def base(self) -> Evaluation:
        """The evaluation of its base, by whose embeddings it is judged."""
        return Evaluation(self.job.model, self.job.options, self.tasks)

    @cached_property
    def after(self) -> str | None:
        """The digits of what is to be made before it."""
        return self.base.digest


Item = Training | Evaluation
