"""Checks of values that users write in files, by pydantic, with the first problem as an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from polarity_bench.errors import InputError, nearest

T = TypeVar("T")

_WORDS = {
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a table"),
    "string_type": "must be text",
}
"""What is wrong, by pydantic's name of the problem; all others get pydantic's own sentence."""


class Strict(BaseModel):
    """Base of tables that refuse unknown keys; the text below a field is its help in the docs.

    The conditions of validators are repeated in `json_schema_extra`, as far as a JSON schema can
    express them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def one_of(choices: Iterable[str]) -> AfterValidator:
    """Return a check that a text is one of these choices, which suggests similar ones."""
    known = list(choices)

    def check(value: str) -> str:
        if value not in known:
            raise ValueError(f"unknown value {value!r}{nearest(value, known)}")
        return value

    return AfterValidator(check)


def validated(model: type[T], values: Any) -> T:
    """Return values as a model or another type.

    Raises:
        InputError: If they are invalid. The message names the first wrong key and its value, and
            suggests similar keys and choices.
    """
    try:
        checked: T = TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        raise InputError(_first_problem(error, model)) from error
    return checked


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _first_problem(error: ValidationError, model: Any) -> str:
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    # A misspelt key is reported as unknown and as missing; the first report is more helpful.
    first = next(unknown, problems[0])
    problem, context = first["type"], first.get("ctx", {})
    where = ".".join(str(part) for part in first["loc"])
    if problem == "extra_forbidden":
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1], model))}"
    if problem == "missing":
        return f"'{where}' is missing"
    value = repr(first["input"])
    shown = value if len(value) <= 80 else value[:79] + "…"
    if problem in _WORDS:
        return f"'{where}' {_WORDS[problem].format(**context)}, got {shown}"
    if problem == "literal_error":
        choices = filter(None, re.findall(r"'(.*?)'", context["expected"]))
        return f"'{where}': unknown value {shown}{nearest(str(first['input']), choices)}"
    got = "" if problem == "value_error" else f", got {shown}"
    message = re.sub(r"^Value error, ", "", first["msg"])
    return f"'{where}': {message}{got}" if where else message


def _keys_at(location: Sequence[int | str], model: Any) -> list[str]:
    """Return the keys that the table at this location may have."""
    table = _table_in(model)
    for part in location:
        inner = table.model_fields.get(str(part)) if table else None
        if inner is not None:  # else a key of a mapping whose table is already in `table`
            table = _table_in(inner.annotation) or table
    return sorted(set(table.model_fields) - {"file"}) if table else []


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a type holds, directly or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for table in map(_table_in, get_args(annotation)) if table), None)
