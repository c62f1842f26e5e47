"""From a task file to the texts and labels that it declares, every count checked."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from polarity_bench.data.readers import Row, read_rows
from polarity_bench.data.sources import DataAccess, find, load_hub_split, obtain
from polarity_bench.errors import InputError
from polarity_bench.spec import PolaritySpec, SplitSpec, TaskSpec
from polarity_bench.types import Split


@dataclass(frozen=True)
class PolarityData:
    """What a polarity task is fed: the queries, and the sources that they retrieve from.

    Attributes:
        source: The sources, in the order of the draw; ties in similarity go to the earlier one.
        query: The queries, in file order.
        n_overlap: How many queries stand, letter case aside, among all rows of the source file.
    """

    spec: PolaritySpec
    source: Split
    query: Split
    n_overlap: int

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over every text, label and column, in order."""
        sha = hashlib.sha256()
        for split in (self.source, self.query):
            for column in (split.texts, split.labels, *split.columns.values()):
                for value in column:
                    sha.update(value.encode() + b"\x00")
                sha.update(b"\x01")
        return sha.hexdigest()[:16]

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, sources first."""
        return self.source.texts + self.query.texts


def load_polarity(
    spec: TaskSpec, access: DataAccess, *, limit: int | None = None, k: int | None = None
) -> PolarityData:
    """Load a polarity task: read both splits, check them, draw the sources.

    The source set is drawn as the papers' released code draws it, by pandas'
    `sample(n, random_state=seed)`, which is this call of numpy's legacy generator.

    Args:
        spec: The task.
        access: Where its data may come from.
        limit: Keep only so many queries, drawn with the task's seed, for a quick look.
        k: The largest k that will be asked for, the task's own by default.

    Raises:
        InputError: If data is missing or isn't what the task file declares, or the task is of
            another kind.

    References:
        Jørgensen and Breitung (2025), Margins in Contrastive Learning, section 3.2.
    """
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"{spec.name} is a {spec.kind} task; a polarity task is wanted")
    pool, query = (load_split(spec, name, access) for name in ("source", "query"))
    known = {text.casefold() for text in pool.texts}
    n_overlap = sum(text.casefold() in known for text in query.texts)
    protocol = spec.protocol
    if protocol.overlap is not None and n_overlap != protocol.overlap:
        raise InputError(
            f"{spec.name}: {n_overlap} queries also stand in the source file, the task declares "
            f"{protocol.overlap}"
        )
    _check_classes(spec.name, pool, query)
    if limit is not None:
        shuffled = np.random.default_rng(protocol.sample_seed).permutation(len(query))
        query = query.take(np.sort(shuffled[:limit]))
    wanted = protocol.sources_per_query * len(query) or len(pool)
    if wanted < len(pool):
        draw = np.random.RandomState(protocol.sample_seed)
        pool = pool.take(draw.choice(len(pool), size=wanted, replace=False))
    n_equal = Counter(pool.texts)
    n_left = len(pool) - max(n_equal[text] for text in query.texts)
    if n_left < (k or protocol.k):
        raise InputError(
            f"{spec.name}: k = {k or protocol.k} needs as many sources, there are {n_left} besides "
            f"those whose text equals a query's{'' if limit is None else f' (--limit {limit})'}"
        )
    _check_classes(spec.name, pool, query, "" if limit is None else f" (--limit {limit})")
    return PolarityData(spec, pool, query, n_overlap)


def _check_classes(task: str, source: Split, query: Split, limited: str = "") -> None:
    for name, split in (("source", source), ("query", query)):
        if len(set(split.labels)) < 2:
            raise InputError(
                f"{task}: every {name} has the label {split.labels[0]!r}{limited}; polarity needs "
                "two classes or more"
            )


def load_split(spec: PolaritySpec, name: Literal["source", "query"], access: DataAccess) -> Split:
    """Read one split whole, in file order: texts, labels by their names, counts checked.

    Raises:
        InputError: If the split is missing or isn't what the task file declares.
    """
    split = spec.splits[name]
    rows, where = _rows(spec, split, access)
    names = ("text", "label", *spec.format.columns, *split.where)
    if split.where:
        wanted = tuple(split.where.values())
        rows = [row for row in rows if row.values[len(names) - len(wanted) :] == wanted]
    if not rows:
        raise InputError(f"{where}: no rows for the split {name!r}")
    for row in rows:
        if not row.values[0].strip():
            raise InputError(f"{where}, line {row.line}: the text is empty")
        if row.values[1] not in spec.labels:
            raise InputError(
                f"{where}, line {row.line}: unknown label {row.values[1]!r}; the task declares "
                f"{', '.join(map(repr, spec.labels))}"
            )
    columns = list(zip(*(row.values for row in rows), strict=True))
    labels = tuple(spec.labels[label] for label in columns[1])
    _check_counts(where, split, labels)
    extra = {column: columns[2 + i] for i, column in enumerate(spec.format.columns)}
    return Split(columns[0], labels, extra)


def _rows(spec: PolaritySpec, split: SplitSpec, access: DataAccess) -> tuple[list[Row], str]:
    """The rows of a split, and what to call the place that they came from."""
    extra = [*spec.format.columns, *split.where]
    if split.hub and not split.url and find(split, spec, access) is None:
        records = load_hub_split(split.hub, spec, access, extra)
        return [Row(i, record) for i, record in enumerate(records, start=1)], split.hub.id
    path = obtain(split, spec, access)
    label_path = obtain(split.label_file, spec, access) if split.label_file else None
    columns = [spec.format.text, spec.format.label, *extra]
    return read_rows(path, spec.format, columns, label_path), str(path)


def _check_counts(where: str, split: SplitSpec, labels: Sequence[str]) -> None:
    if split.rows is not None and len(labels) != split.rows:
        raise InputError(
            f"{where}: {len(labels):,} rows where {split.rows:,} are expected; a truncated or "
            "edited copy?"
        )
    found = Counter(labels)
    for label, expected in (split.label_rows or {}).items():
        if found[label] != expected:
            raise InputError(
                f"{where}: {found[label]:,} rows of the label {label!r} where {expected:,} are "
                "expected; a truncated or edited copy?"
            )
