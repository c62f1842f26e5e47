"""A board of made-up results against a golden one, and what it refuses."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polarity_bench.boards.board import board, render_board
from polarity_bench.errors import InputError
from polarity_bench.results import Result, ResultKey, write_result
from polarity_bench.types import EncoderId, Score, ScoreKey

MINI = EncoderId("org/all-mini", "1")
PLAIN, PROMPTED = EncoderId("e5_x", "2"), EncoderId("e5_x", "2", prompt="query: ")
TWIN_A, TWIN_B = EncoderId("my|run", "3"), EncoderId("my|run", "4")
MAIN = {"transfer": "accuracy", "relatedness": "pearson", "sts": "spearman_all"}
SKLEARN = {"name": "senteval-sklearn", "version": 1, "kfold": 10}
PAPERS = {"name": "senteval-torch", "version": 1, "preset": "papers", "kfold": 3}
STS = {"name": "sts-cosine", "version": 1}


def made(
    encoder: EncoderId,
    task: str,
    kind: str,
    protocol: Mapping[str, Any],
    scores: Mapping[str, float],
    *,
    reference: EncoderId | None = None,
    experiment: str = "",
    version: str = "1",
) -> Result:
    return Result(
        task=task,
        kind=kind,
        result_name=task.upper(),
        version=1,
        languages=("eng-Latn",),
        main_score=ScoreKey.parse(MAIN.get(kind, "joint_at_16")),
        key=ResultKey(f"task {version}", f"data {task}", encoder, reference, protocol),
        scores={ScoreKey.parse(name): Score.single(v, 1) for name, v in scores.items()},
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
) -> Result:
    scores: dict[str, float] = {}
    for weighting in ("", "_uniform"):
        scores |= {
            f"polarity{weighting}_at_16": p,
            f"similarity{weighting}_at_16": s,
            f"retention{weighting}_at_16": retention,
            f"joint{weighting}_at_16": joint,
            f"knn_accuracy{weighting}_at_16": p + 0.1,
        }
    protocol = {"name": "polarity-retrieval", "version": 1, "k": [16]}
    experiment = "reference_x" if reference else ""
    return made(
        encoder, task, "polarity", protocol, scores, reference=reference, experiment=experiment
    )


def plain(
    encoder: EncoderId,
    task: str,
    kind: str,
    score: float,
    protocol: Mapping[str, Any],
    experiment: str = "",
) -> Result:
    return made(encoder, task, kind, protocol, {MAIN[kind]: score}, experiment=experiment)


RESULTS = [
    polarity(MINI, "sst2", 0.6, 0.45, 0.2),
    polarity(MINI, "irony", 0.55, 0.5, 0.1),
    polarity(PLAIN, "sst2", 0.7, 0.85, 0.4, reference=MINI, retention=0.9),
    polarity(PLAIN, "irony", 0.65, 0.8, 0.3, reference=MINI, retention=0.8),
    polarity(PROMPTED, "sst2", 0.72, 0.6, 0.35),
    polarity(TWIN_A, "sst2", 0.5, 0.3, math.nan),
    polarity(TWIN_A, "irony", 0.5, 0.3, 0.05),
    plain(MINI, "cr", "transfer", 0.8, SKLEARN),
    plain(MINI, "sst5", "transfer", 0.4, SKLEARN),
    plain(PLAIN, "cr", "transfer", 0.85, SKLEARN),
    plain(TWIN_B, "cr", "transfer", 0.75, SKLEARN),
    plain(TWIN_B, "sst5", "transfer", 0.5, SKLEARN),
    plain(MINI, "cr", "transfer", 0.78, PAPERS, "protocol_papers"),
    plain(MINI, "sick-r", "relatedness", 0.7, {"name": "senteval-relatedness", "version": 1}),
    plain(MINI, "sts12", "sts", 0.7237, STS),
    plain(PLAIN, "sts12", "sts", 0.6, STS),
]


def squeezed(text: str) -> str:
    """Without the padding of columns and the rules below their heads."""
    lines = [line for line in text.splitlines() if not re.fullmatch(r"[|:-]+", line)]
    return re.sub(r" +", " ", "\n".join(lines))


def digest(encoder: EncoderId) -> str:
    return encoder.digest[:8]


GOLDEN = f"""\
## Means over 2 polarity tasks

| encoder | reference | k | P | S | retention | joint | Transfer (accuracy, senteval-sklearn, \
k = 10, 2 tasks) | Transfer (accuracy, senteval-torch papers, k = 3, 1 task) | Supervised \
relatedness (Pearson, senteval-relatedness, 1 task) | STS (Spearman all, sts-cosine, 1 task) |
| e5_x | org/all-mini | 16 | **67.50** | 82.50 | 85.00 | **35.00** | - | - | - | 60.00 |
| org/all-mini | itself | 16 | 57.50 | 47.50 | 50.00 | 15.00 | 60.00 | 78.00 | 70.00 | **72.37** |
| e5_x (prompt 'query: ') | itself | 16 | - | - | - | - | - | - | - | - |
| my\\|run @{digest(TWIN_A)} | itself | 16 | 50.00 | 30.00 | 50.00 | - | - | - | - | - |
| my\\|run @{digest(TWIN_B)} | itself | - | - | - | - | - | **62.50** | - | - | - |

## Transfer (accuracy, senteval-sklearn, k = 10, 2 tasks)

| encoder | cr | sst5 | mean |
| e5_x | **85.00** | - | - |
| org/all-mini | 80.00 | 40.00 | 60.00 |
| my\\|run @{digest(TWIN_B)} | 75.00 | **50.00** | **62.50** |

## Transfer (accuracy, senteval-torch papers, k = 3, 1 task)

| encoder | cr | mean |
| org/all-mini | 78.00 | 78.00 |

## Supervised relatedness (Pearson, senteval-relatedness, 1 task)

| encoder | sick-r | mean |
| org/all-mini | 70.00 | 70.00 |

## STS (Spearman all, sts-cosine, 1 task)

| encoder | sts12 | mean |
| e5_x | 60.00 | 60.00 |
| org/all-mini | **72.37** | **72.37** |

## irony

| encoder | reference | k | P | S | retention | joint | kNN accuracy |
| e5_x | org/all-mini | 16 | **65.00** | 80.00 | 80.00 | **30.00** | **75.00** |
| org/all-mini | itself | 16 | 55.00 | 50.00 | 50.00 | 10.00 | 65.00 |
| my\\|run @{digest(TWIN_A)} | itself | 16 | 50.00 | 30.00 | 50.00 | 5.00 | 60.00 |

## sst2

| encoder | reference | k | P | S | retention | joint | kNN accuracy |
| e5_x | org/all-mini | 16 | 70.00 | 85.00 | 90.00 | **40.00** | 80.00 |
| org/all-mini | itself | 16 | 60.00 | 45.00 | 50.00 | 20.00 | 70.00 |
| e5_x (prompt 'query: ') | itself | 16 | **72.00** | 60.00 | 50.00 | 35.00 | **82.00** |
| my\\|run @{digest(TWIN_A)} | itself | 16 | 50.00 | 30.00 | 50.00 | - | 60.00 |
"""


def test_a_board_is_the_golden_one() -> None:
    text = squeezed(board(RESULTS))
    tables, legend = text.split("\n\nAll numbers times 100, ranks weighted linearly.")
    assert tables == GOLDEN.rstrip("\n")
    assert "comparable only where the reference is the same" in legend


def test_the_order_of_results_moves_no_byte() -> None:
    expected = board(RESULTS)
    for start in range(len(RESULTS)):
        assert board([*RESULTS[start:], *RESULTS[:start]]) == expected
    assert board(RESULTS[::-1]) == expected


def test_every_table_has_whole_rows() -> None:
    for block in board(RESULTS).split("\n\n"):
        if block.startswith("|"):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1


def test_s_is_bold_only_under_one_common_reference() -> None:
    other = EncoderId("base", "9")
    common = [
        polarity(MINI, "sst2", 0.6, 0.45, 0.2, reference=other),
        polarity(PLAIN, "sst2", 0.5, 0.85, 0.1, reference=other),
    ]
    assert board(common).count("**85.00**") == 2  # in the means and in the task's own table
    alone = [replace(r, key=replace(r.key, reference=None)) for r in common]
    assert "**85.00**" not in board(alone)
    mixed = [common[0], alone[1]]
    assert "**85.00**" not in board(mixed)


def test_two_numbers_of_folds_are_two_columns() -> None:
    three = {**SKLEARN, "kfold": 3}
    results = [
        plain(MINI, "cr", "transfer", 0.8, SKLEARN),
        plain(MINI, "cr", "transfer", 0.7, three, "protocol_k3"),
    ]
    text = squeezed(board(results))
    assert "| 80.00 | 70.00 |" in text
    assert "senteval-sklearn, k = 10, 1 task)" in text
    assert "senteval-sklearn, k = 3, 1 task)" in text


def test_two_versions_of_a_task_are_not_mixed() -> None:
    old = replace(plain(PLAIN, "cr", "transfer", 0.8, SKLEARN))
    old = replace(old, key=replace(old.key, task="task 0"))
    with pytest.raises(InputError, match=r"^cr: the results of .* different versions of the task"):
        board([plain(MINI, "cr", "transfer", 0.8, SKLEARN), old])


def test_encoders_without_polarity_have_a_board_too() -> None:
    text = squeezed(board([r for r in RESULTS if r.kind != "polarity"]))
    assert text.startswith("## Means\n\n| encoder | reference | k | Transfer")
    assert "| my\\|run | itself | - | **62.50** | - | - | - |" in text


# From disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for result in RESULTS:
        write_result(result, tmp_path / "board")
    return tmp_path / "board"


def test_the_board_file_gives_heading_and_introduction(folder: Path) -> None:
    file = folder / "board.toml"
    file.write_text('title = "Polarity & <more>"\nintroduction = """\nMade *by hand*.\n"""\n')
    text = render_board(folder)
    assert text == f"# Polarity &amp; &lt;more&gt;\n\nMade *by hand*.\n\n{board(RESULTS)}"
    assert render_board(folder) == text
    assert render_board(folder, title="Mine").startswith("# Mine\n\nMade *by hand*.")
    file.write_text("")
    assert render_board(folder).startswith("# Polarity leaderboard\n\n## Means")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('titel = "x"', r"board\.toml: unknown key 'titel'; did you mean 'title'\?"),
        ("title =", r"board\.toml: not a TOML file"),
        ("title = 3", r"board\.toml: 'title' must be text, got 3"),
    ],
)
def test_a_wrong_board_file_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "board.toml").write_text(content)
    with pytest.raises(InputError, match=message):
        render_board(folder)


def test_runs_with_a_limit_stay_out(folder: Path) -> None:
    before = render_board(folder)
    quick = polarity(MINI, "sst2", 0.99, 0.99, 0.99)
    write_result(replace(quick, experiment="limit_5", limit=5), folder)
    assert render_board(folder) == before


def test_every_order_of_ties_is_one_order() -> None:
    tied = [polarity(EncoderId("same", str(i)), "sst2", 0.5, 0.5, 0.5) for i in range(3)]
    assert len({board(order) for order in itertools.permutations(tied)}) == 1
