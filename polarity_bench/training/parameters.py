"""Parameters: frozen dataclasses with a help text and allowed values for each field.

Recipes and losses are such dataclasses. Each field is declared once. The declaration is used to
validate the value, to build the command-line options, and to write jobs as TOML. The command line
imports this module at startup, so slow imports are not allowed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import expanded

Role = Literal["moves", "place", "aside"]
"""Role of a parameter: "moves" (affects the result), "place" (a location) or "aside" (neither).

A location is a path, or the name of an encoder for `load_encoder`.
"""


class ParameterWarning(UserWarning):
    """Warning about parameters that are valid but probably a mistake."""


@dataclass(frozen=True)
class ParameterInfo:
    """Declaration of a parameter.

    Attributes:
        help: Help text, in one line.
        least: Minimum, inclusive.
        above: Minimum, exclusive.
        most: Maximum, inclusive.
        below: Maximum, exclusive.
        role: Whether the parameter affects the result, is a location, or neither.
        variants: The possible dataclasses by name, if the value is itself a dataclass.
        name: Name of the field; like the default and the type, it is read from the dataclass.
        default: Default of the field.
        hint: Type of the field.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    role: Role = "moves"
    variants: Mapping[str, type[Parameters]] | None = None
    name: str = ""
    default: Any = None
    hint: Any = None

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The allowed types of the value."""
        return get_args(self.hint) if get_origin(self.hint) in (Union, UnionType) else (self.hint,)

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The names of the variants, or else the allowed words; empty for other parameters."""
        literals = [get_args(kind) for kind in self.kinds if get_origin(kind) is Literal]
        return tuple(self.variants or (word for words in literals for word in words))

    @cached_property
    def _allowed(self) -> Any:
        """The type and the bounds for pydantic; strict, so text is not converted to numbers."""
        from pydantic import Field, InstanceOf, Strict

        instance_of: Any = InstanceOf  # mypy accepts it only in annotations

        bounds = Field(ge=self.least, gt=self.above, le=self.most, lt=self.below)

        def bounded(kind: Any) -> Any:
            if kind in (int, float):
                infinite = False if kind is float else None
                return Annotated[kind, Field(strict=True, allow_inf_nan=infinite), bounds]
            if kind is bool:
                return Annotated[kind, Strict()]
            is_class = isinstance(kind, type) and issubclass(kind, Parameters)
            return instance_of[kind] if is_class else kind

        return Union[tuple(map(bounded, self.kinds))]  # noqa: UP007  `|` takes no tuple

    def checked(self, value: Any) -> Any:
        """Validate a value, and return it as one of the allowed types.

        Raises:
            InputError: If the type, the bounds or the choices do not allow the value.
        """
        from polarity_bench.validation import validated_field

        return validated_field(self._allowed, self.name, value, self.variants or ())

    def parsed(self, text: str) -> Any:
        """Convert a text to a number if the parameter allows that type of number."""
        for kind in (int, float):
            if kind in self.kinds:
                with suppress(ValueError):
                    return kind(text)
        return text


def parameter(default: Any, help: str, **attributes: Any) -> Any:  # noqa: A002  as in every command line
    """Declare a field of `Parameters`: its default, and the attributes of its `ParameterInfo`."""
    return field(default=default, metadata={"declared": {"help": help, **attributes}})


def seed_parameter(of: str) -> Any:
    """Declare a seed from 0 to 2**32 - 1, which every random generator accepts."""
    return parameter(0, of, least=0, most=2**32 - 1)


@dataclass(frozen=True)
class Parameters:
    """A named set of parameters; one member of a family such as the losses.

    Raises:
        InputError: If a value is not allowed by the declaration of its parameter, or if a parameter
            that has no effect with the other values is not its default.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    version: ClassVar[int] = 2
    """Version of the code; increased if the same parameters give different results."""

    def __post_init__(self) -> None:
        for each in declared(type(self)):
            value = getattr(self, each.name)
            if value is not each.default:  # checking imports pydantic, which is slow
                object.__setattr__(self, each.name, each.checked(value))
        self.check_used(e.name for e in declared(type(self)) if getattr(self, e.name) != e.default)

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:  # noqa: ARG003  for subclasses
        """Return the parameters that have no effect with these values.

        Returns:
            For each such parameter, the end of the error message: the reason and the remedy.
        """
        return {}

    def check_used(self, given: Iterable[str]) -> None:
        """Check that all parameters with these names have an effect.

        Raises:
            InputError: If a parameter has no effect with the other values.
        """
        unused = self.unused(vars(self))
        for name in given:
            if name in unused:
                raise InputError(f"`{name}` {getattr(self, name)} has no effect {unused[name]}")

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings to show to the user before these parameters are used."""
        return ()

    @property
    def words(self) -> str:
        """Name and parameters, for model cards, without those that are None or have no effect."""
        left_out = {"name", *self.unused(vars(self))}
        values = self.to_dict("moves")
        values |= {key: v.words for key, v in vars(self).items() if isinstance(v, Parameters)}
        listed = [f"{k} {v}" for k, v in values.items() if v is not None and k not in left_out]
        return f"{self.name} ({', '.join(listed)})" if listed else self.name

    def to_dict(self, *roles: Role) -> dict[str, Any]:
        """Return the name and the parameters as JSON values, optionally of certain roles only."""
        values: dict[str, Any] = {"name": self.name}
        for each in declared(type(self)):
            value = getattr(self, each.name)
            if not roles or each.role in roles:
                if isinstance(value, Parameters):
                    value = value.to_dict(*roles)
                values[each.name] = str(value) if isinstance(value, Path) else value
        return values

    def resolve_paths(self, folder: Path) -> Self:
        """Return a copy in which all relative paths are resolved relative to `folder`.

        This includes the folders of encoders.
        """
        from polarity_bench.encoders.load import resolve_name

        changed: dict[str, Any] = {}
        for each in declared(type(self)):
            value = resolved = getattr(self, each.name)
            if isinstance(value, Parameters):
                resolved = value.resolve_paths(folder)
            elif isinstance(value, Path):
                resolved = folder / expanded(value)
            elif isinstance(value, str) and each.role == "place":
                resolved = resolve_name(value, folder)
            if resolved is not value and resolved != value:
                changed[each.name] = resolved
        return replace(self, **changed) if changed else self

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Create an instance from the result of `to_dict`; missing parameters get their defaults.

        If a variant has no name, the default variant is used, or the first one if there is no
        default.

        Raises:
            InputError: If a parameter is unknown, invalid, or missing without a default.
        """
        known = {each.name: each for each in declared(cls)}
        given = {key: value for key, value in values.items() if key != "name"}
        for key, value in given.items():
            problem = f"unknown parameter {key!r} of the {cls.family} {cls.name!r}"
            check_known(key, known, problem)
            if variants := known[key].variants:
                if not isinstance(value, Mapping):
                    raise InputError(
                        f"`{key}`: expected a table such as {{name = {next(iter(variants))!r}}}, "
                        f"got {value!r}"
                    )
                usual = getattr(known[key].default, "name", next(iter(variants)))
                given[key] = chosen(variants, value.get("name", usual)).from_dict(value)
        for key, each in known.items():
            if each.default is MISSING and key not in given:
                raise InputError(f"the {cls.family} {cls.name!r} needs the parameter {key!r}")
        return cls(**given)


P = TypeVar("P", bound=Parameters)


_DECLARED: dict[type, Sequence[ParameterInfo]] = {}


def declared(cls: type[Parameters]) -> Sequence[ParameterInfo]:
    """Return the declarations of a dataclass's parameters, in order; results are cached."""
    if cls not in _DECLARED:
        hints = get_type_hints(cls)
        _DECLARED[cls] = tuple(
            ParameterInfo(**attributes, name=each.name, default=each.default, hint=hints[each.name])
            for each in fields(cls)
            if (attributes := each.metadata.get("declared"))
        )
    return _DECLARED[cls]


def flattened(cls: type[Parameters]) -> dict[str, list[ParameterInfo]]:
    """Return all declarations by parameter name, including the parameters of all variants."""
    by_name: dict[str, list[ParameterInfo]] = {}
    for each in declared(cls):
        by_name.setdefault(each.name, []).append(each)
        for variant in (each.variants or {}).values():
            for inner, several in flattened(variant).items():
                by_name.setdefault(inner, []).extend(several)
    return by_name


def chosen(family: Mapping[str, type[P]], name: Any) -> type[P]:
    """Return the member of a family with this name.

    Raises:
        InputError: If the name is unknown. The message suggests similar names.
    """
    if name not in [*family]:  # a list, because a name from a file may be unhashable
        what = next(iter(family.values())).family
        raise InputError(f"`{what}`: unknown {what} {name!r}{nearest(str(name), family)}")
    return family[name]


def from_flat(family: Mapping[str, type[P]], name: str, given: Mapping[str, Any]) -> P:
    """Create a member of a family from a flat mapping that includes parameters of its variants.

    Raises:
        InputError: If a parameter does not belong to this member. The message names the members
            with that parameter.
    """
    cls = chosen(family, name)
    own = flattened(cls)
    for key, value in given.items():
        if key not in own:
            takers = [other for other, member in family.items() if key in flattened(member)]
            raise InputError(
                f"`{key}` {value}: the {cls.family} {name!r} has no such parameter; use one of "
                f"{', '.join(takers)}, or omit `{key}`"
            )
    values = {}
    for each in declared(cls):
        if each.variants:
            theirs = {key for member in each.variants.values() for key in flattened(member)}
            inner = {key: value for key, value in given.items() if key in theirs}
            variant = given.get(each.name, each.default.name)
            values[each.name] = from_flat(each.variants, variant, inner)
        elif each.name in given:
            values[each.name] = given[each.name]
    return cls(**values)
