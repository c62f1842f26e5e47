"""What a task is: what its file declares, what is asked of it, and what scoring it gives.

A kind of task has one home, a module of this package: the model of its file, how its data is
loaded, how it is scored, its columns in tables and its type in mteb. Everything else (embedding,
storing, tables, mteb) treats all kinds alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray
from pydantic import Field, StrictInt, StringConstraints

from polarity_bench.data.schema import FileRef, MtebName, Name, Strict, Url
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.senteval.presets import PRESETS, Preset
from polarity_bench.values import digest_of


@dataclass(frozen=True)
class Settings:
    """What is asked of the protocols.

    Attributes:
        ks: How many sources a polarity task scores; the task's own k by default.
        limit: For a quick look, only so many queries of a polarity task, or rows of each part of
            another; of every class no fewer than its folds need.
        transfer: Protocol and parameters of the transfer and relatedness tasks.
        workers: Processes that fit classifiers; no result depends on it.
    """

    ks: tuple[int, ...] = ()
    limit: int | None = None
    transfer: Preset = field(default_factory=lambda: PRESETS["sklearn"])
    workers: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        if any(k < 1 for k in self.ks):
            raise InputError(f"`ks` must be at least 1, got {min(self.ks)}")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"`limit` must be at least 1, got {self.limit}")
        if self.workers < 1:
            raise InputError(f"`workers` must be at least 1, got {self.workers}")


@dataclass(frozen=True)
class TaskScores:
    """What scoring a task gave: its scores, and the values per query, sample or fold."""

    scores: Mapping[ScoreKey, Score]
    arrays: Mapping[str, NDArray[Any]]


class TaskSpec(Strict):
    """What a task file declares, of any kind; `file` is where it was read from."""

    file: Path = Field(exclude=True)
    name: Name
    """What the task is called: lower-case letters, digits and hyphens."""
    kind: str
    """What is measured."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    """For people to read."""
    version: Annotated[StrictInt, Field(ge=1)] = 1
    """Raise it whenever a change moves a score: older results are made again then."""
    mteb_name: MtebName | None = None
    """The task's name in mteb and in result files, by default made from `name`."""
    description: str = ""
    """A sentence or two, for mteb."""
    languages: tuple[str, ...] = ("eng-Latn",)
    """ISO 639-3 and script of each language, as mteb writes them."""
    domains: tuple[str, ...] = ()
    """Where the texts are from, in mteb's words: `Reviews`, `News`, `Social`, ..."""
    date: tuple[str, str] | None = None
    """When the texts were written: first and last day."""
    licence: str | None = None
    """Of the data, as mteb writes it: `mit`, `cc-by-4.0`, `not specified`, ..."""
    homepage: Url | None = None
    """Of the data."""
    citation: str | None = None
    """BibTeX."""

    moving: ClassVar[tuple[str, ...]] = ()
    """The fields that move a number, beside kind and version."""
    heading: ClassVar[str] = ""
    """What a board calls tasks of this kind."""
    measure: ClassVar[str] = ""
    """What their main score is, in words."""
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = ()
    """Title and score of each column in the table of a suite."""
    ranks: ClassVar[bool] = False
    """Whether it retrieves, so that rows differ by k and by reference."""
    mteb_type: ClassVar[str] = ""
    mteb_prompt: ClassVar[str] = ""
    """What mteb's instruction models are told."""

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        return self.mteb_name or "".join(map(str.capitalize, self.name.split("-")))

    @property
    def main_score(self) -> ScoreKey:
        """The task's main score."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all in the file that moves a number."""
        values = self.model_dump(mode="json", include={"version", "kind", *self.moving})
        return digest_of(_what_moves(values))

    def references(self) -> list[FileRef]:
        """Return the files that the task reads."""
        raise NotImplementedError

    def load(self, access: DataAccess, settings: Settings) -> Task:
        """Load the task's data and check it.

        Raises:
            InputError: If data is missing or isn't what the task file declares, or the settings
                ask for what the task cannot do.
        """
        raise NotImplementedError


class Task(ABC):
    """A task with its data and what is asked of it.

    Attributes:
        spec: What its file declares.
    """

    spec: TaskSpec

    version: ClassVar[int] = 1
    """Of the protocol; raised whenever the code moves a score, so that older results are made
    again."""
    uses_reference: ClassVar[bool] = False
    """Whether a score depends on the reference encoder."""
    one_core: ClassVar[bool] = False
    """Whether scoring takes one core, however many there are."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """16 hexadecimal digits over its data."""

    @property
    @abstractmethod
    def texts(self) -> Sequence[str]:
        """Every text that is to be embedded, repeated or not."""

    @property
    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and parameters of the protocol: what moves a number beside the data."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """How many texts of which sort there are."""

    @abstractmethod
    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Score the vectors of the encoder under test, and of the reference if it is another."""

    @property
    def unseen_of(self) -> str | None:
        """The task of which this is the twin with sources that no encoder may be trained on."""
        return None

    @property
    def limit(self) -> int | None:
        """What it was cut to for a quick look; None where it is whole."""
        return None

    @property
    def variant(self) -> str:
        """What is asked differently from the task's defaults, beside a limit; '' if nothing is."""
        return ""

    @property
    def experiment(self) -> str:
        """What is asked differently from the task's defaults, '' if nothing is."""
        limited = "" if self.limit is None else f"limit_{self.limit}"
        return "__".join(filter(None, [self.variant, limited]))

    @property
    def main_score(self) -> ScoreKey:
        """The main score."""
        return self.spec.main_score

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[str | tuple[str, ...]]]:
        """The text of each row, or both of a pair, by part; nothing where a kind does not say."""
        return {}

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """Text, and what else is known, of all that values are stored of, in their order.

        Nothing where a kind does not say.
        """
        return ()

    def retrieved(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Yield what became of each query, in words; nothing where no text is retrieved."""
        return iter(())


_PLACES = {"url", "path"}
_UNSAID: Mapping[str, Any] = {"cut": None, "format": None, "header": []}
"""Keys that came later, as they are where a file does not say them: its digest stays."""


def _what_moves(value: Any) -> Any:
    """Leave out where a file lies, whose content has a checksum, and what is not said."""
    if not isinstance(value, dict):
        return value
    return {
        key: _what_moves(inner)
        for key, inner in value.items()
        if key not in _PLACES and not (key in _UNSAID and inner == _UNSAID[key])
    }
