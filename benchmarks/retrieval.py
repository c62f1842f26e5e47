"""Top-k retrieval side by side: ours, sentence-transformers, scikit-learn, mteb's similarity.

    python benchmarks/retrieval.py [--sources 13835] [--queries 2767] [--k 16]

Random unit vectors of 384 dimensions; the best of three runs each. Ours alone is exact: it breaks
ties by position and gives the same bits whatever the block size.
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

from polarity_bench.retrieval import top_k
from polarity_bench.types import Embeddings, EncoderId, FloatArray, IntArray

Search = Callable[[FloatArray, FloatArray, int], IntArray]


def ours(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    encoder = EncoderId("benchmark", "none")
    return top_k(Embeddings(query, encoder), Embeddings(source, encoder), k).index


def sentence_transformers(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    found = semantic_search(torch.from_numpy(query), torch.from_numpy(source), top_k=k)
    return np.array([[hit["corpus_id"] for hit in hits] for hits in found])


def scikit_learn(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    index = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(source)
    return np.asarray(index.kneighbors(query, return_distance=False))


def argsort(query: FloatArray, source: FloatArray, k: int) -> IntArray:
    return np.argsort(-(query @ source.T), axis=1)[:, :k]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=int, default=13_835)
    parser.add_argument("--queries", type=int, default=2_767)
    parser.add_argument("--k", type=int, default=16)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    source, query = (
        generator.standard_normal((n, 384), dtype=np.float32)
        for n in (options.sources, options.queries)
    )
    for vectors in (source, query):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = ours(query, source, options.k)
    rows = []
    for search in (ours, sentence_transformers, scikit_learn, argsort):
        seconds = []
        for _ in range(3):
            begun = time.perf_counter()
            found = search(query, source, options.k)
            seconds.append(time.perf_counter() - begun)
        rows.append([search.__name__, min(seconds), 100 * float((found == expected).mean())])
    print(f"{options.queries:,} queries, {options.sources:,} sources, k = {options.k}\n")
    print(tabulate(rows, ["search", "seconds", "equal to ours, %"], "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
