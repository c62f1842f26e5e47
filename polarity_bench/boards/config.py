"""Configuration of a board: its `board.toml`, and which of the stored results it shows."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

from polarity_bench.errors import InputError, nearest
from polarity_bench.results.result_files import Result, Stored
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Weighting
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.validation import Strict, one_of, validated


def select_named(
    stored: Sequence[Stored],
    where: str,
    wanted: Sequence[str],
    names: Callable[[Result], Sequence[str]],
) -> list[Stored]:
    """Keep the results that have one of the wanted names; all results if no name is wanted.

    Args:
        stored: The results to choose from.
        where: The field that holds the names, and its file, for messages.
        wanted: The names.
        names: Returns the names of a result.

    Raises:
        InputError: If no result has one of the names, or no result is left.
    """
    known = {name for _, result in stored for name in names(result)}
    for name in wanted:
        if name not in known:
            raise InputError(f"{where} {name}: there is no such result{nearest(name, known)}")
    kept = [each for each in stored if not wanted or set(wanted).intersection(names(each[1]))]
    if not kept:
        raise InputError(f"{where} {', '.join(wanted)}: no result fits all of the requested names")
    return kept


def select_protocols(
    stored: Sequence[Stored], where: str, wanted: Sequence[str], complete: Sequence[Stored]
) -> list[Stored]:
    """Keep only results by the wanted protocols, for each task type that has such results.

    All results of other task types are kept.

    Args:
        stored: The results to choose from.
        where: The field that holds the names, and its file, for messages.
        wanted: Names of protocols or of presets.
        complete: All complete results of the board.

    Raises:
        InputError: If the board has no result by one of the protocols.
    """
    if not wanted:
        return list(stored)
    kinds = {result.kind for _, result in select_named(complete, where, wanted, protocols_of)}
    return [
        (path, result)
        for path, result in stored
        if result.kind not in kinds or set(wanted).intersection(protocols_of(result))
    ]


def protocols_of(result: Result) -> list[str]:
    """Return the names that select a result's protocol: its own and that of its preset."""
    said = (result.key.protocol.get(key) for key in ("name", "preset"))
    return [name for name in said if isinstance(name, str)]


def _measures(measures: Mapping[str, str]) -> Mapping[str, str]:
    """Check the columns that a board shows instead of the main scores of task types."""
    kinds = [kind for kind, spec in KINDS.items() if not spec.ranks]
    for kind, measure in measures.items():
        if kind not in kinds:
            raise ValueError(f"unknown kind {kind!r}{nearest(kind, kinds)}")
        titles = [title for title, _ in KINDS[kind].columns]
        if measure not in titles:
            raise ValueError(f"{kind} has no {measure!r}; it has {', '.join(titles)}")
    return measures


Text = Annotated[str, StringConstraints(strip_whitespace=True)]
Names = tuple[str, ...]


class Heading(Strict):
    """The keys that the file of every board, and of the page of all boards, may have."""

    title: Text = ""
    """Heading of the board."""
    introduction: Text = ""
    """The question that the board answers, below the heading, in markdown."""
    details: Text = ""
    """How the results were made, below the tables, in markdown."""


class FrontFile(Heading):
    """Content of `front.toml`, which configures the front page of all boards."""

    add_encoder: Text = ""
    """Address where readers ask for an encoder; `{board}` becomes the board's name."""


class SweepFile(Heading):
    """Content of the `board.toml` of a sweep."""

    weighting: Weighting = "linear"
    """Weighting of the ranks."""
    models: Names = ()
    """The base encoders to show as columns, in this order. Bases that the sweep does not train show
    published numbers only. An empty list shows the bases it trains."""


class Method(Strict):
    """A method of a board: one row for several encoders, which differ in the seed."""

    name: Text
    """Name of the row."""
    encoders: Names
    """Names of the encoders, one for each seed."""


class BoardFile(Heading):
    """The content of the `board.toml` of a board of results."""

    weighting: Weighting = "linear"
    """Weighting of the ranks."""
    tasks: Names = ()
    """The only tasks to show; an empty list shows all tasks with results."""
    encoders: Names = ()
    """Names of the only encoders to show, see `names_of`; an empty list shows all."""
    protocols: Names = ()
    """The only protocols to show, for each task type that has results by one of them; an empty list
    shows all."""
    columns: tuple[Annotated[str, one_of(RANKED)], ...] = ()
    """Titles of the columns of retrieval tables; an empty list shows the default columns."""
    measures: Annotated[dict[str, str], AfterValidator(_measures)] = Field(default_factory=dict)
    """Title of the column to show instead of the main score, by task type. Only task types without
    retrieval have such columns."""
    sort: Literal["", "P", "S", "retention", "joint", "kNN accuracy"] = ""
    """Title of the column that sorts rows and ranks encoders; by default P if every encoder
    is its own reference, else joint."""
    group_by: Literal["", "reference", "k"] = ""
    """What rows are grouped by before they are sorted."""
    keep: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sorts the rows of the first table by P, those first whose retention is at least this
    fraction; also the strength of a dial is chosen among those that reach it."""
    method: tuple[Method, ...] = ()
    """The methods that are one row each. Encoders that are not listed keep their rows."""


F = TypeVar("F", bound=Heading)


def board_file(file: Path, model: type[F]) -> F:
    """Read the file of a board; without a file, return the defaults.

    Args:
        file: Path of the `board.toml`.
        model: What the file of this kind of board may hold.

    Raises:
        InputError: If the file has another key, or an unknown column, task type or weighting.
    """
    if not file.is_file():
        return model()
    try:
        return validated(model, tomllib.loads(file.read_text(encoding="utf-8")))
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
