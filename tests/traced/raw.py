"""Result files and published numbers, read as plain JSON and CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from polarity_bench.results.packed_results import read_stored, result_paths
from traced.lines import Number


@dataclass(frozen=True)
class Raw:
    """A stored result.

    Attributes:
        made: Content of the provenance file.
        scores: Numbers by name.
        digest: Name of the folder of the encoder.
    """

    file: Path
    made: Mapping[str, Any]
    scores: Mapping[str, Any]
    digest: str

    @cached_property
    def task(self) -> str:
        """Name of the task."""
        return str(self.made["task"]["name"])

    @cached_property
    def encoder(self) -> str:
        """Identity of the encoder."""
        return identity(self.made["encoder"])

    @cached_property
    def reference(self) -> str:
        """Identity of the reference; '' is the encoder itself."""
        return identity(self.made["reference"]) if self.made["reference"] else ""

    @property
    def protocol(self) -> set[str]:
        """The protocol, in the words of headings."""
        said = self.made["protocol"]
        words = {" ".join(filter(None, [said["name"], said.get("preset")]))}
        words |= {f"k = {said['kfold']}"} if "kfold" in said else set()
        return words | (
            {"lower-cased"} if said.get("lower_case") and "preset" not in said else set()
        )

    def score(self, name: str) -> float:
        """Return a number from the file; NaN if undefined."""
        value = self.scores[name]
        return math.nan if value is None else float(value)

    def error(self, name: str) -> float:
        """Return the standard error of a score, from its interval."""
        return (self.score(f"{name}_ci95_high") - self.score(f"{name}_ci95_low")) / 3.919928

    def number(self, name: str) -> Number:
        """Return a score from the file, with its interval."""
        ends = [self.scores.get(f"{name}_ci95_{end}", math.nan) for end in ("low", "high")]
        return Number(self.score(name), *ends)


def identity(encoder: Mapping[str, Any]) -> str:
    """Return what identifies an encoder: no name, revision, probe or default values."""
    usual = {"similarity": "cosine", "axis": 0, "strength": None}
    said = {
        key: value for key, value in encoder.items() if key not in {"name", "revision", "probe"}
    }
    return json.dumps(
        {k: v for k, v in said.items() if (k, v) not in usual.items()}, sort_keys=True
    )


def label(encoder: Mapping[str, Any]) -> str:
    """Return the name of an encoder in tables."""
    strength = encoder.get("strength")
    said = [f"prompt {encoder['prompt']!r}"] if encoder.get("prompt") else []
    computed = [encoder["backend"]] if "backend" in encoder else []
    computed += [encoder["dtype"]] if encoder["dtype"] != "float32" else []
    said += [" ".join(computed)] if computed else []
    said += [f"{encoder['truncate_dim']} dimensions"] if "truncate_dim" in encoder else []
    said += [f"{encoder['quantize']} vectors"] if "quantize" in encoder else []
    said += (
        [f"sides {encoder['sides']}"]
        if encoder.get("sides", "query-document") != "query-document"
        else []
    )
    said += [] if strength is None else [f"strength {shortest(strength)}"]
    return f"{encoder['name']} ({', '.join(said)})" if said else str(encoder["name"])


def shortest(number: float) -> str:
    """Return a number as text, without a needless `.0`."""
    return repr(float(number)).removesuffix(".0")


def read_raw(folder: Path) -> list[Raw]:
    """Read every result below a folder that covers all queries."""
    found = []
    for file in result_paths(folder):
        made = read_stored(file.with_suffix(".provenance.json"))
        (scores,) = read_stored(file)["scores"]["test"]
        parents = list(file.relative_to(folder).parents)
        own = parents[0] if "experiments" not in file.parts else parents[2]
        if made.get("limit") is None:
            found.append(Raw(file, made, scores, own.name))
    return found


def read_cited(file: Path) -> list[dict[str, str]]:
    """Read published numbers, each with its citation and the number of its footnote."""
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    footnotes: dict[tuple[str, str], int] = {}
    for each in found:
        if not each["source"].strip():
            raise LookupError(f"{each} has no citation")
        said = each["source"], each.get("note", "")
        each["footnote"] = str(footnotes.setdefault(said, len(footnotes) + 1))
    return found


Found = TypeVar("Found")


def one(found: Sequence[Found]) -> Found:
    """Return the only item."""
    if len(found) != 1:
        raise LookupError(f"there are {len(found)} of it, not one")
    return found[0]
