"""Search of a paper's grid for the settings of a loss, by cross-validation.

Both few-row papers report the best setting of a grid by its mean score over all folds, so the folds
that choose a setting also score it. `search` chooses on the first half of the folds, and scores the
chosen setting on the other half. Folds test different rows, so the rows of the score had no part in
the choice. Inner folds within a fold's training rows are no alternative: 20 rows of TREC have
classes with a single row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from polarity_bench.cross_validation.fold_results import (
    Experiment,
    folds_of,
    run_experiments,
    with_folds,
)
from polarity_bench.cross_validation.methods import Method, make_method
from polarity_bench.progress import Bar, no_bar
from polarity_bench.results.result_files import Result, write_result

Grid = Mapping[str, Sequence[float]]

_BETAS = (0.1, 0.3, 0.5, 0.7, 0.9)
GRIDS: dict[str, dict[str, Grid]] = {
    "few-shot": {
        "triplet": {"margin": (1, 3, 5, 7, 9), "beta": _BETAS},
        "npairs": {"beta": _BETAS},
        "supcon": {"temperature": (0.1, 0.3, 0.5, 0.7, 0.9), "beta": _BETAS},
        "proxynca": {"scale": (0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8, 2, 3, 5), "beta": _BETAS},
        "softtriple": {
            "proxies_per_class": (5, 25, 1000, 2000),
            "gamma": (0.01, 0.03, 0.05, 0.07, 0.1),
            "scale": (1, 3, 3.3, 4, 6, 8, 10),
            "margin": (0.1, 0.3, 0.5, 0.7, 0.9, 1),
            "beta": _BETAS,
        },
        "proxyanchor": {
            "alpha": (16, 32, 64, 128),
            "margin": (0, 0.1, 0.3, 0.5, 0.7, 0.9),
            "beta": _BETAS,
        },
    },
    "triple-entropy": {
        "softtriple": {
            "proxies_per_class": (10, 100, 1000),
            "gamma": (0.01, 0.03, 0.05, 0.07, 0.1),
            "scale": (1, 3, 3.3, 4, 6, 8, 10),
            "margin": (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1),
            "beta": _BETAS,
        },
    },
}
"""Grids of the papers' sections 3.3 and 3.2, by protocol and loss."""

_SHARE = 4
"""Successive halving keeps one setting of so many, and then runs so many times as many folds."""


def settings_of(loss: str, protocol: str, given: Mapping[str, Any]) -> list[Method]:
    """Return the methods of a loss with all settings of the paper's grid.

    Args:
        loss: Name of the loss. If the paper has no grid for it, there is one setting.
        protocol: Name of the paper's protocol.
        given: Parameters that replace those of the grid.

    Raises:
        InputError: If a parameter is invalid.

    Example:
        >>> len(settings_of("proxyanchor", "few-shot", {})), len(settings_of("cce", "few-shot", {}))
        (120, 1)
    """
    grid = GRIDS[protocol].get(loss, {})
    free = {key: values for key, values in grid.items() if key not in given}
    return [
        make_method(loss, {**given, **dict(zip(free, values, strict=True))})
        for values in product(*free.values())
    ]


def search(
    experiments: Sequence[Experiment],
    output: Path,
    *,
    halving: bool = False,
    workers: int = 1,
    bar: Bar = no_bar,
) -> Result:
    """Choose a setting on the first half of the folds, and store its scores on the other half.

    A setting's score is the mean of its main score over the folds, with proxies if that is better.

    Args:
        experiments: Experiments that differ only in the settings of their loss; the first of
            several equally good ones is chosen.
        output: Folder of the result. The results of all settings are stored in the folder beside it
            that has the suffix `-search`.
        halving: Whether settings that lose are dropped after few folds, by successive halving: all
            settings run a sixteenth of the folds, for instance, the best quarter a quarter, and the
            best sixteenth all of them. Otherwise, every setting runs all folds of the half.
        workers: Number of processes that share the folds.
        bar: Function that opens a progress bar.

    Returns:
        The result of the chosen setting on the second half of the folds, with its arrays.

    Raises:
        InputError: See `run_experiments`.

    References:
        Jamieson and Talwalkar (2016), Non-stochastic best arm identification and hyperparameter
        optimization, figure 3.
    """
    folder = output.resolve()  # the name of "." is empty
    settings = folder.with_name(f"{folder.name}-search")
    protocol = experiments[0].protocol
    half = protocol.folds * len(protocol.seeds) // 2
    rungs = [half]
    while halving and rungs[0] >= _SHARE:
        rungs.insert(0, rungs[0] // _SHARE)
    left = list(experiments)
    for rung, n_folds in enumerate(rungs, start=1):
        results = run_experiments(left, settings, n_folds=n_folds, workers=workers, bar=bar)
        means = [_mean_score(result, n_folds) for result in results]
        order = sorted(range(len(left)), key=lambda place: -means[place])
        n_kept = max(1, len(experiments) // _SHARE**rung) if n_folds < half else 1
        left = [left[place] for place in order[:n_kept]]
    (chosen,) = run_experiments(left, settings, workers=workers, bar=bar)
    return _store(chosen, len(experiments), half, output, halving=halving)


def _mean_score(result: Result, n_folds: int) -> float:
    """Return the mean of the main score over the first folds, by the better way of predicting."""
    ways = [key for key in result.scores if key.metric == result.main_score.metric]
    return max(float(result.arrays[str(way)][:n_folds].mean()) for way in ways)


def _store(chosen: Result, n_settings: int, half: int, output: Path, *, halving: bool) -> Result:
    """Store the folds of the chosen setting that had no part in the choice."""
    training = dict(chosen.training or {})
    how = {"settings": n_settings, "halving": halving}
    title = f"{training['title']}, chosen from {n_settings:,}{' by halving' if halving else ''}"
    key = replace(chosen.key, protocol={**chosen.key.protocol, "search": how})
    planned = replace(
        chosen,
        key=key,
        training={**training, "title": title},
        experiment=f"{training['recipe']['name']}-{key.digest}",
    )
    found = with_folds(planned, folds_of(chosen.arrays)[half:])
    write_result(found, output)
    return found
