"""Means of records over seeds, against numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from polarity_bench.results.means import mean_over_seeds, score_of, seed_means

NAN = math.nan


def record(setting: object, value: float, half: float = 0.0, **more: object) -> dict[str, object]:
    ends = {"ci_low": value - half, "ci_high": value + half}
    of_row = {"role": "measured", "metric": "polarity", "value": value, "std": 0.25}
    return {**of_row, **ends, "settings.x": setting, **more}


def test_seeds_are_averaged_within_settings_of_any_type() -> None:
    """0.8 and 0.9: deviation sqrt(0.005), t 12.7062. A run without a score counts as planned. None,
    False and text are groups of their own, in the order of the records."""
    records = [
        record("text", 0.8, 0.03),
        record(None, 0.5, 0.1),
        record("text", 0.9, 0.04),
        record(False, NAN),
        record("text", NAN),
    ]
    means = seed_means(records, "settings.x", "metric")
    assert [*means] == [(setting, "polarity") for setting in ("text", None, False)]
    half = math.hypot(12.7062 * 0.05, math.sqrt((0.03**2 + 0.04**2) / 2))
    for name, wanted in {
        "value": [0.85, 0.5, NAN],
        "seed_std": [0.005**0.5, NAN, NAN],
        "std": [NAN, 0.25, 0.25],
        "ci_low": [0.85 - half, 0.4, NAN],
        "ci_high": [0.85 + half, 0.6, NAN],
        "seed_min": [0.8, 0.5, NAN],
        "seed_max": [0.9, 0.5, NAN],
        "n_seeds": [2, 1, 0],
        "n_planned": [3, 1, 1],
    }.items():
        found = [mean[name] for mean in means.values()]
        assert found == pytest.approx(wanted, nan_ok=True, rel=1e-5), name


def test_a_published_number_keeps_its_own_spread() -> None:
    published = record("a", 0.7, role="published", std=NAN, seed_std=0.1, seed_min=0.6)
    (mean,) = seed_means([published], "settings.x").values()
    assert (mean["value"], mean["seed_std"], mean["seed_min"]) == (0.7, 0.1, 0.6)
    assert math.isnan(mean["seed_max"])


@pytest.mark.parametrize(
    ("metric", "ends"),
    [
        ("polarity", (0.0, 1.0)),
        ("joint", (0.0, 1.0)),
        ("accuracy", (0.0, 1.0)),
        ("ndcg", (0.0, 1.0)),
        ("mrr", (0.0, 1.0)),
        ("paired_accuracy", (0.0, 1.0)),
        ("similarity", (-1.0, 1.0)),
        ("spearman", (-1.0, 1.0)),
        ("retention", (0.175 - 12.7062 * 0.125, 1.0)),
        ("mse", (0.0, 0.175 + 12.7062 * 0.125)),
    ],
)
def test_a_mean_over_seeds_is_shown_with_an_interval_within_the_range_of_the_metric(
    metric: str, ends: tuple[float, float]
) -> None:
    """0.05 and 0.30: mean 0.175, standard error 0.125, t 12.7062, so [-1.41, 1.76] unclipped."""
    records = [record("a", value, metric=metric) for value in (0.05, 0.30)]
    mean = mean_over_seeds(records)
    shown = score_of(mean)
    assert (shown.mean, *shown.ci95) == pytest.approx((0.175, *ends), rel=1e-5)
    (of_sweep,) = seed_means(records, "settings.x").values()
    assert of_sweep == mean
