"""Plan: what a sweep is to make, written beside what it makes, for who looks on and for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.files import json_bytes, read_json, write_atomically
from polarity_bench.sweeps.cost import Sizes, efforts
from polarity_bench.sweeps.items import OPTIONS, CrossValidation, Item, Setup, Training
from polarity_bench.training.parameters import Parameters, declared
from polarity_bench.training.recipes import RECIPES

if TYPE_CHECKING:
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.sweeps.grid import Grid

FILE = "sweep.json"
"""In the folder of a sweep."""


@dataclass(frozen=True)
class PlanItem:
    """An item, as far as who looks on needs to know it.

    Attributes:
        effort: About how many texts go through its encoder, to weigh what is left by.
        settings: What the grid says of it.
        resolved: Of a training, the settings with the defaults of its recipe and its loss, as they
            were when the plan was written; empty in older plans, see `old_defaults`.
        encoder: What its encoder is called in results; of a training, its folder in `runs`.
        task: What it is trained on, or cross-validated; '' of an evaluation.
        after: The item that is made before: of a training, the evaluation of its base.
        encoder_digest: Of the encoder, where no training makes it.
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


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep is to make.

    Attributes:
        grid: The file that says so.
        made_from: Digests of all that it is or was made from, by name: bases, data, what recipes
            learn from beside.
        command: The command that began it, or went on with it, last; '' where none is known.
    """

    title: str
    items: Sequence[PlanItem]
    grid: str = ""
    made_from: Mapping[str, str] = field(default_factory=dict)
    command: str = ""


def plan_of(
    grid: Grid, setup: Setup, known: Sizes, encoders: Mapping[str, EncoderId], file: Path
) -> SweepPlan:
    """Make the plan of a grid.

    Args:
        grid: What there is to make.
        setup: Where, and how.
        known: How large its data sets are.
        encoders: The encoders that no training makes, by item.
        file: That says so.
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
                task=_task_of(item),
                after=item.after,
                encoder_digest="" if isinstance(item, Training) else encoders[item.digest].digest,
                resolved=with_defaults(item.settings) if isinstance(item, Training) else {},
            )
            for item, effort in zip(grid.items, weights, strict=True)
        ],
        str(file.absolute()),
        _made_from(grid, setup, known, encoders),
    )


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of a training by today's defaults of its recipe and of its loss."""
    found: dict[str, Any] = {}

    def add(cls: type[Parameters] | None) -> None:
        for each in declared(cls) if cls else ():
            if each.variants is None:
                found[each.name] = None if each.default is MISSING else each.default
            else:
                default = getattr(each.default, "name", None)
                found[each.name] = settings.get(each.name, default)
                add(each.variants.get(found[each.name]))

    add(RECIPES.get(settings.get("recipe", "")))
    return {**found, **settings}


def _made_from(
    grid: Grid, setup: Setup, known: Sizes, encoders: Mapping[str, EncoderId]
) -> dict[str, str]:
    """Return the digests of all bases and data, and of what recipes learn from beside, by name."""
    access = setup.access()
    found = {f"the data of {task}": digest for task, digest in known.digests.items()}
    for item in grid.items:
        if not isinstance(item, Training):
            found[_encoder_key(item.model, item.options)] = encoders[item.digest].digest
            continue
        beside = item.job.recipe.beside(access, setup.task_dir, item.job.options)
        found |= {name: digest() for name, digest in beside.items() if name not in found}
    return found


def _encoder_key(model: str, options: EncoderOptions) -> str:
    """Return what `made_from` calls an encoder."""
    how = [getattr(options, name) for name in OPTIONS]
    said = f", loaded with {how}" if any(how) else ""
    return f"the encoder {model}{said}"


def check_encoder(folder: Path, model: str, options: EncoderOptions, encoder: EncoderId) -> None:
    """Refuse an encoder that is not the one that the sweep in a folder began with.

    The driver checks all encoders once. A worker checks each again when it loads it, since the
    files of an encoder may be replaced while the sweep runs.

    Args:
        folder: Of the sweep.
        model: What the encoder was loaded by.
        options: How it was loaded.
        encoder: What was loaded.

    Raises:
        InputError: If its digest is another; names both.
    """
    file = folder / FILE
    digests = read_json(file).get("made_from", {}) if file.is_file() else {}
    expected = digests.get(_encoder_key(model, options), encoder.digest)
    if encoder.digest != expected:
        raise InputError(
            f"`model` {model}: the sweep began with the encoder {expected}, got {encoder.digest}; "
            "put the first encoder back, then run the same command again with `retry_failed`"
        )


def going_on(before: SweepPlan, now: SweepPlan, folder: Path) -> SweepPlan:
    """Return a plan with what the sweep in its folder was made from before, too.

    What one grid leaves out, another may name again.

    Raises:
        InputError: If a base, data or what is learnt from beside is another; names it.
    """
    for name, digest in now.made_from.items():
        if before.made_from.get(name, digest) != digest:
            raise InputError(
                f"`output` {folder}: {name} is another now than the one that this sweep began with "
                f"({digest}, not {before.made_from[name]}); put it back, or name another folder"
            )
    return replace(now, made_from={**before.made_from, **now.made_from})


def _task_of(item: Item) -> str:
    if isinstance(item, Training):
        return item.job.task
    return item.task if isinstance(item, CrossValidation) else ""


def write_plan(plan: SweepPlan, folder: Path) -> None:
    """Write a plan into the folder of its sweep."""
    whole = vars(plan) | {"items": [vars(item) for item in plan.items]}
    write_atomically(folder / FILE, json_bytes(whole))


def read_plan(folder: Path) -> SweepPlan:
    """Read what a sweep is to make.

    Raises:
        InputError: If there is no sweep in the folder.
    """
    file = folder / FILE
    if not file.is_file():
        raise InputError(f"{folder}: no sweep was begun there, it has no {FILE}")
    read = read_json(file)
    try:
        items = [PlanItem(**each) for each in read.pop("items")]
        return SweepPlan(items=items, **read)
    except (TypeError, KeyError) as error:
        raise InputError(f"{file}: not written by a sweep ({error})") from error
