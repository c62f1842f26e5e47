"""What is the user's to mend, and how messages name what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputWarning(UserWarning):
    """What the user gave can be used, but says less than it seems to."""


class InputError(ValueError):
    """What the user gave cannot be used: the command line prints the message and exits with 2."""


class MissingDataError(InputError):
    """Data that is neither on this machine nor to be had."""


class MissingValuesError(InputError):
    """Values per query that are missing, damaged, or not those of their result."""


def how_to_install(extra: str) -> str:
    """Say how to install an extra; no release is on the package index yet."""
    return f"in the clone of polarity-bench: pip install -e '.[{extra}]'"


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are near this one, as the end of a message: '; did you mean …?'."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    shown = ", ".join(names if len(names) <= 12 else [*names[:12], f"{len(names) - 12} more"])
    return f"; known: {shown}" if names else ""
