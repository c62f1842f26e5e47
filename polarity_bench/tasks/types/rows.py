"""Tasks whose rows stand in files of SentEval's or SemEval's layout: what they share.

Truncated copies of MR and SUBJ are in circulation and have spoiled published tables; a file
whose checksum or number of rows is not the declared one is refused.

Shapes: n rows, d dimensions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from polarity_bench.data import senteval
from polarity_bench.data.readers import check_count
from polarity_bench.data.schema import Archive, CountedFile, FileRef
from polarity_bench.data.senteval import PairRow, TextRow
from polarity_bench.data.sources import DataAccess, obtain
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.senteval.folds import Samples, pair_features
from polarity_bench.tasks.senteval.presets import Preset
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
from polarity_bench.values import BoolArray

_FEWEST = 2
Row = TextRow | PairRow[int] | PairRow[float]
Parts = Mapping[str, Sequence[Row]]
"""Rows by split (`train`, `dev`, `test`, or `all` where there is one), or by subset of STS."""

_READERS: Mapping[str, Callable[[Path], Sequence[Row]]] = {
    "sst-binary": senteval.read_sst_binary,
    "sst-fine": senteval.read_sst_fine,
    "trec": senteval.read_trec,
    "mrpc": senteval.read_mrpc,
    "sick-entailment": senteval.read_sick_entailment,
    "sick-relatedness": senteval.read_sick_relatedness,
    "stsb": senteval.read_stsb,
}


def wanted_files(names: set[str]) -> dict[str, JsonValue]:
    """Say in a JSON schema what `check_files` checks."""
    return {"files": {"required": [*sorted(names)], "propertyNames": {"enum": [*sorted(names)]}}}


class FilesSpec(TaskSpec):
    """A task file that names files of rows, each with its count."""

    files: dict[str, CountedFile]
    """The files by the names that the reader wants: `train`, `dev`, `test`, ..."""
    archive: Archive | None = None
    """A public archive that holds them all."""
    reader: str
    """The layout of the files."""

    @property
    def main_score(self) -> ScoreKey:
        """The one that tables show first."""
        return self.columns[0][1]

    def references(self) -> list[FileRef]:
        """Return the files."""
        return list(self.files.values())

    def check_files(self, wanted: set[str]) -> None:
        """Refuse other files than the reader wants."""
        if set(self.files) != wanted:
            raise ValueError(
                f"the reader {self.reader!r} wants [files] {sorted(wanted)}, got "
                f"{sorted(self.files)}"
            )

    def read(self, access: DataAccess, settings: Settings) -> Parts:
        """Read all rows, every count checked.

        Raises:
            InputError: If data is missing or isn't what the task file declares.
        """
        paths = {name: obtain(file, self, access) for name, file in self.files.items()}
        parts = self._parts(paths)
        return {name: _cut(rows, settings) for name, rows in parts.items()}

    def _parts(self, paths: Mapping[str, Path]) -> Parts:
        parts = {name: _READERS[self.reader](path) for name, path in paths.items()}
        for name, rows in parts.items():
            check_count(paths[name], len(rows), self.files[name].rows)
        return parts


def _cut(rows: Sequence[Row], settings: Settings) -> Sequence[Row]:
    """Draw rows for a quick look, in their order: classes alike, each with what folds need."""
    if settings.limit is None:
        return rows
    classes: dict[int | None, list[int]] = {}
    for position, row in enumerate(rows):
        label = row.label if isinstance(row.label, int) else None
        classes.setdefault(label, []).append(position)
    each = max(math.ceil(settings.limit / len(classes)), settings.transfer.n_folds + 2)
    draw = np.random.default_rng(0)
    chosen = [draw.permutation(positions)[:each] for positions in classes.values()]
    return [rows[position] for position in np.sort(np.concatenate(chosen))]


@dataclass(frozen=True)
class RowsTask(Task):
    """A task of rows."""

    spec: FilesSpec
    parts: Parts
    settings: Settings

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over every row, in order."""
        sha = hashlib.sha256()
        for name, rows in self.parts.items():
            sha.update(f"{name} {len(rows)}\n".encode())
            for row in rows:
                sha.update(_hashed_form(row).encode() + b"\n")
        return sha.hexdigest()[:16]

    @property
    def _rows(self) -> Parts:
        """Rows by split, all together where there is none to train on."""
        if "train" in self.parts:
            return self.parts
        return {"all": [row for rows in self.parts.values() for row in rows]}

    @property
    def _tested(self) -> str:
        """The split that predictions are stored of."""
        return "test" if "train" in self.parts else "all"

    @property
    def items(self) -> Sequence[Mapping[str, str]]:
        """The rows that are tested, or all where none are apart: texts, and label or score."""
        return [_as_item(row) for row in self._rows[self._tested]]

    @property
    def rows_by_part(self) -> Mapping[str, Sequence[tuple[str, ...]]]:
        """The text of each row, or both of a pair, by split; of all subsets together."""
        return {name: [row.texts for row in rows] for name, rows in self._rows.items()}

    def score_unseen(
        self, arrays: Mapping[str, NDArray[Any]], seen: Mapping[str, BoolArray]
    ) -> Score | None:
        """Return the main score over the tested rows that were no training texts.

        Args:
            arrays: The values per query of a stored result.
            seen: Which rows were training texts, by part, (n,).

        Returns:
            The score, nan if fewer than two rows are left; None if no tested row was seen.
        """
        rows = ~seen[self._tested]
        if (n := int(rows.sum())) < _FEWEST:
            return Score.single(math.nan, n)
        return None if rows.all() else self.main_score_of(arrays, rows)

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Return the main score over some of the tested rows, from the values per query."""
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """How many rows of each part were asked for, for a quick look."""
        return self.settings.limit

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by part."""
        return {name: len(rows) for name, rows in self.parts.items()}


def _hashed_form(row: Row) -> str:
    """Write a row for the digest, in the form of the first digests.

    The words in it were the names of classes and fields then. Stored digests hold them, so they
    stay whatever those are called now.
    """
    if isinstance(row, TextRow):
        return f"TextRow(text={row.text!r}, label={row.label!r})"
    return f"PairRow(first={row.first!r}, second={row.second!r}, label={row.label!r})"


def _as_item(row: Row) -> dict[str, str]:
    titles = ["text"] if len(row.texts) == 1 else ["first text", "second text"]
    return dict(zip(titles, row.texts, strict=True)) | {"label": str(row.label)}


class PreparedTask(RowsTask):
    """A task of SentEval, whose protocol says how texts are prepared before they are encoded."""

    @property
    def preset(self) -> Preset:
        """The protocol's parameters."""
        return self.settings.transfer

    @cached_property
    def texts(self) -> Sequence[str]:
        """All texts of all splits, as the protocol wants them encoded."""
        return [text for rows in self.parts.values() for side in self._sides(rows) for text in side]

    def _sides(self, rows: Sequence[Row]) -> list[list[str]]:
        """The texts of rows, as encoded: one list, or for pairs one a side."""
        sides = zip(*(r.texts for r in rows), strict=True)
        return [[self.preset.text(text) for text in side] for side in sides]

    def samples(self, rows: Sequence[Row], embedded: EmbeddedTexts) -> Samples:
        """Return what is learned of rows, or predicted."""
        vectors = [embedded.vectors(side).vectors for side in self._sides(rows)]
        return Samples(
            features=vectors[0] if len(vectors) == 1 else pair_features(*vectors),
            labels=np.array([row.label for row in rows]),
            n_tokens=np.array([row.n_tokens for row in rows], dtype=np.int64),
        )

    def text_parameters(self) -> dict[str, Any]:
        """What of the protocol decides the texts."""
        return {"lower_case": self.preset.lower_case, "placeholder": self.preset.placeholder}
