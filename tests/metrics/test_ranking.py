"""Metrics of retrieval with right answers: hand-worked cases, a slow loop, and trec_eval."""

from __future__ import annotations

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from polarity_bench.metrics.ranking import ndcg, recall, reciprocal_rank

# Hits at ranks 1 to 4, the number of answers, and recall@4, RR and nDCG@4 by hand.
CASES = [
    ([1, 0, 0, 0], 1, 1.0, 1.0, 1.0),
    ([0, 0, 1, 0], 1, 1.0, 1 / 3, 0.5),  # log2(2) / log2(4)
    ([0, 0, 0, 0], 1, 0.0, 0.0, 0.0),
    ([0, 1, 1, 0], 2, 1.0, 0.5, (1 / math.log2(3) + 0.5) / (1 + 1 / math.log2(3))),
    ([1, 0, 0, 0], 3, 1 / 3, 1.0, 1 / (1 + 1 / math.log2(3) + 0.5)),
    ([1, 1, 1, 1], 9, 4 / 9, 1.0, 1.0),  # the ideal ranking is cut at the same k
]


@pytest.mark.parametrize(("hits", "n", "of_recall", "of_rank", "of_gain"), CASES)
def test_metrics_of_one_query_by_hand(
    hits: list[int], n: int, of_recall: float, of_rank: float, of_gain: float
) -> None:
    found, n_answers = np.array([hits], dtype=bool), np.array([n])
    assert recall(found, n_answers) == pytest.approx([of_recall])
    assert reciprocal_rank(found) == pytest.approx([of_rank])
    assert ndcg(found, n_answers) == pytest.approx([of_gain])


rankings = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=10, max_size=10), st.integers(0, 5)),
    min_size=1,
    max_size=6,
).filter(lambda rows: all(sum(hits) + more > 0 for hits, more in rows))


@given(rankings)
def test_metrics_are_those_of_a_slow_loop_and_of_trec_eval(
    rows: list[tuple[list[bool], int]],
) -> None:
    hits = np.array([row for row, _ in rows])
    n_answers = np.array([sum(row) + more for row, more in rows])
    found = {
        "recall_1": recall(hits[:, :1], n_answers),
        "recip_rank": reciprocal_rank(hits),
        "ndcg_cut_10": ndcg(hits, n_answers),
    }
    qrels = {
        str(q): {f"s{i}": 1 for i in range(10 + more) if i >= 10 or row[i]}
        for q, (row, more) in enumerate(rows)
    }
    run = {str(q): {f"s{i}": 1.0 - i / 100 for i in range(10)} for q in range(len(rows))}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1", "recip_rank", "ndcg_cut.10"})
    judged = theirs.evaluate(run)
    for name, values in found.items():
        assert values == pytest.approx([judged[str(q)][name] for q in range(len(rows))])
    for q, (row, _) in enumerate(rows):
        gain, first = 0.0, 0.0
        for rank, hit in enumerate(row, start=1):
            gain += hit / math.log2(1 + rank)
            first = first or hit / rank
        ideal = sum(1 / math.log2(1 + rank) for rank in range(1, min(10, n_answers[q]) + 1))
        assert found["ndcg_cut_10"][q] == pytest.approx(gain / ideal)
        assert found["recip_rank"][q] == pytest.approx(first)
        assert found["recall_1"][q] == pytest.approx(row[0] / n_answers[q])
