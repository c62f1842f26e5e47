"""Defaults of training runs, as they were when plans did not store them.

Plans (`sweep.json`) now store the resolved settings of each training run. Older plans store only
the settings in the grid, and these values complete them. Do not change these values when the
default of a recipe changes: they document how old sweeps were trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "setfit": {
        "variant": "papers",
        "samples_per_class": None,
        "pairs": None,
        "batch_size": None,
        "seed": 0,
    },
    "scl": {
        "pairs": None,
        "lambda_": 0.3,
        "temperature": 1.0,
        "similarity": "dot",
        "positives": "all",
        "negatives": "all",
        "reading": "as-written",
        "cross_entropy": "pairs",
        "pooling": "mean-without-first",
        "batch_size": 64,
        "rate": 2e-05,
        "warm_up": 0.1,
        "schedule": "constant",
        "weight_decay": 0.0,
        "dtype": "float32",
        "seed": 0,
    },
    "triple-entropy": {
        "loss": "softtriple",
        "beta": None,
        "pooling": "own",
        "layers": None,
        "epochs": 2,
        "batch_size": 64,
        "rate": 1e-05,
        "head_rate": None,
        "proxy_rate": 0.001,
        "warm_up": 0.06,
        "weight_decay": 0.01,
        "dtype": "float32",
        "samples": "all",
        "seed": 0,
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

_LOSSES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "margins": {
        "triplet": {"margin": 0.1},
        "contrastive": {"margin": 0.5},
        "online-contrastive": {"margin": 0.5},
        "mnrl": {"temperature": 0.05},
        "mnrl-masked": {"temperature": 0.05},
        "cosine-similarity": {},
    },
    "triple-entropy": {
        "cce": {},
        "triplet": {"margin": 1.0},
        "npairs": {},
        "supcon": {"temperature": 0.1},
        "proxynca": {"scale": 1.0},
        "softtriple": {"proxies_per_class": 10, "gamma": 0.1, "scale": 20.0, "margin": 0.01},
        "proxyanchor": {"alpha": 32.0, "margin": 0.1},
    },
}


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of a training run by the old defaults of its recipe and its loss."""
    recipe = settings.get("recipe", "")
    found: dict[str, Any] = {}
    for name, default in _RECIPES.get(recipe, {}).items():
        found[name] = settings.get(name, default)
        if name == "loss":
            found |= _LOSSES.get(recipe, {}).get(found[name], {})
    return {**found, **settings}
