"""Which of an encoder's results are those by a task's usual settings, and which are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from polarity_bench.results.result_files import Result, Stored

_REFERENCE = "reference_"


def by_settings(stored: Sequence[Stored]) -> list[tuple[Stored, str]]:
    """Return each result with what was asked differently from the task's usual settings.

    That is '' for the usual ones: those of the task's file, by the reference that is taken where
    none is named. This is the encoder itself, or the base of a trained one. A result says only
    that its reference is another encoder, so that the one reference of an encoder that has no
    result of its own counts as its base. Results that were cut for a quick look are left out.

    Args:
        stored: Results of any encoders and tasks.
    """
    whole = [each for each in stored if each[1].limit is None]
    of_one: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for _, result in whole:
        of_one[result.key.encoder.digest, result.result_name].append(result)
    usual = {of: _usual_experiment(results) for of, results in of_one.items()}
    return [
        (
            (path, result),
            ""
            if result.experiment == usual[result.key.encoder.digest, result.result_name]
            else result.experiment,
        )
        for path, result in whole
    ]


def _usual_experiment(results: Sequence[Result]) -> str:
    experiments = {result.experiment for result in results}
    bases = {
        result.experiment
        for result in results
        if result.experiment.startswith(_REFERENCE) and not result.lacks_reference
    }
    return bases.pop() if "" not in experiments and len(bases) == 1 else ""
