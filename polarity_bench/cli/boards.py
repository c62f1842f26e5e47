"""`polarity-bench leaderboard`: render stored results."""

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
    weighting: shared.Weight = "linear",
    title: Annotated[str | None, typer.Option("--title", help="Heading.")] = None,
) -> None:
    """Render stored results as a markdown leaderboard."""
    from polarity_bench.boards.board import read_board
    from polarity_bench.boards.markdown import render
    from polarity_bench.files import write_atomically

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    text = render(read_board(results, weighting, title=title))
    if output is None:
        print(text, end="")
        return
    if not output.parent.is_dir():
        raise InputError(f"`output` {output}: the folder {output.parent} does not exist")
    write_atomically(output, text.encode())
    shared.remark(f"wrote {output}")
