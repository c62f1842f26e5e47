"""Validation of values from files with pydantic; the first problem raises InputError."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    TypeAdapter,
    ValidationError,
)

from polarity_bench.errors import InputError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

NullableFloat = Annotated[
    float, BeforeValidator(lambda value: math.nan if value is None else value)
]
"""Float of a file in which null stands for NaN."""

LAST_SEED = 2**32 - 1
"""Largest seed that every random generator accepts."""
Seed = Annotated[StrictInt, Field(ge=0, le=LAST_SEED)]

_WORDS = {
    "greater_than": "above {gt:.12g}",
    "greater_than_equal": "at least {ge:.12g}",
    "less_than": "below {lt:.12g}",
    "less_than_equal": "at most {le:.12g}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
    **dict.fromkeys(("path_type", "path_parsing"), "a path"),
    "string_type": "text",
    "finite_number": "finite",
    **dict.fromkeys(("string_too_short", "too_short"), "non-empty"),
}
"""Expected values, keyed by pydantic's error type. Other errors keep pydantic's message."""

_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number")
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


class Strict(BaseModel):
    """Base class of models that reject unknown keys. Docstrings of fields are shown in the docs.

    Subclasses repeat the conditions of their validators in `json_schema_extra`, if a JSON schema
    can express the condition.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def one_of(choices: Callable[[], Collection[str]]) -> AfterValidator:
    """Return a pydantic validator that accepts only these choices.

    For other values, the error message suggests similar choices.

    Args:
        choices: Function that returns the choices. It is called for each value, because registers
            are read only when they are needed.
    """

    def check(value: str) -> str:
        if value not in choices():
            raise ValueError(f"unknown value {value!r}{nearest(value, choices())}")
        return value

    return AfterValidator(check)


def validated(model: type[T], values: Any) -> T:
    """Return values converted to a model or another type.

    Args:
        model: The type, such as a subclass of `Strict`.
        values: The values, for example a dictionary from a TOML file.

    Raises:
        InputError: If a value is invalid. The message names the first wrong key and its value, and
            suggests similar keys and choices.
    """
    adapted: Any = model  # mypy does not know that a class is hashable
    try:
        checked: T = _adapter(adapted).validate_python(values)
    except ValidationError as error:
        raise InputError(_first_problem(error, model)) from error
    return checked


def as_json(record: Any) -> Any:
    """Return a record as JSON values, as its type declares them. NaN becomes None."""
    declared: Any = type(record)
    return json.loads(_adapter(declared).dump_json(record))


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def validated_field(allowed: Any, name: str, value: Any, choices: Iterable[str] = ()) -> Any:
    """Return a value converted to an allowed type.

    Args:
        allowed: A type, or a union of types.
        name: Name of the field.
        value: The value.
        choices: Names to suggest if the value is the name of a type.

    Raises:
        InputError: If the value has none of the types. The message names the field in backticks.
    """
    try:
        return _adapter(allowed).validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # A number out of bounds also fails the other types of a union. Report only the bounds.
        bounds = [each for each in problems if each["type"] in _BOUNDS]
        raise InputError(_describe(bounds or problems, f"`{name}`", choices)) from error


def _first_problem(error: ValidationError, model: Any) -> str:
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] in _UNKNOWN)
    # pydantic reports a misspelt key as unknown and as missing. "Unknown" is more helpful.
    first = next(unknown, problems[0])
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] in _UNKNOWN:
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1], model))}"
    if first["type"] == "missing":
        return f"'{where}' is missing"
    return _describe([first], f"'{where}'" if where else "")


def _describe(problems: Sequence[ErrorDetails], where: str, named: Iterable[str] = ()) -> str:
    """Return an error message about one value.

    Args:
        problems: Problems of the value, one for each member if its type is a union.
        where: Place of the value, for the start of the message.
        named: Names to suggest.
    """
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
    """Return the allowed keys of the table at a location in a model or dataclass."""
    if is_dataclass(model):
        return [each.name for each in fields(model)]
    table = _table_in(model)
    for part in location:
        inner = table.model_fields.get(str(part)) if table else None
        if inner is not None:  # otherwise a key of a mapping, whose values have the type `table`
            table = _table_in(inner.annotation) or table
    return sorted({f.alias or n for n, f in table.model_fields.items()} - {"file"}) if table else []


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the pydantic model in a type annotation, such as `Model` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for table in map(_table_in, get_args(annotation)) if table), None)
