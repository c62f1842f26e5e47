"""Settings of generated training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polarity_bench.errors import InputError
from polarity_bench.training.examples import Mining
from polarity_bench.training.parameters import Parameters, parameter

DEFAULT_COUNT = 50_000
"""Examples in an epoch if neither a number nor a dropout is given, as in the papers."""


@dataclass(frozen=True, kw_only=True)
class ExampleSpec(Parameters):
    """Settings for generating examples from a pool.

    If neither a number nor a dropout is given, DEFAULT_COUNT of the candidates are taken, or all if
    there are fewer.
    """

    family: ClassVar[str] = "examples"
    name: ClassVar[str] = "neighbours"

    mining: Mining = parameter("as-written", "mined as the paper describes or as its code does")
    neighbours: int = parameter(16, "neighbours of each text, k in the papers", least=1)
    threshold: float = parameter(
        0.5, "minimum cosine of a neighbour, if mined as-written", least=-1, most=1
    )
    examples: int | None = parameter(None, "how many [default: 50000, or all candidates]", least=1)
    dropout: float | None = parameter(
        None, "share of candidates left out, instead of a number", least=0, below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples is not None and self.dropout is not None:
            raise InputError("give `examples` or `dropout`, not both: one is solved from the other")

    def solve_count(self, n_candidates: int) -> int:
        """Return the number of examples to draw from this number of candidates."""
        if self.examples is not None:
            return self.examples
        if self.dropout is not None:
            return round((1 - self.dropout) * n_candidates)
        return min(DEFAULT_COUNT, n_candidates)

    @property
    def mined_words(self) -> str:
        """Description of the mining, for a card."""
        least = f", cosine at least {self.threshold:g}" if self.mining == "as-written" else ""
        return f"mined {self.mining}, {self.neighbours} neighbours{least}"
