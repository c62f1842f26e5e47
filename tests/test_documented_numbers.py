"""Tables of README.md and docs/ show numbers of boards, by the raw files of these."""

from __future__ import annotations

import tomllib
from pathlib import Path
from statistics import fmean

import pytest
from traced.raw import Raw, label, read_raw
from traced.shown import Grid, of_markdown

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
OF_CONTRAST = {"all-MiniLM-L6-v2": MINILM, "`tfidf` (bag of words)": "tfidf"}
OF_CONTRAST |= {"`random` vectors": "random"}
"""The constant vector has no result: chance is its score."""
OF_THE_AXIS = {
    "the base": [MINILM],
    "`--stretch 5`": ["stretch-5"],
    "`--probe fisher`": ["fisher"],
    "`--probe mean-difference`": ["mean-difference"],
    "`--labels-from cr`": ["linear-from-cr"],
    "`--labels 2000`, mean of three seeds": [f"linear-2000-{seed}" for seed in range(3)],
    "`linear`": ["linear"],
    "`tuned`, 3 epochs, rate 1e-4, bfloat16, mean of three seeds": [
        f"axis-tuned-{seed}" for seed in range(3)
    ],
    "`shared`, 2 epochs, rate 1e-4, bfloat16, mean of three seeds": [
        f"axis-shared-{seed}" for seed in range(3)
    ],
}


def raw_of(board: str) -> list[Raw]:
    return read_raw(ROOT / "leaderboards" / board)


def table_of(text: str, *titles: str) -> Grid:
    """The table of a page whose columns begin with these."""
    grids = of_markdown(text)
    (found,) = [grid for grid in grids if [*grid.titles[: len(titles)]] == [*titles]]
    return found


def percent(raw: list[Raw], task: str, labels: list[str], score: str) -> str:
    """The mean of a score over encoders, each of which has one result of the task."""
    found = [r.score(score) for r in raw if r.task == task and label(r.made["encoder"]) in labels]
    assert len(found) == len(labels), (task, labels)
    return f"{100 * fmean(found):.2f}"


def test_contrast_in_the_readme_is_that_of_the_board() -> None:
    raw = raw_of("polarity")
    grid = table_of(README, "encoder", "P", "topic", "minimal pairs")
    names = {"P": "polarity_at_16", "topic": "topic_at_16", "minimal pairs": "pairwise_accuracy"}
    assert OF_CONTRAST.keys() < {row[0] for row in grid.rows}
    for name, *shown in grid.rows:
        for title, text in zip(grid.titles[1:], shown, strict=True):
            score = names.get(title, f"polarity_of_{title.removeprefix('P, ')}_at_16")
            if name in OF_CONTRAST:
                assert text == percent(raw, "contrast", [OF_CONTRAST[name]], score), (name, title)


def test_the_papers_tasks_in_the_readme_are_those_of_the_board_and_of_the_paper() -> None:
    raw = raw_of("polarity")
    expected = (ROOT / "polarity_bench/expected/margins-table-1.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(expected)["rows"]
    cited = {row["task"]: row["scores"] for row in rows if row["encoder"] == "all-MiniLM-L6-v2"}
    grid = table_of(README, "task", "P", "S", "P uniform", "S uniform")
    assert len(grid.rows) == len(cited)
    for task, *shown in grid.rows:
        names = [f"{m}{w}_at_16" for w in ("", "_uniform") for m in ("polarity", "similarity")]
        assert shown[:4] == [percent(raw, task, [MINILM], name) for name in names]
        assert shown[4:] == [str(cited[task][name]) for name in names[2:]]


def check_the_axis(text: str) -> None:
    raw = raw_of("axis")
    grid = table_of(text, "", "strength", "P", "S", "P, unseen sources")
    names = [f"{metric}_uniform_at_16" for metric in ("polarity", "similarity")]
    said, n_held = "", 0
    for name, strength, *shown in grid.rows:
        said = name or said
        if said in OF_THE_AXIS:
            dial = f" (strength {strength})" if strength else ""
            labels = [f"{each}{dial}" for each in OF_THE_AXIS[said]]
            tasks = ("sst2", "sst2-unseen")
            assert shown == [percent(raw, task, labels, score) for task in tasks for score in names]
            n_held += 1
    assert n_held == len(grid.rows) - 3, "gold labels and the papers' two are from elsewhere"


def test_what_was_found_of_the_axis_is_that_of_the_board() -> None:
    check_the_axis(TRAINING)


def test_a_wrong_number_is_told() -> None:
    with pytest.raises(AssertionError, match=r"89\.58"):
        check_the_axis(TRAINING.replace("| 89.57 |", "| 89.58 |"))
