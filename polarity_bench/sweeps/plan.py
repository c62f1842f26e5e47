"""Plan of a sweep: its items, stored in the sweep's folder for progress reports and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.files import json_bytes, read_json, write_atomically
from polarity_bench.sweeps.cost import Sizes, efforts
from polarity_bench.sweeps.items import Setup, Training, loading_of
from polarity_bench.training.parameters import Parameters, declared
from polarity_bench.training.recipes import RECIPES
from polarity_bench.validation import validated

if TYPE_CHECKING:
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.sweeps.grid import Grid

FILE = "sweep.json"
"""Name of the plan's file in the folder of a sweep."""


@dataclass(frozen=True)
class PlanItem:
    """An item as stored in the plan, for progress reports and tables.

    Attributes:
        effort: Approximate number of texts through the encoder, for estimates of the time left.
        settings: The settings in the grid.
        resolved: For a training run, the settings with the defaults of its recipe and its loss, as
            they were when the plan was written. Empty in older plans, see `old_defaults`.
        encoder: Name of the encoder in results; for a training run, the name of its folder in
            `runs`.
        task: The task of a training run or a cross-validation; '' for an evaluation.
        after: Digest of the item that is made first: for a training run, the evaluation of its
            base.
        encoder_digest: Digest of the encoder; '' if a training run makes the encoder.
    """

    digest: str
    kind: str
    name: str
    effort: float
    settings: Mapping[str, Any]
    encoder: str
    task: str = ""
    after: str | None = None
    encoder_digest: str = ""
    resolved: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__: ClassVar = {"extra": "forbid"}


@dataclass(frozen=True)
class SweepPlan:
    """Plan of a sweep.

    Attributes:
        grid: Path of the grid's file.
        made_from: Digests of all inputs that the sweep uses or used, by name: bases, data and
            further inputs of recipes.
        command: The last command that began or resumed the sweep; '' if unknown.
    """

    title: str
    items: Sequence[PlanItem]
    grid: str = ""
    made_from: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    __pydantic_config__: ClassVar = {"extra": "forbid"}


def plan_of(
    grid: Grid, setup: Setup, known: Sizes, encoders: Mapping[str, EncoderId], file: Path
) -> SweepPlan:
    """Return the plan of a grid.

    Args:
        grid: The grid.
        setup: Folders, and how encoders are loaded.
        known: Sizes of the data sets.
        encoders: Encoders of evaluations and cross-validations, by item.
        file: Path of the grid's file.
    """
    weights = efforts(grid.items, known, setup.access())
    return SweepPlan(
        grid.title,
        [
            PlanItem(
                digest=item.digest,
                kind=item.kind,
                name=item.name,
                effort=effort,
                settings=item.settings,
                encoder=item.job.output.name
                if isinstance(item, Training)
                else encoders[item.digest].name,
                task=item.task,
                after=item.after,
                encoder_digest="" if isinstance(item, Training) else encoders[item.digest].digest,
                resolved=with_defaults(item.settings) if isinstance(item, Training) else {},
            )
            for item, effort in zip(grid.items, weights, strict=True)
        ],
        str(file.absolute()),
        _made_from(grid, known, encoders),
    )


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of a training run by today's defaults of its recipe and its loss."""
    defaults: dict[str, Any] = {}

    def add(cls: type[Parameters] | None) -> None:
        for each in declared(cls) if cls else ():
            if each.variants is None:
                defaults[each.name] = None if each.default is MISSING else each.default
            else:
                default = getattr(each.default, "name", None)
                defaults[each.name] = settings.get(each.name, default)
                add(each.variants.get(defaults[each.name]))

    add(RECIPES.get(settings.get("recipe", "")))
    return {**defaults, **settings}


def _made_from(grid: Grid, known: Sizes, encoders: Mapping[str, EncoderId]) -> dict[str, str]:
    """Return the digests of all bases, data and further inputs of recipes, by name."""
    digests = {f"the data of {task}": digest for task, digest in known.digests.items()}
    for item in grid.items:
        if not isinstance(item, Training):
            digests[_encoder_key(item.model, item.options)] = encoders[item.digest].digest
            continue
        beside = item.job.recipe.beside(item.job)
        digests |= {name: digest() for name, digest in beside.items() if name not in digests}
    return digests


def _encoder_key(model: str, options: EncoderOptions) -> str:
    """Return the name of an encoder in `made_from`."""
    how = loading_of(options)
    ending = f", loaded with {how}" if any(how) else ""
    return f"the encoder {model}{ending}"


def check_encoder(folder: Path, model: str, options: EncoderOptions, encoder: EncoderId) -> None:
    """Raise an error if an encoder differs from the one that a sweep began with.

    The driver checks all encoders once. A worker checks each again when it loads it, since the
    files of an encoder may be replaced while the sweep runs.

    Args:
        folder: Folder of the sweep.
        model: The name by which the encoder was loaded.
        options: The options with which it was loaded.
        encoder: The loaded encoder.

    Raises:
        InputError: If the digests differ; names both.
    """
    file = folder / FILE
    digests = read_json(file).get("made_from", {}) if file.is_file() else {}
    expected = digests.get(_encoder_key(model, options), encoder.digest)
    if encoder.digest != expected:
        raise InputError(
            f"`model` {model}: the sweep began with the encoder {expected}, got {encoder.digest}; "
            "restore the first encoder, then run the same command again with `retry_failed`"
        )


def going_on(before: SweepPlan, now: SweepPlan, folder: Path) -> SweepPlan:
    """Return the plan of a resumed sweep, which also keeps the earlier inputs of the sweep.

    Inputs that the present grid does not use are kept, since a later grid may use them again.

    Raises:
        InputError: If a base, data or another input has changed; names it.
    """
    for name, digest in now.made_from.items():
        if before.made_from.get(name, digest) != digest:
            raise InputError(
                f"`output` {folder}: {name} has changed since the sweep began, from "
                f"{before.made_from[name]} to {digest}; restore it, or use another folder"
            )
    return replace(now, made_from={**before.made_from, **now.made_from})


def write_plan(plan: SweepPlan, folder: Path) -> None:
    """Write a plan into the folder of its sweep."""
    content = vars(plan) | {"items": [vars(item) for item in plan.items]}
    write_atomically(folder / FILE, json_bytes(content))


def read_plan(folder: Path) -> SweepPlan:
    """Read the plan of a sweep.

    Raises:
        InputError: If there is no sweep in the folder, or its plan was not written by a sweep.
    """
    file = folder / FILE
    if not file.is_file():
        raise InputError(f"{folder}: not the folder of a sweep, since it has no {FILE}")
    try:
        return validated(SweepPlan, read_json(file))
    except InputError as error:
        raise InputError(f"{file}: not written by a sweep ({error})") from error
