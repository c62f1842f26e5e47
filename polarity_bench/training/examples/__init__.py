"""Training examples, drawn from the neighbours of a task's training texts."""

from __future__ import annotations

from typing import Literal, get_args

ExampleKind = Literal["pairs", "labelled-pairs", "triplets"]
EXAMPLE_KINDS: tuple[ExampleKind, ...] = get_args(ExampleKind)

COLUMNS: dict[ExampleKind, tuple[str, ...]] = {
    "pairs": ("anchor", "positive"),
    "labelled-pairs": ("sentence1", "sentence2"),
    "triplets": ("anchor", "positive", "negative"),
}
"""The text columns of each kind, in the order in which losses read them.

Pairs also have a `label`, the class of both texts. The `label` of labelled pairs is 1 if both texts
have the same class, else 0.
"""

Mining = Literal["as-written", "as-released"]
"""How neighbours are found: as the margins paper describes, or as its released code does."""
MININGS: tuple[Mining, ...] = get_args(Mining)
