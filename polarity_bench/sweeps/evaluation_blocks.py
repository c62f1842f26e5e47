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
from typing import Any

from polarity_bench.encoders.load import located
from polarity_bench.errors import InputError, nearest
from polarity_bench.sweeps.items import OPTIONS, Evaluation, Setup, options_of
from polarity_bench.tasks.catalogue import choose_tasks
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings, TaskSpec

_PROTOCOLS = ("protocol", "preset", "kfold", "classifier")
_KNOWN = ("model", "suite", "tasks", *_PROTOCOLS, "k", *OPTIONS)


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
    given = dict(setting)
    model = given.pop("model", None)
    if not isinstance(model, str) or not model:
        raise InputError("`model`: name the encoder to evaluate")
    options = options_of(given, setup)
    for key in given:
        if key not in _KNOWN:
            near = nearest(key, _KNOWN)
            raise InputError(f"`{key}`: an evaluation has no such setting{near}")
    if "suite" in given and "tasks" in given:
        raise InputError("`suite`: give it or `tasks`, not both")
    if "suite" in given:
        suite = _text("suite", given["suite"])
        names = _chosen("suite", known, suite=suite)
    else:
        asked = _names(given.get("tasks", list(tasks)))
        names = _chosen("tasks", known, names=asked)
    said = {key: given[key] for key in (*_PROTOCOLS, "k") if key in given}
    return Evaluation(located(model, folder), options, names, _settings(said, setup), said)


def _chosen(key: str, known: Mapping[str, TaskSpec], **asked: Any) -> list[str]:
    """Return the names of the chosen tasks."""
    try:
        return [spec.name for spec in choose_tasks(known, **asked)]
    except InputError as error:
        raise InputError(f"`{key}`: {error}") from error


def as_axes(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block with its list of tasks as a single value of the product."""
    return {**block, "tasks": [block["tasks"]]} if isinstance(block.get("tasks"), list) else block


def _settings(said: Mapping[str, Any], setup: Setup) -> Settings:
    """Return the settings of the tasks' protocols."""
    for key in ("protocol", "preset", "classifier"):
        if key in said:
            _text(key, said[key])
    for key in ("kfold", "k"):
        if key in said and (not isinstance(said[key], int) or isinstance(said[key], bool)):
            raise InputError(f"`{key}` {said[key]}: a whole number is wanted")
    of_transfer = {key: said[key] for key in _PROTOCOLS if key in said}
    transfer = choose_preset(**of_transfer, device=setup.options.device)
    try:
        return Settings(ks=(said["k"],) if "k" in said else (), of_types=(transfer,))
    except InputError as error:
        raise InputError(str(error).replace("`ks`", "`k`")) from error


def _names(value: Any) -> list[str]:
    if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise InputError(f"`tasks` must be a list of names, got {value!r}")
    if not value:
        raise InputError("`tasks`: name what encoders are to be evaluated on, or a `suite`")
    return list(dict.fromkeys(value))


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"`{key}` {value}: text is wanted")
    return value
