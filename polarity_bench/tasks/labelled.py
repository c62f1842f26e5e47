"""Labelled texts for classification, from transfer tasks and polarity tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from polarity_bench.data.sampling import sample
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import choose_task, load_tasks
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.tasks.types.transfer import TransferSpec
from polarity_bench.values import IntArray, digest_of

Text = str | tuple[str, str]
"""Input of a classifier: a text, or a pair of texts."""


@dataclass(frozen=True)
class LabelledTexts:
    """A data set of labelled texts, for classification.

    Attributes:
        name: Name of the task that contains the texts.
        texts: Texts, or pairs of texts.
        labels: Class of each text, as a position in `classes`, (n,).
        classes: Names of the classes.
        languages: Languages of the texts, as in the task file.
    """

    name: str
    texts: Sequence[Text]
    labels: IntArray
    classes: Sequence[str]
    languages: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: str, access: DataAccess, task_dir: str | Path | None = None) -> LabelledTexts:
        """Load the labelled texts of a transfer task or polarity task, from all splits.

        Args:
            task: Name of the task.
            access: Permitted sources of data.
            task_dir: A folder with your own task files, or one task file.

        Raises:
            InputError: If the task is unknown, has another type, or its data is missing.
        """
        spec = labelled_spec(load_tasks(task_dir), task)
        if isinstance(spec, PolaritySpec):
            loaded = spec.load(access, Settings())
            names = [*loaded.source.labels, *loaded.query.labels]
            classes, codes = np.unique(names, return_inverse=True)
            return cls(spec.name, list(loaded.texts), codes, classes.tolist(), spec.languages)
        parts = spec.read(access, Settings())
        rows: list[Any] = [row for part in parts.values() for row in part]
        texts = [row.texts if len(row.texts) > 1 else row.texts[0] for row in rows]
        labels = np.array([row.label for row in rows])
        return cls(spec.name, texts, labels, spec.labels, spec.languages)

    def drawn(self, n: int | Literal["all"], seed: int, *, field: str) -> LabelledTexts:
        """Draw a stratified sample of n texts.

        Args:
            n: Number of texts; "all" returns the whole data set.
            seed: Seed of the draw.
            field: Name of the setting for n, for the error message.

        Raises:
            InputError: If there are fewer than n texts, or more than n classes.
        """
        if n == "all":
            return self
        rows = sample(self.labels, n, seed, field=field)
        return replace(self, texts=[self.texts[row] for row in rows], labels=self.labels[rows])

    @cached_property
    def digest(self) -> str:
        """Digest of the texts, labels and classes, as 16 hexadecimal digits."""
        return digest_of([list(self.texts), self.labels.tolist(), list(self.classes)])


def labelled_spec(known: Mapping[str, TaskSpec], task: str) -> PolaritySpec | TransferSpec:
    """Return the task file of a task with classes, without loading data.

    Args:
        known: All tasks, keyed by name.
        task: Name of the task.

    Raises:
        InputError: If the task is unknown, or is not a transfer task or polarity task.
    """
    spec = choose_task(known, task)
    if not isinstance(spec, PolaritySpec | TransferSpec):
        raise InputError(
            f"`tasks` {task}: expected a task of kind transfer or polarity, got {spec.kind}"
        )
    return spec
