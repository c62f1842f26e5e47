"""Tasks with right answers: files in their layouts, scores by a slow loop, from run to board."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import BagEncoder, Bench, HashEncoder
from standins.answers import ANSWERS, CORPUS, QUERIES, write_answers

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task, load_tasks, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.opposite import OppositeTask

NDCG, RECALL, MRR = ScoreKey("ndcg", 10), ScoreKey("recall", 1), ScoreKey("mrr", 10)
PAIRED = ScoreKey("paired_accuracy")


def load(file: Path, **settings: Any) -> OppositeTask:
    task = read_task(file).load(DataAccess(offline=True), Settings(**settings))
    assert isinstance(task, OppositeTask)
    return task


def slow(task: OppositeTask, encoder: HashEncoder) -> dict[ScoreKey, list[float]]:
    """Rank all sources of each query by cosine, one at a time."""
    units = {
        text: vector / np.linalg.norm(vector.astype(np.float64))
        for text in task.texts
        for vector in encoder.encode([text]).astype(np.float64)
    }
    values: dict[ScoreKey, list[float]] = {NDCG: [], RECALL: [], MRR: []}
    for text, right, excluded in zip(task.query.texts, task.answers, task.excluded, strict=True):
        left = [i for i in range(len(task.source)) if i not in excluded]
        order = sorted(left, key=lambda i: -float(units[text] @ units[task.source.texts[i]]))[:10]
        ranks = [rank for rank, i in enumerate(order, start=1) if i in right]
        ideal = sum(1 / math.log2(1 + rank) for rank in range(1, min(10, len(right)) + 1))
        values[NDCG].append(sum(1 / math.log2(1 + rank) for rank in ranks) / ideal)
        values[RECALL].append((1 in ranks) / len(right))
        values[MRR].append(1 / min(ranks) if ranks else 0.0)
    return values


def check_scores(task: OppositeTask, encoder: HashEncoder) -> Result:
    result, wanted = evaluate(encoder, task), slow(task, encoder)
    for key, values in wanted.items():
        assert result.arrays[str(key)] == pytest.approx(values, abs=1e-6)
        assert result.scores[key].mean == pytest.approx(np.mean(values), abs=1e-9)
    assert result.main_score == NDCG
    return result


# Files


def test_answers_come_from_a_file_and_no_query_retrieves_itself(tmp_path: Path) -> None:
    answers = [*ANSWERS, ("a_q1", "d5"), ("q9", "d5")]
    queries = QUERIES | {"q9": "Another wording.", "e": CORPUS["d3"], "f": "Both."}
    answers += [("e", "d4"), ("f", "d1"), ("f", "d2")]
    task = load(write_answers(tmp_path, answers, queries=queries))
    ids = list(CORPUS)
    found = {
        query: ([ids[i] for i in right], [ids[i] for i in left_out])
        for query, right, left_out in zip(
            task.query.labels, task.answers, task.excluded, strict=True
        )
    }
    assert found == {
        "a_q1": (["d1", "d5"], []),
        "b_q1": (["d3"], []),
        "a_q2": (["d2"], []),
        "b_q2": (["d4"], []),
        "q9": (["d5"], ["q9"]),  # the same id
        "e": (["d4"], ["d3"]),  # the same text
        "f": (["d1", "d2"], []),
    }
    assert task.counts == {"sources": 12, "queries": 7}
    for encoder in (BagEncoder("ash"), HashEncoder("oak")):
        check_scores(task, encoder)


@pytest.mark.parametrize("name", ["ash", "oak", "elm"])
def test_pairs_are_right_if_both_queries_are(tmp_path: Path, name: str) -> None:
    task = load(write_answers(tmp_path, head="paired = true"))
    assert task.query.labels == ("a_q1", "a_q2", "b_q1", "b_q2")
    encoder = HashEncoder(name)
    result = check_scores(task, encoder)
    rights = []
    for first in ("a", "b"):
        vectors = [encoder.encode([QUERIES[f"{first}_q{i}"]])[0] for i in (1, 2)]
        own = [dict(ANSWERS)[f"{first}_q{i}"] for i in (1, 2)]
        sources = [encoder.encode([CORPUS[each]])[0] for each in own]
        cosine = [[_cosine(v, s) for s in sources] for v in vectors]
        rights.append(cosine[0][0] > cosine[0][1] and cosine[1][1] > cosine[1][0])
    assert result.scores[PAIRED].mean == np.mean(rights)
    assert result.scores[PAIRED].n == 2


def _cosine(one: Any, other: Any) -> float:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_random_vectors_get_a_quarter_of_the_pairs_and_constant_ones_none(tmp_path: Path) -> None:
    queries = {f"{i}_q{j}": f"query {i} {j}" for i in range(400) for j in (1, 2)}
    corpus = {key: f"source {key}" for key in queries}
    file = write_answers(
        tmp_path,
        [(key, f"s{key}") for key in queries],
        corpus={f"s{key}": text for key, text in corpus.items()},
        queries=queries,
        head="paired = true",
    )
    task = load(file)
    found = evaluate(HashEncoder("oak"), task).scores
    assert found[PAIRED].mean == pytest.approx(0.25, abs=0.07)
    assert found[RECALL].mean < 0.02
    constant = evaluate(load_encoder("constant"), task).scores
    assert constant[PAIRED].mean == 0
    assert constant[NDCG].mean < 0.02
    assert load(file, limit=5).query.labels == ("0_q1", "0_q2", "1_q1", "1_q2", "2_q1", "2_q2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answers": [("a_q1", "d0")]},
            r"asked: \[splits.answers\] names 'd0', which is the id of",
        ),
        ({"corpus": dict([*CORPUS.items()][:9])}, "asked: expected 10 or more sources .*, got 9"),
        ({"answers": [("x", "d1")]}, "asked: no query has an answer; correct the ids in the files"),
        ({"head": "paired = true", "answers": ANSWERS[:3]}, "asked: the id 'b' has no pair of"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(write_answers(tmp_path, **change))


def test_a_task_needs_queries_and_sources(tmp_path: Path) -> None:
    file = write_answers(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[splits.source]", "[splits.answers.hub]"), encoding="utf-8")
    file.write_text(text.replace('[splits.source]\npath = "corpus.jsonl"\n', ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"\[splits.source\] is missing"):
        read_task(file)


def test_the_digest_covers_texts_and_answers(tmp_path: Path) -> None:
    digests = set()
    for answers, corpus in (
        (ANSWERS, CORPUS),
        ([*ANSWERS[:3], ("b_q2", "d5")], CORPUS),
        (ANSWERS, CORPUS | {"d5": "The orchard grows plums."}),
    ):
        digests.add(load(write_answers(tmp_path, answers, corpus=corpus)).digest)
    assert len(digests) == 3


# Shipped tasks


def test_the_answer_of_a_sentence_of_contrast_is_its_twin() -> None:
    task, contrast = load_task("contrast-opposite"), load_task("contrast")
    assert isinstance(task, OppositeTask)
    assert task.counts == {"sources": 1820, "queries": 610}
    label_of = {
        row["text"]: (row["label"], row["pair"])
        for split in ("source", "query")
        for row in _rows(getattr(contrast, split))
    }
    for text, right, own in zip(task.query.texts, task.answers, task.excluded, strict=True):
        ((label, pair), (other, same)) = label_of[text], label_of[task.source.texts[right[0]]]
        assert len(right) == len(own) == 1
        assert (pair, {label, other}) == (same, {"negative", "positive"})
        assert task.source.texts[own[0]] == text
    assert sorted(np.bincount(task.units)) == [2] * 305


def _rows(split: Any) -> list[dict[str, str]]:
    return [
        {"text": text, "label": label, "pair": pair}
        for text, label, pair in zip(split.texts, split.labels, split.columns["pair"], strict=True)
    ]


def test_tasks_without_checksums_pin_a_commit_of_the_hub_and_say_that_nothing_was_measured() -> (
    None
):
    for name in ("arguana", "nevir"):
        spec: Any = load_tasks()[name]
        assert {split.hub.revision for split in spec.splits.values()} != {None}
        assert "no score was measured" in spec.description
        assert spec.paired is (name == "nevir")


@pytest.mark.parametrize("name", ["arguana", "nevir"])
def test_the_files_of_others_are_read_in_their_layout(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    (folder / "qrels").mkdir(parents=True)
    write_answers(folder)
    (folder / "test.tsv").rename(folder / "qrels" / "test.tsv")
    task = load_task(name, access=DataAccess(tmp_path, offline=True))
    assert task.counts == {"sources": 12, "queries": 4}
    scores = evaluate(BagEncoder("ash"), task).scores
    assert (PAIRED in scores) is (name == "nevir")


def test_reviews_are_read_in_pairs(tmp_path: Path) -> None:
    rows = [("Negative", "A dull film.", "7"), ("Positive", "A fine film.", "7")]
    rows += [
        each
        for i in range(5)
        for each in ((rows[0][0], f"Bad {i}.", f"{i}"), (rows[1][0], f"Good {i}.", f"{i}"))
    ]
    rows += [("Positive", 'He said "go" and I went.', "9"), ("Negative", "I went, sadly.", "9")]
    text = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "pairs.tsv").write_text(f"Sentiment\tText\tbatch_id\n{text}", encoding="utf-8")
    shipped = load_tasks()["imdb-counterfactual"].file.read_text(encoding="utf-8")
    kept = [line for line in shipped.splitlines() if not line.startswith(("url", "sha", "rows"))]
    file = tmp_path / "pairs.toml"
    text = "\n".join(kept).replace("imdb-counterfactual/test_paired.tsv", "pairs.tsv")
    file.write_text(text.replace('name = "imdb-', 'name = "small-'), encoding="utf-8")
    task = load(file)
    answers = [task.source.texts[i] for (i,) in task.answers]
    assert answers[:4] == ["A fine film.", "A dull film.", "Good 0.", "Bad 0."]
    assert answers[-2:] == ["I went, sadly.", 'He said "go" and I went.']


# From the command line to a board


def test_the_task_runs_and_is_compared_and_ranked_by_its_main_score(
    bench: Bench, tmp_path: Path
) -> None:
    file = write_answers(tmp_path, head="paired = true")
    common = ("--task-dir", file, "--no-store")
    for model in ("random", "tfidf"):
        done = bench(
            "run", "-m", model, "-t", "asked", "--columns", "all", "--log-samples", *common
        )
        assert done.code == 0, done.err
        assert "nDCG@10" in done.out
        assert "pairs" in done.out
    (samples, _) = sorted(Path("results").rglob("*.samples.jsonl"))
    sample = json.loads(samples.read_text(encoding="utf-8").splitlines()[0])
    assert sample["text"] == QUERIES["a_q1"]
    assert len(sample["retrieved"]) == 10
    assert {"ndcg_at_10", "recall_at_1", "mrr_at_10"} == {*sample["scores"]}
    for measure in ("ndcg", "recall@1", "mrr_at_10"):
        done = bench(
            "compare", "random", "tfidf", "--task", "asked", "--measure", measure, *common[:2]
        )
        assert done.code == 0, done.err
        assert "over 4 queries" in done.out
    board = bench("leaderboard", "results")
    assert board.code == 0, board.err
    assert "Opposites (nDCG@10, answer-retrieval, 1 task)" in board.out
    rows = [[cell.strip(" *") for cell in line.split("|")] for line in board.out.splitlines()]
    names = [row[2] for row in rows if len(row) > 4 and row[2] in {"random", "tfidf"}]
    assert names[:2] == ["tfidf", "random"]
    for name in ("nDCG@10", "recall@1", "MRR@10", "pairs", "mrr_at_10"):
        assert bench("explain-score", name).code == 0


def test_an_axis_may_search_for_answers_below_0(
    bench: Bench, tmp_path: Path, task_dir: Path, tiny_model: Path
) -> None:
    file = write_answers(tmp_path)
    train = ("train", "axis", "--model", tiny_model, "--task", "mini", "-o", "axis", "--no-store")
    done = bench(*train, "--task-dir", task_dir)
    assert done.code == 0, done.err
    words = ("run", "-m", "axis", "-t", "asked", "--task-dir", file, "--no-store", "--json")
    done = bench(*words, "--strength", "-1,0,1")
    assert done.code == 0, done.err
    assert len({each["encoder_digest"] for each in json.loads(done.out)["results"]}) == 3
