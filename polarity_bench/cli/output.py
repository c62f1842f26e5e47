"""Output of commands: results on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polarity_bench.values import printable

if TYPE_CHECKING:
    from rich.progress import Task as ProgressTask

    from polarity_bench.compare.encoder_ranks import Standings
    from polarity_bench.evaluation.many_encoders import EncoderReport
    from polarity_bench.evaluation.many_tasks import SuiteReport
    from polarity_bench.progress import Progress
    from polarity_bench.results.curve import Dial
    from polarity_bench.results.result_files import Result
    from polarity_bench.tasks.types.base import Task

AsJson = Annotated[bool, "Print the output, or an error, as JSON.", "--json"]

LINE_SECONDS = 30.0
"""Seconds between progress lines if stderr is not a terminal."""


def fields_to_flags(message: str) -> str:
    """Replace field names in backticks by the flags of the running command."""
    return re.sub(r"`(\w+)`", lambda named: _flags.get(named[1], named[0]), message)


def name_options(flags: Mapping[str, str]) -> None:
    """Store the flags of the running command, keyed by option name, for `fields_to_flags`."""
    _flags.clear()
    _flags.update(flags)


_flags: dict[str, str] = {}
"""Flags of the running command, keyed by option name."""


def remark_draws(tasks: Iterable[Task]) -> None:
    """Print a remark for each task that uses only a sample of its sources."""
    for task in tasks:
        if n_pool := task.counts.get("drawn from"):
            drawn = f"{task.counts['sources']:,} of {n_pool:,} sources sampled"
            remark(f"{task.spec.name}: {drawn} (see sources_per_query in the task file)")


def remark_unknown_ranks(folder: Path, standings: Standings | None) -> None:
    """Report that ranks are unknown, with the first file of values per query that is missing."""
    if standings is not None and standings.unknown:
        missing = list(dict.fromkeys(standings.unknown))
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        remark(f"{folder}: some ranks are unknown: {missing[0]}{more}")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Progress]:
    """Show progress on stderr while the context is open.

    On a terminal, show a bar with the time left. Otherwise, print a line every half minute.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    # Not the console's `is_terminal`: FORCE_COLOR, which CI sets, makes it true for logs.
    is_terminal = sys.stderr.isatty()
    bar = RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        speed_estimate_period=math.inf,
        redirect_stdout=sys.stdout.isatty(),  # above the bar, but not out of a file or a pipe
        disable=not is_terminal,
    )
    task = bar.add_task(printable(title), total=total)
    with bar if is_terminal else _progress_lines(bar.tasks[0]):
        yield lambda done: bar.advance(task, done)


def announced_bar(title: str, total: int) -> AbstractContextManager[Progress]:
    """Open a `progress_bar`. If stderr is not a terminal, print the title and total at once."""
    if not sys.stderr.isatty():
        remark(f"{title}: {total:,} in all")
    return progress_bar(title, total)


@contextmanager
def _progress_lines(task: ProgressTask) -> Iterator[None]:
    """Print a line every half minute, from a thread, because a single step may take longer."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(LINE_SECONDS):
            pace = ""
            if rate := task.speed:  # excludes the first step, which may count earlier work
                speed = f"{1 / rate:,.1f} seconds each" if rate < 1 else f"{rate:,.1f} per second"
                pace = f", {speed}, {duration(task.time_remaining or 0)} left"
            remark(f"{task.description}: {task.completed:,.0f} of {task.total:,.0f}{pace}")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def remark(text: str) -> None:
    """Print a remark on stderr, with field names replaced by flags.

    Control characters are escaped, because names from files may contain them.
    """
    print(printable(fields_to_flags(text)), file=sys.stderr, flush=True)


@contextmanager
def warnings_as_remarks(category: type[Warning]) -> Iterator[None]:
    """Print each distinct warning of a category once, as a remark."""
    show, shown = warnings.showwarning, set[str]()

    def show_remark(message: Warning | str, kind: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(kind, category):
            if str(message) not in shown:  # the filters tell places apart, not only texts
                remark(f"warning: {message}")
            shown.add(str(message))
        else:
            show(message, kind, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("default", category)
        warnings.showwarning = show_remark  # type: ignore[assignment]  # mypy expects named parameters
        yield


def print_tables(text: str) -> None:
    """Print tables. On a terminal, replace field names in them by flags, and undo escapes."""
    if sys.stdout.isatty():
        from polarity_bench.render.markdown import unescape

        text = unescape(fields_to_flags(text))
    print(text, flush=True)


def json_text(value: Any) -> str:
    """Return a value as indented JSON. NaN becomes null, and a path becomes a string."""
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, inf_nan_mode="null", fallback=dict)
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_file(file: Path, content: bytes) -> None:
    """Write a file that the user named, and print a remark."""
    from polarity_bench.files import write_atomically

    write_atomically(file, content)
    remark(f"wrote {file}")


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    print(json_text(value), end="")


@dataclass(frozen=True)
class OutputFlags:
    """Options for printing results."""

    wide: Annotated[bool, "Do not fit tables to the width of the terminal."] = False
    as_json: AsJson = False

    @property
    def width(self) -> int | None:
        """Maximum width of tables in characters; None if unlimited."""
        is_bound = sys.stdout.isatty() and not self.wide
        return shutil.get_terminal_size().columns if is_bound else None

    def show(self, value: Callable[[], Any], text: Callable[[], str]) -> None:
        """Print the value as JSON with `--json`, and the text otherwise.

        Args:
            value: Function that returns the value; only called with `--json`.
            text: Function that returns the text; only called without `--json`.
        """
        if self.as_json:
            print_json(value())
        else:
            print_tables(text())


JsonFlags = Annotated[OutputFlags, ("as_json",)]


def print_report(
    report: EncoderReport,
    output: OutputFlags,
    weighting: str,
    columns: Sequence[str] = (),
) -> None:
    """Print the tables of an encoder, its failures and the names of reused results."""
    from polarity_bench.boards.run_report import tables
    from polarity_bench.render.markdown import section

    results = report.results
    if results and not output.as_json:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        encoder = results[0].key.encoder
        title = encoder.label if len(report.suites) == 1 else encoder.stored.label
        print(f"{title}, reference: {name}\n")
        order = list(dict.fromkeys(result.task for result in results))
        results.sort(key=lambda result: order.index(result.task))
        shown = tables(results, weighting, columns)
        has_intervals = any(any(each.intervals) for table in shown for each in table.columns)
        reading = _how_to_read(results, weighting, has_intervals)
        print_tables("\n\n".join([*(section(t, output.width) for t in shown), reading]) + "\n")
    for suite in report.suites:
        for warning in suite.warnings:
            remark(f"warning: {warning}")
        for task, message in suite.failures.items():
            remark(f"error: {task} failed: {message}")
    if reused := dict.fromkeys(name for suite in report.suites for name in suite.reused):
        names = ", ".join(reused)
        remark(f"reused stored results (to recompute them, use --overwrite): {names}")
    for label, usage in [pair for suite in report.suites for pair in suite.usage.items()]:
        remark(
            f"{label}: {usage.n_texts:,} texts, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )
        if usage.n_at_limit:
            remark(
                f"{label}: {usage.n_at_limit:,} of the encoded texts reach the limit of tokens "
                "(`max_tokens`); the encoder does not read what is beyond it"
            )


def _how_to_read(results: Sequence[Result], weighting: str, has_intervals: bool) -> str:
    """Return the explanation below the tables."""
    from polarity_bench.scores import WEIGHTINGS
    from polarity_bench.tasks.catalogue import KINDS

    ranked = any(KINDS[result.kind].has_k for result in results)
    is_usual = not ranked or weighting == "linear"
    weights = "" if is_usual else f"; {WEIGHTINGS[weighting].explanation}"
    alike = " Compare S, retention and joint only under one reference encoder." if ranked else ""
    ends = ", [95 % interval]" if has_intervals else ""
    return f"Percent{ends}{weights}.{alike}"


def write_and_print_curves(
    name: str,
    dial: Dial,
    reports: Mapping[float, SuiteReport],
    folder: Path,
    output: OutputFlags,
    weighting: str,
) -> list[Path]:
    """Write and print the curve of every polarity task.

    Args:
        name: Name of the curve.
        dial: Variable of the curve: `strength` or `weight`.
        reports: Results, keyed by the value of the variable.
        folder: Folder of the results.
        output: Output options. With `--json`, no tables are printed.
        weighting: Weighting of the ranks in the tables.

    Returns:
        The files of the curves.
    """
    from polarity_bench.boards.run_report import curve_table
    from polarity_bench.render.markdown import section
    from polarity_bench.results.curve_files import read_curve, write_curves

    paths = write_curves(name, dial, {at: report.results for at, report in reports.items()}, folder)
    for path in [] if output.as_json else paths:
        print_tables(section(curve_table(read_curve(path), weighting), output.width) + "\n")
    return paths


def curves_as_json(files: Iterable[Path]) -> list[dict[str, object]]:
    """Read the files of curves as JSON objects, and add the path of each file."""
    from polarity_bench.files import read_json

    return [read_json(file) | {"file": file} for file in files]


def reports_as_json(
    reports: Iterable[EncoderReport], skipped: Mapping[str, str]
) -> dict[str, object]:
    """Return results and failures as a JSON object.

    If an encoder could not be loaded, its failure has the task None.
    """
    from polarity_bench.boards.run_report import as_json
    from polarity_bench.values import shortest

    results: list[dict[str, object]] = []
    failures: list[dict[str, object]] = []
    for report in reports:
        if report.error:
            error = fields_to_flags(str(report.error))
            failures.append({"encoder": report.model, "task": None, "error": error})
        for strength, suite in report.by_strength.items():
            at = "" if strength is None else f" (strength {shortest(strength)})"
            results += (
                as_json(result) | {"file": result.path, "reused": result.task in suite.reused}
                for result in suite.results
            )
            failures += (
                {"encoder": report.model + at, "task": task, "error": fields_to_flags(message)}
                for task, message in suite.failures.items()
            )
    return {"unit": "fraction", "results": results, "failures": failures, "skipped": skipped}


def exit_code(reports: Sequence[EncoderReport]) -> int:
    """Return the exit code that all encoders share, or 1 if their exit codes differ."""
    suites = {suite.exit_code for report in reports for suite in report.suites}
    codes = suites | {2 for report in reports if report.error}
    return codes.pop() if len(codes) == 1 else 1
