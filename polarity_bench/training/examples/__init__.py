"""Training examples: pairs and triplets of neighbouring texts in a task's training data."""

from __future__ import annotations

from typing import Literal, get_args

ExampleKind = Literal["pairs", "labelled-pairs", "triplets"]
EXAMPLE_KINDS: tuple[ExampleKind, ...] = get_args(ExampleKind)

COLUMNS: dict[ExampleKind, tuple[str, ...]] = {
    "pairs": ("anchor", "positive"),
    "labelled-pairs": ("sentence1", "sentence2"),
    "triplets": ("anchor", "positive", "negative"),
}
"""Text columns of each kind of examples, in the order that the losses expect.

Pairs also have a column `label`, the class of both texts. In labelled pairs, `label` is 1 if both
texts have the same class, else 0.
"""

Mining = Literal["as-written", "as-released"]
"""How to mine neighbours: as the margins paper describes, or as the paper's released code does."""
