"""Two dials in one index: how much each moves P and S on the other's task.

    python benchmarks/cross_talk.py DIAL DIAL [--tasks sst2,sarcastic-headlines] [--output FILE]

Both dials are axes on the same base. A source has the coordinates of both and the base's vector. A
query multiplies the coordinates of each dial by the dial's own strength. P is at k = 16 with linear
weights, and S is measured by the base. What a dial gains is P minus the P with this dial at 0 and
the other dial unchanged, with a paired bootstrap interval over the queries.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.probe import TEXTS
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.metrics.statistics import N_PAIRED_SAMPLES, SEED, Bootstrap, interval
from polarity_bench.retrieval import top_k
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.polarity.scoring import TaskRetrieval, rank, values_per_query
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import FloatArray

STRENGTHS = (0.0, 0.25, 1.0)
P, S = ScoreKey("polarity", 16), ScoreKey("similarity", 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dials", nargs=2, metavar="DIAL", help="folders of encoders with an axis")
    parser.add_argument("--tasks", default="sst2,sarcastic-headlines")
    parser.add_argument("--output", type=Path, default=Path("cross-talk.json"))
    asked = parser.parse_args()
    # At strength 1, the coordinates of queries and of sources have the same weight.
    encoders = [at_strength(load_encoder(dial), 1.0) for dial in asked.dials]
    found = []
    with EmbeddingStore() as store:
        check_bases(encoders, Embedder(store))
        for name in asked.tasks.split(","):
            task = load_task(name)
            assert isinstance(task, PolarityTask)
            for row in rows_of(task, encoders, Embedder(store)):
                print(row, flush=True)
                found.append(row)
    asked.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def check_bases(encoders: list[Encoder], embedder: Embedder) -> None:
    """Raise InputError if the vectors of two dials without their coordinates differ."""
    one, other = (
        embedder.embed(at_strength(encoder, 0.0), TEXTS).vectors(TEXTS).vectors
        for encoder in encoders
    )
    if one.shape != other.shape or not np.allclose(one, other, atol=1e-5):
        names = " and ".join(encoder.id.name for encoder in encoders)
        raise InputError(f"the dials {names} have different bases; train both on one base")


def rows_of(
    task: PolarityTask, encoders: list[Encoder], embedder: Embedder
) -> list[dict[str, Any]]:
    """Return P and S of a task at each pair of strengths."""
    base = embedder.embed(at_strength(encoders[0], 0.0), task.texts)
    embedded = [embedder.embed(encoder, task.texts) for encoder in encoders]
    axes = [encoder.id.axis or 0 for encoder in encoders]
    source = joined(embedded, axes, task.source.texts, (1.0, 1.0))
    theirs, found, rows = rank(task, base), {}, []
    for pair in product(STRENGTHS, repeat=2):
        query = joined(embedded, axes, task.query.texts, pair)
        retrieval = top_k(query, source, 16, excluded=task.equal_texts)
        values = values_per_query(task, TaskRetrieval(task, source, query, retrieval), theirs)
        found[pair] = values[P]
        row: dict[str, Any] = {"task": task.spec.name, "strengths": pair}
        row |= {"P": float(values[P].mean()), "S": float(values[S].mean())}
        for which, alone in enumerate([(0.0, pair[1]), (pair[0], 0.0)]):
            if pair[which]:
                row[f"P gained by dial {which + 1}"] = change(values[P] - found[alone])
        rows.append(row)
    return rows


def joined(
    embedded: list[EmbeddedTexts], axes: list[int], texts: tuple[str, ...], weights: Any
) -> Embeddings:
    """Return the weighted coordinates of both dials, before the base's vector."""
    sides = [each.vectors(texts).vectors for each in embedded]
    parts = [w * side[:, :n] for w, side, n in zip(weights, sides, axes, strict=True)]
    return Embeddings(np.hstack([*parts, sides[0][:, axes[0] :]]).astype(np.float32), "dot")


def change(differences: FloatArray) -> list[float]:
    """Return the mean of differences per query, with its 95 % interval."""
    drawn = Bootstrap({"": differences}, N_PAIRED_SAMPLES, SEED).resampled[""]
    return [float(differences.mean()), *map(float, interval(drawn, len(differences)))]


if __name__ == "__main__":
    main()
