"""Task files: TOML in, a checked `TaskSpec` out.

A task is a file of data. Unknown keys are refused with the nearest known one, and every message
names the file. What moves a number goes into `TaskSpec.digest`; titles and addresses do not.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from polarity_bench.errors import InputError, nearest
from polarity_bench.spec.kinds import (
    KINDS,
    PolaritySpec,
    RelatednessSpec,
    StsSpec,
    TaskSpec,
    TransferSpec,
)
from polarity_bench.spec.parts import (
    Archive,
    CountedFile,
    FileRef,
    FormatSpec,
    HubRef,
    PolarityProtocol,
    SplitSpec,
)

__all__ = [
    "Archive",
    "CountedFile",
    "FileRef",
    "FormatSpec",
    "HubRef",
    "PolarityProtocol",
    "PolaritySpec",
    "RelatednessSpec",
    "SplitSpec",
    "StsSpec",
    "TaskSpec",
    "TransferSpec",
    "nearest",
    "read_task",
]


def read_task(path: Path) -> TaskSpec:
    """Read and check one task file.

    Raises:
        InputError: If the file is no TOML, or what it says is not a task; names the file.
    """
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file: {error}") from error
    kind = values.get("kind")
    if kind not in KINDS:
        problem = "'kind' is missing" if kind is None else f"unknown kind {kind!r}"
        raise InputError(f"{path}: {problem}{nearest(str(kind), KINDS)}")
    try:
        return KINDS[kind].model_validate({"file": path} | values)
    except ValidationError as error:
        raise InputError(f"{path}: {_first_problem(error, KINDS[kind])}") from error


def _first_problem(error: ValidationError, model: type[TaskSpec]) -> str:
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    first = next(unknown, problems[0])  # a misspelt key is also missing; its spelling says more
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1], model))}"
    if first["type"] == "missing":
        return f"'{where}' is missing"
    got = "" if first["type"] == "value_error" else f", got {_short(first['input'])}"
    message = re.sub(r"^Value error, ", "", first["msg"])
    return f"'{where}': {message}{got}" if where else message


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _keys_at(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys that the table at this place of a task file may have."""
    tables: dict[str, type[BaseModel]] = {
        "format": FormatSpec,
        "protocol": PolarityProtocol,
        "label_file": FileRef,
        "hub": HubRef,
        "source": SplitSpec,
        "query": SplitSpec,
        "archive": Archive,
    }
    if location[:1] == ("files",):
        return sorted(CountedFile.model_fields)
    if location == ("splits",):
        return ["source", "query"]
    for part in location:
        model = tables.get(str(part), model)
    return sorted(set(model.model_fields) - {"file"})
