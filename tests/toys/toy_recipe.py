"""A recipe in one module, as another project would write it: it moves all weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from polarity_bench.training.parameters import parameter
from polarity_bench.training.recipes.base import FitResult, Recipe, TrainingContext

if TYPE_CHECKING:
    from polarity_bench.training.epoch_scores import EpochScorer


@dataclass(frozen=True, kw_only=True)
class Nudge(Recipe):
    """A recipe that adds a step to all weights."""

    name: ClassVar[str] = "nudge"
    sources: ClassVar[str] = "Nobody's."

    step: float = parameter(0.1, "how far all weights go", above=0)

    def fit(self, context: TrainingContext, examples: Any, epochs: EpochScorer) -> FitResult:
        """Add the step to all weights."""
        for weight in context.base.model.parameters():
            weight.data += self.step
        epochs.add(1, 1)
        return FitResult(1, {"Pool": f"{len(examples)} texts"})


@dataclass(frozen=True, kw_only=True)
class Clashing(Nudge):
    """A recipe whose parameter has the name of an option of `train`, and that cannot train."""

    name: ClassVar[str] = "clashing"

    task: str = parameter("sst2", "taken")

    def fit(self, context: TrainingContext, examples: Any, epochs: EpochScorer) -> FitResult:
        """Fail."""
        raise ValueError("no idea how")
