"""The dial beside other methods, with the same base, the same labels and the same tasks.

    python benchmarks/comparators.py DIAL --task sst2 --task contrast --output results

DIAL is the folder of an encoder with a linear axis. Its base is the base of all methods, its
labelled texts fit them, and its classifier predicts classes. Each method is a function in METHODS,
which returns an encoder with a side for queries and a side for sources. The results are those of
`polarity-bench run --reference BASE`, so boards show them. The same command resumes.

- `leace` and `mean-difference` erase the classes from the vectors, so P should fall.
- `label-word-gold` and `label-word-predicted` put the name of the query's class before the query.
  The first takes it from the task, which no real search could do.
- `instruction` puts an instruction before the query.
- `rescored-N` lets the base retrieve N sources, and sorts them again by the cosine plus the boost
  times the probability of the query's predicted class.

`leace` needs the package concept-erasure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rescoring import best_of, probabilities

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder, EncoderId, Side
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.reference_encoder import default_reference
from polarity_bench.encoders.steered import at_strength
from polarity_bench.encoders.train_file import training_of
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import read_results, write_result
from polarity_bench.retrieval import Retrieval, similarity_at, top_k
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import choose_task, load_task, load_tasks
from polarity_bench.tasks.types.polarity import scoring
from polarity_bench.training.data import load_training_data
from polarity_bench.values import FloatArray, IntArray, digest_of

INSTRUCTION = "Retrieve a text of the same sentiment: "
BOOSTS = (0.25, 1.0)
DEPTHS = (100, 1000)
Vectors = Callable[[Sequence[str]], FloatArray]


@dataclass(frozen=True)
class Given:
    """What all methods have.

    Attributes:
        dial: Encoder with an axis, which was trained with the labels.
        embedder: Embedder that stores vectors of the base.
        task: The task to evaluate on.
    """

    dial: Any
    embedder: Embedder
    task: Any

    @cached_property
    def base(self) -> Encoder:
        """The base of the dial."""
        base = default_reference(self.dial)
        assert base is not None
        return base

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """Return the base's vectors, (n, d)."""
        embedded = self.embedder.embed(self.base, texts)
        return np.asarray(embedded.vectors(texts).vectors, dtype=np.float64)

    def probabilities(self, texts: Sequence[str]) -> FloatArray:
        """Return the class probabilities of the dial's classifier, (n, c)."""
        embedded = self.embedder.embed(at_strength(self.dial, 1.0), texts)
        axis = embedded.queries(texts).vectors[:, : self.dial.id.axis]
        return probabilities(np.asarray(axis, dtype=np.float64))

    @cached_property
    def labelled(self) -> tuple[FloatArray, IntArray]:
        """Vectors and classes of the labelled texts that the dial was trained with."""
        file: Any = training_of(self.dial)
        recipe, tasks = file.content["spec"]["recipe"], load_tasks()
        (spec,) = (each for each in tasks.values() if each.digest == file.content["spec"]["task"])
        access = DataAccess.from_environment()
        data = load_training_data(spec, access, held_out=0, seed=0)
        drawn = data.pool.labelled(spec.name).drawn(
            recipe["labels"], recipe["seed"], field="labels"
        )
        if drawn.digest != file.content["spec"]["inputs"]:
            raise SystemExit(f"{self.dial.id.name}: its labelled texts cannot be drawn again")
        return self.vectors([str(text) for text in drawn.texts]), np.asarray(drawn.labels)


@dataclass(frozen=True)
class Comparator:
    """Encoder of a method, with a function for each side.

    Attributes:
        id: Identity of the encoder.
        given: What all methods have.
        by_query: Function that returns vectors of queries.
        by_document: Function that returns vectors of sources.
        depth: Number of sources to rescore; 0 ranks all by their vectors.
    """

    id: EncoderId
    given: Given
    by_query: Vectors
    by_document: Vectors
    depth: int = 0

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of tokens for the base."""
        return self.given.base.count_tokens(texts)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of one batch, by the side of the encoder."""
        function = self.by_query if self.id.sides == "query" else self.by_document
        return np.asarray(function(texts), dtype=np.float32)

    def on_side(self, side: Side) -> Comparator:
        """Return a copy that encodes all texts by one side."""
        return replace(self, id=replace(self.id, sides=side))


def comparator(
    name: str, given: Given, by_query: Vectors, by_document: Vectors, depth: int = 0
) -> Comparator:
    """Return the encoder of a method. Its identity contains the dial's, and thus the labels."""
    weights = digest_of([name, given.dial.id.digest])
    similarity: Any = "dot" if depth else "cosine"
    identity = EncoderId(name, weights, similarity=similarity, sides="query-document")
    return Comparator(identity, given, by_query, by_document, depth)


def leace(given: Given) -> Comparator:
    """Erase the classes with the least change of the vectors (Belrose et al., 2023)."""
    import torch
    from concept_erasure import LeaceFitter

    vectors, labels = given.labelled
    classes = torch.from_numpy(np.eye(labels.max() + 1)[labels])
    eraser = LeaceFitter.fit(torch.from_numpy(vectors), classes).eraser

    def erased(texts: Sequence[str]) -> FloatArray:
        return np.asarray(eraser(torch.from_numpy(given.vectors(texts))).numpy())

    return comparator("erased by LEACE", given, erased, erased)


def mean_difference(given: Given) -> Comparator:
    """Erase the direction between the means of two classes."""
    vectors, labels = given.labelled
    direction = vectors[labels == 1].mean(axis=0) - vectors[labels == 0].mean(axis=0)
    direction /= np.linalg.norm(direction)

    def erased(texts: Sequence[str]) -> FloatArray:
        rows = given.vectors(texts)
        return rows - np.outer(rows @ direction, direction)

    return comparator("erased along the mean difference", given, erased, erased)


def label_word(given: Given, *, gold: bool) -> Comparator:
    """Put the name of the query's class before the query."""
    query = given.task.query
    known = dict(zip(query.texts, query.labels, strict=True))
    classes = sorted(set(query.labels))

    def expanded(texts: Sequence[str]) -> FloatArray:
        if gold:
            words = [known[text] for text in texts]
        else:
            words = [classes[place] for place in given.probabilities(texts).argmax(axis=1)]
        return given.vectors([f"{word}: {text}" for word, text in zip(words, texts, strict=True)])

    name = f"label word, {'gold label given' if gold else 'predicted'}"
    return comparator(name, given, expanded, given.vectors)


def instruction(given: Given) -> Comparator:
    """Put an instruction before the query."""

    def instructed(texts: Sequence[str]) -> FloatArray:
        return given.vectors([INSTRUCTION + text for text in texts])

    return comparator("instruction before the query", given, instructed, given.vectors)


def rescored(given: Given, *, depth: int, boost: float) -> Comparator:
    """Rescore the first candidates by the probability of the query's predicted class."""

    def queries(texts: Sequence[str]) -> FloatArray:
        of_class = given.probabilities(texts)
        chosen = np.eye(of_class.shape[1])[of_class.argmax(axis=1)]
        return np.hstack([boost * chosen, given.vectors(texts)])

    def documents(texts: Sequence[str]) -> FloatArray:
        return np.hstack([given.probabilities(texts), given.vectors(texts)])

    name = f"first {depth:,} rescored, boost {boost:g}"
    return comparator(name, given, queries, documents, depth)


METHODS: dict[str, Callable[[Given], Comparator]] = {
    "leace": leace,
    "mean-difference": mean_difference,
    "label-word-gold": partial(label_word, gold=True),
    "label-word-predicted": partial(label_word, gold=False),
    "instruction": instruction,
}
METHODS |= {
    f"rescored-{depth}-{boost:g}": partial(rescored, depth=depth, boost=boost)
    for depth in DEPTHS
    for boost in BOOSTS
}


@contextmanager
def candidates_of(method: Comparator) -> Iterator[list[float]]:
    """Let the base retrieve the candidates of a method that rescores them.

    Yields:
        A list that receives the recall of the candidates: the share of the k best of all sources,
        by the rescored similarity, that are among the candidates.
    """
    recall: list[float] = []
    n_base = method.given.vectors(method.given.task.query.texts[:1]).shape[1]

    def retrieved(query: Any, source: Any, k: int, **options: Any) -> Retrieval:
        if not method.depth or query.vectors.shape[1] == n_base:
            return top_k(query, source, k, **options)
        by_base = [replace(side, vectors=side.vectors[:, -n_base:]) for side in (query, source)]
        index = top_k(by_base[0], by_base[1], method.depth, **options).index
        found = best_of(index, similarity_at(query, source, index), k)
        of_all = top_k(query, source, k, **options).index
        shared = [np.isin(*pair).mean() for pair in zip(of_all, found.index, strict=True)]
        recall.append(float(np.mean(shared)))
        return found

    with patch.object(scoring, "top_k", retrieved):
        yield recall


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dial", help="folder of an encoder with a linear axis")
    parser.add_argument("--task", action="append", required=True, help="polarity task")
    parser.add_argument("--method", action="append", choices=METHODS, help="default: all")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    for name in options.task:
        choose_task(load_tasks(), name)
        task, embedder = load_task(name), Embedder(EmbeddingStore())
        given = Given(load_encoder(options.dial), embedder, task)
        done = {(each.task, each.key.encoder.digest) for each in read_results(options.output)}
        for title in options.method or METHODS:
            method = METHODS[title](given)
            if (name, method.id.digest) in done:
                print(f"{title}, {name}: already there")
                continue
            with candidates_of(method) as recall:
                result = evaluate(method, task, reference=given.base, embedder=embedder)
            write_result(result, options.output)
            p, s = (result.scores[key].mean for key in _shown(task))
            of_best = f", candidates' recall {100 * recall[0]:.2f}" if recall else ""
            print(f"{title}, {name}: P {100 * p:.2f}, S {100 * s:.2f}{of_best}", flush=True)


def _shown(task: Any) -> list[Any]:
    return [ScoreKey(metric, task.ks[-1]) for metric in ("polarity", "similarity")]


if __name__ == "__main__":
    main()
