"""Sources seen in training and unseen ones: P and S side by side, and how much was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polarity_bench.boards.table import Column, Table
from polarity_bench.results import Result
from polarity_bench.types import ScoreKey, Weighting

_METRICS = {"P": "polarity", "S": "similarity"}
_WAYS = ("exactly", "normalised", "inside", "containing")


def pairs_of(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Return each task that is there with its twin of unseen sources, and that twin."""
    results = list(results)
    tasks = {result.task for result in results}
    return sorted({(r.unseen_of, r.task) for r in results if r.unseen_of and r.unseen_of in tasks})


def side_by_side(
    pair: tuple[str, str],
    heads: Sequence[tuple[str, Sequence[str]]],
    results: Sequence[Sequence[Result | None]],
    ks: Sequence[int],
    weighting: Weighting,
    rivals: Mapping[str, Sequence[str | None]] | None = None,
) -> Table:
    """Lay out P, S and the share of sources seen, of a task and of its twin.

    Args:
        pair: Their names.
        heads: Title and cells of the leading columns.
        results: Those of the task, then those of its twin, row by row.
        ks: The k of each row.
        weighting: Of the ranks.
        rivals: By metric, what each row competes with.
    """
    columns = []
    for ending, found in zip(("", ", unseen"), results, strict=True):
        for title, metric in _METRICS.items():
            keys = [ScoreKey(metric, k, weighting) for k in ks]
            scores = [r.scores.get(key) if r else None for r, key in zip(found, keys, strict=True)]
            competing = (rivals or {}).get(metric, ())
            columns.append(Column.of(f"{title}{ending}", scores, rivals=competing))
        seen = [_share(r, "sources", "normalised") if r else None for r in found]
        columns.append(Column(f"seen{ending}", seen))
    task, unseen = pair
    title = f"{task}: sources of the training file, as in the papers, and unseen ones ({unseen})"
    return Table(title, heads, columns)


def seen_in_training(results: Sequence[Result]) -> Table:
    """Lay out the shares of one encoder's sources and queries that it was trained on, by way."""
    rows = [(result, split) for result in results for split in ("sources", "queries")]
    heads = [
        ("task", [result.task for result, _ in rows]),
        ("of", [f"{result.counts[split]:,} {split}" for result, split in rows]),
    ]
    columns = [Column(f"seen {way}", [_share(r, split, way) for r, split in rows]) for way in _WAYS]
    return Table("", heads, columns)


def _share(result: Result, split: str, way: str) -> float | None:
    """Return a share of a split's texts; None where the training isn't known."""
    return result.seen[split][way] / result.counts[split] if result.seen else None
