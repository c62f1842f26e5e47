"""The task `mini`: 24 sources and 8 queries, in CSV files next to its task file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

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
    """Write a task with its two CSV files; `split`, `head` and `protocol` are extra lines."""
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
