"""The committed leaderboards are what their committed results render to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polarity_bench.boards.board import read_board
from polarity_bench.boards.figures import figure_svg
from polarity_bench.boards.markdown import render
from polarity_bench.kinds import load_tasks
from polarity_bench.results import read_results
from polarity_bench.sweeps.plan import FILE
from polarity_bench.sweeps.scored import read_sweep
from polarity_bench.sweeps.tables import sweep_board
from polarity_bench.training.cross_validation.table import read_board as read_cross_validated

LEADERBOARDS = Path(__file__).parent.parent / "leaderboards"
SWEEPS = sorted(file.parent for file in LEADERBOARDS.glob(f"*/{FILE}"))
BOARDS = [
    file
    for file in sorted(LEADERBOARDS.glob("*/board.toml"))
    if (file.parent / "results").is_dir() and file.parent not in SWEEPS
]


def test_there_is_a_board() -> None:
    assert BOARDS


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.parent.name)
def test_a_board_renders_to_its_committed_bytes(file: Path) -> None:
    rendered = render(read_board(file.parent)).encode()
    assert rendered == (file.parent / "README.md").read_bytes()


@pytest.mark.parametrize("folder", SWEEPS, ids=lambda folder: folder.name)
def test_a_sweep_renders_to_its_committed_bytes(folder: Path) -> None:
    assert render(sweep_board(read_sweep(folder))).encode() == (folder / "README.md").read_bytes()


def test_the_readme_shows_the_means_of_the_board() -> None:
    root = Path(__file__).parent.parent
    shown = (root / "README.md").read_text().split("<!-- board -->\n")[1]
    table = shown.split("\n<!-- /board -->")[0]
    assert table in (root / "leaderboards" / "polarity" / "README.md").read_text()


RESULTS = [*(file.parent for file in BOARDS), *SWEEPS]


@pytest.mark.parametrize("folder", RESULTS, ids=lambda folder: folder.name)
def test_its_results_were_made_from_the_tasks_as_they_are(folder: Path) -> None:
    tasks = load_tasks()
    for path, result in read_results(folder):
        assert result.key.task == tasks[result.task].digest, path
        assert result.version == tasks[result.task].version, path


CROSS_VALIDATED = [LEADERBOARDS / "fewshot", LEADERBOARDS / "triple-entropy"]


def test_there_is_a_board_of_cross_validation() -> None:
    assert CROSS_VALIDATED


@pytest.mark.parametrize("folder", CROSS_VALIDATED, ids=lambda folder: folder.name)
def test_a_board_of_cross_validation_renders_to_its_committed_bytes(folder: Path) -> None:
    assert render(read_cross_validated(folder)).encode() == (folder / "README.md").read_bytes()


def test_the_figure_of_a_board_is_what_its_results_draw() -> None:
    pytest.importorskip("matplotlib")
    folder = Path(__file__).parent.parent / "leaderboards" / "polarity-axis"
    drawn = figure_svg(read_board(folder, "uniform")).decode()
    committed = (folder / "figure.svg").read_text(encoding="utf-8")
    marks = re.compile(
        r"<text[^>]*>([^<]*)</text>|xlink:href=\"#\w+\" x=\"([\d.]+)\" y=\"([\d.]+)\""
    )
    assert len(marks.findall(committed)) > 50
    assert marks.findall(drawn) == marks.findall(committed)  # whatever version of matplotlib drew
