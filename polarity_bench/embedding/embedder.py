"""Embedding of texts, with each distinct text encoded once.

The encoder gets batches of texts with similar lengths, the longest first. Batches therefore need
little padding. A batch that is too large for the memory fails at the start, not after hours.

A run that is killed and started again must end with the same bytes as an uninterrupted run. This
does not happen by itself: padding changes a vector by about 1e-7, depending on the other texts in
its batch. Three rules make runs repeatable.

1. Batches are planned over the texts that are missing from the store.
2. Batches are encoded in the order of the plan.
3. Each batch is stored in one transaction before the next batch is encoded.

The rules have three consequences.

- No text is encoded twice, because stored texts are not part of the plan.
- A restarted run encodes the remaining batches of the first plan. A killed run has stored complete
  batches from the beginning of its plan. A plan fills each batch without looking ahead, so a plan
  over the remaining texts consists of the same remaining batches.
- Batches are full regardless of the texts that other suites have stored. Only missing texts are
  tokenized, so a run with a full store starts quickly.

A vector still depends on the suite that requested it first, because this suite determines the
batch. Training must not depend on earlier runs, so training divides its texts into **groups**.
Batches are planned over a whole group, and every text of a batch is encoded. Each group has its own
vectors in the store, separate from other groups and from texts without a group. A vector then
depends only on the encoder, the group and the machine.

Shapes: b batch, d dimensions, n texts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from polarity_bench.embedding.arrays import ArrayStorage, Embeddings, MemoryStore, gather
from polarity_bench.embedding.groups import Groups, Part, read_parts
from polarity_bench.embedding.store import EmbeddingStore, keeps_vectors
from polarity_bench.encoders.base import (
    AbsentEncoder,
    CorpusEncoder,
    Encoder,
    EncoderId,
)
from polarity_bench.encoders.compression import check_dimension, quantized, truncated
from polarity_bench.encoders.saved_vectors import check_saved
from polarity_bench.encoders.sentence_transformer_encoder import SentenceTransformerEncoder
from polarity_bench.encoders.steered import Side, with_strength
from polarity_bench.errors import InputError, check_at_least, reworded
from polarity_bench.progress import Progress
from polarity_bench.values import FloatArray, IntArray

BATCH_TOKENS = 2048
"""Default maximum number of tokens in a batch, including padding."""

GPU_BATCH_TOKENS = 32_768
"""Maximum number of tokens in a batch on a GPU, where larger batches are faster."""

BATCH_SIZE = 512
"""Default maximum number of texts in a batch."""

GPU_BATCH_SIZE = 2048
"""Default maximum number of texts in a batch on a GPU."""

_COUNTED_AT_ONCE = 10_000
"""Number of texts to tokenize at once; tokenizers allocate some kilobytes per text."""

_PLAN_VERSION = 1
"""Version of the batch plan of groups.

Increase the version with every change to the plan. The texts of all groups are then encoded again.
"""


@dataclass(frozen=True)
class Usage:
    """Text counts and times of an embedding.

    Attributes:
        n_texts: Number of requested texts.
        n_distinct: Number of distinct texts.
        n_encoded: Number of distinct texts that this run encoded.
        encode_seconds: Time in the encoder, including the wait for tokenization, in seconds.
        n_at_limit: Number of encoded texts with as many tokens as the encoder reads, or more.
    """

    n_texts: int
    n_distinct: int
    n_encoded: int
    encode_seconds: float
    n_at_limit: int = 0

    @property
    def n_read(self) -> int:
        """Number of distinct texts whose vectors this run read from the store."""
        return self.n_distinct - self.n_encoded

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """Vectors of distinct texts from one encoder, looked up by text.

    Attributes:
        encoder: Identity of the encoder.
        usage: Text counts and times of the embedding.
    """

    encoder: EncoderId
    usage: Usage
    _matrix: FloatArray = field(repr=False)
    _rows: Mapping[str, int] = field(repr=False)
    _room: ArrayStorage = field(default=ArrayStorage(), repr=False)
    _by_queries: EmbeddedTexts | None = field(default=None, repr=False)  # the other side

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, text: object) -> bool:
        return text in self._rows

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions of the stored vectors."""
        return int(self._matrix.shape[1])

    def vectors(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts for symmetric comparison, in the order of `texts`.

        If the encoder has an axis, the vectors are weighted by its strength. Their inner products
        then equal the inner products of queries and sources.

        Args:
            texts: Embedded texts; they may repeat.

        Returns:
            The vectors, (n, d), read-only. Large arrays are in a temporary file.

        Raises:
            KeyError: If a text was not embedded.
            InputError: If the encoder's strength is below 0, which requires different vectors for
                queries and sources, or if the encoder quantizes what is retrieved.
        """
        if self.encoder.quantize is not None:
            raise InputError(
                f"{self.encoder.label}: `quantize` applies only to retrieval; give only tasks with "
                "queries and sources"
            )
        return self._on_side(texts, "both")

    def for_retrieval(
        self, queries: Sequence[str], sources: Sequence[str]
    ) -> tuple[Embeddings, Embeddings]:
        """Return the vectors of queries and sources, quantized if the encoder does so."""
        query, source = self.queries(queries), self.sources(sources)
        if (kind := self.encoder.quantize) is None:
            return query, source

        def compress(side: Embeddings) -> Embeddings:
            vectors = quantized(side.vectors, source.vectors, kind, self._room.array)
            return replace(side, vectors=vectors)

        return compress(query), compress(source)

    def queries(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts as queries (see `vectors`), not quantized."""
        by_queries = self._by_queries or self
        return by_queries._on_side(texts, "query")  # noqa: SLF001  the same class

    def sources(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts as sources (see `vectors`), not quantized."""
        return self._on_side(texts, "source")

    def _on_side(self, texts: Sequence[str], side: Side) -> Embeddings:
        vectors = with_strength(self._rows_of(texts), self.encoder, side, self._room.array)
        vectors = truncated(vectors, self.encoder)
        vectors.flags.writeable = False
        return Embeddings(vectors, self.encoder.compared_by)

    def _rows_of(self, texts: Sequence[str]) -> FloatArray:
        unknown = next((text for text in texts if text not in self._rows), None)
        if unknown is not None:
            raise KeyError(f"{_shorten(unknown)} is not one of the {len(self)} embedded texts")
        rows = np.array([self._rows[text] for text in texts], dtype=np.int64)
        return gather(self._matrix, rows, self._room)

    def part(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Return a copy that contains only these texts, to send to another process."""
        by_queries = self._by_queries
        if by_queries is not None:
            by_queries = by_queries.part([text for text in texts if text in by_queries])
            texts = [text for text in texts if text in self]
        distinct = list(dict.fromkeys(texts))
        rows = {text: row for row, text in enumerate(distinct)}
        matrix, room = self._rows_of(distinct), ArrayStorage()
        return replace(self, _matrix=matrix, _rows=rows, _room=room, _by_queries=by_queries)


@dataclass(frozen=True)
class Embedder:
    """Settings for embedding texts: the store, the groups and the batch size.

    Attributes:
        store: Store of the vectors; None discards the vectors after use.
        batch_tokens: Maximum number of tokens in a batch, including padding. A longer text forms a
            batch by itself.
        batch_size: Maximum number of texts in a batch.
        groups: Groups of texts that are embedded together; None uses no groups.
    """

    store: EmbeddingStore | MemoryStore | None = None
    batch_tokens: int = BATCH_TOKENS
    batch_size: int = BATCH_SIZE
    groups: Groups | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_at_least(1, batch_tokens=self.batch_tokens, batch_size=self.batch_size)

    @classmethod
    def on(cls, encoder: Encoder, store: EmbeddingStore | MemoryStore | None = None) -> Embedder:
        """Return an embedder with a suitable batch size for the encoder's device."""
        if getattr(encoder, "device", None) in (None, "cpu"):
            return cls(store)
        return cls(store, GPU_BATCH_TOKENS, GPU_BATCH_SIZE)

    def embed(
        self, encoder: Encoder, texts: Sequence[str], progress: Progress | None = None
    ) -> EmbeddedTexts:
        """Return the vectors of texts, and encode the texts that are missing from the store.

        The module docstring describes the batch plan. If another process stores a text first, the
        stored vector is used. A corpus encoder's vectors are not stored. A user-defined encoder's
        vectors are stored only if its class requests this (see `keeps_vectors`). An absent encoder
        has no vectors.

        Args:
            encoder: Encoder for the texts.
            texts: Texts to embed; they may repeat.
            progress: Function that is called with the number of stored texts, and then with the
                number of new texts in each batch. The numbers add up to the distinct texts.

        Returns:
            The vectors of all distinct texts, with counts and times.

        Raises:
            InputError: If there are no texts, if the encoder returns an unusable vector, or if the
                store cannot be used.

        Warns:
            InputWarning: If a user-defined encoder requests that its vectors are stored.
        """
        if encoder.id.sides == "query-document":
            return self.embed_sides(encoder, texts, texts, progress)
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            raise InputError("there are no texts to embed; give at least one")
        if isinstance(encoder, AbsentEncoder):
            nothing = np.empty((0, 0), dtype=np.float32)
            return EmbeddedTexts(encoder.id, Usage(len(texts), 0, 0, 0.0), nothing, {})
        check_saved(encoder, distinct)
        if self.store is not None and type(encoder) is SentenceTransformerEncoder and encoder.base:
            embedded = self.embed(encoder.base, texts, progress)
            matrix = encoder.from_base(embedded._matrix, embedded._room.array)  # noqa: SLF001  a class of this module
            return replace(embedded, encoder=encoder.id, _matrix=matrix)
        parts = self._parts(encoder, distinct)
        store = self.store or MemoryStore(distinct)
        if isinstance(store, EmbeddingStore) and not keeps_vectors(encoder):
            store = MemoryStore(distinct)
        if isinstance(encoder, CorpusEncoder):
            encoder, store = encoder.for_corpus(texts), MemoryStore(distinct)
        advance = progress or (lambda _: None)
        encoder_id = encoder.id.stored
        n_encoded, n_at_limit, encode_seconds, dimension = 0, 0, 0.0, None
        missing = [store.missing(encoder_id, part.texts, part.digest) for part in parts]
        advance(len(distinct) - sum(map(len, missing)))
        for part, of_part in zip(parts, missing, strict=True):
            batches = self._batches(encoder, store, part, of_part, advance)
            for batch, encoded, seconds in _encode(encoder, batches):
                encode_seconds += seconds
                vectors = _checked(encoded, batch.texts, dimension, encoder_id)
                dimension = vectors.shape[1]
                check_dimension(encoder.id, dimension)
                rows = _usable_rows(vectors, batch.texts, batch.missing, encoder_id)
                usable = [batch.texts[row] for row in rows]
                store.write(encoder_id, usable, vectors[rows], part.digest)
                n_encoded += len(batch.missing)
                n_at_limit += len(batch.missing & batch.at_limit)
                advance(batch.n_planned)
        matrix = read_parts(store, encoder_id, parts, distinct)
        usage = Usage(
            n_texts=len(texts),
            n_distinct=len(distinct),
            n_encoded=n_encoded,
            encode_seconds=encode_seconds,
            n_at_limit=n_at_limit,
        )
        row_of = {text: row for row, text in enumerate(distinct)}
        return EmbeddedTexts(encoder.id, usage, matrix, row_of, store.room)

    def embed_sides(
        self,
        encoder: Encoder,
        queries: Sequence[str],
        sources: Sequence[str],
        progress: Progress | None = None,
    ) -> EmbeddedTexts:
        """Return the vectors of texts, each by the side of the encoder that the text is on.

        A symmetric comparison uses the side of documents.

        Args:
            encoder: Encoder for the texts.
            queries: Texts that are queries.
            sources: All other texts; texts may be on both sides.
            progress: Function that is called as in `embed`.
        """
        if encoder.id.sides != "query-document":
            return self.embed(encoder, [*sources, *queries], progress)
        sided: Any = encoder  # Encoders with sides have the method `on_side`.
        embedded = self.embed(sided.on_side("document"), sources, progress)
        if not queries:
            return replace(embedded, encoder=encoder.id)
        by_queries = self.embed(sided.on_side("query"), queries, progress)
        by_queries = replace(by_queries, encoder=encoder.id)
        usage = embedded.usage + by_queries.usage
        return replace(embedded, encoder=encoder.id, usage=usage, _by_queries=by_queries)

    def groups_of(self, encoder: Encoder, texts: Sequence[str]) -> list[str]:
        """Return the digests of the groups that contain the texts.

        The digests cover everything that affects the vectors, except the encoder.
        """
        return [part.digest for part in self._parts(encoder, list(dict.fromkeys(texts)))]

    def _parts(self, encoder: Encoder, distinct: Sequence[str]) -> list[Part]:
        if self.groups is None or isinstance(encoder, CorpusEncoder):
            return [Part(distinct)]
        machine = getattr(encoder, "arithmetic", "")
        how = [_PLAN_VERSION, self.batch_tokens, self.batch_size, machine]
        return self.groups.divide(distinct, how)

    def _batches(
        self,
        encoder: Encoder,
        store: EmbeddingStore | MemoryStore,
        part: Part,
        missing: Sequence[str],
        advance: Progress,
    ) -> Iterator[_Batch]:
        """Yield each batch that contains missing texts.

        `advance` is called for batches that another process has stored since the plan was made.
        """
        if not missing:
            return
        planned = missing if part.group is None else part.group
        counts = _count_tokens(encoder, planned)
        sizes = {"batch_tokens": self.batch_tokens, "batch_size": self.batch_size}
        limit = encoder.id.max_tokens or math.inf
        at_limit = {text for text, n in zip(planned, counts, strict=True) if n >= limit}
        missing_texts = set(missing)
        for batch in plan(planned, counts, **sizes):
            if not (needed := [text for text in batch if text in missing_texts]):
                continue
            # On a GPU, a batch that is stored after this line is encoded again.
            still_missing = store.missing(encoder.id.stored, needed, part.digest)
            if still_missing:
                texts = still_missing if part.group is None else batch
                yield _Batch(texts, set(still_missing), len(needed), at_limit)
            else:
                advance(len(needed))


@dataclass(frozen=True)
class _Batch:
    """Texts to encode together, with what the embedder needs to know of them.

    Attributes:
        texts: The texts.
        missing: Those to store.
        n_planned: Number of texts to report.
        at_limit: All texts of the plan with as many tokens as the encoder reads, or more.
    """

    texts: list[str]
    missing: set[str]
    n_planned: int
    at_limit: set[str]


def _encode(
    encoder: Encoder, batches: Iterator[_Batch]
) -> Iterator[tuple[_Batch, FloatArray, float]]:
    """Yield each batch, its vectors and the seconds until they were there.

    A GPU encodes a batch while the next one is tokenized. A subclass may override `encode`, so its
    `encode` is called.
    """
    if type(encoder) is not SentenceTransformerEncoder or encoder.device == "cpu":
        for batch in batches:
            begun = time.perf_counter()
            yield batch, encoder.encode(batch.texts), time.perf_counter() - begun
        return
    with ThreadPoolExecutor(1) as pool:
        submitted = ((batch, pool.submit(encoder.tokenize, batch.texts)) for batch in batches)
        end: Any = None
        for (batch, features), _ in pairwise(chain(submitted, [end])):
            begun = time.perf_counter()
            vectors = encoder.encode_tokens(features.result())
            yield batch, vectors, time.perf_counter() - begun


def plan(
    texts: Sequence[str],
    counts: Sequence[int] | IntArray,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int = BATCH_SIZE,
) -> list[list[str]]:
    """Divide texts into batches of similar length, the longest texts first.

    The padded size of a batch is the length of its longest text times its number of texts. Texts
    are added to a batch while the padded size is at most `batch_tokens`. The plan does not depend
    on the order of the texts, because texts of equal length are sorted alphabetically. If the first
    batches are removed, the rest of the plan is the plan for the remaining texts.

    Args:
        texts: Distinct texts.
        counts: Number of tokens of each text, (n,).
        batch_tokens: Maximum padded size, in tokens. A longer text forms a batch by itself.
        batch_size: Maximum number of texts in a batch.

    Returns:
        The texts of each batch.

    Example:
        Two texts of 3 tokens fill a batch of 6 tokens; a third text would need 9 tokens:

        >>> plan(["a b c", "d", "e f", "g h i"], [3, 1, 2, 3], batch_tokens=6)
        [['a b c', 'g h i'], ['e f', 'd']]
    """
    batches: list[list[str]] = []
    longest = 0
    for negative, text in sorted((-int(c), text) for c, text in zip(counts, texts, strict=True)):
        last = batches[-1] if batches else []
        if not last or len(last) == batch_size or longest * (len(last) + 1) > batch_tokens:
            batches.append([text])
            longest = -negative
        else:
            last.append(text)
    return batches


def _count_tokens(encoder: Encoder, texts: Sequence[str]) -> IntArray:
    counts: IntArray = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _COUNTED_AT_ONCE):
        chunk = texts[start : start + _COUNTED_AT_ONCE]
        counted = np.asarray(encoder.count_tokens(chunk))
        if counted.shape != (len(chunk),):
            raise InputError(
                f"{encoder.id.label}: `count_tokens` must return an array of shape "
                f"({len(chunk)},) for {len(chunk)} texts, got {counted.shape}"
            )
        counts[start : start + len(chunk)] = counted
    return counts


def _checked(
    encoded: FloatArray, texts: Sequence[str], dimension: int | None, encoder: EncoderId
) -> FloatArray:
    """Return the vectors of a batch as float32, (b, d).

    Raises:
        InputError: If the array is not numeric or has the wrong shape.
    """
    batch = f"{encoder.label}: the batch of {len(texts)} texts that starts with "
    batch += _shorten(texts[0])
    remedy = "); `encode` must return an array of floats"
    with (
        reworded(f"{batch} has no numeric vectors (", remedy, TypeError, ValueError),
        np.errstate(over="ignore"),  # Overflow gives inf, which `_usable_rows` rejects.
    ):
        vectors = np.asarray(encoded).astype(np.float32, casting="same_kind", copy=False)
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
        raise InputError(
            f"{batch} has vectors of shape {vectors.shape}, expected ({len(texts)}, d)"
        )
    if dimension is not None and vectors.shape[1] != dimension:
        raise InputError(
            f"{batch} has vectors of {vectors.shape[1]} dimensions, but earlier batches have "
            f"{dimension}; `encode` must always return the same number of dimensions"
        )
    return vectors


def _usable_rows(
    vectors: FloatArray, texts: Sequence[str], wanted: Container[str], encoder: EncoderId
) -> list[int]:
    """Return the row numbers of usable vectors, which are finite and not zero.

    Raises:
        InputError: If the vector of a text in `wanted` is unusable. Other texts of the group were
            not requested, so their vectors may be unusable.
    """
    finite, directed = np.isfinite(vectors).all(axis=1), vectors.any(axis=1)
    for useless, problem in ((~finite, "not finite"), (~directed, "all zero")):
        for row in np.flatnonzero(useless).tolist():
            if texts[row] in wanted:
                raise InputError(
                    f"{encoder.label}: the vector of {_shorten(texts[row])} is {problem} "
                    f"({np.count_nonzero(useless)} of {len(texts)} in its batch); every text needs "
                    "a finite vector that is not zero"
                )
    return np.flatnonzero(finite & directed).tolist()


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."
