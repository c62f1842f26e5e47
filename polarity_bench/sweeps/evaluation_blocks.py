"""Evaluation blocks of a grid: untrained encoders, on suites or tasks, with protocol settings.

```toml
[[evaluate]]
model = ["minilm", "intfloat/e5-small"]
suite = ["transfer", "sts"]       # or tasks = ["mr", "cr"]: all tasks of the list in one item
preset = "papers"                 # protocol, preset, kfold, classifier and k, as for `run`
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt

from polarity_bench.encoders.load import located
from polarity_bench.errors import InputError
from polarity_bench.sweeps.items import Evaluation, LoadingSettings, Setup, options_of
from polarity_bench.tasks.catalogue import choose_tasks
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.validation import validated

_PROTOCOLS = ("protocol", "preset", "kfold", "classifier")


class EvaluationSettings(LoadingSettings):
    """One combination of a block's settings."""

    model: Annotated[str, Field(min_length=1)]
    suite: str | None = None
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    protocol: str | None = None
    preset: str | None = None
    kfold: StrictInt | None = None
    classifier: str | None = None
    k: StrictInt | None = None


def expand_evaluation(
    setting: Mapping[str, Any],
    tasks: Sequence[str],
    setup: Setup,
    folder: Path,
    known: Mapping[str, TaskSpec],
) -> Evaluation:
    """Return the evaluation for one combination of a block's settings.

    Args:
        setting: The combination.
        tasks: Default tasks, for blocks without `suite` or `tasks`.
        setup: How encoders are loaded.
        folder: Folder to which paths are relative.
        known: All known tasks.

    Raises:
        InputError: If a setting is wrong; names the setting in backticks.
    """
    given = validated(EvaluationSettings, setting)
    if given.suite and given.tasks:
        raise InputError("`suite`: give it or `tasks`, not both")
    if given.suite:
        names = _chosen("suite", known, suite=given.suite)
    else:
        names = _chosen("tasks", known, names=list(given.tasks or tasks))
    if not names:
        raise InputError("`tasks`: name the tasks to evaluate encoders on, or a `suite`")
    said = {key: setting[key] for key in (*_PROTOCOLS, "k") if key in setting}
    options = options_of(dict(setting), setup)
    return Evaluation(located(given.model, folder), options, names, _settings(given, setup), said)


def _chosen(key: str, known: Mapping[str, TaskSpec], **asked: Any) -> list[str]:
    """Return the names of the chosen tasks."""
    try:
        return [spec.name for spec in choose_tasks(known, **asked)]
    except InputError as error:
        raise InputError(f"`{key}`: {error}") from error


def as_axes(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block with its list of tasks as a single value of the product."""
    return {**block, "tasks": [block["tasks"]]} if isinstance(block.get("tasks"), list) else block


def _settings(given: EvaluationSettings, setup: Setup) -> Settings:
    """Return the settings of the tasks' protocols."""
    of_transfer = given.model_dump(include=set(_PROTOCOLS))
    transfer = choose_preset(**of_transfer, device=setup.options.device)
    try:
        return Settings(ks=() if given.k is None else (given.k,), of_types=(transfer,))
    except InputError as error:
        raise InputError(str(error).replace("`ks`", "`k`")) from error
