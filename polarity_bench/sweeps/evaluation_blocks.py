"""Evaluation blocks of a grid: evaluations of untrained encoders with settings of the protocol.

```toml
[[evaluate]]
model = ["minilm", "intfloat/e5-small"]
suite = ["transfer", "sts"]       # or tasks = ["mr", "cr"], which makes one item
preset = "papers"                 # protocol, preset, kfold, classifier, k: as in the command `run`
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, StrictInt

from polarity_bench.encoders.load import resolve_name
from polarity_bench.errors import InputError, reworded
from polarity_bench.sweeps.items import Evaluation, GridContext, LoadingSettings
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings
from polarity_bench.validation import validated

_PROTOCOLS = ("protocol", "preset", "kfold", "classifier")


class EvaluationSettings(LoadingSettings):
    """Combination of settings of an evaluation block."""

    model: Annotated[str, Field(min_length=1)]
    suite: str | None = None
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    protocol: str | None = None
    preset: str | None = None
    kfold: StrictInt | None = None
    classifier: str | None = None
    k: StrictInt | None = None


def expand_evaluation(
    setting: Mapping[str, Any], tasks: Sequence[str], context: GridContext
) -> Evaluation:
    """Return the evaluation for a combination of a block's settings.

    Args:
        setting: The combination.
        tasks: Tasks to use if the block has neither `suite` nor `tasks`.
        context: Context in which the settings are resolved.

    Raises:
        InputError: If a setting is wrong; the message names the setting in backticks.
    """
    given = validated(EvaluationSettings, setting)
    if given.suite and given.tasks:
        raise InputError("`suite`: give `suite` or `tasks`, not both")
    if given.suite:
        names = context.task_names("suite", suite=given.suite)
    else:
        names = context.task_names("tasks", names=list(given.tasks or tasks))
    if not names:
        raise InputError("`tasks`: missing; name the tasks to evaluate encoders on, or a `suite`")
    of_transfer = given.model_dump(include=set(_PROTOCOLS))
    transfer = choose_preset(**of_transfer, device=context.setup.options.device)
    with reworded(words={"`ks`": "`k`"}):
        protocols = Settings(ks=() if given.k is None else (given.k,), of_types=(transfer,))
    options, model = context.pop_options(dict(setting)), resolve_name(given.model, context.folder)
    protocol_settings = {key: setting[key] for key in (*_PROTOCOLS, "k") if key in setting}
    return Evaluation(model, options, names, protocols, protocol_settings)
