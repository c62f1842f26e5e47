"""Grids: TOML files with products of settings, which expand to the items of a sweep.

```toml
title = "Losses on contrast"
tasks = ["contrast", "stsb"]      # tasks on which every encoder is evaluated

[all]                             # settings of every training run
task = "contrast"

[all.margins]                     # settings of every training run with this recipe
epochs = 1

[[train]]                         # the product of the lists in the block
model = ["minilm", "e5-small"]
loss = ["triplet", "contrastive"]
margin = [0.1, 0.5]
skip = [{ loss = "contrastive", margin = 0.1 }]

[[evaluate]]                      # untrained encoders
model = ["minilm"]

[[cross-validate]]                # classifiers on few rows, see `validation_blocks`
task = ["mr", "trec"]
loss = ["cce", "supcon"]
rows = [20, 100]
```

`[all]` applies to training runs only. Their settings are `recipe`, `model`, `task`, the options to
load the model (`prompt`, `revision`, `max_tokens`) and the parameters of the recipe. Each base is
evaluated automatically, once. Cross-validations are scored by their folds: they are not evaluated
on `tasks`, and need none.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.encoders.train_file import TRAIN_FILE
from polarity_bench.errors import InputError, nearest
from polarity_bench.files import folder_name
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.sweeps.evaluation_blocks import as_axes as evaluations_as_axes
from polarity_bench.sweeps.evaluation_blocks import expand_evaluation
from polarity_bench.sweeps.items import (
    DIGITS,
    OPTIONS,
    CrossValidation,
    Evaluation,
    Item,
    Setup,
    Training,
    options_of,
)
from polarity_bench.sweeps.plan import FILE as PLAN
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.toml_lines import TomlLines
from polarity_bench.sweeps.validation_blocks import as_axes, expand
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.training.job import Job
from polarity_bench.training.parameters import flattened, from_flat
from polarity_bench.training.recipes import RECIPES
from polarity_bench.validation import Strict, validated, validated_field
from polarity_bench.values import digest_of

_USUAL = {"recipe": "margins", "model": "minilm"}
_NAME_LENGTH = 80
_LISTS = ("tasks", "seeds")
_VALIDATE = "cross-validate"

Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """The items of a grid.

    Evaluations come first, since training runs are compared with their bases. Cross-validations
    come last.

    Attributes:
        blocks: The lines and the block number of each training run, by the digest of its job.
    """

    title: str
    items: Sequence[Item]
    blocks: Mapping[str, tuple[TomlLines, int]] = field(default_factory=dict)

    @property
    def trainings(self) -> list[Training]:
        """The training runs."""
        return [item for item in self.items if isinstance(item, Training)]

    def locating(self, training: Training) -> AbstractContextManager[None]:
        """Return a context in which errors name the line of a training run's setting."""
        lines, number = self.blocks[training.job.digest]
        return lines.locating("train", number)


SHIPPED = {file.stem: file for file in sorted((Path(__file__).parent / "grids").glob("*.toml"))}
"""The grids in the package, of the papers and our own, by name."""


def _tables(value: Any, info: ValidationInfo) -> Any:
    if not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
        name = str(info.field_name).replace("_", "-")
        raise ValueError(f"must be tables, each headed [[{name}]]")
    return value


Blocks = Annotated[tuple[Setting, ...], BeforeValidator(_tables)]


class GridFile(Strict):
    """The content of a grid's file."""

    title: str | None = None
    tasks: tuple[str, ...] = ()
    all: dict[str, Any] = Field(default_factory=dict)
    train: Blocks = ()
    evaluate: Blocks = ()
    cross_validate: Blocks = Field((), alias=_VALIDATE)


def grid_file(name: str) -> Path:
    """Return the file of a grid: an existing file, or one in the package.

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
        InputError: If the file is not a valid grid, has no items, or has an item twice; names the
            file, and the line if the error has one.
    """
    try:
        text = file.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
    lines = TomlLines(file, text)
    with lines.locating():
        grid = validated(GridFile, values)
    known_tasks = load_tasks(setup.task_dir)
    with lines.locating():
        tasks = [_task_name(name, known_tasks, "tasks") for name in grid.tasks]
    _check_common(grid.all, lines)
    jobs = []
    places = {}
    for number, block in enumerate(grid.train):
        with lines.locating("train", number):
            completed = _completed(block, grid.all)
        for whole in completed:
            of_recipe = f"all.{whole.get('recipe', _USUAL['recipe'])}"
            said = replace(lines, common=(of_recipe, "all"))
            with said.locating("train", number):
                for setting in _product(whole):
                    job = _job(setting, setup, file.absolute().parent, known_tasks)
                    jobs.append((job, setting))
                    places[job.digest] = said, number
    evaluations = []
    own = replace(lines, common=())  # [all] applies to training runs only
    for number, block in enumerate(grid.evaluate):
        with own.locating("evaluate", number):
            evaluations += [
                expand_evaluation(setting, tasks, setup, file.absolute().parent, known_tasks)
                for setting in _product(evaluations_as_axes(block))
            ]
    with lines.locating():
        trainings, bases = _with_bases(_named(jobs, tasks, setup.output), evaluations)
    others = [each for each in evaluations if each.said or _loaded(each) not in bases]
    first = {item.digest: item for item in [*bases.values(), *others]}
    validations = _validations(grid.cross_validate, lines, setup, known_tasks)
    items: list[Item] = [*first.values(), *trainings, *validations]
    if not items:
        known_blocks = f"a [[train]], an [[evaluate]] or a [[{_VALIDATE}]]"
        raise InputError(f"{file}: it says nothing to do: write {known_blocks}")
    return Grid(file.stem if grid.title is None else grid.title, items, places)


def _check_common(common: Setting, lines: TomlLines) -> None:
    """Check the tables `[all.RECIPE]`."""
    for name, table in common.items():
        if not isinstance(table, dict):
            continue
        with lines.locating():
            if name not in RECIPES:
                raise InputError(f"'all.{name}': unknown recipe{nearest(name, RECIPES)}")
        known = [*flattened(RECIPES[name]), "model", "task", "skip", *OPTIONS]
        with lines.locating(f"all.{name}"):
            for key in table:
                if key not in known:
                    raise InputError(f"[all.{name}]: unknown setting {key!r}{nearest(key, known)}")


def _completed(block: Setting, common: Setting) -> list[Setting]:
    """Complete a block by the settings of `[all]` and `[all.RECIPE]`; one block for each recipe."""
    everywhere = {key: each for key, each in common.items() if not isinstance(each, dict)}
    said = block.get("recipe", everywhere.get("recipe", _USUAL["recipe"]))
    if said == []:
        raise InputError("'recipe' is an empty list: there is no product")
    found: list[Setting] = []
    for recipe in said if isinstance(said, list) else [said]:
        own = common.get(recipe, {}) if isinstance(recipe, str) and recipe in RECIPES else {}
        of_recipe = {} if recipe == said and "recipe" not in block else {"recipe": recipe}
        found.append({**everywhere, **own, **block, **of_recipe})
    return found


def _product(block: Setting) -> Sequence[Setting]:
    """Return every combination of a block's lists, without the skipped ones."""
    own = {key: value for key, value in block.items() if key != "skip"}
    axes = {key: value if isinstance(value, list) else [value] for key, value in own.items()}
    for key, several in axes.items():
        if not several:
            raise InputError(f"{key!r} is an empty list: there is no product")
        if key not in _LISTS and any(isinstance(each, list | dict) for each in several):
            raise InputError(f"{key!r} holds a list of its own, or a table")
    left_out = block.get("skip", [])
    if not (isinstance(left_out, list) and all(isinstance(each, dict) for each in left_out)):
        raise InputError("'skip' must be a list of tables")
    for key, value in [pair for condition in left_out for pair in condition.items()]:
        if key not in axes:
            raise InputError(f"'skip': unknown {key!r}{nearest(key, axes)}")
        for each in value if isinstance(value, list) else [value]:
            if each not in axes[key]:
                near = nearest(str(each), map(str, axes[key]))
                raise InputError(f"'skip': no {key} of the product is {each!r}{near}")
    settings = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    kept = [each for each in settings if not any(_meets(each, c) for c in left_out)]
    if not kept:
        raise InputError("'skip' leaves nothing of the product")
    return kept


def _meets(setting: Setting, condition: Setting) -> bool:
    """Return whether a setting meets a condition; a list in it allows any of its values."""
    return all(
        setting[key] in (value if isinstance(value, list) else [value])
        for key, value in condition.items()
    )


def _task_name(name: Any, known: Mapping[str, TaskSpec], key: str) -> str:
    """Return the canonical name of a task."""
    try:
        (spec,) = choose_tasks(known, names=[validated_field(str, key, name)])
    except InputError as error:
        raise InputError(f"`{key}`: {error}") from error
    return spec.name


def _job(setting: Setting, setup: Setup, folder: Path, known: Mapping[str, TaskSpec]) -> Job:
    """Return the job for a combination of settings; its paths are relative to the grid's folder."""
    given = {**_USUAL, **setting}
    recipe, model, task = given.pop("recipe"), given.pop("model"), given.pop("task", None)
    if task is None:
        raise InputError("`task`: name the task to train on")
    task = _task_name(task, known, "task")
    if model == "":
        raise InputError("`model`: name the encoder to train")
    options = options_of(given, setup)
    if isinstance(recipe, str) and recipe in RECIPES:
        own = flattened(RECIPES[recipe])
        for key in given:
            if key not in own:
                near = nearest(key, [*own, "recipe", "model", "task", *OPTIONS])
                raise InputError(f"`{key}`: the recipe {recipe!r} has no such setting{near}")
    made = from_flat(RECIPES, recipe, given)
    where = setup.output, options, setup.data_dir, setup.task_dir, setup.store
    return Job(made, model, task, *where).below(folder)


def _validations(
    blocks: Sequence[Setting], lines: TomlLines, setup: Setup, known: Mapping[str, TaskSpec]
) -> list[CrossValidation]:
    """Return the cross-validations of all blocks, named by the settings in which they differ."""
    own = replace(lines, common=())  # [all] does not apply
    made: list[CrossValidation] = []
    for number, block in enumerate(blocks):
        with own.locating(_VALIDATE, number):
            made += expand(_product(as_axes(block)), setup, lines.file.absolute().parent, known)
    differ = _differing([(each.settings["loss"], each.settings) for each in made])
    found: dict[str, CrossValidation] = {}
    for each in made:
        own_values = {key: each.settings[key] for key in differ if key in each.settings}
        said = ", ".join(f"{key} {_in_words(value)}" for key, value in own_values.items())
        named = replace(each, name=said or f"{each.method.title} on {each.task}")
        if (other := found.get(each.digest)) is not None:
            raise InputError(
                f"{lines.file}: two cross-validations are one, since they have the same settings: "
                f"{other.name!r} and {named.name!r}"
            )
        found[each.digest] = named
    return list(found.values())


def _named(
    jobs: Sequence[tuple[Job, Setting]], tasks: Sequence[str], output: Path
) -> list[Training]:
    """Return jobs as training runs, each with a name and a folder.

    The name consists of the settings in which the jobs differ. If the sweep already has a folder
    for a job, under any name, the digits of the folder identify it.
    """
    differ = _differing([(job.recipe.name, setting) for job, setting in jobs])
    runs = output / "runs"
    there = _known_folders(output)
    found: dict[str, Training] = {}
    for job, setting in jobs:
        name = ", ".join(f"{key} {setting[key]}" for key in differ if key in setting)
        evaluated = list(dict.fromkeys([job.task, *tasks]))
        name = name or job.recipe.title
        own = job.digest  # independent of the tasks of its evaluation
        digest = digest_of([own, evaluated])[:DIGITS]
        if (other := found.get(digest)) is not None:
            raise InputError(
                f"two trainings are one, since they have the same settings: {other.name!r} and "
                f"{name!r}"
            )
        said = "-".join(_word(key, setting[key]) for key in differ if key in setting)
        folder = f"{folder_name(said or job.recipe.name)[:_NAME_LENGTH]}-{own[:DIGITS]}"
        begun = (runs / folder / TRAIN_FILE).is_file()
        place = runs / (folder if begun else there.get(own[:DIGITS], folder))
        placed = replace(job, output=place)
        found[digest] = Training(placed, evaluated, name, {**_USUAL, **setting}, digest)
    return list(found.values())


def _known_folders(output: Path) -> dict[str, str]:
    """Return the names of folders that jobs already have in the sweep, by their digits.

    Names in the plan take precedence: results use them, even if the folder no longer exists.
    """
    scored = paths_by_encoder(output / "results")
    begun = [each.parent.name for each in (output / "runs").glob(f"*/{TRAIN_FILE}")]
    there = [*sorted(scored), *sorted(begun)]
    items = read_plan(output).items if (output / PLAN).is_file() else []
    planned = [each.encoder for each in items if each.kind == Training.kind]
    return {name[-DIGITS:]: name for name in [*there, *planned]}


def _loaded(item: Evaluation) -> tuple[str, EncoderOptions]:
    return item.model, item.options


def _with_bases(
    trainings: Sequence[Training], evaluations: Sequence[Evaluation]
) -> tuple[list[Training], dict[tuple[str, EncoderOptions], Evaluation]]:
    """Add the evaluation of its base to each training run.

    Each base has one evaluation, on all tasks of its training runs and of its own blocks.
    """
    tasks: dict[tuple[str, EncoderOptions], dict[str, None]] = {}
    for each in trainings:
        tasks.setdefault((each.job.model, each.job.options), {}).update(dict.fromkeys(each.tasks))
    for item in evaluations:
        if not item.said and _loaded(item) in tasks:
            tasks[_loaded(item)].update(dict.fromkeys(item.tasks))
    bases = {loaded: Evaluation(*loaded, list(names)) for loaded, names in tasks.items()}
    return [replace(t, base=bases[t.job.model, t.job.options]) for t in trainings], bases


def _differing(several: Sequence[tuple[str, Setting]]) -> list[str]:
    """Return the settings in which items differ.

    These have several values, or only some items of a family (a recipe or a loss) have them.
    """
    values: dict[str, set[str]] = {}
    n_with: dict[tuple[str, str], int] = {}
    n_of: dict[str, int] = {}
    for family, setting in several:
        n_of[family] = n_of.get(family, 0) + 1
        for key, value in setting.items():
            values.setdefault(key, set()).add(repr(value))
            n_with[family, key] = n_with.get((family, key), 0) + 1
    in_some = {key for (family, key), n in n_with.items() if n < n_of[family]}
    alone = len(n_of) == 1
    return [
        key
        for key in values
        if len(values[key]) > 1 or key in in_some or (key == "recipe" and not alone)
    ]


def _in_words(value: Any) -> str:
    """Return a protocol value as text: None means all rows, a tuple holds seeds."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "all" if value is None else str(value)


def _word(key: str, value: Any) -> str:
    """Return a setting for a folder name: text as it is, other values after their key."""
    return Path(value).name if isinstance(value, str) else f"{key}{value}"
