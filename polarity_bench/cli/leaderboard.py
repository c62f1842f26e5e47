"""`polarity-bench leaderboard`: lay stored results side by side, and publish boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.cli.by_default import by_default
from polarity_bench.errors import InputError
from polarity_bench.types import Weighting

leaderboard_app = typer.Typer(
    cls=by_default("show"),
    help="Results side by side, and boards: `leaderboard RESULTS` is `leaderboard show RESULTS`.",
)


@leaderboard_app.command("show")
def show_board(
    results: Annotated[
        Path, typer.Argument(help="Folder of results, of a board or of a sweep.")
    ] = Path("results"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Also draw P against S, to this SVG file."),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            "--weighting", help="Weights of the ranks [default: board.toml's, or linear]."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Heading.")] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", "-t", help="Only these, separated by commas.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Only encoders of these names or digests, by commas."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Of a sweep: only trainings with this setting, e.g. examples=500; repeat it "
            "for others: of one setting any value counts.",
        ),
    ] = None,
    wide: shared.Wide = False,
    as_json: shared.AsJson = False,
) -> None:
    """Render stored results as a markdown leaderboard; a sweep's as the margins paper's tables."""
    from polarity_bench.files import write_atomically
    from polarity_bench.sweeps.plan import FILE

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    for field, file in (("output", output), ("figure", figure)):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"`{field}` {file}: the folder {file.parent} does not exist")
    if figure is not None and figure.suffix != ".svg":
        raise InputError(f"`figure` {figure}: the file's name must end in .svg")
    width = shared.width(wide) if output is None else None
    if (results / FILE).is_file():
        _refuse_of_sweep(results, {"figure": figure, "tasks": tasks, "models": models})
        text = _sweep_text(results, weighting, title, where or [], width, as_json)
    else:
        if where:
            raise InputError(f"`where` {where[0]}: {results} is no folder of a sweep, with {FILE}")
        chosen = {"tasks": shared.split_names(tasks), "models": shared.split_names(models)}
        text = _board_text(results, weighting, title, chosen, figure, width, as_json)
    if output is None:
        shared.print_tables(text.removesuffix("\n"))
        return
    write_atomically(output, text.encode())
    shared.remark(f"wrote {output}")


def _board_text(
    results: Path,
    weighting: Weighting | None,
    title: str | None,
    chosen: Mapping[str, Sequence[str]],
    figure: Path | None,
    width: int | None,
    as_json: bool,
) -> str:
    from polarity_bench.boards.board import board as lay_out
    from polarity_bench.boards.board import find_board
    from polarity_bench.boards.markdown import render
    from polarity_bench.boards.report import board_as_json

    found = find_board(results, weighting, title=title, **chosen)
    board = lay_out(found)
    shared.tell_unknown_ranks(results, found.standings)
    if figure is not None:
        from polarity_bench.boards.figures import figure_svg
        from polarity_bench.files import write_atomically

        write_atomically(figure, figure_svg(board))
        shared.remark(f"wrote {figure}")
    return shared.json_text(board_as_json(board)) if as_json else render(board, width)


def _refuse_of_sweep(folder: Path, options: Mapping[str, object]) -> None:
    """Refuse what only boards have."""
    for field, value in options.items():
        if value is not None:
            raise InputError(
                f"`{field}` {value}: not of a sweep's tables; choose by `where`, or name "
                f"{folder / 'results'}, which is a board"
            )


def _sweep_text(
    folder: Path,
    weighting: Weighting | None,
    title: str | None,
    where: Sequence[str],
    width: int | None,
    as_json: bool,
) -> str:
    from dataclasses import replace

    from polarity_bench.boards.markdown import render
    from polarity_bench.sweeps.scored import read_sweep, sweep_as_json
    from polarity_bench.sweeps.tables import sweep_board

    scores = read_sweep(folder, weighting, where)
    if title is not None:
        scores = replace(scores, title=title)
    return (
        shared.json_text(sweep_as_json(scores)) if as_json else render(sweep_board(scores), width)
    )
