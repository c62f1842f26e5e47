"""Boards of made-up results: a golden one, what stands beside what, and what is refused."""

from __future__ import annotations

import csv
import itertools
import math
import pickle
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins.board import in_places, placed, read_board

from polarity_bench.boards.board import BoardParts, board, find_board
from polarity_bench.boards.config import BoardFile
from polarity_bench.boards.note_texts import NOTES
from polarity_bench.compare.encoder_ranks import standings_bytes
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.csv_text import board_csv
from polarity_bench.render.latex import board_latex
from polarity_bench.render.markdown import render
from polarity_bench.render.table import Board, Column, Table
from polarity_bench.results.result_files import Result, ResultKey, write_result
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey
from polarity_bench.tasks import catalogue
from polarity_bench.tasks.types.base import TaskSpec

MINI = EncoderId("org/all-mini", "1")
TUNED = EncoderId("org/tuned", "5")
PLAIN, PROMPTED = EncoderId("e5_x", "2"), EncoderId("e5_x", "2", prompt="query: ")
TWIN_A, TWIN_B = EncoderId("my|run", "3"), EncoderId("my|run", "4")
MAIN = {"transfer": "accuracy", "relatedness": "pearson", "sts": "spearman_all"}
SKLEARN = {"name": "senteval-sklearn", "version": 1, "kfold": 10, "lower_case": False}
PAPERS = {"name": "senteval-torch", "version": 1, "preset": "papers", "kfold": 3}
PAPERS |= {"lower_case": True, "device": "cpu"}
RELATED = {"name": "senteval-relatedness", "version": 1, "lower_case": False, "placeholder": "."}
STS = {"name": "sts-cosine", "version": 1}


def made(
    encoder: EncoderId,
    task: str,
    kind: str,
    protocol: Mapping[str, Any],
    scores: Mapping[ScoreKey, Score],
    *,
    reference: EncoderId | None = None,
    experiment: str = "",
) -> Result:
    return Result(
        task=task,
        kind=kind,
        result_name=task.upper(),
        version=1,
        languages=("eng-Latn",),
        main_score=ScoreKey.parse(MAIN.get(kind, "joint_at_16")),
        key=ResultKey("task 1", f"data {task}", encoder, reference, protocol),
        scores=scores,
        counts={},
        experiment=experiment,
    )


def polarity(
    encoder: EncoderId,
    task: str,
    p: float,
    s: float,
    joint: float,
    *,
    retention: float = 0.5,
    reference: EncoderId | None = None,
    ks: Sequence[int] = (16,),
) -> Result:
    """Every score as given at every k and weighting; joint from 2 points below to 3 above."""
    means = {"polarity": p, "similarity": s, "retention": retention, "knn_accuracy": p + 0.1}
    scores: dict[ScoreKey, Score] = {}
    for k, weighting in itertools.product(ks, WEIGHTINGS):
        for metric, mean in means.items():
            scores[ScoreKey(metric, k, weighting)] = Score.single(mean, 8)
        interval = (joint - 0.02, joint + 0.03)
        scores[ScoreKey("joint", k, weighting)] = Score(joint, math.nan, interval, 8)
    parts = [f"k_{'-'.join(map(str, ks))}"] if tuple(ks) != (16,) else []
    parts += [f"reference_{reference.digest}"] if reference else []
    protocol = {"name": "polarity-retrieval", "version": 1, "k": list(ks)}
    named: dict[str, Any] = {"reference": reference, "experiment": "__".join(parts)}
    return made(encoder, task, "polarity", protocol, scores, **named)


def plain(
    encoder: EncoderId,
    task: str,
    kind: str,
    score: float,
    protocol: Mapping[str, Any],
    experiment: str = "",
) -> Result:
    scores = {ScoreKey.parse(MAIN[kind]): Score.single(score, 8)}
    return made(encoder, task, kind, protocol, scores, experiment=experiment)


def shown(results: Sequence[Result], weighting: str = "linear") -> str:
    return squeezed(render(board(BoardParts(in_places(results), BoardFile(weighting=weighting)))))


def squeezed(text: str) -> str:
    """Without the padding of columns and the rules below their heads."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"[|:-]+", line)]
    return re.sub(r" +", " ", "\n".join(lines))


def encoders_of(text: str) -> list[str]:
    """The first column of the first table."""
    table = next(part for part in text.split("\n\n") if part.startswith("| "))
    return re.findall(r"^\| (.*?) \|", table, flags=re.M)[1:]


def digest(encoder: EncoderId) -> str:
    return encoder.digest[:8]


RESULTS = [
    polarity(MINI, "sst2", 0.6, 0.45, 0.2),
    polarity(MINI, "irony", 0.55, 0.5, 0.1),
    polarity(PLAIN, "sst2", 0.7, 0.85, 0.4, reference=MINI, retention=0.9),
    polarity(PLAIN, "irony", 0.65, 0.8, 0.3, reference=MINI, retention=0.8),
    polarity(TUNED, "sst2", 0.68, 0.9, 0.3, reference=MINI, retention=0.95),
    polarity(PROMPTED, "sst2", 0.72, 0.6, 0.5),
    polarity(TWIN_A, "sst2", 0.5, 0.3, math.nan),
    polarity(TWIN_A, "irony", 0.5, 0.3, 0.05),
    plain(MINI, "cr", "transfer", 0.8, SKLEARN),
    plain(MINI, "sst5", "transfer", 0.4, SKLEARN),
    plain(PLAIN, "cr", "transfer", 0.85, SKLEARN),
    plain(TWIN_B, "cr", "transfer", 0.75, SKLEARN),
    plain(TWIN_B, "sst5", "transfer", 0.5, SKLEARN),
    plain(MINI, "cr", "transfer", 0.78, PAPERS, "protocol_papers"),
    plain(MINI, "sick-r", "relatedness", 0.7, RELATED),
    plain(MINI, "sts12", "sts", 0.7237, STS),
    plain(PLAIN, "sts12", "sts", 0.6, STS),
]

GOLDEN = f"""\
**e5_x** has the highest joint on sst2 with the reference org/all-mini: 40.00 [38.00, 43.00]; \
org/tuned follows with 30.00 [28.00, 33.00], and the reference, org/all-mini, has 20.00 \
[18.00, 23.00].

## Summary: sst2

| encoder | prompt | reference | k | P | S | retention | joint | kNN accuracy | Transfer \
(accuracy, senteval-sklearn, k = 10, 1 of 2 tasks) | Transfer (accuracy, senteval-torch papers, \
k = 3, 1 task) | Supervised relatedness (Pearson, senteval-relatedness, 1 task) | \
STS (Spearman all, sts-cosine, 1 task) |
| e5_x | 'query: ' | itself | 16 | **72.00** | 60.00 | 50.00 | 50.00 [48.00, 53.00] | \
**82.00** | - | - | - | - |
| e5_x | - | org/all-mini | 16 | 70.00 | 85.00 | 90.00 | **40.00** [38.00, 43.00] | 80.00 | \
**85.00** | - | - | 60.00 |
| org/tuned | - | org/all-mini | 16 | 68.00 | **90.00** | **95.00** | 30.00 [28.00, 33.00] | \
78.00 | - | - | - | - |
| org/all-mini | - | itself | 16 | 60.00 | 45.00 | 50.00 | 20.00 [18.00, 23.00] | 70.00 | 80.00 | \
78.00 | 70.00 | **72.37** |
| my\\|run @{digest(TWIN_A)} | - | itself | 16 | 50.00 | 30.00 | 50.00 | - | 60.00 | - | - | - | - |
| my\\|run @{digest(TWIN_B)} | - | itself | - | - | - | - | - | - | 75.00 | - | - | - |

Ranks by joint are unknown: the values per query are missing. Minimum detectable \
difference of unpaired scores (80 % power): 5.1 points. A paired test detects smaller differences.

Ranks by Spearman all are unknown: the values per query are missing.

[What the columns, ranks and bold numbers mean](#notes)

## Transfer (accuracy, senteval-sklearn, k = 10, 2 tasks)

| encoder | cr | sst5 |
| e5_x | **85.00** | - |
| org/all-mini | 80.00 | 40.00 |
| my\\|run @{digest(TWIN_B)} | 75.00 | **50.00** |

Ranks by accuracy are unknown: the values per query are missing.

## irony

| encoder | reference | k | P | S | retention | joint | kNN accuracy |
| e5_x | org/all-mini | 16 | **65.00** | 80.00 | 80.00 | 30.00 [28.00, 33.00] | **75.00** |
| org/all-mini | itself | 16 | 55.00 | 50.00 | 50.00 | 10.00 [8.00, 13.00] | 65.00 |
| my\\|run @{digest(TWIN_A)} | itself | 16 | 50.00 | 30.00 | 50.00 | 5.00 [3.00, 8.00] | 60.00 |
"""


def test_a_board_is_the_golden_one() -> None:
    title, tables = shown(RESULTS).split("\n\n## Notes")[0].split("\n\n", 1)
    assert title == "# Polarity leaderboard"
    assert tables == GOLDEN.rstrip("\n")


def test_a_prompt_has_a_column_where_encoders_differ_in_it() -> None:
    quick = replace(PROMPTED, dtype="bfloat16")
    differ = [polarity(PLAIN, "sst2", 0.7, 0.85, 0.4), polarity(PROMPTED, "sst2", 0.72, 0.6, 0.5)]
    differ += [polarity(quick, "sst2", 0.5, 0.6, 0.3), polarity(TWIN_A, "sst2", 0.4, 0.6, 0.2)]
    differ += [polarity(TWIN_B, "sst2", 0.3, 0.6, 0.1)]
    differ += [polarity(PROMPTED, "irony", 0.7, 0.6, 0.4)]
    made = board(in_places(differ))
    heads = dict(made.tables[0].heads)
    assert list(zip(heads["encoder"], heads["prompt"], strict=True)) == [
        ("e5_x", "'query: '"),
        ("e5_x", "-"),
        ("e5_x (bfloat16)", "'query: '"),
        (f"my|run @{digest(TWIN_A)}", "-"),
        (f"my|run @{digest(TWIN_B)}", "-"),
    ]
    assert made.finding.startswith("**e5_x (prompt 'query: ')** has the highest P on sst2")
    irony = next(table for table in made.tables if table.heading == "irony")
    assert "prompt" not in dict(irony.heads)
    assert dict(irony.heads)["encoder"] == ["e5_x (prompt 'query: ')"]


def of_twin(encoder: EncoderId, p: float, s: float, n_seen: int | None = None) -> Result:
    result = polarity(encoder, "sst2-unseen", p, s, 0.2, reference=MINI)
    return known(replace(result, unseen_of="sst2"), n_seen)


def known(result: Result, n_seen: int | None) -> Result:
    """Of 8 sources so many are known to the encoder; None where nobody can tell."""
    none = {"queries": {"normalised": 0}}
    seen = None if n_seen is None else none | {"sources": {"normalised": n_seen}}
    return replace(result, counts={"sources": 8, "queries": 2}, seen=seen)


TWINS = [
    known(polarity(TUNED, "sst2", 0.9, 0.4, 0.6, reference=MINI), 6),
    of_twin(TUNED, 0.8, 0.3, 0),
    polarity(PLAIN, "sst2", 0.7, 0.45, 0.4, reference=MINI),
    of_twin(PLAIN, 0.85, 0.35),
    polarity(TWIN_A, "sst2", 0.6, 0.5, 0.1, reference=MINI),
    *(polarity(encoder, "irony", 0.5, 0.5, 0.1, reference=MINI) for encoder in (TUNED, PLAIN)),
]

SIDE_BY_SIDE = """\
## sst2: from the sources of the training file to unseen ones (sst2-unseen)

| encoder | reference | k | seen | seen, unseen | P, change | S, change |
| org/tuned | org/all-mini | 16 | 75.00 | 0.00 | -10.00 | -10.00 |
| e5_x | org/all-mini | 16 | - | - | +15.00 | -10.00 |
"""


def test_a_task_stands_beside_its_twin_of_unseen_sources() -> None:
    text = shown([*TWINS, polarity(MINI, "irony", 0.5, 0.5, 0.1)])
    assert SIDE_BY_SIDE in text
    assert text.index("## sst2: from the sources") < text.index("\n## irony")
    assert "a trained encoder has seen them. The unseen task has sources from elsewhere" in text
    alone = [result for result in TWINS if result.task != "sst2"]
    assert "unseen ones" not in shown(alone), "a twin without its task is a task"
    assert "unseen" not in shown([result for result in TWINS if result.task != "sst2-unseen"])


def test_no_mean_is_over_a_task_and_its_twin() -> None:
    """Their queries are the same, so that their intervals do not add up."""
    both = [result for result in TWINS if result.key.encoder == PLAIN]
    text = shown(both)
    assert "## Means over 2 polarity tasks" in text
    assert "| e5_x | org/all-mini | 16 | 60.00 | 47.50 |" in text, "(70 + 50) / 2"
    assert "without sst2-unseen" not in text
    assert "## Summary: sst2-unseen" in shown([of_twin(PLAIN, 0.85, 0.35)])


def test_a_board_is_a_value_of_unrounded_fractions() -> None:
    third = 1 / 3
    results = [
        polarity(MINI, "sst2", third, 0.4, 0.2),
        polarity(TUNED, "sst2", 0.3, 0.4, 0.1),
        polarity(TUNED, "sst2", 0.3, 0.4, 0.1, reference=MINI),
    ]
    made = board(BoardParts(in_places(results), BoardFile(title="T", introduction="I")))
    p, *_, joint, _ = made.tables[0].columns
    assert (made.title, made.introduction, p.title, joint.title) == ("T", "I", "P", "joint")
    assert p.values == [third, 0.3, 0.3]
    assert joint.values == [0.2, 0.1, 0.1]
    expected = [(0.18, 0.23), (0.08, 0.13), (0.08, 0.13)]
    assert np.array(joint.intervals) == pytest.approx(np.array(expected))
    assert [rival is None for rival in joint.rivals].count(True) == 2
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_order_of_results_moves_no_byte() -> None:
    expected = shown(RESULTS)
    for start in range(len(RESULTS)):
        assert shown([*RESULTS[start:], *RESULTS[:start]]) == expected
    assert shown(RESULTS[::-1]) == expected


def test_every_order_of_ties_is_one_order() -> None:
    tied = [polarity(EncoderId("same", str(i)), "sst2", 0.5, 0.5, 0.5) for i in range(3)]
    assert len({shown(order) for order in itertools.permutations(tied)}) == 1


def test_every_table_has_whole_rows() -> None:
    for block in shown(RESULTS).split("\n\n"):
        if block.startswith("|"):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1


def test_weightings_give_different_boards() -> None:
    result = polarity(MINI, "sst2", 0.6, 0.4, 0.25)
    changed = {ScoreKey("polarity", 16, "uniform"): Score.single(0.75, 8)}
    result = replace(result, scores={**result.scores, **changed})
    assert "| 60.00 |" in shown([result])
    assert "| 75.00 |" in shown([result], "uniform")
    assert "Ranks are weighted uniformly." in shown([result], "uniform")


def test_encoders_without_polarity_have_a_board_too() -> None:
    text = shown([r for r in RESULTS if r.kind != "polarity"])
    assert "\n\n## Means\n\n| encoder | reference | k | Transfer" in text
    assert "| my\\|run | itself | - | 75.00 | - | - | - |" in text
    assert "polarity score" not in text


def test_means_are_over_the_tasks_that_every_row_has_and_say_so() -> None:
    results = [
        polarity(MINI, "sst2", 0.6, 0.4, 0.2),
        polarity(MINI, "irony", 0.5, 0.4, 0.4),
        polarity(TUNED, "sst2", 0.9, 0.4, 0.9),
    ]
    text = shown(results)
    means = text.split("\n\n## ")[1]
    assert means.startswith("Summary: sst2\n")
    assert "| org/all-mini | itself | 16 | 60.00 |" in means
    assert "| org/tuned | itself | 16 | **90.00** |" in means
    assert (
        "leave out tasks for which some rows have no results: irony (polarity-retrieval)." in text
    )
    results.append(polarity(TUNED, "irony", 0.7, 0.4, 0.9))
    assert "## Means over 2 polarity tasks\n" in shown(results)
    assert "every row has" not in shown(results)


def test_where_rows_have_no_task_in_common_a_mean_needs_every_task() -> None:
    results = [
        polarity(MINI, "sst2", 0.6, 0.4, 0.2),
        polarity(TUNED, "irony", 0.9, 0.4, 0.9),
        polarity(PLAIN, "irony", 0.5, 0.4, 0.9),
        polarity(PLAIN, "sst2", 0.6, 0.4, 0.9),
    ]
    means = shown(results).split("\n\n## ")[1]
    assert means.startswith("Means over 2 polarity tasks\n")
    assert "| e5_x | itself | 16 | 55.00 |" in means
    assert "| org/tuned | itself | 16 | - | - | - | - |" in means


def test_an_encoder_under_three_names_is_one_row_that_bears_all() -> None:
    results = [
        polarity(replace(MINI, name="b"), "sst2", 0.6, 0.4, 0.2),
        polarity(replace(MINI, name="a"), "irony", 0.5, 0.4, 0.4),
        polarity(replace(MINI, name="c"), "irony", 0.5, 0.4, 0.4),
    ]
    assert encoders_of(shown(results)) == ["a, b, c"]


# What sorts and ranks each table

REVIEWS = [
    polarity(EncoderId(f"encoder {i}", f"of {i}"), "reviews", 0.5 + i / 10, 0.4, i / 10)
    for i in range(1, 5)
]
OTHERS = [polarity(MINI, "sst2", 0.6, 0.4, 0.2), polarity(TUNED, "sst2", 0.7, 0.4, 0.3)]
BY_SCORE = [f"encoder {i}" for i in (4, 3, 2, 1)]


def column_of(text: str, heading: str, place: int) -> list[str]:
    """A column of a table, its cells from the top."""
    rows = text.split(f"## {heading}\n\n")[1].split("\n\n")[0].splitlines()[1:]
    return [row.strip("| ").split(" | ")[place] for row in rows]


def test_a_table_is_sorted_by_its_own_task_where_encoders_have_other_tasks() -> None:
    text = shown([*REVIEWS, *OTHERS])
    assert column_of(text, "reviews", 0) == BY_SCORE
    assert column_of(text, "sst2", 0) == ["org/tuned", "org/all-mini"]
    also = [polarity(REVIEWS[0].key.encoder, "sst2", 0.9, 0.4, 0.9), *OTHERS]
    text = shown([*REVIEWS, *also])
    assert column_of(text, "reviews", 0) == BY_SCORE
    assert column_of(text, "sst2", 0) == ["encoder 1", "org/tuned", "org/all-mini"]
    assert "Each table is sorted and ranked by its own scores." in text


def test_without_a_task_in_common_at_one_k_there_is_no_table_of_means() -> None:
    """As of a task of one's own, which has fewer sources than a shipped one."""
    apart = [
        polarity(MINI, "reviews", 0.7, 0.4, 0.3, ks=(12,)),
        polarity(MINI, "sst2", 0.6, 0.4, 0.3),
    ]
    text = shown(apart)
    assert "## Means" not in text
    assert "There is no table of means, because no encoder has every task at one k" in text
    assert column_of(text, "reviews", 0) == column_of(text, "sst2", 0) == ["org/all-mini"]
    together = shown([polarity(MINI, task, 0.7, 0.4, 0.3) for task in ("reviews", "sst2")])
    assert "## Means over 2 polarity tasks" in together
    assert "There is no table of means" not in together


def test_a_task_with_another_reference_changes_no_order_of_the_others() -> None:
    """There joint is shown for the first time; on `reviews`, it still depends on P alone."""
    reviews = [
        polarity(EncoderId(name, name), "reviews", p, 0.4, joint)
        for name, p, joint in (("one", 0.9, 0.1), ("two", 0.8, 0.2), ("three", 0.7, 0.3))
    ]
    text = shown([*reviews, polarity(TUNED, "sst2", 0.7, 0.4, 0.3, reference=MINI)])
    assert column_of(text, "reviews", 0) == ["one", "two", "three"]
    assert "Rows are sorted by P where every encoder of a table is its own reference" in text


def test_tables_of_tasks_that_do_not_rank_are_sorted_by_their_own_mean() -> None:
    accuracies = {"one": 0.6, "two": 0.7, "three": 0.8}
    encoders = {name: EncoderId(name, name) for name in accuracies}
    results = [
        *(
            plain(encoders[name], task, "transfer", x, SKLEARN)
            for name, x in accuracies.items()
            for task in ("cr", "mr")
        ),
        *(
            plain(encoders[name], task, "sts", 1 - x, STS)
            for name, x in accuracies.items()
            for task in ("sts12", "sts13")
        ),
        *(
            polarity(e, "sst2", 0.5, 0.4, x, reference=MINI)
            for x, e in enumerate(encoders.values())
        ),
    ]
    text = shown(results)
    assert column_of(text, "Transfer (accuracy, senteval-sklearn, k = 10, 2 tasks)", 0) == [
        "three",
        "two",
        "one",
    ]
    sts = column_of(text, "STS (Spearman all, sts-cosine, 2 tasks)", 0)
    assert sts == ["one", "two", "three"]
    assert "Tables of tasks without retrieval are sorted by their own mean." in text


def test_ranks_of_a_task_stand_whatever_else_was_run(tmp_path: Path) -> None:
    """Its ranks are from values per query, and from what is kept where these are gone."""
    rng = np.random.default_rng(1)
    for i, result in enumerate(REVIEWS):
        values = rng.normal(0.5 + i / 10, 0.1, 200).astype(np.float32)
        score = Score.single(float(values.mean(dtype=np.float64)), 200)
        key = ScoreKey("polarity", 16)
        made = replace(result, scores=dict(result.scores) | {key: score}, arrays={str(key): values})
        write_result(made, tmp_path)
    text = squeezed(render(read_board(tmp_path)))
    assert column_of(text, "Summary: reviews", 0) == ["1", "2", "3", "4"]
    assert column_of(text, "Summary: reviews", 1) == BY_SCORE
    others = [*OTHERS, polarity(TUNED, "sst2", 0.7, 0.4, 0.3, reference=MINI)]
    for other in others:
        write_result(other, tmp_path)
    found = find_board(tmp_path)
    text = squeezed(render(board(found)))
    assert column_of(text, "reviews", 0) == ["1", "2", "3", "4"]
    (tmp_path / "statistics.json").write_bytes(standings_bytes(found.standings))
    for file in tmp_path.rglob("*.queries.safetensors"):
        file.unlink()
    third = polarity(REVIEWS[0].key.encoder, "irony", 0.7, 0.4, 0.3)
    write_result(third, tmp_path)
    text = squeezed(render(read_board(tmp_path)))
    assert column_of(text, "reviews", 0) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("n_tied", "certainty"),
    [
        (0, "separate it from all others"),
        (1, "do not separate it from e1"),
        (2, "do not separate it from e1 and e2, tuned"),
        (3, "do not separate it from e1; e2, tuned; and e3"),
        (5, "do not separate it from e1; e2, tuned; e3; and 2 more"),
    ],
)
def test_the_finding_names_the_encoders_that_are_not_separated_from_the_best(
    tmp_path: Path, n_tied: int, certainty: str
) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0.8, 0.1, 200).astype(np.float32)
    names = ["e0", "e1", "e2, tuned", *(f"e{i}" for i in range(3, n_tied + 1))][: n_tied + 1]
    key = ScoreKey("polarity", 16)
    for i, name in enumerate([*names, "last"]):
        noise = rng.normal(0, 0.1, 200)
        own = values + noise - noise.mean() - (0.4 if name == "last" else 0.0001 * i)
        own = own.astype(np.float32)
        result = polarity(EncoderId(name, str(i)), "sst2", 0.5, 0.4, 0.3)
        score = Score.single(float(own.mean(dtype=np.float64)), 200)
        scores = dict(result.scores) | {key: score}
        write_result(replace(result, scores=scores, arrays={str(key): own}), tmp_path)
    found = find_board(tmp_path)
    assert board(found).finding.endswith(f" Paired tests {certainty}.")


def test_an_encoder_at_a_strength_below_0_has_no_rank() -> None:
    """It does its job where P is 0; joint is 0 there as well, and its S competes with none."""
    by_strength = {None: 0.5, 1.0: 0.9, 2.0: 0.8, -1.0: 0.0}
    encoders = {at: EncoderId("dial", "7", strength=at) for at in by_strength}
    results = [
        polarity(encoders[at], "sst2", p, 0.9 if at == -1 else 0.4, p / 2, reference=MINI)
        for at, p in by_strength.items()
    ]
    made = board(BoardParts(in_places(results)))
    for table in made.tables:
        opposed = next(i for i, name in enumerate(table.heads[0][1]) if "strength -1" in name)
        assert opposed == 3, "its joint is the least"
        assert all(column.rivals[opposed] is None for column in table.columns)
        assert all(column.rivals[0] is not None for column in table.columns)
    text = render(made)
    assert "An encoder at a strength below 0 retrieves texts of the opposite polarity" in text
    assert "strength below 0" not in shown(results[:3])


def test_without_a_reference_in_common_it_says_why_no_encoder_has_a_rank() -> None:
    """As after `run --reference mini` for one other encoder."""
    other = EncoderId("birch", "9")
    results = [
        polarity(MINI, "sst2", 0.6, 0.4, 0.2),
        polarity(other, "sst2", 0.5, 0.3, 0.1, reference=MINI),
    ]
    note = "No two encoders here share such a reference, so there are no ranks by joint. To rank"
    assert note in shown(results)
    made = board(BoardParts(in_places(results), BoardFile(sort="P")))
    assert note not in render(made)
    third = polarity(EncoderId("maple", "8"), "sst2", 0.5, 0.3, 0.1, reference=MINI)
    assert note not in shown([*results, third])
    assert note not in shown(results[:1])


# Joint, and what it is sorted and set in bold by


def test_joint_stands_with_its_interval_and_a_mean_adds_them_in_quadrature() -> None:
    results = [polarity(MINI, f"task-{i}", 0.6, 0.4, 0.2) for i in range(4)]
    first, *others, _ = shown(results).split("\n\n## ")[1:]
    assert "| 20.00 [19.00, 21.50] |" in first  # 2 and 3 points by the square root of 4
    assert len(others) == 4
    assert all("| 20.00 [18.00, 23.00] |" in table for table in others)
    assert "in quadrature" in shown(results)


def test_p_and_s_stand_with_their_intervals_in_every_rendering() -> None:
    p, s = Score(0.763, 0.1, (0.749, 0.776), 8), Score(0.5, 0.1, (0.48, 0.51), 8)
    own = {ScoreKey("polarity", 16): p, ScoreKey("similarity", 16): s}
    results = [polarity(MINI, task, 0.6, 0.4, 0.2) for task in ("sst2", "irony")]
    results = [replace(result, scores=dict(result.scores) | own) for result in results]
    made = board(BoardParts(in_places(results)))
    text = squeezed(render(made))
    assert text.count("| 76.30 [74.90, 77.60] | 50.00 [48.00, 51.00] |") == 2
    assert "| 76.30 [75.31, 77.22] | 50.00 [48.59, 50.71] |" in text, "14 / sqrt(2), 13 / sqrt(2)"
    lines = [line for line in board_csv(made).splitlines() if line.startswith("sst2,")]
    assert any(",P,fraction,0.763,0.749,0.776," in line for line in lines)
    assert "76.30 {[}74.90, 77.60{]}" in board_latex(made)
    pytest.importorskip("jinja2")
    from polarity_bench.render.html.board_page import page_html

    assert "[74.90, 77.60]" in page_html(made)
    assert "[low, high] is the 95 % interval over the queries" in text


def test_a_missing_head_is_empty_in_csv() -> None:
    """Before, it was `'-`: the dash of the other formats, escaped as a formula."""
    heads = (("encoder", ["a", "-b"]), ("strength", ["-", "1"]))
    table = Table("table", heads, (Column("P", (0.5, 0.6)),))
    lines = list(csv.DictReader(board_csv(Board("", "", (table,), ())).splitlines()))
    assert [(line["encoder"], line["strength"]) for line in lines] == [("a", ""), ("'-b", "1")]


def test_where_every_encoder_is_its_own_reference_rows_are_sorted_by_p() -> None:
    results = [
        polarity(MINI, "sst2", 0.6, 0.4, 0.3),
        polarity(MINI, "irony", 0.7, 0.4, 0.3),
        polarity(TUNED, "sst2", 0.9, 0.4, 0.4),  # greater mean of joint, which curves
        polarity(TUNED, "irony", 0.3, 0.4, 0.4),
    ]
    text = shown(results)
    assert encoders_of(text) == ["org/all-mini", "org/tuned"]
    said = "Rows are sorted by P: every encoder is its own reference, so on each task joint depends"
    assert said in text  # of means it is not true, as these two show: their joint has another order
    assert "transform of P" not in text
    assert "**40.00**" not in text
    shared = [
        polarity(e, t, 0.5, 0.4, j, reference=PLAIN)
        for e, t, j in (
            (MINI, "sst2", 0.3),
            (MINI, "irony", 0.3),
            (TUNED, "sst2", 0.4),
            (TUNED, "irony", 0.4),
        )
    ]
    text = shown(shared)
    assert encoders_of(text) == ["org/tuned", "org/all-mini"]
    assert "Rows are sorted by joint." in text


def test_a_ranking_says_that_it_is_corrected_by_itself() -> None:
    """Several rankings of a board are several chances of a false difference."""
    by_k = {k: ranked(ks=(k,)) for k in (4, 16)}
    both = ranked(ks=(4, 16))
    for k, ranks in by_k.items():
        assert [rank for at, rank in both if at == k] == [rank for _, rank in ranks]
    assert (
        "all pairs of one ranking: the encoders of one table at one k and reference"
        in NOTES["ranks"]
    )
    assert "On a board with several rankings, the probability is higher." in NOTES["ranks"]


def test_two_encoders_tied_among_many_may_differ_alone_and_the_note_says_so() -> None:
    """The raw p of the first and the third encoder is 0.007: below 0.05, above 0.05 / 15."""
    assert [rank for _, rank in ranked(ks=(16,), only=(0, 2))] == ["1", "2"]
    third = sorted(rank for _, rank in ranked(ks=(16,)))[3]
    assert third == "3\N{EN DASH}6", "not even the worst score is below it"
    assert "may share a rank on one board and differ on another" in NOTES["ranks"]


def ranked(ks: Sequence[int], only: Sequence[int] = range(6)) -> list[tuple[int, str]]:
    """The ranks of some of six encoders of little difference, by k, from values per query."""
    rng = np.random.default_rng(1)
    values = {k: rng.normal(0.5 + np.arange(6)[:, None] / 30, 0.2, (6, 200)) for k in (4, 16)}
    results, arrays = [], {}
    for i in only:
        encoder = EncoderId(f"encoder {i}", str(i))
        result = polarity(encoder, "sst2", 0.6, 0.4, 0.3, ks=ks)
        scores = dict(result.scores)
        for k in ks:
            own = values[k][i].astype(np.float32)
            scores[ScoreKey("polarity", k)] = Score.single(float(own.mean(dtype=np.float64)), 200)
            arrays[i, k] = own
        results.append(replace(result, scores=scores, main_score=ScoreKey("joint", ks[-1])))
    with tempfile.TemporaryDirectory() as folder:
        for i, result in zip(only, results, strict=True):
            own_arrays = {str(ScoreKey("polarity", k)): arrays[i, k] for k in ks}
            write_result(replace(result, arrays=own_arrays), folder)
        table = read_board(Path(folder)).tables[-1]
    heads = dict(table.heads)
    return sorted(zip(map(int, heads["k"]), heads["rank"], strict=True))


def test_what_has_no_value_per_query_is_not_called_missing() -> None:
    """Values per query of accuracy say nothing of macro-F1, which is no mean of them."""
    key = ScoreKey("macro_f1")
    results = [
        made(e, "cr", "transfer", SKLEARN, {ScoreKey("accuracy"): score, key: score})
        for e, score in ((MINI, Score.single(0.7, 8)), (TUNED, Score.single(0.6, 8)))
    ]
    found = BoardParts(in_places(results), BoardFile(measures={"transfer": "macro-F1"}))
    assert (
        "Ranks by macro-F1 are unknown: the results have no values per query of this score."
        in render(board(found))
    )
    assert "Ranks by accuracy are unknown: the values per query are missing." in render(
        board(replace(found, config=BoardFile()))
    )


def test_rows_without_a_score_come_last() -> None:
    joints = {"nan": math.nan, "low": 0.1, "high": 0.9, "zero": 0.0, "mid": 0.5, "none": math.nan}
    results = [
        polarity(EncoderId(name, name), "sst2", 0.5, 0.5, joint, reference=MINI)
        for name, joint in joints.items()
    ]
    for order in (results, results[::-1]):
        assert encoders_of(shown(order)) == ["high", "mid", "low", "zero", "nan", "none"]


@pytest.mark.parametrize(("metric", "best"), [("s", "**85.00**"), ("joint", "**70.00**")])
def test_what_a_reference_decides_is_bold_only_in_rows_that_share_one(
    metric: str, best: str
) -> None:
    values: dict[str, Any] = {"p": 0.5, "s": 0.4, "joint": 0.2}
    high, low = values | {metric: float(best[2:4]) / 100}, values
    base = EncoderId("base", "9")

    def text(ours: EncoderId | None, theirs: EncoderId | None) -> str:
        pair = [
            polarity(MINI, "sst2", **low, reference=ours),
            polarity(PLAIN, "sst2", **high, reference=theirs),
        ]
        return shown(pair)

    assert text(base, base).count(best) == 1
    assert best not in text(None, None)
    assert best not in text(base, None)
    assert best not in text(base, TUNED)


def test_a_base_is_no_rival_of_what_was_trained_from_it() -> None:
    trained = [polarity(e, "sst2", 0.5, 0.4, 0.3, reference=MINI) for e in (TUNED, PLAIN)]
    text = shown([*trained, polarity(MINI, "sst2", 0.6, 0.9, 0.8)])
    assert "**30.00**" in text
    assert "**80.00**" not in text
    assert "**60.00**" in text  # P needs no reference


def test_an_encoder_is_no_rival_of_itself_at_another_k() -> None:
    ranked = polarity(MINI, "sst2", 0.6, 0.4, 0.2, ks=(4, 16))
    both = [ranked, plain(MINI, "cr", "transfer", 0.8, SKLEARN)]
    assert "**" not in shown([*both, plain(TUNED, "sts12", "sts", 0.5, STS)])


def test_scores_compete_at_one_k_only() -> None:
    few = [polarity(MINI, "sst2", 0.9, 0.4, 0.2, ks=(4,)), polarity(MINI, "sst2", 0.6, 0.4, 0.2)]
    assert "**" not in shown(few)
    text = shown([*few, polarity(TUNED, "sst2", 0.7, 0.4, 0.2)])
    assert "**70.00**" in text
    assert "**90.00**" not in text


# What stands beside what


def test_two_numbers_of_folds_are_two_columns() -> None:
    results = [
        plain(MINI, "cr", "transfer", 0.8, SKLEARN),
        plain(MINI, "cr", "transfer", 0.7, SKLEARN | {"kfold": 3}, "protocol_k3"),
    ]
    text = shown(results)
    assert "| 70.00 | 80.00 |" in text or "| 80.00 | 70.00 |" in text
    assert "senteval-sklearn, k = 10, 1 task)" in text
    assert "senteval-sklearn, k = 3, 1 task)" in text


def test_lower_cased_texts_are_a_column_of_their_own() -> None:
    lowered = RELATED | {"lower_case": True, "placeholder": "-"}
    results = [
        plain(MINI, "sick-r", "relatedness", 0.8, RELATED),
        plain(MINI, "sick-r", "relatedness", 0.6, lowered, "lower_case"),
        plain(PLAIN, "sick-r", "relatedness", 0.7, RELATED),
    ]
    text = shown(results)
    assert "| Supervised relatedness (Pearson, senteval-relatedness, 1 task) |" in text
    assert "(Pearson, senteval-relatedness, lower-cased, 1 task) |" in text
    assert "| org/all-mini | itself | - | **80.00** | 60.00 |" in text
    assert "| e5_x | itself | - | 70.00 | - |" in text


def same_question(first: Result, second: Result) -> tuple[list[Result], str]:
    """Two results in two folders, and what an error must name."""
    both = [*in_places([first], "one"), *in_places([second], "two")]
    return both, ".*".join(re.escape(str(result.path)) for result in both)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (plain(MINI, "cr", "transfer", 0.8, SKLEARN), plain(MINI, "cr", "transfer", 0.7, SKLEARN)),
        (polarity(MINI, "sst2", 0.6, 0.4, 0.2), polarity(MINI, "sst2", 0.6, 0.4, 0.21)),
        (polarity(MINI, "sst2", 0.6, 0.4, 0.2), polarity(MINI, "sst2", 0.6, 0.4, math.nan)),
        (
            polarity(MINI, "sst2", 0.6, 0.4, 0.2, reference=TUNED),
            polarity(MINI, "sst2", 0.7, 0.4, 0.2, reference=TUNED, ks=(4, 16)),
        ),
        (
            plain(MINI, "cr", "transfer", 0.8, PAPERS),
            plain(MINI, "cr", "transfer", 0.8, PAPERS | {"device": "cuda"}),
        ),
    ],
)
def test_two_results_for_one_cell_are_refused(first: Result, second: Result) -> None:
    both, files = same_question(first, second)
    with pytest.raises(InputError, match=f"results {files} are for the same encoder"):
        board(both)


def test_one_result_in_two_places_is_one() -> None:
    for result in RESULTS:
        both, _ = same_question(result, replace(result, date=7.0))
        assert len(board(both).tables[0].columns[0].values) == 1
    more = polarity(MINI, "sst2", 0.6, 0.45, 0.2, ks=(4, 16))
    rows = board(in_places([RESULTS[0], more])).tables[0].heads[2]
    assert rows == ("k", ["16", "4"]) or rows == ("k", ["4", "16"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"task": "task 0"}, "the task's digest is 'task 1' and 'task 0'"),
        ({"data": "data 0"}, "the data's digest is 'data cr' and 'data 0'"),
        ({"protocol": SKLEARN | {"version": 2}}, "the protocol's version is 1 and 2"),
        ({"protocol": SKLEARN | {"seed": 3}}, "the protocol's seed is None and 3"),
    ],
)
def test_what_was_made_differently_is_not_mixed(change: dict[str, Any], named: str) -> None:
    first, second = (plain(e, "cr", "transfer", 0.8, SKLEARN) for e in (MINI, PLAIN))
    second = replace(second, key=replace(second.key, **change))
    both, files = same_question(first, second)
    with pytest.raises(InputError, match=f"^cr: the results {files} were computed with .*{named}"):
        board(both)


def test_protocols_may_differ_in_k_and_in_where_they_ran() -> None:
    results = [
        polarity(MINI, "sst2", 0.6, 0.4, 0.2, ks=(4,)),
        polarity(PLAIN, "sst2", 0.7, 0.4, 0.2),
        plain(MINI, "cr", "transfer", 0.8, PAPERS),
        plain(PLAIN, "cr", "transfer", 0.7, PAPERS | {"device": "cuda"}),
    ]
    assert "| 80.00 |" in shown(results).replace("**", "")


def test_a_new_kind_of_task_has_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy(TaskSpec):
        heading = "Toys"
        measure = "fun"

    result = made(MINI, "yoyo", "toy", {"name": "play", "version": 1}, {})
    fun = ScoreKey("fun")
    result = replace(result, main_score=fun, scores={fun: Score.single(0.9, 8)})
    with pytest.raises(InputError, match=r"YOYO\.json: unknown kind 'toy'"):
        board(in_places([result]))
    monkeypatch.setitem(catalogue.KINDS, "toy", Toy)
    text = shown([result, *RESULTS])
    assert "| Toys (fun, play, 1 task) |" in text


# From disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for result in RESULTS:
        write_result(result, tmp_path / "board")
    return tmp_path / "board"


def test_the_board_file_gives_title_and_introduction(folder: Path) -> None:
    file = folder / "board.toml"
    file.write_text('title = "Polarity & <more>"\nintroduction = """\nMade *by hand*.\n"""\n')
    text = render(read_board(folder))
    title, finding, introduction, rest = squeezed(text).split("\n\n", 3)
    assert (title, introduction) == ("# Polarity &amp; &lt;more&gt;", "Made *by hand*.")
    assert "\n\n".join([finding, rest]) == shown(RESULTS).split("\n\n", 1)[1]
    assert text.endswith(".\n")
    assert render(read_board(folder)) == text
    assert render(read_board(folder, title="Mine")).startswith("# Mine\n\n**e5_x** has")
    file.write_text('details = "Made *elsewhere*."')
    text = render(read_board(folder))
    assert text.startswith("# Polarity leaderboard\n\n**e5_x** has the highest joint on sst2")
    assert text.endswith("\n\n## How it was made\n\nMade *elsewhere*.\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('titel = "x"', r"board\.toml: unknown key 'titel'; did you mean 'title'\?"),
        ("title =", r"board\.toml: not valid TOML"),
        ("title = 3", r"board\.toml: 'title' must be text, got 3"),
        ("measures = 0", r"board\.toml: 'measures' must be a table, got 0"),
        ("measures = 3", r"board\.toml: 'measures' must be a table, got 3"),
        ('measures.stss = "x"', r"'measures': unknown kind 'stss'; did you mean 'sts'\?"),
        ('measures.polarity = "P"', r"'measures': unknown kind 'polarity'"),
        (
            'measures.sts = "Spearman wmaen"',
            r"sts has no column 'Spearman wmaen'; choose one of Spear",
        ),
        ('protocols = ["paper"]', r"`protocols` paper: no results .*did you mean 'papers'"),
        (
            'models = ["e5"]',
            r"unknown key 'models'; did you mean .*'encoders'",
        ),
        ("measures.sts = 3", r"'measures\.sts' must be text, got 3"),
    ],
)
def test_a_wrong_board_file_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "board.toml").write_text(content)
    with pytest.raises(InputError, match=message):
        read_board(folder)


def test_where_nothing_ranks_rows_are_sorted_by_the_mean_of_what_there_is() -> None:
    own = [
        plain(encoder, task, "transfer", accuracy, SKLEARN)
        for encoder, scores in ((MINI, (0.7, 0.6)), (TUNED, (0.8, 0.9)), (PLAIN, (0.6, 0.8)))
        for task, accuracy in zip(("cr", "mr"), scores, strict=True)
    ]
    text = shown(own)
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert rows == ["| encoder", "| org/tuned", "| e5_x", "| org/all-mini"]
    assert "Rows are sorted by the mean of Transfer." in text


def test_the_board_file_chooses_among_the_protocols_of_a_kind(folder: Path) -> None:
    whole = render(read_board(folder))
    (folder / "board.toml").write_text('protocols = ["papers"]\n')
    text = render(read_board(folder))
    columns = next(line for line in text.splitlines() if line.startswith("| ")).split("|")
    left_out = next(line for line in whole.splitlines() if line.startswith("| ")).split("|")
    (only,) = {title.strip() for title in left_out} - {title.strip() for title in columns}
    assert "senteval-sklearn" in only
    assert any("papers" in title for title in columns)
    assert any("STS" in title for title in columns), "of which it says nothing"
    assert "papers" not in render(read_board(folder, models=["e5_x"])), "it has none of them"


def test_the_board_file_says_what_is_shown_of_a_kind(tmp_path: Path) -> None:
    """In place of the main score; an encoder without it has none."""
    other = {ScoreKey("spearman", part="wmean"): Score.single(0.25, 8)}
    results = [plain(encoder, "sts12", "sts", 0.5, {"name": "sts"}) for encoder in (MINI, PLAIN)]
    both = replace(results[0], scores={**results[0].scores, **other})
    for result in (both, results[1]):
        write_result(result, tmp_path)
    assert "**50.00**" in render(read_board(tmp_path))
    (tmp_path / "board.toml").write_text('measures.sts = "Spearman wmean"\n')
    text = squeezed(render(read_board(tmp_path)))
    assert "## STS (Spearman wmean, sts, 1 task)" in text
    assert "| org/all-mini | 25.00 |" in text
    assert "| e5_x | - |" in text
    assert "50.00" not in text


def test_results_with_a_limit_stay_out(folder: Path, tmp_path: Path) -> None:
    before = render(read_board(folder))
    quick = replace(polarity(MINI, "sst2", 0.99, 0.99, 0.99), experiment="limit_5", limit=5)
    write_result(quick, folder)
    assert render(read_board(folder)) == before
    write_result(quick, tmp_path / "quick")
    with pytest.raises(
        InputError, match=r"quick: contains no complete results; .*run` without a `limit`"
    ):
        read_board(tmp_path / "quick")


@pytest.mark.parametrize("model", ["org/tuned", "tuned", TUNED.digest[:8]])
def test_tasks_and_models_can_be_chosen(tmp_path: Path, model: str) -> None:
    for encoder, task in itertools.product((MINI, TUNED), ("sst2", "irony")):
        write_result(polarity(encoder, task, 0.6, 0.4, 0.2), tmp_path)
    text = squeezed(render(read_board(tmp_path, tasks=["irony"], models=[model])))
    assert re.findall("^## (.+)$", text, flags=re.M) == ["Summary: irony", "Notes"]
    assert encoders_of(text) == ["org/tuned"]
    for asked, message in (
        ({"tasks": ["iron"]}, r"`tasks` iron: no results with this name; did you mean 'irony'"),
        ({"models": ["tund"]}, r"`models` tund: no results with this name; did you mean 'tuned'"),
    ):
        with pytest.raises(InputError, match=message):
            read_board(tmp_path, **asked)  # type: ignore[arg-type]


def test_what_lacks_its_base_is_shown_only_where_nothing_else_tells_of_the_encoder() -> None:
    gone = EncoderId("org/all-mini (not available)", "absent 1")
    assert gone.is_absent
    assert not MINI.is_absent
    lacking = [
        polarity(TUNED, "sst2", 0.68, math.nan, math.nan, reference=gone, ks=(4, 16)),
        polarity(TUNED, "irony", 0.6, math.nan, math.nan, reference=gone),
    ]
    rows = board(in_places(lacking)).tables[0].heads
    assert rows[1][1] == ["org/all-mini (not available)"] * 2
    for other in (MINI, None):
        again = polarity(TUNED, "sst2", 0.68, 0.9, 0.3, reference=other)
        shown = board(in_places([*lacking, again])).tables
        told = {
            table.heading: set(zip(table.heads[1][1], table.heads[2][1], strict=True))
            for table in shown
            if table.heading in {"sst2", "irony"}
        }
        assert told == {
            "sst2": {("org/all-mini" if other else "itself", "16"), (gone.name, "4")},
            "irony": {(gone.name, "16")},
        }


def test_the_licence_of_a_data_set_of_mteb_is_on_the_board() -> None:
    result = placed(EncoderId("one", "1"), "mteb:Films", 0.7, 0.4)
    facts = {"mteb": "Films", "id": "org/films", "revision": "1", "licence": "cc-by-nc-4.0"}
    shown = replace(result, data_set=facts | {"restriction": "no commercial use"})
    (note,) = (note for note in board([shown]).notes if note.startswith("Data sets of mteb"))
    assert note.endswith(": mteb:Films (eng-Latn, cc-by-nc-4.0, no commercial use).")
    assert not [note for note in board([result]).notes if note.startswith("Data sets of mteb")]
