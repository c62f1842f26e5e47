"""Units of a polarity task that intervals and tests resample: queries, pairs or equal texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarity_bench.metrics.statistics import Resampling
from polarity_bench.values import IntArray

if TYPE_CHECKING:
    from polarity_bench.tasks.types.polarity.task import PolarityTask


def resampling(task: PolarityTask) -> Resampling | None:
    """Return the units that intervals and tests resample; None means single queries.

    The twins of a minimal pair form one unit, because they were written together. Pairs are
    resampled within each value of the first group column, because the design of the task fixes
    these values. Queries with the same text, ignoring case, also form one unit.
    """
    protocol = task.spec.protocol
    if protocol.pair is not None:
        return Resampling(numbers(task.query.columns[protocol.pair]), strata_of(task))
    if task.n_repeated:
        units = numbers([text.casefold() for text in task.query.texts])
        return Resampling(units, np.zeros_like(units))
    return None


def numbers(values: Sequence[str]) -> IntArray:
    """Encode values as integers: the positions in the sorted list of distinct values."""
    return np.unique(values, return_inverse=True)[1]


def strata_of(task: PolarityTask) -> IntArray:
    """Return the first group of each query, such as the topic, as an integer code, (q,)."""
    return numbers(task.query.columns[task.spec.protocol.groups[0]])
