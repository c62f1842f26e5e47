"""Training examples of few labels, for `polarity-bench train margins --examples-from`.

    python benchmarks/labelled_examples.py triplets.parquet --kind triplets
    python benchmarks/labelled_examples.py pairs.parquet --kind pairs

The labelled texts are those that `--labels` of the recipes `axis` and `setfit` draws from a task.

- `triplets` are all candidates of the neighbours among these texts. They are mined as the code of
  the margins paper does, without a minimum cosine: few of 1,200 texts have a neighbour of each
  class with cosine 0.5.
- `pairs` are two random texts of one class. Both classes have equally many pairs, and all texts of
  a class are the anchors of equally many. SentiCSE (Kim et al., 2024) makes such pairs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.tasks.catalogue import choose_task, load_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.training.data import TrainingPool, load_training_data
from polarity_bench.training.examples.neighbour_cache import pool_neighbours
from polarity_bench.training.examples.source import ExampleSource
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import IntArray


def drawn_texts(task: str, labels: int, seed: int) -> LabelledTexts:
    """Return the labelled texts that a dial or SetFit with this seed is trained with."""
    spec = choose_task(load_tasks(), task)
    data = load_training_data(spec, DataAccess.from_environment(), held_out=0, seed=seed)
    return data.pool.labelled(task).drawn(labels, seed, field="labels")


def triplets(given: LabelledTexts, model: str, seed: int) -> dict[str, Any]:
    """Return all triplets of an anchor, a neighbour of its class and one of another class."""
    pool = TrainingPool(tuple(map(str, given.texts)), given.labels, tuple(given.classes))
    encoder, spec = load_encoder(model), ExampleSpec(mining="as-released", dropout=0.0)
    neighbours = pool_neighbours(pool, encoder, spec, Embedder())
    return ExampleSource(pool, neighbours, "triplets", spec).columns(seed, epoch=0)


def random_pairs(labels: IntArray, n_pairs: int, seed: int) -> IntArray:
    """Draw pairs of different texts of one class, as many of each class.

    Args:
        labels: Class of each text, at least two texts of each class, (n,).
        n_pairs: Number of pairs, a multiple of the number of classes.
        seed: Seed of the draw.

    Returns:
        Positions of the texts, (n_pairs, 2).
    """
    generator, pairs, codes = np.random.default_rng(seed), [], np.unique(labels)
    count = n_pairs // len(codes)
    for code in codes:
        members = generator.permutation(np.flatnonzero(labels == code))
        anchor = np.resize(np.arange(len(members)), count)
        partner = (anchor + generator.integers(1, len(members), count)) % len(members)
        pairs.append(np.stack([members[anchor], members[partner]], axis=1))
    return np.concatenate(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="parquet file to write")
    parser.add_argument("--kind", choices=("triplets", "pairs"), required=True)
    parser.add_argument("--model", default="minilm", help="encoder that finds the neighbours")
    parser.add_argument("--task", default="sst2", help="polarity task")
    parser.add_argument("--labels", type=int, default=1200, help="number of labelled texts")
    parser.add_argument("--pairs", type=int, default=10000, help="number of pairs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    given = drawn_texts(options.task, options.labels, options.seed)
    if options.kind == "triplets":
        columns = triplets(given, options.model, options.seed)
    else:
        rows = random_pairs(given.labels, options.pairs, options.seed)
        columns = {
            name: [str(given.texts[row]) for row in column]
            for name, column in zip(("anchor", "positive"), rows.T, strict=True)
        }
        columns["label"] = given.labels[rows[:, 0]].tolist()
    pq.write_table(pa.table(columns), options.output)
    n_texts = len({text for name in columns if name != "label" for text in columns[name]})
    size = len(next(iter(columns.values())))
    print(f"{options.output}: {size:,} {options.kind} of {n_texts:,} texts (labels {given.digest})")


if __name__ == "__main__":
    main()
