"""Base classes of task types: task file, protocol settings, task and scores.

Each task type is one module or folder of this package. It defines the keys of the task file, the
loading and scoring of data, the columns of tables, and the task type in mteb. Embedding, storage,
tables and the mteb integration treat all task types in the same way.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StrictInt, StringConstraints

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import Domain, FileRef, Language, MtebName, Name, Url
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import check_at_least
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.validation import Strict
from polarity_bench.values import BoolArray, digest_of

OfType = TypeVar("OfType")


@dataclass(frozen=True)
class Settings:
    """Protocol settings of a run.

    Attributes:
        ks: Values of k (number of retrieved sources) for polarity tasks; by default, the k of the
            task file.
        limit: Number of queries of a polarity task, or of rows per part of another task, for a
            quick look; None uses all. Each class keeps at least as many rows as the folds need.
        workers: Number of processes that fit classifiers. The number does not affect scores.
        of_types: Settings of individual task types, such as the `Preset` of transfer tasks.
    """

    ks: tuple[int, ...] = ()
    limit: int | None = None
    workers: int = 1
    of_types: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        changed = tuple(settings for settings in self.of_types if settings != type(settings)())
        # Default settings are removed, so that they compare equal to missing settings.
        object.__setattr__(self, "of_types", changed)
        least_k = min(self.ks, default=None)
        check_at_least(1, ks=least_k, limit=self.limit, workers=self.workers)

    def of(self, kind: type[OfType]) -> OfType:
        """Return the settings of class `kind`, or its defaults if they are not set."""
        return next((value for value in self.of_types if isinstance(value, kind)), None) or kind()


@dataclass(frozen=True)
class TaskScores:
    """Scores of one encoder on one task.

    Attributes:
        scores: Scores, keyed by metric.
        arrays: Values per query, sample or fold, keyed by name.
    """

    scores: Mapping[ScoreKey, Score]
    arrays: Mapping[str, NDArray[Any]]


class TaskSpec(Strict):
    """Content of a task file, with the keys that all task types share.

    Attributes:
        file: Path of the task file.
    """

    file: Path = Field(exclude=True)
    name: Name
    """Name of the task: lower-case letters, digits and hyphens."""
    kind: str
    """Type of the task."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    """Title of the task in tables and on pages."""
    version: Annotated[StrictInt, Field(ge=1)] = 1
    """Version of the task. Raise it if a change affects scores, so that results are recomputed."""
    mteb_name: MtebName | None = None
    """Name of the task in mteb and in result files; derived from `name` by default."""
    description: str = ""
    """Description of the task in one or two sentences."""
    languages: tuple[Language, ...] = ("eng-Latn",)
    """Languages of the texts, in mteb's notation: ISO 639-3 code and script, such as `eng-Latn`."""
    domains: tuple[Domain, ...] = ()
    """Domains of the texts, as mteb names them: `Reviews`, `News`, `Social`, ..."""
    date: tuple[dt.date, dt.date] | None = None
    """Dates of the oldest and the newest text: `["2013-01-01", "2018-12-31"]`."""
    licence: str | None = None
    """Licence of the data, as mteb names it: `mit`, `cc-by-4.0`, `not specified`, ..."""
    homepage: Url | None = None
    """URL of the data set's home page."""
    citation: str | None = None
    """BibTeX entries to cite for the data."""

    moving: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that affect scores, in addition to `kind` and `version`."""
    heading: ClassVar[str] = ""
    """Heading of this task type on a board."""
    measure: ClassVar[str] = ""
    """Name of the main score in tables."""
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = ()
    """Title and score of each column in the table of a suite."""
    has_k: ClassVar[bool] = False
    """Whether scores are of the k nearest sources, under a reference: boards rank these tasks."""
    has_subsets: ClassVar[bool] = False
    """Whether the counts of a result are the sizes of subsets with scores of their own."""
    retrieves: ClassVar[bool] = False
    """Whether queries retrieve sources, so strengths may be negative and vectors quantized."""
    mteb_type: ClassVar[str] = ""
    """Name of the corresponding task type in mteb."""
    mteb_prompt: ClassVar[str] = ""
    """Instruction for mteb's instruction-tuned models."""

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the names of the stored values per query or row that make up a score.

        The score is the mean of a single array; the share of equal values of `prediction` and
        `label`; or a correlation of the first array with `gold`. () if the values are not stored.
        """
        return ()

    @property
    def result_name(self) -> str:
        """Name of the task in mteb and in result files."""
        return self.mteb_name or "".join(map(str.capitalize, self.name.split("-")))

    @property
    def is_named(self) -> bool:
        """Whether the task has a name such as `mteb:NAME` instead of a task file."""
        return ":" in self.name

    @property
    def summary(self) -> str:
        """One-line summary: title, number of rows of each file or split, and languages."""
        parts: Mapping[str, Any] = getattr(self, "files", None) or getattr(self, "splits", {})
        rows = [f"{part.rows:,} rows of {name}" for name, part in parts.items() if part.rows]
        # The score files of STS have as many rows as the text files.
        texts = [text for text in rows if not text.endswith("-scores")]
        return "; ".join(filter(None, [self.title, ", ".join(texts), ", ".join(self.languages)]))

    @property
    def main_score(self) -> ScoreKey:
        """Key of the task's main score; by default, the first column of tables."""
        return self.columns[0][1]

    @property
    def data_set(self) -> Mapping[str, Any] | None:
        """Facts about a public data set for the provenance of results; None for files."""
        return None

    @property
    def digest(self) -> str:
        """Digest of the fields that affect scores, as 16 hexadecimal digits."""
        values = self.model_dump(mode="json", include={"version", "kind", *self.moving})
        return digest_of(_scoring_values(values))

    def references(self) -> list[FileRef]:
        """Return all files that the task declares."""
        raise NotImplementedError

    def load(self, access: DataAccess, settings: Settings) -> Task:
        """Load the task with its data, and check the data.

        Args:
            access: Permitted sources of data.
            settings: Settings of the protocol.

        Raises:
            InputError: If data is missing or does not match the task file, or the settings are not
                valid for the task.
        """
        raise NotImplementedError


class Task(ABC):
    """A task with its data and its settings.

    Attributes:
        spec: The content of the task file.
    """

    spec: TaskSpec

    version: ClassVar[int] = 1
    """Version of the protocol. Raise it with each code change that affects scores, so that older
    results are recomputed."""
    uses_reference: ClassVar[bool] = False
    """Whether any score depends on the reference encoder."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Digest of the task's data, as 16 hexadecimal digits."""

    @property
    @abstractmethod
    def texts(self) -> Sequence[str]:
        """All texts to embed, possibly with duplicates."""

    @property
    def texts_by_side(self) -> tuple[Sequence[str], Sequence[str]]:
        """Texts that are queries, and all other texts; a text may be both."""
        return (), self.texts

    @property
    @abstractmethod
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and parameters of the protocol: all settings that affect scores."""

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Number of texts of each part, such as sources and queries."""

    @abstractmethod
    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Score the encoder under test.

        Args:
            embedded: Texts of the task, embedded by the encoder under test.
            reference: Texts of the task, embedded by the reference encoder; None if the encoder
                under test is the reference.
        """

    def for_one_core(self, n_dimensions: int) -> Task | None:
        """Return the task for scoring on one core, beside other tasks.

        Args:
            n_dimensions: Number of dimensions of the vectors.

        Returns:
            The task, or None if it is to be scored on all cores.
        """
        return None

    def chance(self, scores: Mapping[ScoreKey, Score]) -> tuple[ScoreKey, float]:
        """Return a score and the value that it has by chance, 0 for the main score by default.

        Args:
            scores: Scores of an encoder on this task.
        """
        return self.main_score, 0.0

    def has_all(self, scores: Collection[ScoreKey]) -> bool:
        """Return whether stored scores include those of all installed metrics."""
        return True

    def score_unseen(
        self,
        arrays: Mapping[str, NDArray[Any]],
        seen: Mapping[str, BoolArray],
    ) -> Score | None:
        """Return the main score over the queries or test rows that are not training texts.

        Args:
            arrays: Values per query or row of a stored result.
            seen: Mask of the rows that were training texts, (n,), keyed by part.

        Returns:
            The score, which is NaN with fewer than two unseen rows; None if all are unseen, or if
            the type of task has no such score.
        """
        return None

    @property
    def unseen_of(self) -> str | None:
        """Name of the original task, if this task is a copy with unseen sources."""
        return None

    @property
    def limit(self) -> int | None:
        """Limit on the number of rows or queries, for a quick look; None if there is no limit."""
        return None

    @property
    def variant(self) -> str:
        """Name of the non-default settings, without the limit; '' if all settings are defaults."""
        return ""

    @property
    def experiment(self) -> str:
        """Name of the non-default settings, with the limit; '' if all settings are defaults."""
        limited = "" if self.limit is None else f"limit_{self.limit}"
        return "__".join(filter(None, [self.variant, limited]))

    @property
    def main_score(self) -> ScoreKey:
        """Key of the main score under these settings."""
        return self.spec.main_score

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[str | tuple[str, ...]]]:
        """Text or pair of texts of each row, keyed by part.

        The mapping is empty if the task type does not support it.
        """
        return {}

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """Text, label and other fields of each item, in the order of the stored values.

        The sequence is empty if the task type does not provide items.
        """
        return ()

    def retrieved(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
        """Yield each query with its retrieved sources; yield nothing for non-retrieval tasks.

        Args:
            arrays: Values per query of a stored result.
        """
        return iter(())


class RetrievalTask(Task):
    """A task whose queries retrieve sources.

    Attributes:
        source: The sources. If similarities tie, the earlier source ranks first.
        query: The queries.
    """

    source: Split
    query: Split

    @property
    def texts(self) -> Sequence[str]:
        """Texts of the sources, followed by texts of the queries."""
        return self.source.texts + self.query.texts

    @property
    def texts_by_side(self) -> tuple[Sequence[str], Sequence[str]]:
        """Texts of the queries and of the sources."""
        return self.query.texts, self.source.texts

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[str]]:
        """Texts of the sources and of the queries."""
        return {"sources": self.source.texts, "queries": self.query.texts}

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """Text, label and additional columns of each query."""
        return _as_rows(self.query)

    def retrieved(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
        """Yield each query with its scores and its retrieved sources.

        Args:
            arrays: Values per query of a stored result.

        Yields:
            Text, label and columns of the query, its `scores` by name (None if undefined), and
            `retrieved`: the sources in order of rank, with their similarity.
        """
        of_source = _as_rows(self.source)
        beside = ("retrieved_", "resampled_")
        named = {n: values for n, values in arrays.items() if not n.startswith(beside)}
        found = arrays["retrieved_index"], arrays["retrieved_similarity"]
        for i, (query, index, cosine) in enumerate(zip(_as_rows(self.query), *found, strict=True)):
            values = {name: float(array[i]) for name, array in named.items()}
            yield query | {
                "scores": {n: None if np.isnan(value) else value for n, value in values.items()},
                "retrieved": [
                    of_source[j] | {"similarity": float(c)}
                    for j, c in zip(index, cosine, strict=True)
                ],
            }


def _as_rows(split: Split) -> list[dict[str, str]]:
    columns = {"text": split.texts, "label": split.labels, **split.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_PLACES = {"url", "path"}
_UNSAID: Mapping[str, Any] = {
    "cut": None,
    "format": None,
    "header": [],
    "mteb": None,
    "n_queries": None,
    "git_sha1": None,
}
"""Defaults of keys that were added after the first digests were stored.

Digests skip keys with these values, so the digests of older task files remain valid."""


def _scoring_values(value: Any) -> Any:
    """Return only the values that affect scores.

    Locations of files are skipped, because a checksum identifies the content. Newer keys with their
    default values are skipped too.
    """
    if not isinstance(value, dict):
        return value
    return {
        key: _scoring_values(inner)
        for key, inner in value.items()
        if key not in _PLACES and not (key in _UNSAID and inner == _UNSAID[key])
    }
