"""Configuration of boards: the content of `board.toml`, and the selection of results to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, FiniteFloat, StringConstraints

from polarity_bench.errors import InputError, check_known, reworded
from polarity_bench.files import read_toml
from polarity_bench.metrics.register import titled_metrics
from polarity_bench.results.result_files import Result
from polarity_bench.scores import WEIGHTINGS, ScoreKey
from polarity_bench.tasks.catalogue import KINDS, choose_task, load_tasks
from polarity_bench.validation import Strict, one_of, validated


def select_named(
    results: Sequence[Result],
    where: str,
    wanted: Sequence[str],
    names: Callable[[Result], Sequence[str]],
) -> list[Result]:
    """Return the results that have one of the wanted names.

    Args:
        results: The results to choose from.
        where: The field with the wanted names, and its file, for messages.
        wanted: The names; if empty, all results are returned.
        names: Function that returns the names of a result.

    Raises:
        InputError: If a wanted name has no result, or there are no results.
    """
    known = {name for result in results for name in names(result)}
    for name in wanted:
        check_known(name, known, f"{where} {name}: no results with this name")
    kept = [each for each in results if not wanted or set(wanted).intersection(names(each))]
    if not kept:
        raise InputError(f"{where} {', '.join(wanted)}: no results match; select fewer names")
    return kept


def select_protocols(
    results: Sequence[Result], where: str, wanted: Sequence[str], complete: Sequence[Result]
) -> list[Result]:
    """Return the results with one of the wanted protocols.

    Task types without such results keep all of their results.

    Args:
        results: The results to choose from.
        where: The field with the wanted names, and its file, for messages.
        wanted: Names of protocols or presets; if empty, all results are returned.
        complete: All complete results of the board.

    Raises:
        InputError: If the board has no results with one of the protocols.
    """
    if not wanted:
        return list(results)
    kinds = {result.kind for result in select_named(complete, where, wanted, protocols_of)}
    return [
        result
        for result in results
        if result.kind not in kinds or set(wanted).intersection(protocols_of(result))
    ]


def protocols_of(result: Result) -> list[str]:
    """Return the names by which a result is selected: those of its protocol and its preset."""
    names = (result.key.protocol.get(key) for key in ("name", "preset"))
    return [name for name in names if isinstance(name, str)]


def published_columns(task: str) -> dict[ScoreKey, str]:
    """Return the titles of the scores that a task without results may have, by key."""
    return {key: title for title, key in choose_task(load_tasks(), task).columns}


def _measures(measures: Mapping[str, str]) -> Mapping[str, str]:
    """Check and return the columns that replace the main scores of task types."""
    kinds = [kind for kind, spec in KINDS.items() if not spec.has_k]
    for kind, measure in measures.items():
        check_known(kind, kinds, f"unknown kind {kind!r}")
        titles = [title for title, _ in KINDS[kind].columns]
        if measure not in titles:
            raise ValueError(f"{kind} has no column {measure!r}; choose one of {', '.join(titles)}")
    return measures


FILE = "board.toml"
Text = Annotated[str, StringConstraints(strip_whitespace=True)]
Names = tuple[str, ...]


class Heading(Strict):
    """Keys that the `board.toml` of every board and `front.toml` have in common."""

    title: Text = ""
    """Heading of the board."""
    introduction: Text = ""
    """Markdown text below the heading: the question that the board answers."""
    details: Text = ""
    """Markdown text below the tables: how the results were made."""


class FrontFile(Heading):
    """Content of `front.toml`, which configures the front page of all boards."""

    add_encoder: Text = ""
    """URL where readers request an encoder; `{board}` is replaced by the board's name."""


class SweepFile(Heading):
    """Content of the `board.toml` of a sweep."""

    weighting: Annotated[str, one_of(WEIGHTINGS.keys)] = "linear"
    """Weighting of the ranks."""
    models: Names = ()
    """Base encoders whose columns come first, in this order. The other bases that the sweep trains
    follow. A base that the sweep does not train has only published numbers."""


class Method(Strict):
    """A method: a board row that averages several encoders that differ only in the seed."""

    name: Text
    """Name of the row."""
    encoders: Names
    """Names of the encoders, one for each seed."""
    at: FiniteFloat | None = None
    """Position of the method on the axis of charts that `numbers` names."""
    line: Text = "mean over seeds"
    """Name of the line that connects this method to others with the same `line`."""


class BoardFile(Heading):
    """Content of the `board.toml` of a board of results."""

    weighting: Annotated[str, one_of(WEIGHTINGS.keys)] = "linear"
    """Weighting of the ranks."""
    tasks: Names = ()
    """Tasks to show; an empty list shows all tasks with results."""
    encoders: Names = ()
    """Encoders to show, by any of their names (see `names_of`); an empty list shows all."""
    protocols: Names = ()
    """Protocols to show; an empty list shows all. A task type without results of these protocols
    shows all of its results."""
    columns: tuple[Annotated[str, one_of(titled_metrics)], ...] = ()
    """Titles of the columns of retrieval tables; an empty list shows the default columns."""
    measures: Annotated[dict[str, str], AfterValidator(_measures)] = Field(default_factory=dict)
    """Title of the column to show instead of the main score, by non-retrieval task type."""
    sort: Literal["", "P", "S", "retention", "joint", "kNN accuracy"] = ""
    """Title of the column by which rows are sorted and encoders are ranked. The default is P if
    every encoder is its own reference, and joint otherwise."""
    unmeasured: Names = ()
    """Tasks without results here, of types other than polarity. A table shows their published
    numbers."""
    group_by: Literal["", "reference", "k"] = ""
    """Property by which rows are grouped before they are sorted."""
    keep: Annotated[float, Field(gt=0, le=1)] | None = None
    """Minimum retention, as a fraction. Rows that reach it come first, and P is the default of
    `sort`. The strength of a dial is chosen among the strengths that reach it."""
    gains: bool = False
    """Whether to show what encoders gain over their reference, in tables and figures. These figures
    replace the others."""
    numbers: Text = ""
    """Title of the numbers `at` of the methods, such as `labels`. If methods have such numbers,
    charts of P and S by them replace those of P against S."""
    method: tuple[Method, ...] = ()
    """Methods, each shown as one row. Encoders without a listed method keep their rows."""


F = TypeVar("F", bound=Heading)


def board_file(file: Path, model: type[F]) -> F:
    """Read the configuration of a board; if there is no file, return the defaults.

    Raises:
        InputError: If the file is not valid TOML, or has an unknown key or an invalid value.
    """
    if not file.is_file():
        return model()
    values = read_toml(file)
    with reworded(f"{file}: "):
        return validated(model, values)
