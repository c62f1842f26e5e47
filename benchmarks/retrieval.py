"""Top-k retrieval side by side: ours, sentence-transformers, scikit-learn, a plain argsort.

    python benchmarks/retrieval.py [--k 16] [--dimension 384] [--repeat 3]

Two cases: a polarity task, and the neighbours of a pool's own texts, as example generation finds
them; there the others are asked for one more and drop the first, which is the query itself. Random
unit vectors; the best of three runs each, wall and CPU. Ours alone is exact: it breaks ties by
position and gives the same bits whatever the block size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers.util import semantic_search
from sklearn.neighbors import NearestNeighbors
from tabulate import tabulate

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.retrieval import top_k
from polarity_bench.values import FloatArray, IntArray

Search = Callable[[FloatArray, FloatArray, int], IntArray]


def ours(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    return top_k(Embeddings(query), Embeddings(source), k).index


def ours_of_others(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    itself = list(np.arange(len(query))[:, None])
    both = Embeddings(query), Embeddings(source)
    return top_k(*both, k - 1, excluded=itself).index


def sentence_transformers(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    found = semantic_search(torch.from_numpy(query), torch.from_numpy(source), top_k=k)
    return np.array([[hit["corpus_id"] for hit in hits] for hits in found])


def scikit_learn(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    index = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(source)
    return np.asarray(index.kneighbors(query, return_distance=False))


def argsort(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    return np.argsort(-(query @ source.T), axis=1)[:, :k]


def compare(query: FloatArray, source: FloatArray, k: int, searches: list[Search], n: int) -> str:
    """Time each search; the first is ours, that the others are held against."""
    rows: list[list[str | float]] = []
    expected: IntArray | None = None
    for search in searches:
        wall, cpu = [], []
        for _ in range(n):
            begun = time.perf_counter(), time.process_time()
            found = search(query, source, k)
            wall.append(time.perf_counter() - begun[0])
            cpu.append(time.process_time() - begun[1])
        expected = found if expected is None else expected
        equal = 100 * float((found[:, -expected.shape[1] :] == expected).mean())
        rows.append([search.__name__, min(wall), min(cpu), equal])
    head = ["search", "seconds", "CPU seconds", "equal to ours, %"]
    return tabulate(rows, head, "pipe", floatfmt=".2f")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    source, query, pool = (
        generator.standard_normal((n, options.dimension), dtype=np.float32)
        for n in (13_835, 2_767, 20_000)
    )
    for vectors in (source, query, pool):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    k, n = options.k, options.repeat
    print(f"{len(query):,} queries, {len(source):,} sources, k = {k}\n")
    task = compare(query, source, k, [ours, sentence_transformers, scikit_learn, argsort], n)
    print(f"{task}\n\n{len(pool):,} texts among themselves, k = {k}\n")
    print(compare(pool, pool, k + 1, [ours_of_others, sentence_transformers, scikit_learn], n))


if __name__ == "__main__":
    main()
