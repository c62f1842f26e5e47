"""`polarity-bench leaderboard`: lay stored results side by side, and publish boards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarity_bench.cli.inputs import check_file, split_names
from polarity_bench.cli.options import AsJson, Commands, OutputFlags, by_default
from polarity_bench.cli.output import (
    json_text,
    print_json,
    print_tables,
    remark,
    remark_unknown_ranks,
)
from polarity_bench.errors import InputError, how_to_install
from polarity_bench.scores import Weighting

if TYPE_CHECKING:
    from polarity_bench.boards.board_folder import OpenBoard
    from polarity_bench.boards.diff import Change
    from polarity_bench.scores import Weighting

leaderboard_app = Commands(
    cls=by_default("show"),
    help="Results side by side, and boards: `leaderboard RESULTS` is `leaderboard show RESULTS`.",
)


@leaderboard_app.command("show")
def show_board(
    *,
    results: Annotated[
        Path, typer.Argument(help="Folder of results, of a board or of a sweep.")
    ] = Path("results"),
    output: Annotated[Path | None, "Write to this file, not to stdout.", "-o"] = None,
    figure: Annotated[Path | None, "Also draw P against S, to this SVG file."] = None,
    weighting: Annotated[
        Weighting | None, "Weights of the ranks [default: board.toml's, or linear]."
    ] = None,
    title: Annotated[str | None, "Heading."] = None,
    tasks: Annotated[str | None, "Only these, separated by commas.", "-t"] = None,
    models: Annotated[str | None, "Only encoders of these names or digests, by commas."] = None,
    where: Annotated[
        list[str] | None,
        "Of a sweep: only trainings with this setting, e.g. examples=500; repeat it "
        "for others: of one setting any value counts.",
    ] = None,
    out: OutputFlags,
) -> None:
    """Render stored results as a markdown leaderboard; a sweep's as the margins paper's tables."""
    from polarity_bench.boards.board import board as lay_out
    from polarity_bench.boards.board import find_board
    from polarity_bench.boards.run_report import board_as_json
    from polarity_bench.boards.sweep_tables import read_sweep, sweep_as_json, sweep_board
    from polarity_bench.files import write_atomically
    from polarity_bench.render.markdown import render
    from polarity_bench.sweeps.plan import FILE

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    check_file("output", output)
    check_file("figure", figure, [".svg"])
    width = out.width if output is None else None
    if (results / FILE).is_file():
        _refuse_of_sweep(results, {"figure": figure, "tasks": tasks, "models": models})
        scores = read_sweep(results, weighting, where or [], title)
        content: Any = sweep_as_json(scores) if out.as_json else sweep_board(scores)
    else:
        if where:
            raise InputError(
                f"`where` {where[0]}: {results} is not the folder of a sweep, with {FILE}"
            )
        chosen = {"tasks": split_names(tasks), "models": split_names(models)}
        selected = find_board(results, weighting, title=title, **chosen)
        board = lay_out(selected)
        remark_unknown_ranks(results, selected.standings)
        if figure is not None:
            from polarity_bench.render.figures.files import figure_svg

            write_atomically(figure, figure_svg(board))
            remark(f"wrote {figure}")
        content = board_as_json(board) if out.as_json else board
    text = json_text(content) if out.as_json else render(content, width)
    if output is None:
        print_tables(text.removesuffix("\n"))
        return
    write_atomically(output, text.encode())
    remark(f"wrote {output}")


def _refuse_of_sweep(folder: Path, options: Mapping[str, object]) -> None:
    """Refuse what only boards have."""
    for field, value in options.items():
        if value is not None:
            raise InputError(
                f"`{field}` {value}: not of a sweep's tables; choose by `where`, or name "
                f"{folder / 'results'}, which is a board"
            )


Boards = Annotated[
    list[str] | None,
    typer.Argument(metavar="[BOARD]...", help="Folders, or names [default: all there are]."),
]
Root = Annotated[Path, "Where boards lie."]
_LEADERBOARDS = Path("leaderboards")


def build_boards(
    boards: Boards = None, root: Root = _LEADERBOARDS, as_json: AsJson = False
) -> None:
    """Render boards: README.md, index.html, table.csv, table.tex, figures and the front page.

    Without the packages of the extra `report` there is neither page nor figure; it is said.
    """
    from polarity_bench.boards.build import README, build
    from polarity_bench.files import write_atomically

    with_report = _can_report()
    written: list[Path] = []
    opened = [_opened(folder) for folder in _folders(boards, root)]
    for each in opened:
        written += build(each, with_report=with_report)
        remark_unknown_ranks(each.folder, each.standings)
    if not boards and (page := _front(root, opened)) is not None:
        file = root / README
        if not file.is_file() or file.read_bytes() != page:
            write_atomically(file, page)
            written.append(file)
    if as_json:
        print_json({"written": list(map(str, written))})
        return
    for path in written:
        remark(f"wrote {path}" if path.is_file() else f"removed {path}")
    n = f"{len(opened)} board{'' if len(opened) == 1 else 's'}"
    print(f"{n} built, {len(written)} files changed")


def check_boards(
    boards: Boards = None, root: Root = _LEADERBOARDS, as_json: AsJson = False
) -> None:
    """Render boards again and compare bytes; exit code 1 where a file is not what it would be."""
    from polarity_bench.boards.build import README, check

    with_report = _can_report()
    opened = [_opened(folder) for folder in _folders(boards, root)]
    found = {
        str(each.folder / difference.file): difference.what
        for each in opened
        for difference in check(each, with_report=with_report)
    }
    file = root / README
    if not boards and (page := _front(root, opened)) is not None:
        if not file.is_file():
            found[str(file)] = "is missing"
        elif file.read_bytes() != page:
            found[str(file)] = "differs"
    if as_json:
        print_json({"differences": found})
    else:
        for path, what in found.items():
            print(f"{path}: {what}")
        if found:
            remark("build them again by `polarity-bench leaderboard build`")
        else:
            print(f"{len(opened)} board{'' if len(opened) == 1 else 's'}: all is as rendered")
    if found:
        raise typer.Exit(1)


def add_results(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT...", help="Results' files, or folders of them.")
    ],
    board: Annotated[str, "Folder, or name, of the board.", "-b"],
    root: Root = _LEADERBOARDS,
    as_json: AsJson = False,
) -> None:
    """Bring results into a board, and build it; none, if one does not go with what is there."""
    from polarity_bench.boards.add_results import add, find_curves, find_results
    from polarity_bench.boards.board_folder import board_folders
    from polarity_bench.boards.build import build

    (folder,) = board_folders([board], root)
    with_report = _can_report()
    found = find_results(results)
    curves = find_curves(results, found)
    added = add(found, folder, curves)
    opened = _opened(folder)
    written = build(opened, with_report=with_report)
    remark_unknown_ranks(opened.folder, opened.standings)
    if as_json:
        print_json({"added": list(map(str, added)), "written": list(map(str, written))})
        return
    several = f" and {len(curves)} curve{'' if len(curves) == 1 else 's'}" if curves else ""
    print(f"{len(added)} result{'' if len(added) == 1 else 's'}{several} in {folder}, board built")


def diff_boards(
    a: Annotated[
        str, typer.Argument(metavar="A", help="Folder of a board or of results, or a board's name.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The one that is compared with it.")],
    root: Root = _LEADERBOARDS,
    *,
    out: OutputFlags,
) -> None:
    """Say which cells two boards have differently, or only one of them has."""
    from polarity_bench.boards.diff import changes

    folders = [_folder(name, root) for name in (a, b)]
    first, second = map(_opened, folders)
    if first.weighting and second.weighting not in (None, first.weighting):
        remark(f"{b}: ranks weighted {first.weighting}ly, as those of {a}")
        second = _opened(folders[1], first.weighting)
    found = changes(first.board, second.board)
    out.show(
        lambda: {"unit": "fraction", "changes": list(map(_as_json, found))},
        lambda: _changes_table(found, out.width) if found else "no cell differs",
    )


def export_board(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="Folder, or name, of a board.")],
    form: Annotated[
        Literal["markdown", "csv", "latex", "json", "mteb"],
        "mteb: its layout of results, into a folder.",
        "--format",
        "-f",
    ] = "markdown",
    output: Annotated[Path | None, "File or folder [default: stdout].", "-o"] = None,
    root: Root = _LEADERBOARDS,
    as_json: AsJson = False,
) -> None:
    """Print a board in another form, or write it; or its results as mteb lays out its own."""
    from polarity_bench.files import write_atomically

    form = "json" if as_json and form == "markdown" else form
    folder = _folder(board, root)
    if form == "mteb":
        from polarity_bench.integrations.mteb_results import export_mteb

        if output is None:
            raise InputError("`output`: say the folder that mteb's layout is written to")
        written = export_mteb(folder, output)
        remark(f"wrote {len(written)} results to {output}")
        if as_json:
            print_json({"written": list(map(str, written))})
        return
    check_file("output", output)
    text = _text(_opened(folder), form)
    if output is None:
        print(text, end="")
        return
    write_atomically(output, text.encode())
    remark(f"wrote {output}")
    if as_json:
        print_json({"written": [str(output)]})


def _text(opened: OpenBoard, form: Literal["markdown", "csv", "latex", "json"]) -> str:
    from polarity_bench.boards.run_report import board_as_json
    from polarity_bench.render.csv_text import board_csv
    from polarity_bench.render.latex import board_latex
    from polarity_bench.render.markdown import render

    if form == "csv":
        return board_csv(opened.board)
    if form == "latex":
        return board_latex(opened.board)
    if form == "markdown":
        return render(opened.board)
    return json_text(board_as_json(opened.board))


def _opened(folder: Path, weighting: Weighting | None = None) -> OpenBoard:
    from polarity_bench.boards.board_folder import open_board

    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    return open_board(folder, weighting)


def _folder(name: str, root: Path) -> Path:
    """Return a folder, or find the folder of a board by its name."""
    from polarity_bench.boards.board_folder import board_folders

    path = Path(name)
    if path.is_dir():
        return path
    if not (root / name).is_dir():
        raise InputError(f"{name}: there is no such folder, nor a board of this name in {root}")
    return board_folders([name], root)[0]


def _folders(boards: list[str] | None, root: Path) -> list[Path]:
    from polarity_bench.boards.board_folder import board_folders

    return board_folders(boards or [], root)


def _front(root: Path, opened: list[OpenBoard]) -> bytes | None:
    """Render the front page, where there is to be one."""
    from polarity_bench.boards.index_page import FILE, front_page

    return front_page(root, opened) if (root / FILE).is_file() else None


def _can_report() -> bool:
    from polarity_bench.boards.build import can_report

    if found := can_report():
        return found
    remark(f"neither pages nor figures: they need packages; {how_to_install('report')}")
    return False


def _as_json(change: Change) -> dict[str, Any]:
    return {
        "table": change.table,
        "row": list(change.row),
        "column": change.column,
        "change": change.what,
        "before": change.before,
        "after": change.after,
    }


def _changes_table(found: list[Change], width: int | None) -> str:
    from polarity_bench.render.markdown import table
    from polarity_bench.render.table import Column

    heads = [
        ("table", [each.table for each in found]),
        ("row", [", ".join(each.row) for each in found]),
        ("column", [each.column for each in found]),
    ]
    columns = [
        Column("before", [each.before for each in found]),
        Column("after", [each.after for each in found]),
        Column("difference", [each.difference for each in found], unit="points"),
    ]
    return table(heads, columns, width=width)
