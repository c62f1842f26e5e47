"""Registers: metrics, weightings, task types and recipes of this project and of others, by name.

Other packages register objects through entry points. The group of an entry point names the
register, its name is the name of the object, and its value is the place of the object, such as
`my_package:PRECISION`. A package is imported when a register is read completely for the first time.
"""

from __future__ import annotations

import traceback
import warnings
from collections import UserDict
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import Any, TypeVar

from polarity_bench.errors import InputError, InputWarning, check_known

T = TypeVar("T")
GROUPS = ("tasks", "metrics", "weightings", "task_types", "recipes")
"""Entry-point groups of plug-ins, below `polarity_bench`. Only the first has no register."""


def plugin_failure(error: Exception) -> InputError | None:
    """Return an error that names the package, if a plug-in's code raised the error, or None."""
    if isinstance(error, InputError):
        return None
    frames = traceback.walk_tb(error.__traceback__)
    running = [frame.f_globals.get("__name__", "").split(".") for frame, _ in frames]

    def n_shared(plugin: EntryPoint) -> int:
        """Return the most parts of its name that a plug-in's module shares with one that runs."""
        module = plugin.module.split(".")
        shared = (n for n in range(len(module) + 1) for name in running if name[:n] == module[:n])
        return max(shared, default=0)

    plugins = chain(*(entry_points(group=f"polarity_bench.{group}") for group in GROUPS))
    # Distributions may share the first part of the name, which is then a namespace package.
    likely = max(plugins, key=n_shared, default=None)
    if likely is None or not n_shared(likely):
        return None
    place = traceback.extract_tb(error.__traceback__)[-1]
    problem = f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
    return InputError(f"the package {package_of(likely)!r} does not work: {problem}")


def package_of(entry_point: EntryPoint) -> str:
    """Return the name of the package of an entry point, or the place of its object if unknown."""
    return entry_point.dist.name if entry_point.dist else entry_point.value


def entry_points_of(plugin: str) -> list[EntryPoint]:
    """Return the entry points of an installed plug-in.

    Args:
        plugin: Name of the package, or of one of its entry points or modules.

    Raises:
        InputError: If there is no such plug-in, or one of its groups is unknown.
    """
    named = [
        (each, {each.name, each.value.partition(":")[0], package_of(each)})
        for group in entry_points().groups
        if group.startswith("polarity_bench.")
        for each in entry_points(group=group)
    ]
    known = {name for _, names in named for name in names}
    check_known(plugin, known, f"{plugin}: neither a folder nor an installed plug-in")
    found = [each for each, names in named if plugin in names]
    groups = [f"polarity_bench.{group}" for group in GROUPS]
    for each in found:
        check_known(each.group, groups, f"{plugin}: unknown entry-point group {each.group!r}")
    return sorted(found, key=lambda each: groups.index(each.group))


class Register(UserDict[str, T]):
    """Objects by name, those of this project first.

    An object of another package that cannot be used is left out, and a warning names the package.

    Attributes:
        group: Name of the entry-point group.
        packages: Names of the packages of the objects that are not of this project.

    Args:
        group: Name of the entry-point group.
        kind: Class of the objects, or base class if the objects are classes.
        own: Objects of this project.
        check: Function that raises an error if an object of another package is not usable.
    """

    def __init__(
        self,
        group: str,
        kind: type[Any],
        own: Mapping[str, T],
        check: Callable[[Any], object] = repr,
    ) -> None:
        self.group, self._kind, self._known, self._check = group, kind, dict(own), check
        self.packages: dict[str, str] = {}
        self._is_complete = False

    @cached_property
    def entry_points(self) -> list[EntryPoint]:
        """The entry points of other packages, sorted. Listing them imports no package."""
        return sorted(entry_points(group=self.group))

    def has_name(self, name: str) -> bool:
        """Return whether an object has this name, without importing other packages."""
        return name in self._known or any(each.name == name for each in self.entry_points)

    def load(self, entry_point: EntryPoint) -> T:
        """Import an object of another package, and check it.

        Raises:
            Exception: An error of the package, or an InputError if the object is not usable.
        """
        loaded: Any = entry_point.load()
        kind = loaded if isinstance(loaded, type) else type(loaded)
        if not issubclass(kind, self._kind):
            raise InputError(f"expected a {self._kind.__name__}, got {loaded!r}")
        if (name := getattr(loaded, "name", entry_point.name)) != entry_point.name:
            raise InputError(f"its `name` is {name!r}; give the entry point the same name")
        self._check(loaded)
        usable: T = loaded
        return usable

    def label(self, name: str) -> str:
        """Return what an object is and its name, with the package if it is of another."""
        kind = self.group.partition(".")[2].removesuffix("s").replace("_", " ")
        package = self.packages.get(name)
        return f"the {kind} {name!r}" + (f" of the package {package!r}" if package else "")

    @property
    def data(self) -> dict[str, T]:  # type: ignore[override]  # UserDict has an attribute.
        """All objects. Those of other packages are imported on first use."""
        if not self._is_complete:
            self._is_complete = True  # first, because a package may read the register
            for each in self.entry_points:
                try:
                    if each.name in self._known:
                        raise InputError("the name is taken; choose another name")  # noqa: TRY301  reported like errors of loading
                    self._known[each.name] = self.load(each)
                    self.packages[each.name] = package_of(each)
                except Exception as error:  # noqa: BLE001  A broken package must not stop others.
                    what = f"{each.name!r} of the package {package_of(each)!r}, in {self.group}"
                    warnings.warn(f"{what}, is skipped: {error}", InputWarning, stacklevel=4)
        return self._known
