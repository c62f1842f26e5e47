"""Polarity retrieval: do the k nearest sources share the query's label, and are they still near?

A task file names two splits: the sources, and the queries that retrieve from them. This module
reads both splits, checks all counts and draws the sources. `polarity_scores` computes the scores.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, JsonValue, StrictInt, model_validator

from polarity_bench.data.readers import FileRow, check_count, read_rows
from polarity_bench.data.schema import Cut, FileRef, FormatSpec, Name, SplitSpec
from polarity_bench.data.sources import DataAccess, find, load_hub_split, obtain
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.base import Settings, Task, TaskScores, TaskSpec
from polarity_bench.tasks.types.polarity.scoring import (
    METRICS,
    polarity_scores,
    rank,
    without_reference,
)
from polarity_bench.validation import Strict
from polarity_bench.values import IntArray

MOST_OVERLAP = 0.1
"""The largest share of queries that may occur among the sources undeclared in the task file."""


_GROUP: dict[str, JsonValue] = {"type": "string", "not": {"enum": [*sorted(METRICS)]}}
_PAIRS: dict[str, JsonValue] = {
    "if": {"required": ["pair"]},
    "then": {"required": ["groups"], "properties": {"groups": {"minItems": 1}}},
}


class PolarityProtocol(Strict):
    """The settings of the protocol that a polarity task chooses."""

    model_config = ConfigDict(json_schema_extra=_PAIRS)

    k: Annotated[StrictInt, Field(ge=1)] = 16
    """Number of sources that each query retrieves."""
    sources_per_query: Annotated[StrictInt, Field(ge=0)] = 0
    """Number of sources drawn for each query, without replacement; 0 keeps all sources."""
    sample_seed: StrictInt = 42
    """Seed of the draw."""
    overlap: Annotated[StrictInt, Field(ge=0)] | None = None
    """Number of queries that are meant to occur among the sources, ignoring case."""
    groups: tuple[str, ...] = Field((), json_schema_extra={"items": _GROUP})
    """Columns, such as the topic: the share of the k nearest with the query's value is scored."""
    breakdown: str | None = None
    """Column of the queries by which P is broken down."""
    pair: str | None = None
    """Column that joins the twins of a minimal pair; needs `groups`."""


class PolaritySpec(TaskSpec):
    """The file of a polarity retrieval task."""

    kind: Literal["polarity"]
    labels: dict[str, str] = Field(json_schema_extra={"minProperties": 2})
    """Each label of the file, and its name: `0 = "negative"`."""
    format: FormatSpec = FormatSpec()
    """Format of the files."""
    splits: dict[Literal["source", "query"], SplitSpec] = Field(
        json_schema_extra={"required": ["source", "query"]}
    )
    """`query`, the texts that retrieve, and `source`, the texts that they retrieve from."""
    protocol: PolarityProtocol = PolarityProtocol()
    """Settings of retrieval and scores."""
    unseen_of: Name | None = None
    """Name of the original task, if this is a copy with sources that are never trained on."""

    moving: ClassVar[tuple[str, ...]] = ("labels", "format", "splits", "protocol")
    ranks: ClassVar[bool] = True
    mteb_type: ClassVar[str] = "Retrieval"
    mteb_prompt: ClassVar[str] = "Retrieve sentences of the same polarity."

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if missing := {"source", "query"} - set(self.splits):
            raise ValueError(f"[splits.{min(missing)}] is missing")
        if len(self.labels) < 2 or len(set(self.labels.values())) != len(self.labels):
            raise ValueError("'labels' needs two or more labels with different names")
        for split in self.splits.values():
            if unknown := set(split.label_rows or {}) - set(self.labels.values()):
                raise ValueError(f"'label_rows' counts the unknown label {min(unknown)!r}")
        self._check_columns()
        return self

    def _check_columns(self) -> None:
        protocol = self.protocol
        used = {*protocol.groups, protocol.breakdown, protocol.pair} - {None}
        if taken := METRICS.intersection(protocol.groups):
            raise ValueError(f"[protocol] groups: {min(taken)!r} is a metric's name; rename it")
        for group in protocol.groups:
            ScoreKey(group, protocol.k)
        if protocol.pair and not protocol.groups:
            raise ValueError("[protocol] 'pair' needs 'groups', which name the subject of a pair")
        for split in self.splits.values():
            if undeclared := used - set(self.form(split).columns):
                column = min(map(str, undeclared))
                raise ValueError(f"[protocol] names {column!r}; add it to `columns` of [format]")

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        return self.mteb_name or f"{super().result_name}PolarityRetrieval"

    @property
    def main_score(self) -> ScoreKey:
        """The joint score at the task's own k."""
        return ScoreKey("joint", self.protocol.k)

    def form(self, split: SplitSpec) -> FormatSpec:
        """Return the format of a split's file: the split's own format, or else the task's."""
        return split.format or self.format

    def references(self) -> list[FileRef]:
        """Return the files of both splits."""
        files = [[split, split.label_file] for split in self.splits.values()]
        return [file for pair in files for file in pair if file is not None]

    def load(self, access: DataAccess, settings: Settings) -> PolarityTask:
        """Read and check both splits, and draw the sources.

        The sources are drawn as in the papers' released code, which calls pandas'
        `sample(n, random_state=seed)`. The `choice` of numpy's legacy generator gives the same
        draw.

        References:
            Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.2.
        """
        pool, query = load_split(self, "source", access), load_split(self, "query", access)
        protocol, limit = self.protocol, settings.limit
        n_overlap = count_overlap(pool.texts, query.texts)
        _check_overlap(self, n_overlap, len(query))
        _check_classes(self.name, pool, query)
        if limit is not None:
            shuffled = np.random.default_rng(protocol.sample_seed).permutation(len(query))
            query = query.take(np.sort(_in_turns(query.labels, shuffled)[:limit]))
            n_overlap = count_overlap(pool.texts, query.texts)
        n_drawn, n_pool = protocol.sources_per_query * len(query), len(pool)
        if 0 < n_drawn < n_pool:
            draw = np.random.RandomState(protocol.sample_seed)
            pool = pool.take(draw.choice(n_pool, size=n_drawn, replace=False))
        _check_classes(self.name, pool, query, "" if limit is None else f" (`limit` {limit})")
        ks = settings.ks or (protocol.k,)
        task = PolarityTask(self, pool, query, n_overlap, n_pool, ks, limit)
        if task.n_repeated:
            unit = "each pair" if protocol.pair else "queries of equal text together"
            warnings.warn(
                f"{self.name}: {task.n_repeated} of {len(query)} queries repeat the text of an "
                f"earlier one; intervals and tests draw {unit}",
                InputWarning,
                stacklevel=2,
            )
        return task


@dataclass(frozen=True)
class PolarityTask(Task):
    """A polarity task with its data.

    Attributes:
        source: The sources, in the order of the draw. If similarities tie, the earlier source
            ranks first.
        query: The queries, in file order.
        n_overlap: Number of queries that occur, ignoring case, among all rows of the source file.
        n_pool: Number of rows of the source file from which the sources were drawn.
        ks: Numbers of sources at which the task is scored, ascending.
        limit: Limit of the queries, for a quick look; None if all queries are used.
    """

    spec: PolaritySpec
    source: Split
    query: Split
    n_overlap: int
    n_pool: int
    ks: tuple[int, ...]
    limit: int | None = None

    uses_reference = True
    version = 2  # version 1 had neither the oracle scores nor `front`

    def __post_init__(self) -> None:
        n_left = len(self.source) - max(map(len, self.equal_texts))
        if max(self.ks) > n_left:
            limited = "" if self.limit is None else f" (`limit` {self.limit})"
            raise InputError(
                f"{self.spec.name}: k = {max(self.ks)} needs at least {max(self.ks)} sources, got "
                f"{n_left} whose text differs from the query's{limited}; choose a smaller `k`"
            )

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

    @cached_property
    def equal_texts(self) -> list[IntArray]:
        """For each query, the positions of the sources with the same text.

        The query must not retrieve them, since they are the query itself.
        """
        positions: dict[str, list[int]] = {text: [] for text in self.query.texts}
        for i, text in enumerate(self.source.texts):
            if text in positions:
                positions[text].append(i)
        return [np.asarray(positions[text], dtype=np.int64) for text in self.query.texts]

    @cached_property
    def n_repeated(self) -> int:
        """Number of queries that repeat the text of an earlier query, ignoring case."""
        return len(self.query) - len({text.casefold() for text in self.query.texts})

    @property
    def texts(self) -> Sequence[str]:
        """All texts, sources first."""
        return self.source.texts + self.query.texts

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and ks; also `intervals` if intervals do not draw single queries."""
        protocol = {"name": "polarity-retrieval", "version": self.version, "k": list(self.ks)}
        if self.spec.protocol.pair is not None:
            protocol["intervals"] = f"pairs within {self.spec.protocol.groups[0]}"
        elif self.n_repeated:
            protocol["intervals"] = "equal texts"
        return protocol

    @property
    def unseen_of(self) -> str | None:
        """Name of the original task, if this is a copy with sources that are never trained on."""
        return self.spec.unseen_of

    @property
    def variant(self) -> str:
        """The ks, if they are not just the task's own k; '' otherwise."""
        own = self.ks == (self.spec.protocol.k,)
        return "" if own else "k_" + "-".join(map(str, self.ks))

    @property
    def main_score(self) -> ScoreKey:
        """The joint score at the task's own k, or at the largest k if its own is not scored."""
        own = self.spec.protocol.k
        return ScoreKey("joint", own if own in self.ks else self.ks[-1])

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of sources, queries, and queries that also occur in the source file.

        If sources were drawn, `drawn from` is the number of rows from which they were drawn.
        """
        drawn = {"drawn from": self.n_pool} if self.n_pool > len(self.source) else {}
        counts = {"sources": len(self.source), "queries": len(self.query)}
        return counts | {"overlap": self.n_overlap} | drawn

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[str]]:
        """The texts of the sources and of the queries."""
        return {"sources": self.source.texts, "queries": self.query.texts}

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Rank the sources and compute all metrics.

        If `reference` is empty, the reference-based scores are NaN.
        """
        if reference is not None and not len(reference):
            return without_reference(polarity_scores(self, rank(self, embedded), None))
        theirs = None if reference is None else rank(self, reference)
        return polarity_scores(self, rank(self, embedded), theirs)

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """Text, label and columns of each query."""
        return _as_rows(self.query)

    def asked(self, text: str, k: int) -> PolarityTask:
        """Return the task with this text as its only query, which has no label.

        Raises:
            InputError: If there are fewer than k sources.
        """
        return replace(self, query=Split((text,), ("",)), ks=(k,))

    def retrieved(self, arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
        """Yield each query with its values (None if undefined) and its retrieved sources."""
        of_source = _as_rows(self.source)
        found = zip(arrays["retrieved_index"], arrays["retrieved_similarity"], strict=True)
        beside = ("retrieved_", "resampled_")
        named = {n: values for n, values in arrays.items() if not n.startswith(beside)}
        for i, (query, (index, cosine)) in enumerate(zip(_as_rows(self.query), found, strict=True)):
            values = {name: float(array[i]) for name, array in named.items()}
            yield query | {
                "scores": {n: None if np.isnan(value) else value for n, value in values.items()},
                "retrieved": [
                    of_source[j] | {"similarity": float(c)}
                    for j, c in zip(index, cosine, strict=True)
                ],
            }


def _in_turns(labels: Sequence[str], positions: IntArray) -> IntArray:
    """Order positions so that labels alternate and the first few positions have all labels."""
    import pandas as pd

    ordered = pd.Series([labels[i] for i in positions])
    n_before = ordered.groupby(ordered).cumcount()
    return positions[np.argsort(n_before, kind="stable")]


def _as_rows(split: Split) -> list[dict[str, str]]:
    columns = {"text": split.texts, "label": split.labels, **split.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def count_overlap(sources: Iterable[str], queries: Iterable[str]) -> int:
    """Count the queries that occur among the sources, ignoring case."""
    known = {text.casefold() for text in sources}
    return sum(text.casefold() in known for text in queries)


def _check_overlap(spec: PolaritySpec, found: int, n_queries: int) -> None:
    """Check the number of queries that occur among the sources.

    Warn if there are any that the task file does not declare.

    Raises:
        InputError: If the number differs from the declared one, or is undeclared and greater than
            `MOST_OVERLAP` of the queries.
    """
    declared = spec.protocol.overlap
    if found == (declared or 0):
        return
    if declared is not None:
        raise InputError(
            f"{spec.name}: expected {declared} queries that also occur in the source file, got "
            f"{found}"
        )
    problem = (
        f"{spec.name}: {found} of {n_queries} queries also occur among the sources; if this is "
        f"intended, set `overlap = {found}` in [protocol] of {spec.file}"
    )
    if found > MOST_OVERLAP * n_queries:
        raise InputError(problem)
    warnings.warn(problem, InputWarning, stacklevel=3)


def _check_classes(task: str, source: Split, query: Split, limited: str = "") -> None:
    for name, split in (("source", source), ("query", query)):
        if len(set(split.labels)) < 2:
            raise InputError(
                f"{task}: every {name} has the label {split.labels[0]!r}{limited}; polarity needs "
                "two classes or more"
            )


def load_split(spec: PolaritySpec, name: Literal["source", "query"], access: DataAccess) -> Split:
    """Read all rows of a split, in file order, name their labels and check the counts.

    Raises:
        InputError: If the split is missing or does not match the task file.
    """
    split = spec.splits[name]
    rows, where = _rows(spec, split, access)
    if split.where:
        selected = tuple(split.where.values())
        rows = [row for row in rows if row.values[-len(selected) :] == selected]
    if split.cut:
        rows = [rows[i] for i in cut_positions([row.values[0] for row in rows], split.cut)]
    if not rows:
        raise InputError(f"{where}: no rows for the split {name!r}")
    for row in rows:
        if not row.values[0].strip():
            raise InputError(f"{where}, line {row.line}: the text is empty")
        if any("\x00" in value for value in row.values):  # digests use NUL as a separator
            raise InputError(f"{where}, line {row.line}: the row contains a NUL byte")
        if row.values[1] not in spec.labels:
            raise InputError(
                f"{where}, line {row.line}: unknown label {row.values[1]!r}; the task declares "
                f"{', '.join(map(repr, spec.labels))}"
            )
    columns = list(zip(*(row.values for row in rows), strict=True))
    labels = tuple(spec.labels[label] for label in columns[1])
    if split.rows is not None:
        check_count(where, len(labels), split.rows)
    n_found = Counter(labels)
    for label, expected in (split.label_rows or {}).items():
        check_count(where, n_found[label], expected, f" of the label {label!r}")
    extra = {column: columns[2 + i] for i, column in enumerate(spec.form(split).columns)}
    return Split(columns[0], labels, extra)


def cut_positions(texts: Sequence[str], cut: Cut) -> list[int]:
    """Return the positions of the texts that a cut keeps, ascending.

    Texts that are equal, ignoring case, are on the same side of the cut, so that its two sides
    share no text.

    Example:
        >>> texts = ["a", "b", "A", "c", "d"]
        >>> cut_positions(texts, Cut(seed=1, share=0.5))
        [0, 1, 2]
        >>> cut_positions(texts, Cut(seed=1, share=0.5, rest=True))
        [3, 4]
    """
    keys = [text.casefold() for text in texts]
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(cut.seed).permutation(len(distinct))
    chosen = {distinct[i] for i in order[: round(cut.share * len(distinct))]}
    return [i for i, key in enumerate(keys) if (key in chosen) != cut.rest]


def _rows(spec: PolaritySpec, split: SplitSpec, access: DataAccess) -> tuple[list[FileRow], str]:
    """Return the rows of a split, and the name of the file or data set for messages."""
    form = spec.form(split)
    extra = [*form.columns, *split.where]
    if split.hub and not split.url and find(split, spec, access) is None:
        records = load_hub_split(split.hub, spec, access, extra)
        return [FileRow(i, record) for i, record in enumerate(records, start=1)], split.hub.id
    path = obtain(split, spec, access)
    label_path = obtain(split.label_file, spec, access) if split.label_file else None
    return read_rows(path, form, [form.text, form.label, *extra], label_path), str(path)
