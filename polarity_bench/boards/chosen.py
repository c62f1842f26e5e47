"""What a board is of: which of the stored results, and what its own file says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.encoders import MINILM
from polarity_bench.errors import InputError, nearest
from polarity_bench.kinds import KINDS
from polarity_bench.results import Result
from polarity_bench.types import WEIGHTINGS, EncoderId

Stored = tuple[Path, Result]


def bearing(
    stored: Sequence[Stored],
    field: str,
    wanted: Sequence[str],
    names: Callable[[Result], Sequence[str]],
) -> Sequence[Stored]:
    """Keep the results that bear one of the names that are wanted; all where none is.

    Raises:
        InputError: If nothing bears one of them, or no result all that is asked for.
    """
    known = {name for _, result in stored for name in names(result)}
    for name in wanted:
        if name not in known:
            raise InputError(f"`{field}` {name}: there is no such result{nearest(name, known)}")
    kept = [each for each in stored if not wanted or set(wanted).intersection(names(each[1]))]
    if not kept:
        raise InputError(f"`{field}` {', '.join(wanted)}: no result is of all that is asked for")
    return kept


def names_of(encoder: EncoderId) -> list[str]:
    """Return what an encoder may be asked for by."""
    last = encoder.name.rpartition("/")[2]
    also = ["minilm"] if encoder.name == MINILM else []
    return [encoder.name, last, encoder.label, encoder.digest[:8], *also]


def board_file(file: Path) -> dict[str, Any]:
    """Read the title, introduction, weighting and measures of a board; nothing without a file.

    Raises:
        InputError: If it says anything else.
    """
    if not file.is_file():
        return {}
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
    measures = _measures(values.pop("measures", {}), file)
    known = {"title", "introduction", "measures", "weighting"}
    if unknown := set(values) - known:
        raise InputError(f"{file}: unknown key {min(unknown)!r}{nearest(min(unknown), known)}")
    for key, value in values.items():
        if not isinstance(value, str):
            raise InputError(f"{file}: {key!r} must be text, got {value!r}")
    if (weighting := values.get("weighting", WEIGHTINGS[0])) not in WEIGHTINGS:
        raise InputError(f"{file}: 'weighting': {weighting!r}{nearest(weighting, WEIGHTINGS)}")
    found: dict[str, Any] = {key: value.strip() for key, value in values.items()}
    return found | ({"measures": measures} if measures else {})


def _measures(measures: Any, file: Path) -> dict[str, str]:
    """Check what a board shows of each kind in place of its main score."""
    if not isinstance(measures, dict):
        raise InputError(f"{file}: 'measures' must be a table, got {measures!r}")
    kinds = [kind for kind, spec in KINDS.items() if not spec.ranks]
    for kind, measure in measures.items():
        if kind not in kinds:
            raise InputError(f"{file}: 'measures': unknown kind {kind!r}{nearest(kind, kinds)}")
        titles = [title for title, _ in KINDS[kind].columns]
        if measure not in titles:
            raise InputError(
                f"{file}: 'measures': {kind} has no {measure!r}; it has {', '.join(titles)}"
            )
    return measures
