"""Base classes of tasks: the task file, the protocol settings, the task and its scores.

Each task type is one module of this package. It defines the model of the task file, how the data
is loaded and scored, the columns in tables and the task type in mteb. All other code (embedding,
storage, tables, mteb) treats all task types alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from numpy.typing import NDArray
from pydantic import Field, StrictInt, StringConstraints

from polarity_bench.data.schema import FileRef, MtebName, Name, Url
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.validation import Strict
from polarity_bench.values import digest_of

OfType = TypeVar("OfType")


@dataclass(frozen=True)
class Settings:
    """Settings of the protocols.

    Attributes:
        ks: Numbers of sources at which a polarity task is scored; the task's own k by default.
        limit: Number of queries of a polarity task, or of rows of each part of another task, to
            use for a quick look. Every class keeps at least as many rows as its folds need.
        workers: Number of processes that fit classifiers; results do not depend on it.
        of_types: Settings that single task types bring, such as the `Preset` of transfer tasks.
    """

    ks: tuple[int, ...] = ()
    limit: int | None = None
    workers: int = 1
    of_types: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        changed = tuple(settings for settings in self.of_types if settings != type(settings)())
        object.__setattr__(self, "of_types", changed)  # default settings equal missing ones
        given = {"ks": min(self.ks, default=1), "limit": self.limit, "workers": self.workers}
        for name, value in given.items():
            if value is not None and value < 1:
                raise InputError(f"`{name}` must be at least 1, got {value}")

    def of(self, kind: type[OfType]) -> OfType:
        """Return the settings of this class, or its defaults if there are none."""
        return next((given for given in self.of_types if isinstance(given, kind)), None) or kind()


@dataclass(frozen=True)
class TaskScores:
    """The scores of an encoder on a task, and its values per query, sample or fold."""

    scores: Mapping[ScoreKey, Score]
    arrays: Mapping[str, NDArray[Any]]


class TaskSpec(Strict):
    """The content of a task file of any type; `file` is the path that it was read from."""

    file: Path = Field(exclude=True)
    name: Name
    """Name of the task: lower-case letters, digits and hyphens."""
    kind: str
    """Type of the task."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    """Title for people to read."""
    version: Annotated[StrictInt, Field(ge=1)] = 1
    """Version; raise it whenever a change moves a score, so that results are recomputed."""
    mteb_name: MtebName | None = None
    """Name of the task in mteb and in result files; made from `name` by default."""
    description: str = ""
    """One or two sentences, for mteb."""
    languages: tuple[str, ...] = ("eng-Latn",)
    """ISO 639-3 and script of each language, as mteb writes them."""
    domains: tuple[str, ...] = ()
    """Domains of the texts, in mteb's words: `Reviews`, `News`, `Social`, ..."""
    date: tuple[str, str] | None = None
    """First and last day on which the texts were written."""
    licence: str | None = None
    """Licence of the data, as mteb writes it: `mit`, `cc-by-4.0`, `not specified`, ..."""
    homepage: Url | None = None
    """Home page of the data."""
    citation: str | None = None
    """BibTeX entry of the data."""

    moving: ClassVar[tuple[str, ...]] = ()
    """The fields that affect scores, besides kind and version."""
    heading: ClassVar[str] = ""
    """The heading of this task type on a board."""
    measure: ClassVar[str] = ""
    """The name of the main score, for people to read."""
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = ()
    """Title and score of each column in the table of a suite."""
    ranks: ClassVar[bool] = False
    """Whether tasks of this type retrieve, so that rows differ by k and by reference encoder."""
    mteb_type: ClassVar[str] = ""
    mteb_prompt: ClassVar[str] = ""
    """The instruction for mteb's instruction models."""

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        return self.mteb_name or "".join(map(str.capitalize, self.name.split("-")))

    @property
    def summary(self) -> str:
        """Title, numbers of rows and languages, in one line."""
        parts: Mapping[str, Any] = getattr(self, "files", None) or getattr(self, "splits", {})
        rows = [f"{part.rows:,} rows of {name}" for name, part in parts.items() if part.rows]
        texts = [text for text in rows if not text.endswith("-scores")]  # as many as their texts
        return "; ".join([self.title, ", ".join(texts), ", ".join(self.languages)])

    @property
    def main_score(self) -> ScoreKey:
        """The task's main score."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Digest of all fields of the file that affect scores, as 16 hexadecimal digits."""
        values = self.model_dump(mode="json", include={"version", "kind", *self.moving})
        return digest_of(_what_moves(values))

    def references(self) -> list[FileRef]:
        """Return the files that the task reads."""
        raise NotImplementedError

    def load(self, access: DataAccess, settings: Settings) -> Task:
        """Load the task's data and check it.

        Raises:
            InputError: If data is missing or does not match the task file, or the task does not
                support the settings.
        """
        raise NotImplementedError


class Task(ABC):
    """A task with its data and its settings.

    Attributes:
        spec: The content of the task file.
    """

    spec: TaskSpec

    version: ClassVar[int] = 1
    """Version of the protocol. It is raised whenever a change of the code changes a score, so that
    older results are recomputed."""
    uses_reference: ClassVar[bool] = False
    """Whether a score depends on the reference encoder."""
    one_core: ClassVar[bool] = False
    """Whether scoring uses a single core, even if more are available."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Digest of the task's data, as 16 hexadecimal digits."""

    @property
    @abstractmethod
    def texts(self) -> Sequence[str]:
        """All texts to embed; they may contain duplicates."""

    @property
    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and parameters of the protocol: all that affects scores besides data."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Number of texts of each sort, such as sources and queries."""

    @abstractmethod
    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Score the encoder under test.

        Args:
            embedded: The task's texts, embedded by the encoder under test.
            reference: The texts embedded by the reference encoder; None if the reference is the
                encoder under test.
        """

    @property
    def unseen_of(self) -> str | None:
        """Name of the original task, if this is a copy with sources that are never trained on."""
        return None

    @property
    def limit(self) -> int | None:
        """The limit of a quick look; None if the task is complete."""
        return None

    @property
    def variant(self) -> str:
        """The settings that differ from the task's defaults, except a limit; '' if none do."""
        return ""

    @property
    def experiment(self) -> str:
        """The settings that differ from the task's defaults, with a limit; '' if none do."""
        limited = "" if self.limit is None else f"limit_{self.limit}"
        return "__".join(filter(None, [self.variant, limited]))

    @property
    def main_score(self) -> ScoreKey:
        """The main score."""
        return self.spec.main_score

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[str | tuple[str, ...]]]:
        """The text of each row, or both texts of a pair, by part.

        The mapping is empty if the task type does not define it.
        """
        return {}

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """The items whose values a result stores, in the same order: text, label and the like.

        The sequence is empty if the task type does not define it.
        """
        return ()

    def retrieved(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Yield each query with its retrieved texts; nothing if the task type does not retrieve."""
        return iter(())


_PLACES = {"url", "path"}
_UNSAID: Mapping[str, Any] = {"cut": None, "format": None, "header": []}
"""Defaults of keys that were added later. They are left out of digests, so that the digests of
files without these keys did not change."""


def _what_moves(value: Any) -> Any:
    """Leave out the locations of files, whose content has a checksum, and the unset newer keys."""
    if not isinstance(value, dict):
        return value
    return {
        key: _what_moves(inner)
        for key, inner in value.items()
        if key not in _PLACES and not (key in _UNSAID and inner == _UNSAID[key])
    }
