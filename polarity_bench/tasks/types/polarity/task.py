"""Polarity retrieval tasks: the task file and the task with its data.

A task has two splits, queries and sources. Each query retrieves the k nearest sources. P measures
whether they have the query's label, and S whether they are similar in meaning. This module reads
both splits, checks all counts and draws the sources. `scoring` computes the scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from polarity_bench.data.sampling import draw_balanced
from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import FileRef, FormatSpec, Name, SplitSpec
from polarity_bench.data.split import Split, load_split, split_of
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError, listed, reworded, warn
from polarity_bench.metrics.register import METRICS, metric_of
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey
from polarity_bench.tasks.types.base import RetrievalTask, Settings, TaskScores, TaskSpec
from polarity_bench.tasks.types.polarity.mteb_sets import (
    MtebSet,
    find_set,
    load_rows,
    restriction,
)
from polarity_bench.tasks.types.polarity.scoring import (
    component_keys,
    polarity_scores,
    rank,
    score_of_queries,
    without_reference,
)
from polarity_bench.tasks.types.polarity.splits import PolarityData, PolarityProtocol
from polarity_bench.values import BoolArray

MOST_OVERLAP = 0.1
"""Maximum share of queries that may occur among the sources if the task file has no `overlap`."""


_DATA: dict[str, JsonValue] = {
    "oneOf": [
        {"required": ["mteb"], "not": {"required": ["format"]}},
        {"required": ["labels", "splits"]},
    ]
}
MtebReference = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][\w.\-]*(\[[\w.\-]+\])?$")]


class PolaritySpec(TaskSpec):
    """Content of the task file of a polarity retrieval task."""

    model_config = ConfigDict(json_schema_extra=_DATA)

    kind: Literal["polarity"]
    mteb: MtebReference | None = None
    """Classification task of mteb with the data, instead of `splits`: `NAME` or `NAME[SUBSET]`."""
    labels: dict[str, str] = Field({}, json_schema_extra={"minProperties": 2})
    """Name of each label in the data: `0 = "negative"`. Several labels may have one name."""
    format: FormatSpec = FormatSpec()
    """Format of the data files."""
    splits: dict[Literal["source", "query"], SplitSpec] = Field(
        {}, json_schema_extra={"required": ["source", "query"]}
    )
    """The splits: `query` contains the queries, and `source` the texts to retrieve."""
    protocol: PolarityProtocol = PolarityProtocol()
    """Settings of the retrieval and the scores."""
    unseen_of: Name | None = None
    """Name of the original task, if this task is a copy with unseen sources."""

    moving: ClassVar[tuple[str, ...]] = ("mteb", "labels", "format", "splits", "protocol")
    has_k: ClassVar[bool] = True
    retrieves: ClassVar[bool] = True
    mteb_type: ClassVar[str] = "Retrieval"
    mteb_prompt: ClassVar[str] = "Retrieve sentences of the same polarity."

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if self.mteb is not None:
            if files := {"splits", "format"} & self.model_fields_set:
                raise ValueError(f"'mteb' and '{min(files)}' exclude each other; give one of them")
        elif not self.labels:
            raise ValueError("'labels' is missing")
        elif missing := {"source", "query"} - set(self.splits):
            raise ValueError(f"[splits.{min(missing)}] is missing")
        if self.labels:
            self._check_names()
        for split in self.splits.values():
            if unknown := set(split.label_rows or {}) - set(self.labels.values()):
                raise ValueError(f"'label_rows': unknown label {min(unknown)!r}")
        self._check_columns()
        return self

    def _check_names(self) -> None:
        names = {" ".join(name.split()).casefold(): name for name in self.labels.values()}
        if len(names) < 2:
            raise ValueError("'labels' needs at least two labels with different names")
        if almost := {*self.labels.values()} - {*names.values()}:
            raise ValueError(
                f"'labels': the name {min(almost)!r} differs from another only in case or white "
                "space; give both labels the same name"
            )

    def _check_columns(self) -> None:
        protocol = self.protocol
        used = {*protocol.groups, protocol.breakdown, protocol.pair} - {None}
        if used and self.mteb is not None:
            raise ValueError("[protocol] 'groups', 'breakdown' and 'pair' need files, not 'mteb'")
        if taken := {*METRICS}.intersection(protocol.groups):
            raise ValueError(
                f"[protocol] 'groups': {min(taken)!r} is the name of a metric; rename the column"
            )
        for group in protocol.groups:
            ScoreKey(group, protocol.k)
        if protocol.pair and not protocol.groups:
            raise ValueError(
                "[protocol] 'pair' needs 'groups', the columns that define the subject of a pair"
            )
        for split in self.splits.values():
            if undeclared := used - set(self.form(split).columns):
                column = min(map(str, undeclared))
                raise ValueError(
                    f"[protocol] uses the column {column!r}; add it to 'columns' in [format]"
                )

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the score itself, or the scores that a derived score is computed from."""
        if metric_of(key.metric).of_means and key.k is not None:
            return [str(part) for part in component_keys(key.metric, key.k, key.weighting)]
        return () if key.metric in ("sgts", "pairwise_accuracy") else [str(key)]

    @property
    def result_name(self) -> str:
        """Name of the task in mteb and in result files."""
        return self.mteb_name or f"{super().result_name}PolarityRetrieval"

    @property
    def main_score(self) -> ScoreKey:
        """Key of the main score: joint at the k of the task file."""
        return ScoreKey("joint", self.protocol.k)

    def form(self, split: SplitSpec) -> FormatSpec:
        """Return the format of a split's file; by default, the format of the task."""
        return split.format or self.format

    def references(self) -> list[FileRef]:
        """Return all files of both splits."""
        files = [[split, split.label_file] for split in self.splits.values()]
        return [file for pair in files for file in pair if file is not None]

    def load_split(self, name: Literal["source", "query"], access: DataAccess) -> Split:
        """Read all rows of a split, see `data.split.load_split`."""
        if self.mteb is not None:
            found = self.mteb_set
            rows, where = load_rows(found, name, access.offline)
            unknown = sorted({row.values[1] for row in rows} - {*self.labels})
            if self.labels and unknown:
                raise InputError(
                    f"{self.file}: [labels] lacks {listed(map(repr, unknown))} of {where}; name "
                    "every label of the data. To leave labels out, write a task file with "
                    f"`polarity-bench tasks new hf:{found.facts['id']}` and choose its labels"
                )
            return split_of(name, rows, where, self.labels)
        split = self.splits[name]
        return load_split(name, split, self.form(split), self.labels, self, access)

    @property
    def mteb_set(self) -> MtebSet:
        """Data set of mteb that the task file names.

        Raises:
            InputError: If mteb has no such data set, or it has several subsets and the task file
                chooses none.
        """
        is_chosen = "languages" in self.model_fields_set
        with reworded("" if self.is_named else f"{self.file}: "):
            found = find_set(str(self.mteb), self.languages if is_chosen else ())
            if len(found.subsets) > 1 and not is_chosen:
                raise InputError(
                    f"'mteb' {self.mteb} has several subsets; choose one, or set 'languages': "
                    f"{', '.join(found.references)}"
                )
        return found

    def described(self) -> Self:
        """Return the task with mteb's facts, such as languages, in place of missing ones."""
        if self.mteb is None:
            return self
        found = self.mteb_set
        metadata = found.task.metadata
        facts = {
            "description": metadata.description,
            "languages": found.languages,
            "domains": tuple(metadata.domains or ()),
            "licence": metadata.license,
            "homepage": metadata.reference,
            "citation": metadata.bibtex_citation,
        }
        new = {key: fact for key, fact in facts.items() if key not in self.model_fields_set}
        return self.model_copy(update=new)

    @property
    def data_set(self) -> Mapping[str, Any] | None:
        """Facts about the data set in mteb for the provenance of results; None for files."""
        return None if self.mteb is None else self.mteb_set.facts | {"licence": self.licence}

    @property
    def restriction(self) -> str:
        """Why the texts must not be published; '' if the licence allows it.

        The user knows the licence of files that state none.
        """
        is_known = self.mteb is not None or "-nc" in (self.licence or "")
        return restriction(self.licence) if is_known else ""

    def load(self, access: DataAccess, settings: Settings) -> PolarityTask:
        """Read both splits, and make the task of them, see `assemble`."""
        described = self.described()
        source, query = (described.load_split(name, access) for name in ("source", "query"))
        return described.assemble(source, query, settings)

    def assemble(self, pool: Split, query: Split, settings: Settings) -> PolarityTask:
        """Check both splits, and draw the sources.

        The released code of the papers draws the sources with pandas'
        `sample(n, random_state=seed)`. This method uses `choice` of numpy's legacy generator, which
        draws the same rows.

        Raises:
            InputError: If data is missing or does not match the task file, or the settings are not
                valid for the task.

        Warns:
            InputWarning: If queries repeat a text, or if queries occur among the sources and the
                task file does not declare this.

        References:
            Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.2.
        """
        protocol, limit = self.protocol, settings.limit
        if protocol.n_queries is not None:
            query = query.take(
                draw_balanced(query.labels, protocol.n_queries, protocol.sample_seed)
            )
        n_overlap = count_overlap(pool.texts, query.texts)
        _check_overlap(self, n_overlap, len(query))
        check_labels(self.name, pool.labels, query.labels)
        if without := sorted({*pool.labels} - {*query.labels}):
            warn(
                f"{self.name}: no query has the label {listed(map(repr, without))} of the sources; "
                f"the queries have {listed(map(repr, sorted({*query.labels})))}; if this is not "
                "intended, correct [labels] in the task file, or the files"
            )
        if limit is not None:
            query = query.take(draw_balanced(query.labels, limit, protocol.sample_seed))
            n_overlap = count_overlap(pool.texts, query.texts)
        n_drawn, n_pool = protocol.sources_per_query * len(query), len(pool)
        if 0 < n_drawn < n_pool:
            draw = np.random.RandomState(protocol.sample_seed)
            pool = pool.take(draw.choice(n_pool, size=n_drawn, replace=False))
        limited = "" if limit is None else f" (`limit` {limit})"
        _check_classes(self.name, pool.labels, query.labels, limited)
        ks = settings.ks or (protocol.k,)
        task = PolarityTask(self, pool, query, n_overlap, n_pool, ks, limit)
        if task.n_repeated:
            unit = "pairs" if protocol.pair else "groups of queries with the same text"
            warn(
                f"{self.name}: {task.n_repeated} of {len(query)} queries repeat the text of an "
                f"earlier query; intervals and tests resample {unit}"
            )
        return task


@dataclass(frozen=True)
class PolarityTask(PolarityData, RetrievalTask):
    """A polarity task with its data.

    Attributes:
        spec: Content of the task file.
        source: The sources, in the order of the draw. If similarities tie, the earlier source
            ranks first.
        query: The queries, in file order.
        n_overlap: Number of queries that also occur in the source split before the draw, ignoring
            case.
        n_pool: Number of rows of the source split, before the draw.
        ks: Values of k to score, ascending.
        limit: Limit on the number of queries, for a quick look; None if there is no limit.
    """

    spec: PolaritySpec
    source: Split
    query: Split
    n_overlap: int
    n_pool: int
    ks: tuple[int, ...]
    limit: int | None = None

    uses_reference = True
    version = 2  # Version 1 lacked the oracle scores and `front`.

    def __post_init__(self) -> None:
        n_left = len(self.source) - max(map(len, self.equal_texts))
        if max(self.ks) > n_left:
            limited = "" if self.limit is None else f" (`limit` {self.limit})"
            raise InputError(
                f"{self.spec.name}: k = {max(self.ks)} needs at least {max(self.ks)} sources, got "
                f"{n_left} without those equal to the query{limited}; choose a smaller `k`"
            )

    @property
    def design(self) -> PolarityProtocol:
        """Settings in the task file."""
        return self.spec.protocol

    @cached_property
    def digest(self) -> str:
        """Digest of all texts, labels and columns, in order, as 16 hexadecimal digits."""
        sha = hashlib.sha256()
        for split in (self.source, self.query):
            for column in (split.texts, split.labels, *split.columns.values()):
                for value in column:
                    sha.update(value.encode() + b"\x00")
                sha.update(b"\x01")
        return sha.hexdigest()[:16]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and values of k of the protocol.

        If intervals do not resample single queries, `intervals` states the resampled unit.
        """
        protocol = {"name": "polarity-retrieval", "version": self.version, "k": list(self.ks)}
        if self.spec.protocol.pair is not None:
            protocol["intervals"] = f"pairs within {self.spec.protocol.groups[0]}"
        elif self.n_repeated:
            protocol["intervals"] = "equal texts"
        return protocol

    @property
    def unseen_of(self) -> str | None:
        """Name of the original task, if this task is a copy with unseen sources."""
        return self.spec.unseen_of

    @property
    def variant(self) -> str:
        """The values of k, such as `k_4-16`; '' if only the k of the task file is scored."""
        is_default = self.ks == (self.spec.protocol.k,)
        return "" if is_default else "k_" + "-".join(map(str, self.ks))

    @property
    def main_score(self) -> ScoreKey:
        """Key of the main score: joint at the k of the task file, or else at the largest k."""
        own = self.spec.protocol.k
        return ScoreKey("joint", own if own in self.ks else self.ks[-1])

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of sources, of queries, and of queries that also occur in the source split.

        If sources were drawn, `drawn from` is the number of rows before the draw.
        """
        drawn = {"drawn from": self.n_pool} if self.n_pool > len(self.source) else {}
        counts = {"sources": len(self.source), "queries": len(self.query)}
        return counts | {"overlap": self.n_overlap} | drawn

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Retrieve sources for each query, and compute all metrics.

        Args:
            embedded: Texts of the task, embedded by the encoder under test.
            reference: Texts of the task, embedded by the reference encoder; None if the encoder
                under test is the reference. If empty, reference-based scores are NaN.
        """
        if reference is not None and not len(reference):
            return without_reference(polarity_scores(self, rank(self, embedded), None))
        theirs = None if reference is None else rank(self, reference)
        return polarity_scores(self, rank(self, embedded), theirs)

    def chance(self, scores: Mapping[ScoreKey, Score]) -> tuple[ScoreKey, float]:
        """Return P and its value for random retrieval."""
        return ScoreKey("polarity", self.main_score.k), scores[ScoreKey("polarity_chance")].mean

    def has_all(self, scores: Collection[ScoreKey]) -> bool:
        """Return whether stored scores include those of all installed metrics and weightings."""
        computed = [m for m in METRICS.values() if m.of_queries or m.of_means]
        return all(m.key(k, w) in scores for m in computed for k in self.ks for w in WEIGHTINGS)

    def score_unseen(
        self, arrays: Mapping[str, NDArray[Any]], seen: Mapping[str, BoolArray]
    ) -> Score | None:
        """Return the main score over the unseen queries (see `Task.score_unseen`)."""
        rows = ~seen["queries"]
        return None if rows.all() else score_of_queries(self.main_score, arrays, rows)

    def with_query(self, text: str, k: int) -> PolarityTask:
        """Return a copy of the task with a single query, which has no label.

        Args:
            text: Text of the query.
            k: Number of sources to retrieve.

        Raises:
            InputError: If there are fewer than k sources.
        """
        return replace(self, query=Split((text,), ("",)), ks=(k,))


def count_overlap(sources: Iterable[str], queries: Iterable[str]) -> int:
    """Count the queries that occur among the sources, ignoring case."""
    keys = [text.casefold() for text in queries]
    common = {*keys}.intersection(map(str.casefold, sources))
    return sum(key in common for key in keys)


def _check_overlap(spec: PolaritySpec, found: int, n_queries: int) -> None:
    """Check the number of queries that also occur among the sources.

    Raises:
        InputError: If the number differs from `overlap` in the task file, or if `overlap` is not
            set and the share of such queries exceeds `MOST_OVERLAP`.

    Warns:
        InputWarning: If such queries exist and `overlap` is not set.
    """
    declared = spec.protocol.overlap
    if found == (declared or 0):
        return
    if declared is not None:
        raise InputError(
            f"{spec.name}: expected {declared} queries that also occur in the source split, got "
            f"{found}; if this is intended, correct `overlap` in [protocol] of {spec.file}"
        )
    file = f"a task file (`polarity-bench tasks show {spec.name}`)" if spec.is_named else spec.file
    problem = (
        f"{spec.name}: {found} of {n_queries} queries also occur among the sources; if this is "
        f"intended, set `overlap = {found}` in [protocol] of {file}"
    )
    if found > MOST_OVERLAP * n_queries:
        raise InputError(problem)
    warn(problem)


def check_labels(task: str, sources: Iterable[str], queries: Iterable[str]) -> None:
    """Check that sources and queries have at least two classes, and queries no other ones.

    Args:
        task: Name of the task, for the message.
        sources: Labels of the sources.
        queries: Labels of the queries.

    Raises:
        InputError: If a split has only one label, or no source has the label of a query.
    """
    of_sources, of_queries = sorted({*sources}), sorted({*queries})
    _check_classes(task, of_sources, of_queries)
    if missing := {*of_queries} - {*of_sources}:
        raise InputError(
            f"{task}: no source has the label {min(missing)!r} of the queries; the sources have "
            f"{listed(map(repr, of_sources))}, the queries {listed(map(repr, of_queries))}; give "
            "equal labels one name in [labels] of the task file (`labels` sets it), or correct the "
            "files"
        )


def _check_classes(
    task: str, sources: Sequence[str], queries: Sequence[str], limited: str = ""
) -> None:
    for name, labels in (("source", sources), ("query", queries)):
        if len(set(labels)) < 2:
            raise InputError(
                f"{task}: every {name} has the label {labels[0]!r}{limited}; a polarity task "
                "needs at least two classes"
            )
