"""Records: what there is of one training of a sweep, or of one base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from polarity_bench.results.result_files import Stored
from polarity_bench.scores import Score, ScoreKey, Weighting
from polarity_bench.values import shortest

TOLD_BY = ("prompt", "max_tokens", "revision")
"""What tells bases of one name apart."""
METRICS = {"polarity": ("Polarity", "P"), "similarity": ("Semantic similarity", "S")}

State = Literal["done", "failed", "left"]
"""Whether there is a result, and if not, whether there may yet be one."""


@dataclass(frozen=True)
class Record:
    """What there is of a training, or of a base as it is, on the task trained on.

    Attributes:
        said: What the grid says of it; of a base, its model and what tells it from its like.
        settings: The same, with the defaults of its recipe.
        encoder: What it is called in results.
        stored: The result, with its file.
        base: The item that evaluates its base; of a base, itself.
    """

    kind: Literal["training", "evaluation"]
    said: Mapping[str, Any]
    settings: Mapping[str, Any]
    encoder: str
    task: str
    state: State
    stored: Stored | None
    weighting: Weighting
    base: str | None = None

    @property
    def column(self) -> tuple[str, str]:
        """The model that it begins with, and the task."""
        return self.settings["model"], self.task

    @property
    def k(self) -> int | None:
        """The task's."""
        return self.stored[1].main_score.k if self.stored else None

    def score(self, metric: str) -> Score | None:
        """Return its score by a metric, at the task's k; None where it is missing or undefined."""
        if self.stored is None:
            return None
        found = self.stored[1].scores.get(ScoreKey(metric, self.k, self.weighting))
        return None if found is None or math.isnan(found.mean) else found


def is_said(value: Any, text: str) -> bool:
    """Whether a text says a value: the number in any form, a model also by its last part."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text.replace(",", "")) == value
        except ValueError:
            return False
    return text in (word(value), Path(value).name if isinstance(value, str) else "")


def word(value: Any) -> str:
    """Say a value as a grid does."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return shortest(value) if isinstance(value, float) else str(value) or "''"
