"""The one place that ranks: against brute force, to the last bit whatever the blocks."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.util import semantic_search
from standins import embeddings

from polarity_bench import retrieval
from polarity_bench.retrieval import (
    Retrieval,
    cosine_at,
    mean_cosine,
    pair_similarity,
    similarity_at,
    top_k,
)
from polarity_bench.values import FloatArray, IntArray


@pytest.fixture(autouse=True, scope="module")
def _always_screened() -> Iterator[None]:
    """Screen small cases too; `blocks` draws cases that are not screened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "_SMALL", 0)
        yield


def random(n: int, d: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def brute(
    query: FloatArray, source: FloatArray, k: int, excluded: list[list[int]] | None = None
) -> Retrieval:
    """Sort everything in float64, stable, so that ties go by position."""
    index, similarity = [], []
    for q, vector in enumerate(np.asarray(query, np.float64)):
        wide = np.asarray(source, np.float64)
        cosine = wide @ vector / np.linalg.norm(wide, axis=1) / np.linalg.norm(vector)
        cosine = np.round(cosine, 12)  # equal vectors of other lengths tie
        for position in excluded[q] if excluded else []:
            cosine[position] = -np.inf
        order = np.argsort(-cosine, kind="stable")[:k]
        index.append(order)
        similarity.append(cosine[order])
    return Retrieval(np.array(index), np.array(similarity))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(1, 6),
    st.data(),
)
def test_agrees_with_brute_force_and_ties_go_by_position(
    seed: int, q: int, n: int, d: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    query = generator.integers(-1, 2, size=(q, d)).astype(np.float32)  # coarse: ties abound
    source = generator.integers(-1, 2, size=(n, d)).astype(np.float32)
    query[~query.any(axis=1)] = 1
    source[~source.any(axis=1)] = 1
    k = data.draw(st.integers(1, n))
    found, expected = top_k(embeddings(query), embeddings(source), k), brute(query, source, k)
    assert found.index.tolist() == expected.index.tolist()
    assert np.allclose(found.similarity, expected.similarity, atol=3e-8)


def test_agrees_with_brute_force_on_real_valued_vectors() -> None:
    query, source = random(50, 32), random(3000, 32, seed=1)
    found, expected = top_k(embeddings(query), embeddings(source), 20), brute(query, source, 20)
    assert np.array_equal(found.index, expected.index)
    assert np.allclose(found.similarity, expected.similarity, atol=3e-8)


@pytest.mark.parametrize("n", [30, 3000, 40_001])
def test_a_screen_that_the_blas_spoils_moves_no_ranking(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiply, n_spoiled = torch.mm, 0

    def spoiled(one: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor) -> None:
        nonlocal n_spoiled
        n_spoiled += 1
        multiply(one, other, out=out)
        out[1, 0] = out[3, -1] = out[4, 7:20] = torch.nan

    query, source = random(6, 16), random(n, 16, seed=1)
    barred = [[int(brute(query, source, 1).index[i, 0])] for i in range(6)]
    right = top_k(embeddings(query), embeddings(source), 5, excluded=barred)
    monkeypatch.setattr(torch, "mm", spoiled)
    found = top_k(embeddings(query), embeddings(source), 5, excluded=barred)
    assert n_spoiled == -(-n // 16_384)
    assert np.array_equal(found.index, right.index)
    assert np.array_equal(found.similarity, right.similarity)


def test_agrees_with_sentence_transformers() -> None:
    query, source = random(20, 16), random(500, 16, seed=1)
    found = top_k(embeddings(query), embeddings(source), 5)
    theirs = semantic_search(torch.from_numpy(query), torch.from_numpy(source), top_k=5)
    scores = [[hit["score"] for hit in hits] for hits in theirs]
    assert np.allclose(found.similarity, scores, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40), st.integers(1, 6))
def test_inner_products_rank_by_length_too_and_ties_go_by_position(
    seed: int, q: int, n: int, d: int
) -> None:
    generator = np.random.default_rng(seed)
    query = generator.integers(-2, 3, size=(q, d)).astype(np.float32)  # coarse: ties abound
    source = generator.integers(-2, 3, size=(n, d)).astype(np.float32)
    query[~query.any(axis=1)] = 1
    source[0] = 1
    k = int(generator.integers(1, n + 1))
    found = top_k(embeddings(query, "dot"), embeddings(source, "dot"), k)
    product = query.astype(np.float64) @ source.T.astype(np.float64)
    # what the rounding of a query tears apart is no tie: compare the products, then equal sources
    order = np.argsort(-product, axis=1, kind="stable")[:, :k]
    expected = np.take_along_axis(product, order, axis=1)
    assert np.allclose(found.similarity, expected, atol=1e-6)
    assert np.allclose(np.take_along_axis(product, found.index, axis=1), expected)
    for row in found.index:
        for first, second in itertools.pairwise(row):
            if np.array_equal(source[first], source[second]):
                assert first < second


def test_inner_products_agree_with_faiss() -> None:
    query, source = random(40, 24), random(2500, 24, seed=1)
    source *= np.random.default_rng(2).uniform(0.1, 5, size=(2500, 1)).astype(np.float32)
    index = faiss.IndexFlatIP(24)
    index.add(source)
    similarity, positions = index.search(query, 10)
    found = top_k(embeddings(query, "dot"), embeddings(source, "dot"), 10)
    assert np.array_equal(found.index, positions)
    assert np.allclose(found.similarity, similarity, rtol=1e-5)


@pytest.mark.parametrize("block", [3, 7, 64])
def test_inner_products_hang_on_no_block(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, source = random(9, 5), random(60, 5, seed=1) * np.arange(1, 61)[:, None]
    whole = top_k(embeddings(query, "dot"), embeddings(source, "dot"), 4)
    monkeypatch.setattr(retrieval, "_BLOCK", block)
    cut = top_k(embeddings(query, "dot"), embeddings(source, "dot"), 4)
    assert np.array_equal(whole.index, cut.index)
    assert np.array_equal(whole.similarity, cut.similarity)
    at = similarity_at(embeddings(query, "dot"), embeddings(source, "dot"), whole.index)
    row = np.repeat(np.arange(len(query)), whole.index.shape[1])
    pairs = pair_similarity(
        embeddings(query, "dot"), embeddings(source, "dot"), row, whole.index.ravel()
    )
    assert np.array_equal(pairs, at.ravel())
    assert np.array_equal(at, whole.similarity)
    cosines = cosine_at(embeddings(query, "dot"), embeddings(source, "dot"), whole.index)
    assert np.array_equal(cosines, cosine_at(embeddings(query), embeddings(source), whole.index))


def fixed(vectors: FloatArray) -> IntArray:
    """Vectors of length 2^26, rounded to integers: what a similarity is defined by."""
    wide = vectors.astype(np.float64)
    scale: FloatArray = 2.0**26 / np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    return np.rint(wide * scale).astype(np.int64)


def slow(
    query: FloatArray, source: FloatArray, k: int, excluded: list[list[int]] | None = None
) -> Retrieval:
    """Sort all sources of a query by their product in whole numbers, then by position."""
    products = fixed(query) @ fixed(source).T  # of int64: nothing is rounded
    index = []
    for q, row in enumerate(products.tolist()):
        barred = excluded[q] if excluded else []
        ranked = sorted((-product, i) for i, product in enumerate(row) if i not in barred)
        index.append([i for _, i in ranked[:k]])
    found = np.array(index)
    nearest = np.take_along_axis(products, found, axis=1).astype(np.float64)
    return Retrieval(found, np.clip(nearest / 2.0**52, -1, 1))


def draw_vectors(data: st.DataObject, n: int, d: int) -> FloatArray:
    """Vectors of every sort that screening could stumble over."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    real = generator.standard_normal((n, d))
    coarse = generator.integers(-1, 2, size=(n, d)).astype(float)
    coarse[~coarse.any(axis=1)] = 1
    near = 1 + 1e-7 * real  # products apart by less than float32 can tell
    repeated = real[generator.integers(0, 3, size=n) % n]
    vectors = data.draw(st.sampled_from([real, coarse, near, repeated, np.ones((n, d))]))
    if data.draw(st.booleans()):
        vectors = vectors * 2.0 ** generator.integers(-120, 120, size=n)[:, None]
    return np.asarray(vectors, dtype=np.float32)


def blocks(data: st.DataObject, patch: pytest.MonkeyPatch) -> None:
    sizes = {"_BLOCK": 70, "_QUERY_BLOCK": 9, "_EXACT_ROWS": 4, "_PAIRS": 9, "_GROUP": 20}
    for name, most in sizes.items():
        patch.setattr(retrieval, name, data.draw(st.integers(1, most), label=name))
    patch.setattr(retrieval, "_CROWDED", data.draw(st.sampled_from([0, 0.1, 1]), label="crowded"))
    patch.setattr(retrieval, "_SMALL", data.draw(st.sampled_from([0, 2**20]), label="small"))
    patch.setattr(retrieval, "_LARGE", data.draw(st.sampled_from([0, 2**23]), label="large"))
    patch.setattr(retrieval, "multiplies_bfloat16", lambda: True)


@settings(max_examples=150)
@given(st.integers(1, 9), st.integers(1, 120), st.integers(1, 40), st.data())
def test_agrees_with_whole_numbers_to_the_last_bit(
    q: int, n: int, d: int, data: st.DataObject
) -> None:
    query, source = draw_vectors(data, q, d), draw_vectors(data, n, d)
    positions = st.lists(st.integers(0, n - 1), max_size=min(n - 1, 20), unique=True)
    excluded = data.draw(st.none() | st.lists(positions, min_size=q, max_size=q))
    k = data.draw(st.integers(1, n - max(map(len, excluded or [[]]))))
    with pytest.MonkeyPatch.context() as patch:
        blocks(data, patch)
        found = top_k(embeddings(query), embeddings(source), k, excluded=excluded or [])
    expected = slow(query, source, k, excluded)
    assert found.index.tolist() == expected.index.tolist()
    assert found.similarity.tobytes() == expected.similarity.tobytes()


@pytest.mark.parametrize("in_bfloat16", [False, True])
@pytest.mark.parametrize("crowded", [0, 1, retrieval._CROWDED])
@pytest.mark.parametrize("k", [1, 16, 1000])
def test_screened_and_exact_products_agree_with_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, crowded: float, k: int, in_bfloat16: bool
) -> None:
    monkeypatch.setattr(retrieval, "_LARGE", 0 if in_bfloat16 else 2**23)
    monkeypatch.setattr(retrieval, "multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(retrieval, "_CROWDED", crowded)
    monkeypatch.setattr(retrieval, "_BLOCK", 1500)
    query, source = random(40, 48), random(4000, 48, seed=1)
    source[3000:] = source[:1000] * 3
    found, expected = top_k(embeddings(query), embeddings(source), k), slow(query, source, k)
    assert found.index.tolist() == expected.index.tolist()
    assert found.similarity.tobytes() == expected.similarity.tobytes()


@pytest.mark.parametrize("d", [1, 3, 384, 1024])
@pytest.mark.parametrize("kind", ["real", "equal", "spread"])
def test_rough_products_stay_within_their_error(d: int, kind: str) -> None:
    vectors = {
        "real": random(300, d),
        "equal": np.ones((300, d)) + 1e-3 * random(300, 1),  # all roundings alike: they add up
        "spread": random(300, d) * 10.0 ** -np.arange(d)[::-1].clip(max=8),
    }[kind]
    vectors = vectors.astype(np.float32)
    units = retrieval._units(vectors) / retrieval._SCALE
    for in_bfloat16 in (False, True):
        (query, query_error), (source, source_error) = (
            retrieval._rounded(units * retrieval._SHRUNK, in_bfloat16),
            retrieval._rough(vectors, None, in_bfloat16),
        )
        rough = (query @ source.T).double().numpy()
        bound = retrieval._error(d, in_bfloat16) + query_error + source_error
        assert np.abs(rough - units @ units.T * retrieval._SHRUNK).max() < bound


@given(st.integers(0, 1000), st.data())
def test_blocks_change_no_bit_of_the_mean(seed: int, data: st.DataObject) -> None:
    query, source = embeddings(random(10, 8, seed)), embeddings(random(60, 8, seed + 1))
    mean = mean_cosine(query, source)
    with pytest.MonkeyPatch.context() as patch:
        blocks(data, patch)
        assert mean_cosine(query, source).tobytes() == mean.tobytes()


def test_without_queries_nothing_is_found() -> None:
    none = embeddings(np.empty((0, 4)))
    assert top_k(none, embeddings(random(5, 4)), 3).index.shape == (0, 3)
    assert top_k(none, embeddings(random(5, 4)), 3, excluded=[]).index.shape == (0, 3)


def test_equal_vectors_tie_exactly_wherever_they_lie() -> None:
    source = np.repeat(random(1, 384), 40_000, axis=0)
    found = top_k(embeddings(random(3, 384, seed=1)), embeddings(source), 16)
    assert found.index.tolist() == [[*range(16)]] * 3
    assert len({*found.similarity[0].tolist()}) == 1


def test_length_does_not_count() -> None:
    source = random(30, 8)
    scaled = source * np.float32(2.0) ** np.arange(-60, 60, 4)[:, None]
    query = embeddings(random(4, 8, seed=1))
    plain, stretched = (top_k(query, embeddings(each), 30) for each in (source, scaled))
    assert plain.index.tobytes() == stretched.index.tobytes()
    assert plain.similarity.tobytes() == stretched.similarity.tobytes()


@given(st.integers(0, 1000))
def test_cosines_equal_those_of_the_ranking_to_the_last_bit(seed: int) -> None:
    query, source = embeddings(random(5, 12, seed)), embeddings(random(30, 12, seed + 1))
    found = top_k(query, source, 30)
    assert cosine_at(query, source, found.index).tobytes() == found.similarity.tobytes()
    row = np.repeat(np.arange(5), 30)
    pairs = pair_similarity(query, source, row, found.index.ravel())
    assert pairs.tobytes() == found.similarity.tobytes()
    assert np.allclose(mean_cosine(query, source), found.similarity.mean(axis=1), atol=1e-12)


def test_a_similarity_never_leaves_its_bounds() -> None:
    same = embeddings(random(200, 384))
    found = top_k(same, same, 1)
    assert found.index[:, 0].tolist() == [*range(200)]
    assert found.similarity.max() <= 1.0
    assert found.similarity.min() > 1 - 1e-6


@given(st.integers(0, 1000), st.data())
def test_the_excluded_are_never_retrieved(seed: int, data: st.DataObject) -> None:
    query, source = random(4, 5, seed), random(20, 5, seed + 1)
    positions = st.lists(st.integers(0, 19), max_size=12, unique=True)
    excluded = [data.draw(positions) for _ in query]
    found = top_k(embeddings(query), embeddings(source), 8, excluded=excluded)
    assert found.index.tolist() == brute(query, source, 8, excluded).index.tolist()


def test_all_of_the_first_block_may_be_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_BLOCK", 1000)
    n, barred = 1030, [[*range(1000)], []]
    query, source = random(2, 4), random(n, 4, seed=1)
    found = top_k(embeddings(query), embeddings(source), 20, excluded=barred)
    assert found.index.tolist() == brute(query, source, 20, barred).index.tolist()
    assert np.isfinite(found.similarity).all()


@pytest.mark.parametrize("k", [0, -3])
def test_k_below_one_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k must be at least 1, got {k}"):
        top_k(embeddings(random(1, 2)), embeddings(random(3, 2)), k)


def test_k_above_the_sources_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be at most the 3 sources of a query, got 4"):
        top_k(embeddings(random(1, 2)), embeddings(random(3, 2)), 4)
    with pytest.raises(ValueError, match="k must be at most the 2 sources of a query, got 3"):
        top_k(embeddings(random(1, 2)), embeddings(random(3, 2)), 3, excluded=[[0]])


_MEASURE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
import torch  # its import takes 200 MB
from polarity_bench.embedding.arrays import Embeddings
from polarity_bench.retrieval import cosine_at, mean_cosine, top_k

rng = np.random.default_rng(0)
source, query = (
    Embeddings(rng.standard_normal((int(n), 384), np.float32), "cosine")
    for n in sys.argv[2:]
)
def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":") for line in lines)[name].split()[0]) * 1024
before = status("VmRSS")
found = top_k(query, source, 16)
mean_cosine(query, source)
assert cosine_at(query, source, found.index).tobytes() == found.similarity.tobytes()
print(status("VmHWM") - before)  # ru_maxrss would count the parent's memory as well
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("n_sources", "n_queries"),
    [(1_000_000, 1_000), (30_000, 67_000)],
)
def test_many_take_less_than_500_mb_beyond_the_embeddings(n_sources: int, n_queries: int) -> None:
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    if int(meminfo["MemAvailable"].split()[0]) < 4 * 2**20:
        pytest.skip("needs 4 GB of free memory")
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, root, str(n_sources), str(n_queries)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 500e6


@pytest.mark.parametrize("d", [384, 8192, 8193, 9000, 20_000])
def test_a_length_does_not_depend_on_the_rows_beside_it(d: int) -> None:
    vectors = np.random.default_rng(0).standard_normal((40, d))
    together = retrieval._lengths(vectors)
    alone = [retrieval._lengths(vectors[i : i + 1])[0] for i in range(40)]
    assert together.tolist() == alone
    if d <= 8192:  # the bits of results that are there already
        assert together.tolist() == np.sqrt(np.einsum("nd,nd->n", vectors, vectors)).tolist()
