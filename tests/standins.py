"""What tests use in place of real encoders and data sets."""

from __future__ import annotations

import csv
import hashlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from polarity_bench.types import Embeddings, EncoderId, FloatArray, IntArray

Rows = Sequence[tuple[str, str]]

_GOOD = ["warm", "kind", "bright", "fair", "calm", "lively"]
_GOOD += ["clean", "honest", "swift", "gentle", "sweet", "solid"]
_BAD = ["cold", "cruel", "dull", "unfair", "tense", "dreary"]
_BAD += ["dirty", "false", "slow", "harsh", "bitter", "shaky"]
SOURCES: Rows = [
    *((f"The {noun} was {word}.", "1") for noun, word in zip("abcdefghijkl", _GOOD, strict=True)),
    *((f"The {noun} was {word}.", "0") for noun, word in zip("abcdefghijkl", _BAD, strict=True)),
]
QUERIES: Rows = [
    ("What a warm and honest evening.", "1"),
    ("Such a gentle, lively street.", "1"),
    ("The soup was sweet and clean.", "1"),
    ("A calm and solid answer.", "1"),
    ("What a cold and false evening.", "0"),
    ("Such a harsh, dreary street.", "0"),
    ("The soup was bitter and dirty.", "0"),
    ("A tense and shaky answer.", "0"),
]


class HashEncoder:
    """Vectors of 16 numbers from a hash of the text: the same on every machine."""

    def __init__(self, name: str = "hash", spoiled: Sequence[str] = (), spoil: float = 0.0) -> None:
        self.id: EncoderId = EncoderId(name=name, weights=f"hash-{name}")
        self.encoded: list[str] = []
        self._spoiled = spoiled
        self._spoil = spoil

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.ones(len(texts), dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.encoded += texts
        vectors = np.stack([self._vector(text) for text in texts])
        for row, text in enumerate(texts):
            if text in self._spoiled:
                vectors[row] = self._spoil
        return vectors

    def _vector(self, text: str) -> FloatArray:
        key = self.id.name.encode()
        digest = hashlib.blake2b(text.encode(), digest_size=32, key=key).digest()
        return np.frombuffer(digest, dtype="<i2").astype(np.float32)


def embeddings(vectors: FloatArray) -> Embeddings:
    return Embeddings(np.asarray(vectors, dtype=np.float32), EncoderId("stand-in", "stand-in"))


def csv_text(rows: Rows, head: tuple[str, str] = ("text", "label")) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def write_task(
    folder: Path,
    name: str = "mini",
    *,
    sources: Rows = SOURCES,
    queries: Rows = QUERIES,
    k: int = 4,
    split: str = "",
    head: str = "",
    protocol: str = "",
) -> Path:
    """Write a task with its two csv files; `split`, `head`, `protocol` are lines to add."""
    (folder / f"{name}-source.csv").write_text(csv_text(sources), encoding="utf-8")
    (folder / f"{name}-query.csv").write_text(csv_text(queries), encoding="utf-8")
    file = folder / f"{name}.toml"
    file.write_text(
        f"""
name = "{name}"
kind = "polarity"
title = "Task {name}"
{head}
[labels]
0 = "bad"
1 = "good"

[splits.source]
path = "{name}-source.csv"
{split}

[splits.query]
path = "{name}-query.csv"

[protocol]
k = {k}
sources_per_query = 0
{protocol}
""",
        encoding="utf-8",
    )
    return file


@dataclass(frozen=True)
class Done:
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> Done:
    """Run a command line in this process."""
    from polarity_bench import cli

    monkeypatch.setattr(sys, "argv", ["polarity-bench", *map(str, arguments)])
    code: object = 0
    try:
        cli.main()
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    assert isinstance(code, int)
    return Done(code, captured.out, captured.err)
