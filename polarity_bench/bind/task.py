"""What a bound task is: what every kind of task offers, and what is asked of its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from polarity_bench.errors import InputError
from polarity_bench.protocols.classifiers import PRESETS, Preset
from polarity_bench.spec import TaskSpec
from polarity_bench.types import Embeddings, Score

Vectors = Callable[[Sequence[str]], Embeddings]
"""Gives the vectors of texts, in their order."""


@dataclass(frozen=True)
class Settings:
    """What is asked of the protocols.

    Attributes:
        ks: How many sources a polarity task scores; the task's own k by default.
        limit: Only so many queries of a polarity task.
        transfer: Protocol of the transfer and relatedness tasks, by its name in results.
        preset: Its parameters.
        workers: Processes that fit classifiers; no result depends on it.
    """

    ks: tuple[int, ...] = ()
    limit: int | None = None
    transfer: str = "senteval-sklearn"
    preset: Preset = field(default_factory=lambda: PRESETS["sklearn"])
    workers: int = 1

    def __post_init__(self) -> None:
        if any(k < 1 for k in self.ks):
            raise InputError(f"--k must be at least 1, got {min(self.ks)}")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1, got {self.limit}")


@dataclass(frozen=True)
class Scored:
    """What scoring a task gave.

    Attributes:
        scores: Scores by name.
        arrays: Values per query, sample or fold.
    """

    scores: Mapping[str, Score]
    arrays: Mapping[str, NDArray[Any]]


class BoundTask(Protocol):
    """A task with its data and its protocol."""

    @property
    def spec(self) -> TaskSpec:
        """The task."""

    @property
    def data_digest(self) -> str:
        """Digest of its texts and labels."""

    @property
    def texts(self) -> Sequence[str]:
        """Every text that is to be embedded, repeated or not."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and parameters of the protocol: what moves a number beside the data."""

    @property
    def experiment(self) -> str:
        """What is asked differently from the task's defaults."""

    @property
    def main_score(self) -> str:
        """The name of the main score."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many texts of which sort there are."""

    @property
    def uses_reference(self) -> bool:
        """Whether a score depends on the reference encoder."""

    def score(self, vectors: Vectors, reference: Vectors | None) -> Scored:
        """Score the vectors of the encoder under test, and of the reference if it is another."""
