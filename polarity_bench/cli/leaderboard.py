"""`polarity-bench leaderboard`: lay stored results side by side, as tables and as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError


def leaderboard(
    results: Annotated[Path, typer.Argument(help="Folder of results, or of a board.")] = Path(
        "results"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Also draw P against S, to this SVG file."),
    ] = None,
    weighting: shared.Weight = "linear",
    title: Annotated[str | None, typer.Option("--title", help="Heading.")] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", "-t", help="Only these, separated by commas.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Only encoders of these names or digests, by commas."),
    ] = None,
    wide: shared.Wide = False,
    as_json: shared.AsJson = False,
) -> None:
    """Render stored results as a markdown leaderboard."""
    from polarity_bench.boards.board import read_board
    from polarity_bench.boards.markdown import render
    from polarity_bench.boards.report import board_as_json
    from polarity_bench.files import write_atomically

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    chosen = {"tasks": shared.split_names(tasks), "models": shared.split_names(models)}
    for field, file in (("output", output), ("figure", figure)):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"`{field}` {file}: the folder {file.parent} does not exist")
    if figure is not None and figure.suffix != ".svg":
        raise InputError(f"`figure` {figure}: the file's name must end in .svg")
    board = read_board(results, weighting, title=title, **chosen)
    if figure is not None:
        from polarity_bench.boards.figure import figure_svg

        write_atomically(figure, figure_svg(board))
        shared.remark(f"wrote {figure}")
    width = shared.width(wide) if output is None else None
    text = shared.json_text(board_as_json(board)) if as_json else render(board, width)
    if output is None:
        shared.print_tables(text.removesuffix("\n"))
        return
    write_atomically(output, text.encode())
    shared.remark(f"wrote {output}")
