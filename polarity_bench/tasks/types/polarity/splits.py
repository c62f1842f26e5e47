"""Queries and sources of a polarity task, and the units that intervals and tests resample.

Shapes: q queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, JsonValue, StrictInt

from polarity_bench.data.split import Split
from polarity_bench.metrics.register import METRICS
from polarity_bench.metrics.statistics import Resampling
from polarity_bench.validation import Seed, Strict
from polarity_bench.values import IntArray

_PAIRS: dict[str, JsonValue] = {
    "if": {"required": ["pair"]},
    "then": {"required": ["groups"], "properties": {"groups": {"minItems": 1}}},
}


def _describe_groups(schema: dict[str, Any]) -> None:
    """Add to the JSON schema that a group may not have the name of a metric."""
    schema["items"] = {"type": "string", "not": {"enum": sorted(METRICS)}}


class PolarityProtocol(Strict):
    """Protocol settings in the task file of a polarity task."""

    model_config = ConfigDict(json_schema_extra=_PAIRS)

    k: Annotated[StrictInt, Field(ge=1)] = 16
    """Number of sources that each query retrieves."""
    sources_per_query: Annotated[StrictInt, Field(ge=0)] = 0
    """Sources to draw, without replacement, as a multiple of the queries; 0 keeps all sources."""
    n_queries: Annotated[StrictInt, Field(ge=2)] | None = None
    """Queries to draw, with equal numbers of each class as far as possible; all by default."""
    sample_seed: Seed = 42
    """Seed of the random draws of sources and queries."""
    overlap: Annotated[StrictInt, Field(ge=0)] | None = None
    """Expected number of queries that also occur among the sources, ignoring case."""
    groups: tuple[str, ...] = Field((), json_schema_extra=_describe_groups)
    """Columns to score, such as the topic: share of the k nearest with the query's value."""
    breakdown: str | None = None
    """Column of the queries. P is also reported for each value of this column."""
    pair: str | None = None
    """Column with an identifier that both twins of a minimal pair share; needs `groups`."""


class PolarityData:
    """The part of a polarity task that scores are computed from.

    Attributes:
        source: The sources; if similarities tie, the earlier source ranks first.
        query: The queries.
        ks: Values of k to score, ascending.
    """

    source: Split
    query: Split
    ks: tuple[int, ...]

    @property
    def design(self) -> PolarityProtocol:
        """Settings in the task file."""
        raise NotImplementedError

    @cached_property
    def equal_texts(self) -> list[IntArray]:
        """Positions of the sources with the same text as the query, one array per query.

        They are excluded from retrieval, because a query must not retrieve itself.
        """
        positions: dict[str, list[int]] = {text: [] for text in self.query.texts}
        for i, text in enumerate(self.source.texts):
            if text in positions:
                positions[text].append(i)
        return [np.asarray(positions[text], dtype=np.int64) for text in self.query.texts]

    @cached_property
    def n_repeated(self) -> int:
        """Number of queries that repeat the text of an earlier query, ignoring case."""
        return len(self.query) - len({text.casefold() for text in self.query.texts})

    @property
    def resampling(self) -> Resampling | None:
        """Units that intervals and tests resample; None means single queries.

        The twins of a minimal pair form one unit, because they were written together. Pairs are
        resampled within each value of the first group column, because the design of the task fixes
        these values. Queries with the same text, ignoring case, also form one unit.
        """
        if self.design.pair is not None:
            return Resampling(numbers(self.query.columns[self.design.pair]), self.strata)
        if self.n_repeated:
            units = numbers([text.casefold() for text in self.query.texts])
            return Resampling(units, np.zeros_like(units))
        return None

    @property
    def strata(self) -> IntArray:
        """The first group of each query, such as the topic, as an integer code, (q,)."""
        return numbers(self.query.columns[self.design.groups[0]])


def numbers(values: Sequence[str]) -> IntArray:
    """Encode values as integers: the positions in the sorted list of distinct values."""
    # An array of texts would need as much memory for each text as for the longest.
    code_of = {value: code for code, value in enumerate(sorted(set(values)))}
    return np.array([code_of[value] for value in values], dtype=np.int64)
