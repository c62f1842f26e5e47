"""Cache of neighbours on disk, next to the embeddings from which they were computed.

There is one file for each encoder, pool and way of mining, `<encoder's digest>.<key>.npz`, which
`polarity-bench cache prune` removes together with the encoder's embeddings. If several runs need
the same neighbours, one computes them while the others wait. The key also covers the groups in
which the pool is embedded, because the last bit of a vector can decide which of two texts is
nearer.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from filelock import FileLock

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.groups import Groups
from polarity_bench.embedding.store import EmbeddingStore, keeps_vectors
from polarity_bench.encoders.base import Encoder
from polarity_bench.files import write_atomically
from polarity_bench.progress import Bar, no_bar
from polarity_bench.training.data import TrainingPool
from polarity_bench.training.examples.neighbours import Neighbours, RaggedRows, find_neighbours
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import digest_of

_VERSION = 1
"""Increased whenever the code finds different neighbours."""
_ARRAYS = ("same_values", "same_offsets", "opposite_values", "opposite_offsets")


def pool_neighbours(
    pool: TrainingPool,
    encoder: Encoder,
    spec: ExampleSpec,
    embedder: Embedder,
    bar: Bar = no_bar,
) -> Neighbours:
    """Return the neighbours of a pool's texts, cached next to the embedder's embeddings.

    Args:
        pool: The texts.
        encoder: The encoder whose neighbours are used.
        spec: How neighbours are mined.
        embedder: How to embed the texts if the neighbours are not cached; if it has no groups, the
            pool forms one group.
        bar: Opens a progress bar over the texts to encode.
    """
    if embedder.groups is None:
        embedder = replace(embedder, groups=Groups([pool.texts]))

    def find() -> Neighbours:
        with bar(f"encoding with {encoder.id.name}", len(pool)) as advance:
            embedded = embedder.embed(encoder, pool.texts, advance)
        return find_neighbours(
            embedded.vectors(pool.texts),
            pool.labels,
            mining=spec.mining,
            k=spec.neighbours,
            threshold=spec.threshold,
        )

    if not isinstance(embedder.store, EmbeddingStore) or not keeps_vectors(encoder):
        return find()
    least = spec.threshold if spec.mining == "as-written" else None
    mined = [spec.mining, spec.neighbours, least]
    groups = embedder.groups_of(encoder, pool.texts)
    key = digest_of([_VERSION, encoder.id.digest, pool.digest, *mined, groups])
    folder = embedder.store.folder
    folder.mkdir(parents=True, exist_ok=True)
    return _kept(folder / f"{encoder.id.stored.digest}.{key}.npz", find)


def _kept(file: Path, find: Callable[[], Neighbours]) -> Neighbours:
    """Read the cached neighbours, or find and write them if missing or damaged. Locks the file."""
    with FileLock(file.with_suffix(".lock")):
        if (there := _read(file)) is not None:
            return there
        neighbours = find()
        content = io.BytesIO()
        np.savez(
            content,
            same_values=neighbours.same.values,
            same_offsets=neighbours.same.offsets,
            opposite_values=neighbours.opposite.values,
            opposite_offsets=neighbours.opposite.offsets,
        )
        write_atomically(file, content.getvalue())
        return neighbours


def _read(file: Path) -> Neighbours | None:
    """Read a complete file and verify its checksums; None if it is missing or damaged."""
    try:
        with np.load(file, allow_pickle=False) as read:
            arrays = [read[name] for name in _ARRAYS]
    except (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile):
        return None
    return Neighbours(RaggedRows(*arrays[:2]), RaggedRows(*arrays[2:]))
