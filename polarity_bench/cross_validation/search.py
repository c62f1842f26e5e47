"""Search of a paper's grid for the settings of a loss, by cross-validation.

Both few-row papers report the best setting of a grid by its mean score over all folds, so the folds
that choose a setting also score it. `search` chooses on the first half of the folds, and scores the
chosen setting on the other half. Folds test different rows, so no row that tests the choice tested
a setting before; it may have been a training row. Inner folds within a fold's training rows are no
alternative: 20 rows of TREC have classes with a single row.
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
from polarity_bench.scores import ScoreKey

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
) -> list[Result]:
    """Choose settings on the first half of the folds, and store their scores on the other half.

    A setting is chosen for each way of predicting, with and without proxies, as if they were two
    losses. Settings that lose are dropped by the better of both.

    Args:
        experiments: Experiments that differ only in the settings of their loss; the first of
            several equally good ones is chosen.
        output: Folder of the results. The results of all settings are stored in the folder beside
            it that has the suffix `-search`.
        halving: Whether settings that lose are dropped after few folds, by successive halving: all
            settings run a sixteenth of the folds, for instance, the best quarter a quarter, and the
            best sixteenth all of them. Otherwise, every setting runs all folds of the half.
        workers: Number of processes that share the folds.
        bar: Function that opens a progress bar.

    Returns:
        For each way of predicting, the result of the chosen setting on the second half of the
        folds, with its arrays.

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
        means = [_mean_scores(result, n_folds) for result in results]
        if n_folds < half:
            order = sorted(range(len(left)), key=lambda place: -max(means[place].values()))
            left = [left[place] for place in order[: max(1, len(experiments) // _SHARE**rung)]]
    best = {way: max(range(len(left)), key=lambda place: means[place][way]) for way in means[0]}
    places = sorted({*best.values()})
    whole = run_experiments([left[at] for at in places], settings, workers=workers, bar=bar)
    how = {"settings": len(experiments), "halving": halving}
    return [
        _store(whole[places.index(place)], way, how, half, output) for way, place in best.items()
    ]


def _mean_scores(result: Result, n_folds: int) -> dict[ScoreKey, float]:
    """Return the mean of the main score over the first folds, for each way of predicting."""
    ways = (key for key in result.scores if key.metric == result.main_score.metric)
    return {way: float(result.arrays[str(way)][:n_folds].mean()) for way in ways}


def _store(
    chosen: Result, way: ScoreKey, how: Mapping[str, Any], half: int, output: Path
) -> Result:
    """Store the folds of a chosen setting that had no part in the choice."""
    training, folds = dict(chosen.training or {}), folds_of(chosen.arrays)[half:]
    key = replace(chosen.key, protocol={**chosen.key.protocol, "search": {**how, "by": str(way)}})
    by = " by halving" if how["halving"] else ""
    title = f"{training['title']}, chosen from {how['settings']:,}{by}"
    planned = replace(
        chosen,
        key=key,
        main_score=way,
        training={**training, "title": title},
        experiment=f"{training['recipe']['name']}-{key.digest}",
    )
    others = {str(each) for each in chosen.scores if each.part != way.part}
    kept = [{name: fold[name] for name in fold if name not in others} for fold in folds]
    found = with_folds(planned, kept)
    write_result(found, output)
    return found
