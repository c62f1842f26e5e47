"""`polarity-bench data`: location and download of the tasks' data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from polarity_bench.cli.options import Commands, DataFlags, TaskFlags
from polarity_bench.cli.output import (
    AsJson,
    OutputFlags,
    fields_to_flags,
    print_json,
    progress_bar,
    remark,
)
from polarity_bench.errors import InputError

data_app = Commands(name="data", help="Show where data is stored, or download it.")


@data_app.command("status")
def data_status(
    *,
    tasks: TaskFlags,
    data: Annotated[DataFlags, ("data_dir", "task_dir")],
    out: OutputFlags,
) -> None:
    """Show where each data file is stored, or where it can be downloaded from."""
    from polarity_bench.data.sources import file_status
    from polarity_bench.render.markdown import table

    access = data.access()
    rows = [row for spec in tasks.choose(data.task_dir) for row in file_status(spec, access)]
    titles = ("task", "file", "status", "place")
    columns = [(title, [row[title] for row in rows]) for title in titles]
    out.show(lambda: rows, lambda: table(columns, width=out.width))


@data_app.command("fetch")
def data_fetch(
    *,
    tasks: TaskFlags,
    data: DataFlags,
    as_json: AsJson = False,
) -> None:
    """Download the data of tasks and check the numbers of rows.

    By default, this downloads the data of all tasks. The exit code is 2 if a task fails.
    """
    from polarity_bench.tasks.types.base import Settings

    access = data.access()
    chosen = tasks.choose(data.task_dir)
    found: dict[str, Mapping[str, int]] = {}
    failures: dict[str, str] = {}
    with progress_bar("fetching", len(chosen)) as advance:
        for spec in chosen:
            try:
                counts = found[spec.name] = spec.load(access, Settings()).counts
            except InputError as error:
                failures[spec.name] = fields_to_flags(str(error))
                remark(f"error: {failures[spec.name]}")
            else:
                if not as_json:
                    shown = ", ".join(f"{n:,} {name}" for name, n in counts.items())
                    print(f"{spec.name}: {shown}")
            advance(1)
    if as_json:
        print_json({"tasks": found, "failures": failures})
    raise typer.Exit(2 if failures else 0)
