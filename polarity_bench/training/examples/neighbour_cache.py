"""Cache of neighbours on disk, in the same folder as the cached embeddings.

Each combination of encoder, pool and mining settings has one file, `<encoder's digest>.<key>.npz`.
`polarity-bench cache prune` removes the file together with the encoder's embeddings. If several
runs need the same neighbours, one run computes them while the others wait. The key also covers the
groups in which the pool is embedded: grouping changes the last bits of a vector, which can decide
which of two texts is nearer.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.groups import Groups
from polarity_bench.embedding.store import EmbeddingStore, keeps_vectors
from polarity_bench.embedding.store_file import explain_errors
from polarity_bench.encoders.base import Encoder
from polarity_bench.files import write_atomically
from polarity_bench.progress import Bar, no_bar
from polarity_bench.training.data import TrainingPool
from polarity_bench.training.examples.neighbours import Neighbours, RaggedRows, find_neighbours
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import digest_of

_VERSION = 1
"""Version of the cached data. Increase it when a code change alters the neighbours."""
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
        pool: The pool.
        encoder: Encoder whose embeddings determine the neighbours.
        spec: Mining settings.
        embedder: Embeds the texts if the neighbours are not cached. Without groups, the pool forms
            one group.
        bar: Opens a progress bar that counts encoded texts.

    Raises:
        InputError: If the folder of the store cannot be made or written to.
    """
    if embedder.groups is None:
        embedder = replace(embedder, groups=Groups([pool.texts]))

    def find() -> Neighbours:
        with bar(f"encoding with {encoder.id.name}", len(pool)) as advance:
            embedded = embedder.embed(encoder, pool.texts, advance)
        return find_neighbours(embedded.vectors(pool.texts), pool.labels, spec)

    if not isinstance(embedder.store, EmbeddingStore) or not keeps_vectors(encoder):
        return find()
    threshold = spec.threshold if spec.mining == "as-written" else None
    mining = [spec.mining, spec.neighbours, threshold]
    groups = embedder.groups_of(encoder, pool.texts)
    key = digest_of([_VERSION, encoder.id.digest, pool.digest, *mining, groups])
    file = embedder.store.folder / f"{encoder.id.stored.digest}.{key}.npz"
    with explain_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".lock").touch()
    return _kept(file, find)


def _kept(file: Path, find: Callable[[], Neighbours]) -> Neighbours:
    """Return the cached neighbours; find and cache them if the file is missing or damaged."""
    with FileLock(file.with_suffix(".lock")):
        if (cached := _read(file)) is not None:
            return cached
        neighbours = find()
        content = io.BytesIO()
        same, opposite = neighbours.same, neighbours.opposite
        arrays = same.values, same.offsets, opposite.values, opposite.offsets
        named: Any = dict(zip(_ARRAYS, arrays, strict=True))
        np.savez(content, **named)
        write_atomically(file, content.getvalue())
        return neighbours


def _read(file: Path) -> Neighbours | None:
    """Read a file and verify its checksums; return None if the file is missing or damaged."""
    try:
        with np.load(file, allow_pickle=False) as read:
            arrays = [read[name] for name in _ARRAYS]
    except (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile):
        return None
    return Neighbours(RaggedRows(*arrays[:2]), RaggedRows(*arrays[2:]))
