"""Alignment of results query by query, the basis of paired statistics between encoders.

Results can be paired only if they have the same queries and the same scoring. They must share the
task, its data and its protocol. If the score depends on a reference encoder, they must share the
reference, too.

The values that make up a score are stored with each result. Most scores are the mean of one value
per query. Retention, joint and front are computed from several values per query. A correlation is
computed from two columns of values.

Shapes: n results, q queries (or samples, or pairs), b bootstrap samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.errors import InputError, MissingValuesError
from polarity_bench.metrics.correlation import (
    COEFFICIENTS,
    Coefficient,
    many_correlations,
    mean_ranks,
    weighted_correlation,
)
from polarity_bench.metrics.pairwise import Moments, unit_moments
from polarity_bench.metrics.register import metric_of
from polarity_bench.metrics.statistics import (
    N_SAMPLES,
    SEED,
    Bootstrap,
    Resampling,
    draws,
    ratio,
)
from polarity_bench.results.comparability import difference
from polarity_bench.results.result_files import Result, read_arrays
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import task_type
from polarity_bench.tasks.types.polarity.scoring import component_keys, derived
from polarity_bench.tasks.types.transfer import RIGHT
from polarity_bench.values import FloatArray, IntArray

_UNITS, _STRATA = "resampled_units", "resampled_strata"
_MANY = 50
"""Maximum number of results whose correlations are resampled exactly. With more results, this takes
minutes, so Spearman's correlation is approximated to first order."""
_TITLES = dict.fromkeys(("knn_accuracy", *RIGHT), "right")
"""Titles of values per query that differ from the titles of columns."""
_ROUNDING = 1e-6
"""Largest difference between two values of a query that counts as rounding. Texts encoded again, in
other batches, move S by about 1e-8, which a paired test of unchanged encoders could find."""
Arrays = Mapping[str, NDArray[Any]]


def needs_reference(key: ScoreKey) -> bool:
    """Return whether a score depends on the reference encoder."""
    return metric_of(key.metric).needs_reference


def align(results: Sequence[Result], key: ScoreKey) -> Alignment:
    """Check that results can be paired, and read the values that make up a score.

    Raises:
        MissingValuesError: If values per query are missing or damaged.
        InputError: If two results cannot be paired, a result lacks the score, or the score is
            undefined because the reference encoder is not available. The message names the files.
    """
    for other in results[1:]:
        if mismatch := first_difference(results[0], other, key):
            what, one, two = mismatch
            advice = "evaluate one of them again"
            if results[0].key.data != other.key.data:
                advice = (
                    "their queries or sources differ, and a paired test needs the same; evaluate "
                    "both on the same data, or compare their intervals (docs/own-data.md)"
                )
            if what == "reference":
                advice = "evaluate both with the same `reference`, or compare P, which ignores it"
            raise InputError(
                f"{results[0].path} and {other.path} cannot be paired: the {what} is {one!r} and "
                f"{two!r}; {advice}"
            )
    return Alignment(tuple(results), key, tuple(_arrays(result, key) for result in results))


def first_difference(one: Result, other: Result, key: ScoreKey) -> tuple[str, Any, Any] | None:
    """Return the property that differs between two results, and both of its values.

    Returns:
        The name of the property and its values; None if the results can be paired. The reference
        encoders may differ if the score does not depend on them.
    """
    if mismatch := difference(one, other):
        return mismatch
    first, second = one.key.reference_encoder, other.key.reference_encoder
    if needs_reference(key) and first.digest != second.digest:
        return "reference", f"{first.label} ({first.digest})", f"{second.label} ({second.digest})"
    return None


def _arrays(result: Result, key: ScoreKey) -> Arrays:
    """Read the arrays that make up a score, and those with the units and strata of resampling."""
    if key not in result.scores:
        raise InputError(f"{result.path}: the result has no score {key}; choose another score")
    if result.lacks_reference and needs_reference(key):
        raise InputError(
            f"{result.path}: {key} is undefined, because the reference was not available; set a "
            "`reference` and evaluate again"
        )
    names = [*(task_type(result.kind).arrays_of(key) or [str(key)])]
    if "intervals" in result.key.protocol:
        names += [_UNITS, _STRATA]
    arrays = read_arrays(result.path, names)
    if missing := [name for name in names if name not in arrays]:
        raise MissingValuesError(
            f"{result.path}: the values per query lack {missing[0]!r}; evaluate {result.task} again"
        )
    return {name: arrays[name] for name in names}


def _with_equal_columns(arrays: Sequence[Arrays]) -> tuple[Arrays, ...]:
    """Return arrays of several results in which first columns that differ by rounding are equal."""
    name = next(iter(arrays[0]))
    columns = [each[name] for each in arrays]
    by_mean = sorted(range(len(columns)), key=lambda i: float(columns[i].mean()))
    for before, i in pairwise(by_mean):
        if np.allclose(columns[i], columns[before], rtol=0, atol=_ROUNDING, equal_nan=True):
            columns[i] = columns[before]
    return tuple({**each, name: column} for each, column in zip(arrays, columns, strict=True))


def _with_equal_values(arrays: Sequence[Arrays]) -> tuple[Arrays, ...]:
    """Return arrays of several results in which values that differ by rounding are equal.

    Of each run of neighbouring values, the lowest is taken. NaN stays NaN.
    """
    rounded = [dict(each) for each in arrays]
    for name, first in arrays[0].items():
        if len(arrays) > 1 and np.issubdtype(first.dtype, np.floating):
            values = np.stack([each[name] for each in arrays])
            order = np.argsort(values, axis=0)
            ascending = np.take_along_axis(values, order, axis=0)
            ascending[1:][np.diff(ascending, axis=0) <= _ROUNDING] = -np.inf
            np.put_along_axis(values, order, np.maximum.accumulate(ascending, axis=0), axis=0)
            for each, row in zip(rounded, values, strict=True):
                each[name] = row
    return tuple(rounded)


@dataclass(frozen=True)
class Alignment:
    """Results with the same queries, and the values per query that make up one score.

    Values of a query that differ only by rounding are made equal. Of a correlation, only whole
    columns are, because single values would change the ranks within a column.

    Attributes:
        results: The results.
        key: The score.
        arrays: The stored arrays of each result, by name.
    """

    results: tuple[Result, ...]
    key: ScoreKey
    arrays: tuple[Arrays, ...]

    def __post_init__(self) -> None:
        same = _with_equal_columns if self.is_correlation else _with_equal_values
        object.__setattr__(self, "arrays", same(self.arrays))

    @property
    def is_mean(self) -> bool:
        """Whether the score is a mean over queries."""
        return not self.is_derived and not self.is_correlation

    @property
    def is_derived(self) -> bool:
        """Whether the score is computed from the means of other scores."""
        return bool(metric_of(self.key.metric).of_means)

    @property
    def is_correlation(self) -> bool:
        """Whether the score is a correlation of two columns."""
        return self.key.metric in COEFFICIENTS

    @cached_property
    def values(self) -> FloatArray:
        """Values per query whose mean is the score, (n, q).

        For a correlation, these values are products of standardised values or ranks. A score
        computed from several means has no values per query.

        Raises:
            ValueError: If the score is computed from several means.
        """
        if self.is_derived:
            raise ValueError(f"{self.key} combines several means, so it has no values per query")
        if self.is_correlation:
            return np.stack([self._products(column) for column in self._columns])
        if "label" in self.arrays[0]:
            right = [each["prediction"] == each["label"] for each in self.arrays]
            return np.stack(right).astype(np.float64)
        return self._columns

    @property
    def n_queries(self) -> int:
        """Number of queries that the score covers, and for which all results have a value."""
        if self.is_mean:
            return int((~np.isnan(self.values).any(axis=0)).sum())
        if self.is_correlation:
            return sum(len(self._gold[rows]) for rows, _ in self._weighed_subsets())
        return self._n_stored

    @property
    def _n_stored(self) -> int:
        """Number of queries with stored values, of all subsets."""
        return len(next(iter(self.arrays[0].values())))

    @cached_property
    def resampling(self) -> Resampling | None:
        """Units and strata of bootstrap samples; None if single queries are drawn."""
        first = self.arrays[0]
        if _UNITS in first:
            return Resampling(first[_UNITS], first[_STRATA])
        sizes = list(self._sizes.values())
        if self.is_correlation and len(sizes) > 1 and self.key.part != "all":
            strata = np.repeat(np.arange(len(sizes)), sizes)
            return Resampling(np.arange(len(strata)), strata)
        return None

    @property
    def n_units(self) -> int:
        """Number of independent units: queries, or pairs of queries that are drawn together."""
        if self.units is None or self.is_correlation:
            return self.n_queries
        defined = ~np.isnan(self.values).any(axis=0) if self.is_mean else slice(None)
        return len(np.unique(self.units[defined]))

    @property
    def units(self) -> IntArray | None:
        """Unit of each query, (q,); None if each query is a separate unit."""
        return None if self.resampling is None else self.resampling.units

    @cached_property
    def scores(self) -> FloatArray:
        """Score of each result, computed from the values per query, (n,)."""
        if self.is_mean:
            n_defined = (~np.isnan(self.values)).sum(axis=1)
            return ratio(np.nansum(self.values, axis=1), n_defined)
        if self.is_derived:
            means = {key: np.asarray(row.mean()) for key, row in self._parts.items()}
            return np.array([float(self._derived(means, i)) for i in range(len(self.arrays))])
        return self._correlations(np.ones((1, self._n_stored)))[:, 0]

    def resampled(self, n_samples: int = N_SAMPLES, seed: int = SEED) -> FloatArray:
        """Return the score of each result in each bootstrap sample, (n, b).

        All results use the same samples of queries.
        """
        n = len(self.arrays)
        if self.is_mean:
            means = Bootstrap(dict(enumerate(self.values)), n_samples, seed, self.resampling)
            return np.stack([means.resampled[i] for i in range(n)])
        if self.is_derived:
            # Results may share values, such as those of chance. Shared values are resampled once.
            first = {row.tobytes(): key for key, row in self._parts.items()}
            once = {key: self._parts[key] for key in first.values()}
            known = Bootstrap(once, n_samples, seed, self.resampling).resampled
            drawn = {key: known[first[row.tobytes()]] for key, row in self._parts.items()}
            return np.stack([self._derived(drawn, i) for i in range(n)])
        blocks = (w for _, w in draws(self._n_stored, n_samples, seed, self.resampling))
        if n > _MANY:
            return self._correlations(np.vstack(list(blocks)))
        return np.hstack([self._correlations(weights) for weights in blocks])

    @cached_property
    def moments(self) -> Moments:
        """Moments of the values per unit, for comparisons of scores that are means."""
        return unit_moments(self.values, self.units)

    def contributions(self) -> FloatArray:
        """Return the contribution of each query to the last score minus the first, (q,).

        For a mean, the contribution is the difference of the query's two values. For a score
        computed from several means, the contribution is q - 1 times the decrease of the difference
        if the query is left out.
        """
        if not self.is_derived:
            return np.asarray(self.values[-1] - self.values[0])
        n = self.n_queries
        without = {key: (row.sum() - row) / (n - 1) for key, row in self._parts.items()}
        last = len(self.arrays) - 1
        difference_without = self._derived(without, last) - self._derived(without, 0)
        decrease = self.scores[-1] - self.scores[0] - difference_without
        return np.asarray((n - 1) * decrease)

    @property
    def values_by_title(self) -> dict[str, FloatArray]:
        """Values per query for display, by title, each (n, q)."""
        if self.is_correlation:
            return {self._name: self._columns}
        if not self.is_derived:
            metric = self.key.metric
            return {_TITLES.get(metric) or metric_of(metric).title or metric: self.values}
        titled = {metric_of(key.metric).title: str(key) for key in self._component_keys}
        return {
            title: np.stack([each[name] for each in self.arrays])
            for title, name in titled.items()
            if title
        }

    @cached_property
    def _parts(self) -> dict[tuple[int, ScoreKey], FloatArray]:
        return {
            (i, part): each[str(part)].astype(np.float64)
            for i, each in enumerate(self.arrays)
            for part in self._component_keys
        }

    @property
    def _component_keys(self) -> list[ScoreKey]:
        return component_keys(self.key.metric, self.key.k or 0, self.key.weighting)

    def _derived(self, means: Mapping[tuple[int, ScoreKey], FloatArray], i: int) -> FloatArray:
        of_result = {key: means[i, key] for key in self._component_keys}
        return derived(of_result, self.key.metric, self.key.k or 0, self.key.weighting)

    @property
    def _columns(self) -> FloatArray:
        """Values of the first array of each result, (n, q)."""
        return np.stack([each[self._name] for each in self.arrays]).astype(np.float64)

    @property
    def _gold(self) -> FloatArray:
        return np.asarray(self.arrays[0]["gold"], np.float64)

    @property
    def _sizes(self) -> dict[str, int]:
        """Number of pairs in each subset of an STS task, in the order of the pairs."""
        result = self.results[0]
        return dict(result.counts) if task_type(result.kind).has_subsets else {}

    @property
    def _name(self) -> str:
        """Name of the score's values; the first array, because gold scores and units follow it."""
        return next(iter(self.arrays[0]))

    def _weighed_subsets(self) -> Iterator[tuple[slice, float]]:
        """Yield the rows of each subset that the score covers, with the weight of the subset."""
        part, sizes = self.key.part, self._sizes
        if part in {None, "all"}:
            yield slice(None), 1.0
            return
        weights = {
            "mean": dict.fromkeys(sizes, 1 / max(len(sizes), 1)),
            "wmean": {name: size / len(self._gold) for name, size in sizes.items()},
        }.get(part, {part: 1.0})
        for (name, size), end in zip(sizes.items(), accumulate(sizes.values()), strict=True):
            if name in weights:
                yield slice(end - size, end), weights[name]

    def _correlations(self, weights: FloatArray) -> FloatArray:
        """Return the correlation of each result in each sample of queries, (n, b).

        Args:
            weights: Number of times that each query occurs in each sample, (b, q).
        """
        columns, metric = self._columns, self.key.metric
        coefficient: Coefficient = "spearman" if metric == "spearman" else "pearson"
        total = np.zeros((len(columns), len(weights)))
        for rows, share in self._weighed_subsets():
            part, gold, counts = columns[:, rows], self._gold[rows], weights[:, rows]
            if len(columns) > _MANY:
                correlations = many_correlations(coefficient, part, gold, counts)
            else:
                of_each = partial(weighted_correlation, coefficient)
                correlations = np.stack([of_each(column, gold, counts) for column in part])
            total += share * correlations
        return total

    def _products(self, column: FloatArray) -> FloatArray:
        products = np.zeros_like(column)
        for rows, weight in self._weighed_subsets():
            sides = [column[rows], self._gold[rows]]
            if self.key.metric == "spearman":
                sides = [mean_ranks(side) for side in sides]
            centred = [side - side.mean() for side in sides]
            norm = math.prod(math.sqrt(float((side**2).sum())) for side in centred)
            of_part = centred[0] * centred[1] * (weight * len(column))
            products[rows] = of_part / norm if norm > 0 else np.nan
        return products
