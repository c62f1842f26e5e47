"""Parsing and checks of option values, and loading of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from polarity_bench.cli.output import fields_to_flags, remark, remark_draws
from polarity_bench.errors import InputError, MissingDataError
from polarity_bench.files import check_writable

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.tasks.types.base import Settings, Task, TaskSpec


N = TypeVar("N", int, float)


def parse_strengths(text: str | None) -> list[float]:
    """Parse strengths separated by commas; return [] for None.

    Raises:
        InputError: If a strength is not a finite number, or is given twice.
    """
    strengths: list[float] = []
    for part in text.split(",") if text is not None else ():
        try:
            value = float(part)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"`strength` {text}: expected numbers such as -1,0,0.5,1, got {part!r}"
            )
        if value in strengths:
            raise InputError(f"`strength` {text}: {part} is given twice")
        strengths.append(value + 0.0)  # turns -0.0 into 0.0
    return strengths


def worker_count(workers: int | None) -> int:
    """Return the number of processes that fit classifiers; None means one per core."""
    from joblib import cpu_count

    return cpu_count() if workers is None else workers


def split_names(names: str | None) -> list[str]:
    """Split a comma-separated string into names.

    Surrounding whitespace and empty names are dropped.
    """
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def required_names(field: str, text: str) -> list[str]:
    """Split a comma-separated string into distinct names.

    Raises:
        InputError: If there are no names; the message names the option `field`.
    """
    names = list(dict.fromkeys(split_names(text)))
    if not names:
        raise InputError(f"`{field}`: expected names separated by commas, got {text!r}")
    return names


def parse_numbers(field: str, text: str | None, kind: type[N]) -> tuple[N, ...]:
    """Parse integers or decimal numbers separated by commas.

    Raises:
        InputError: If a part is not a number of this kind; the message names the option `field`.
    """
    try:
        return tuple(kind(part) for part in split_names(text))
    except ValueError as error:
        what = "integers" if kind is int else "numbers"
        raise InputError(f"`{field}`: expected {what} separated by commas, got {text}") from error


def check_file(
    field: str, file: Path | None, ends: Sequence[str] = (), *, make_folder: bool = False
) -> None:
    """Check that the output file of an option can be written.

    Args:
        field: Name of the option, for error messages.
        file: The file; None is not checked.
        ends: Allowed suffixes; () allows all.
        make_folder: Whether to create the file's folder if it does not exist.

    Raises:
        InputError: If the suffix is wrong, or the file cannot be written.
    """
    if file is None:
        return
    if ends and file.suffix not in ends:
        raise InputError(f"`{field}` {file}: the file name must end in {' or '.join(ends)}")
    if file.is_dir():
        raise InputError(f"`{field}` {file}: expected a file, got a folder")
    if make_folder:
        check_writable(file.parent, field)
    elif not file.parent.is_dir():
        raise InputError(f"`{field}` {file}: the folder {file.parent} does not exist")


def load_data(
    specs: Sequence[TaskSpec], access: DataAccess, settings: Settings, skip_missing: bool
) -> tuple[list[Task], dict[str, str]]:
    """Load tasks with their data.

    Args:
        specs: The tasks to load.
        access: Permitted sources of the data.
        settings: Settings of the tasks.
        skip_missing: Whether to skip tasks whose data is missing. The skipped tasks are reported.

    Returns:
        The loaded tasks, and an error message for each skipped task, keyed by its name.

    Raises:
        InputError: If the data of a task is missing and `skip_missing` is not set, or if the data
            of all tasks is missing.
    """
    loaded, missing, named = [], {}, dict[str, list[str]]()
    for spec in specs:
        try:
            loaded.append(spec.load(access, settings))
        except MissingDataError as error:
            missing[spec.name] = fields_to_flags(str(error))
            named.setdefault(missing[spec.name], []).append(spec.name)
    reasons = [
        why if all(name in why for name in of) else f"{why} ({', '.join(of)})"
        for why, of in named.items()
    ]
    if missing and not (skip_missing and loaded):
        message = "\nerror: ".join(reasons)
        if skip_missing:
            message += "\nerror: the data of every task is missing"
        elif loaded:
            there = ", ".join(task.spec.name for task in loaded)
            message += f"\nerror: to run only the other tasks, use `skip_missing`: {there}"
        raise InputError(message)
    for why in reasons:
        remark(f"skipped: {why}")
    remark_draws(loaded)
    return loaded, missing
