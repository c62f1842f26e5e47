"""Plan of a sweep: the list of items, stored on disk for progress reports and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, reworded
from polarity_bench.files import json_bytes, read_json, write_atomically
from polarity_bench.sweeps.cost import Sizes, effort
from polarity_bench.sweeps.items import Setup, Training, loading_of
from polarity_bench.training.parameters import Parameters, declared
from polarity_bench.training.recipes import RECIPES
from polarity_bench.validation import validated

if TYPE_CHECKING:
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.sweeps.grid import Grid

FILE = "sweep.json"
"""Name of the plan's file in a sweep's folder."""


@dataclass(frozen=True)
class PlanItem:
    """Item of a sweep, as stored in the plan.

    Attributes:
        digest: Digest of the item.
        kind: Kind of the item: `evaluation`, `training` or `cross-validation`.
        name: Name of the item.
        effort: Approximate number of texts that the encoder processes, to estimate the time left.
        settings: Settings of the item as written in the grid.
        encoder: Name of the encoder in results; for a training run, the name of its folder in
            `runs`.
        task: Name of the task of a training run or a cross-validation; '' for an evaluation.
        after: Digest of the item that must be run first: for a training run, the evaluation of its
            base.
        encoder_digest: Digest of the encoder; '' for a training run, which creates its encoder.
        resolved: For a training run, the settings with the defaults of the recipe and the loss at
            the time of the plan.
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
        title: Title of the grid.
        items: All items of the sweep.
        grid: Path of the grid's file.
        made_from: Digests, by name, of all inputs that the sweep has used: bases, data and other
            inputs of recipes.
        command: Last command that started or resumed the sweep; '' if unknown.
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
        setup: Folders and loading options.
        known: Sizes of the data sets.
        encoders: Encoders of evaluations and cross-validations, by the digest of the item.
        file: Path of the grid's file.
    """
    access = setup.access()
    return SweepPlan(
        grid.title,
        [
            PlanItem(
                digest=item.digest,
                kind=item.kind,
                name=item.name,
                effort=float(effort(item, known, access)),
                settings=item.settings,
                encoder=item.job.output.name
                if isinstance(item, Training)
                else encoders[item.digest].name,
                task=item.task,
                after=item.after,
                encoder_digest="" if isinstance(item, Training) else encoders[item.digest].digest,
                resolved=with_defaults(item.settings) if isinstance(item, Training) else {},
            )
            for item in grid.items
        ],
        str(file.absolute()),
        _digest_inputs(grid, known, encoders),
    )


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the current defaults of the recipe and the loss to the settings of a training run."""
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


def _digest_inputs(grid: Grid, known: Sizes, encoders: Mapping[str, EncoderId]) -> dict[str, str]:
    """Return the digests, by name, of all bases, data and other inputs of recipes."""
    digests = {f"the data of {task}": digest for task, digest in known.digests.items()}
    for item in grid.items:
        if not isinstance(item, Training):
            digests[_encoder_key(item.model, item.options)] = encoders[item.digest].digest
            continue
        inputs = item.job.recipe.additional_inputs(item.job)
        digests |= {name: digest() for name, digest in inputs.items() if name not in digests}
    return digests


def _encoder_key(model: str, options: EncoderOptions) -> str:
    """Return the key of an encoder in `made_from`."""
    how = loading_of(options)
    ending = f", loaded with {how}" if any(how) else ""
    return f"the encoder {model}{ending}"


def check_encoder(folder: Path, model: str, options: EncoderOptions, encoder: EncoderId) -> None:
    """Check that an encoder is still the encoder with which the sweep was started.

    The driver checks all encoders once. Workers check an encoder again when they load it, because
    its files may be replaced while the sweep runs.

    Args:
        folder: Folder of the sweep.
        model: Name or folder from which the encoder was loaded.
        options: Options with which the encoder was loaded.
        encoder: Identity of the loaded encoder.

    Raises:
        InputError: If the digest of the encoder has changed; the message contains both digests.
    """
    file = folder / FILE
    digests = read_json(file).get("made_from", {}) if file.is_file() else {}
    expected = digests.get(_encoder_key(model, options), encoder.digest)
    if encoder.digest != expected:
        raise InputError(
            f"`model` {model}: the sweep began with the encoder {expected}, got {encoder.digest}; "
            "restore the original encoder, then run the same command again with `retry_failed`"
        )


def merge_plans(before: SweepPlan, now: SweepPlan, folder: Path) -> SweepPlan:
    """Return the new plan of a resumed sweep, with the inputs of both plans.

    Inputs that the current grid does not use are kept, because a later grid may use them again.

    Args:
        before: Plan that the sweep had so far.
        now: Plan of the current grid.
        folder: Folder of the sweep, for errors.

    Raises:
        InputError: If a base, data or another input has changed; the message names the input.
    """
    for name, digest in now.made_from.items():
        if before.made_from.get(name, digest) != digest:
            raise InputError(
                f"`output` {folder}: {name} has changed since the sweep began, from "
                f"{before.made_from[name]} to {digest}; restore the input, or use another folder"
            )
    return replace(now, made_from={**before.made_from, **now.made_from})


def write_plan(plan: SweepPlan, folder: Path) -> None:
    """Write a plan to the folder of its sweep."""
    content = vars(plan) | {"items": [vars(item) for item in plan.items]}
    write_atomically(folder / FILE, json_bytes(content))


def read_plan(folder: Path) -> SweepPlan:
    """Read the plan of a sweep.

    Raises:
        InputError: If the folder has no plan, or the plan was not written by a sweep.
    """
    file = folder / FILE
    if not file.is_file():
        raise InputError(f"{folder}: not the folder of a sweep, because the file {FILE} is missing")
    with reworded(f"{file}: not written by a sweep (", "); use another folder"):
        return validated(SweepPlan, read_json(file))
