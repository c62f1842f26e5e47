"""Made-up results for boards, with chance and oracle that fit their task and reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from polarity_bench.boards.board import board, find_board
from polarity_bench.encoders.base import EncoderId
from polarity_bench.render.table import Board
from polarity_bench.results.curve import Curve, Point
from polarity_bench.results.result_files import Result, ResultKey, place, scores_digest
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey

CHANCE, S_CHANCE = 0.5, 0.2
S_ORACLE, S_REFERENCE = 0.5, 0.6
"""P of the oracle is 1. If the reference's name starts with `other`, each S is 0.1 lower."""


def retention_of(s: float, shift: float = 0.0) -> float:
    return (s + shift - S_CHANCE) / (S_REFERENCE - S_CHANCE)


def joint_of(p: float, kept: float) -> float:
    lifted = max((p - CHANCE) / (1 - CHANCE), 0)
    kept = min(max(kept, 0), 1)
    return 2 * lifted * kept / (lifted + kept) if lifted and kept else 0.0


def placed(
    encoder: EncoderId,
    task: str,
    p: float,
    s: float,
    *,
    reference: EncoderId | None = None,
    ks: Sequence[int] = (16,),
    with_oracle: bool = True,
    limit: int | None = None,
) -> Result:
    """Return a result with these P and S, at every k and weighting."""
    shift = 0.1 if (reference or encoder).name.startswith("other") else 0.0
    kept = retention_of(s, shift)
    means = {
        "polarity": p,
        "similarity": s,
        "similarity_reference": S_REFERENCE - shift,
        "retention": kept,
        "joint": joint_of(p, kept),
        "knn_accuracy": p,
    }
    if with_oracle:
        most = retention_of(S_ORACLE)
        front = max(2 * p - 1, 0) * min(max(kept, 0), most) / most
        means |= {"polarity_oracle": 1.0, "similarity_oracle": S_ORACLE - shift, "front": front}
    scores = {
        ScoreKey("polarity_chance"): Score.single(CHANCE, 8),
        ScoreKey("similarity_chance"): Score.single(S_CHANCE - shift, 8),
    }
    for k, weighting in itertools.product(ks, WEIGHTINGS):
        scores |= {ScoreKey(m, k, weighting): Score.single(v, 8) for m, v in means.items()}
    parts = [f"k_{'-'.join(map(str, ks))}"] if tuple(ks) != (16,) else []
    parts += [f"reference_{reference.digest}"] if reference else []
    parts += [f"limit_{limit}"] if limit else []
    protocol = {"name": "polarity-retrieval", "version": 2, "k": list(ks)}
    return Result(
        task=task,
        kind="polarity",
        result_name=task.upper(),
        version=1,
        languages=("eng-Latn",),
        main_score=ScoreKey("joint", ks[-1]),
        key=ResultKey("task 1", f"data {task}", encoder, reference, protocol),
        scores=scores,
        counts={},
        experiment="__".join(parts),
        reference_is_default=True,
        limit=limit,
    )


def in_places(results: Sequence[Result], folder: str = "results") -> list[Result]:
    """Return results with the paths of the files that they would have."""
    place_in = partial(place, Path(folder))
    return [replace(r, path=place_in(r.key.encoder, r.experiment, r.result_name)) for r in results]


def curve_of(
    name: str, results: Mapping[float, Result], front: float, interval: tuple[float, float]
) -> Curve:
    """Return a curve with a made-up front over made-up results, which lack values per query."""
    first = next(iter(results.values()))
    fronts = {
        ScoreKey("front", k, weighting): Score(front, math.nan, interval, 8)
        for k, weighting in itertools.product(first.ks, WEIGHTINGS)
    }
    points = tuple(
        Point(
            at,
            result.key.encoder.digest,
            result.key.digest,
            scores_digest(result),
            {
                key: score.mean
                for key, score in result.scores.items()
                if key.metric in {"polarity", "similarity", "retention", "joint"}
            },
        )
        for at, result in results.items()
    )
    reference = first.key.reference or first.key.encoder
    encoder = results[max(results)].key.encoder.stored.digest
    return Curve(
        name, "strength", first.task, "question", first.limit, encoder, reference, points, fronts
    )


def read_board(
    folder: Path,
    weighting: str | None = None,
    title: str | None = None,
    **only: Sequence[str],
) -> Board:
    """Lay out the board of the results in a folder; `only` names tasks and models."""
    return board(find_board(folder, weighting, title=title, **only))
