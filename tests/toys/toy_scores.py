"""Metrics and a weighting in one module, as another project would write them."""

from __future__ import annotations

import numpy as np

from polarity_bench.metrics.register import Metric, Ranking
from polarity_bench.scores import Weighting
from polarity_bench.values import FloatArray


def first_hit(found: Ranking, weighting: str) -> FloatArray:
    """Return whether the nearest source has the query's label, (q,)."""
    return np.asarray(found.hits[:, 0], dtype=np.float64)


def miss_rate(found: Ranking, weighting: str) -> FloatArray:
    """Return the share of sources with another label, (q,)."""
    return np.asarray(1 - found.hits.mean(axis=1), dtype=np.float64)


FIRST_HIT = Metric(
    "first_hit",
    "share of queries whose nearest source has their label",
    title="hit@1",
    of_queries=first_hit,
    is_weighted=False,
)
MISS_RATE = Metric(
    "miss_rate",
    "share of the k nearest sources that have another label",
    title="misses",
    higher_is_better=False,
    of_queries=miss_rate,
    is_weighted=False,
)
GAIN = Metric(
    "gain",
    "how far P is above chance",
    title="gain",
    bounds=(-1.0, 1.0),
    components=("polarity", "polarity_chance"),
    of_means=lambda means: means["polarity"] - means["polarity_chance"],
)
STEEP = Weighting(
    "steep",
    "weights that halve from rank to rank",
    lambda k: 0.5 ** np.arange(k) / (2 - 0.5 ** (k - 1)),
)
LUCKY = Metric(
    "lucky",
    "a constant above chance",
    chance=0.5,
    bounds=(0.0, 0.6),
    of_queries=lambda found, _: np.full(len(found.hits), 0.75),
)
