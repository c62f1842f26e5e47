"""Base classes of the tasks whose files have SentEval's or SemEval's layout.

Truncated copies of MR and SUBJ are in circulation and have distorted published tables. Therefore
a file is refused if its checksum or its number of rows differs from the task file.

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
from polarity_bench.data.schema import Archive, CountedFile, FileRef
from polarity_bench.data.senteval import Row, read_split
from polarity_bench.data.sources import DataAccess, obtain
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.senteval.folds import Samples, pair_features
from polarity_bench.tasks.senteval.presets import Preset
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
from polarity_bench.values import BoolArray

_FEWEST = 2
Parts = Mapping[str, Sequence[Row]]
"""Rows by split (`train`, `dev`, `test`; or `all` for a single set), or by subset of STS."""


def required_files(names: set[str]) -> dict[str, JsonValue]:
    """Return the JSON schema of the checks of `check_files`."""
    return {"files": {"required": [*sorted(names)], "propertyNames": {"enum": [*sorted(names)]}}}


class FilesSpec(TaskSpec):
    """A task file that names files of rows, each with its count."""

    files: dict[str, CountedFile]
    """Files by the names that the reader expects: `train`, `dev`, `test`, ..."""
    archive: Archive | None = None
    """Public archive with all files."""
    reader: str
    """Layout of the files."""

    @property
    def main_score(self) -> ScoreKey:
        """The score in the first column of tables."""
        return self.columns[0][1]

    def references(self) -> list[FileRef]:
        """Return the files."""
        return list(self.files.values())

    def check_files(self, names: set[str]) -> None:
        """Raise ValueError unless the file names are those that the reader expects."""
        if set(self.files) != names:
            raise ValueError(
                f"the reader {self.reader!r} needs [files] {sorted(names)}, got "
                f"{sorted(self.files)}"
            )

    def read(self, access: DataAccess, settings: Settings) -> Parts:
        """Read all rows and check their counts.

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
    """Draw rows for a quick look, and keep their order.

    The draw takes equally many rows of each class, and at least as many as the folds need.
    """
    if settings.limit is None:
        return rows
    classes: dict[int | None, list[int]] = {}
    for position, row in enumerate(rows):
        label = row.label if isinstance(row.label, int) else None
        classes.setdefault(label, []).append(position)
    each = max(math.ceil(settings.limit / len(classes)), settings.of(Preset).n_folds + 2)
    draw = np.random.default_rng(0)
    chosen = [draw.permutation(positions)[:each] for positions in classes.values()]
    return [rows[position] for position in np.sort(np.concatenate(chosen))]


@dataclass(frozen=True)
class RowsTask(Task):
    """A task with rows of labelled texts or pairs."""

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
        """Rows by split, or all rows as one part if there is no training split."""
        if "train" in self.parts:
            return self.parts
        return {"all": [row for rows in self.parts.values() for row in rows]}

    @property
    def _tested(self) -> str:
        """The part whose predictions are stored."""
        return "test" if "train" in self.parts else "all"

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """The texts and the label or score of each test row; all rows if there is no test split."""
        return [_as_item(row) for row in self._rows[self._tested]]

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[tuple[str, ...]]]:
        """The text of each row, or both texts of a pair, by split.

        If there is no training split, the rows of all parts are in the part `all`.
        """
        return {name: [row.texts for row in rows] for name, rows in self._rows.items()}

    def score_unseen(
        self, arrays: Mapping[str, NDArray[Any]], seen: Mapping[str, BoolArray]
    ) -> Score | None:
        """Return the main score over the test rows that were not training texts.

        Args:
            arrays: The values per row of a stored result.
            seen: Whether each row was a training text, (n,), by part.

        Returns:
            The score, which is NaN if fewer than two rows are left; None if no test row was seen.
        """
        rows = ~seen[self._tested]
        if (n := int(rows.sum())) < _FEWEST:
            return Score.single(math.nan, n)
        return None if rows.all() else self.main_score_of(arrays, rows)

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Return the main score over the selected test rows, from the values per row."""
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """The limit of rows of each part, for a quick look; None if there is no limit."""
        return self.settings.limit

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows of each part."""
        return {name: len(rows) for name, rows in self.parts.items()}


def _hashed_form(row: Row) -> str:
    """Return the text of a row that enters the digest.

    The text contains the names that the classes and fields had when the first digests were
    computed. Stored digests depend on these names, so they stay, whatever the classes are called
    now.
    """
    fields = ["text"] if len(row.texts) == 1 else ["first", "second"]
    texts = ", ".join(f"{name}={text!r}" for name, text in zip(fields, row.texts, strict=True))
    return f"{'TextRow' if len(fields) == 1 else 'PairRow'}({texts}, label={row.label!r})"


def _as_item(row: Row) -> dict[str, str]:
    titles = ["text"] if len(row.texts) == 1 else ["first text", "second text"]
    return dict(zip(titles, row.texts, strict=True)) | {"label": str(row.label)}


class PreparedTask(RowsTask):
    """A SentEval task, whose protocol decides how texts are prepared before they are encoded."""

    @property
    def preset(self) -> Preset:
        """The protocol's parameters."""
        return self.settings.of(Preset)

    @cached_property
    def texts(self) -> Sequence[str]:
        """All texts of all splits, prepared as the protocol requires."""
        return [text for rows in self.parts.values() for side in self._sides(rows) for text in side]

    def _sides(self, rows: Sequence[Row]) -> list[list[str]]:
        """Return the prepared texts of rows: one list, or one list per side for pairs."""
        sides = zip(*(r.texts for r in rows), strict=True)
        return [[self.preset.text(text) for text in side] for side in sides]

    def samples(self, rows: Sequence[Row], embedded: EmbeddedTexts) -> Samples:
        """Return the samples of rows: features, labels and numbers of tokens."""
        vectors = [embedded.vectors(side).vectors for side in self._sides(rows)]
        return Samples(
            features=vectors[0] if len(vectors) == 1 else pair_features(*vectors),
            labels=np.array([row.label for row in rows]),
            n_tokens=np.array([row.n_tokens for row in rows], dtype=np.int64),
        )

    def text_parameters(self) -> dict[str, Any]:
        """Return the parameters of the protocol that decide how texts are prepared."""
        return {"lower_case": self.preset.lower_case, "placeholder": self.preset.placeholder}
