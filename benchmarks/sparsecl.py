"""SparseCL beside the dial: train with twins, then retrieve the twin of a sentence.

    python benchmarks/sparsecl.py --output results --seed 0

SparseCL (Xu et al., 2025, Contradiction Retrieval via Contrastive Learning with Sparsity,
https://arxiv.org/abs/2406.10746) trains an encoder so that the difference of a text and its
contradiction is sparse. It retrieves by the cosine of the base plus alpha times this sparsity. The
control, CL, is the same training with the cosine, and retrieves by the cosine. Both are trained
with the twins among the 1,200 labelled sentences of `contrast` that a dial sees, and scored on
`contrast-opposite`. Settings are those of the released code; the board says what differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from labelled_examples import drawn_texts
from rescoring import best_of
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.train_file import TrainFile
from polarity_bench.evaluation.contamination import TEXTS_FILE, Contamination, TrainingTexts
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.ranking import ndcg
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.retrieval import Retrieval, top_k
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types import opposite
from polarity_bench.values import FloatArray, IntArray, digest_of, grouped

LABELS = 1200
BATCH_SIZE, RATE, TEMPERATURE = 64, 2e-5, 0.02
DEPTH = 1000
"""Number of sources that the base retrieves; they are sorted again by the sum."""
EPOCHS = {"cl": 1, "sparsecl": 3}
HELD_OUT = 5
"""Every fifth pair chooses alpha."""
Pairs = Sequence[tuple[str, str]]
Sides = tuple[Embeddings, Embeddings]


def hoyer(first: Tensor, second: Tensor) -> Tensor:
    """Return the Hoyer sparsity of the difference of each row of one and of the other, (m, n).

    It is (sqrt(d) - L1 / L2) / (sqrt(d) - 1): 1 if one coordinate differs, 0 if all differ equally.
    """
    difference, root = first[:, None] - second[None], first.shape[1] ** 0.5
    by_l1 = difference.abs().sum(dim=-1).clamp(min=root * 1e-6)
    by_l2 = difference.norm(dim=-1).clamp(min=1e-6)
    sparsity: Tensor = (root - by_l1 / by_l2) / (root - 1)
    return sparsity


def contrastive_loss(anchor: Tensor, positive: Tensor, objective: str) -> Tensor:
    """Contrast each positive with the other positives of the batch."""
    anchor, positive = normalize(anchor, dim=-1), normalize(positive, dim=-1)
    close = hoyer(anchor, positive) if objective == "sparsecl" else anchor @ positive.T
    return cross_entropy(close / TEMPERATURE, torch.arange(len(anchor)))


def train(pairs: Pairs, objective: str, epochs: int, seed: int) -> SentenceTransformerEncoder:
    """Train MiniLM with pairs in both directions; the last batch of an epoch must be full."""
    encoder = cast("SentenceTransformerEncoder", load_encoder("minilm"))
    model, rows = encoder.model, np.array([*pairs, *(pair[::-1] for pair in pairs)])
    generator, per_epoch = np.random.default_rng(seed), len(rows) // BATCH_SIZE
    n_steps = epochs * per_epoch
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / n_steps)
    torch.manual_seed(seed)
    model.train()
    for _ in range(epochs):
        order = generator.permutation(len(rows))[: per_epoch * BATCH_SIZE]
        for batch in rows[order].reshape(per_epoch, BATCH_SIZE, 2):
            vectors = model(model.preprocess(batch.T.ravel().tolist()))["sentence_embedding"]
            loss = contrastive_loss(vectors[:BATCH_SIZE], vectors[BATCH_SIZE:], objective)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    name = f"contrast-minilm-{objective}-{epochs}-epochs-{seed}"
    return SentenceTransformerEncoder(model.eval(), name=name)


@dataclass(frozen=True)
class Candidates:
    """The nearest sources of each query by the base. All arrays are (q, depth)."""

    index: IntArray
    cosine: FloatArray
    sparsity: FloatArray

    @classmethod
    def of(cls, base: Sides, trained: Sides, excluded: Sequence[Any]) -> Candidates:
        """Retrieve by the base, and compute the sparsity with the trained encoder.

        Args:
            base: The base's vectors of queries and sources.
            trained: The trained encoder's vectors of the same texts.
            excluded: Positions of the sources that each query must not retrieve.
        """
        depth = min(DEPTH, len(base[1]) - max(map(len, excluded)))
        found = top_k(*base, depth, excluded=excluded)
        query, source = (normalize(torch.tensor(s.vectors).double(), dim=-1) for s in trained)
        sparsity = [
            hoyer(query[[row]], source[index])[0].numpy() for row, index in enumerate(found.index)
        ]
        return cls(found.index, found.similarity, np.array(sparsity))

    def first(self, k: int, alpha: float) -> Retrieval:
        """Return the first k by the cosine plus alpha times the sparsity."""
        return best_of(self.index, self.cosine + alpha * self.sparsity, k)


def best_alpha(score: Callable[[float], float]) -> float:
    """Search alpha in [0, 10) as the released code does.

    The interval is cut into ten three times. The part whose middle scores highest is kept, and the
    first of equal ones. Its lower end is returned.
    """
    low = 0.0
    for width in (1.0, 0.1, 0.01):
        low = max((low + i * width for i in range(10)), key=lambda end: score(end + width / 2))
    return round(low, 2)


def vectors_of(encoder: Encoder, texts: Sequence[str]) -> Embeddings:
    return Embedder().embed(encoder, texts).vectors(texts)


def chosen_alpha(base: Encoder, trained: Encoder, held: Pairs, texts: Sequence[str]) -> float:
    """Choose alpha by nDCG@10 of the held-out pairs among all labelled texts."""
    queries, twins = ([text for pair in held for text in pair[::way]] for way in (1, -1))
    place = {text: number for number, text in enumerate(texts)}
    by_base, by_trained = (
        (vectors_of(each, queries), vectors_of(each, texts)) for each in (base, trained)
    )
    found = Candidates.of(by_base, by_trained, [[place[text]] for text in queries])
    answer = np.array([[place[text]] for text in twins])

    def score(alpha: float) -> float:
        hits = found.first(10, alpha).index == answer
        return float(ndcg(hits, np.ones(len(hits), dtype=np.int64)).mean())

    alpha = best_alpha(score)
    print(f"alpha {alpha:g}, nDCG@10 of held-out pairs {100 * score(alpha):.2f}", flush=True)
    return alpha


@dataclass(frozen=True)
class Twins:
    """What all trainings have.

    Attributes:
        base: The base.
        task: The task `contrast-opposite`.
        texts: The labelled texts.
        pairs: The twins among them.
    """

    base: Encoder
    task: Any
    texts: Sequence[str]
    pairs: Pairs

    @classmethod
    def load(cls) -> Twins:
        task: Any = load_task("contrast-opposite")
        texts = list(map(str, drawn_texts("contrast", LABELS, 0).texts))
        ids = dict(zip(task.source.texts, task.source.labels, strict=True))
        groups = grouped(texts, ids.__getitem__).values()
        pairs = [(each[0], each[1]) for each in groups if len(each) == 2]
        return cls(load_encoder("minilm"), task, texts, pairs)

    def measure(self, objective: str, epochs: int, seed: int, output: Path) -> Result:
        """Train with the pairs, and score the result on the task."""
        alpha = None
        if objective == "sparsecl":
            rest = [pair for number, pair in enumerate(self.pairs) if number % HELD_OUT]
            part = train(rest, objective, epochs, seed)
            alpha = chosen_alpha(self.base, part, self.pairs[::HELD_OUT], self.texts)
        encoder, ranked = train(self.pairs, objective, epochs, seed), cast("Any", top_k)
        if alpha is not None:
            weights = digest_of([encoder.id.weights, self.base.id.digest, alpha, DEPTH])
            encoder.id = replace(encoder.id, weights=weights)
            sides = self.task.query.texts, self.task.source.texts
            by_base = vectors_of(self.base, sides[0]), vectors_of(self.base, sides[1])

            def rescored(query: Any, source: Any, k: int, *, excluded: Any) -> Retrieval:
                return Candidates.of(by_base, (query, source), excluded).first(k, alpha)

            ranked = rescored
        with patch.object(opposite, "top_k", ranked):
            result = evaluate(encoder, self.task)
        recipe: dict[str, Any] = {
            "name": objective,
            "labels": 2 * len(self.pairs),
            "epochs": epochs,
        }
        recipe |= {"batch_size": BATCH_SIZE, "rate": RATE, "temperature": TEMPERATURE}
        recipe |= {} if alpha is None else {"alpha": alpha, "depth": DEPTH}
        training = {"recipe": recipe, "seed": seed, "base": self.base.id.name}
        return replace(self.counted(result, output), training=training)

    def counted(self, result: Result, output: Path) -> Result:
        """Return a result with the number of its rows that the encoder saw in training."""
        with TemporaryDirectory() as folder:
            texts = TrainingTexts.of(text for pair in self.pairs for text in pair)
            (Path(folder) / TEXTS_FILE).write_bytes(texts.to_bytes())
            made = TrainFile(Path(folder), {"spec": {"base": self.base.id.to_dict()}})
            seen = Contamination(made, [self.task], output).of(self.task)
            assert seen is not None
            return seen.count(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--objective", choices=EPOCHS, action="append", help="default: both")
    parser.add_argument("--epochs", type=int, help="default: those of the released code")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    given = Twins.load()
    for objective in options.objective or EPOCHS:
        epochs = options.epochs or EPOCHS[objective]
        result = given.measure(objective, epochs, options.seed, options.output)
        write_result(result, options.output)
        print(f"{result.key.encoder.name}: nDCG@10 {100 * result.main.mean:.2f}", flush=True)


if __name__ == "__main__":
    main()
