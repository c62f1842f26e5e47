"""Classification data sets of mteb as the sources and queries of polarity tasks.

mteb's own task class reads the data at mteb's pinned revision, through the cache of the hub. The
training split provides the sources, the test split the queries. mteb is imported only when one of
its data sets is needed, because the import takes seconds.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.data.readers import FileRow, as_text
from polarity_bench.data.sources import shorten
from polarity_bench.errors import InputError, MissingDataError, check_known, nearest, warn
from polarity_bench.hub import HubError, reading_hub

_RESTRICTIONS = {"-nc": "no commercial use", "-nd": "no derivatives", "http": "own terms"}
"""Parts of licences that forbid a use; an address leads to terms that only people can read."""


def restriction(licence: str | None) -> str:
    """Return why the texts of a data set must not be published, or '' if its licence allows it.

    Example:
        >>> restriction("cc-by-nc-sa-4.0")
        'no commercial use'
        >>> restriction("cc-by-4.0")
        ''
    """
    if licence in (None, "not specified", "unknown"):
        return "no known licence"
    return next((why for part, why in _RESTRICTIONS.items() if part in licence), "")


@dataclass(frozen=True)
class MtebSet:
    """A data set of mteb, with the subsets to read.

    Attributes:
        task: mteb's task class.
        subsets: Names of the subsets on the hub; `default` if the data set has no others.
    """

    task: Any
    subsets: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the task in mteb."""
        return str(self.task.metadata.name)

    @property
    def references(self) -> list[str]:
        """The name that selects each subset: NAME[SUBSET], or NAME if there is only one."""
        is_single = not self.task.metadata.is_multilingual
        return [self.name if is_single else f"{self.name}[{subset}]" for subset in self.subsets]

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the subsets, in mteb's notation."""
        known = self.task.metadata.hf_subsets_to_langscripts
        return tuple(dict.fromkeys(code for subset in self.subsets for code in known[subset]))

    @property
    def query_split(self) -> str:
        """Name of the split with the queries.

        Raises:
            InputError: If the data set is evaluated on its training split.
        """
        splits = [s for s in self.task.metadata.eval_splits if s != self.task.train_split]
        if not splits:
            raise InputError(
                f"mteb:{self.name}: mteb evaluates this data set on its training split "
                f"{self.task.train_split!r}, so there are no other texts for the queries; choose "
                "another data set"
            )
        return "test" if "test" in splits else str(splits[0])

    def statistics(self, split: str) -> list[Mapping[str, Any]]:
        """Return mteb's statistics of a split, one mapping per subset, as far as mteb has them."""
        whole = (self.task.metadata.descriptive_stats or {}).get(split, {})
        by_subset = whole.get("hf_subset_descriptive_stats") or {"default": whole}
        return [by_subset[subset] for subset in self.subsets if by_subset.get(subset)]

    def n_texts(self, split: str) -> int | None:
        """Return the number of texts in a split; None if mteb has no statistics of it."""
        found = self.statistics(split)
        return sum(each["num_samples"] for each in found) if found else None

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the data set for the provenance of results."""
        metadata = self.task.metadata
        return {
            "mteb": self.name,
            "subsets": list(self.subsets),
            "id": metadata.dataset["path"],
            "revision": metadata.dataset["revision"],
            "licence": metadata.license or "not specified",
            "restriction": restriction(metadata.license),
        }


def classification_sets() -> dict[str, MtebSet]:
    """Return the data sets of mteb that can be polarity tasks, by name, with all their subsets.

    These are texts with one label each, in a training split and in another split.
    """
    return {
        name: MtebSet(task, tuple(task.metadata.hf_subsets))
        for name, task in _all_tasks().items()
        if _has_single_labels(task) and {*task.metadata.eval_splits} - {task.train_split}
    }


def _has_single_labels(task: Any) -> bool:
    """Return whether a task class of mteb has texts with one label each, and not only parts."""
    from mteb.abstasks.multilabel_classification import AbsTaskMultilabelClassification

    metadata = task.metadata
    if issubclass(task, AbsTaskMultilabelClassification):  # One has the type Classification.
        return False
    of_texts = metadata.type == "Classification" and list(metadata.modalities) == ["text"]
    return of_texts and hasattr(task, "label_column_name")


def find_set(reference: str, languages: Sequence[str] = ()) -> MtebSet:
    """Return the data set that a reference selects.

    Args:
        reference: Name of the task in mteb, or NAME[SUBSET]. A language, as in NAME[deu] or
            NAME[deu-Latn], selects all subsets of this language.
        languages: Languages of the subsets to keep, in mteb's notation; () keeps all.

    Raises:
        InputError: If the name or the language is unknown, or mteb's task is not the classification
            of texts with one label each.
    """
    name, _, chosen = reference.removesuffix("]").partition("[")
    task = _all_tasks().get(name)
    if task is None:
        raise InputError(f"mteb has no task {name!r}{nearest(name, classification_sets())}")
    metadata = task.metadata
    if not _has_single_labels(task):
        about = ", ".join([*metadata.modalities, task.__base__.__name__])
        raise InputError(
            f"mteb:{name}: expected texts with one label each, got the type {metadata.type} "
            f"({about}); choose another task of mteb"
        )
    codes: Mapping[str, Sequence[str]] = metadata.hf_subsets_to_langscripts
    subsets = [*codes]
    for wanted in filter(None, [(chosen,) if chosen else (), tuple(languages)]):
        kept = [
            subset
            for subset in subsets
            if {subset, *codes[subset], *(code[:3] for code in codes[subset])} & {*wanted}
        ]
        subsets = [chosen] if chosen in kept else kept
        if not subsets:
            each = [s if [s] == [*codes[s]] else f"{s} ({', '.join(codes[s])})" for s in codes]
            raise InputError(
                f"mteb:{name}: unknown language {', '.join(wanted)!r}; the task has "
                f"{', '.join(each)}"
            )
    found = MtebSet(task, tuple(subsets))
    _ = found.query_split  # raises an error if there is none
    return found


def load_rows(found: MtebSet, name: str, offline: bool) -> tuple[list[FileRow], str]:
    """Read a split of all chosen subsets.

    Rows with an empty text or label are left out with a warning, because the user cannot correct
    them on the hub.

    Args:
        found: The data set.
        name: `source` or `query`.
        offline: Whether downloads are forbidden.

    Returns:
        Text and label of each row, and the name of the data for messages. If the data declares
        names of classes, these are the labels.

    Raises:
        InputError: If the data is not available, or lacks a subset, a split or a column.
    """
    data, files = _load(found.name, found.subsets, offline)
    split = found.task.train_split if name == "source" else found.query_split
    where = f"mteb:{found.name}, split {split!r}"
    rows: list[FileRow] = []
    for subset in found.subsets:
        by_subset = {subset: data} if subset == "default" and subset not in data else data
        if subset not in by_subset:
            known = ", ".join(map(repr, by_subset))
            raise InputError(f"{where}: the data has only the subsets {known}, not {subset!r}")
        part = by_subset[subset]
        if split not in part:
            raise InputError(f"{where}: the data has only the splits {', '.join(map(repr, part))}")
        own_files = [each["filename"] for each in part[split].cache_files]
        _check_revision([*files, *own_files], found.task.metadata.dataset["revision"], where)
        for text, label in _columns(part[split], found.task, where):
            rows.append(FileRow(len(rows) + 1, (text, label)))
    full = [row for row in rows if row.values[0].strip() and row.values[1]]
    if len(full) < len(rows):
        warn(
            f"{where}: {len(rows) - len(full):,} of {len(rows):,} rows have an empty text or "
            "label and are left out"
        )
    return full, where


def _check_revision(files: Sequence[str], revision: str, where: str) -> None:
    """Raise MissingDataError if cached files, whose folder names the revision, are of another one.

    If the hub cannot be reached, `datasets` silently uses the latest cached revision.
    """
    for commit in (Path(file).parent.name for file in files):
        if re.fullmatch("[0-9a-f]{40}", commit) and commit != revision:
            raise MissingDataError(
                f"{where}: the hub is not available, and the cache contains only the revision "
                f"{commit}, not {revision}"
            )


def _columns(rows: Any, task: Any, where: str) -> Iterator[tuple[str, str]]:
    names = [str(task.input_column_name), str(task.label_column_name)]
    for column in names:
        check_known(column, rows.column_names, f"{where}: no column {column!r}")
    texts, labels = (rows[column] for column in names)
    class_name: Any = getattr(rows.features[names[1]], "int2str", None)
    for text, label in zip(texts, labels, strict=True):
        if isinstance(label, list):
            raise InputError(f"{where}: expected one label per text, got a list, {label!r}")
        has_name = class_name is not None and label is not None and label >= 0
        yield as_text(text), str(class_name(label)) if has_name else as_text(label)


@lru_cache(maxsize=2)  # Both splits of a task, and repeated loading, read the data once.
def _load(name: str, subsets: tuple[str, ...], offline: bool) -> tuple[Any, list[str]]:
    """Read the data of mteb's task.

    Returns:
        The splits by name, by subset if there are several, and the cached files of data whose
        subsets mteb copies into tables without files.

    Raises:
        MissingDataError: If the data cannot be read.
    """
    import datasets

    task_class = _all_tasks()[name]
    dataset = task_class.metadata.dataset
    where = f"mteb:{name}: the hub data set {dataset['path']}@{dataset['revision'][:8]}"
    try:
        with reading_hub(dataset["path"], "dataset", offline):
            with restore_generators():
                task = task_class()
                task.hf_subsets = list(subsets)
                task.load_data()
            merged = datasets.load_dataset(**dataset).values() if task.fast_loading else ()
    except Exception as error:  # A task class of mteb may raise any error.
        hint = "; the network is forbidden (`offline` or HF_HUB_OFFLINE)" if offline else ""
        is_named = isinstance(error, datasets.exceptions.DatasetsError | HubError)
        kind = "" if is_named else f"{type(error).__name__}: "
        raise MissingDataError(f"{where}: cannot be read: {kind}{shorten(error)}{hint}") from error
    return task.dataset, [file["filename"] for part in merged for file in part.cache_files]


def _all_tasks() -> dict[str, Any]:
    """Return all task classes of mteb, by name."""
    with restore_generators():
        module: Any = import_module("mteb.get_tasks")
    return {task.metadata.name: task for task in module.TASK_LIST}


@contextmanager
def restore_generators() -> Iterator[None]:
    """Restore the random generators, which mteb seeds whenever a task is created."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state()  # noqa: NPY002  mteb seeds it
    of_torch = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002  mteb seeds it
        if torch:
            torch.set_rng_state(of_torch)
