"""Defaults of recipes and losses at the time when plans did not store them.

Plans (`sweep.json`) store all settings of each training run. Older plans store only the settings in
the grid, and this module adds the defaults that were used. Do not change these values when the
default of a recipe changes, because they document how old sweeps were trained.

All published older plans use the recipes `margins` and `axis`. The defaults of the other recipes
have not changed since then, so `with_defaults` completes their plans. Before you change such a
default, record its old value here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polarity_bench.sweeps.plan import with_defaults

_RECIPES: Mapping[str, Mapping[str, Any]] = {
    "margins": {
        "mining": "as-written",
        "neighbours": 16,
        "threshold": 0.5,
        "examples": None,
        "dropout": None,
        "loss": "triplet",
        "examples_from": None,
        "example_encoder": None,
        "epochs": 5,
        "batch_size": 64,
        "rate": 3e-05,
        "warm_up": 0.1,
        "schedule": "linear",
        "weight_decay": 0.01,
        "dtype": "float32",
        "accumulation": 1,
        "seed": 0,
        "patience": 3,
        "checkpoint": "best",
        "held_out": None,
        "report_to": "none",
    },
    "axis": {
        "head": "linear",
        "probe": "logistic",
        "labels": "all",
        "labels_from": None,
        "stretch": None,
        "strength": 1.0,
        "keep": 10.0,
        "epochs": 2,
        "batch_size": 64,
        "rate": 5e-05,
        "dtype": "float32",
        "seed": 0,
    },
}

_LOSSES: Mapping[str, Mapping[str, Any]] = {
    "triplet": {"margin": 0.1},
    "contrastive": {"margin": 0.5},
    "online-contrastive": {"margin": 0.5},
    "mnrl": {"temperature": 0.05},
    "mnrl-masked": {"temperature": 0.05},
}


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the old defaults of the recipe and the loss to the settings of a training run."""
    old = _RECIPES.get(settings.get("recipe", ""))
    if old is None:
        return with_defaults(settings)
    chosen = {**old, **settings}
    return {**old, **_LOSSES.get(chosen.get("loss", ""), {}), **settings}
