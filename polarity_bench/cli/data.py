"""`polarity-bench data`: see where the data of tasks is, or download it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from polarity_bench.cli.inputs import data_access_of, tasks_of
from polarity_bench.cli.options import (
    AsJson,
    Commands,
    DataDir,
    Offline,
    Suite,
    TaskDir,
    Tasks,
    Wide,
)
from polarity_bench.cli.output import (
    in_flags,
    print_json,
    print_tables,
    progress_bar,
    remark,
    terminal_width,
)
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


data_app = Commands(help="See where the data of the tasks is, or download it.")


@data_app.command("status")
def data_status(
    tasks: Tasks = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Say for every file where it is, or where it would come from."""
    from polarity_bench.data.sources import file_status
    from polarity_bench.render.markdown import table

    access = data_access_of(data_dir)
    chosen = tasks_of(tasks, suite, task_dir)
    rows = [row for spec in chosen for row in file_status(spec, access)]
    if as_json:
        print_json(rows)
        return
    titles = ("task", "file", "status", "place")
    columns = [(title, [row[title] for row in rows]) for title in titles]
    print_tables(table(columns, width=terminal_width(wide)))


@data_app.command("fetch")
def data_fetch(
    tasks: Tasks = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Bring the data of tasks to this machine, and check every count."""
    from polarity_bench.tasks.types.base import Settings

    access = data_access_of(data_dir, offline)
    chosen = tasks_of(tasks, suite, task_dir)
    found: dict[str, Mapping[str, int]] = {}
    failures: dict[str, str] = {}
    with progress_bar("fetching", len(chosen)) as advance:
        for spec in chosen:
            try:
                counts = found[spec.name] = spec.load(access, Settings()).counts
            except InputError as error:
                failures[spec.name] = in_flags(str(error))
                remark(f"error: {failures[spec.name]}")
            else:
                if not as_json:
                    shown = ", ".join(f"{n:,} {name}" for name, n in counts.items())
                    print(f"{spec.name}: {shown}")
            advance(1)
    if as_json:
        print_json({"tasks": found, "failures": failures})
    raise typer.Exit(2 if failures else 0)
