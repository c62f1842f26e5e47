"""Scores of a sweep: its training runs and their base encoders, on the task trained on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polarity_bench.boards.config import OF_SWEEPS, board_file
from polarity_bench.boards.sweep_provenance import command_of
from polarity_bench.errors import InputError, nearest
from polarity_bench.files import folder_name
from polarity_bench.results.comparability import lay_in_cells
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.results.result_files import Result, Stored, read_result
from polarity_bench.scores import Weighting
from polarity_bench.sweeps import old_defaults
from polarity_bench.sweeps.item_states import SweepState
from polarity_bench.sweeps.plan import PlanItem, read_plan
from polarity_bench.sweeps.published_scores import (
    PublishedTraining,
    check_reported,
    read_reported,
    reported_of,
)
from polarity_bench.sweeps.published_sizes import FILE as PUBLISHED_SIZES
from polarity_bench.sweeps.published_sizes import ReportedSize, read_reported_sizes
from polarity_bench.sweeps.records import METRICS, TOLD_BY, Record, State, is_said, word

_USUAL = ("", "reference")  # how experiments with the task's defaults begin


@dataclass(frozen=True)
class SweepScores:
    """Scores of a sweep: its training runs, in the order of the plan, and their bases.

    Attributes:
        introduction: Introduction by the author of the sweep, in markdown.
        reported: Published numbers of comparable training runs.
        reported_sizes: Published means by number of examples.
        models: Bases whose columns the tables show, including bases with published numbers only.
        folder: Folder of the sweep; paths of result files are relative to it.
        command: The command that reproduces the sweep.
    """

    title: str
    weighting: Weighting
    trainings: Sequence[Record]
    bases: Sequence[Record]
    introduction: str = ""
    reported: Sequence[PublishedTraining] = ()
    reported_sizes: Sequence[ReportedSize] = ()
    models: Sequence[str] = ()
    folder: Path | None = None
    command: str = ""


def read_sweep(
    folder: Path, weighting: Weighting | None = None, where: Sequence[str] = ()
) -> SweepScores:
    """Read the scores of a sweep's training runs and their bases, on the tasks trained on.

    A `board.toml` in the folder may set title, introduction, weighting and models.

    Args:
        folder: Folder of the sweep.
        weighting: Weighting of the ranks; overrides the file's, which is linear by default.
        where: Settings of the training runs to keep, each as KEY=VALUE. If a key is given several
            times, a run may have any of its values.

    Raises:
        InputError: If there is no sweep, it trains nothing or has no results, no training run has
            such a setting, or two results cannot be compared; names the files.
    """
    plan, described = read_plan(folder), board_file(folder / "board.toml", OF_SWEEPS)
    weighting = weighting or described.weighting
    planned = [
        (item, item.resolved or old_defaults.completed(item.settings))
        for item in plan.items
        if item.kind == "training"
    ]
    if not planned:
        raise InputError(f"{folder}: it trains nothing; see `leaderboard {folder / 'results'}`")
    bases = [item for item in plan.items if item.kind == "evaluation"]
    names = dict.fromkeys(item.encoder for item in [*(each for each, _ in planned), *bases])
    found = _results(folder / "results", names, {item.task for item, _ in planned})
    if not found:
        raise InputError(f"{folder}: it has no results yet; see `sweep status {folder}`")
    check_alike(stored for several in found.values() for stored in several)
    state = SweepState(folder)
    trainings = [
        _training(item, settings, found.get((item.encoder, item.task), ()), state, weighting)
        for item, settings in planned
    ]
    _check_references(trainings, bases)
    columns = dict.fromkeys(each.column for each in trainings)
    as_they_are = [r for c in columns for r in _bases(c, bases, found, trainings, weighting)]
    said = {key for each in trainings for key in each.settings}
    others = [(model, task) for model in described.models for _, task in columns]
    reported = read_reported(folder / PUBLISHED, {*columns, *others}, said)
    _check_models(described.models, columns, reported, folder)
    check_reported(reported, [*trainings, *as_they_are])
    scores = SweepScores(
        described.title or plan.title,
        weighting,
        trainings,
        as_they_are,
        described.introduction,
        reported,
        read_reported_sizes(folder / PUBLISHED_SIZES, trainings),
        described.models,
        folder,
        command_of(plan.grid, folder),
    )
    return _where(scores, where) if where else scores


def _check_models(
    models: Sequence[str],
    columns: Iterable[tuple[str, str]],
    reported: Sequence[PublishedTraining],
    folder: Path,
) -> None:
    """Raise an error if a wanted base has neither training runs nor published numbers."""
    known = {model for model, _ in columns} | {each.column[0] for each in reported}
    for model in models:
        if model not in known:
            raise InputError(
                f"{folder / 'board.toml'}: 'models': {model!r}: nothing is trained of it, nor "
                f"published{nearest(model, known)}"
            )


def _results(
    results: Path, encoders: Iterable[str], tasks: set[str]
) -> dict[tuple[str, str], list[Stored]]:
    """Read the results of these encoders on these tasks that use the task's default settings."""
    task_of: dict[str, str] = {}  # by the name of its files, once one was read
    first = next(iter(tasks))
    found: dict[tuple[str, str], list[Stored]] = {}
    paths = paths_by_encoder(results)
    for name in encoders:
        for path in sorted(paths.get(folder_name(name), ()), key=lambda path: (path.stem, path)):
            if task_of.get(path.stem, first) not in tasks:
                continue
            result = read_result(path)
            task_of[path.stem] = result.task
            own = result.task in tasks and result.key.encoder.name == name
            if own and _is_usual(result):
                found.setdefault((name, result.task), []).append((path, result))
    return found


def _is_usual(result: Result) -> bool:
    """Return whether a result uses the task's default settings."""
    return result.limit is None and result.experiment.partition("_")[0] in _USUAL


def check_alike(found: Iterable[Stored]) -> None:
    """Raise an error if results by the tasks' default settings are of different versions.

    Boards do the same. Only one result of each version is compared, which is enough.
    """
    versions: dict[tuple[str, ...], Stored] = {}
    for path, result in found:
        if not _is_usual(result):
            continue
        key = result.key
        versions.setdefault((result.task, key.task, key.data, str(key.protocol)), (path, result))
    lay_in_cells(list(versions.values()), {})


def _training(
    item: PlanItem,
    settings: Mapping[str, Any],
    several: Sequence[Stored],
    state: SweepState,
    weighting: Weighting,
) -> Record:
    stored = _only(several)
    how: State = "done" if stored else "left"
    if stored is None and (outcome := state.outcome(item.digest)) and outcome.state == "failed":
        how = "failed"
    said = item.settings
    at = (item.encoder, item.task, how, stored, weighting, item.after)
    return Record("training", said, settings, *at)


def _check_references(trainings: Sequence[Record], bases: Sequence[PlanItem]) -> None:
    """Raise an error if training runs of one base were measured with different encoders.

    If the plan names the encoder of the base, they must be measured with that encoder.
    """
    planned = {item.digest: item.encoder_digest for item in bases if item.encoder_digest}
    first_of_base: dict[tuple[Any, ...], tuple[str, str]] = {}
    for record in trainings:
        if record.stored is None or record.stored[1].lacks_reference:
            continue
        path, result = record.stored
        measured_with = (result.key.reference or result.key.encoder).digest
        base = (record.column, record.base, *map(record.settings.get, TOLD_BY))
        source, expected = first_of_base.setdefault(base, (str(path), measured_with))
        if record.base in planned:
            source, expected = "the plan", planned[record.base]
        if measured_with != expected:
            raise InputError(
                f"{path}: measured with the encoder {measured_with}, but the base is {expected} by "
                f"{source}; delete the result that is of another base, and its encoder in `runs`, "
                "then run the sweep again"
            )


def _only(several: Sequence[Stored]) -> Stored | None:
    """Return the single result of a cell; one whose reference was available takes precedence."""
    whole = [each for each in several if not each[1].lacks_reference] or several
    if len(whole) > 1:
        (first, result), (second, _) = whole[:2]
        raise InputError(
            f"{result.task}: the results {first} and {second} are of one encoder, "
            f"{result.key.encoder.name}, for one cell; keep one of them"
        )
    return whole[0] if whole else None


def _bases(
    column: tuple[str, str],
    items: Sequence[PlanItem],
    found: Mapping[tuple[str, str], Sequence[Stored]],
    trainings: Sequence[Record],
    weighting: Weighting,
) -> list[Record]:
    """Return the bases of a column; several if one model was loaded in several ways."""
    model, task = column
    own = {each.base for each in trainings if each.column == column}
    planned = [each for each in items if each.digest in own]
    if planned:
        return _planned_bases(column, planned, found, weighting)
    alike = [each for each in items if each.settings.get("model") == model]
    names = dict.fromkeys(each.encoder for each in alike)
    several = [stored for name in names for stored in found.get((name, task), [])]
    measured_by = {
        (each.stored[1].key.reference or each.stored[1].key.encoder).digest
        for each in trainings
        if each.column == column and each.stored
    }
    several = [s for s in several if s[1].key.encoder.digest in measured_by] or several
    apart: dict[tuple[Any, ...], list[Stored]] = {}
    for one in several:
        key = tuple(getattr(one[1].key.encoder, name) for name in TOLD_BY)
        apart.setdefault(key, []).append(one)
    made = []
    for key, stored_of_it in (apart or {(): []}).items():
        differ = zip(TOLD_BY, key, strict=True) if len(apart) > 1 else ()
        said = {"model": model} | {name: value for name, value in differ if value is not None}
        stored = _only(stored_of_it)
        how: State = "done" if stored else "left"
        name = next(iter(names), model)
        made.append(Record("evaluation", said, said, name, task, how, stored, weighting))
    return made


def _planned_bases(
    column: tuple[str, str],
    planned: Sequence[PlanItem],
    found: Mapping[tuple[str, str], Sequence[Stored]],
    weighting: Weighting,
) -> list[Record]:
    """Return the records of the base evaluations that the plan puts before training runs."""
    model, task = column
    stored = [
        _only([s for s in found.get((item.encoder, task), ()) if _is_of(s, item)])
        for item in planned
    ]
    keys = [
        {name: getattr(each[1].key.encoder, name) for name in TOLD_BY} if each else {}
        for each in stored
    ]
    differ = [name for name in TOLD_BY if len({key.get(name) for key in keys}) > 1]
    made = []
    for item, one, key in zip(planned, stored, keys, strict=True):
        said = {"model": model} | {n: key[n] for n in differ if key.get(n) is not None}
        how: State = "done" if one else "left"
        at = (item.encoder, task, how, one, weighting, item.digest)
        made.append(Record("evaluation", said, said, *at))
    return made


def _is_of(stored: Stored, item: PlanItem) -> bool:
    return stored[1].key.encoder.digest == item.encoder_digest


def _where(scores: SweepScores, where: Sequence[str]) -> SweepScores:
    """Keep the training runs with the wanted settings, their bases and their published numbers."""
    wanted: dict[str, list[str]] = {}
    known = {key for each in scores.trainings for key in each.settings}
    for said in where:
        key, equals, text = said.partition("=")
        if not equals:
            raise InputError(f"`where` {said}: KEY=VALUE is wanted, e.g. examples=500")
        if key not in known:
            raise InputError(f"`where` {said}: no training has a {key!r}{nearest(key, known)}")
        values = [each.settings[key] for each in scores.trainings if key in each.settings]
        if not any(is_said(value, text) for value in values):
            near = nearest(text, {word(value) for value in values})
            raise InputError(f"`where` {said}: no training has this {key}{near}")
        wanted.setdefault(key, []).append(text)
    kept = [
        each
        for each in scores.trainings
        if all(
            key in each.settings and any(is_said(each.settings[key], text) for text in texts)
            for key, texts in wanted.items()
        )
    ]
    if not kept:
        raise InputError(f"`where` {', '.join(where)}: no training has all of that")
    columns = {each.column for each in kept}
    trained = {each.column for each in scores.trainings}
    tasks = {task for _, task in columns}
    models = [
        m for m in scores.models if any((m, t) in columns or (m, t) not in trained for t in tasks)
    ]
    bases = [each for each in scores.bases if each.column in columns]
    shown = columns | {(model, task) for model in models for task in tasks}
    reported = [
        each
        for each in scores.reported
        if each.column in shown and (not each.twin or reported_of([each], kept))
    ]
    return replace(scores, trainings=kept, bases=bases, reported=reported, models=models)


def sweep_as_json(scores: SweepScores) -> dict[str, Any]:
    """Return the scores of a sweep as JSON values: fractions, undefined scores are null."""
    return {
        "unit": "fraction",
        "title": scores.title,
        "weighting": scores.weighting,
        "records": [_as_json(each) for each in [*scores.bases, *scores.trainings]],
    }


def _as_json(record: Record) -> dict[str, Any]:
    values: dict[str, float | None] = {}
    for metric, (_, short) in METRICS.items():
        score = record.score(metric)
        values[short] = score.mean if score else None
        values[f"{short}_std"] = None if score is None or math.isnan(score.std) else score.std
    return {
        "kind": record.kind,
        "settings": dict(record.said),
        "encoder": record.encoder,
        "task": record.task,
        "k": record.k,
        **values,
        "state": record.state,
    }
