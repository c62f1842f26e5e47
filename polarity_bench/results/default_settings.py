"""Distinction between results with a task's default settings and results with other settings."""

from __future__ import annotations

from collections.abc import Sequence

from polarity_bench.results.result_files import Result, Stored
from polarity_bench.values import grouped

_REFERENCE = "reference_"


def by_settings(stored: Sequence[Stored]) -> list[tuple[Stored, str]]:
    """Return each result with its settings that differ from the defaults of its task.

    Defaults are the settings of the task file and the default reference encoder, which is the
    encoder itself or the base of a trained encoder. A result does not record whether its reference
    is the base. If an encoder has results with only one reference, and this reference is another
    encoder, the reference counts as the base.

    Args:
        stored: Results of any encoders and tasks. Results with a limit are skipped.

    Returns:
        Pairs of a result and its settings; the settings are '' if all are defaults.
    """
    whole = [each for each in stored if each[1].limit is None]
    of_one = grouped((result for _, result in whole), _key)
    usual = {whose: _usual_experiment(results) for whose, results in of_one.items()}
    return [
        (each, "" if each[1].experiment == usual[_key(each[1])] else each[1].experiment)
        for each in whole
    ]


def _key(result: Result) -> tuple[str, str]:
    return result.key.encoder.digest, result.result_name


def _usual_experiment(results: Sequence[Result]) -> str:
    bases = {
        result.experiment
        for result in results
        if result.experiment.startswith(_REFERENCE) and not result.lacks_reference
    }
    has_own = any(not result.experiment for result in results)
    return bases.pop() if not has_own and len(bases) == 1 else ""
