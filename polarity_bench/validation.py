"""Validation of values from files by pydantic, with the first problem as an InputError."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from polarity_bench.errors import InputError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

_WORDS = {
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
    **dict.fromkeys(("path_type", "path_parsing"), "a path"),
    "string_type": "text",
    "finite_number": "finite",
    **dict.fromkeys(("string_too_short", "too_short"), "non-empty"),
}
"""What a value must be, by pydantic's type of error; other errors keep pydantic's message."""

_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number")
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


class Strict(BaseModel):
    """Base of tables that refuse unknown keys; the docstring of a field is its help in the docs.

    The conditions of validators are repeated in `json_schema_extra`, as far as a JSON schema can
    express them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def one_of(choices: Iterable[str]) -> AfterValidator:
    """Return a check that a text is one of these choices; its error suggests similar choices."""
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
    adapted: Any = model  # as hashable as any class, which mypy does not know
    try:
        checked: T = _adapter(adapted).validate_python(values)
    except ValidationError as error:
        raise InputError(_first_problem(error, model)) from error
    return checked


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def validated_field(allowed: Any, name: str, value: Any, choices: Iterable[str] = ()) -> Any:
    """Return a value as one of the allowed types.

    Args:
        allowed: A type, or a union of types.
        name: Name of the field.
        value: The value.
        choices: Names to suggest, for types that are chosen by name.

    Raises:
        InputError: If the value has none of these types; names the field in backticks.
    """
    try:
        return _adapter(allowed).validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # A number out of bounds also fails to match the words in the union; report only the bounds.
        bounds = [each for each in problems if each["type"] in _BOUNDS]
        raise InputError(_describe(bounds or problems, f"`{name}`", choices)) from error


def _first_problem(error: ValidationError, model: Any) -> str:
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] in _UNKNOWN)
    # A misspelt key is reported as unknown and as missing; the first report is more helpful.
    first = next(unknown, problems[0])
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] in _UNKNOWN:
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1], model))}"
    if first["type"] == "missing":
        return f"'{where}' is missing"
    return _describe([first], f"'{where}'" if where else "")


def _describe(problems: Sequence[ErrorDetails], where: str, named: Iterable[str] = ()) -> str:
    """Describe what is wrong with a value; each member of a union has a problem of its own."""
    value = problems[0]["input"]
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:79] + "…"
    choices, expected = list(named), []
    for each in problems:
        problem, context = each["type"], each.get("ctx", {})
        if problem == "literal_error":
            choices += filter(None, re.findall(r"'(.*?)'", context["expected"]))
        elif problem in _WORDS:
            expected.append(_WORDS[problem].format(**context))
        elif problem == "value_error":
            return ": ".join(filter(None, [where, re.sub("^Value error, ", "", each["msg"])]))
        elif problem not in ("none_required", "is_instance_of"):
            return f"{where}: {each['msg']}, got {shown}"
    near = nearest(str(value), choices) if choices else ""
    if not expected:
        return f"{where}: unknown value {shown}{near}"
    listed = " or ".join([*dict.fromkeys(expected), *map(repr, choices)])
    return f"{where} must be {listed}, got {shown}{near}"


def _keys_at(location: Sequence[int | str], model: Any) -> list[str]:
    """Return the keys that the table at this location may have."""
    if is_dataclass(model):
        return [each.name for each in fields(model)]
    table = _table_in(model)
    for part in location:
        inner = table.model_fields.get(str(part)) if table else None
        if inner is not None:  # else a key of a mapping whose table is already in `table`
            table = _table_in(inner.annotation) or table
    return sorted({f.alias or n for n, f in table.model_fields.items()} - {"file"}) if table else []


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a type holds, directly or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for table in map(_table_in, get_args(annotation)) if table), None)
