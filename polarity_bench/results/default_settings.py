"""Separation of results with a task's default settings from results with other settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from polarity_bench.results.result_files import Result, Stored

_REFERENCE = "reference_"


def by_settings(stored: Sequence[Stored]) -> list[tuple[Stored, str]]:
    """Return each result with the settings in which it differs from the task's defaults.

    The settings are '' for results with the defaults: the settings of the task file and the default
    reference encoder. The default reference is the encoder itself, or the base of a trained
    encoder. A result only says that its reference is another encoder. Therefore, if an encoder has
    no result with itself as the reference and a single other reference, that one counts as its
    base. Results with a limit are left out.

    Args:
        stored: Results of any encoders and tasks.
    """
    whole = [each for each in stored if each[1].limit is None]
    of_one: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for _, result in whole:
        of_one[_whose(result)].append(result)
    usual = {whose: _usual_experiment(results) for whose, results in of_one.items()}
    return [
        (each, "" if each[1].experiment == usual[_whose(each[1])] else each[1].experiment)
        for each in whole
    ]


def _whose(result: Result) -> tuple[str, str]:
    return result.key.encoder.digest, result.result_name


def _usual_experiment(results: Sequence[Result]) -> str:
    bases = {
        result.experiment
        for result in results
        if result.experiment.startswith(_REFERENCE) and not result.lacks_reference
    }
    has_own = any(not result.experiment for result in results)
    return bases.pop() if not has_own and len(bases) == 1 else ""
