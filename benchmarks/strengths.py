"""One index, six strengths: what each costs, and whether FAISS finds the same.

    python benchmarks/strengths.py runs/axis [--task contrast] [--k 16]

The texts of a task are encoded once; then its queries are ranked at six strengths over the same
source vectors, by us and by FAISS's exact inner-product index, which is built once. At strength 0
FAISS ranks by the queries with an axis of 0. Where a query of SST-2 differs, its last neighbour
ties with the next, since they differ in letter case alone, and FAISS takes the later. CPU seconds,
on one thread each.
"""

from __future__ import annotations

import argparse
import time

import faiss
import numpy as np
from tabulate import tabulate

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.steered import at_strength
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import rank
from polarity_bench.tasks.types.polarity.task import PolarityTask

STRENGTHS = (-1.0, 0.0, 0.1, 0.25, 0.5, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of an encoder with an axis")
    parser.add_argument("--task", default="contrast")
    parser.add_argument("--k", type=int, default=16)
    asked = parser.parse_args()
    faiss.omp_set_num_threads(1)
    (spec,) = choose_tasks(load_tasks(), names=[asked.task])
    task = spec.load(DataAccess.from_environment(), Settings(ks=(asked.k,)))
    assert isinstance(task, PolarityTask)
    encoder = load_encoder(asked.model)
    embedder = Embedder(MemoryStore(list(dict.fromkeys(task.texts))))
    begun = time.process_time()
    embedded = embedder.embed(encoder, task.texts)
    rows: list[list[object]] = [["encode", time.process_time() - begun, None, None]]
    begun = time.process_time()
    sources = embedded.sources(task.source.texts).vectors
    index = faiss.IndexFlatIP(sources.shape[1])
    index.add(np.ascontiguousarray(sources))
    rows.append(["index", None, time.process_time() - begun, None])
    spare = 8  # what equals the query is ours to leave out, and FAISS's to find
    for strength in STRENGTHS:
        turned = embedder.embed(at_strength(encoder, strength), task.texts)
        begun = time.process_time()
        found = rank(task, turned).retrieval.index
        ours = time.process_time() - begun
        queries = sources_like(turned.queries(task.query.texts).vectors, sources.shape[1])
        begun = time.process_time()
        _, theirs = index.search(queries, asked.k + spare)
        seconds = time.process_time() - begun
        same = np.mean(
            [
                agree(ours_, theirs_, task, q)
                for q, (ours_, theirs_) in enumerate(zip(found, theirs, strict=True))
            ]
        )
        rows.append([f"rank at {strength:g}", ours, seconds, f"{same:.4%}"])
    heads = ["", "ours (s)", "FAISS (s)", "queries with the same neighbours"]
    print(tabulate(rows, heads, tablefmt="pipe", floatfmt=".3f", missingval="-"))


def sources_like(queries: np.ndarray, dimension: int) -> np.ndarray:
    """Give queries without an axis one of 0."""
    padded = np.zeros((len(queries), dimension), dtype=np.float32)
    padded[:, : queries.shape[1]] = queries
    return padded


def agree(ours: np.ndarray, theirs: np.ndarray, task: PolarityTask, query: int) -> bool:
    """Whether both found the same set, what equals the query left out."""
    texts, asked = task.source.texts, task.query.texts[query]
    kept = [i for i in theirs.tolist() if texts[i] != asked][: len(ours)]
    return set(kept) == set(ours.tolist())


if __name__ == "__main__":
    main()
