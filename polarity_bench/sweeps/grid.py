"""Grids: TOML files whose settings and lists of values expand to the items of a sweep.

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

`[all]` applies only to training runs. Their settings are `recipe`, `model`, `task`, the loading
options (`prompt`, `revision`, `max_tokens`) and the parameters of the recipe. Each base is
evaluated once, automatically. Cross-validations are scored on their own folds and ignore `tasks`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.encoders.train_file import TRAIN_FILE
from polarity_bench.errors import InputError, check_known, nearest
from polarity_bench.files import expanded, folder_name, read_toml
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.sweeps.evaluation_blocks import expand_evaluation
from polarity_bench.sweeps.items import (
    DIGITS,
    OPTIONS,
    CrossValidation,
    Evaluation,
    GridContext,
    Item,
    Setup,
    Training,
)
from polarity_bench.sweeps.plan import FILE as PLAN
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.toml_lines import TomlLines
from polarity_bench.sweeps.validation_blocks import expand
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.training.job import Job
from polarity_bench.training.parameters import flattened, from_flat
from polarity_bench.training.recipes import RECIPES
from polarity_bench.validation import Strict, validated, validated_field
from polarity_bench.values import digest_of

_USUAL = {"recipe": "margins", "model": "minilm"}
"""Default settings of a training run."""
_NAME_LENGTH = 80
_MOST_COMBINATIONS = 1_000_000
"""Largest number of combinations of a block, because all of them are kept in memory."""
_LISTS = ("tasks", "seeds")
"""Settings whose single value is a list."""
_VALIDATE = "cross-validate"

Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Grid:
    """Items that a grid expands to.

    Evaluations come first, because training runs are compared with their bases. Cross-validations
    come last.

    Attributes:
        title: Title of the grid.
        items: The items, in the order in which they are run.
        locators: Context managers in which errors name the line of a training run's setting, each
            as a function without arguments, by the digest of the run's job.
    """

    title: str
    items: Sequence[Item]
    locators: Mapping[str, Callable[[], AbstractContextManager[None]]] = field(default_factory=dict)

    @property
    def trainings(self) -> list[Training]:
        """Training runs of the grid."""
        return [item for item in self.items if isinstance(item, Training)]


SHIPPED = {file.stem: file for file in sorted((Path(__file__).parent / "grids").glob("*.toml"))}
"""Files of the grids in the package, by name."""


def _tables(value: Any, info: ValidationInfo) -> Any:
    """Check that the value of a field is an array of tables."""
    if not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
        name = str(info.field_name).replace("_", "-")
        raise ValueError(f"must be an array of tables, each starting with [[{name}]]")
    return value


Blocks = Annotated[tuple[Setting, ...], BeforeValidator(_tables)]


class GridFile(Strict):
    """Content of a grid's file."""

    title: str | None = None
    tasks: tuple[str, ...] = ()
    all: dict[str, Any] = Field(default_factory=dict)
    train: Blocks = ()
    evaluate: Blocks = ()
    cross_validate: Blocks = Field((), alias=_VALIDATE)


def grid_file(name: str) -> Path:
    """Return the file of a grid.

    Args:
        name: Path of a file, or name of a grid in the package.

    Raises:
        InputError: If neither a file nor a grid of the package has this name.
    """
    file = expanded(name)
    if file.is_file():
        return file
    check_known(name, SHIPPED, f"`grid` {name}: no such file or packaged grid")
    return SHIPPED[name]


def read_grid(file: Path, setup: Setup) -> Grid:
    """Read a grid and expand it to items.

    Raises:
        InputError: If the file is not a valid grid, or if the grid has no items or contains an item
            twice. The message names the file and, if possible, the line.
    """
    values, text = read_toml(file), file.read_text(encoding="utf-8")
    lines = TomlLines(file, text)
    context = GridContext(setup, file.absolute().parent, load_tasks(setup.task_dir))
    with lines.locate_errors():
        grid = validated(GridFile, values)
        tasks = context.task_names("tasks", names=grid.tasks)
    _check_common(grid.all, lines)
    for kind in ("train", "evaluate", _VALIDATE):
        _check_blocks(kind, values.get(kind, ()), lines)
    jobs = []
    locators = {}
    for number, block in enumerate(grid.train):
        with lines.locate_errors("train", number, ["all"]):
            completed = _add_common_settings(block, grid.all)
        for completed_block in completed:
            of_recipe = f"all.{completed_block.get('recipe', _USUAL['recipe'])}"
            locate = partial(lines.locate_errors, "train", number, [of_recipe, "all"])
            with locate():
                for setting in _product(completed_block):
                    job = _job(setting, context)
                    jobs.append((job, setting))
                    locators[job.digest] = locate
    evaluations = []
    for number, block in enumerate(grid.evaluate):
        with lines.locate_errors("evaluate", number):
            evaluations += [expand_evaluation(each, tasks, context) for each in _product(block)]
    validations = []
    for number, block in enumerate(grid.cross_validate):
        with lines.locate_errors(_VALIDATE, number):
            validations += expand(_product(block), context)
    with lines.locate_errors():
        trainings = _name_trainings(jobs, tasks, setup.output)
        items = [*_with_bases(trainings, evaluations), *_name_validations(validations)]
    if not items:
        known_blocks = f"a [[train]], [[evaluate]] or [[{_VALIDATE}]]"
        raise InputError(f"{file}: the grid has no items; add {known_blocks} block")
    return Grid(file.stem if grid.title is None else grid.title, items, locators)


def _check_blocks(kind: str, blocks: Sequence[Any], lines: TomlLines) -> None:
    """Raise an error if two blocks are equal, before their combinations are made."""
    first: dict[str, int] = {}
    for number, block in enumerate(blocks):
        if (other := first.setdefault(repr(block), number)) != number:
            with lines.locate_errors(kind, number):
                raise InputError(
                    f"[[{kind}]] block {number + 1} repeats block {other + 1}; delete one"
                )


def _check_common(common: Setting, lines: TomlLines) -> None:
    """Check the names and the settings of the tables `[all.RECIPE]`."""
    for name, table in _recipe_tables(common).items():
        with lines.locate_errors():
            check_known(name, RECIPES, f"'all.{name}': unknown recipe")
        settings = [*flattened(RECIPES[name]), "model", "task", "skip", *OPTIONS]
        with lines.locate_errors(f"all.{name}"):
            for key in table:
                check_known(key, settings, f"[all.{name}]: unknown setting {key!r}")


def _recipe_tables(common: Setting) -> Setting:
    """Return the tables `[all.RECIPE]` by recipe."""
    return {name: table for name, table in common.items() if isinstance(table, dict)}


def _add_common_settings(block: Setting, common: Setting) -> list[Setting]:
    """Add the settings of `[all]` and `[all.RECIPE]` to a block; return one block per recipe."""
    tables = _recipe_tables(common)
    everywhere = {key: each for key, each in common.items() if key not in tables}
    recipes = block.get("recipe", everywhere.get("recipe", _USUAL["recipe"]))
    if recipes == []:
        raise InputError("'recipe' must not be an empty list")
    completed: list[Setting] = []
    for recipe in _as_list(recipes):
        of_table = tables.get(recipe, {}) if isinstance(recipe, str) else {}
        of_recipe = {} if recipe == recipes and "recipe" not in block else {"recipe": recipe}
        completed.append({**everywhere, **of_table, **block, **of_recipe})
    return completed


def _product(block: Setting) -> Sequence[Setting]:
    """Return all combinations of a block's values, except those that `skip` excludes."""
    axes = {key: _axis(key, value) for key, value in block.items() if key != "skip"}
    skipped = block.get("skip", [])
    if not (isinstance(skipped, list) and all(isinstance(each, dict) for each in skipped)):
        raise InputError(f"'skip' must be a list of tables, got {skipped!r}")
    conditions = [{key: _as_list(value) for key, value in each.items()} for each in skipped]
    for key, values in [pair for condition in conditions for pair in condition.items()]:
        check_known(key, axes, f"'skip': unknown setting {key!r}")
        for each in values:
            if each not in axes[key]:
                near = nearest(str(each), map(str, axes[key]))
                raise InputError(f"'skip': {each!r} is not a value of {key!r} in this block{near}")
    if (n := math.prod(map(len, axes.values()))) > _MOST_COMBINATIONS:
        raise InputError(f"the block has {n:,} combinations, at most {_MOST_COMBINATIONS:,} fit")
    settings = [dict(zip(axes, each, strict=True)) for each in itertools.product(*axes.values())]
    combinations = [
        setting
        for setting in settings
        if not any(all(setting[key] in c[key] for key in c) for c in conditions)
    ]
    if not combinations:
        raise InputError("'skip' excludes every combination; remove a table from 'skip'")
    return combinations


def _axis(key: str, value: Any) -> list[Any]:
    """Return the values of a setting. A flat list of tasks or seeds is a single value."""
    if not isinstance(value, list):
        return [value]
    is_nested = any(isinstance(each, list | dict) for each in value)
    if key in _LISTS:
        return value if is_nested else [value]
    if not value:
        raise InputError(f"{key!r} must not be an empty list")
    if is_nested:
        raise InputError(f"{key!r} must not contain lists or tables")
    for text, n in Counter(map(repr, value)).items():
        if n > 1:
            raise InputError(f"{key!r} contains {text} {n} times; delete the repeated values")
    return value


def _as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list with one element."""
    return value if isinstance(value, list) else [value]


def _job(setting: Setting, context: GridContext) -> Job:
    """Return the job for a combination of settings. Paths are relative to the grid's folder."""
    parameters = {**_USUAL, **setting}
    recipe, model = parameters.pop("recipe"), parameters.pop("model")
    if (task := parameters.pop("task", None)) is None:
        raise InputError("`task`: missing; name the task to train on")
    task = context.task_name(validated_field(str, "task", task))
    if model == "":
        raise InputError("`model`: expected the name of an encoder, got ''")
    options = context.pop_options(parameters)
    if isinstance(recipe, str) and recipe in RECIPES:
        known = [*flattened(RECIPES[recipe]), "recipe", "model", "task", *OPTIONS]
        for key in parameters:
            check_known(key, known, f"`{key}`: the recipe {recipe!r} has no such setting")
    chosen, setup = from_flat(RECIPES, recipe, parameters), context.setup
    where = setup.output, options, setup.data_dir, setup.task_dir, setup.store
    return Job(chosen, model, task, *where).resolve_paths(context.folder)


def _name_validations(items: Sequence[CrossValidation]) -> list[CrossValidation]:
    """Return the cross-validations, named by the settings in which they differ."""
    differing = _differing_settings([(each.settings["loss"], each.settings) for each in items])
    named = [
        replace(each, name=_in_words(settings) or f"{each.method.title} on {each.task}")
        for each, settings in zip(items, differing, strict=True)
    ]
    _check_distinct("cross-validations", named)
    return named


def _check_distinct(kind: str, items: Sequence[Training] | Sequence[CrossValidation]) -> None:
    """Raise an error if two items have the same digest."""
    first: dict[str, Training | CrossValidation] = {}
    for item in items:
        other = first.setdefault(item.digest, item)
        if other is not item:
            raise InputError(
                f"two {kind} have the same settings: {other.name!r} and {item.name!r}; delete one"
            )


def _name_trainings(
    jobs: Sequence[tuple[Job, Setting]], tasks: Sequence[str], output: Path
) -> list[Training]:
    """Return the jobs as training runs, each with a name and a folder.

    The name consists of the settings in which the jobs differ. If the sweep already has a folder
    that ends with the digits of a job's digest, the job keeps that folder, whatever its name.
    """
    several = _differing_settings([(job.recipe.name, setting) for job, setting in jobs])
    runs = output / "runs"
    known_folders = _known_folders(output)
    trainings = []
    for (job, setting), differing in zip(jobs, several, strict=True):
        name = _in_words(differing) or job.recipe.title
        evaluated = list(dict.fromkeys([job.task, *tasks]))
        job_digest = job.digest  # does not depend on the tasks of the evaluation
        words = "-".join(_word(key, value) for key, value in differing.items()) or job.recipe.name
        folder = f"{folder_name(words)[:_NAME_LENGTH]}-{job_digest[:DIGITS]}"
        if not (runs / folder / TRAIN_FILE).is_file():
            folder = known_folders.get(job_digest[:DIGITS], folder)
        digest = digest_of([job_digest, evaluated])[:DIGITS]
        placed = replace(job, output=runs / folder)
        trainings.append(Training(placed, evaluated, name, {**_USUAL, **setting}, digest))
    _check_distinct("training runs", trainings)
    return trainings


def _known_folders(output: Path) -> dict[str, str]:
    """Return the names of all folders that jobs of the sweep already have, by their digits.

    Names in the plan take precedence, because results refer to them even if the folder is gone.
    """
    scored = paths_by_encoder(output / "results")
    begun = [each.parent.name for each in (output / "runs").glob(f"*/{TRAIN_FILE}")]
    existing = [*sorted(scored), *sorted(begun)]
    items = read_plan(output).items if (output / PLAN).is_file() else []
    planned = [each.encoder for each in items if each.kind == Training.kind]
    return {name[-DIGITS:]: name for name in [*existing, *planned]}


def _with_bases(
    trainings: Sequence[Training], evaluations: Sequence[Evaluation]
) -> list[Evaluation | Training]:
    """Return all evaluations, then the training runs with a link to the evaluation of their base.

    Each base has one evaluation, which covers the tasks of its training runs and of its `evaluate`
    blocks.
    """
    trained = {(item.model, item.options) for item in trainings}
    tasks: dict[tuple[str, EncoderOptions], dict[str, None]] = {}
    separate = []
    items: list[Training | Evaluation] = [*trainings, *evaluations]
    for item in items:
        loaded = item.model, item.options
        if isinstance(item, Evaluation) and (item.given or loaded not in trained):
            separate.append(item)
        else:
            tasks.setdefault(loaded, {}).update(dict.fromkeys(item.tasks))
    bases = {loaded: Evaluation(*loaded, list(names)) for loaded, names in tasks.items()}
    distinct = {item.digest: item for item in [*bases.values(), *separate]}
    linked = [replace(item, base=bases[item.model, item.options]) for item in trainings]
    return [*distinct.values(), *linked]


def _differing_settings(several: Sequence[tuple[str, Setting]]) -> list[Setting]:
    """Return the settings of each item in which the items differ.

    Items differ in a setting that has several values, or that only some items of a family have. A
    family is a recipe or a loss.
    """

    def differs(key: str) -> bool:
        families = {family for family, setting in several if key in setting}
        in_some = any(key not in setting for family, setting in several if family in families)
        values = {repr(setting[key]) for _, setting in several if key in setting}
        return in_some or len(values) > 1 or (key == "recipe" and len(all_families) > 1)

    all_families = {family for family, _ in several}
    keys = [key for key in dict.fromkeys(key for _, s in several for key in s) if differs(key)]
    return [{key: setting[key] for key in keys if key in setting} for _, setting in several]


def _in_words(settings: Setting) -> str:
    """Return settings as text. None means all rows; a tuple contains seeds."""
    words = {key: "all" if value is None else value for key, value in settings.items()}
    words |= {key: " ".join(map(str, v)) for key, v in words.items() if isinstance(v, tuple)}
    return ", ".join(f"{key} {value}" for key, value in words.items())


def _word(key: str, value: Any) -> str:
    """Return a setting as part of a folder name: text without its key, other values with it."""
    return Path(value).name if isinstance(value, str) else f"{key}{value}"
