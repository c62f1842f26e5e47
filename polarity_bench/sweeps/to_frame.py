"""Scores of a sweep and published numbers, as a table of records.

The table has the columns of `results.frame` and these:

| column | meaning |
|---|---|
| item | number of the training run, base or published number that the record belongs to |
| kind | `training`, `evaluation` of an untrained base, or `published` |
| state | `done`, `failed` or `left`; values are NaN if there is no result |
| base | base encoder of the training run, as written in the grid |
| twins | items to compare with: bases of a training run, twins of a published number |
| given | names of the settings in the grid; for a base, settings that distinguish it from others |
| settings.NAME | settings, including the recipe's defaults; NaN if the item has no such setting |
| date, made_by | for a result: its date, and the versions that produced it |
| footnote, paper | for a published number: number of the footnote, citation without tables |

The file `published.csv` in a sweep's folder has the format of `results.published`. Its columns
`model` and `task` have the names in the grid. `twin` contains settings of training runs
(`loss=triplet,margin=0.1`), or `reference` for the base. A number without `model` is a mean over
all training runs with the number of examples in `twin` (`examples=500`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import folder_name
from polarity_bench.results import frame
from polarity_bench.results.comparability import lay_in_cells
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.results.published import FILE as PUBLISHED
from polarity_bench.results.published import PublishedNumber, footnote_numbers, read_published
from polarity_bench.results.result_files import Result, made_by, read_result
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.sweeps.plan import PlanItem, SweepPlan
from polarity_bench.sweeps.state_files import SweepState
from polarity_bench.values import shortest

if TYPE_CHECKING:
    from pandas import DataFrame

TOLD_BY = ("prompt", "max_tokens", "revision")
"""Loading options that distinguish bases with the same name."""
METRICS = {"polarity": ("Polarity", "P"), "similarity": ("Semantic similarity", "S")}
"""Metrics of the table, with their long and short titles."""
_USUAL = ("", "reference")  # first words of experiments with the task's defaults
_SETTING = "settings."
_REFERENCE = "reference"
_FURTHER = {"twins": frozenset[int](), "footnote": 0, "paper": "", "date": math.nan, "made_by": {}}

_Results = Mapping[tuple[str, str], Sequence[Result]]
"""Results, by the names of the encoder and the task."""


class _Item(NamedTuple):
    """Training run or base on one task.

    Attributes:
        kind: `training` or `evaluation`.
        encoder: Name of the encoder in results.
        task: Name of the task.
        given: Names of the settings in the grid.
        settings: All settings.
        result: The result; None if there is none.
        state: `done`, `failed` or `left`.
        base: Digest of the evaluation of the base.
    """

    kind: str
    encoder: str
    task: str
    given: tuple[str, ...]
    settings: Mapping[str, Any]
    result: Result | None
    state: str
    base: str | None

    @property
    def column(self) -> tuple[str, str]:
        """Base and task, which identify a column of tables."""
        return self.settings["model"], self.task

    def is_trained_from(self, base: _Item) -> bool:
        """Return whether this item is a training run of a base."""
        is_own = base.column == self.column and base.base == self.base
        return self.kind == "training" and is_own


def read_frame(
    folder: Path, plan: SweepPlan, weighting: Weighting, models: Sequence[str] = ()
) -> DataFrame:
    """Return the scores of a sweep on the tasks that its training runs train on.

    Args:
        folder: Folder of the sweep.
        plan: Plan of the sweep.
        weighting: Weighting of the ranks.
        models: Further bases that may have published numbers.

    Returns:
        The records of the bases, then of the training runs, then of the published numbers.

    Raises:
        InputError: If the sweep has no training runs or no results, if two results cannot be
            compared, or if a published number is wrong. The message names the files and the line.
    """
    planned = [item for item in plan.items if item.kind == "training"]
    if not planned:
        raise InputError(f"{folder}: no training runs; use `leaderboard {folder / 'results'}`")
    evaluations = [item for item in plan.items if item.kind == "evaluation"]
    names = dict.fromkeys(item.encoder for item in [*planned, *evaluations])
    results = _read_results(folder / "results", names, {item.task for item in planned})
    if not results:
        raise InputError(f"{folder}: no results yet; see `sweep status {folder}`")
    check_versions(result for several in results.values() for result in several)
    trainings = [_training(item, results, SweepState(folder)) for item in planned]
    _check_references(trainings, evaluations)
    columns = dict.fromkeys(item.column for item in trainings)
    bases = [base for c in columns for base in _bases(c, trainings, evaluations, results)]
    records = []
    for number, item in enumerate([*bases, *trainings]):
        base_numbers = (i for i, base in enumerate(bases) if item.is_trained_from(base))
        records += _item_records(number, item, frozenset(base_numbers), weighting)
    published = _published_records(folder, frame.to_frame(records), [*columns], models)
    of_board = {"weighting": weighting}  # published numbers use the weighting of the board
    return frame.to_frame([*records, *(record | of_board for record in published)])


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
    lay_in_cells(list(versions.values()), {})


def _training(item: PlanItem, results: _Results, states: SweepState) -> _Item:
    """Return a planned training run with its result and its state."""
    result = _single(results.get((item.encoder, item.task), ()))
    outcome = None if result else states.outcome(item.digest)
    state = "done" if result else "failed" if outcome and outcome.state == "failed" else "left"
    planned = item.encoder, item.task, tuple(item.settings)
    return _Item("training", *planned, item.resolved, result, state, item.after)


def _check_references(trainings: Sequence[_Item], evaluations: Sequence[PlanItem]) -> None:
    """Check that all training runs were measured with the base in the plan as reference encoder.

    Raises:
        InputError: If a training run was measured with another encoder.
    """
    planned: dict[str | None, str] = {each.digest: each.encoder_digest for each in evaluations}
    for item in trainings:
        if item.result is None or item.result.lacks_reference:
            continue
        expected, measured_with = planned[item.base], item.result.key.reference_encoder.digest
        if measured_with != expected:
            raise InputError(
                f"{item.result.path}: the reference encoder has the digest {measured_with}, but "
                f"according to the plan the base has the digest {expected}; delete the result with "
                "the wrong reference, and its trained encoder in `runs`, then run the sweep again"
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


def _bases(
    column: tuple[str, str],
    trainings: Sequence[_Item],
    evaluations: Sequence[PlanItem],
    results: _Results,
) -> list[_Item]:
    """Return the bases of a column; several if the model was loaded with different options.

    The bases are the evaluations that the plan links to the training runs.
    """
    model, task = column
    first = {item.base for item in trainings if item.column == column}
    candidates: list[tuple[PlanItem, Result | None]] = []
    for item in (item for item in evaluations if item.digest in first):
        of_base = results.get((item.encoder, task), ())
        matching = [r for r in of_base if r.key.encoder.digest == item.encoder_digest]
        candidates.append((item, _single(matching)))
    options = [_options(result) for _, result in candidates]
    differ = [name for name in TOLD_BY if len({each.get(name) for each in options}) > 1]
    bases = []
    for (item, base), loaded in zip(candidates, options, strict=True):
        distinct = {option: loaded[option] for option in differ if loaded.get(option) is not None}
        settings, state = {"model": model, **distinct}, "done" if base else "left"
        planned = item.encoder, task, tuple(settings)
        bases.append(_Item("evaluation", *planned, settings, base, state, item.digest))
    return bases


def _options(result: Result | None) -> dict[str, Any]:
    """Return the loading options of a result's encoder; empty if there is no result."""
    return {name: getattr(result.key.encoder, name) for name in TOLD_BY} if result else {}


def _item_records(
    number: int, item: _Item, twins: frozenset[int], weighting: Weighting
) -> list[dict[str, Any]]:
    """Return the P and S records of an item.

    A base also has records for the scores of the oracle and of chance.
    """
    settings, k = item.settings, item.result.main_score.k if item.result else None
    common: dict[str, Any] = {
        **{f"{_SETTING}{name}": value for name, value in settings.items()},
        **{name: settings.get(name) for name in ("recipe", "seed")},
        **{name: getattr(item, name) for name in ("kind", "state", "given")},
        **_FURTHER,
        "item": number,
        "twins": twins,
        "base": settings["model"],
    }
    records = []
    if item.result:
        common |= {"date": item.result.date, "made_by": made_by(item.result)}
        keys = [ScoreKey(metric, k, weighting) for metric in METRICS]
        if item.kind == "evaluation":
            keys += [ScoreKey(f"{metric}_oracle", k, weighting) for metric in METRICS]
            keys += [ScoreKey(f"{metric}_chance") for metric in METRICS]
        records = frame.result_records(item.result, keys, **common)
    missing = METRICS.keys() - {record["metric"] for record in records}
    common |= {"encoder": item.encoder, "task": item.task, "role": "measured", "k": k}
    common["weighting"] = weighting
    return records + [common | {"metric": m, "value": math.nan} for m in METRICS if m in missing]


def _published_records(
    folder: Path, records: DataFrame, trained: Sequence[tuple[str, str]], models: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a record for each published number of a sweep, with the items to compare it with.

    Raises:
        InputError: If a line is wrong or no training run corresponds to it, or if one of `models`
            has neither training runs nor published numbers.
    """
    numbers = read_published(folder / PUBLISHED)
    footnotes = footnote_numbers(numbers)
    columns = {*trained, *((model, task) for model in models for _, task in trained)}
    lines: dict[tuple[object, ...], str] = {}
    published = []
    for place, number in enumerate(numbers, start=len(records)):
        _check_column(number, columns)
        twins = _twins(number, records)
        same: list[tuple[object, ...]] = [(number.source, number.note, twin) for twin in twins]
        if number.model:
            same = [(number.paper, number.model, number.task)]
        for each in same:
            first = lines.setdefault((number.name, number.key, *each), number.where)
            if first != number.where:
                raise InputError(f"{number.where}: the same number as {first}; delete one of them")
        (record,) = frame.published_records([number])
        if not number.model:
            record |= {"std": math.nan, "seed_std": number.std}
        footnote = footnotes[number.source, number.note]
        record |= {"item": place, "kind": "published", "twins": twins}
        published.append(record | {"footnote": footnote, "paper": number.paper})
    known_models = {model for model, _ in trained} | {
        number.model for number in numbers if number.model
    }
    for model in models:
        where = f"{folder / 'board.toml'}: 'models'"
        problem = f"{where}: no training run and no published number has the base {model!r}"
        check_known(model, known_models, problem)
    return published


def _check_column(number: PublishedNumber, columns: Iterable[tuple[str, str]]) -> None:
    """Check that a published number is a P or S score for a base and task of the sweep."""
    if all(number.model not in ("", m) or number.task not in ("", t) for m, t in columns):
        of = ", ".join(filter(None, [number.model, number.task]))
        near = nearest(of, {", ".join(each) for each in columns})
        raise InputError(f"{number.where}: the sweep has no training runs for {of}{near}")
    key = str(number.key)
    check_known(key, METRICS, f"{number.where}: unknown score {key!r}")


def _twins(number: PublishedNumber, records: DataFrame) -> frozenset[int]:
    """Return the items to compare a published number with.

    Raises:
        InputError: If no item matches `twin`, or if the matching training runs differ in more than
            the seed.
    """
    where, is_mean = number.where, not number.model
    required: dict[str, str] = {}
    for part in number.twin.split(",") if number.twin not in ("", _REFERENCE) else ():
        key, equals, required[key] = part.strip().partition("=")
        if not equals or f"{_SETTING}{key}" not in records:
            near = nearest(key, setting_names(records))
            raise InputError(f"{where}: `twin`: unknown setting {part.strip()!r}{near}")
    if is_mean and "examples" not in required:
        raise InputError(
            f"{where}: `twin` must contain `examples`, such as examples=500, because `model` is "
            f"empty, got {number.twin!r}; add `examples`, or name the base in `model`"
        )
    items = records[records["metric"] == next(iter(METRICS))]
    trainings = items[items["kind"] == "training"]
    if is_mean and len(group_by_settings(trainings, ["examples"])) == 1:
        raise InputError(
            f"{where}: no table shows this number, because all training runs have the same number "
            "of examples; delete the line"
        )
    twins = items[items["kind"] == "evaluation"] if number.twin == _REFERENCE else trainings
    for column, name in (("base", number.model), ("task", number.task)):
        twins = twins[twins[column] == name] if name else twins
    for key, text in required.items():
        twins = _with_setting(twins, key, [text])
    kinds = {str(sorted({**settings, "seed": None}.items())) for settings in given_settings(twins)}
    if number.twin and not kinds:
        raise InputError(
            f"{where}: no training run has all settings of `twin`, got {number.twin!r}; correct "
            "`twin`"
        )
    if required and not is_mean and len(kinds) > 1:
        raise InputError(
            f"{where}: `twin` matches training runs with {len(kinds)} different combinations of "
            "settings; add settings to `twin`"
        )
    return frozenset(twins["item"] if number.twin else ())


def select(
    records: DataFrame, models: Sequence[str], where: Sequence[str]
) -> tuple[DataFrame, list[str]]:
    """Select training runs by their settings, with their bases and published numbers.

    Args:
        records: The table of a sweep.
        models: Bases that have columns in tables.
        where: Settings of the training runs to select, each as KEY=VALUE. If a key occurs several
            times, a run may have any of its values.

    Returns:
        The selected records, and the models that still have columns.

    Raises:
        InputError: If no training run has a setting in `where`, or none has all of them.
    """
    trainings = records[records["kind"] == "training"]
    required: dict[str, list[str]] = {}
    for text in where:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"`where` {text}: expected KEY=VALUE, such as examples=500")
        if f"{_SETTING}{key}" not in records:
            near = nearest(key, setting_names(records))
            raise InputError(f"`where` {text}: no training run has the setting {key!r}{near}")
        if _with_setting(trainings, key, [value]).empty:
            values = trainings[f"{_SETTING}{key}"]
            near = nearest(value, {word(each) for each in values if each == each})
            raise InputError(f"`where` {text}: no training run has this {key}{near}")
        required.setdefault(key, []).append(value)
    selected = trainings
    for key, texts in required.items():
        selected = _with_setting(selected, key, texts)
    if selected.empty:
        raise InputError(
            f"`where` {', '.join(where)}: no training run has all these settings; leave out one"
        )
    trained, columns = {*columns_of(trainings)}, {*columns_of(selected)}
    tasks = {task for _, task in columns}
    models = [m for m in models if any((m, t) in columns or (m, t) not in trained for t in tasks)]
    columns |= {(model, task) for model in models for task in tasks}
    items = {*selected["item"]}.union(*selected["twins"])
    published = records[records["kind"] == "published"]
    is_kept = [
        (column in columns or not column[0]) and (not twins or bool(twins & items))
        for column, twins in zip(columns_of(published), published["twins"], strict=True)
    ]
    items |= {*published.loc[is_kept, "item"]}
    return records[records["item"].isin(items)], models


def _with_setting(records: DataFrame, key: str, texts: Sequence[str]) -> DataFrame:
    """Return the records in which a setting has one of several values, written as text."""
    values = records[f"{_SETTING}{key}"]
    return records.loc[[any(matches(value, text) for text in texts) for value in values]]


def columns_of(records: DataFrame) -> list[tuple[str, str]]:
    """Return the base and the task of each record, which identify its column in tables."""
    return [*zip(records["base"], records["task"], strict=True)]


def setting_names(records: DataFrame) -> list[str]:
    """Return the names of all settings in the table."""
    columns = map(str, records.columns)
    return [name.removeprefix(_SETTING) for name in columns if name.startswith(_SETTING)]


def given_settings(records: DataFrame) -> list[dict[str, Any]]:
    """Return the settings of each record that are written in the grid."""
    return [
        {name: row[f"{_SETTING}{name}"] for name in row["given"]}
        for row in records.to_dict("records")
    ]


def group_by_settings(
    records: DataFrame, names: Sequence[str]
) -> list[tuple[tuple[Any, ...], DataFrame]]:
    """Group records by the values of settings, in order of first occurrence.

    Returns:
        The values of each group, with None for a missing setting, and the records of the group.
    """
    if not names:
        return [((), records)]
    settings = records.reindex(columns=[f"{_SETTING}{name}" for name in names])
    keys = [settings[name] for name in settings]
    return [
        (tuple(None if value != value else value for value in values), group)
        for values, group in records.groupby(keys, sort=False, dropna=False)
    ]


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
