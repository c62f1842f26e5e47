"""Saved vectors as an encoder: files of texts and their vectors, from any API or library.

`vectors:PATH` reads one of three layouts, or a folder of such files:

- A parquet file with a column `text` and either one column of lists (`vector`) or one column of
  floats per dimension.
- An `.npy` matrix, and the texts of its rows in a `.jsonl`, `.json` or `.txt` file.

Shapes: n texts, d dimensions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.baselines import UnpaddedEncoder, check_rows, read_matrix
from polarity_bench.errors import InputError
from polarity_bench.files import read_errors
from polarity_bench.values import FloatArray

_TEXT_FILES = (".jsonl", ".json", ".txt")
_ROWS = 65_536
"""Number of rows to check and hash at once."""


class SavedVectorsEncoder(UnpaddedEncoder):
    """Encoder that looks up the vectors of texts in files.

    The identity covers the texts and their vectors in float32. It does not depend on the layout,
    the name or the order of the files, or on another float dtype with the same values.

    Args:
        path: A parquet file, an `.npy` file next to the file of its texts, or a folder of these.

    Raises:
        InputError: If a file is missing or damaged, if texts and vectors do not match, if a vector
            is zero or not finite, or if a text has two different vectors.
    """

    def __init__(self, path: Path) -> None:
        parts = [(file, *_read(file)) for file in _files(path)]
        width = parts[0][2].shape[1]
        for file, own, part in parts:
            _check_usable(file, own, part, width)
        texts = [text for _, own, _ in parts for text in own]
        vectors = parts[0][2] if len(parts) == 1 else np.concatenate([part[2] for part in parts])
        self._rows: dict[str, int] = {}
        for row, text in enumerate(texts):
            first = self._rows.setdefault(text, row)
            if first != row and not np.array_equal(vectors[first], vectors[row]):
                raise InputError(
                    f"{path}: the text {text[:60]!r} has two different vectors; keep one of them"
                )
        self._vectors = vectors
        sha, ordered = hashlib.sha256(), sorted(self._rows)
        sha.update(json.dumps(ordered).encode())
        for start in range(0, len(ordered), _ROWS):
            rows = [self._rows[text] for text in ordered[start : start + _ROWS]]
            sha.update(np.ascontiguousarray(vectors[rows], dtype="<f4").data)
        name = path.resolve().name if path.is_dir() else path.stem
        self.id = EncoderId(name=name, weights=f"vectors {sha.hexdigest()[:16]}")
        self.path = path

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct texts without a vector, in the order of `texts`."""
        return [text for text in dict.fromkeys(texts) if text not in self._rows]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the saved vectors of texts, (b, d) float32.

        Raises:
            InputError: If a text has no vector.
        """
        check_saved(self, texts)
        return self._vectors[[self._rows[text] for text in texts]].astype(np.float32)


def check_saved(encoder: Encoder | None, texts: Sequence[str]) -> None:
    """Check that an encoder of saved vectors has all texts; other encoders pass.

    Call this function before any text is encoded, because looking up texts fails late.

    Raises:
        InputError: If a text has no vector.
    """
    if not isinstance(encoder, SavedVectorsEncoder) or not (missing := encoder.missing(texts)):
        return
    shown = ", ".join(repr(text if len(text) <= 60 else f"{text[:60]}…") for text in missing[:3])
    raise InputError(
        f"{encoder.path}: no vector for {len(missing):,} of {len(set(texts)):,} texts, which are "
        f"compared exactly: {shown}{', …' if len(missing) > 3 else ''}; write all texts with "
        "`polarity-bench texts`, embed them, and save their vectors here"
    )


def _files(path: Path) -> list[Path]:
    """Return the parquet and .npy files of a path."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if files := [file for file in files if file.suffix in {".parquet", ".npy"}]:
        return files
    raise InputError(
        f"{path}: expected a .parquet or .npy file or a folder of these, got none; save the "
        "vectors there"
    )


def _read(file: Path) -> tuple[list[str], FloatArray]:
    """Return the texts of a file and their vectors, (n, d).

    Raises:
        InputError: If the file or the file of its texts is missing, damaged or has another layout.
    """
    if file.suffix == ".parquet":
        with read_errors(file, " as a parquet file", "is the file complete?"):
            texts, vectors = _read_parquet(file)
    else:
        vectors, named = read_matrix(file), _texts_beside(file)
        with read_errors(named, " as a list of texts in UTF-8", "is the file complete?"):
            texts = _read_texts(named)
        check_rows(file, vectors, len(texts), f"texts in {named.name}")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(
                f"{file}: text {number} is not a string, got {text!r:.40}; save each text as a "
                'string, in .json and .jsonl files also as {"text": "…"}'
            )
    if not vectors.size or vectors.dtype.kind not in "fi":
        raise InputError(
            f"{file}: expected vectors of floats or signed integers, got {len(vectors)} vectors "
            f"of {vectors.dtype}"
        )
    return texts, vectors


def _texts_beside(file: Path) -> Path:
    """Return the file with the texts of an .npy file's rows."""
    beside = [file.with_suffix(end) for end in _TEXT_FILES if file.with_suffix(end).is_file()]
    # The names of a single pair need not match: vectors.npy and texts.jsonl.
    if not beside and len(list(file.parent.glob("*.npy"))) == 1:
        beside = sorted(other for other in file.parent.iterdir() if other.suffix in _TEXT_FILES)
    if len(beside) != 1:
        raise InputError(
            f"{file}: expected one file with the texts of its rows, got "
            f"{', '.join(other.name for other in beside) or 'none'}; write the texts to "
            f"{file.with_suffix('.jsonl').name} in the same folder"
        )
    return beside[0]


def _read_texts(file: Path) -> list[Any]:
    content = file.read_bytes().decode("utf-8-sig")
    lines = content.removesuffix("\n").split("\n") if content else []
    if file.suffix == ".txt":
        return [line.removesuffix("\r") for line in lines]
    rows = json.loads(content) if file.suffix == ".json" else list(map(json.loads, lines))
    return [row.get("text") if isinstance(row, dict) else row for row in rows]


def _read_parquet(file: Path) -> tuple[list[Any], FloatArray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    kinds = {field.name: field.type for field in table.schema}
    lists = [name for name, kind in kinds.items() if pa.types.is_nested(kind)]
    lists = ["vector"] if "vector" in lists else lists
    floats = [name for name, kind in kinds.items() if pa.types.is_floating(kind)]
    if "text" not in kinds or len(lists) > 1 or not (lists or floats):
        raise InputError(
            f"{file}: expected the column 'text', and a column 'vector' of lists or a column of "
            f"floats per dimension, got {', '.join(kinds)}"
        )
    texts = table["text"].to_pylist()
    if not lists:
        return texts, np.column_stack([table[name].to_numpy() for name in floats])
    rows = [[] if row is None else row for row in table[lists[0]].to_numpy()]
    if len(lengths := {len(row) for row in rows}) > 1:
        raise InputError(
            f"{file}: the vectors must have the same length, got from {min(lengths)} to "
            f"{max(lengths)} numbers"
        )
    return texts, np.array(rows)


def _check_usable(file: Path, texts: Sequence[str], vectors: FloatArray, width: int) -> None:
    if vectors.shape[1] != width:
        raise InputError(
            f"{file}: expected vectors of {width} dimensions as in the first file, got "
            f"{vectors.shape[1]}"
        )
    for start in range(0, len(vectors), _ROWS):
        with np.errstate(over="ignore"):
            block = np.asarray(vectors[start : start + _ROWS], dtype=np.float32)
        usable = np.isfinite(block).all(axis=1) & block.any(axis=1)
        if not usable.all():
            row = start + int(usable.argmin())
            raise InputError(
                f"{file}: vector {row + 1}, of the text {texts[row][:60]!r}, is zero or not finite "
                "in float32; embed this text again"
            )
