"""`polarity-bench train`: training of an encoder, with the parameters of a recipe as options."""

from __future__ import annotations

import shlex
import sys
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from polarity_bench.cli.options import (
    DataFlags,
    InputFlags,
    Model,
    StoreFlags,
    folder_options,
    help_of,
    metavar_of,
    usable_options,
)
from polarity_bench.cli.output import OutputFlags, announced_bar, remark, warnings_as_remarks
from polarity_bench.errors import InputError, check_known
from polarity_bench.training.parameters import ParameterWarning, flattened, from_flat
from polarity_bench.training.processes import is_first
from polarity_bench.training.recipes import RECIPES

if TYPE_CHECKING:
    from polarity_bench.training.job import Job
    from polarity_bench.training.train import TrainingRun

_DEFAULT_RECIPE = "margins"


class RecipeCommand(TyperCommand):
    """Command that accepts a recipe as its first argument: `axis` means `--recipe axis`.

    The help shows only the parameters of this recipe, or of the default recipe if none is named.
    """

    recipe = _DEFAULT_RECIPE

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the flag before a recipe, and keep the name of the recipe for the help."""
        if args and not args[0].startswith("-"):
            args = ["--recipe", *args]
        pairs = pairwise(part for word in args for part in word.split("=", 1))
        self.recipe = dict(pairs).get("--recipe", _DEFAULT_RECIPE)
        check_known(self.recipe, RECIPES, f"--recipe: unknown recipe {self.recipe!r}")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the options, without the parameters of other recipes."""
        own, all_options = flattened(RECIPES[self.recipe]), self.params
        of_recipes = {key for recipe in RECIPES.values() for key in flattened(recipe)}
        shown: list[Any] = [
            copy(each) for each in all_options if each.name in own or each.name not in of_recipes
        ]
        for each in shown:
            if each.name in own:
                each.help, each.metavar = f"{help_of(own[each.name])}.", metavar_of(own[each.name])
        self.params = shown
        super().format_options(ctx, formatter)
        self.params = all_options


def train(
    *,
    context: typer.Context,
    output: Annotated[
        Path | None,
        "Folder for the trained encoder and its scores; needed unless --job is given.",
        "-o",
    ] = None,
    model: Model = "minilm",
    task: Annotated[str, "Polarity task to train and evaluate on.", "-t"] = "sst2",
    recipe: Annotated[str, f"Training method: {', '.join(RECIPES)}."] = _DEFAULT_RECIPE,
    job: Annotated[
        Path | None, "TOML file with all settings of a run, instead of the other options."
    ] = None,
    encoder: InputFlags,
    data: DataFlags,
    overwrite: Annotated[bool, "Replace a finished or different run in the output folder."] = False,
    embedding: StoreFlags,
    out: OutputFlags,
    parameters: Annotated[dict[str, Any], RECIPES],
) -> None:
    """Train an encoder on a polarity task.

    RECIPE is the training method: margins, axis, scl, triple-entropy or setfit. `train RECIPE
    --help` shows the options of one recipe. The same command resumes an interrupted run.
    """
    from polarity_bench.training.job import Job
    from polarity_bench.training.train import train as run_training

    access = data.access()
    if job is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = {
            name for name, source in sources.items() if source and source.name == "COMMANDLINE"
        }
        if others := given - {"job", "overwrite", "wide", "as_json"}:
            raise InputError(
                f"`job`: the file must contain all settings, but `{min(others)}` is also given; "
                f"omit the option, or write {min(others)} = ... in the file"
            )
        job_to_run = Job.read(job)
    elif output is None:
        raise InputError("`output`: a training run needs an output folder; name one")
    else:
        options = usable_options(encoder, offline=access.offline)
        chosen = from_flat(RECIPES, recipe, parameters)
        chosen.check_used(parameters)
        folders = data.data_dir, data.task_dir
        store = not embedding.no_store
        job_to_run = Job(chosen, model, task, output, options, *folders, store=store)
    with warnings_as_remarks(ParameterWarning):
        done = run_training(job_to_run, overwrite=overwrite, bar=announced_bar)
    if is_first():
        _print_run(done, job_to_run, out)


def _print_run(done: TrainingRun, job: Job, out: OutputFlags) -> None:
    from polarity_bench.training.model_card import history_table

    out.show(
        lambda: {
            "output": str(job.output),
            "recipe": job.recipe.name,
            "run": done.run,
            "reused": done.reused,
            "kept": done.kept,
            "figures": dict(done.figures),
            "texts_per_second": done.speed,
            "history": list(done.rows),
        },
        lambda: history_table(done.rows, out.width),
    )
    if done.reused:
        remark(f"{job.output}: this run is already finished; its results are shown again")
    if done.speed:
        remark(f"training speed: {done.speed:,.0f} texts per second")
    kept = next(row for row in done.rows if row["step"] == done.kept)
    if not done.kept:
        print("warning: no epoch scored better than the base; the base was kept", file=sys.stderr)
    elif (kept["joint"] or 0) <= (done.rows[0]["joint"] or 0):
        print("warning: the joint score is not higher than that of the base", file=sys.stderr)
    words = ["polarity-bench", "run", "--model", str(job.output), "--tasks", job.task]
    words += folder_options(job.task_dir, job.data_dir)
    for field in ("trust_remote_code", "allow_pickle", "offline"):
        words += [f"--{field.replace('_', '-')}"] if getattr(job.options, field) else []
    remark(f"kept: epoch {kept['epoch']:g}; next: {shlex.join(words)}")
