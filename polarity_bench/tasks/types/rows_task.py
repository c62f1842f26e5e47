"""Base classes of tasks with data files in the layout of SentEval or SemEval.

Truncated copies of MR and SUBJ are in circulation and have distorted published scores. Therefore a
file is rejected unless its checksum and its number of rows match the task file.

Shapes: n rows, d dimensions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from polarity_bench.data.readers import check_count
from polarity_bench.data.senteval import Row, read_split
from polarity_bench.data.sources import DataAccess, obtain
from polarity_bench.data.specs import Archive, CountedFile, FileRef
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.scores import Score
from polarity_bench.tasks.senteval.presets import Preset
from polarity_bench.tasks.senteval.transfer_protocols import Samples, pair_features
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
from polarity_bench.values import BoolArray, grouped

_FEWEST = 2
Parts = Mapping[str, Sequence[Row]]
"""Rows, keyed by split (`train`, `dev` and `test`, or `all`) or by STS subset."""


def required_files(names: set[str]) -> dict[str, JsonValue]:
    """Return a JSON schema that requires exactly these names in `files`, as `check_files` does."""
    return {"files": {"required": [*sorted(names)], "propertyNames": {"enum": [*sorted(names)]}}}


class FilesSpec(TaskSpec):
    """A task file that declares data files and the number of rows in each."""

    files: dict[str, CountedFile]
    """Data files, keyed by the names that the reader expects: `train`, `dev`, `test`, ..."""
    archive: Archive | None = None
    """Public archive that contains all files."""
    reader: str
    """Layout of the files."""

    def references(self) -> list[FileRef]:
        """Return the declared files."""
        return list(self.files.values())

    def check_files(self, names: set[str]) -> None:
        """Raise ValueError if the keys of `files` differ from the names that the reader expects."""
        if set(self.files) != names:
            raise ValueError(
                f"the reader {self.reader!r} needs [files] {sorted(names)}, got "
                f"{sorted(self.files)}"
            )

    def read(self, access: DataAccess, settings: Settings) -> Parts:
        """Read all rows, and check the number of rows of each file.

        Args:
            access: Permitted sources of data.
            settings: Settings of the protocol. A limit selects some of the rows.

        Raises:
            InputError: If data is missing or does not match the task file.
        """
        paths = {name: obtain(file, self, access) for name, file in self.files.items()}
        parts = self._parts(paths)
        for name, rows in parts.items():
            if name in self.files:
                check_count(paths[name], len(rows), self.files[name].rows)
        return {name: _cut(rows, settings) for name, rows in parts.items()}

    def _parts(self, paths: Mapping[str, Path]) -> Parts:
        return {name: read_split(path, self.reader) for name, path in paths.items()}


def _cut(rows: Sequence[Row], settings: Settings) -> Sequence[Row]:
    """Draw rows for a quick look, if there is a limit, and keep their order.

    Each class gets the same number of rows, and at least as many as the folds need.
    """
    if settings.limit is None:
        return rows
    labels = [row.label if isinstance(row.label, int) else None for row in rows]
    classes = grouped(range(len(rows)), labels.__getitem__)
    n_per_class = max(math.ceil(settings.limit / len(classes)), settings.of(Preset).n_folds + 2)
    draw = np.random.default_rng(0)
    drawn = [draw.permutation(positions)[:n_per_class] for positions in classes.values()]
    return [rows[position] for position in np.sort(np.concatenate(drawn))]


@dataclass(frozen=True)
class RowsTask(Task):
    """A task with rows of labelled texts or labelled pairs.

    Attributes:
        spec: Content of the task file.
        parts: Rows, keyed by split or subset.
        settings: Settings of the protocol.
    """

    spec: FilesSpec
    parts: Parts
    settings: Settings

    @cached_property
    def digest(self) -> str:
        """Digest of all rows, in order, as 16 hexadecimal digits."""
        sha = hashlib.sha256()
        for name, rows in self.parts.items():
            sha.update(f"{name} {len(rows)}\n".encode())
            for row in rows:
                sha.update(_hashed_form(row).encode() + b"\n")
        return sha.hexdigest()[:16]

    @property
    def _rows(self) -> Parts:
        """Rows, keyed by split; a single part `all` if there is no training split."""
        if "train" in self.parts:
            return self.parts
        return {"all": [row for rows in self.parts.values() for row in rows]}

    @property
    def _tested(self) -> str:
        """Name of the part with stored predictions."""
        return "test" if "train" in self.parts else "all"

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """Texts and label or score of each test row; of each row if there is no test split."""
        return [_as_item(row) for row in self._rows[self._tested]]

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[tuple[str, ...]]]:
        """Text or pair of texts of each row, keyed by split.

        If there is no training split, the only key is `all`.
        """
        return {name: [row.texts for row in rows] for name, rows in self._rows.items()}

    def score_unseen(
        self, arrays: Mapping[str, NDArray[Any]], seen: Mapping[str, BoolArray]
    ) -> Score | None:
        """Return the main score over the unseen test rows (see `Task.score_unseen`)."""
        rows = ~seen[self._tested]
        if (n := int(rows.sum())) < _FEWEST:
            return Score.single(math.nan, n)
        return None if rows.all() else self.main_score_of(arrays, rows)

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Compute the main score over some test rows from stored values.

        Args:
            arrays: Values per test row of a stored result.
            rows: Mask of the test rows to include, (n,).
        """
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """Limit on the number of rows per part, for a quick look; None if there is no limit."""
        return self.settings.limit

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows of each part."""
        return {name: len(rows) for name, rows in self.parts.items()}


def _hashed_form(row: Row) -> str:
    """Return the text that represents a row in the digest.

    The text contains old names of classes and fields, from the time of the first digests. Stored
    digests depend on these names, so the names must not change.
    """
    fields = ["text"] if len(row.texts) == 1 else ["first", "second"]
    texts = ", ".join(f"{name}={text!r}" for name, text in zip(fields, row.texts, strict=True))
    return f"{'TextRow' if len(fields) == 1 else 'PairRow'}({texts}, label={row.label!r})"


def _as_item(row: Row) -> dict[str, str]:
    titles = ["text"] if len(row.texts) == 1 else ["first text", "second text"]
    return dict(zip(titles, row.texts, strict=True)) | {"label": str(row.label)}


class PreparedTask(RowsTask):
    """A SentEval task. Its preset determines how texts are prepared before encoding."""

    @property
    def preset(self) -> Preset:
        """The preset of the protocol."""
        return self.settings.of(Preset)

    @cached_property
    def texts(self) -> Sequence[str]:
        """All texts of all splits, prepared for encoding as the preset specifies."""
        return [text for rows in self.parts.values() for side in self._sides(rows) for text in side]

    def _sides(self, rows: Sequence[Row]) -> list[list[str]]:
        """Return the prepared texts: one list for single texts, or two lists for pairs."""
        sides = zip(*(r.texts for r in rows), strict=True)
        return [[self.preset.text(text) for text in side] for side in sides]

    def samples(self, rows: Sequence[Row], embedded: EmbeddedTexts) -> Samples:
        """Return features, labels and token counts of rows, as input of a classifier.

        Args:
            rows: Rows of one part.
            embedded: Embeddings of all texts of the task.
        """
        vectors = [embedded.vectors(side).vectors for side in self._sides(rows)]
        return Samples(
            features=vectors[0] if len(vectors) == 1 else pair_features(*vectors),
            labels=np.array([row.label for row in rows]),
            n_tokens=np.array([row.n_tokens for row in rows], dtype=np.int64),
        )

    def text_parameters(self) -> dict[str, Any]:
        """Return the protocol parameters that determine how texts are prepared."""
        return {"lower_case": self.preset.lower_case, "placeholder": self.preset.placeholder}
