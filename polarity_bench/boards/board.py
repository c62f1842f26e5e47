"""Boards of results, which compare encoders by their stored scores.

The first table is a summary. Each task type has a table for each protocol, and each retrieval task
has its own table. Every table is sorted and ranked by its own scores.

Means are computed over the tasks for which every row has a result. If there is no such task, means
are computed over all tasks, and only for rows with results for all of them. Scores that depend on
a reference encoder (S, retention, joint, front) are ranked only among rows with the same reference,
which must be another encoder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from polarity_bench.boards.charts import gain_bars, k_curves, method_curves, parts_of_p, planes
from polarity_bench.boards.columns import Sections
from polarity_bench.boards.config import (
    FILE,
    BoardFile,
    board_file,
    published_columns,
    select_named,
    select_protocols,
)
from polarity_bench.boards.finding import finding
from polarity_bench.boards.method_rows import methods_of
from polarity_bench.boards.notes import board_notes
from polarity_bench.boards.provenance_notes import row_details
from polarity_bench.boards.records import bound_records, encoder_records, paper_records
from polarity_bench.compare.encoder_ranks import FILE as STATISTICS
from polarity_bench.compare.encoder_ranks import Standings, read_standings
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, check_known, reworded
from polarity_bench.render.chart import Chart
from polarity_bench.render.table import Board
from polarity_bench.results.curve import Curve
from polarity_bench.results.curve_files import read_curves
from polarity_bench.results.frame import Record
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.results.published import match_published, read_published
from polarity_bench.results.result_files import Result, names_of, read_results
from polarity_bench.scores import ScoreKey


@dataclass(frozen=True)
class BoardParts:
    """Data from which a board of results is built.

    Attributes:
        results: The results.
        config: The content of `board.toml`.
        curves: Curves over several of the results. Curves with missing results are not shown.
        published: Records of published numbers, shown beside the results.
        standings: The stored ranks and ties of encoders.
        folder: Folder of the board. If None, the details of rows do not name their result files.
    """

    results: Sequence[Result]
    config: BoardFile = field(default_factory=BoardFile)
    curves: Sequence[Curve] = ()
    published: Sequence[Record] = ()
    standings: Standings = field(default_factory=Standings)
    folder: Path | None = None


def find_board(
    folder: Path,
    weighting: str | None = None,
    *,
    title: str | None = None,
    tasks: Sequence[str] = (),
    models: Sequence[str] = (),
) -> BoardParts:
    """Read the results and curves in a board's folder, and the other files of the board.

    Three files are optional: `board.toml` selects and sorts the results (see `BoardFile`),
    `published.csv` contains published numbers (see `results.published`), and `statistics.json`
    contains ranks and ties.

    Args:
        folder: Folder of the board, with the results.
        weighting: Weighting of the ranks; overrides `board.toml`.
        title: Title of the board; overrides `board.toml`.
        tasks: Tasks to show; overrides `board.toml`.
        models: Encoders to show, by name, last part of the name or first 8 digits of the digest;
            overrides `board.toml`.

    Raises:
        InputError: If there are no complete results, or a file has an error.
    """
    file = folder / FILE
    config = board_file(file, BoardFile)
    overridden = {"weighting": weighting or config.weighting, "title": title or config.title}
    config = config.model_copy(update=overridden)
    results = list(read_results(folder))
    complete = [result for result in results if result.limit is None]
    if not complete:
        remedy = "without a `limit`" if results else "first"
        raise InputError(
            f"{folder}: contains no complete results; run `polarity-bench run` {remedy}"
        )
    where = "`tasks`" if tasks else f"{file}: `tasks`"
    chosen = select_named(complete, where, tasks or config.tasks, lambda result: [result.task])
    where = "`models`" if models else f"{file}: `encoders`"
    chosen = select_named(
        chosen, where, models or config.encoders, lambda result: names_of(result.key.encoder)
    )
    chosen = select_protocols(chosen, f"{file}: `protocols`", config.protocols, complete)
    twins: dict[str, set[str]] = {}
    of_tasks: dict[str, set[ScoreKey]] = {}
    for result in complete:
        of_tasks.setdefault(result.task, set()).update(result.scores)
        for name in names_of(result.key.encoder):
            twins.setdefault(name, set()).add(result.key.encoder.digest)
    _check_methods(file, config, twins)
    for name in config.unmeasured:
        if name in of_tasks:
            raise InputError(f"{file}: 'unmeasured': {name} has results here; remove the name")
        with reworded(f"{file}: 'unmeasured': "):
            of_tasks[name] = {*published_columns(name)}
    shown = {*config.unmeasured, *(result.task for result in chosen)}
    printed = match_published(read_published(folder / PUBLISHED), of_tasks, twins)
    return BoardParts(
        chosen,
        config,
        [curve for curve in read_curves(folder, results) if curve.limit is None],
        [each for each in printed if each["task"] in shown],
        read_standings(folder / STATISTICS),
        folder,
    )


def _check_methods(file: Path, config: BoardFile, digests: Mapping[str, Collection[str]]) -> None:
    """Raise InputError if a method lists an unknown encoder, or an encoder is listed twice.

    Args:
        file: Path of the `board.toml`.
        config: Content of the file.
        digests: Digests of the encoders with results, by each of their names.
    """
    listed: dict[str, str] = {}
    for method in config.method:
        for name in method.encoders:
            where = f"{file}: 'method' {method.name!r}"
            check_known(name, digests, f"{where}: no results of {name!r}")
            for digest in digests[name]:
                if digest in listed:
                    raise InputError(
                        f"{where}: {name!r} is already listed by the method {listed[digest]!r}; "
                        "list each encoder once"
                    )
                listed[digest] = method.name


def board(parts: BoardParts | Iterable[Result]) -> Board:
    """Build a board of results.

    Args:
        parts: The results, alone or with the other parts of the board.

    Raises:
        InputError: If results of a task were made with different versions of the task, its data or
            its protocol, or if two different results belong in one cell. The message names both
            files.
    """
    if not isinstance(parts, BoardParts):
        parts = BoardParts(list(parts))
    config = parts.config
    title = config.title or "Polarity leaderboard"
    if not parts.results:
        return Board(title, config.introduction, (), ())
    sections = sections_of(parts)
    tables = sections.tables()
    charts: Iterable[Chart] = gain_bars(sections)
    if not config.gains:
        with reworded(f"{parts.folder / FILE if parts.folder else FILE}: "):
            first: Iterable[Chart] = [*method_curves(sections)] or planes(sections)
        charts = [*first, *k_curves(sections), *parts_of_p(sections)]
    return Board(
        title=title,
        introduction=config.introduction,
        tables=tables,
        notes=board_notes(sections, tables),
        charts=list(charts),
        details=row_details(sections, parts.folder),
        finding=finding(sections),
        origin=config.details,
    )


def sections_of(parts: BoardParts) -> Sections:
    """Return the records of a board, from which its tables and charts are made.

    Raises:
        InputError: If a result was computed without the weighting of the board, which a plug-in
            may have added later.
    """
    config, results = parts.config, sorted(parts.results, key=lambda result: str(result.path))
    for each in results:
        key = ScoreKey("polarity", each.main_score.k)
        if key in each.scores and replace(key, weighting=config.weighting) not in each.scores:
            raise InputError(
                f"{each.path}: no scores with the weighting {config.weighting!r}; evaluate the "
                "encoder again, or choose another weighting"
            )
    names, bare_names = _names(results)
    measured = encoder_records(results, names, config)
    further = [*paper_records(parts.published, measured, config), *bound_records(measured, names)]
    curves = [curve for curve in parts.curves if _shows_whole(curve, measured)]
    labels = _distinct({curve.encoder: curve.name for curve in curves})
    curves = [replace(curve, name=labels[curve.encoder]) for curve in curves]
    methods = methods_of(results, config.method)
    standings = parts.standings
    return Sections(measured, further, names, bare_names, config, curves, methods, standings)


def _shows_whole(curve: Curve, measured: Sequence[Record]) -> bool:
    """Return whether the board shows all results of a curve."""
    encoders = {each["encoder_digest"] for each in measured if each["place"] == curve.task}
    return {point.encoder for point in curve.points} <= encoders


def _distinct(labels: Mapping[str, str]) -> dict[str, str]:
    """Append the digest to each label that several encoders share."""
    counts = Counter(labels.values())
    return {
        digest: f"{label} @{digest[:8]}" if counts[label] > 1 else label
        for digest, label in labels.items()
    }


def _names(results: Sequence[Result]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the display names of encoders, and those without their prompts, by digest.

    An encoder with several names shows all of them. Encoders with the same display name also show
    their digests. The empty digest stands for an encoder that is its own reference. A name leaves
    out the sides `query-document`, unless the same encoder without sides is on the board.
    """
    encoders: dict[str, set[EncoderId]] = {}
    for result in results:
        for encoder in filter(None, (result.key.encoder, result.key.reference)):
            encoders.setdefault(encoder.digest, set()).add(encoder)
    labels, bare = dict[str, str](), dict[str, str]()
    for digest, own in encoders.items():
        shown = [_without_sides(each, encoders) for each in own]
        labels[digest] = ", ".join(sorted({each.label for each in shown}))
        bare[digest] = ", ".join(sorted({replace(each, prompt=None).label for each in shown}))
    names = _distinct(labels)
    bare |= {each: bare[each] + names[each].removeprefix(labels[each]) for each in names}
    return {"": "itself"} | names, bare


def _without_sides(encoder: EncoderId, digests: Container[str]) -> EncoderId:
    """Return an encoder without its sides, unless it is then another one of the board."""
    bare = replace(encoder, sides=None)
    is_clear = encoder.sides == "query-document" and bare.digest not in digests
    return bare if is_clear else encoder
