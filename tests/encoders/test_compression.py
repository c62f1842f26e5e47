"""Truncated and quantized vectors, compared with slow loops."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from standins import Bench, HashEncoder

from polarity_bench import evaluate, load_task
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.base import Quantization
from polarity_bench.encoders.compression import compressed, quantized, uncompressed
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.polarity.scoring import rank
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import FloatArray


@pytest.fixture
def mini(task_dir: Path) -> PolarityTask:
    task = load_task("mini", task_dir=task_dir)
    assert isinstance(task, PolarityTask)
    return task


def nearest(scores: Sequence[float], k: int) -> list[int]:
    """Return the positions of the greatest scores, ties by position."""
    return sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:k]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))


def slow_int8(queries: FloatArray, sources: FloatArray, k: int) -> list[list[int]]:
    low = [float(min(column)) for column in sources.T]
    step = [float(max(column) - min(column)) / 255 for column in sources.T]

    def decoded(vector: FloatArray) -> list[float]:
        values = []
        for value, start, width in zip(vector.tolist(), low, step, strict=True):
            code = min(max(math.floor((value - start) / width), 0), 255)
            values.append(start + (code + 0.5) * width)
        return values

    kept = [decoded(source) for source in sources]
    return [nearest([cosine(decoded(query), source) for source in kept], k) for query in queries]


def slow_binary(queries: FloatArray, sources: FloatArray, k: int) -> list[list[int]]:
    def distance(a: FloatArray, b: FloatArray) -> int:
        bits = np.packbits(a > 0) ^ np.packbits(b > 0)
        return sum(int(byte).bit_count() for byte in bits)

    return [nearest([-distance(query, source) for source in sources], k) for query in queries]


def slow_whole(queries: FloatArray, sources: FloatArray, k: int) -> list[list[int]]:
    return [nearest([cosine(query, source) for source in sources], k) for query in queries]


SLOW = {"int8": slow_int8, "binary": slow_binary, None: slow_whole}


def test_a_dimension_of_one_value_keeps_it_in_int8() -> None:
    vectors = HashEncoder().encode([f"text {i}" for i in range(9)])
    constant = np.full((len(vectors), 1), 0.3, dtype=np.float32)
    both = np.hstack([vectors, constant, 0 * constant])

    def new_array(n: int, d: int) -> FloatArray:
        return np.empty((n, d), dtype=np.float32)

    found = quantized(both, both[:6], "int8", new_array)
    assert np.array_equal(found[:, :-2], quantized(vectors, vectors[:6], "int8", new_array))
    assert np.array_equal(found[:, -2:], both[:, -2:])


@pytest.mark.parametrize("quantize", SLOW)
@pytest.mark.parametrize("truncate_dim", [None, 5])
@pytest.mark.parametrize("name", ["hash", "other"])
def test_retrieval_is_that_of_a_slow_loop(
    mini: PolarityTask, name: str, quantize: Quantization | None, truncate_dim: int | None
) -> None:
    encoder = HashEncoder(name)
    queries = encoder.encode(mini.query.texts)[:, :truncate_dim]
    sources = encoder.encode(mini.source.texts)[:, :truncate_dim]
    ours = compressed(encoder, truncate_dim, quantize)
    ranked = rank(mini, Embedder().embed(ours, mini.texts))
    expected = SLOW[quantize](queries, sources, mini.ks[-1])
    assert ranked.retrieval.index.tolist() == expected
    scores = evaluate(ours, mini).scores
    labels = [[mini.source.labels[position] for position in row] for row in expected]
    k = mini.ks[-1]
    weights = [(k - i) / sum(range(1, k + 1)) for i in range(k)]
    shares = [
        sum(weight for weight, label in zip(weights, row, strict=True) if label == own)
        for row, own in zip(labels, mini.query.labels, strict=True)
    ]
    p = scores[ScoreKey("polarity", k, "linear")].mean
    assert p == pytest.approx(np.mean(shares), abs=1e-12)


def test_s_is_measured_by_the_whole_vectors(mini: PolarityTask) -> None:
    encoder = HashEncoder()
    ours = compressed(encoder, 5, "binary")
    result = evaluate(ours, mini)
    assert result.key.reference == encoder.id
    assert result.flat == evaluate(ours, mini, reference=HashEncoder()).flat
    assert len(encoder.encoded) < 5 * len(mini.texts)
    sources, queries = encoder.encode(mini.source.texts), encoder.encode(mini.query.texts)
    rows = rank(mini, Embedder().embed(ours, mini.texts)).retrieval.index
    k = mini.ks[-1]
    similarity = np.mean(
        [
            sum((k - i) * cosine(queries[q], sources[s]) for i, s in enumerate(row))
            / sum(range(1, k + 1))
            for q, row in enumerate(rows)
        ]
    )
    s = result.scores[ScoreKey("similarity", k, "linear")].mean
    assert s == pytest.approx(similarity, abs=1e-6)


def test_the_identity_names_the_compression_and_shares_the_store() -> None:
    encoder = HashEncoder()
    settings: list[tuple[int | None, Quantization | None]] = [
        *((None, "int8"), (None, "binary"), (5, None), (5, "int8")),
    ]
    made = [compressed(encoder, *setting) for setting in settings]
    assert len({each.id.digest for each in [*made, encoder]}) == 5
    assert {each.id.stored.digest for each in made} == {encoder.id.digest}
    assert [each.id.label for each in made] == [
        "hash (int8 vectors)",
        "hash (binary vectors)",
        "hash (5 dimensions)",
        "hash (5 dimensions, int8 vectors)",
    ]
    assert uncompressed(encoder) is None
    whole = uncompressed(made[0])
    assert whole is not None
    assert whole.id == encoder.id


def test_a_constant_dimension_has_a_code(mini: PolarityTask) -> None:
    ours = load_encoder("constant", EncoderOptions(quantize="int8"))
    assert evaluate(ours, mini).main.mean == pytest.approx(0)


def test_tfidf_keeps_its_compression(mini: PolarityTask) -> None:
    ours = load_encoder("tfidf", EncoderOptions(quantize="binary"))
    assert evaluate(ours, mini).key.encoder.label == "tfidf (binary vectors)"


def test_what_cannot_be_compressed_is_refused(mini: PolarityTask) -> None:
    with pytest.raises(InputError, match=r"`truncate_dim` must be at least 1, got 0"):
        EncoderOptions(truncate_dim=0)
    with pytest.raises(InputError, match=r"unknown `quantize` 'int4'"):
        EncoderOptions(quantize="int4")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"at most 16, the number of dimensions of hash, got 17"):
        evaluate(compressed(HashEncoder(), 17, None), mini)
    embedded = Embedder().embed(compressed(HashEncoder(), None, "int8"), mini.texts)
    with pytest.raises(InputError, match=r"hash \(int8 vectors\): `quantize` applies only to ret"):
        embedded.vectors(mini.texts)


def test_a_shortened_vector_of_zeros_is_refused(mini: PolarityTask) -> None:
    class Late(HashEncoder):
        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.pad(super().encode(texts), [(0, 0), (3, 0)])

    with pytest.raises(InputError, match=r"`truncate_dim` 3: the first dimensions of 8 vectors"):
        evaluate(compressed(Late(), 3, None), mini)


def test_a_run_records_the_compression_and_encodes_nothing_again(
    bench: Bench, task_dir: Path, tiny_model: Path
) -> None:
    run = ["run", "--tasks", "mini", "--task-dir", task_dir, "--model", tiny_model]
    plain = bench(*run)
    assert "32 encoded" in plain.err
    for options, label in [
        (["--quantize", "int8"], "tiny (int8 vectors)"),
        (["--truncate-dim", "4", "--quantize", "binary"], "tiny (4 dimensions, binary vectors)"),
    ]:
        done = bench(*run, *options)
        assert done.code == 0, done.err
        assert f"{label}, reference: tiny" in done.out
        assert "0 encoded" in done.err
        fresh = bench(*run, *options, "--no-store", "--overwrite")
        assert fresh.out == done.out
        assert fresh.err.count("32 encoded") == 1
    board = bench("leaderboard", "results", "--json")
    assert "tiny (4 dimensions, binary vectors)" in json.dumps(json.loads(board.out))


def test_a_run_refuses_what_is_not_retrieved(bench: Bench) -> None:
    done = bench("run", "--tasks", "stsb", "--quantize", "int8")
    assert done.code == 2
    assert "--quantize int8: needs a task with queries and sources, got stsb" in done.err
