"""Embed: turn texts into vectors, every distinct text once.

Texts go to the encoder in batches of like length, the longest first, so that little is padding
and too large a batch fails at once and not after hours. What is stored is not encoded again.

The rule that makes a run repeatable: **the batches are planned over the texts that are missing
from the store, go to the encoder in the order of the plan, and each is stored in one
transaction before the next begins.** Three things follow.

- Nothing is encoded twice: a text that any run stored is in no batch.
- A run killed at any moment and started again ends with the same bytes as one that was not
  killed, whatever the store held when the first began. What the killed run stored is the first
  batches of its plan, whole; the plan fills each batch without looking ahead, so that the plan
  over the texts still missing is the rest of the first plan, batch by batch. (That the batches
  are the same matters: padding moves a vector by about 1e-7 with its batch mates.)
- Batches stay full however many texts another suite has stored, and only missing texts are
  tokenized: a warm store is read at once.

It does not make a vector independent of the suite that first asked for it.

Training needs that: its weights must not depend on what another run stored. For training, texts
are divided into **groups**. The batches of a group are planned over the whole group, are encoded
whole, and are stored apart from the vectors of other groups and of none. So a vector depends on
the encoder, the group and the machine, and not on who asked first or for which texts.

Shapes: b batch, d dimensions, n texts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polarity_bench.embedding.arrays import ArrayStorage, Embeddings, MemoryStore, gather
from polarity_bench.embedding.groups import Groups, Part, read_parts
from polarity_bench.embedding.store import EmbeddingStore, keeps_vectors
from polarity_bench.encoders.base import AbsentEncoder, CorpusEncoder, Encoder, EncoderId
from polarity_bench.errors import InputError
from polarity_bench.progress import Progress
from polarity_bench.values import FloatArray, IntArray

BATCH_TOKENS = 2048
"""Tokens in a batch, padding included."""

GPU_BATCH_TOKENS = 32_768
"""The same for a GPU, which wants more at once."""

BATCH_SIZE = 512
"""Texts in a batch, at most."""

_COUNTED_AT_ONCE = 10_000  # tokenizers keep some kilobytes per text
_PLAN_VERSION = 1
"""Raised whenever the plan of a group changes: its vectors are then stored anew."""


@dataclass(frozen=True)
class Usage:
    """What an embedding took.

    Attributes:
        n_texts: Texts asked for.
        n_distinct: Distinct texts among them: `n_encoded` and `n_read`.
        n_encoded: Texts among them that went through the encoder.
        n_read: Texts whose vectors another run had stored.
        encode_seconds: Spent in the encoder, its own tokenizing included.
        other_seconds: The rest: counting tokens, planning, checking, the store.
    """

    n_texts: int
    n_distinct: int
    n_encoded: int
    n_read: int
    encode_seconds: float
    other_seconds: float


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """The vectors of some distinct texts by one encoder, to be asked for by text."""

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
        """Return the vectors of some texts, in their order, repeated or not.

        An axis is weighed by the root of its strength: so two such vectors have the product of a
        query's and a source's.

        Returns:
            The vectors, (n, d), not to be written to; in a temporary file if they are large.

        Raises:
            KeyError: If a text was not embedded.
            InputError: If the strength is below 0, which sets a query apart from a source.
        """
        strength = self._strength
        if strength < 0:
            raise InputError(
                f"{self.encoder.label}: a strength below 0 ranks sources for a query; it gives no "
                "vectors for both sides of a pair, nor for a classifier"
            )
        return self._weighed(texts, math.sqrt(strength))

    def queries(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts that ask, an axis weighed by its strength; see `vectors`."""
        return self._weighed(texts, self._strength)

    def sources(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of texts that are found, an axis as it is; see `vectors`."""
        return self._weighed(texts, 1.0)

    @property
    def _strength(self) -> float:
        return 1.0 if self.encoder.strength is None else self.encoder.strength

    def _weighed(self, texts: Sequence[str], weight: float) -> Embeddings:
        """Take vectors, their axis times a weight; at strength 0 without it."""
        taken = self._taken(texts)
        body = taken.shape[1] - self.encoder.axis
        if self.encoder.axis and self._strength == 0:
            taken = taken[:, :body]
        elif self.encoder.axis and weight != 1:
            given, taken = taken, self._room.array(*taken.shape)
            taken[:] = given
            taken[:, body:] *= weight
        taken.flags.writeable = False
        return Embeddings(taken, self.encoder)

    def _taken(self, texts: Sequence[str]) -> FloatArray:
        unknown = next((text for text in texts if text not in self._rows), None)
        if unknown is not None:
            raise KeyError(f"{_shortened(unknown)} is not among the {len(self)} texts embedded")
        rows = np.array([self._rows[text] for text in texts], dtype=np.int64)
        return gather(self._matrix, rows, self._room)

    def part(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Take some of the texts out, to be sent to another process."""
        distinct = list(dict.fromkeys(texts))
        rows = {text: row for row, text in enumerate(distinct)}
        return EmbeddedTexts(self.encoder, self.usage, self._taken(distinct), rows)


@dataclass(frozen=True)
class Embedder:
    """How texts are embedded: where vectors are kept, in groups or not, and the size of batches.

    Attributes:
        store: Where vectors are kept; None keeps none.
        batch_tokens: Tokens in a batch, padding included; one text alone may have more.
        batch_size: Texts in a batch, at most.
        groups: The groups that texts are embedded in; None embeds in no groups.
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
        """Return one with batches of the size that suits a device."""
        tokens = BATCH_TOKENS if device in (None, "cpu") else GPU_BATCH_TOKENS
        return cls(store, tokens)

    def embed(
        self, encoder: Encoder, texts: Sequence[str], progress: Progress | None = None
    ) -> EmbeddedTexts:
        """Encode every distinct text that the store does not hold, and return the vectors of all.

        The module's docstring gives the rules by which batches are made. What the store holds is
        the truth: where another process stored a text first, its vector is the one returned. The
        vectors of an encoder that depends on its corpus are not stored, nor are those of a class of
        the user's own, unless it asks for that: see `keeps_vectors`. An absent encoder has none.

        Args:
            encoder: Turns texts into vectors.
            texts: The texts, repeated or not.
            progress: Called with the number of distinct texts newly done: with those already
                stored at the start, then with each batch's; the calls add up to all of them.

        Raises:
            InputError: If there are no texts, the encoder returns a vector that cannot be used,
                or the store cannot.

        Warns:
            InputWarning: If a class from elsewhere asks to have its vectors stored.
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
                # Another process at the same texts may have stored this batch in the meantime.
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

        They are over all that the vectors depend on beside the encoder.
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
        """Yield each batch that has missing texts, with those."""
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
    """Divide texts into batches of like length, the longest first, ties by the text itself.

    A batch takes the next text for as long as its longest text times its number of texts stays
    within the budget. The plan depends on the set of texts alone, not on their order, and without
    its first batches it is the plan of the texts that remain.

    Args:
        texts: Distinct texts.
        counts: The tokens of each, (n,).
        batch_tokens: The budget; a text with more is a batch of its own.
        batch_size: Texts in a batch, at most.

    Example:
        Two texts of 3 tokens fill a budget of 6; a third would make it 9:

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
                f"{encoder.id.label}: counted the tokens of {len(chunk)} texts as an array of "
                f"shape {counted.shape}, needed is ({len(chunk)},)"
            )
        counts[start : start + len(chunk)] = counted
    return counts


def _checked(
    encoded: FloatArray, texts: Sequence[str], dimension: int | None, encoder: EncoderId
) -> FloatArray:
    """Return a batch as float32, (b, d), or refuse it by its first text."""
    batch = f"{encoder.label}: the batch of {len(texts)} texts that begins with "
    batch += _shortened(texts[0])
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite: see below
            vectors = np.asarray(encoded).astype(np.float32, casting="same_kind", copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{batch} did not come as numbers ({error}); needed is an array that float32 can hold"
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
        raise InputError(f"{batch} came with shape {vectors.shape}, needed is ({len(texts)}, d)")
    if dimension is not None and vectors.shape[1] != dimension:
        raise InputError(
            f"{batch} came with {vectors.shape[1]} dimensions, earlier ones with {dimension}; one "
            "encoder has one dimension"
        )
    return vectors


def _usable_rows(
    vectors: FloatArray, texts: Sequence[str], wanted: Container[str], encoder: EncoderId
) -> list[int]:
    """Return the rows of vectors that can be used.

    Raises:
        InputError: If the vector of a wanted text cannot be used. Other texts of its group may have
            such vectors, since nobody asked for them.
    """
    finite, directed = np.isfinite(vectors).all(axis=1), vectors.any(axis=1)
    for useless, what in ((~finite, "not finite"), (~directed, "all zero")):
        for row in np.flatnonzero(useless).tolist():
            if texts[row] in wanted:
                raise InputError(
                    f"{encoder.label}: the vector of {_shortened(texts[row])} is {what} "
                    f"({np.count_nonzero(useless)} of {len(texts)} in its batch); every text needs "
                    "a finite vector with a direction"
                )
    usable: list[int] = np.flatnonzero(finite & directed).tolist()
    return usable


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."
