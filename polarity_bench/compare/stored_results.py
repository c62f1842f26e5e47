"""Comparison of two encoders by their stored results."""

from __future__ import annotations

from pathlib import Path

from polarity_bench.compare.paired_comparison import Comparison, compare, contenders, pair_up
from polarity_bench.scores import Weighting


def compare_encoders(
    a: str,
    b: str,
    task: str,
    *,
    results: str | Path = "results",
    measure: str | None = None,
    weighting: Weighting = "linear",
    n_changed: int = 0,
) -> Comparison:
    """Test how far encoder B lies above encoder A on a task, query by query.

    Args:
        a: Name or digest of the encoder A in the results, or the file of a result.
        b: Name, digest or file of B.
        task: Name of a task that both were run on.
        results: Folder of the results.
        measure: Score to compare, such as `P` or `joint`; None compares the task's main score.
        weighting: Weighting of the ranks.
        n_changed: Number of queries to return whose values differ most.

    Raises:
        InputError: If a result is missing, or the two may not be compared.
    """
    folder = Path(results)
    aligned, _ = pair_up(
        contenders(folder, a, task), contenders(folder, b, task), measure, weighting
    )
    return compare(aligned, n_changed)
