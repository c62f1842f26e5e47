"""Scores, their keys, and the weightings of ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.registers import Register
from polarity_bench.values import FloatArray


@dataclass(frozen=True)
class Weighting:
    """A weighting of the ranks of retrieved sources.

    Attributes:
        name: Name in scores, options and column titles: lower-case letters and digits.
        explanation: Explanation in a few words.
        weights: Function that returns the weights of the ranks 1 to k, which sum to 1, (k,).
        version: Version of a weighting of another package; with a new one, results are recomputed.
    """

    name: str
    explanation: str
    weights: Callable[[int], FloatArray]
    version: int = 1

    @property
    def words(self) -> str:
        """How ranks are weighted, to end a sentence."""
        if self.name in {"linear", "uniform"}:
            return f"weighted {self.name}ly"
        return f"weighted by {self.name!r}: {self.explanation}"


_WEIGHTINGS = (
    # The papers' equation, and their released code.
    Weighting(
        "linear", "linear weights of ranks", lambda k: 2 * np.arange(k, 0, -1) / (k * (k + 1))
    ),
    Weighting("uniform", "equal weights of all ranks", lambda k: np.full(k, 1 / k)),
)


def _check_name(weighting: Weighting) -> None:
    if not re.fullmatch("[a-z0-9]+", weighting.name):
        raise InputError(
            "its name must have only lower-case letters and digits, because it is part of the "
            "names of scores"
        )


WEIGHTINGS = Register(
    "polarity_bench.weightings",
    Weighting,
    {each.name: each for each in _WEIGHTINGS},
    check=_check_name,
)
"""Weightings of the ranks by name, the default first."""


_NAMED_PARTS = ("accuracy", "macro_f1", "recall", "spearman", "pearson")
_RANKED = re.compile(r"(?P<name>.+?)_at_(?P<k>\d+)")


def part_title(part: str | None) -> str:
    """Return the name of a part of the data for display; '' for the whole task."""
    return "" if part is None else part or "(empty)"


@dataclass(frozen=True)
class ScoreKey:
    """Key of a score: its metric, k, weighting of the ranks and part of the data.

    `str(key)` is the name of the score in results and in mteb, and `parse` converts the name back.

    Attributes:
        metric: Name of the metric.
        k: Number of retrieved sources; None for metrics without retrieval.
        weighting: Name of the weighting of the ranks. The default, `linear`, is not in the text.
        part: Value of the task's breakdown, a class or a subset; None for the whole task.

    Raises:
        InputError: If the name would be parsed as a different key.

    Example:
        >>> str(ScoreKey("polarity", 16, "uniform", "negation"))
        'polarity_of_negation_uniform_at_16'
        >>> ScoreKey.parse("spearman_all")
        ScoreKey(metric='spearman', k=None, weighting='linear', part='all')
    """

    metric: str
    k: int | None = None
    weighting: str = "linear"
    part: str | None = None

    def __post_init__(self) -> None:
        if _fields_of(str(self)) != (self.metric, self.k, self.weighting, self.part):
            raise InputError(
                f"{self!r}: another score has the same name, {str(self)!r}; rename the part or the "
                f"column, or use ScoreKey.parse({str(self)!r}) if you mean that score"
            )

    def __str__(self) -> str:
        name = self.metric
        if self.part is not None:
            name += "_" if self.k is None and self.metric in _NAMED_PARTS else "_of_"
            name += self.part
        name += "" if self.weighting == "linear" else f"_{self.weighting}"
        return name if self.k is None else f"{name}_at_{self.k}"

    @classmethod
    def parse(cls, text: str) -> ScoreKey:
        """Return the key that a score's name stands for."""
        return cls(*_fields_of(text))


def _fields_of(text: str) -> tuple[str, int | None, str, str | None]:
    ranked = _RANKED.fullmatch(text)
    if ranked:
        name, _, weighting = ranked["name"].rpartition("_")
        if not name or weighting == "linear" or not WEIGHTINGS.has_name(weighting):
            name, weighting = ranked["name"], "linear"
        metric, of, part = name.partition("_of_")
        return metric, int(ranked["k"]), weighting, part if of else None
    for metric in _NAMED_PARTS:
        if text.startswith(f"{metric}_"):
            return metric, None, "linear", text[len(metric) + 1 :]
    return text, None, "linear", None


@dataclass(frozen=True)
class Score:
    """Value of a metric on a task, with its spread.

    Most scores are means over the queries whose value is defined.

    Attributes:
        mean: The score; NaN if no query has a defined value.
        std: Population standard deviation over the queries, as in the papers.
        ci95: Bootstrap 95 % interval of the mean.
        n: Number of defined values; None if a stored result lacks this number.
        n_undefined: Number of NaN values.
    """

    mean: float
    std: float
    ci95: tuple[float, float]
    n: int | None
    n_undefined: int = 0

    @classmethod
    def single(
        cls, value: float, n: int, ci95: tuple[float, float] = (math.nan, math.nan)
    ) -> Score:
        """Return a score that is not a mean of values, so its standard deviation is NaN."""
        return cls(value, math.nan, ci95, n, int(math.isnan(value)))
