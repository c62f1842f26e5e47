"""What commands print: results on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.scores import Weighting
from polarity_bench.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.progress import Task as ProgressTask

    from polarity_bench.cli.options import OutputFlags
    from polarity_bench.compare.encoder_ranks import Standings
    from polarity_bench.evaluation.many_encoders import EncoderReport
    from polarity_bench.evaluation.many_tasks import SuiteReport
    from polarity_bench.progress import Progress
    from polarity_bench.results.curve import Dial
    from polarity_bench.results.result_files import Result
    from polarity_bench.tasks.types.base import Task

LINE_SECONDS = 30.0
"""How often a line tells of progress where stderr is no terminal."""


def in_flags(message: str) -> str:
    """Name the options of the command that runs by their flags, where a message names fields."""
    return re.sub(r"`(\w+)`", lambda named: _flags.get(named[1], named[0]), message)


def name_options(flags: Mapping[str, str]) -> None:
    """Remember the flags of the command that runs, by the names of its options, for `in_flags`."""
    _flags.clear()
    _flags.update(flags)


_flags: dict[str, str] = {}
"""Of the command that runs: the flag of each of its options, by the option's name."""


def remark_draws(tasks: Iterable[Task]) -> None:
    """Say of which tasks only a draw of the sources takes part."""
    for task in tasks:
        if n_pool := task.counts.get("drawn from"):
            drawn = f"{task.counts['sources']:,} of its {n_pool:,} sources drawn"
            remark(f"{task.spec.name}: {drawn} (sources_per_query in its file)")


def remark_unknown_ranks(folder: Path, standings: Standings | None) -> None:
    """Name the first file of values per query without which a board's ranks are unknown."""
    if standings is not None and standings.unknown:
        missing = list(dict.fromkeys(standings.unknown))
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        remark(f"{folder}: some ranks are unknown: {missing[0]}{more}")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Progress]:
    """Show progress on stderr: a bar with the time left, or a line now and then in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = RichProgress(
        *columns,
        console=console,
        speed_estimate_period=math.inf,
        disable=not console.is_terminal,
    )
    task = bar.add_task(printable(title), total=total)
    with bar if console.is_terminal else _progress_lines(bar.tasks[0]):
        yield lambda done: bar.advance(task, done)


def announced_bar(title: str, total: int) -> AbstractContextManager[Progress]:
    """As `progress_bar`, for what may take hours: in a log, its title is said at once."""
    if not sys.stderr.isatty():
        remark(f"{title}: {total:,} in all")
    return progress_bar(title, total)


@contextmanager
def _progress_lines(task: ProgressTask) -> Iterator[None]:
    """Print a line every half minute, from a thread: one step may take longer than that."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LINE_SECONDS):
            pace = ""
            if rate := task.speed:  # of all steps but the first, which may have been made before
                speed = f"{1 / rate:,.1f} seconds each" if rate < 1 else f"{rate:,.1f} a second"
                pace = f", {speed}, {duration(task.time_remaining or 0)} left"
            remark(f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}{pace}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def duration(seconds: float) -> str:
    """Say how long something takes, in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def remark(text: str) -> None:
    """Say something beside the results, with options named by their flags.

    Control characters, as names may hold, are escaped.
    """
    print(printable(in_flags(text)), file=sys.stderr, flush=True)


@contextmanager
def warnings_as_remarks(category: type[Warning]) -> Iterator[None]:
    """Say warnings of a category as remarks, each once."""
    show = warnings.showwarning

    def say(message: Warning | str, kind: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(kind, category):
            remark(f"warning: {message}")
        else:
            show(message, kind, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("default", category)
        warnings.showwarning = say  # type: ignore[assignment]  # it passes all else on
        yield


def terminal_width(wide: bool) -> int | None:
    """Return how wide tables may be: as the terminal; None, as they are, where there is none."""
    return None if wide or not sys.stdout.isatty() else shutil.get_terminal_size().columns


def print_tables(text: str) -> None:
    """Print tables, which name options as errors do."""
    print(in_flags(text) if sys.stdout.isatty() else text, flush=True)


def json_text(value: Any) -> str:
    """Write JSON, for a program or a person; NaN, which JSON lacks, is null, and a path text."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, inf_nan_mode="null", fallback=dict)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_file(file: Path, content: bytes) -> None:
    """Write a file that the user asked for, and say so."""
    from polarity_bench.files import write_atomically

    write_atomically(file, content)
    remark(f"wrote {file}")


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    print(json_text(value), end="")


def print_report(
    report: EncoderReport,
    output: OutputFlags,
    weighting: Weighting,
    columns: Sequence[str] = (),
) -> None:
    """Print the tables of an encoder, at one strength or several, what was reused, what failed.

    Args:
        report: What became of the encoder.
        output: Whether and how wide to print the tables.
        weighting: Weighting of the ranks.
        columns: Titles of the columns to print, or "all"; by default the main scores.
    """
    from polarity_bench.boards.run_report import tables
    from polarity_bench.render.markdown import section

    results = [result for suite in report.suites for result, _ in suite.results]
    if results and not output.as_json:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        encoder = results[0].key.encoder
        title = encoder.label if len(report.suites) == 1 else encoder.stored.label
        print(f"{title}, reference: {name}\n")
        order = list(dict.fromkeys(result.task for result in results))
        results.sort(key=lambda result: order.index(result.task))
        shown = tables(results, weighting, columns)
        sections = [section(table, output.width) for table in shown]
        print_tables("\n\n".join([*sections, _how_to_read(results, weighting)]) + "\n")
    for suite in report.suites:
        for warning in suite.warnings:
            remark(f"warning: {warning}")
        for task, message in suite.failures.items():
            remark(f"error: {task} failed: {message}")
    if reused := dict.fromkeys(name for suite in report.suites for name in suite.reused):
        names = ", ".join(reused)
        remark(f"already there and current, not made again (--overwrite would): {names}")
    for label, usage in [pair for suite in report.suites for pair in suite.usage.items()]:
        remark(
            f"{label}: {usage.n_texts:,} texts asked for, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )


def _how_to_read(results: Sequence[Result], weighting: Weighting) -> str:
    """Return the line below the tables."""
    from polarity_bench.tasks.catalogue import KINDS

    ranked = any(KINDS[result.kind].ranks for result in results)
    weights = "; every rank weighs the same" if ranked and weighting == "uniform" else ""
    alike = " S, retention and joint compare only under one reference encoder." if ranked else ""
    return f"Percent, [95 % interval]{weights}.{alike}"


def write_and_print_curves(
    name: str,
    dial: Dial,
    reports: Mapping[float, SuiteReport],
    folder: Path,
    output: OutputFlags,
    weighting: Weighting,
) -> list[Path]:
    """Write and print the curve of every polarity task; return the files.

    Args:
        name: Whose curve it is.
        dial: What was turned.
        reports: What became of the tasks, by where the dial stood.
        folder: Folder of the results.
        output: Whether and how wide to print the tables.
        weighting: Of the ranks, in the tables.
    """
    from polarity_bench.boards.run_report import curve_table
    from polarity_bench.render.markdown import section
    from polarity_bench.results.curve_files import read_curve, write_curves

    stored = {at: report.results for at, report in reports.items()}
    paths = write_curves(name, dial, stored, folder)
    for path in [] if output.as_json else paths:
        print_tables(section(curve_table(read_curve(path), weighting), output.width) + "\n")
    return paths


def curves_as_json(files: Iterable[Path]) -> list[dict[str, object]]:
    """Read curves for JSON."""
    from polarity_bench.files import read_json

    return [read_json(file) | {"file": file} for file in files]


def reports_as_json(
    reports: Iterable[EncoderReport], skipped: Mapping[str, str]
) -> dict[str, object]:
    """Lay out what became of the encoders; a failure without a task is that of an encoder."""
    from polarity_bench.boards.run_report import as_json
    from polarity_bench.values import shortest

    results: list[dict[str, object]] = []
    failures: list[dict[str, object]] = []
    for report in reports:
        if report.error:
            error = in_flags(str(report.error))
            failures.append({"encoder": report.model, "task": None, "error": error})
        for strength, suite in report.by_strength.items():
            at = "" if strength is None else f" (strength {shortest(strength)})"
            results += (
                as_json(result) | {"file": path, "reused": result.task in suite.reused}
                for result, path in suite.results
            )
            failures += (
                {"encoder": report.model + at, "task": task, "error": in_flags(message)}
                for task, message in suite.failures.items()
            )
    return {"unit": "fraction", "results": results, "failures": failures, "skipped": skipped}


def exit_code(reports: Sequence[EncoderReport]) -> int:
    """Return the exit code of all encoders: what they have in common, or else 1."""
    suites = {suite.exit_code for report in reports for suite in report.suites}
    codes = suites | {2 for report in reports if report.error}
    return codes.pop() if len(codes) == 1 else 1
