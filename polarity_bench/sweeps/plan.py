"""Plan: what a sweep is to make, written beside what it makes, for who looks on and for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polarity_bench.errors import InputError
from polarity_bench.files import json_bytes, read_json, write_atomically
from polarity_bench.sweeps.effort import Sizes, efforts
from polarity_bench.sweeps.grid import Grid
from polarity_bench.sweeps.items import CrossValidation, Item, Setup, Training

FILE = "sweep.json"


@dataclass(frozen=True)
class Planned:
    """An item, as far as who looks on needs to know it.

    Attributes:
        effort: About how many texts go through its encoder, to weigh what is left by.
        settings: What the grid says of it.
        encoder: What its encoder is called in results; of a training, its folder in `runs`.
        task: What it is trained on, or cross-validated; '' of an evaluation.
    """

    digest: str
    kind: str
    name: str
    effort: float
    settings: Mapping[str, Any]
    encoder: str
    task: str = ""


@dataclass(frozen=True)
class Plan:
    """What a sweep is to make."""

    title: str
    items: Sequence[Planned]


def plan_of(grid: Grid, setup: Setup, known: Sizes, encoders: Mapping[str, str]) -> Plan:
    """Make the plan of a grid.

    Args:
        grid: What there is to make.
        setup: Where, and how.
        known: How large its data sets are.
        encoders: What encoders that no training makes are called, by item.
    """
    weights = efforts(grid.items, known, setup.access())
    return Plan(
        grid.title,
        [
            Planned(
                digest=item.digest,
                kind=item.kind,
                name=item.name,
                effort=effort,
                settings=item.settings,
                encoder=item.job.output.name
                if isinstance(item, Training)
                else encoders[item.digest],
                task=_task_of(item),
            )
            for item, effort in zip(grid.items, weights, strict=True)
        ],
    )


def _task_of(item: Item) -> str:
    if isinstance(item, Training):
        return item.job.task
    return item.task if isinstance(item, CrossValidation) else ""


def write_plan(plan: Plan, folder: Path) -> None:
    """Write a plan into the folder of its sweep."""
    write_atomically(folder / FILE, json_bytes(asdict(plan)))


def read_plan(folder: Path) -> Plan:
    """Read what a sweep is to make.

    Raises:
        InputError: If there is no sweep in the folder.
    """
    file = folder / FILE
    if not file.is_file():
        raise InputError(f"{folder}: no sweep was begun there, it has no {FILE}")
    read = read_json(file)
    try:
        return Plan(read["title"], [Planned(**each) for each in read["items"]])
    except (TypeError, KeyError) as error:
        raise InputError(f"{file}: not written by a sweep ({error})") from error
