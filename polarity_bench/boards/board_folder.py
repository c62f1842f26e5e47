"""Board folders, which contain results, a sweep or cross-validations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from polarity_bench.boards.board import board, find_board
from polarity_bench.boards.config import FILE
from polarity_bench.boards.fewshot_tables import read_board as read_cross_validated
from polarity_bench.boards.run_report import board_as_json
from polarity_bench.boards.sweep_tables import SweepScores, read_sweep, sweep_as_json, sweep_board
from polarity_bench.compare.encoder_ranks import Standings
from polarity_bench.errors import InputError, nearest
from polarity_bench.render.table import Board
from polarity_bench.results.result_files import CROSS_VALIDATION, read_results
from polarity_bench.sweeps.plan import FILE as PLAN

Kind = Literal["results", "sweep", "cross-validation"]
_EMPTY = f"create a {FILE} in the board's folder; the file may be empty"


@dataclass(frozen=True)
class OpenBoard:
    """A board and the folder from which it was read.

    Attributes:
        standings: Ranks and ties of encoders; None unless the board is a board of results.
        weighting: Weighting of the ranks; None for cross-validations.
        sweep: Scores of a sweep; None for other boards.
    """

    folder: Path
    kind: Kind
    board: Board
    standings: Standings | None = None
    weighting: str | None = None
    sweep: SweepScores | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the scores as JSON values: of a sweep by training run, else by table."""
        return sweep_as_json(self.sweep) if self.sweep else board_as_json(self.board)


def kind_of(folder: Path) -> Kind:
    """Return the kind of board in a folder.

    Raises:
        InputError: If the folder contains no results, sweep or cross-validations.
    """
    if (folder / PLAN).is_file():
        return "sweep"
    are_of_folds = (r.kind == CROSS_VALIDATION for r in read_results(folder, of_folds=None))
    if (first := next(are_of_folds, None)) is not None:
        return CROSS_VALIDATION if first and all(are_of_folds) else "results"
    raise InputError(
        f"{folder}: the board has no results; add results with `leaderboard add`, or run "
        f"`polarity-bench run` with the output folder {folder / 'results'}"
    )


def open_board(
    folder: Path,
    weighting: str | None = None,
    *,
    title: str | None = None,
    tasks: Sequence[str] = (),
    models: Sequence[str] = (),
    where: Sequence[str] = (),
) -> OpenBoard:
    """Read the board in a folder.

    Args:
        folder: Folder of the board.
        weighting: Weighting of the ranks; overrides `board.toml`. Cross-validations ignore it.
        title: Title of the board; overrides `board.toml`.
        tasks: Tasks to show, of a board of results; overrides `board.toml`.
        models: Encoders to show, of a board of results; overrides `board.toml`.
        where: Settings of the training runs to show, of a sweep.

    Raises:
        InputError: If the folder contains no results, a file of the board has an error, or boards
            of this kind have no such selection.
    """
    kind = kind_of(folder)
    if where and kind != "sweep":
        raise InputError(
            f"`where` {where[0]}: {folder} is not the folder of a sweep, because it has no {PLAN}"
        )
    for name, chosen in {"tasks": tasks, "models": models}.items() if kind != "results" else ():
        if chosen:
            raise InputError(
                f"`{name}` {', '.join(chosen)}: only boards of results have this selection; leave "
                "it out, select the runs of a sweep with `where`, or give a folder of results"
            )
    if kind == "sweep":
        sweep = read_sweep(folder, weighting, where, title)
        return OpenBoard(folder, kind, sweep_board(sweep), None, sweep.config.weighting, sweep)
    if kind == CROSS_VALIDATION:
        found = read_cross_validated(folder)
        return OpenBoard(folder, kind, replace(found, title=title) if title else found)
    parts = find_board(folder, weighting, title=title, tasks=tasks, models=models)
    return OpenBoard(folder, kind, board(parts), parts.standings, parts.config.weighting)


def board_folders(names: list[str], root: Path) -> list[Path]:
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
