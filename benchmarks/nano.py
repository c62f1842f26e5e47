"""How well a draw of 200 queries and 1,000 sources keeps the ranking of encoders by P.

    python benchmarks/nano.py MODEL... [--output nano.json]

Each task is scored in full and in draws with different seeds, as the names `nano:NAME` draw. For
each draw, the ranking of the encoders is compared with that of the full task. P is at k = 16 with
linear weights. CR has no queries of its own: a random fifth of its texts are the queries.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from polarity_bench.data.sampling import draw_balanced
from polarity_bench.data.sources import DataAccess
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.load import load_encoder
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.polarity.scoring import rank, values_per_query
from polarity_bench.tasks.types.polarity.task import PolarityTask

N_QUERIES, N_SOURCES, N_DRAWS = 200, 1000, 100
KEY = ScoreKey("polarity", 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="names or folders of encoders")
    parser.add_argument("--output", type=Path, default=Path("nano.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with EmbeddingStore() as store:
        for name, task in tasks():
            encoders = {}
            for model in options.models:
                encoder = load_encoder(model)
                encoders[encoder.id.label] = Embedder(store).embed(encoder, task.texts)
                print(name, encoder.id.label, flush=True)
            found[name] = compare(task, encoders)
            options.output.write_text(json.dumps(found, indent=1))
            print(name, {key: value for key, value in found[name].items() if key != "draws"})
    print("all", summary(found))


def tasks() -> Iterator[tuple[str, PolarityTask]]:
    """Yield the tasks, each with all of its queries."""
    for name in ("contrast", "sst2", "tweeteval-irony"):
        task = load_task(name)
        assert isinstance(task, PolarityTask)
        yield name, task
    reviews = LabelledTexts.of("cr", DataAccess.from_environment())
    rows = [
        (str(text), str(reviews.classes[code]))
        for text, code in zip(reviews.texts, reviews.labels, strict=True)
        if text  # Four reviews are empty, and static encoders have no vector for them.
    ]
    texts, names = zip(*rows, strict=True)
    whole = Split(texts, names)
    order = np.random.default_rng(42).permutation(len(whole))
    cut = len(whole) // 5
    any_task = load_task("sst2")
    assert isinstance(any_task, PolarityTask)
    yield "cr", replace(any_task, source=whole.take(order[cut:]), query=whole.take(order[:cut]))


def score(task: PolarityTask, embedded: EmbeddedTexts) -> float:
    """Return the P of an encoder."""
    return float(np.nanmean(values_per_query(task, rank(task, embedded), None)[KEY]))


def draw(task: PolarityTask, seed: int) -> PolarityTask:
    """Return the task with 200 of its queries and 1,000 of its sources."""
    queries = draw_balanced(task.query.labels, N_QUERIES, seed)
    n_sources = min(N_SOURCES, len(task.source))
    sources = np.random.RandomState(seed).choice(len(task.source), n_sources, replace=False)
    return replace(task, source=task.source.take(sources), query=task.query.take(queries))


def compare(task: PolarityTask, encoders: dict[str, EmbeddedTexts]) -> dict[str, Any]:
    """Return P in full and in each draw, and how well the draws keep the ranking."""
    full = [score(task, each) for each in encoders.values()]
    draws = []
    for seed in range(N_DRAWS):
        small = draw(task, seed)
        draws.append([score(small, each.part(small.texts)) for each in encoders.values()])
    return {
        "encoders": [*encoders],
        "counts": {"queries": len(task.query), "sources": len(task.source)},
        "full": full,
        **agreement([full], [[each] for each in draws]),
        "draws": draws,
    }


def agreement(full: Sequence[Any], draws: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return Spearman's correlation with the full ranking, and the share of pairs that turn.

    Each is a mean over the draws with the range of 95 % of the draws. With several tasks, the
    ranking is that of the mean of P over the tasks.
    """
    truth = np.mean(full, axis=0)
    means = [np.mean(each, axis=0) for each in draws]
    pairs = list(combinations(range(len(truth)), 2))
    turned = [[(truth[i] - truth[j]) * (m[i] - m[j]) < 0 for i, j in pairs] for m in means]
    kept = {
        "spearman": [float(spearmanr(truth, each).statistic) for each in means],
        "turned": [float(np.mean(each)) for each in turned],
    }
    return {
        name: [float(np.mean(each)), *map(float, np.quantile(each, (0.025, 0.975)))]
        for name, each in kept.items()
    }


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the agreement of the ranking by the mean of P over all tasks."""
    full = [each["full"] for each in found.values()]
    by_task = [each["draws"] for each in found.values()]
    return agreement(full, [list(each) for each in zip(*by_task, strict=True)])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
