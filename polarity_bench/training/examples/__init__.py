"""Examples: what losses are fed, drawn from the neighbours of a task's training texts."""

from __future__ import annotations

from typing import Literal, get_args

ExampleKind = Literal["pairs", "labelled-pairs", "triplets"]
EXAMPLE_KINDS: tuple[ExampleKind, ...] = get_args(ExampleKind)

COLUMNS: dict[ExampleKind, tuple[str, ...]] = {
    "pairs": ("anchor", "positive"),
    "labelled-pairs": ("sentence1", "sentence2"),
    "triplets": ("anchor", "positive", "negative"),
}
"""The text columns of each kind, in the order that the losses read them. Pairs have a `label`, the
class of both; labelled pairs one too, 1 where both are of one class and 0 where not."""

Mining = Literal["as-written", "as-released"]
"""How neighbours are found: as the margins paper writes, or as its released code does."""
MININGS: tuple[Mining, ...] = get_args(Mining)
