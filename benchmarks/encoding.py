"""Encoding side by side: our batches by token budget, and SentenceTransformer.encode's defaults.

    python benchmarks/encoding.py [--model minilm] [--task contrast] [--limit 1000]

The same texts, the same model object; the best of two runs each.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from tabulate import tabulate

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--task", default="contrast")
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    encoder = load_encoder(options.model)
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise SystemExit(f"{options.model} is no sentence-transformers model")
    (spec,) = choose_tasks(load_tasks(), names=[options.task])
    distinct = list(dict.fromkeys(spec.load(DataAccess.from_environment(), Settings()).texts))
    texts = distinct[: options.limit]
    n_tokens = int(encoder.count_tokens(texts).sum())

    ours, theirs = [], []
    for _ in range(2):
        begun = time.perf_counter()
        vectors = Embedder().embed(encoder, texts).vectors(texts).vectors
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        expected = encoder.model.encode(texts, show_progress_bar=False)
        theirs.append(time.perf_counter() - begun)
    largest = float(np.abs(vectors - expected).max())
    rows = [
        ["polarity-bench", len(texts) / min(ours), n_tokens / min(ours)],
        ["SentenceTransformer.encode", len(texts) / min(theirs), n_tokens / min(theirs)],
    ]
    print(f"{encoder.id.name}, {len(texts):,} texts of {options.task}, {n_tokens:,} tokens\n")
    print(tabulate(rows, ["", "texts/s", "tokens/s"], "pipe", floatfmt=".0f"))
    print(f"\nlargest difference of a component: {largest:.1e}")


if __name__ == "__main__":
    main()
