"""User errors and warnings, and "did you mean" suggestions."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType

_LONG_LINE = re.compile(r"^(.{1000}).{5,}(.{1000})$", re.MULTILINE)
"""Line that is too long for a message, such as one that quotes a text of the user."""


def cut_long_lines(message: str) -> str:
    """Return a message without the middle of lines with more than about 2,000 characters."""
    return _LONG_LINE.sub(r"\1 … \2", message)


class InputWarning(UserWarning):
    """Warning about usable input whose results may mislead the user."""


class InputError(ValueError):
    """Error in the user's input. The command line prints the message and exits with code 2."""

    def __init__(self, message: str = "") -> None:
        super().__init__(cut_long_lines(message))


class AmbiguousNameError(InputError):
    """Error for a name that several encoders have."""


class MissingDataError(InputError):
    """Error for data that is neither on this machine nor available for download."""


class MissingValuesError(InputError):
    """Error for values per query that are missing, damaged or from another result."""


def check_at_least(least: int, **values: int | None) -> None:
    """Raise InputError if the value of an option is below the minimum; None is not checked."""
    for field, value in values.items():
        if value is not None and value < least:
            raise InputError(f"`{field}` must be at least {least}, got {value}")


def check_known(name: str, known: Collection[str], problem: str) -> None:
    """Raise InputError with the problem and similar names if a name is unknown."""
    if name not in known:
        raise InputError(f"{problem}{nearest(name, known)}")


def warn(message: str) -> None:
    """Raise an `InputWarning` that points to the caller of the function that finds the problem."""
    warnings.warn(cut_long_lines(message), InputWarning, stacklevel=3)


@contextmanager
def reworded(
    before: str = "",
    after: str = "",
    *kinds: type[Exception],
    words: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[None]:
    """Put text before and after the message of an error that the context raises.

    Args:
        before: Text before the message.
        after: Text after the message.
        words: Replacements in the message, by the replaced text.
        kinds: Kinds of errors, which become an `InputError`. By default, only an `InputError` is
            changed, and keeps its class.
    """
    handled = kinds or (InputError,)
    try:
        yield
    except handled as error:
        kind = type(error) if isinstance(error, InputError) else InputError
        message = str(error)
        for word, replacement in words.items():
            message = message.replace(word, replacement)
        raise kind(f"{before}{message}{after}") from error


def how_to_install(extra: str) -> str:
    """Return the instruction that installs an extra from a clone, for the end of a message."""
    return f"in the clone of polarity-bench: pip install -e '.[{extra}]'"


def check_installed(what: str, *packages: str, extra: str = "report") -> None:
    """Check that the packages of an extra are installed.

    Args:
        what: Feature that needs the packages, for the message.
        packages: Names of the packages, as they are imported.
        extra: Extra of polarity-bench that installs the packages.

    Raises:
        InputError: If a package is not installed.
    """
    if lacking := [name for name in packages if find_spec(name) is None]:
        raise InputError(f"{what} needs {', '.join(lacking)}; {how_to_install(extra)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for the end of an error message: '; did you mean 'sst2'?'.

    If no known name is similar, the suggestion lists the known names. If there are no known names,
    it is empty.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    return f"; known: {listed(names)}" if names else ""


def listed(names: Iterable[str]) -> str:
    """Return up to 12 names for a message, and the number of the others."""
    every = list(names)
    return ", ".join(every if len(every) <= 12 else [*every[:12], f"{len(every) - 12} more"])
