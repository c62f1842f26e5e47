"""Records of a sweep: scores of its training runs and bases, and published numbers.

The records have the columns of `results.frame` and these:

| column | meaning |
|---|---|
| item | identity of the training run, base or published number that the record belongs to |
| kind | `training`, `evaluation` of an untrained base, or `published` |
| state | of a run or base: `done`, `failed` or `left`; values are NaN if there is no result |
| base | base encoder of the training run, as written in the grid |
| twins | items to compare with: bases of a training run, twins of a published number |
| given | settings in the grid, by name; for a base, those that distinguish it from others |
| settings.NAME | settings, including the recipe's defaults, if the item has such a setting |
| result | the `Result`, if there is one |

The file `published.csv` in a sweep's folder has the format of `results.published`. Its columns
`model` and `task` have the names in the grid. `twin` contains settings of training runs
(`loss=triplet,margin=0.1`), or `reference` for the base. A number without `model` is a mean over
all training runs with the number of examples in `twin` (`examples=500`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import folder_name
from polarity_bench.results.comparability import cells_of
from polarity_bench.results.frame import Record, result_records
from polarity_bench.results.means import SCORE_COLUMNS
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.results.published import read_published, refuse_repeated, with_footnotes
from polarity_bench.results.result_files import Result, read_result
from polarity_bench.scores import ScoreKey
from polarity_bench.sweeps.plan import PlanItem, SweepPlan
from polarity_bench.sweeps.state_files import SweepState
from polarity_bench.values import grouped, shortest

TOLD_BY = ("prompt", "max_tokens", "revision")
"""Loading options that distinguish bases with the same name."""
TITLES = {"polarity": ("Polarity", "P"), "similarity": ("Semantic similarity", "S")}
"""Metrics of the table, with their long and short titles."""
_USUAL = ("", "reference")  # first words of experiments with the task's defaults
_SETTING = "settings."
_REFERENCE = "reference"

_Results = Mapping[tuple[str, str], Sequence[Result]]
"""Results, by the names of the encoder and the task."""


def sweep_records(
    folder: Path, plan: SweepPlan, weighting: str, models: Sequence[str] = ()
) -> list[Record]:
    """Return the scores of a sweep on the tasks that its training runs train on.

    Returns:
        The records of the bases, then of the training runs, then of the published numbers.

    Raises:
        InputError: If the sweep has no training runs or no results, if two results cannot be
            compared, or if a published number is wrong. The message names the files and the line.
    """
    trainings = [item for item in plan.items if item.kind == "training"]
    if not trainings:
        raise InputError(f"{folder}: no training runs; use `leaderboard {folder / 'results'}`")
    evaluations = {item.digest: item for item in plan.items if item.kind == "evaluation"}
    names = dict.fromkeys(item.encoder for item in [*trainings, *evaluations.values()])
    results = _read_results(folder / "results", names, {item.task for item in trainings})
    if not results:
        raise InputError(f"{folder}: no results yet; see `sweep status {folder}`")
    check_versions(result for several in results.values() for result in several)
    records = _base_records(trainings, evaluations, results, weighting)
    states = SweepState(folder)
    for item in trainings:
        result = _single(results.get((item.encoder, item.task), ()))
        if result and item.after in evaluations:
            _check_reference(result, evaluations[item.after].encoder_digest)
        outcome = None if result else states.outcome(item.digest)
        state = "failed" if outcome and outcome.state == "failed" else "left"
        planned: Record = {"item": item.digest, "kind": item.kind, "encoder": item.encoder}
        planned |= {"task": item.task, "given": item.settings, "state": state}
        planned["twins"] = frozenset({_base_of(item)})
        records += _item_records(planned, item.resolved or item.settings, result, weighting)
    return [*records, *_published_records(folder, records, models, weighting)]


def _read_results(folder: Path, encoders: Iterable[str], tasks: set[str]) -> _Results:
    """Read the results with the tasks' default settings, for some encoders and tasks."""
    task_of: dict[str, str] = {}  # tasks, by the stem of their result files
    first = next(iter(tasks))
    results: dict[tuple[str, str], list[Result]] = {}
    paths = paths_by_encoder(folder)
    for name in encoders:
        for path in sorted(paths.get(folder_name(name), ()), key=lambda path: (path.stem, path)):
            if task_of.get(path.stem, first) not in tasks:
                continue
            result = read_result(path)
            task_of[path.stem] = result.task
            is_asked = result.task in tasks and result.key.encoder.name == name
            if is_asked and _is_usual(result):
                results.setdefault((name, result.task), []).append(result)
    return results


def _is_usual(result: Result) -> bool:
    """Return whether a result uses the task's default settings."""
    return result.limit is None and result.experiment.partition("_")[0] in _USUAL


def check_versions(results: Iterable[Result]) -> None:
    """Check that all results with the tasks' default settings have the same version.

    Boards make the same check. To save time, only one result of each version is compared.

    Raises:
        InputError: If two results have different versions of a task, its data or its protocol.
    """
    versions: dict[tuple[str, ...], Result] = {}
    for result in filter(_is_usual, results):
        key = result.key
        versions.setdefault((result.task, key.task, key.data, str(key.protocol)), result)
    cells_of(versions.values())


def _check_reference(result: Result, expected: str) -> None:
    """Check that a training run was measured with the base in the plan, by its digest.

    Raises:
        InputError: If the training run was measured with another encoder.
    """
    measured_with = (result.key.reference or result.key.encoder).digest
    if not result.lacks_reference and measured_with != expected:
        raise InputError(
            f"{result.path}: the reference encoder has the digest {measured_with}, but according "
            f"to the plan the base has the digest {expected}; delete the result with the wrong "
            "reference, and its trained encoder in `runs`, then run the sweep again"
        )


def _single(several: Sequence[Result]) -> Result | None:
    """Return the result of a cell; None if there is none.

    Results whose reference was available take precedence.

    Raises:
        InputError: If several results remain.
    """
    complete = [result for result in several if not result.lacks_reference] or several
    if len(complete) > 1:
        first, second = complete[:2]
        raise InputError(
            f"{first.task}: {first.path} and {second.path} are both results of the encoder "
            f"{first.key.encoder.name} for one cell; delete one of them"
        )
    return complete[0] if complete else None


def _base_of(training: PlanItem) -> tuple[str, str, str | None]:
    """Return the base and the task of a training run, and the evaluation of the base."""
    return training.settings["model"], training.task, training.after


def _base_records(
    trainings: Iterable[PlanItem],
    evaluations: Mapping[str, PlanItem],
    results: _Results,
    weighting: str,
) -> list[Record]:
    """Return the records of the bases on the tasks of their training runs.

    A model that was loaded with different options has several bases. Their settings are the options
    in which they differ.
    """
    bases: dict[tuple[str, str, str | None], Result | None] = {}
    for base in dict.fromkeys(map(_base_of, trainings)):
        planned = evaluations.get(base[2] or "")
        of_base = results.get((planned.encoder, base[1]), ()) if planned else ()
        expected = planned.encoder_digest if planned else ""
        bases[base] = _single([r for r in of_base if r.key.encoder.digest == expected])
    records = []
    for base, result in bases.items():
        model, task, digest = base
        alike = [other for key, other in bases.items() if key[:2] == (model, task)]
        differ = [n for n in TOLD_BY if len({_option(other, n) for other in alike}) > 1]
        options = {n: value for n in differ if (value := _option(result, n)) is not None}
        settings = {"model": model, **options}
        encoder = evaluations[digest].encoder if digest and digest in evaluations else model
        item: Record = {"item": base, "kind": "evaluation", "encoder": encoder, "task": task}
        item |= {"given": settings, "twins": frozenset(), "state": "left"}
        records += _item_records(item, settings, result, weighting)
    return records


def _option(result: Result | None, name: str) -> Any:
    """Return a loading option of a result's encoder; None if there is no result."""
    return getattr(result.key.encoder, name) if result else None


def _item_records(
    item: Mapping[str, Any],
    settings: Mapping[str, Any],
    result: Result | None,
    weighting: str,
) -> list[Record]:
    """Return the P and S records of an item; the values are NaN if there is no result.

    A base also has records for the scores of the oracle and of chance.
    """
    common: dict[str, Any] = {
        **{f"{_SETTING}{name}": value for name, value in settings.items()},
        **{name: settings.get(name) for name in ("recipe", "seed")},
        **item,
        "base": settings["model"],
    }
    common |= {"role": "measured", "weighting": weighting, "k": None}
    common |= dict.fromkeys(SCORE_COLUMNS, math.nan)
    if result is None:
        return [common | {"metric": metric} for metric in TITLES]
    common |= {"state": "done", "result": result}
    keys = [ScoreKey(metric, result.main_score.k, weighting) for metric in TITLES]
    if item["kind"] == "evaluation":
        keys += [replace(key, metric=f"{key.metric}_oracle") for key in keys]
        keys += [ScoreKey(f"{metric}_chance") for metric in TITLES]
    records = {metric: common | {"metric": metric} for metric in TITLES}
    records |= {each["metric"]: each for each in result_records(result, keys, **common)}
    return [*records.values()]


def _published_records(
    folder: Path, records: Sequence[Record], models: Sequence[str], weighting: str
) -> list[Record]:
    """Return a record for each published number of a sweep, with the items to compare it with.

    Raises:
        InputError: If a line is wrong or no training run corresponds to it, or if one of `models`
            has neither training runs nor published numbers.
    """
    published = with_footnotes(read_published(folder / PUBLISHED))
    trained = set(map(column_of, records))
    columns = {*trained, *((model, task) for model in models for _, task in trained)}
    items = [record for record in records if record["metric"] == next(iter(TITLES))]
    cells = list[tuple[Record, Hashable]]()
    for number in published:
        _check_column(number, columns)
        twins = _twins(number, items)
        same: list[Hashable] = [(number["paper"], *column_of(number))]
        if not number["base"]:
            shared = (each["item"] for each in items if each["item"] in twins)
            same = [(number["source"], number["note"], item) for item in shared]
            number |= {"std": math.nan, "seed_std": number["std"]}
        cells += [(number, (number["encoder"], number["key"], each)) for each in same]
        # Published numbers have the weighting of the board.
        number |= {"kind": "published", "weighting": weighting, "twins": twins}
        number["item"] = number["file"]
    refuse_repeated(cells)
    known_models = {model for model, _ in trained} | {each["base"] for each in published} - {""}
    for model in models:
        where = f"{folder / 'board.toml'}: 'models'"
        problem = f"{where}: no training run and no published number has the base {model!r}"
        check_known(model, known_models, problem)
    return published


def _check_column(number: Record, columns: Iterable[tuple[str, str]]) -> None:
    """Check that a published number is a P or S score for a base and task of the sweep."""
    base, task = column_of(number)
    if all(base not in ("", other) or task not in ("", t) for other, t in columns):
        of = ", ".join(filter(None, [base, task]))
        near = nearest(of, {", ".join(each) for each in columns})
        raise InputError(f"{number['file']}: the sweep has no training runs for {of}{near}")
    key = str(number["key"])
    check_known(key, TITLES, f"{number['file']}: unknown score {key!r}")


def _twins(number: Record, items: Sequence[Record]) -> frozenset[Hashable]:
    """Return the items to compare a published number with.

    Raises:
        InputError: If no item matches `twin`, or if the matching training runs differ in more than
            the seed.
    """
    where, written, (base, task) = number["file"], number["twin"], column_of(number)
    required = written.split(",") if written not in ("", _REFERENCE) else []
    is_mean = not base
    if is_mean and not any(text.strip().startswith("examples=") for text in required):
        raise InputError(
            f"{where}: `twin` must contain `examples`, such as examples=500, because `model` is "
            f"empty, got {written!r}; add `examples`, or name the base in `model`"
        )
    if not written:
        return frozenset()
    kinds = grouped(items, lambda item: item["kind"])
    if is_mean and len(by_settings(kinds["training"], ["examples"])) == 1:
        raise InputError(
            f"{where}: no table shows this number, because all training runs have the same number "
            "of examples; delete the line"
        )
    twins = [
        item
        for item in kinds["evaluation" if written == _REFERENCE else "training"]
        if base in ("", item["base"]) and task in ("", item["task"])
    ]
    if required:
        twins = _with_settings(twins, required, f"{where}: `twin`")
    if required and not is_mean:
        given = {str(sorted(({**twin["given"], "seed": None}).items())) for twin in twins}
        if len(given) > 1:
            raise InputError(
                f"{where}: `twin` matches training runs with {len(given)} different combinations "
                "of settings; add settings to `twin`"
            )
    return frozenset(twin["item"] for twin in twins)


def select(
    records: Sequence[Record], models: Sequence[str], where: Sequence[str]
) -> tuple[list[Record], list[str]]:
    """Select training runs by their settings, with their bases and published numbers.

    Args:
        records: The records of a sweep.
        models: Bases that have columns in tables.
        where: Settings of the training runs to select, each as KEY=VALUE. If a key occurs several
            times, a run may have any of its values.

    Returns:
        The selected records, and the models that still have columns.

    Raises:
        InputError: If no training run has a setting in `where`, or none has all of them.
    """
    trainings = [record for record in records if record["kind"] == "training"]
    selected = _with_settings(trainings, where, "`where`")
    trained, columns = {*map(column_of, trainings)}, {*map(column_of, selected)}
    tasks = {task for _, task in columns}
    models = [m for m in models if any((m, t) in columns or (m, t) not in trained for t in tasks)]
    columns |= {(model, task) for model in models for task in tasks}
    items = {record["item"] for record in selected} | twins_of(selected)
    for record in records:
        is_shown = column_of(record) in columns or not record["base"]
        has_twins = not record["twins"] or record["twins"] & items
        if record["kind"] == "published" and is_shown and has_twins:
            items.add(record["item"])
    return [record for record in records if record["item"] in items], models


def _with_settings(records: Sequence[Record], required: Sequence[str], place: str) -> list[Record]:
    """Return the training runs that have all required settings, each written as KEY=VALUE.

    If a key occurs several times, a run may have any of its values.

    Args:
        records: Records of training runs.
        required: The required settings.
        place: Where the settings are written, for messages.

    Raises:
        InputError: If no training run has one of the settings, or none has all of them.
    """
    kept: dict[str, list[bool]] = {}
    for text in required:
        key, equals, wanted = text.strip().partition("=")
        if not equals:
            raise InputError(f"{place} {text}: expected KEY=VALUE, such as examples=500")
        values = [record.get(f"{_SETTING}{key}", math.nan) for record in records]
        known = {word(value) for value in values if value == value}
        if records and not known:
            names = {str(name) for record in records for name in record}
            settings = {name.removeprefix(_SETTING) for name in names if _SETTING in name}
            near = nearest(key, settings)
            raise InputError(f"{place} {text}: no training run has the setting {key!r}{near}")
        fits = [matches(value, wanted) for value in values]
        if not any(fits):
            near = nearest(wanted, known)
            raise InputError(f"{place} {text}: no training run has this {key}{near}")
        kept[key] = [a or b for a, b in zip(fits, kept.get(key, fits), strict=True)]
    fitting = [all(each) for each in zip(*kept.values(), strict=True)]
    if not any(fitting):
        raise InputError(
            f"{place} {', '.join(required)}: no training run has all these settings; leave out one"
        )
    return [*compress(records, fitting)]


def twins_of(records: Iterable[Record]) -> set[Hashable]:
    """Return the items with which any of the records is compared."""
    return set[Hashable]().union(*(record["twins"] for record in records))


def column_of(record: Record) -> tuple[str, str]:
    """Return the base and the task of a record, which identify its column in tables."""
    return record["base"], record["task"]


def by_settings(
    records: Iterable[Record], names: Sequence[str]
) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by the values of settings, in order of first occurrence.

    Returns:
        The records of each group, by their values; the value of a missing setting is None.
    """
    return grouped(records, lambda each: tuple(each.get(f"{_SETTING}{name}") for name in names))


def matches(value: Any, text: str) -> bool:
    """Return whether a text stands for a value of a setting.

    Numbers may have any format. The last part of a path is enough, such as `model` for `org/model`.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text.replace(",", "")) == value
        except ValueError:
            return False
    return text in (word(value), Path(value).name if isinstance(value, str) else "")


def word(value: Any) -> str:
    """Return the value of a setting as text, as written in a grid."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return shortest(value) if isinstance(value, float) else str(value) or "''"
