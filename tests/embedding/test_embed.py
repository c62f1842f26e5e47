from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder, plan
from polarity_bench.embedding.groups import Groups
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray

ROOT = Path(__file__).parents[2]
TEXTS = [("word " * (i % 7 + 1)) + str(i) for i in range(200)]


class HashEncoder:
    """Vectors from a hash of the text, moved a little by the batch mates, as padding does."""

    stores_vectors = True

    def __init__(self, *, prompt: str | None = None, seconds: float = 0.0) -> None:
        self.id: EncoderId = EncoderId(name="hash", weights="hash", prompt=prompt)
        self.batches: list[list[str]] = []
        self.n_counted = 0
        self._seconds = seconds

    @property
    def encoded(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        self.n_counted += len(texts)
        return np.array([len(text.split()) + 2 for text in texts], dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        time.sleep(self._seconds)
        self.batches.append(list(texts))
        print(len(self.batches), flush=True)
        mates = np.float32(1e-7) * (_vector(repr(list(texts))))
        return np.stack([_vector(text) for text in texts]) + mates


def _vector(text: str) -> FloatArray:
    bytes_ = hashlib.blake2b(text.encode(), digest_size=64).digest()
    return np.frombuffer(bytes_, dtype=np.int32).astype(np.float32) / 2**31


class Odd(HashEncoder):
    """Spoils one batch."""

    stores_vectors = True

    def __init__(self, spoil: Callable[[list[str], FloatArray], object]) -> None:
        super().__init__()
        self._spoil = spoil

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return self._spoil(list(texts), super().encode(texts))  # type: ignore[return-value]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddingStore]:
    with EmbeddingStore(tmp_path) as store:
        yield store


def bytes_of(corpus: EmbeddedTexts) -> bytes:
    return corpus.vectors(TEXTS).vectors.tobytes()


def small(
    encoder: Encoder, store: EmbeddingStore | None, texts: Sequence[str] = TEXTS
) -> EmbeddedTexts:
    return Embedder(store, batch_tokens=60, batch_size=8).embed(encoder, texts)


def test_every_distinct_text_is_encoded_once_and_rows_follow_the_texts(
    store: EmbeddingStore,
) -> None:
    for kept in (store, None):
        encoder = HashEncoder()
        asked = [*TEXTS, *reversed(TEXTS), TEXTS[0]]
        corpus = small(encoder, kept, asked)
        assert sorted(encoder.encoded) == sorted(TEXTS)
        got = corpus.vectors(asked).vectors
        assert got.shape == (401, 16)
        assert got.dtype == np.float32
        assert np.allclose(got, np.stack([_vector(text) for text in asked]), atol=1e-6)
        assert corpus.encoder == encoder.id
        assert len(corpus) == 200
        assert TEXTS[3] in corpus
        assert "another" not in corpus


def test_with_and_without_a_store_the_bytes_are_the_same(store: EmbeddingStore) -> None:
    assert bytes_of(small(HashEncoder(), None)) == bytes_of(small(HashEncoder(), store))


def test_the_order_of_the_texts_does_not_move_a_vector() -> None:
    shuffled = [TEXTS[i] for i in np.random.default_rng(0).permutation(len(TEXTS))]
    assert bytes_of(small(HashEncoder(), None)) == bytes_of(small(HashEncoder(), None, shuffled))


def test_a_warm_store_is_neither_counted_nor_encoded(store: EmbeddingStore) -> None:
    first = small(HashEncoder(), store)
    again = HashEncoder()
    second = small(again, store)
    assert again.batches == []
    assert again.n_counted == 0
    assert bytes_of(first) == bytes_of(second)
    assert (first.usage.n_encoded, first.usage.n_read) == (200, 0)
    assert (second.usage.n_encoded, second.usage.n_read) == (0, 200)
    assert second.usage.encode_seconds == 0


def test_another_prompt_is_encoded_anew(store: EmbeddingStore) -> None:
    small(HashEncoder(), store)
    prompted = HashEncoder(prompt="query: ")
    small(prompted, store)
    assert len(prompted.encoded) == 200


def test_only_what_another_suite_left_out_is_encoded_in_full_batches(store: EmbeddingStore) -> None:
    small(HashEncoder(), store, TEXTS[::3])
    encoder = HashEncoder()
    corpus = small(encoder, store)
    left_out = [text for i, text in enumerate(TEXTS) if i % 3]
    assert sorted(encoder.encoded) == sorted(left_out)
    assert encoder.n_counted == len(left_out)
    counts = HashEncoder().count_tokens(left_out)
    assert encoder.batches == plan(left_out, counts, batch_tokens=60, batch_size=8)
    usage = corpus.usage
    assert (usage.n_texts, usage.n_distinct) == (200, 200)
    assert (usage.n_encoded, usage.n_read) == (len(left_out), 200 - len(left_out))


@pytest.mark.parametrize("stop_after", [0, 1, 5, 24])
@pytest.mark.parametrize("stored_before", [0, 50])
def test_a_run_that_failed_continues_with_the_same_batches(
    tmp_path: Path, stop_after: int, stored_before: int
) -> None:
    class Failing(HashEncoder):
        stores_vectors = True

        def encode(self, texts: Sequence[str]) -> FloatArray:
            if len(self.batches) == stop_after:
                raise KeyboardInterrupt
            return super().encode(texts)

    results = []
    for name in ("whole", "failed"):
        encoders = [HashEncoder()] if name == "whole" else [Failing(), HashEncoder()]
        with EmbeddingStore(tmp_path / name) as store:
            if stored_before:
                small(HashEncoder(), store, TEXTS[-stored_before:])
            for encoder in encoders:
                try:
                    corpus = small(encoder, store)
                except KeyboardInterrupt:
                    continue
        batches = [batch for encoder in encoders for batch in encoder.batches]
        results.append((batches, bytes_of(corpus)))
    assert results[0] == results[1]


SLOW = """
import sys
from pathlib import Path
import tests.embedding.test_embed as t
with t.EmbeddingStore(Path(sys.argv[1])) as store:
    t.small(t.HashEncoder(seconds=0.02), store)
"""


@pytest.mark.parametrize("seen", [1, 4, 13])
def test_kill_9_costs_at_most_the_batch_in_flight_and_moves_no_byte(
    tmp_path: Path, seen: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == seen:
            break
    process.kill()
    n_begun = seen + len(process.stdout.readlines())
    assert process.wait() == -9
    process.stdout.close()

    whole = HashEncoder()
    expected = bytes_of(small(whole, None))
    assert n_begun < len(whole.batches)
    encoder = HashEncoder()
    with EmbeddingStore(tmp_path) as store:
        assert bytes_of(small(encoder, store)) == expected
    n_kept = len(whole.batches) - len(encoder.batches)
    assert n_kept >= n_begun - 1
    assert encoder.batches == whole.batches[n_kept:]


def test_a_batch_that_another_process_stored_meanwhile_is_not_encoded(
    store: EmbeddingStore,
) -> None:
    class Overtaken(HashEncoder):
        stores_vectors = True

        def encode(self, texts: Sequence[str]) -> FloatArray:
            if not self.batches:
                with EmbeddingStore(store.folder) as another:
                    small(HashEncoder(), another)
            return super().encode(texts)

    encoder = Overtaken()
    corpus = small(encoder, store)
    assert len(encoder.batches) == 1
    assert bytes_of(corpus) == bytes_of(small(HashEncoder(), None))
    assert corpus.usage.n_encoded == len(encoder.encoded)
    assert corpus.usage.n_encoded + corpus.usage.n_read == 200


def test_progress_adds_up_to_the_distinct_texts(store: EmbeddingStore) -> None:
    small(HashEncoder(), store, TEXTS[:30])
    done: list[int] = []
    Embedder(store, batch_size=8).embed(HashEncoder(), [*TEXTS, *TEXTS], done.append)
    assert done[0] == 30
    assert sum(done) == 200
    assert max(done[1:]) == 8


def _replace(row: int, value: float) -> Callable[[list[str], FloatArray], FloatArray]:
    def spoil(texts: list[str], vectors: FloatArray) -> FloatArray:
        vectors = vectors.astype(np.float64)
        vectors[row] = value
        return vectors

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_replace(1, np.nan), r"^hash: the vector of 'b' is not finite \(1 of 3 in its batch\)"),
        (_replace(1, -np.inf), "the vector of 'b' is not finite"),
        (_replace(1, 1e39), "the vector of 'b' is not finite"),
        (_replace(2, 0.0), "^hash: the vector of 'c' is all zero .*every text needs"),
        (_replace(2, 1e-60), "the vector of 'c' is all zero"),
        (lambda _, v: v[:2], r"starts with 'a' has vectors of shape \(2, 16\), expected \(3, d\)"),
        (lambda _, v: v[0], r"has vectors of shape \(16,\), expected \(3, d\)"),
        (lambda _, v: v[:, :0], r"has vectors of shape \(3, 0\), expected \(3, d\)"),
        (lambda _, v: v.astype(str), "starts with 'a' has no numeric vectors"),
        (lambda _, v: v.astype(complex), "has no numeric vectors"),
        (lambda *_: [[1.0], [1.0, 2.0], [3.0]], "has no numeric vectors"),
    ],
)
def test_a_batch_of_no_use_is_refused_by_name_and_not_stored(
    store: EmbeddingStore, spoil: Callable[[list[str], FloatArray], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Embedder(store).embed(Odd(spoil), ["a", "b", "c"])
    assert store.missing(HashEncoder().id, ["a", "b", "c"]) == ["a", "b", "c"]


def test_a_long_text_is_named_by_its_beginning() -> None:
    with pytest.raises(InputError, match=r"the vector of 'x{80}'\.\.\. is all zero"):
        Embedder().embed(Odd(_replace(0, 0.0)), ["x" * 81])


def test_batches_of_two_dimensions_are_refused(store: EmbeddingStore) -> None:
    encoder = Odd(lambda texts, vectors: vectors[:, :9] if "a" in texts else vectors)
    message = "starts with 'a' has vectors of 9 dimensions, but earlier batches have 16"
    for kept in (None, store):
        with pytest.raises(InputError, match=message):
            Embedder(kept, batch_size=1).embed(encoder, ["a", "b c"])
    stored = "expected vectors of 16 dimensions as in the file, got 9"
    with pytest.raises(InputError, match=stored):
        Embedder(store).embed(encoder, ["a"])


def test_wrong_token_counts_are_refused() -> None:
    class Miscounting(HashEncoder):
        stores_vectors = True

        def count_tokens(self, texts: Sequence[str]) -> IntArray:
            return super().count_tokens(texts)[1:]

    with pytest.raises(
        InputError, match=r"must return an array of shape \(2,\) for 2 texts, got \(1,\)"
    ):
        Embedder().embed(Miscounting(), ["a", "b"])


def test_no_texts_are_refused(store: EmbeddingStore) -> None:
    with pytest.raises(InputError, match="no texts to embed"):
        Embedder(store).embed(HashEncoder(), [])


def test_batches_below_one_are_refused() -> None:
    for name in ("batch_tokens", "batch_size"):
        with pytest.raises(InputError, match=f"`{name}` must be at least 1, got 0"):
            Embedder(**{name: 0})  # type: ignore[arg-type]


def test_a_text_outside_the_corpus_is_named() -> None:
    with pytest.raises(KeyError, match="'b' is not one of the 1 embedded texts"):
        Embedder().embed(HashEncoder(), ["a"]).vectors(["a", "b"])


def test_vectors_are_not_to_be_written_to(store: EmbeddingStore) -> None:
    for kept in (None, store):
        corpus = small(HashEncoder(), kept)
        for texts in (TEXTS, TEXTS[5:9], TEXTS[::-1], TEXTS[:1] * 3, []):
            vectors = corpus.vectors(texts).vectors
            assert vectors.shape == (len(texts), 16)
            assert not vectors.flags.writeable


def test_above_the_bound_arrays_lie_in_files(tmp_path: Path) -> None:
    with EmbeddingStore(tmp_path, memory_bytes=64 * 100) as store:
        corpus = small(HashEncoder(), store)
    assert isinstance(corpus._matrix, np.memmap)
    assert isinstance(corpus.vectors(TEXTS[::-1]).vectors, np.memmap)
    assert type(corpus.vectors(TEXTS[10::-1]).vectors) is np.ndarray
    assert bytes_of(corpus) == bytes_of(small(HashEncoder(), None))


def test_an_encoder_of_a_corpus_is_fitted_and_not_stored(store: EmbeddingStore) -> None:
    class Fitted(HashEncoder):
        stores_vectors = True

        def for_corpus(self, texts: Sequence[str]) -> Fitted:
            asked.append(list(texts))
            return self

    asked: list[list[str]] = []
    encoder = Fitted()
    Embedder(store).embed(encoder, ["b", "a", "b"])
    assert asked == [["b", "a", "b"]]
    assert store.missing(encoder.id, ["a", "b"]) == ["a", "b"]


texts_and_counts = st.dictionaries(st.text(max_size=6), st.integers(1, 40), min_size=1, max_size=60)


@settings(deadline=None)
@given(texts_and_counts, st.integers(1, 90), st.integers(1, 9), st.randoms(use_true_random=False))
def test_plan(counts: dict[str, int], batch_tokens: int, batch_size: int, random: object) -> None:
    def planned(texts: Sequence[str]) -> list[list[str]]:
        return plan(
            texts,
            [counts[text] for text in texts],
            batch_tokens=batch_tokens,
            batch_size=batch_size,
        )

    texts = list(counts)
    batches = planned(texts)
    flat = [text for batch in batches for text in batch]
    assert sorted(flat) == sorted(texts)
    assert [counts[text] for text in flat] == sorted(counts.values(), reverse=True)
    for batch in batches:
        longest = max(counts[text] for text in batch)
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or longest * len(batch) <= batch_tokens
    for batch in batches[:-1]:  # none could have taken one more
        grown = (len(batch) + 1) * counts[batch[0]]
        assert len(batch) == batch_size or grown > batch_tokens
    random.shuffle(texts)  # type: ignore[attr-defined]
    assert planned(texts) == batches
    for n_done in range(len(batches)):  # what a killed run leaves is the rest of its plan
        done = {text for batch in batches[:n_done] for text in batch}
        assert planned([text for text in texts if text not in done]) == batches[n_done:]


def grouped(encoder: Encoder, store: EmbeddingStore | None, texts: Sequence[str]) -> EmbeddedTexts:
    """Embed in three groups; the first two share texts, and some texts are in none."""
    groups = Groups([TEXTS[:80], TEXTS[60:120], TEXTS[120:180]])
    return Embedder(store, batch_tokens=60, batch_size=8, groups=groups).embed(encoder, texts)


def test_vectors_of_a_group_do_not_depend_on_what_was_stored_before(tmp_path: Path) -> None:
    found = [bytes_of(grouped(HashEncoder(), None, TEXTS))]
    for number, before in enumerate(([], TEXTS[::2], TEXTS[100:])):
        with EmbeddingStore(tmp_path / str(number)) as store:
            for asked in (before, before[:10]):
                if asked:
                    small(HashEncoder(), store, asked)
                    grouped(HashEncoder(), store, [text for text in asked if text in TEXTS[:180]])
            found.append(bytes_of(grouped(HashEncoder(), store, TEXTS)))
    assert len(set(found)) == 1
    assert bytes_of(small(HashEncoder(), None)) not in found


def test_batches_of_a_group_are_those_of_all_its_texts_and_hold_a_text_that_is_asked_for(
    store: EmbeddingStore,
) -> None:
    encoder = HashEncoder()
    embedded = grouped(encoder, store, [TEXTS[0], TEXTS[130], TEXTS[190]])
    expected = []
    for group, asked in ((TEXTS[:80], 0), (TEXTS[120:180], 130), ([TEXTS[190]], 190)):
        counts = encoder.count_tokens(group)
        batches = plan(group, counts, batch_tokens=60, batch_size=8)
        expected += [batch for batch in batches if TEXTS[asked] in batch]
    assert encoder.batches == expected
    assert (embedded.usage.n_encoded, embedded.usage.n_read) == (3, 0)


def test_what_was_encoded_for_a_batch_mate_is_read(store: EmbeddingStore) -> None:
    encoder = HashEncoder()
    for asked in (TEXTS[:180:9], TEXTS[:180:2], TEXTS[:180]):
        grouped(encoder, store, asked)
    in_two_groups = TEXTS[60:80]
    assert sorted(encoder.encoded) == sorted([*TEXTS[:180], *in_two_groups])
    del encoder.batches[:]
    small(encoder, store)
    assert sorted(encoder.encoded) == sorted(TEXTS), "groups are stored apart"


def test_a_group_that_was_encoded_in_part_goes_on_with_the_same_bytes(
    store: EmbeddingStore,
) -> None:
    class Failing(HashEncoder):
        stores_vectors = True

        def encode(self, texts: Sequence[str]) -> FloatArray:
            if len(self.batches) == 7:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        grouped(Failing(), store, TEXTS)
    assert bytes_of(grouped(HashEncoder(), store, TEXTS)) == bytes_of(
        grouped(HashEncoder(), None, TEXTS)
    )


def test_sizes_of_batches_and_the_machine_are_part_of_a_group(store: EmbeddingStore) -> None:
    encoder: Any = HashEncoder()
    groups = Groups([TEXTS])
    embedders = [Embedder(store, tokens, 8, groups) for tokens in (60, 70)]
    encoder.arithmetic = "cpu, 1 thread"
    one, other = (each.groups_of(encoder, TEXTS) for each in embedders)
    encoder.arithmetic = "cpu, 2 threads"
    assert len({*one, *other, *embedders[0].groups_of(encoder, TEXTS)}) == 3
    encoder.arithmetic = "cpu, 1 thread"
    assert embedders[0].groups_of(encoder, TEXTS[::-1]) == one
    assert Embedder(store).groups_of(encoder, TEXTS) == [""]


def test_only_a_text_that_is_asked_for_needs_a_vector(store: EmbeddingStore) -> None:
    """A group may hold rows that nobody trains on, such as one without any known word."""

    def spoil(texts: list[str], vectors: FloatArray) -> FloatArray:
        return np.where(np.array([[text == TEXTS[5]] for text in texts]), 0, vectors)

    others = [text for text in TEXTS[:80] if text != TEXTS[5]]
    assert len(grouped(Odd(spoil), store, others)) == 79
    with pytest.raises(InputError, match=r"is all zero \(1 of \d+ in its batch\)"):
        grouped(Odd(spoil), store, TEXTS[:80])


def test_progress_adds_up_over_groups(store: EmbeddingStore) -> None:
    groups = Groups([TEXTS[:80], TEXTS[80:]])
    embedder = Embedder(store, batch_tokens=60, batch_size=8, groups=groups)
    embedder.embed(HashEncoder(), TEXTS[:100])
    steps: list[int] = []
    embedder.embed(HashEncoder(), TEXTS, steps.append)
    assert steps[0] >= 100
    assert sum(steps) == len(TEXTS)
