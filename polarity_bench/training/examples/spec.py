"""Settings of generated training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polarity_bench.errors import InputError
from polarity_bench.training.examples import Mining
from polarity_bench.training.parameters import Parameters, parameter

DEFAULT_COUNT = 50_000
"""Number of examples in an epoch if neither `examples` nor `dropout` is set, as in the papers."""


@dataclass(frozen=True, kw_only=True)
class ExampleSpec(Parameters):
    """Settings for mining neighbours and drawing examples.

    If neither `examples` nor `dropout` is set, a draw has DEFAULT_COUNT examples, or all candidates
    if there are fewer.
    """

    family: ClassVar[str] = "examples"
    name: ClassVar[str] = "neighbours"

    mining: Mining = parameter(
        "as-written", "mine neighbours as the paper describes or as its code does"
    )
    neighbours: int = parameter(16, "number of neighbours of each text, k in the papers", least=1)
    threshold: float = parameter(
        0.5, "minimum cosine similarity of a neighbour, if mined as-written", least=-1, most=1
    )
    examples: int | None = parameter(
        None, "number of examples [default: 50000, or all candidates]", least=1
    )
    dropout: float | None = parameter(
        None, "share of candidates to leave out, instead of a number of examples", least=0, below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples is not None and self.dropout is not None:
            raise InputError("give `examples` or `dropout`, not both")

    def solve_count(self, n_candidates: int) -> int:
        """Return the number of examples to draw from `n_candidates` candidates."""
        if self.examples is not None:
            return self.examples
        if self.dropout is not None:
            return round((1 - self.dropout) * n_candidates)
        return min(DEFAULT_COUNT, n_candidates)

    @property
    def mined_words(self) -> str:
        """Description of the mining settings, for cards."""
        suffix = f", cosine at least {self.threshold:g}" if self.mining == "as-written" else ""
        return f"mined {self.mining}, {self.neighbours} neighbours{suffix}"
