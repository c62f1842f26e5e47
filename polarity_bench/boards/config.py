"""Configuration of a board: its `board.toml`, and which of the stored results it shows."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from polarity_bench.errors import InputError, nearest
from polarity_bench.results.result_files import Result, Stored
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import WEIGHTINGS, Weighting
from polarity_bench.tasks.catalogue import KINDS


def bearing(
    stored: Sequence[Stored],
    field: str,
    wanted: Sequence[str],
    names: Callable[[Result], Sequence[str]],
) -> Sequence[Stored]:
    """Keep the results that have one of the wanted names; all results if no name is wanted.

    Raises:
        InputError: If no result has one of the names, or no result is left.
    """
    known = {name for _, result in stored for name in names(result)}
    for name in wanted:
        if name not in known:
            raise InputError(f"`{field}` {name}: there is no such result{nearest(name, known)}")
    kept = [each for each in stored if not wanted or set(wanted).intersection(names(each[1]))]
    if not kept:
        raise InputError(f"`{field}` {', '.join(wanted)}: no result is of all that is asked for")
    return kept


def by_protocols(
    stored: Sequence[Stored], wanted: Sequence[str], whole: Sequence[Stored]
) -> Sequence[Stored]:
    """Keep only results by the wanted protocols, for each task type that has such results.

    All results of other task types are kept.

    Args:
        stored: The results to choose from.
        wanted: Names of protocols or of presets.
        whole: All results of the board.

    Raises:
        InputError: If the board has no result by one of the protocols.
    """
    bear = {name for _, result in whole for name in protocols_of(result)}
    for name in wanted:
        if name not in bear:
            raise InputError(f"`protocols` {name}: there is no such result{nearest(name, bear)}")
    kinds = {r.kind for _, r in whole if set(wanted).intersection(protocols_of(r))}
    return [
        (path, result)
        for path, result in stored
        if result.kind not in kinds or set(wanted).intersection(protocols_of(result))
    ]


def protocols_of(result: Result) -> list[str]:
    """Return the names that select a result's protocol: its own and that of its preset."""
    said = (result.key.protocol.get(key) for key in ("name", "preset"))
    return [name for name in said if isinstance(name, str)]


@dataclass(frozen=True)
class BoardFile:
    """The content of a `board.toml`.

    Attributes:
        title: Heading of the board.
        introduction: Text below the heading, in markdown.
        details: How the board was made, in markdown; shown below the tables.
        weighting: Weighting of the ranks.
        tasks: The only tasks to show; () shows all tasks with results.
        encoders: Names of the only encoders to show, see `names_of`; () shows all.
        protocols: The only protocols to show, for each task type that has results by one of them;
            () shows all.
        columns: Titles of the columns of retrieval tables; () shows the default columns.
        measures: Title of the column to show instead of the main score, by task type. Only task
            types without retrieval have such columns.
        sort: Title of the column that sorts rows and ranks encoders; '' is P if every encoder is
            its own reference, else joint.
        group_by: What rows are grouped by before they are sorted; '' for no grouping.
        models: For a sweep: the base encoders to show as columns, in this order. Bases that the
            sweep does not train show published numbers only. () shows the bases it trains.
    """

    title: str = ""
    introduction: str = ""
    details: str = ""
    weighting: Weighting = "linear"
    tasks: Sequence[str] = ()
    encoders: Sequence[str] = ()
    protocols: Sequence[str] = ()
    columns: Sequence[str] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    sort: str = ""
    group_by: str = ""
    models: Sequence[str] = ()


GROUPINGS = ("reference", "k")
SORTED_BY = ("P", "S", "retention", "joint", "kNN accuracy")


TITLED = ("title", "introduction")
"""The keys that every kind of board may have."""
OF_RESULTS = tuple(
    each.name for each in fields(BoardFile) if each.name not in {"models", "details"}
)
OF_SWEEPS = (*TITLED, "weighting", "models")
OF_FOLDS = (*TITLED, "details")


def board_file(file: Path, keys: Sequence[str] = OF_RESULTS) -> BoardFile:
    """Read the file of a board; without a file, return the defaults.

    Args:
        file: Path of the `board.toml`.
        keys: The keys that this kind of board may have.

    Raises:
        InputError: If the file has another key, or an unknown column, task type or weighting.
    """
    if not file.is_file():
        return BoardFile()
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
    known = {each.name for each in fields(BoardFile)}
    for key in values:
        if key not in known:
            raise InputError(f"{file}: unknown key {key!r}{nearest(key, known)}")
        if key not in keys:
            raise InputError(
                f"{file}: {key!r} says nothing of a board of this kind; it may have "
                f"{', '.join(keys)}"
            )
    measures = _measures(values.pop("measures", {}), file)
    found: dict[str, Any] = {"measures": measures}
    for key, value in values.items():
        wants_list = key in {"tasks", "encoders", "protocols", "columns", "models"}
        if wants_list and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            raise InputError(f"{file}: {key!r} must be a list of texts, got {value!r}")
        if not wants_list and not isinstance(value, str):
            raise InputError(f"{file}: {key!r} must be text, got {value!r}")
        found[key] = tuple(value) if wants_list else value.strip()
    allowed = {"weighting": WEIGHTINGS, "sort": SORTED_BY, "group_by": GROUPINGS}
    for key, choices in [*allowed.items(), ("columns", RANKED)]:
        said = found.get(key, ())
        for value in [said] if isinstance(said, str) else said:
            if value not in choices:
                raise InputError(f"{file}: {key!r}: {value!r}{nearest(value, choices)}")
    return BoardFile(**found)


def _measures(measures: Any, file: Path) -> dict[str, str]:
    """Check the columns that a board shows instead of the main scores of task types."""
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
