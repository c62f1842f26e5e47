"""Embedding: texts become vectors, and every distinct text is encoded once.

The encoder gets texts in batches of similar length, the longest first. Little padding is needed,
and a batch that is too large fails at once and not after hours. Stored texts are not encoded again.

One rule makes runs repeatable: **batches are planned over the texts missing from the store and
encoded in the order of the plan. Each batch is stored in one transaction before the next begins.**
It has three consequences.

- Nothing is encoded twice: a text that any run has stored is in no batch.
- A run that is killed at any moment and started again ends with the same bytes as a run that was
  not killed, whatever the store held when the first began. The killed run has stored the first
  batches of its plan, each complete. The plan fills each batch without looking ahead, so the plan
  over the texts still missing is the rest of the first plan, batch by batch. (The batches must be
  the same, because padding makes a vector differ by about 1e-7 with the other texts of its batch.)
- Batches stay full however many texts another suite has stored. Only missing texts are tokenized,
  so a warm store is read at once.

The rule does not make a vector independent of the suite that first requested it.

Training needs this independence: its weights must not depend on what another run stored. For
training, texts are divided into **groups**. The batches of a group are planned over the whole
group and encoded whole. They are stored separately from the vectors of other groups and of texts
without a group. A vector then depends on the encoder, the group and the machine, but not on who
requested it first or with which other texts.

Shapes: b batch, d dimensions, n texts.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polarity_bench.embedding.arrays import ArrayStorage, Embeddings, MemoryStore, gather
from polarity_bench.embedding.groups import Groups, Part, read_parts
from polarity_bench.embedding.store import EmbeddingStore, keeps_vectors
from polarity_bench.encoders.base import AbsentEncoder, CorpusEncoder, Encoder, EncoderId
from polarity_bench.encoders.steered import Side, weighed
from polarity_bench.errors import InputError
from polarity_bench.progress import Progress
from polarity_bench.values import FloatArray, IntArray

BATCH_TOKENS = 2048
"""Tokens in a batch, padding included."""

GPU_BATCH_TOKENS = 32_768
"""Tokens in a batch on a GPU, padding included; GPUs need larger batches to be fast."""

BATCH_SIZE = 512
"""Maximum number of texts in a batch."""

_COUNTED_AT_ONCE = 10_000  # texts; tokenizers allocate some kilobytes per text
_PLAN_VERSION = 1
"""Version of the batch plan of groups; increase it with every change, so that texts are encoded
again."""


@dataclass(frozen=True)
class Usage:
    """Number of texts and time of an embedding.

    Attributes:
        n_texts: Number of requested texts.
        n_distinct: Number of distinct texts, `n_encoded` + `n_read`.
        n_encoded: Number of distinct texts that the encoder encoded.
        n_read: Number of distinct texts whose vectors another run had stored.
        encode_seconds: Time in the encoder, including its tokenization.
        other_seconds: Remaining time: counting tokens, planning, checking, the store.
    """

    n_texts: int
    n_distinct: int
    n_encoded: int
    n_read: int
    encode_seconds: float
    other_seconds: float


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """Vectors of some distinct texts by one encoder, looked up by text."""

    encoder: EncoderId
    usage: Usage
    _matrix: FloatArray = field(repr=False)
    _rows: Mapping[str, int] = field(repr=False)
    _room: ArrayStorage = field(default=ArrayStorage(), repr=False)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, text: object) -> bool:
        return text in self._rows

    def vectors(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of some texts, in the given order; texts may repeat.

        They are compared with each other. An encoder with an axis weighs them by its strength, so
        that their inner products are those of a query and a source.

        Returns:
            The vectors, (n, d), read-only; in a temporary file if they are large.

        Raises:
            KeyError: If a text was not embedded.
            InputError: If the encoder's strength is below 0, which requires different vectors for
                queries and sources.
        """
        return self._as(texts, "both")

    def queries(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts as queries; see `vectors`."""
        return self._as(texts, "query")

    def sources(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts as sources; see `vectors`."""
        return self._as(texts, "source")

    def _as(self, texts: Sequence[str], side: Side) -> Embeddings:
        vectors = weighed(self._taken(texts), self.encoder, side, self._room.array)
        vectors.flags.writeable = False
        return Embeddings(vectors, self.encoder.compared_by)

    def _taken(self, texts: Sequence[str]) -> FloatArray:
        unknown = next((text for text in texts if text not in self._rows), None)
        if unknown is not None:
            raise KeyError(f"{_shortened(unknown)} is not among the {len(self)} texts embedded")
        rows = np.array([self._rows[text] for text in texts], dtype=np.int64)
        return gather(self._matrix, rows, self._room)

    def part(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Return a copy with some of the texts only, to send to another process."""
        distinct = list(dict.fromkeys(texts))
        rows = {text: row for row, text in enumerate(distinct)}
        return EmbeddedTexts(self.encoder, self.usage, self._taken(distinct), rows)


@dataclass(frozen=True)
class Embedder:
    """Settings of embedding: the store, the groups and the size of batches.

    Attributes:
        store: Store of the vectors; None keeps no vectors.
        batch_tokens: Maximum number of tokens in a batch, padding included; a single text may have
            more.
        batch_size: Maximum number of texts in a batch.
        groups: Groups that texts are embedded in; None uses no groups.
    """

    store: EmbeddingStore | MemoryStore | None = None
    batch_tokens: int = BATCH_TOKENS
    batch_size: int = BATCH_SIZE
    groups: Groups | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` must be at least 1, got {getattr(self, name)}")

    @classmethod
    def on(cls, device: str | None, store: EmbeddingStore | MemoryStore | None = None) -> Embedder:
        """Return an embedder whose batch size suits the device."""
        tokens = BATCH_TOKENS if device in (None, "cpu") else GPU_BATCH_TOKENS
        return cls(store, tokens)

    def embed(
        self, encoder: Encoder, texts: Sequence[str], progress: Progress | None = None
    ) -> EmbeddedTexts:
        """Encode every distinct text that the store does not hold, and return the vectors of all.

        The module's docstring describes how batches are planned. The store takes precedence: if
        another process stored a text first, its vector is returned. The vectors of an encoder that
        depends on its corpus are not stored. Those of a user's own class are stored only if the
        class requests it: see `keeps_vectors`. An absent encoder gives no vectors.

        Args:
            encoder: Encoder of the texts.
            texts: The texts; they may repeat.
            progress: Called with the number of distinct texts that are newly done: first those
                already stored, then those of each batch. The calls add up to all distinct texts.

        Raises:
            InputError: If there are no texts, the encoder returns an unusable vector, or the
                store cannot be used.

        Warns:
            InputWarning: If a class from outside this package requests to have its vectors stored.
        """
        begun = time.perf_counter()
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            raise InputError("there are no texts to embed; give at least one")
        if isinstance(encoder, AbsentEncoder):
            nothing = np.empty((0, 0), dtype=np.float32)
            return EmbeddedTexts(encoder.id, Usage(len(texts), 0, 0, 0, 0.0, 0.0), nothing, {})
        parts = self._parts(encoder, distinct)
        store = self.store or MemoryStore(distinct)
        if isinstance(store, EmbeddingStore) and not keeps_vectors(encoder):
            store = MemoryStore(distinct)
        if isinstance(encoder, CorpusEncoder):
            encoder, store = encoder.for_corpus(texts), MemoryStore(distinct)
        advance = progress or (lambda _: None)
        encoder_id = encoder.id.stored
        n_encoded, encode_seconds, dimension = 0, 0.0, None
        missing = [store.missing(encoder_id, part.texts, part.digest) for part in parts]
        advance(len(distinct) - sum(map(len, missing)))
        for part, of_part in zip(parts, missing, strict=True):
            for batch, needed in self._batches(encoder, part, of_part):
                # Another process with the same texts may have stored this batch in the meantime.
                wanted = store.missing(encoder_id, needed, part.digest)
                if wanted:
                    members = wanted if part.group is None else batch
                    encoding = time.perf_counter()
                    encoded = encoder.encode(members)
                    encode_seconds += time.perf_counter() - encoding
                    vectors = _checked(encoded, members, dimension, encoder_id)
                    dimension = vectors.shape[1]
                    rows = _usable_rows(vectors, members, set(wanted), encoder_id)
                    usable = [members[row] for row in rows]
                    store.write(encoder_id, usable, vectors[rows], part.digest)
                    n_encoded += len(wanted)
                advance(len(needed))
        matrix = read_parts(store, encoder_id, parts, distinct)
        usage = Usage(
            n_texts=len(texts),
            n_distinct=len(distinct),
            n_encoded=n_encoded,
            n_read=len(distinct) - n_encoded,
            encode_seconds=encode_seconds,
            other_seconds=time.perf_counter() - begun - encode_seconds,
        )
        row_of = {text: row for row, text in enumerate(distinct)}
        return EmbeddedTexts(encoder.id, usage, matrix, row_of, store.room)

    def groups_of(self, encoder: Encoder, texts: Sequence[str]) -> list[str]:
        """Return the digests of the groups that some texts are embedded in.

        They cover everything that the vectors depend on besides the encoder.
        """
        return [part.digest for part in self._parts(encoder, list(dict.fromkeys(texts)))]

    def _parts(self, encoder: Encoder, distinct: Sequence[str]) -> list[Part]:
        if self.groups is None or isinstance(encoder, CorpusEncoder):
            return [Part(distinct)]
        machine = getattr(encoder, "arithmetic", "")
        how = [_PLAN_VERSION, self.batch_tokens, self.batch_size, machine]
        return self.groups.divide(distinct, how)

    def _batches(
        self, encoder: Encoder, part: Part, missing: Sequence[str]
    ) -> Iterator[tuple[list[str], list[str]]]:
        """Yield each batch that contains missing texts, together with these texts."""
        if not missing:
            return
        planned = missing if part.group is None else part.group
        counts = _count_tokens(encoder, planned)
        sizes = {"batch_tokens": self.batch_tokens, "batch_size": self.batch_size}
        left = set(missing)
        for batch in plan(planned, counts, **sizes):
            if needed := [text for text in batch if text in left]:
                yield batch, needed


def plan(
    texts: Sequence[str],
    counts: Sequence[int] | IntArray,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int = BATCH_SIZE,
) -> list[list[str]]:
    """Divide texts into batches of similar length, the longest first, ties by the text itself.

    Texts are added to a batch while the length of its longest text times its number of texts stays
    within the budget. The plan depends only on the set of texts, not on their order. Without its
    first batches, it is the plan of the remaining texts.

    Args:
        texts: Distinct texts.
        counts: Number of tokens of each text, (n,).
        batch_tokens: Budget of tokens; a text with more is a batch by itself.
        batch_size: Maximum number of texts in a batch.

    Example:
        Two texts of 3 tokens fill a budget of 6; a third text would make it 9:

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
    """Return a batch as float32, (b, d), or raise an error that names its first text."""
    batch = f"{encoder.label}: the batch of {len(texts)} texts that begins with "
    batch += _shortened(texts[0])
    try:
        with np.errstate(over="ignore"):  # overflow gives inf, which `_usable_rows` refuses
            vectors = np.asarray(encoded).astype(np.float32, casting="same_kind", copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{batch} has no numeric vectors ({error}); expected an array that float32 can hold"
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
        raise InputError(
            f"{batch} has vectors of shape {vectors.shape}, expected ({len(texts)}, d)"
        )
    if dimension is not None and vectors.shape[1] != dimension:
        raise InputError(
            f"{batch} has vectors of {vectors.shape[1]} dimensions, expected {dimension} as in "
            "earlier batches"
        )
    return vectors


def _usable_rows(
    vectors: FloatArray, texts: Sequence[str], wanted: Container[str], encoder: EncoderId
) -> list[int]:
    """Return the rows of usable vectors.

    Raises:
        InputError: If the vector of a wanted text is unusable. Other texts of its group may have
            such vectors, because they were not requested.
    """
    finite, directed = np.isfinite(vectors).all(axis=1), vectors.any(axis=1)
    for useless, what in ((~finite, "not finite"), (~directed, "all zero")):
        for row in np.flatnonzero(useless).tolist():
            if texts[row] in wanted:
                raise InputError(
                    f"{encoder.label}: the vector of {_shortened(texts[row])} is {what} "
                    f"({np.count_nonzero(useless)} of {len(texts)} in its batch); every text needs "
                    "a finite vector other than zero"
                )
    usable: list[int] = np.flatnonzero(finite & directed).tolist()
    return usable


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."
