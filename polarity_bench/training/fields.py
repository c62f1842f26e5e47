"""Parameters: frozen dataclasses that say of each field what it means and what it may be.

Recipes and losses are such. What a field says is said once: the value is checked when the
dataclass is made, the command line builds its options from it, a job is written to TOML by it.
Nothing heavy is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
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

from polarity_bench.errors import InputError, nearest

Role = Literal["moves", "place", "aside"]
"""Whether a parameter decides what comes out, is the place of what does, or neither."""

_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", Path: "a path"}


class ParameterWarning(UserWarning):
    """Parameters that can be used, though hardly anyone would mean them."""


def parameter(
    default: Any,
    help: str,  # noqa: A002  as in every command line
    *,
    least: float | None = None,
    above: float | None = None,
    role: Role = "moves",
    variants: Mapping[str, type[Parameters]] | None = None,
) -> Any:
    """Declare a field of `Parameters`.

    Args:
        default: Its default; None where what it is depends on the rest.
        help: What it is, in a line.
        least: The least number that it may be.
        above: What it must be greater than.
        role: What it decides.
        variants: The dataclasses, by name, of which its value is one.
    """
    told = {"help": help, "least": least, "above": above, "role": role, "variants": variants}
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Parameters:
    """Something with a name and parameters, one of a family such as the losses.

    Raises:
        InputError: If a parameter cannot be what it is said to be.
    """

    name: ClassVar[str]
    family: ClassVar[str]

    def __post_init__(self) -> None:
        for each in declared(type(self)).values():
            object.__setattr__(self, each.name, each.checked(getattr(self, each.name)))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should hear before these parameters are used."""
        return ()

    def to_dict(self, *roles: Role) -> dict[str, Any]:
        """Return the name and the parameters of these roles, all by default, as JSON values."""
        found: dict[str, Any] = {"name": self.name}
        for each in declared(type(self)).values():
            value = getattr(self, each.name)
            if not roles or each.role in roles:
                if isinstance(value, Parameters):
                    value = value.to_dict(*roles)
                found[each.name] = str(value) if isinstance(value, Path) else value
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_dict` gave; a parameter that is not there has its default.

        Raises:
            InputError: If there is no such parameter, or it cannot be that.
        """
        known = declared(cls)
        given = {key: value for key, value in values.items() if key != "name"}
        for key, value in given.items():
            if key not in known:
                raise InputError(
                    f"unknown parameter {key!r} of the {cls.family} {cls.name!r}"
                    f"{nearest(key, known)}"
                )
            variants = known[key].variants
            if variants and isinstance(value, Mapping):
                named = {"name": known[key].default.name} | dict(value)
                given[key] = chosen(variants, named["name"]).from_dict(named)
        return cls(**given)


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Declared:
    """What is said of a parameter.

    Attributes:
        name: Its name.
        hint: Its type.
        default: Its default.
        help: What it is, in a line.
        least: The least number that it may be.
        above: What it must be greater than.
        role: What it decides.
        variants: The dataclasses of which its value is one.
    """

    name: str
    hint: Any
    default: Any
    help: str
    least: float | None
    above: float | None
    role: Role
    variants: Mapping[str, type[Parameters]] | None

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have."""
        union = get_origin(self.hint) in (Union, UnionType)
        return get_args(self.hint) if union else (self.hint,)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be."""
        if self.variants:
            return tuple(self.variants)
        literals = [get_args(kind) for kind in self.kinds if get_origin(kind) is Literal]
        return tuple(word for words in literals for word in words)

    def checked(self, value: Any) -> Any:
        """Return the value as what it is declared to be, or refuse it."""
        for kind in self.kinds:
            fitted, found = _fitted(kind, value)
            if fitted:
                return self._bounded(found)
        wanted = [_WORDS[kind] for kind in self.kinds if kind in _WORDS]
        near = nearest(value, self.choices) if isinstance(value, str) and self.choices else ""
        if wanted:
            listed = " or ".join([*wanted, *map(repr, self.choices)])
            raise InputError(f"`{self.name}` {value}: {listed} is wanted{near}")
        raise InputError(f"`{self.name}`: unknown value {value!r}{near}")

    def parsed(self, text: str) -> Any:
        """Return what a text means, as far as that can be said without the whole."""
        for kind in (int, float):
            if kind in self.kinds and text not in self.choices:
                try:
                    return kind(text)
                except ValueError:
                    continue
        return text

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.least is not None and not self.least <= value < math.inf:
                raise InputError(f"`{self.name}` must be at least {self.least:g}, got {value}")
            if self.above is not None and not self.above < value < math.inf:
                raise InputError(f"`{self.name}` must be above {self.above:g}, got {value}")
        return value


def _fitted(kind: Any, value: Any) -> tuple[bool, Any]:
    """Whether a value has a type, and the value as one of that type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind), value
    if kind is NoneType:
        return value is None, value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)  # 5 and 5.0 are one parameter
    if kind is Path and isinstance(value, str):
        return True, Path(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool)), value


def declared(cls: type[Parameters]) -> dict[str, Declared]:
    """Return what a dataclass says of its parameters, by name."""
    hints = get_type_hints(cls)
    found = {each.name: each for each in fields(cls)}
    return {
        name: Declared(name, hints[name], each.default, **each.metadata)
        for name, each in found.items()
    }


def flattened(cls: type[Parameters]) -> dict[str, list[Declared]]:
    """Return the parameters by name, with those of the variants of any among them."""
    found: dict[str, list[Declared]] = {}
    for name, each in declared(cls).items():
        found.setdefault(name, []).append(each)
        for variant in (each.variants or {}).values():
            for inner, several in flattened(variant).items():
                found.setdefault(inner, []).extend(several)
    return found


def chosen(family: Mapping[str, type[P]], name: Any) -> type[P]:
    """Return the member of a family that has this name.

    Raises:
        InputError: If none has; says which are near.
    """
    if name not in family:
        what = next(iter(family.values())).family
        raise InputError(f"`{what}`: unknown {what} {name!r}{nearest(str(name), family)}")
    return family[name]


def from_flat(family: Mapping[str, type[P]], name: str, given: Mapping[str, Any]) -> P:
    """Make a member of a family of flat parameters, its variants' among them.

    Raises:
        InputError: If it has no such parameter; says which of the family have.
    """
    cls = chosen(family, name)
    own = flattened(cls)
    for key, value in given.items():
        if key not in own:
            takers = [other for other, member in family.items() if key in flattened(member)]
            raise InputError(
                f"`{key}` {value}: the {cls.family} {name!r} has none; these have: "
                f"{', '.join(takers)}"
            )
    values = {key: value for key, value in given.items() if key in declared(cls)}
    for each in declared(cls).values():
        if each.variants:
            theirs = {key for member in each.variants.values() for key in flattened(member)}
            inner = {key: value for key, value in given.items() if key in theirs}
            variant = values.get(each.name, each.default.name)
            values[each.name] = from_flat(each.variants, variant, inner)
    return cls(**values)
