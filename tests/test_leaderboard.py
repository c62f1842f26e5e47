"""Tables rendered from stored results: byte-stable, sorted, escaped."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from polarity_bench.data.load import load_polarity
from polarity_bench.spec import PolaritySpec, read_task
from standins import HashEncoder, write_task

from polarity_bench.boards.board import board, render_board
from polarity_bench.boards.markdown import Column, escape, percent, table
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.evaluation import evaluate
from polarity_bench.results import Result, write_result
from polarity_bench.types import Score, ScoreKey


def made(task_dir: Path, name: str = "hash", task: str = "mini") -> Result:
    spec = read_task(task_dir / f"{task}.toml")
    assert isinstance(spec, PolaritySpec)
    return evaluate(HashEncoder(name), load_polarity(spec, DataAccess(offline=True)))


def with_scores(result: Result, **scores: float) -> Result:
    changed = {ScoreKey.parse(name): Score.single(value, 1) for name, value in scores.items()}
    return replace(result, scores={**result.scores, **changed})


def first_cells(text: str) -> list[str]:
    rows = re.findall(r"^\| (.*?) +\|", text, flags=re.M)
    return [cell for cell in rows if cell != "encoder"]


# Markdown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "12.35"),
        (1.0, "100.00"),
        (-0.5, "-50.00"),
        (-0.00001, "0.00"),
        (math.nan, "-"),
        (None, "-"),
    ],
)
def test_percent(value: float | None, shown: str) -> None:
    assert percent(value) == shown


def test_the_best_as_shown_is_bold_ties_included() -> None:
    text = table([("x", ["a", "b", "c"])], [Column("P", [0.50001, 0.50002, None])])
    assert text.count("**50.00**") == 2
    assert "**" not in table([("x", ["a"])], [Column("P", [0.5])])
    assert "**" not in table([("x", ["a", "b"])], [Column("P", [0.5, 0.6], best=False)])


@pytest.mark.parametrize(
    "name", ["a|b", "<script>alert(1)</script>", "*x*", "`x`", "a\nb", "[x](y)"]
)
def test_names_cannot_break_the_table(name: str) -> None:
    text = table([("encoder", [name, "plain"])], [Column("P", [0.1, 0.2])])
    assert len(text.splitlines()) == 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines()} == {3}
    assert "<" not in text
    assert re.sub(r"\\(.)", r"\1", escape("a|*b*")) == "a|*b*"


# The board


def test_a_board_is_the_same_bytes_whatever_the_order(task_dir: Path) -> None:
    write_task(task_dir, "second", k=3)
    results = [made(task_dir, name, task) for name in "abc" for task in ("mini", "second")]
    assert board(results) == board(results[::-1]) == board(sorted(results, key=lambda r: r.date))


def test_rows_are_sorted_by_the_joint_score_the_undefined_last(task_dir: Path) -> None:
    joints = {"nan": math.nan, "low": 0.1, "high": 0.9, "zero": 0.0, "mid": 0.5, "none": math.nan}
    results = [with_scores(made(task_dir, name), joint_at_4=j) for name, j in joints.items()]
    expected = ["high", "mid", "low", "zero", "nan", "none"]
    for order in (results, results[::-1]):
        assert first_cells(board(order))[:6] == expected


def test_the_best_joint_score_is_bold(task_dir: Path) -> None:
    results = [
        with_scores(made(task_dir, name), joint_at_4=joint)
        for name, joint in (("a", 0.2), ("b", 0.4))
    ]
    assert "**40.00**" in board(results)
    assert "**20.00**" not in board(results)


def test_a_mean_stands_only_where_every_task_is(task_dir: Path) -> None:
    write_task(task_dir, "second")
    results = [made(task_dir, "a"), made(task_dir, "a", "second"), made(task_dir, "b")]
    text = board(
        [with_scores(r, joint_at_4=j) for r, j in zip(results, (0.2, 0.4, 0.9), strict=True)]
    )
    means = text[: text.index("## mini")]
    assert "30.00" in means
    (row,) = (line for line in means.splitlines() if line.startswith("| b "))
    assert "90.00" not in row


def test_names_are_escaped_and_told_apart_by_digest(task_dir: Path) -> None:
    result = made(task_dir, "x")
    odd = [
        replace(
            result, key=replace(result.key, encoder=replace(result.key.encoder, name=n, weights=w))
        )
        for n, w in (("a|<b>", "1"), ("a|<b>", "2"))
    ]
    text = board(odd)
    assert "<b>" not in text
    for each in odd:
        assert f"a\\|&lt;b&gt; @{each.key.encoder.digest[:8]}" in text


def test_results_of_limited_runs_stay_out(task_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = with_scores(made(task_dir), joint_at_4=0.25)
    quick = replace(with_scores(result, joint_at_4=0.75), experiment="limit_6", limit=6)
    write_result(quick, out)
    with pytest.raises(InputError, match="holds no results"):
        render_board(out)
    write_result(result, out)
    text = render_board(out)
    assert "25.00" in text
    assert "75.00" not in text


def test_a_board_is_rendered_from_disk_alike_twice(task_dir: Path, tmp_path: Path) -> None:
    for name in "ab":
        write_result(made(task_dir, name), tmp_path / "out")
    first = render_board(tmp_path / "out", title="A | <title>")
    assert first == render_board(tmp_path / "out", title="A | <title>")
    assert first.startswith("# A \\| &lt;title&gt;\n\n## ")
    assert first.endswith(".\n")


def test_weightings_give_different_boards(task_dir: Path) -> None:
    result = with_scores(made(task_dir), joint_at_4=0.25, joint_uniform_at_4=0.75)
    assert "25.00" in board([result])
    assert "75.00" in board([result], "uniform")
    assert "ranks weighted uniformly" in board([result], "uniform")
