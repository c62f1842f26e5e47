"""Grid: a TOML file that names products of settings, expanded to what is to be made.

```toml
title = "Losses on contrast"
tasks = ["contrast", "stsb"]      # what every encoder is evaluated on

[all]                             # of every training
task = "contrast"
epochs = 1

[[train]]                         # each a product of its lists
model = ["minilm", "e5-small"]
loss = ["triplet", "contrastive"]
margin = [0.1, 0.5]
skip = [{ loss = "contrastive", margin = 0.1 }]

[[evaluate]]                      # encoders as they are
model = ["minilm"]
```

A setting is `recipe`, `model`, `task`, how to load the model (`prompt`, `revision`, `max_tokens`),
or a parameter of the recipe. Bases are evaluated without being asked for, once each.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders import EncoderOptions, located
from polarity_bench.errors import InputError, nearest
from polarity_bench.files import folder_name
from polarity_bench.training.fields import flattened, from_flat
from polarity_bench.training.job import Job
from polarity_bench.training.recipes import RECIPES
from polarity_bench.types import digest_of

_OPTIONS = {"prompt": (str, "text"), "revision": (str, "text"), "max_tokens": (int, "a number")}
_USUAL = {"recipe": "margins", "model": "minilm"}
_DIGITS = 12
_NAME_LENGTH = 80

Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Training:
    """An encoder to be trained, then evaluated.

    Attributes:
        job: How, and where it is to lie.
        tasks: What it is evaluated on.
        name: The settings that tell it from the others.
    """

    job: Job
    tasks: Sequence[str]
    name: str

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        return digest_of([self.job.digest, list(self.tasks)])[:_DIGITS]


@dataclass(frozen=True)
class Evaluation:
    """An encoder to be evaluated as it is."""

    model: str
    options: EncoderOptions
    tasks: Sequence[str]

    @property
    def name(self) -> str:
        """The encoder."""
        prompt = "" if self.options.prompt is None else f", prompt {self.options.prompt!r}"
        return f"{self.model} as it is{prompt}"

    @cached_property
    def digest(self) -> str:
        """Digits over all that decides what comes out."""
        options = [getattr(self.options, name) for name in _OPTIONS]
        return digest_of(["evaluate", self.model, options, list(self.tasks)])[:_DIGITS]


Item = Training | Evaluation


@dataclass(frozen=True)
class Grid:
    """What is to be made: evaluations first, since bases are what trainings are compared with."""

    title: str
    items: Sequence[Item]

    @property
    def trainings(self) -> list[Training]:
        """Those that train."""
        return [item for item in self.items if isinstance(item, Training)]


@dataclass(frozen=True)
class Setup:
    """What a grid leaves to who runs it.

    Attributes:
        output: Folder of the sweep; encoders are to lie in its `runs`.
        options: How encoders are loaded, but for what the grid says.
    """

    output: Path
    options: EncoderOptions
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = True

    def access(self) -> DataAccess:
        """Say where data may come from, here and now."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)


SHIPPED = {file.stem: file for file in sorted((Path(__file__).parent / "grids").glob("*.toml"))}
"""The papers' grids, and ours, by name."""


def grid_file(name: str) -> Path:
    """Return the file of a grid: one that is there, or one of ours.

    Raises:
        InputError: If there is neither.
    """
    file = Path(name).expanduser()
    if file.is_file():
        return file
    if name not in SHIPPED:
        raise InputError(f"`grid` {name}: no such file, nor a grid of ours{nearest(name, SHIPPED)}")
    return SHIPPED[name]


def read_grid(file: Path, setup: Setup) -> Grid:
    """Read a grid and expand it.

    Raises:
        InputError: If it is no grid, says what does not go together or nothing at all, or the same
            twice; names the file, and the line where one is to blame.
    """
    try:
        text = file.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
    lines = _Lines(file, text)
    known = ("title", "tasks", "all", "train", "evaluate")
    for key in values:
        if key not in known:
            raise lines.error(f"unknown key {key!r}{nearest(key, known)}", "", 0, key)
    tasks = values.get("tasks", [])
    if not (isinstance(tasks, list) and all(isinstance(each, str) for each in tasks)):
        raise lines.error(f"'tasks' must be a list of names, got {tasks!r}", "", 0, "tasks")
    if not isinstance(common := values.get("all", {}), dict):
        raise lines.error("'all' must be a table, headed [all]", "", 0, "all")
    jobs = []
    for number, block in enumerate(_blocks(values, "train", lines)):
        rest = {key: each for key, each in common.items() if key not in block}
        for setting in _product({**block, **rest}, lines, "train", number):
            with lines.locating("train", number):
                jobs.append((_job(setting, setup, file.absolute().parent), setting))
    evaluations = []
    for number, block in enumerate(_blocks(values, "evaluate", lines)):
        for setting in _product(block, lines, "evaluate", number):
            with lines.locating("evaluate", number):
                evaluations.append(_evaluation(setting, tasks, setup, file.absolute().parent))
    trainings = _named(jobs, tasks, setup.output / "runs")
    bases = [Evaluation(each.job.model, each.job.options, each.tasks) for each in trainings]
    first = {item.digest: item for item in [*evaluations, *bases]}
    items: list[Item] = [*first.values(), *trainings]
    if not items:
        raise InputError(f"{file}: it says nothing to do: write a [[train]] or an [[evaluate]]")
    return Grid(str(values.get("title", file.stem)), items)


def _blocks(values: Mapping[str, Any], name: str, lines: _Lines) -> Sequence[Setting]:
    blocks = values.get(name, [])
    if not (isinstance(blocks, list) and all(isinstance(each, dict) for each in blocks)):
        raise lines.error(f"{name!r} must be tables, each headed [[{name}]]", "", 0, name)
    return blocks


def _product(block: Setting, lines: _Lines, name: str, number: int) -> Sequence[Setting]:
    """Return every combination of a block's lists, but those to be skipped."""
    own = {key: value for key, value in block.items() if key != "skip"}
    axes = {key: value if isinstance(value, list) else [value] for key, value in own.items()}
    for key, several in axes.items():
        if not several:
            raise lines.error(f"{key!r} is an empty list: there is no product", name, number, key)
    left_out = block.get("skip", [])
    if not (isinstance(left_out, list) and all(isinstance(each, dict) for each in left_out)):
        raise lines.error("'skip' must be a list of tables", name, number, "skip")
    for condition in left_out:
        for key in condition:
            if key not in axes:
                raise lines.error(
                    f"'skip': unknown {key!r}{nearest(key, axes)}", name, number, "skip"
                )
    settings = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    kept = [each for each in settings if not any(_meets(each, c) for c in left_out)]
    if not kept:
        raise lines.error("'skip' leaves nothing of the product", name, number, "skip")
    return kept


def _meets(setting: Setting, condition: Setting) -> bool:
    """Whether all that a condition says is so; a list says any of its values."""
    return all(
        setting[key] in (value if isinstance(value, list) else [value])
        for key, value in condition.items()
    )


def _job(setting: Setting, setup: Setup, folder: Path) -> Job:
    """Make the job of a combination; paths in it are relative to the grid's folder."""
    given = {**_USUAL, **setting}
    recipe, model, task = given.pop("recipe"), given.pop("model"), given.pop("task", None)
    if task is None:
        raise InputError("`task`: name the task to train on")
    options = _options(given, setup)
    if isinstance(recipe, str) and recipe in RECIPES:
        own = flattened(RECIPES[recipe])
        for key in given:
            if key not in own:
                near = nearest(key, [*own, "recipe", "model", "task", *_OPTIONS])
                raise InputError(f"`{key}`: the recipe {recipe!r} has no such setting{near}")
    made = from_flat(RECIPES, recipe, given)
    job = Job(made, model, task, setup.output, options, setup.data_dir, setup.task_dir)
    return replace(job, store=setup.store).below(folder)


def _evaluation(setting: Setting, tasks: Sequence[str], setup: Setup, folder: Path) -> Evaluation:
    """Make the evaluation of a combination."""
    given = dict(setting)
    model = given.pop("model", None)
    if not isinstance(model, str):
        raise InputError("`model`: name the encoder to evaluate")
    options = _options(given, setup)
    for key in given:
        near = nearest(key, ["model", *_OPTIONS])
        raise InputError(f"`{key}`: an evaluation has no such setting{near}")
    if not tasks:
        raise InputError("`tasks`: name what encoders are to be evaluated on, above all tables")
    return Evaluation(located(model, folder), options, tasks)


def _options(given: dict[str, Any], setup: Setup) -> EncoderOptions:
    """Take out of the settings how the model is to be loaded."""
    own = {name: given.pop(name) for name in _OPTIONS if name in given}
    for name, value in own.items():
        kind, wanted = _OPTIONS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"`{name}` {value}: {wanted} is wanted")
    return replace(setup.options, **own)


def _named(jobs: Sequence[tuple[Job, Setting]], tasks: Sequence[str], runs: Path) -> list[Training]:
    """Name jobs by the settings in which they differ, and give each its folder.

    A folder that a sweep gave a job before, under whatever name, is found by its digits.
    """
    values: dict[str, set[str]] = {}
    for _, setting in jobs:
        for key, value in setting.items():
            values.setdefault(key, set()).add(repr(value))
    n_with = {key: sum(key in setting for _, setting in jobs) for key in values}
    differ = [key for key in values if len(values[key]) > 1 or n_with[key] < len(jobs)]
    there = {each.name[-_DIGITS:]: each for each in runs.iterdir()} if runs.is_dir() else {}
    found: dict[str, Training] = {}
    for job, setting in jobs:
        name = ", ".join(f"{key} {setting[key]}" for key in differ if key in setting)
        evaluated = list(dict.fromkeys([job.task, *tasks]))
        training = Training(job, evaluated, name or job.recipe.title)
        if (other := found.get(training.digest)) is not None:
            raise InputError(
                f"two trainings are one, since they have the same settings: {other.name!r} and "
                f"{training.name!r}"
            )
        said = "-".join(_word(key, setting[key]) for key in differ if key in setting)
        own = job.digest[:_DIGITS]  # whatever it is evaluated on
        folder = f"{folder_name(said or job.recipe.name)[:_NAME_LENGTH]}-{own}"
        output = there.get(own, runs / folder)
        found[training.digest] = replace(training, job=replace(job, output=output))
    return list(found.values())


def _word(key: str, value: Any) -> str:
    """Say a setting in a folder's name: a word as it is, a number after what it is of."""
    return Path(value).name if isinstance(value, str) else f"{key}{value}"


@dataclass(frozen=True)
class _Lines:
    """The lines of a grid's file, for errors."""

    file: Path
    text: str

    def error(self, message: str, block: str, number: int, key: str) -> InputError:
        """Name the line where a block says a key, if it can be found."""
        line = self._line(block, number, key) or self._line("all", 0, key)
        return InputError(f"{self.file}{f', line {line}' if line else ''}: {message}")

    @contextmanager
    def locating(self, block: str, number: int) -> Iterator[None]:
        """Let an error name the line of the first setting that it names in backticks."""
        try:
            yield
        except InputError as error:
            raise self._located(error, block, number) from error

    def _located(self, error: InputError, block: str, number: int) -> InputError:
        for key in re.findall(r"`(\w+)`", str(error)):
            if self._line(block, number, key) or self._line("all", 0, key):
                return self.error(str(error), block, number, key)
        line = self._line(block, number, None)
        return InputError(f"{self.file}{f', line {line}' if line else ''}: {error}")

    def _line(self, block: str, number: int, key: str | None) -> int | None:
        """Find the line of a key below the heading of a block, or of the heading."""
        for line, said in self._below(block, number):
            if key is None or re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", said):
                return line
            if re.match(rf"\s*\[+\s*{re.escape(key)}\s*\]", said):
                return line
        return None

    def _below(self, block: str, number: int) -> Iterable[tuple[int, str]]:
        """The numbered lines of a block, its heading first; of '' all."""
        place, seen = "", -1
        for line, said in enumerate(self.text.splitlines(), start=1):
            if heading := re.match(r"\s*\[+\s*([\w.]+)\s*\]", said):
                place = heading[1]
                seen += place == block
            if not block or (place == block and seen == number):
                yield line, said
