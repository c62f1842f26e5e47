"""The committed leaderboards are what their committed results render to."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from polarity_bench.boards.board_folder import OpenBoard, board_folders, open_board
from polarity_bench.boards.build import check
from polarity_bench.boards.index_page import front_page
from polarity_bench.results.result_files import read_results
from polarity_bench.tasks.catalogue import load_tasks

ROOT = Path(__file__).parent.parent
LEADERBOARDS = ROOT / "leaderboards"
BOARDS = board_folders([], LEADERBOARDS)


@cache
def opened(folder: Path) -> OpenBoard:
    return open_board(folder)


@pytest.mark.parametrize("folder", BOARDS, ids=lambda folder: folder.name)
def test_a_board_renders_to_its_committed_bytes(folder: Path) -> None:
    """Tables of all, and where the packages are as in constraints.txt, page and figures too."""
    assert check(opened(folder), with_report=True) == {}


def test_the_front_page_is_what_it_renders_to() -> None:
    page = front_page(LEADERBOARDS, [opened(folder) for folder in BOARDS])
    assert page == (LEADERBOARDS / "README.md").read_bytes()


@pytest.mark.parametrize("folder", BOARDS, ids=lambda folder: folder.name)
def test_its_results_were_made_from_the_tasks_as_they_are(folder: Path) -> None:
    tasks = load_tasks()
    for result in read_results(folder):
        assert result.key.task == tasks[result.task].digest, result.path
        assert result.version == tasks[result.task].version, result.path
