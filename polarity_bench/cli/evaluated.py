"""What commands that evaluate share: loading what is asked for, showing what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polarity_bench.cli import shared
from polarity_bench.errors import InputError, MissingDataError
from polarity_bench.types import Weighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polarity_bench.curves.curve import Dial
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import Settings, Task, TaskSpec
    from polarity_bench.suite import SuiteReport
    from polarity_bench.types import Encoder


def load_data(
    specs: Sequence[TaskSpec], access: DataAccess, settings: Settings, skip_missing: bool
) -> tuple[list[Task], dict[str, str]]:
    """Load tasks; say which lack their data, and go on without them or not at all."""
    loaded, missing = [], {}
    for spec in specs:
        try:
            loaded.append(spec.load(access, settings))
        except MissingDataError as error:
            missing[spec.name] = shared.in_flags(str(error))
    if missing and not (skip_missing and loaded):
        said = "\nerror: ".join(missing.values())
        if skip_missing:
            said += "\nerror: the data of every task is missing"
        elif loaded:
            there = ", ".join(task.spec.name for task in loaded)
            said += f"\nerror: `skip_missing` goes on with the others: {there}"
        raise InputError(said)
    for message in missing.values():
        shared.remark(f"skipped: {message}")
    return loaded, missing


def encoder_and_reference(
    model: str, options: EncoderOptions, reference: str | None, common: EncoderOptions
) -> tuple[Encoder, Encoder | None]:
    """Load an encoder, and the reference: the one named, or the base of what was trained."""
    from polarity_bench.encoders.base import distinct_base
    from polarity_bench.training.folder import base_of
    from polarity_bench.types import AbsentEncoder

    found = base_of(model)  # a run that has not finished holds no encoder to be loaded
    encoder = shared.load_and_announce(model, options)
    if reference is None:
        base = distinct_base(encoder, found)
        loaded = base.load(common) if base else None
        if isinstance(loaded, AbsentEncoder):
            shared.remark(shared.in_flags(f"warning: {model}: {loaded.why}"))
        elif loaded:
            shared.remark(f"reference: {loaded.id.label}, the base of {model}")
        return encoder, loaded
    other = shared.load_and_announce(reference, common)
    if encoder.id.prompt and not other.id.prompt:
        shared.remark(f"{reference} encodes without a prompt, {model} with {encoder.id.prompt!r}")
    return encoder, other


def print_reports(
    reports: Sequence[SuiteReport], weighting: Weighting, as_json: bool, width: int | None
) -> None:
    """Print the tables of an encoder, at one strength or several, what was reused, what failed."""
    from polarity_bench.boards.markdown import section
    from polarity_bench.boards.report import tables

    results = [result for report in reports for result, _ in report.results]
    if results and not as_json:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        encoder = results[0].key.encoder
        title = encoder.label if len(reports) == 1 else encoder.stored.label
        print(f"{title}, reference: {name}\n")
        order = list(dict.fromkeys(result.task for result in results))
        results.sort(key=lambda result: order.index(result.task))
        sections = [section(table, width) for table in tables(results, weighting)]
        shared.print_tables("\n\n".join(sections) + "\n")
    for report in reports:
        for task, message in report.failures.items():
            shared.remark(shared.in_flags(f"error: {task} failed: {message}"))
    if reused := dict.fromkeys(name for report in reports for name in report.reused):
        names = ", ".join(reused)
        shared.remark(f"already there and current, not made again (--overwrite would): {names}")
    for label, usage in [pair for report in reports for pair in report.usage.items()]:
        shared.remark(
            f"{label}: {usage.n_texts:,} texts asked for, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )


def write_and_print_curves(
    name: str,
    dial: Dial,
    reports: Mapping[float, SuiteReport],
    output: Path,
    weighting: Weighting,
    as_json: bool,
    width: int | None,
) -> list[dict[str, object]]:
    """Write and print the curve of every polarity task; return the curves for JSON.

    Args:
        name: Whose curve it is.
        dial: What was turned.
        reports: What became of the tasks, by where the dial stood.
        output: Folder of the results.
        weighting: Of the ranks, in the tables.
        as_json: Print nothing.
        width: Of the tables.
    """
    from polarity_bench.boards.markdown import section
    from polarity_bench.boards.report import curve_table
    from polarity_bench.curves.files import read_curve, write_curves
    from polarity_bench.files import read_json

    stored = {at: report.results for at, report in reports.items()}
    paths = write_curves(name, dial, stored, output)
    for path in [] if as_json else paths:
        shared.print_tables(section(curve_table(read_curve(path), weighting), width) + "\n")
    return [read_json(path) | {"file": str(path)} for path in paths]


def reports_as_json(
    reports: Mapping[str, SuiteReport | str], skipped: Mapping[str, str]
) -> dict[str, object]:
    """Lay out what became of the encoders; a failure without a task is that of an encoder."""
    from polarity_bench.boards.report import as_json

    results: list[dict[str, object]] = []
    failures: list[dict[str, object]] = []
    for model, report in reports.items():
        if isinstance(report, str):
            failures.append({"encoder": model, "task": None, "error": report})
            continue
        results += (
            as_json(result) | {"file": str(path), "reused": result.task in report.reused}
            for result, path in report.results
        )
        failures += (
            {"encoder": model, "task": task, "error": shared.in_flags(message)}
            for task, message in report.failures.items()
        )
    return {"unit": "fraction", "results": results, "failures": failures, "skipped": skipped}


def exit_code(reports: Iterable[SuiteReport | str]) -> int:
    """Return the exit code of all encoders: what they have in common, or else 1."""
    codes = {2 if isinstance(report, str) else report.exit_code for report in reports}
    return codes.pop() if len(codes) == 1 else 1
