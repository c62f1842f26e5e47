"""User errors and warnings, and "did you mean" suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class InputWarning(UserWarning):
    """Warning that the user's input is usable but means less than it seems to."""


class InputError(ValueError):
    """Unusable input from the user. The command line prints the message and exits with 2."""


class MissingDataError(InputError):
    """Data that is neither on this machine nor available for download."""


class MissingValuesError(InputError):
    """Values per query that are missing, damaged, or do not belong to their result."""


def how_to_install(extra: str) -> str:
    """Return how to install an extra; no release is on the package index yet."""
    return f"in the clone of polarity-bench: pip install -e '.[{extra}]'"


def check_installed(what: str, *packages: str, extra: str = "report") -> None:
    """Raise InputError if a package of an extra that something needs is not installed."""
    if lacking := [name for name in packages if find_spec(name) is None]:
        raise InputError(f"{what} needs {', '.join(lacking)}; {how_to_install(extra)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion of similar known names for the end of a message: '; did you mean …?'.

    Without a similar name, it lists the known names.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    shown = ", ".join(names if len(names) <= 12 else [*names[:12], f"{len(names) - 12} more"])
    return f"; known: {shown}" if names else ""
