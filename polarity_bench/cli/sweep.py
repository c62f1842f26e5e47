"""`polarity-bench sweep`: what a grid names, made and gone on with by one command."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.sweeps.grid import Grid, Setup
    from polarity_bench.sweeps.state import SweepState

_STATES = ("done", "running", "left", "failed")


def sweep(
    grid: Annotated[
        str,
        typer.Argument(
            help="The grid: a TOML file, or margins, margins-best, sample-size, axis or smoke."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the sweep [default: sweeps/ and the grid's name]."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make nothing: say what there is to make.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Make nothing: say how far it is, and what failed.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Go on with what failed, too.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Processes of one thread [default: one for each core]."),
    ] = None,
    device: shared.Device = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    no_store: shared.NoStore = False,
    trust_remote_code: shared.TrustRemoteCode = False,
    allow_pickle: shared.AllowPickle = False,
    offline: shared.Offline = False,
    as_json: shared.AsJson = False,
) -> None:
    """Train and evaluate all that a grid names; the same command again goes on with the rest.

    Several of these commands may work on one folder, and each item is made once.
    """
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.sweeps.grid import Setup, grid_file, read_grid
    from polarity_bench.sweeps.state import SweepState

    if workers is not None and workers < 1:
        raise InputError(f"`workers` must be at least 1, got {workers}")
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)
    options = EncoderOptions(
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    file = grid_file(grid)
    folder = (output or Path("sweeps") / file.stem).absolute()
    setup = Setup(folder, options, data_dir, task_dir, store=not no_store)
    read, state = read_grid(file, setup), SweepState(folder)
    if not (dry_run or status):
        _make(read, setup, state, shared.worker_count(workers), retry_failed)
    found = _report(read, state)
    if as_json:
        shared.print_json(found)
    else:
        _print(read, found, shown=[] if dry_run else found["failed"])
    if not dry_run and found["counts"]["failed"]:
        raise typer.Exit(1)
    results = shlex.quote(str(folder / "results"))
    if found["counts"]["left"] == 0:
        shared.remark(f"next: polarity-bench leaderboard {results}")


def _make(grid: Grid, setup: Setup, state: SweepState, workers: int, retry_failed: bool) -> None:
    from polarity_bench.sweeps.local import run_local
    from polarity_bench.sweeps.make import check

    state.make_folders()
    for item in grid.items if retry_failed else ():
        outcome = state.outcome(item.digest)
        if outcome is not None and outcome.state == "failed":
            state.forget(item.digest)
    ended = state.ended()
    if left := [item for item in grid.items if item.digest not in ended]:
        check(left, setup)
        bar = shared.announced_bar
        run_local(left, setup, workers=workers, title=grid.title, bar=bar)


def _report(grid: Grid, state: SweepState) -> dict[str, Any]:
    """Say what of a grid is done, running, left and failed."""
    running = state.running() if state.files.is_dir() else {}
    items: list[dict[str, Any]] = []
    for item in grid.items:
        outcome = state.outcome(item.digest)
        how = outcome.state if outcome else "running" if item.digest in running else "left"
        made = {key: value for key, value in asdict(outcome).items() if value} if outcome else {}
        by = {"by": running[item.digest]} if how == "running" else {}
        kind = type(item).__name__.lower()
        items.append(
            {"digest": item.digest, "kind": kind, "name": item.name, **made, "state": how, **by}
        )
    counts = {state: sum(each["state"] == state for each in items) for state in _STATES}
    failed = [
        {**each, "log": str(state.log(each["digest"]))}
        for each in items
        if each["state"] == "failed"
    ]
    return {"title": grid.title, "counts": counts, "failed": failed, "items": items}


def _print(grid: Grid, found: dict[str, Any], shown: list[dict[str, Any]]) -> None:
    from polarity_bench.boards.markdown import escape, table

    print(f"{grid.title}: {len(grid.items):,} in all, {len(grid.trainings):,} of them trained\n")
    kinds = ("evaluation", "training")
    counts = [
        [
            f"{sum(i['kind'] == kind and i['state'] == state for i in found['items']):,}"
            for kind in kinds
        ]
        for state in _STATES
    ]
    heads = [("", ["evaluations", "trainings"]), *zip(_STATES, counts, strict=True)]
    print(table([(head, list(cells)) for head, cells in heads]))
    for each in shown:
        print(f"\nfailed: {escape(each['name'])}: {shared.in_flags(each['why'])} ({each['log']})")
