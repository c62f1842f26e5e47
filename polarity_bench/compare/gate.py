"""Quality gate, which tests whether an encoder scores significantly lower than a baseline.

Each task that both have is tested separately, query by query. The tests are one-sided, so an
encoder that improves or stays the same passes. Holm's correction limits the chance of a false alarm
to 5 % for the whole run, for any number of tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polarity_bench.compare.alignment import (
    Alignment,
    align,
    needs_reference,
)
from polarity_bench.compare.paired_comparison import Comparison, compare, corrected
from polarity_bench.results.result_files import Result


@dataclass(frozen=True)
class Gate:
    """Outcome of the quality gate.

    Attributes:
        named: Name or path of the baseline, as entered by the user.
        comparisons: One-sided comparisons with the baseline, in the order of the tasks. Their
            p-values are corrected for the number of tasks.
        uncorrected: p-values of the comparisons before the correction.
        failed: Tasks of the baseline for which the run has no result.
        lacks_s: Tasks for which only P was compared.
        not_compared: Tasks of the run for which the baseline has no result.
    """

    named: str
    comparisons: tuple[Comparison, ...]
    uncorrected: tuple[float, ...] = ()
    failed: tuple[str, ...] = ()
    lacks_s: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    @property
    def fallen(self) -> list[str]:
        """Names of the tasks on which the score fell significantly or became undefined."""
        return [each.task for each in self.comparisons if each.falls]

    @property
    def is_open(self) -> bool:
        """Whether the run passes: every task has a result, and no score fell."""
        return not self.fallen and not self.failed

    @property
    def verdict(self) -> str:
        """Outcome as one line of text."""
        parts = {
            f"fell below {self.named}": self.fallen,
            "no result": self.failed,
            "S not compared": self.lacks_s,
            "not in the baseline": self.not_compared,
        }
        lines = [f"no significant decrease from {self.named}"] if self.is_open else []
        lines += [f"{what}: {', '.join(tasks)}" for what, tasks in parts.items() if tasks]
        return f"gate: {'; '.join(lines)}"


def judge(
    found: Mapping[str, Alignment],
    results: Sequence[Result],
    named: str = "the baseline",
    skipped: Collection[str] = (),
) -> Gate:
    """Compare the results of a run with the baseline by one-sided tests (see `compare`).

    Args:
        found: The baseline result of each task, see `gate_baseline.baselines`.
        results: Results of the run.
        named: Name or path of the baseline, as entered by the user.
        skipped: Tasks of the baseline that the run skipped. They count as failed.

    Returns:
        The outcome, with p-values corrected for the number of tasks.

    References:
        Holm (1979), see `significance.holm`.
    """
    new_results = {result.task: result for result in results}
    pairs = []
    for task, old in found.items():
        if task in new_results:  # The baseline's values were read before the run.
            new = align([new_results[task]], old.key)
            both = (*old.results, *new.results)
            pairs.append(Alignment(both, old.key, (*old.arrays, *new.arrays)))
    compared = [compare(pair, 0, alternative="less", n_tests=len(pairs)) for pair in pairs]
    return Gate(
        named,
        tuple(corrected(compared)),
        tuple(each.test.p for each in compared),
        (*(task for task in found if task not in new_results), *sorted(skipped)),
        tuple(each.task for each in compared if _lacks_s(each.aligned)),
        tuple(task for task in new_results if task not in found),
    )


def _lacks_s(aligned: Alignment) -> bool:
    """Return whether only P is compared, although the task's main score depends on S."""
    result = aligned.results[0]
    return needs_reference(result.main_score) and not needs_reference(aligned.key)
