"""The dial beside what stores offer: polarity as a payload that rescores the first candidates.

    python benchmarks/rescoring.py runs/axis [--task sst2] [--figure FILE.svg] [--output FILE.json]

A store takes the d nearest documents by the base's cosine and adds a boost to their scores: the
strength times the probability that a classifier gives the query's class in the document. It is
computed exactly here, with the axis's own classifier, so that only the form differs: the dial is
added before the search, to all documents. P and S at k = 16, linear weights, the base as the
reference.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.steered import at_strength
from polarity_bench.retrieval import Retrieval
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import TaskRetrieval, rank, values_per_query
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import FloatArray, IntArray

STRENGTHS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0)
DEPTHS = (16, 64, 256, 1024)
K = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="folder of an encoder with an axis")
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--figure", type=Path, help="draw P against S to this .svg file")
    parser.add_argument("--output", type=Path, default=Path("rescoring.json"))
    options = parser.parse_args()
    rows = measure(options.model, options.task)
    options.output.write_text(json.dumps(rows, indent=1))
    if options.figure:
        draw(rows, options.figure)
    for row in rows:
        print(*row.values())


def measure(model: str, name: str) -> list[dict[str, Any]]:
    """Return P and S of the dial and of rescoring, by depth and strength."""
    (spec,) = choose_tasks(load_tasks(), names=[name])
    task: Any = spec.load(DataAccess.from_environment(), Settings(ks=(K,)))
    encoder = load_encoder(model)
    embedder = Embedder(MemoryStore(list(dict.fromkeys(task.texts))))
    by_strength = {at: embedder.embed(at_strength(encoder, at), task.texts) for at in STRENGTHS}
    base = rank(task, by_strength[0.0])
    rows = [
        row_of("dial", at, task, rank(task, embedded), base) for at, embedded in by_strength.items()
    ]
    sides = by_strength[1.0].queries(task.query.texts), by_strength[1.0].sources(task.source.texts)
    of_query, of_source = (
        probabilities(side.vectors[:, : encoder.id.axis].astype(np.float64)) for side in sides
    )
    probability = of_source[:, of_query.argmax(axis=1)].T  # of the query's class, (q, s)
    cosine = base.query.vectors.astype(np.float64) @ base.source.vectors.T.astype(np.float64)
    for query, equal in enumerate(task.equal_texts):
        cosine[query, list(equal)] = -np.inf
    nearest = np.argsort(-cosine, axis=1, kind="stable")
    for depth in (*DEPTHS, cosine.shape[1]):
        candidates = nearest[:, :depth]
        for strength in STRENGTHS:
            first = np.take_along_axis(cosine, candidates, axis=1)
            boost = np.take_along_axis(probability, candidates, axis=1)
            best = np.argsort(-(first + strength * boost), axis=1, kind="stable")[:, :K]
            index = np.take_along_axis(candidates, best, axis=1)
            found = Retrieval(index, np.take_along_axis(cosine, index, axis=1))
            rescored = TaskRetrieval(task, base.source, base.query, found)
            title = "all" if depth == cosine.shape[1] else f"{depth:,}"
            rows.append(row_of(f"rescored, first {title}", strength, task, rescored, base))
    return rows


def best_of(index: IntArray, similarity: FloatArray, k: int) -> Retrieval:
    """Return the k best candidates of each query by their similarity; of equal ones the first.

    Args:
        index: Positions of the candidates, (q, depth).
        similarity: Their similarity to the query, (q, depth).
        k: Number of candidates to return.
    """
    best = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    first = np.take_along_axis(index, best, axis=1)
    return Retrieval(first, np.take_along_axis(similarity, best, axis=1))


def probabilities(coordinates: FloatArray) -> FloatArray:
    """Return the probabilities of the classes that an axis's coordinates stand for, (t, c)."""
    if coordinates.shape[1] == 1:
        return np.hstack([1 - coordinates, 1 + coordinates]) / 2
    n_classes = coordinates.shape[1]
    return np.asarray(coordinates * np.sqrt((n_classes - 1) / n_classes) + 1 / n_classes)


def row_of(
    title: str, strength: float, task: PolarityTask, found: TaskRetrieval, base: TaskRetrieval
) -> dict[str, Any]:
    values = values_per_query(task, found, base)
    p, s = (100 * float(values[ScoreKey(name, K, "linear")].mean()) for name in _METRICS)
    return {"method": title, "strength": strength, "P": round(p, 2), "S": round(s, 2)}


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw a line of P against S for each method."""
    import altair as alt
    import vl_convert

    order = list(dict.fromkeys(row["method"] for row in rows))
    numbered = [row | {"order": place} for place, row in enumerate(rows)]
    chart = (
        alt.Chart(alt.InlineData(values=numbered), width=460, height=320)
        .mark_line(point=True)
        .encode(
            x=alt.X("S:Q", scale=alt.Scale(zero=False), title="S (percent)"),
            y=alt.Y("P:Q", scale=alt.Scale(zero=False), title="P (percent)"),
            color=alt.Color("method:N", sort=order, title=None),
            order="order:Q",
        )
        .configure(background="white", font="sans-serif")
    )
    file.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")


_METRICS = ("polarity", "similarity")


if __name__ == "__main__":
    main()
