"""Records: the state and the result of one training run of a sweep, or of one base."""

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
"""The options that distinguish bases with the same name."""
METRICS = {"polarity": ("Polarity", "P"), "similarity": ("Semantic similarity", "S")}

State = Literal["done", "failed", "left"]
"""Whether there is a result, and if not, whether the item failed or is still left to make."""


@dataclass(frozen=True)
class Record:
    """State and result of a training run, or of an untrained base, on the task trained on.

    Attributes:
        said: The settings in the grid. For a base, its model and the options that distinguish it
            from bases with the same name.
        settings: The same settings, with the defaults of the recipe.
        encoder: Name of the encoder in results.
        stored: The result, with its file; None if there is none.
        base: Digest of the item that evaluates the base; for a base, its own digest.
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
        """The base model and the task."""
        return self.settings["model"], self.task

    @property
    def k(self) -> int | None:
        """The main k of the task; None without a result."""
        return self.stored[1].main_score.k if self.stored else None

    def score(self, metric: str) -> Score | None:
        """Return the score by a metric at the task's k; None if it is missing or undefined."""
        if self.stored is None:
            return None
        found = self.stored[1].scores.get(ScoreKey(metric, self.k, self.weighting))
        return None if found is None or math.isnan(found.mean) else found


def is_said(value: Any, text: str) -> bool:
    """Return whether a text denotes a value: numbers in any format, models also by last part."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text.replace(",", "")) == value
        except ValueError:
            return False
    return text in (word(value), Path(value).name if isinstance(value, str) else "")


def word(value: Any) -> str:
    """Return a value as text, as in a grid."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return shortest(value) if isinstance(value, float) else str(value) or "''"
