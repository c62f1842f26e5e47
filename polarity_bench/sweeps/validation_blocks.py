"""Cross-validation blocks of a grid: expansion to items, checks, and execution.

```toml
[[cross-validate]]
protocol = "few-shot"                     # the default; rows, folds, sample, seeds override it
task = ["mr", "trec"]
loss = ["cce", "softtriple", "setfit"]    # as in the command `fewshot`
rows = [20, 100]                          # or "all"
seeds = [2, 16]                           # one item with both seeds; [[2], [16]] makes two items
gamma = [0.01, 0.1]                       # only softtriple has this parameter
```

If only some losses of a block have a parameter, the parameter applies to these losses only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import StrictInt

from polarity_bench.cross_validation.fold_results import check_experiment, run_experiments
from polarity_bench.cross_validation.methods import check_method, make_method, parameters_of
from polarity_bench.cross_validation.protocol import protocol_of
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import load_encoder, resolve_name
from polarity_bench.errors import InputError, check_known, reworded
from polarity_bench.sweeps.items import (
    DIVISION,
    OPTIONS,
    CrossValidation,
    GridContext,
    Item,
    Setup,
    loading_of,
)
from polarity_bench.sweeps.plan import check_encoder
from polarity_bench.sweeps.state_files import ItemOutcome
from polarity_bench.tasks.labelled import LabelledTexts, labelled_spec
from polarity_bench.validation import validated_field

FOLDER = "fewshot"
"""Name of a sweep's folder of cross-validations, which the command `fewshot` can report."""
_USUAL = {"loss": "cce", "model": "minilm", "protocol": "few-shot"}
"""Default settings of a cross-validation."""
_NAMED = (*_USUAL, "task", *DIVISION, *OPTIONS)
_SETTINGS = {"`losses`": "`loss`", "`tasks`": "`task`"}
"""Names of settings in grids, by the option of the command `fewshot` in error messages."""

Setting = Mapping[str, Any]


def expand(settings: Sequence[Setting], context: GridContext) -> list[CrossValidation]:
    """Return the cross-validations of a block, without names.

    Combinations that differ only in parameters that their loss does not have become one item.

    Raises:
        InputError: If a setting is wrong, or if no loss of the block has a parameter.
    """
    with reworded(words=_SETTINGS):
        completed = [{**_USUAL, **setting} for setting in settings]
        _check_keys(completed)
        items = []
        seen: dict[str, Setting] = {}
        for setting in completed:
            names = {*_NAMED, *parameters_of(setting["loss"])}
            effective = {key: value for key, value in setting.items() if key in names}
            other = seen.setdefault(repr(effective), setting)
            # Exact duplicates are kept, because the grid rejects them.
            if other is setting or other == setting:
                items.append(_make_validation(effective, context))
        return items


def _make_validation(setting: Setting, context: GridContext) -> CrossValidation:
    """Return the cross-validation for a combination of settings."""
    remaining = dict(setting)
    task = context.task_name(remaining.pop("task"))
    labelled_spec(context.tasks, task)
    loss, model = remaining.pop("loss"), resolve_name(remaining.pop("model"), context.folder)
    options = context.pop_options(remaining)
    division = {key: remaining.pop(key) for key in DIVISION if key in remaining}
    if "seeds" in division:
        seeds = division["seeds"] if isinstance(division["seeds"], list) else [division["seeds"]]
        division["seeds"] = validated_field(tuple[StrictInt, ...], "seeds", seeds)
    protocol = protocol_of(remaining.pop("protocol"), division)
    resolved = {**setting, **{key: getattr(protocol, key) for key in DIVISION}}
    return CrossValidation(
        make_method(loss, remaining), protocol, task, model, options, "", resolved
    )


def _check_keys(settings: Sequence[Setting]) -> None:
    """Raise an error if a name is not text, or if no loss of a block has a setting."""
    if "task" not in settings[0]:
        raise InputError("`task`: missing; name the task that provides the rows")
    for setting in settings:
        for key in (*_USUAL, "task"):
            validated_field(str, key, setting[key])
    losses = list(dict.fromkeys(setting["loss"] for setting in settings))
    names = {*_NAMED}.union(*map(parameters_of, losses))
    for key in settings[0]:
        problem = f"`{key}`: no loss in the block ({', '.join(losses)}) has this setting"
        check_known(key, names, problem)


def check_validations(items: Sequence[Item], setup: Setup) -> dict[str, EncoderId]:
    """Check that the cross-validations among the items can be run.

    Every encoder and every data set is loaded once, and the rows are divided into folds.

    Returns:
        The encoders, by the digest of the item.

    Raises:
        InputError: If an encoder or data is not available or not suitable, or if two items are the
            same experiment.
    """
    data: dict[str, LabelledTexts] = {}
    encoders: dict[str, EncoderId] = {}
    experiments: dict[str, CrossValidation] = {}
    by_item = {}
    for item in items:
        if isinstance(item, CrossValidation):
            if item.task not in data:
                data[item.task] = item.data(setup)
            method = item.method
            loading = [item.model, *loading_of(item.options)]
            shape = [type(method), method.title, method.pooling, method.layers]
            experiment_key = repr([item.task, item.protocol, loading, shape])
            if experiment_key not in encoders:
                with reworded(f"{item.name}: ", words=_SETTINGS):
                    check_method(item.settings["loss"], method)
                    encoder, _ = check_experiment(item.experiment(data[item.task]))
                encoders[experiment_key] = encoder
            encoder = by_item[item.digest] = encoders[experiment_key]
            identity = [method.to_dict("moves"), item.protocol.spec(), encoder.digest]
            other = experiments.setdefault(repr([item.task, *identity]), item)
            if other is not item:  # both items would write the same file
                raise InputError(
                    f"{other.name!r} and {item.name!r}: `model` {other.model} and {item.model} are "
                    f"the same encoder, {encoder.name}; use one of these names only"
                )
    return by_item


def cross_validate(item: CrossValidation, setup: Setup) -> ItemOutcome:
    """Run the missing folds of a cross-validation, and store each fold when it ends.

    Returns:
        The outcome, with the mean over the folds, as in tables, and the files of the result.
    """
    experiment, folder = item.experiment(item.data(setup)), setup.output / FOLDER
    encoder = load_encoder(item.model, item.options)
    check_encoder(setup.output, item.model, item.options, encoder.id)
    with reworded(words=_SETTINGS):
        results = run_experiments([experiment], folder, workers=1)
    return ItemOutcome.of_results(item.name, results, setup.output)
