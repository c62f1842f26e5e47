"""`polarity-bench sweep`: training and evaluation of all items of a grid."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli.options import (
    Commands,
    DataFlags,
    LoadingFlags,
    StoreFlags,
    by_default,
    usable_options,
)
from polarity_bench.cli.output import (
    LINE_SECONDS,
    AsJson,
    duration,
    fields_to_flags,
    print_json,
    print_tables,
    remark,
)
from polarity_bench.errors import InputError
from polarity_bench.sweeps.engines import ENGINES, EngineName

if TYPE_CHECKING:
    from rich.text import Text

    from polarity_bench.sweeps.remaining_items import Sweep
    from polarity_bench.sweeps.status import SweepProgress, Watch

FOLDER = Path("sweeps")


sweep_app = Commands(
    name="sweep",
    cls=by_default("make"),
    help="Train and evaluate all items of a grid. `sweep GRID` means `sweep make GRID`.",
    no_args_is_help=True,
)


@sweep_app.command("make")
def make_sweep(
    *,
    grid: Annotated[
        str,
        "A TOML file, or the name of a grid of this project: margins, margins-best, sample-size, "
        "scl, triple-entropy, fewshot, axis or smoke.",
        "GRID",
    ],
    output: Annotated[Path | None, "Folder of the sweep [default: sweeps/GRID].", "-o"] = None,
    dry_run: Annotated[
        bool, "Only show the remaining items and an estimate of their duration."
    ] = False,
    retry_failed: Annotated[bool, "Also run the items that failed before."] = False,
    engine: Annotated[
        EngineName,
        "Run items in processes on this machine (local) or on a Ray cluster (ray).",
    ] = "local",
    address: Annotated[
        str | None,
        "With --engine ray: address of a running cluster [default: start one on this machine].",
    ] = None,
    workers: Annotated[
        int | None,
        "With --engine local: number of processes, each with one thread [default: one per GPU, or "
        "one per core if the memory suffices].",
    ] = None,
    encoder: LoadingFlags,
    data: DataFlags,
    embedding: StoreFlags,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate all items of a grid.

    A grid is a TOML file of training runs, evaluations and cross-validations. The same command
    resumes an interrupted sweep. Several commands can work in one folder at the same time; each
    item is run only once.
    """
    from polarity_bench.sweeps.grid import grid_file, read_grid
    from polarity_bench.sweeps.items import Setup
    from polarity_bench.sweeps.remaining_items import find_sweep
    from polarity_bench.sweeps.state_files import SweepState
    from polarity_bench.sweeps.status import Watch

    access = data.access()
    options = usable_options(encoder, offline=access.offline)
    run = ENGINES[engine](address, workers, encoder.device)
    _leave_out_address()
    file = grid_file(grid)
    folder = (output or FOLDER / file.stem).absolute()
    data_dir, task_dir = (place and place.absolute() for place in (access.folder, data.task_dir))
    setup = Setup(folder, options, data_dir, task_dir, store=not embedding.no_store)
    read = read_grid(file, setup)
    if not dry_run:
        SweepState(folder).make_folders()
    sweep = find_sweep(read, setup, file, named=output is None, retry_failed=retry_failed)
    if dry_run:
        _print_dry(sweep, workers, as_json)
        return
    sweep.write_state()
    _report_external_results(sweep)
    watch = Watch(sweep.plan, sweep.state)
    try:
        if sweep.left:
            with show_progress(watch) as look:
                run(sweep.left, setup, look=look)
    except KeyboardInterrupt:
        n_left = sum(state in ("running", "left") for state in watch.read_progress().states)
        remark(f"{n_left:,} items are left; to resume: {_full_command(address)}")
        raise
    _report(watch, folder, as_json, again=_full_command(address))
    if watch.read_progress().counts["failed"]:
        raise typer.Exit(1)


@sweep_app.command("status")
def show_status(
    sweep: Annotated[
        str | None,
        "Name of a grid, or folder of a sweep [default: all sweeps in sweeps/].",
        "SWEEP",
    ] = None,
    output: Annotated[
        Path | None, "Folder that was given to `sweep make` with --output.", "-o"
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of sweeps, and the items that failed.

    The command can be used while a sweep is running, and afterwards.
    """
    from polarity_bench.sweeps.plan import FILE, read_plan
    from polarity_bench.sweeps.state_files import SweepState
    from polarity_bench.sweeps.status import Watch

    if output is not None:
        folders = [output]
    elif sweep is None:
        folders = sorted(file.parent for file in FOLDER.glob(f"*/{FILE}"))
        if not folders:
            raise InputError(
                f"`sweep`: no sweeps in {FOLDER.absolute()}; name the folder of a sweep"
            )
    else:
        places = [Path(sweep), FOLDER / sweep, FOLDER / Path(sweep).name.removesuffix(".toml")]
        folders = [next((each for each in places if (each / FILE).is_file()), Path(sweep))]
    if sweep is not None and output is not None:
        _check_grid(sweep, output)
    watches = [Watch(read_plan(each), SweepState(each.absolute())) for each in folders]
    if as_json and len(watches) > 1:
        print_json({"sweeps": [_as_json(each) for each in watches]})
        return
    for watch in watches:
        again = _resume_command(watch) if len(watches) == 1 else None
        _report(watch, watch.state.folder, as_json, again=again)


def _check_grid(grid: str, folder: Path) -> None:
    """Raise InputError if the sweep in a folder was started with another grid."""
    from polarity_bench.sweeps.plan import read_plan

    began = read_plan(folder).grid
    if began and Path(began).stem != Path(grid).stem and Path(grid).absolute() != folder.absolute():
        raise InputError(
            f"`output` {folder}: contains a sweep of the grid {began}, got the grid {grid}; give "
            "either the grid or `output`, not both"
        )


def _leave_out_address() -> None:
    """Remove the address of the cluster from `sys.argv`, the command that results record.

    The address does not affect the results, and it would reveal the name of a machine.
    """
    pairs = pairwise(["", *sys.argv])
    sys.argv = [
        word
        for before, word in pairs
        if "--address" not in (before, word) and not word.startswith("--address=")
    ]


def _full_command(address: str | None) -> str:
    """Return the command line of the user, including the address of the cluster."""
    again = [] if address is None else ["--address", address]
    return shlex.join(["polarity-bench", *sys.argv[1:], *again])


def _resume_command(watch: Watch) -> str:
    """Return the command that resumes a sweep: the recorded command, or else a plausible one."""
    if watch.plan.command:
        return shlex.join(["polarity-bench", *shlex.split(watch.plan.command)[1:]])
    grid = watch.plan.grid or "GRID"
    return shlex.join(["polarity-bench", "sweep", grid, "-o", str(watch.state.folder)])


def _report_external_results(sweep: Sweep) -> None:
    """Report existing results that this sweep did not compute.

    Items whose results all exist are not run again. For other results, a remark gives the reason
    why they do not count.
    """
    if made := sweep.external_results.outcomes:
        remark(f"{len(made):,} items are not run, because all their results already exist")
    for why, n in Counter(sweep.others).items():
        remark(f"{n:,} of the remaining items have results that do not count, {why}")
    if unused := sweep.unused_folders:
        remark(f"{len(unused):,} folders of results belong to no item, e.g. {unused[0]}")


def _print_dry(sweep: Sweep, workers: int | None, as_json: bool) -> None:
    """Print the numbers of remaining items, and an estimate of their duration."""
    from polarity_bench.sweeps.cost import estimate, probe
    from polarity_bench.sweeps.engines.local import default_workers

    grid, setup, left = sweep.grid, sweep.setup, sweep.left
    n_workers = min(workers or default_workers(setup.options.device), max(1, len(left)))
    n_all, n_left = (Counter(item.kind for item in items) for items in (grid.items, left))
    counts = {kind: {"in all": n, "left": n_left[kind]} for kind, n in n_all.items()}
    _report_external_results(sweep)
    if not as_json:
        print(f"{grid.title}: {len(grid.items):,} in all, {len(left):,} left\n")
        print(_counts_table(counts))
    known, measured = sweep.sizes, probe(left, setup)
    seconds = estimate(left, known, measured, setup.access()) / n_workers
    if as_json:
        found = {"counts": counts, "texts": known.texts, "rows": known.rows, "workers": n_workers}
        print_json({"title": grid.title, **found, "seconds": seconds, "speed": measured})
        return
    for task, n_texts in known.texts.items():
        rows = f", {known.rows[task]:,} training rows" if task in known.rows else ""
        print(f"\n{task}: {n_texts:,} texts{rows}", end="")
    processes = "1 process" if n_workers == 1 else f"{n_workers} processes"
    print(f"\n\nabout {duration(seconds)} in {processes}, estimated from a short test of each base")


def _counts_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table of the number of items of each kind in each state."""
    from polarity_bench.render.markdown import table

    titles = next(iter(counts.values()), {})
    columns = [(title, [f"{row[title]:,}" for row in counts.values()]) for title in titles]
    return table([("", list(counts)), *columns])


def _as_json(watch: Watch) -> dict[str, Any]:
    progress = watch.read_progress()
    items = []
    for item, how in zip(watch.plan.items, progress.states, strict=True):
        outcome = watch.outcomes.get(item.digest)
        made = {key: value for key, value in vars(outcome).items() if value} if outcome else {}
        by = {"by": progress.running[item.digest]} if how == "running" else {}
        own = {"digest": item.digest, "kind": item.kind, "name": item.name}
        items.append({**own, "encoder": item.encoder, **made, "state": how, **by})
    return {
        "title": watch.plan.title,
        "folder": watch.state.folder,
        "counts": progress.counts,
        "seconds_left": progress.seconds_left,
        "best": progress.best,
        "failed": [
            item | {"log": watch.state.log(item["digest"])}
            for item in items
            if item["state"] == "failed"
        ],
        "items": items,
    }


def _report(watch: Watch, folder: Path, as_json: bool, *, again: str | None) -> None:
    """Print the progress of a sweep and the next command.

    Args:
        watch: Progress of the sweep.
        folder: Folder of the sweep.
        as_json: Whether to print JSON, without the next command.
        again: Command that resumes the sweep; None prints no next command.
    """
    from polarity_bench.render.markdown import escape
    from polarity_bench.sweeps.status import STATES

    if as_json:
        print_json(_as_json(watch))
        return
    progress = watch.read_progress()
    kinds = sorted({item.kind for item in watch.plan.items})
    print(f"{watch.plan.title}: {len(watch.plan.items):,} in all, in {folder}\n")
    n = Counter(zip((item.kind for item in watch.plan.items), progress.states, strict=True))
    print(_counts_table({kind: {state: n[kind, state] for state in STATES} for kind in kinds}))
    for best in progress.best:
        print_tables(f"\n{escape(best.words)}")
    if progress.seconds_left:
        print(f"\nabout {duration(progress.seconds_left)} left")
    for item, how in zip(watch.plan.items, progress.states, strict=True):
        if how == "failed":
            why = fields_to_flags(watch.outcomes[item.digest].why)
            log = watch.state.log(item.digest)
            print_tables(f"\nfailed: {escape(item.name)}: {why} ({log})")
    if again and progress.counts["left"] and not progress.counts["running"]:
        remark(f"next: {again}")
    elif again and progress.counts["done"]:
        place = shlex.quote(str(folder))
        if {"training", "evaluation"} & set(kinds):
            results = place if "training" in kinds else f"{place}/results"
            remark(f"next: polarity-bench leaderboard {results}")
            scored = {task for outcome in watch.outcomes.values() for task in outcome.scores}
            if "training" in kinds and scored - {item.task for item in watch.plan.items}:
                remark(f"the grid's other tasks: polarity-bench leaderboard {place}/results")
        if "cross-validation" in kinds:
            remark(f"next: polarity-bench fewshot --report -o {place}/fewshot")


_LOOK_SECONDS = 2.0
_REPEAT_SECONDS = 300.0


@contextmanager
def show_progress(watch: Watch) -> Iterator[Callable[[], None]]:
    """Yield a function that updates the progress of a sweep on stderr.

    Without a terminal, the function prints a line at most every half minute, and at most every five
    minutes if nothing has changed.
    """
    if not sys.stderr.isatty():
        yield _throttle(_line_printer(watch), LINE_SECONDS)
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield _throttle(lambda: status.update(_running(watch)), _LOOK_SECONDS)


def _line_printer(watch: Watch) -> Callable[[], None]:
    """Return a function that prints the progress if it has changed, or was printed long ago."""
    last, printed = "", 0.0

    def print_line() -> None:
        nonlocal last, printed
        line, now = f"{watch.plan.title}: {summary(watch.read_progress())}", time.monotonic()
        if line != last or now - printed >= _REPEAT_SECONDS:
            remark(line)
            last, printed = line, now

    return print_line


def _throttle(function: Callable[[], None], seconds: float) -> Callable[[], None]:
    """Call `function` now, and return a function that calls it once per interval at most."""
    function()
    last = time.monotonic()

    def call() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            function()
            last = time.monotonic()

    return call


def _running(watch: Watch) -> Text:
    """Return the progress of a sweep and the names of the running items as text for a terminal."""
    from rich.text import Text

    progress = watch.read_progress()
    running = [
        f"running: {item.name}" for item in watch.plan.items if item.digest in progress.running
    ]
    return Text("\n".join([f"{watch.plan.title}: {summary(progress)}", *running]))


def summary(progress: SweepProgress) -> str:
    """Return the progress of a sweep in one line."""
    parts = [f"{n:,} {state}" for state, n in progress.counts.items() if n]
    if progress.seconds_left:
        parts.append(f"about {duration(progress.seconds_left)} left")
    return "; ".join([", ".join(parts), *(best.words for best in progress.best)])
