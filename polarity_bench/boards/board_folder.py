"""Board folders, which contain results, a sweep or cross-validations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from polarity_bench.boards.board import FILE, board, find_board
from polarity_bench.boards.fewshot_tables import read_board as read_cross_validated
from polarity_bench.boards.sweep_tables import read_sweep, sweep_board
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.errors import InputError, nearest
from polarity_bench.render.table import Board
from polarity_bench.results.packed_results import PACKED, result_paths
from polarity_bench.scores import Weighting
from polarity_bench.sweeps.plan import FILE as PLAN

Kind = Literal["results", "sweep", "cross-validation"]
LEADERBOARDS = Path("leaderboards")
_EMPTY = f"create a {FILE} in the board's folder; the file may be empty"


@dataclass(frozen=True)
class OpenBoard:
    """A board and the folder from which it was read.

    Attributes:
        standings: Ranks and ties of encoders; None unless the board is a board of results.
        weighting: Weighting of the ranks; None for cross-validations.
    """

    folder: Path
    kind: Kind
    board: Board
    standings: Standings | None = None
    weighting: Weighting | None = None


def kind_of(folder: Path) -> Kind:
    """Return the kind of board in a folder.

    Raises:
        InputError: If the folder contains no results, sweep or cross-validations.
    """
    if (folder / PLAN).is_file():
        return "sweep"
    if result_paths(folder):
        return "results"
    if holds_folds(folder):
        return "cross-validation"
    raise InputError(
        f"{folder}: the board has no results; add results with `leaderboard add`, or run "
        f"`polarity-bench run` with the output folder {folder / 'results'}"
    )


def holds_folds(folder: Path) -> bool:
    """Return whether a folder contains scored folds of a cross-validation."""
    return any(file.name != PACKED for file in folder.glob("*/*.jsonl"))


def open_board(folder: Path, weighting: Weighting | None = None) -> OpenBoard:
    """Read the board in a folder.

    Args:
        folder: Folder of the board.
        weighting: Weighting of the ranks; overrides `board.toml`. Cross-validations ignore it.

    Raises:
        InputError: If the folder contains no results, or a file of the board has an error.
    """
    kind = kind_of(folder)
    if kind == "sweep":
        scores = read_sweep(folder, weighting)
        return OpenBoard(folder, kind, sweep_board(scores), weighting=scores.weighting)
    if kind == "cross-validation":
        return OpenBoard(folder, kind, read_cross_validated(folder))
    parts = find_board(folder, weighting)
    return OpenBoard(folder, kind, board(parts), parts.standings, parts.config.weighting)


def board_folders(names: list[str], root: Path = LEADERBOARDS) -> list[Path]:
    """Return the folders of boards.

    Args:
        names: Paths of board folders, or names of boards in the root folder. An empty list selects
            all boards in the root folder.
        root: Folder that contains the boards.

    Raises:
        InputError: If the root folder is a board, or a board is not found. The message suggests
            boards with similar names.
    """
    known = sorted(file.parent for file in root.glob(f"*/{FILE}"))
    if not known and (root / FILE).is_file():
        raise InputError(
            f"{root}: `root` must be a folder that contains boards, got the folder of one board; "
            f"set `root` to {root.parent}, or give {root} as the board"
        )
    if not names:
        if not known:
            raise InputError(f"{root}: no folder below it contains a {FILE}; {_EMPTY}")
        return known
    matches = []
    for name in names:
        folders = [folder for folder in (Path(name), root / name) if folder.is_dir()]
        folder = next((each for each in folders if (each / FILE).is_file()), None)
        if folder is None and folders:
            raise InputError(f"{folders[0]}: not a board: the folder has no {FILE}; {_EMPTY}")
        if folder is None:
            near = nearest(name, [path.name for path in known])
            raise InputError(f"{name}: no folder of this name contains a {FILE}{near}")
        matches.append(folder)
    return matches
