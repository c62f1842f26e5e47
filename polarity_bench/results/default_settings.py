"""Distinction between results with a task's default settings and results with other settings."""

from __future__ import annotations

from collections.abc import Sequence

from polarity_bench.results.result_files import Result
from polarity_bench.values import grouped

_REFERENCE = "reference_"


def by_settings(results: Sequence[Result]) -> list[tuple[Result, str]]:
    """Return each result with its settings that differ from the defaults of its task.

    Defaults are the settings of the task file and the default reference encoder, which is the
    encoder itself or the base of a trained encoder. A result does not record whether its reference
    is the base. If an encoder has results with only one reference, and this reference is another
    encoder, the reference counts as the base.

    Args:
        results: Results of any encoders and tasks. Results with a limit are skipped.

    Returns:
        Pairs of a result and its settings; the settings are '' if all are defaults.
    """
    whole = [result for result in results if result.limit is None]
    usual = {whose: _usual_experiment(of) for whose, of in grouped(whole, _key).items()}
    return [
        (result, "" if result.experiment == usual[_key(result)] else result.experiment)
        for result in whole
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
