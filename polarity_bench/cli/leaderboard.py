"""`polarity-bench leaderboard`: tables of stored results, and published boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polarity_bench.cli.inputs import check_file, split_names
from polarity_bench.cli.options import Commands, by_default, check_weighting
from polarity_bench.cli.output import (
    AsJson,
    JsonFlags,
    OutputFlags,
    json_text,
    print_json,
    print_tables,
    progress_bar,
    remark,
    remark_unknown_ranks,
    write_file,
)
from polarity_bench.errors import InputError, check_known, how_to_install
from polarity_bench.values import count

if TYPE_CHECKING:
    from pandas import DataFrame

    from polarity_bench.boards.board_folder import OpenBoard

leaderboard_app = Commands(
    name="leaderboard",
    cls=by_default("show"),
    help="Show results as tables, and publish boards. `leaderboard RESULTS` means "
    "`leaderboard show RESULTS`.",
)


@leaderboard_app.command("show")
def show_board(
    *,
    results: Annotated[Path, "Folder of results, a board or a sweep.", "RESULTS"] = Path("results"),
    output: Annotated[
        Path | None,
        "Write the leaderboard to this file instead of stdout. With --from mteb, a folder gets the "
        "files of a board.",
        "-o",
    ] = None,
    layout: Annotated[
        Literal["mteb"] | None,
        "Rank results that mteb wrote, of any models and tasks: RESULTS contains "
        "MODEL/REVISION/TASK.json.",
        "--from",
    ] = None,
    benchmark: Annotated[
        str | None, "With --from mteb: benchmark of mteb that names the tasks, splits and subsets."
    ] = None,
    figure: Annotated[Path | None, "Also plot P against S in this .svg file."] = None,
    weighting: Annotated[
        str | None,
        "Weights of the retrieved sources: linear (the nearest counts most) or uniform (all count "
        "the same) [default: from board.toml, or linear].",
        check_weighting,
    ] = None,
    title: Annotated[str | None, "Heading of the leaderboard."] = None,
    tasks: Annotated[str | None, "Show only these tasks, separated by commas.", "-t"] = None,
    models: Annotated[
        str | None, "Show only encoders with these names or digests, separated by commas."
    ] = None,
    where: Annotated[
        list[str] | None,
        "For a sweep: show only runs with this setting, e.g. examples=500. Repeat the option for "
        "further settings, or for other values of one setting.",
    ] = None,
    out: OutputFlags,
) -> None:
    """Print stored results as a leaderboard in Markdown.

    For the folder of a sweep, the command prints the tables of the paper instead.
    """
    from polarity_bench.boards.board_folder import open_board
    from polarity_bench.boards.build import build
    from polarity_bench.render.markdown import render

    if not results.is_dir():
        raise InputError(f"{results}: no such folder of results; run `polarity-bench run` first")
    if layout is None and benchmark:
        raise InputError(f"`benchmark` {benchmark}: only for results of mteb; add `layout` mteb")
    if layout == "mteb" and (figure or weighting or where):
        raise InputError(
            "`figure`, `weighting` and `where`: results of mteb have no such selection; leave "
            "them out"
        )
    is_folder = layout == "mteb" and output is not None and not output.suffix
    check_file("output", None if is_folder else output)
    check_file("figure", figure, [".svg"])
    chosen = {"tasks": split_names(tasks), "models": split_names(models)}
    if layout == "mteb":
        opened = _open_mteb(results, benchmark or "", title, output or results, **chosen)
    else:
        opened = open_board(results, weighting, title=title, where=where or [], **chosen)
    remark_unknown_ranks(results, opened.standings)
    if is_folder:
        written = build(opened, with_report=_can_report())
        out.show(lambda: {"written": written}, lambda: f"{output}: {count(len(written), 'file')}")
        return
    if figure is not None:
        from polarity_bench.render.figures.figure_files import figure_svg

        write_file(figure, figure_svg(opened.board))
    if out.as_json:
        text = json_text(opened.as_json())
    else:
        text = render(opened.board, out.width if output is None else None)
    if output is None:
        print_tables(text.removesuffix("\n"))
    else:
        write_file(output, text.encode())


def _open_mteb(
    results: Path,
    benchmark: str,
    title: str | None,
    folder: Path,
    *,
    tasks: list[str],
    models: list[str],
) -> OpenBoard:
    """Read mteb's results as a board of ranks."""
    from polarity_bench.boards.board_folder import OpenBoard
    from polarity_bench.boards.mteb_board import mteb_board
    from polarity_bench.integrations.mteb_results import benchmark_tasks, read_mteb

    scores = read_mteb(results, benchmark, tasks, bar=progress_bar)
    for name in models:
        check_known(name, scores.index, f"`models`: {results} has no results of {name!r}")
    scores = scores.loc[[*dict.fromkeys(models)]] if models else scores
    selected = tasks or ([*benchmark_tasks(benchmark)] if benchmark else [])
    absent = [task for task in selected if task not in scores]
    board = mteb_board(scores, title or benchmark, is_selected=bool(selected), absent=absent)
    return OpenBoard(folder, "results", board)


Boards = Annotated[
    list[str] | None, "Folders or names of boards [default: all boards].", "[BOARD]..."
]
Root = Annotated[Path, "Folder that contains the boards."]
_LEADERBOARDS = Path("leaderboards")


def build_boards(
    boards: Boards = None, root: Root = _LEADERBOARDS, as_json: AsJson = False
) -> None:
    """Render the files of boards from their results.

    Each board gets README.md, index.html, table.csv, table.tex and figures. If no board is named,
    the front page is also rendered. Pages and figures need the packages of the extra `report`.
    """
    from polarity_bench.boards.board_folder import board_folders, open_board
    from polarity_bench.boards.build import build, write_changed

    with_report = _can_report()
    opened = list(map(open_board, board_folders(boards or [], root)))
    written: list[Path] = []
    for board in opened:
        written += build(board, with_report=with_report)
        remark_unknown_ranks(board.folder, board.standings)
    if not boards:
        written += write_changed(root, _front(root, opened))
    if as_json:
        print_json({"written": written})
        return
    for path in written:
        remark(f"wrote {path}" if path.is_file() else f"removed {path}")
    print(f"{count(len(opened), 'board')} built, {len(written)} files changed")


def check_boards(
    boards: Boards = None, root: Root = _LEADERBOARDS, as_json: AsJson = False
) -> None:
    """Check that the files of boards are up to date.

    The command renders the boards again and compares the output with the files. The exit code is 1
    if a file differs.
    """
    from polarity_bench.boards.board_folder import board_folders, open_board
    from polarity_bench.boards.build import check, differences

    with_report = _can_report()
    opened = list(map(open_board, board_folders(boards or [], root)))
    found = {board.folder: check(board, with_report=with_report) for board in opened}
    if not boards:
        found[root] = differences(root, _front(root, opened))
    wrong = {str(folder / file): why for folder, of in found.items() for file, why in of.items()}
    if as_json:
        print_json({"differences": wrong})
    else:
        for path, what in wrong.items():
            print(f"{path}: {what}")
        if wrong:
            remark("to update the files: `polarity-bench leaderboard build`")
        else:
            print(f"{count(len(opened), 'board')}: all files are up to date")
    if wrong:
        raise typer.Exit(1)


def add_results(
    results: Annotated[list[Path], "Result files, or folders with results.", "RESULT..."],
    board: Annotated[str, "Folder or name of the board.", "-b"],
    root: Root = _LEADERBOARDS,
    *,
    out: JsonFlags,
) -> None:
    """Add results to a board and render its files.

    If a result cannot be compared with the board's results, nothing is added.
    """
    from polarity_bench.boards.add_results import add, find_results
    from polarity_bench.boards.board_folder import board_folders, open_board
    from polarity_bench.boards.build import build
    from polarity_bench.results.curve_files import read_curves

    (folder,) = board_folders([board], root)
    with_report = _can_report()
    found = find_results(results)
    curves = [curve for each in results if each.is_dir() for curve in read_curves(each, found)]
    added = add(found, folder, curves)
    opened = open_board(folder)
    written = build(opened, with_report=with_report)
    remark_unknown_ranks(opened.folder, opened.standings)
    several = f" and {count(len(curves), 'curve')}" if curves else ""
    out.show(
        lambda: {"added": added, "written": written},
        lambda: f"{count(len(added), 'result')}{several} in {folder}, board built",
    )


def diff_boards(
    a: Annotated[str, "Folder of a board or of results, or name of a board.", "A"],
    b: Annotated[str, "The same for the board to compare with A.", "B"],
    root: Root = _LEADERBOARDS,
    *,
    out: OutputFlags,
) -> None:
    """Show the table cells that differ between two boards.

    Cells that exist on only one board are also shown.
    """
    from polarity_bench.boards.board_folder import open_board
    from polarity_bench.boards.diff import changes, other_causes

    folders = [_folder(name, root) for name in (a, b)]
    first, second = map(open_board, folders)
    if first.weighting and second.weighting not in (None, first.weighting):
        remark(f"{b}: shown with {first.weighting} weights, like {a}")
        second = open_board(folders[1], first.weighting)
    for cause in other_causes((first.board, second.board), folders):
        remark(f"warning: {cause}")
    found = changes(first.board, second.board)
    records = found.drop(columns="difference").to_dict("records")
    out.show(
        lambda: {"unit": "fraction", "changes": records},
        lambda: "no cell differs" if found.empty else _changes_table(found, out.width),
    )


def export_board(
    board: Annotated[str, "Folder of a board or of results, or name of a board.", "BOARD"],
    form: Annotated[
        Literal["markdown", "csv", "latex", "json", "mteb", "eee"],
        "Output format. mteb writes a folder that mteb can read as its result cache; eee writes "
        "files in the schema of Every Eval Ever.",
        "--format",
        "-f",
    ] = "markdown",
    output: Annotated[
        Path | None,
        "File to write, or folder for the formats mteb and eee [default: stdout].",
        "-o",
    ] = None,
    organization: Annotated[str, "For the format eee: who computed the results."] = "unknown",
    root: Root = _LEADERBOARDS,
    as_json: AsJson = False,
) -> None:
    """Convert a board to another format, or export its results for mteb."""
    form = "json" if as_json and form == "markdown" else form
    if as_json and output is None and form != "json":
        raise InputError(f"`as_json`: a board in the format {form} is no JSON; set `output` too")
    folder = _folder(board, root)
    if form in {"mteb", "eee"}:
        if output is None:
            raise InputError(f"`output`: the format {form} needs an output folder; name one")
        if form == "mteb":
            from polarity_bench.integrations.mteb_results import export_mteb

            written = export_mteb(folder, output)
        else:
            from polarity_bench.integrations.every_eval_ever import export_eee
            from polarity_bench.tasks.catalogue import load_tasks
            from polarity_bench.training.model_card import DataSet

            data_sets = {task: DataSet.of(spec) for task, spec in load_tasks().items()}
            written = export_eee(folder, output, data_sets, organization)
        remark(f"wrote {count(len(written), 'file')} to {output}")
    else:
        from polarity_bench.boards.board_folder import open_board
        from polarity_bench.boards.run_report import board_as_json
        from polarity_bench.render.csv_text import board_csv
        from polarity_bench.render.latex import board_latex
        from polarity_bench.render.markdown import render

        check_file("output", output)
        opened = open_board(folder).board
        if form == "json":
            text = json_text(board_as_json(opened))
        else:
            text = {"csv": board_csv, "latex": board_latex, "markdown": render}[form](opened)
        if output is None:
            print(text, end="")
            return
        write_file(output, text.encode())
        written = [output]
    if as_json:
        print_json({"written": written})


def _folder(name: str, root: Path) -> Path:
    """Return the folder with this path, or else the folder of the board with this name."""
    from polarity_bench.boards.board_folder import board_folders

    return Path(name) if Path(name).is_dir() else board_folders([name], root)[0]


def _front(root: Path, opened: list[OpenBoard]) -> dict[str, bytes]:
    """Return the front page as a file name and its content; {} if the root has no front.toml."""
    from polarity_bench.boards.build import README
    from polarity_bench.boards.index_page import FILE, front_page

    return {README: front_page(root, opened)} if (root / FILE).is_file() else {}


def _can_report() -> bool:
    from polarity_bench.render.figures.figure_files import can_draw

    if not (found := can_draw()):
        remark(f"pages and figures are skipped: packages are missing; {how_to_install('report')}")
    return found


def _changes_table(found: DataFrame, width: int | None) -> str:
    from polarity_bench.render.markdown import table
    from polarity_bench.render.table import Column

    named = found.assign(row=found["row"].map(", ".join))
    heads = [(name, named[name].tolist()) for name in ("table", "row", "column")]
    columns = [
        Column(name, found[name].tolist(), unit="points" if name == "difference" else "percent")
        for name in ("before", "after", "difference")
    ]
    return table(heads, columns, width=width)
