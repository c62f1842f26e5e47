"""Parameters: frozen dataclasses that say of each field what it means and what it may be.

Recipes and losses are such. What a field says is said once: the value is checked when the
dataclass is made, the command line builds its options from it, a job is written to TOML by it.
Nothing heavy is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import UnionType
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
"""Whether a parameter decides what comes out, is the place of what does, or neither.

A place is a path, or what `load_encoder` takes.
"""

_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", Path: "a path"}


class ParameterWarning(UserWarning):
    """Parameters that can be used, though hardly anyone would mean them."""


@dataclass(frozen=True)
class ParameterInfo:
    """What is said of a parameter.

    Attributes:
        help: What it is, in a line.
        least: The least number that it may be.
        above: What it must be greater than.
        most: The greatest number that it may be.
        role: What it decides.
        variants: The dataclasses, by name, of which its value is one.
        name: Its name, which its place in a dataclass gives, like its default and its type.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    role: Role = "moves"
    variants: Mapping[str, type[Parameters]] | None = None
    name: str = ""
    default: Any = None
    hint: Any = None

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have."""
        return get_args(self.hint) if get_origin(self.hint) in (Union, UnionType) else (self.hint,)

    @cached_property
    def _words(self) -> dict[Any, tuple[Any, ...]]:
        """The words that each of its types is, of those that are words."""
        return {kind: get_args(kind) for kind in self.kinds if get_origin(kind) is Literal}

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be."""
        literals = [get_args(kind) for kind in self.kinds if get_origin(kind) is Literal]
        return tuple(self.variants or (word for words in literals for word in words))

    def checked(self, value: Any) -> Any:
        """Return the value as one of its types, or refuse it."""
        for kind in self.kinds:
            if isinstance(value, bool) and kind is not bool:
                continue
            if kind is float and isinstance(value, int):
                value = float(value)  # 5 and 5.0 are one parameter
            elif kind is Path and isinstance(value, str):
                value = Path(value)
            if value in words if (words := self._words.get(kind)) else isinstance(value, kind):
                self._check_bounds(value)
                return value
        wanted = [_WORDS[kind] for kind in self.kinds if kind in _WORDS]
        near = nearest(value, self.choices) if isinstance(value, str) and self.choices else ""
        if not wanted:
            raise InputError(f"`{self.name}`: unknown value {value!r}{near}")
        listed = " or ".join([*wanted, *map(repr, self.choices)])
        raise InputError(f"`{self.name}` {value}: {listed} is wanted{near}")

    def _check_bounds(self, value: Any) -> None:
        if isinstance(value, int | float):
            if self.least is not None and not self.least <= value < math.inf:
                raise InputError(f"`{self.name}` must be at least {self.least:g}, got {value}")
            if self.above is not None and not self.above < value < math.inf:
                raise InputError(f"`{self.name}` must be above {self.above:g}, got {value}")
            if self.most is not None and value > self.most:
                raise InputError(f"`{self.name}` must be at most {self.most}, got {value}")

    def parsed(self, text: str) -> Any:
        """Return the number that a text is, if it may be one, or else the text."""
        for kind in (int, float):
            if kind in self.kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        return text


def parameter(default: Any, help: str, **said: Any) -> Any:  # noqa: A002  as in every command line
    """Declare a field of `Parameters`: its default, and what `ParameterInfo` says."""
    return field(default=default, metadata={"declared": {"help": help, **said}})


def seed_parameter(of: str) -> Any:
    """Declare a seed, of so many bits as numpy's generators take."""
    return parameter(0, of, least=0, most=2**32 - 1)


@dataclass(frozen=True)
class Parameters:
    """Something with a name and parameters, one of a family such as the losses.

    Raises:
        InputError: If a parameter cannot be what it is said to be.
    """

    name: ClassVar[str]
    family: ClassVar[str]

    def __post_init__(self) -> None:
        for each in declared(type(self)):
            object.__setattr__(self, each.name, each.checked(getattr(self, each.name)))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should hear before these parameters are used."""
        return ()

    def to_dict(self, *roles: Role) -> dict[str, Any]:
        """Return the name and the parameters of these roles, all by default, as JSON values."""
        found: dict[str, Any] = {"name": self.name}
        for each in declared(type(self)):
            value = getattr(self, each.name)
            if not roles or each.role in roles:
                if isinstance(value, Parameters):
                    value = value.to_dict(*roles)
                found[each.name] = str(value) if isinstance(value, Path) else value
        return found

    def below(self, folder: Path) -> Self:
        """Return it with the paths that are relative, encoders' folders too, as of a folder."""
        from polarity_bench.encoders.load import located

        changed: dict[str, Any] = {}
        for each in declared(type(self)):
            value = found = getattr(self, each.name)
            if isinstance(value, Parameters):
                found = value.below(folder)
            elif isinstance(value, Path):
                found = folder / value.expanduser()
            elif isinstance(value, str) and each.role == "place":
                found = located(value, folder)
            if found is not value and found != value:
                changed[each.name] = found
        return replace(self, **changed) if changed else self

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_dict` gave; a parameter that is not there has its default.

        A variant without a name is the default one, or the first.

        Raises:
            InputError: If there is no such parameter, or it cannot be that.
        """
        known = {each.name: each for each in declared(cls)}
        given = {key: value for key, value in values.items() if key != "name"}
        for key, value in given.items():
            if key not in known:
                near = nearest(key, known)
                raise InputError(
                    f"unknown parameter {key!r} of the {cls.family} {cls.name!r}{near}"
                )
            if (variants := known[key].variants) and isinstance(value, Mapping):
                usual = getattr(known[key].default, "name", next(iter(variants)))
                given[key] = chosen(variants, value.get("name", usual)).from_dict(value)
        for key, each in known.items():
            if each.default is MISSING and key not in given:
                raise InputError(f"the {cls.family} {cls.name!r} does not say its {key!r}")
        return cls(**given)


P = TypeVar("P", bound=Parameters)


_DECLARED: dict[type, Sequence[ParameterInfo]] = {}


def declared(cls: type[Parameters]) -> Sequence[ParameterInfo]:
    """Return what a dataclass says of its parameters, in their order; found once."""
    if cls not in _DECLARED:
        hints = get_type_hints(cls)
        _DECLARED[cls] = tuple(
            ParameterInfo(**said, name=each.name, default=each.default, hint=hints[each.name])
            for each in fields(cls)
            if (said := each.metadata.get("declared"))
        )
    return _DECLARED[cls]


def flattened(cls: type[Parameters]) -> dict[str, list[ParameterInfo]]:
    """Return the parameters by name, with those of the variants of any among them."""
    found: dict[str, list[ParameterInfo]] = {}
    for each in declared(cls):
        found.setdefault(each.name, []).append(each)
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
