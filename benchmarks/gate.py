"""The gate of `run --fail-under`: how often it fails where it should, and where it should not.

    POLARITY_BENCH_DATA=... python benchmarks/gate.py [--task sst2] [--model minilm] [--seeds 250]
    POLARITY_BENCH_DATA=... python benchmarks/gate.py --false-alarms [--seeds 500]

Two versions of an encoder are made of one: noise of their own is added to all its vectors, of a
length that is given beside theirs (1), and both are ranked anew. So they differ from query to query
and are equally good in expectation: what the gate finds there is a false alarm. The noise of a
source touches all queries alike, so that two versions may truly differ a little; where both have
the same sources, and noise of their own in the queries alone, they do not; `--false-alarms` counts
those where sources have none at all, and nothing else. Then a loss of P
is planted in the second, in three ways: hits are lost all over the queries, each with the same
probability; a few queries lose all their hits; or the second version has more noise, so much that
its P falls by as much in expectation. S is measured by the encoder that both were made of.

Flips and samples are drawn once for all seeds, which `judge` does for each pair; the first pair of
each row is held against it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from tabulate import tabulate

from polarity_bench.compare.alignment import Alignment
from polarity_bench.compare.paired_comparison import compare
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.load import load_encoder
from polarity_bench.evaluation.one_task import score_task
from polarity_bench.metrics.pairwise import LEVEL
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.metrics.significance import (
    N_FLIPS,
    bootstrap_test,
    detectable_difference,
    flipped_sums,
    p_of_fall,
)
from polarity_bench.metrics.statistics import SEED, draws
from polarity_bench.results.result_files import Result
from polarity_bench.retrieval import top_k
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import component_keys, derived, label_codes
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import BoolArray, FloatArray, IntArray

AMOUNTS = (0.1, 0.3, 0.7, 1.0)
LOSSES = (0.005, 0.01, 0.015, 0.02, 0.03)
LOSS = 0.015
UNMOVED = -1
N_SAMPLES = 10_000


@dataclass(frozen=True)
class Versions:
    """What several versions of an encoder retrieve: hits, (s, q, k), and cosines by the first."""

    hits: BoolArray
    cosine: FloatArray
    index: IntArray

    @property
    def polarity(self) -> FloatArray:
        return np.asarray(self.hits @ rank_weights(self.hits.shape[2], "linear"))

    @property
    def similarity(self) -> FloatArray:
        return np.asarray(self.cosine @ rank_weights(self.cosine.shape[2], "linear"))


class Bench:
    def __init__(self, task: PolarityTask, source: Embeddings, query: Embeddings, made: Result):
        self.task, self.source, self.query, self.made = task, source, query, made
        self.k = task.ks[-1]
        self.query_labels, self.source_labels = label_codes(task)
        self.cosines = unit(query.vectors) @ unit(source.vectors).T
        keys = component_keys("joint", self.k)
        self.polarity, self.similarity, *others = keys
        self.fixed = {key: np.asarray(made.arrays[str(key)], np.float64) for key in others}
        self.counts = np.concatenate([w for _, w in draws(len(query), N_SAMPLES, SEED)])
        self.known = {key: self.mean(row)[:, None] for key, row in self.fixed.items()}

    def mean(self, rows: FloatArray) -> FloatArray:
        """Means over all samples of queries, (b,) or (b, s) of (q,) or (s, q)."""
        return np.asarray(self.counts @ rows.T / self.counts.shape[1])

    def versions(
        self, amount: float, seeds: Sequence[int], of_sources: Sequence[int] | None = None
    ) -> Versions:
        """Add noise and rank anew, for each seed; that of sources may have seeds of its own."""
        both = zip(seeds, of_sources or seeds, strict=True)
        index = np.stack([self.ranked(amount, *each) for each in both]).astype(np.int32)
        hits = self.source_labels[index] == self.query_labels[:, None]
        rows = np.arange(len(self.query))[:, None]
        return Versions(hits, self.cosines[rows, index], index)

    def ranked(self, amount: float, seed: int, of_sources: int) -> IntArray:
        source, query = self.source, with_noise(self.query, amount, [seed, 1])
        if of_sources != UNMOVED:
            source = with_noise(source, amount, [of_sources, 0])
        return top_k(query, source, self.k, excluded=self.task.equal_texts).index

    def noise_that_costs(self, loss: float, amount: float, n: int = 12) -> float:
        """Return the noise at which P is less by the loss than at an amount; the same seeds."""
        seeds = range(90_000, 90_000 + n)
        wanted = self.versions(amount, seeds).polarity.mean() - loss
        low, high = amount, amount + 1.5
        for _ in range(7):
            middle = (low + high) / 2
            costs = self.versions(middle, seeds).polarity.mean() < wanted
            low, high = (low, middle) if costs else (middle, high)
        return (low + high) / 2

    def caught(self, old: Versions, new: Versions) -> tuple[float, float]:
        """Return the share of pairs of which the gate fails, by P and by joint."""
        p = self.by_polarity(old, new)
        joint = self.by_joint(old, new)
        for key, found in ((self.polarity, p), (ScoreKey("joint", self.k), joint)):
            exact = compare(self.pair(key, old, new), 0, alternative="less").test.p
            if abs(exact - found[0]) > 0.02:
                sys.exit(f"{key}: p is {found[0]:.4f} here and {exact:.4f} by the gate")
        return float((p < LEVEL).mean()), float((joint < LEVEL).mean())

    def by_polarity(self, old: Versions, new: Versions) -> FloatArray:
        lost = new.polarity - old.polarity
        total = lost.sum(axis=1)
        far = np.zeros(len(lost))
        for flipped in flipped_sums(lost):
            far += (np.abs(flipped) >= np.abs(total) - 1e-9).sum(axis=0)
        return np.array(
            [p_of_fall((n + 1) / (N_FLIPS + 1), each) for n, each in zip(far, total, strict=True)]
        )

    def by_joint(self, old: Versions, new: Versions) -> FloatArray:
        lost = self.joint(new) - self.joint(old)
        return np.array([bootstrap_test(0.0, row, len(row), "less").p for row in lost.T])

    def joint(self, each: Versions) -> FloatArray:
        p, s = self.mean(each.polarity), self.mean(each.similarity)
        means = self.known | {self.polarity: p, self.similarity: s}
        return derived(means, "joint", self.k)

    def pair(self, key: ScoreKey, old: Versions, new: Versions) -> Alignment:
        """Return the first pair as the gate sees it."""
        fixed = {str(name): row for name, row in self.fixed.items()}
        arrays = tuple(
            {
                **fixed,
                str(self.polarity): each.polarity[0],
                str(self.similarity): each.similarity[0],
            }
            for each in (old, new)
        )
        return Alignment((self.made, self.made), key, arrays)

    def shows(self, old: Versions, new: Versions) -> float:
        """Return the least loss of P that the median pair shows four times in five."""
        deviation = float(np.median((new.polarity - old.polarity).std(axis=1, ddof=1)))
        return detectable_difference(deviation, len(self.query), alpha=2 * LEVEL)


def with_noise(each: Embeddings, amount: float, seeds: Sequence[int]) -> Embeddings:
    shape, generator = each.vectors.shape, np.random.default_rng(seeds)
    noise = generator.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[1])
    return Embeddings((unit(each.vectors) + amount * noise).astype(np.float32), each.similarity)


def unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def without_hits(each: Versions, loss: float, seed: int, *, whole: bool) -> Versions:
    """Take hits away so that P falls by the loss in expectation: single ones, or whole queries'."""
    share = loss / each.polarity.mean()
    shape = (*each.hits.shape[:2], 1) if whole else each.hits.shape
    kept = np.random.default_rng(seed).random(shape) >= share
    return replace(each, hits=each.hits & kept)


def overlap(old: Versions, new: Versions) -> float:
    pairs = zip(old.index.reshape(-1, 16), new.index.reshape(-1, 16), strict=True)
    return float(np.mean([len(np.intersect1d(one, other)) for one, other in pairs])) / 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--seeds", type=int, default=250)
    parser.add_argument("--false-alarms", action="store_true")
    asked = parser.parse_args()
    (spec,) = choose_tasks(load_tasks(), names=[asked.task])
    task = spec.load(DataAccess.from_environment(), Settings())
    assert isinstance(task, PolarityTask)
    with EmbeddingStore() as store:
        embedded = Embedder(store).embed(load_encoder(asked.model), task.texts)
    source, query = embedded.sources(task.source.texts), embedded.queries(task.query.texts)
    bench = Bench(task, source, query, score_task(task, embedded))
    print(f"{spec.name}, {len(task.query)} queries, {asked.seeds} seeds; percent, or points\n")
    tell = false_alarms if asked.false_alarms else with_losses
    tell(bench, asked.seeds)


def false_alarms(bench: Bench, n: int) -> None:
    rows = []
    for amount in AMOUNTS:
        old, new = (
            bench.versions(amount, seeds, [UNMOVED] * n) for seeds in (range(n), range(n, 2 * n))
        )
        rows.append([amount, *(100 * share for share in bench.caught(old, new))])
    print(tabulate(rows, ["noise", "P", "joint"], tablefmt="pipe", floatfmt=".1f"))


def with_losses(bench: Bench, n: int) -> None:
    first: list[list[object]] = []
    second: list[list[object]] = []
    for amount in AMOUNTS:
        old, new = bench.versions(amount, range(n)), bench.versions(amount, range(n, 2 * n))
        seldom = partial(without_hits, new, seed=70_000)
        more = bench.noise_that_costs(LOSS, amount)
        blurred = bench.versions(more, range(n, 2 * n))
        alike = bench.versions(amount, range(n, 2 * n), range(n))
        cases = [alike, new, seldom(LOSS, whole=False), seldom(LOSS, whole=True), blurred]
        told = [bench.caught(old, each) for each in cases]
        deviation = float((new.polarity - old.polarity).std(axis=1).mean())
        cost = float(old.polarity.mean() - blurred.polarity.mean())
        row = [amount, old.polarity.mean(), overlap(old, new), deviation]
        shown = [100 * value for pair in told for value in pair]
        row = [amount, *(100 * value for value in row[1:]), *shown]
        first.append([*row, more, 100 * cost])
        caught = [bench.caught(old, seldom(loss, whole=True))[0] for loss in LOSSES]
        shows = bench.shows(old, seldom(LOSS, whole=True))
        second.append([amount, *(100 * value for value in caught), 100 * shows])
        print(*first[-1], *second[-1], file=sys.stderr, flush=True)
    ways = [
        "no loss, same sources",
        "no loss",
        "1.5 points over all queries",
        "1.5 in few queries",
        "1.5 by noise",
    ]
    heads = ["noise", "P", "overlap", "deviation"]
    heads += [f"{way}: {measure}" for way in ways for measure in ("P", "joint")]
    heads += ["noise of the last", "which costs"]
    print(tabulate(first, heads, tablefmt="pipe", floatfmt=".1f"), "\n")
    heads = ["noise", *(f"{100 * loss:g} points" for loss in LOSSES), "shows"]
    print(tabulate(second, heads, tablefmt="pipe", floatfmt=".1f"))


if __name__ == "__main__":
    main()
