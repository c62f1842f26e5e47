"""What is drawn of results beside planes: P and S by k, P by phenomenon; and who was trained."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence

from polarity_bench.boards.cells import Entry, Group
from polarity_bench.boards.drawn import Bars, Lines, Series
from polarity_bench.results import Result
from polarity_bench.types import Score, ScoreKey, Weighting

_PHENOMENA = "contrast"
"""The task whose parts are phenomena."""

_BY_BASE = {"run", "sweep"}
"""Commands that measure S of a trained encoder by the base that it records, unless told another."""


def k_curves(group: Group, names: Mapping[str, str]) -> list[Lines]:
    """Lay out P and S by k, where an encoder was asked for several.

    S is by one reference, where two encoders or more share it, or all have one, or, as in the
    margins paper, of each encoder by itself where all are their own; P needs none.

    Args:
        group: What ranks.
        names: Of encoders, by digest.

    Returns:
        For each task, the lines of P and, for each reference, those of S; best last points first.
    """
    return [lines for task in group.tasks for lines in _k_curves(task, group, names)]


def _k_curves(task: str, group: Group, names: Mapping[str, str]) -> Iterator[Lines]:
    shares: dict[str, dict[str, dict[int, Result]]] = {}
    for entry, (_, result) in sorted(group.tasks[task].items()):
        share = shares.setdefault(entry.reference or entry.encoder, {})
        share.setdefault(entry.encoder, {})[entry.k] = result
    every: dict[str, dict[int, Result]] = {}
    for share in shares.values():
        for encoder, by_k in share.items():
            every.setdefault(encoder, {}).update(by_k)
    said = f"{task}, {group.weighting} weights"
    yield from _by_k(f"{said}: P by k", "P", "polarity", every, group.weighting, names)
    if len(shares) > 1 and all(entry.reference == "" for entry in group.tasks[task]):
        title = f"{said}: S by k, each encoder under itself"
        yield from _by_k(title, "S", "similarity", every, group.weighting, names)
        return
    for reference in sorted(shares, key=lambda reference: (names[reference], reference)):
        if len(shares) == 1 or len(shares[reference]) > 1:
            title = f"{said}: S under {names[reference]} by k"
            yield from _by_k(title, "S", "similarity", shares[reference], group.weighting, names)


def _by_k(
    title: str,
    y_title: str,
    metric: str,
    found: Mapping[str, Mapping[int, Result]],
    weighting: Weighting,
    names: Mapping[str, str],
) -> Iterator[Lines]:
    """Lay out the encoders that have two k's or more."""
    scores = {
        encoder: {
            k: result.scores.get(ScoreKey(metric, k, weighting)) for k, result in by_k.items()
        }
        for encoder, by_k in found.items()
    }
    several = {
        encoder: whole
        for encoder, by_k in scores.items()
        if len(whole := {k: s for k, s in by_k.items() if s and math.isfinite(s.mean)}) > 1
    }
    ks = sorted({k for by_k in several.values() for k in by_k})

    def rank(encoder: str) -> tuple[float, str]:
        last = several[encoder].get(ks[-1])
        return -(last.mean if last else -math.inf), names[encoder]

    if several:
        series = [
            series_of(names[encoder], [several[encoder].get(k) for k in ks])
            for encoder in sorted(several, key=rank)
        ]
        yield Lines(title, "k", y_title, ks, series, is_log=True)


def phenomena(group: Group, names: Mapping[str, str], weighting: Weighting) -> list[Bars]:
    """Lay out P by phenomenon at the task's main k, the encoder of the best P first.

    Args:
        group: What ranks.
        names: Of encoders, by digest.
        weighting: Of the ranks.

    Returns:
        Bars for each such k; none without results of the task.
    """
    by_k: dict[int, dict[str, Result]] = {}
    for entry, (_, result) in sorted(group.tasks.get(_PHENOMENA, {}).items()):
        if entry.k == result.main_score.k:
            by_k.setdefault(entry.k, {})[entry.encoder] = result
    return [bars for k in sorted(by_k) for bars in _phenomena(k, by_k[k], names, weighting)]


def _phenomena(
    k: int, results: Mapping[str, Result], names: Mapping[str, str], weighting: Weighting
) -> Iterator[Bars]:
    first = next(iter(results.values()))
    own = [
        key
        for key in sorted(first.scores, key=str)
        if (key.metric, key.k, key.weighting) == ("polarity", k, weighting) and key.part
    ]
    whole = ScoreKey("polarity", k, weighting)
    order = sorted(
        results, key=lambda encoder: (-results[encoder].scores[whole].mean, names[encoder])
    )
    if own:
        yield Bars(
            f"{_PHENOMENA}: P by phenomenon, k = {k}, {weighting} weights",
            "P",
            [key.part or "" for key in own],
            [series_of(names[e], [results[e].scores.get(key) for key in own]) for e in order],
            first.scores[ScoreKey("polarity_chance")].mean,
        )


def series_of(name: str, scores: Sequence[Score | None]) -> Series:
    """Lay scores out as a series, with their intervals where they have some."""
    values = [score.mean if score else math.nan for score in scores]
    ends = [s.ci95 if s and all(map(math.isfinite, s.ci95)) else None for s in scores]
    return Series(name, values, ends)


def trained(group: Group) -> frozenset[Entry]:
    """Say who was made from the encoder that S is measured with, as far as results tell.

    A result has a reference as its encoder records it as its base, or because one was asked for. It
    does not say which, but for the command that made it: of `run` without a `reference`, and of
    `sweep`, it is the base. Of what anything else made, nothing is known.
    """
    return frozenset(
        entry
        for cells in group.tasks.values()
        for entry, (_, result) in cells.items()
        if entry.reference and _is_by_base(result)
    )


def _is_by_base(result: Result) -> bool:
    try:
        _, command, *words = shlex.split(result.environment.get("command", ""))
    except ValueError:  # too few words, or a quote that never ends
        return False
    named = (word[2:].partition("=")[0] for word in words if word.startswith("--"))
    return command in _BY_BASE and "reference" not in named
