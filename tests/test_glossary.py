"""What columns and scores are: every one is explained, in the package and in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from polarity_bench.boards.run_report import tables
from polarity_bench.errors import InputError
from polarity_bench.metrics.register import METRICS
from polarity_bench.results.result_files import read_results
from polarity_bench.results.score_names import WORDS, explain, titles

ROOT = Path(__file__).parents[1]
GROUPS = ("topic", "aspect")
P = METRICS["polarity"].explanation
UNSEEN = "on the copy with unseen sources, or over the rows that are not training texts"


def test_every_column_and_score_of_the_committed_results_is_explained() -> None:
    results = list(read_results(ROOT / "leaderboards" / "polarity"))
    for weighting in ("linear", "uniform"):
        for table in tables(results, weighting, ["all"]):
            for column in table.columns:
                assert explain(column.title, GROUPS)
    for key in {key for result in results for key in result.scores}:
        assert explain(str(key), GROUPS)


def test_every_key_of_a_result_is_explained() -> None:
    for result in read_results(ROOT / "leaderboards" / "polarity"):
        for name in result.flat:
            assert explain(name, GROUPS)


def test_every_column_is_explained_in_the_docs() -> None:
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    for title in [*titles(), *GROUPS]:
        assert f"| {title} | {explain(title, GROUPS)} |" in text


def test_no_metric_is_without_an_explanation() -> None:
    assert all(metric.explanation for metric in METRICS.values())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("P", METRICS["polarity"].explanation),
        ("p", METRICS["polarity"].explanation),
        ("P uniform", f"{METRICS['polarity'].explanation}; equal weights of all ranks"),
        ("S linear", METRICS["similarity"].explanation),
        ("P, negation", f"{METRICS['polarity'].explanation}; of negation alone"),
        (
            "Spearman wmean",
            f"{METRICS['spearman'].explanation}; mean over the subsets, weighted by their pairs",
        ),
        (
            "polarity_of_negation_uniform_at_4",
            f"{P}; of negation alone; equal weights of all ranks; at k = 4",
        ),
        ("recall_positive", f"{METRICS['recall'].explanation}; of positive alone"),
        ("polarity_uniform", f"{METRICS['polarity'].explanation}; equal weights of all ranks"),
        ("joint_at_4_std", f"{METRICS['joint'].explanation}; at k = 4; standard deviation"),
        (
            "recall_positive_ci95_low",
            f"{METRICS['recall'].explanation}; of positive alone; lower end of the 95 % interval",
        ),
        ("held-out joint", f"{METRICS['joint'].explanation}; of the held-out queries"),
        ("held_out_joint_low", f"{WORDS['joint_low']}; of the held-out queries"),
        (
            "held_out_polarity_uniform",
            f"{P}; equal weights of all ranks; of the held-out queries",
        ),
        ("seen", WORDS["seen"]),
        ("seen, unseen", f"{WORDS['seen']}; {UNSEEN}"),
        ("P, unseen", f"{METRICS['polarity'].explanation}; {UNSEEN}"),
        ("seen containing", WORDS["seen containing"]),
        ("aspect", "share of the k nearest sources that have the query's aspect, weighted by rank"),
    ],
)
def test_titles_and_names_are_explained(name: str, said: str) -> None:
    assert explain(name, GROUPS) == said


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    with pytest.raises(InputError, match=r"unknown score or column 'SgT'; did you mean 'SgTS'"):
        explain("SgT")
