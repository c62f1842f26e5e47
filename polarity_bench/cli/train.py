"""`polarity-bench train`: training of an encoder, with the parameters of a recipe as options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli.options import DataFlags, InputFlags, Model, StoreFlags, usable_options
from polarity_bench.cli.output import OutputFlags, announced_bar, remark, warnings_as_remarks
from polarity_bench.errors import InputError
from polarity_bench.training.parameters import ParameterWarning, from_flat
from polarity_bench.training.processes import is_first
from polarity_bench.training.recipes import RECIPES

if TYPE_CHECKING:
    from polarity_bench.training.job import Job
    from polarity_bench.training.train import TrainingRun


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
    recipe: Annotated[str, f"Training method: {', '.join(RECIPES)}."] = "margins",
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
    for flag, folder in (("--task-dir", job.task_dir), ("--data-dir", job.data_dir)):
        words += [flag, str(folder)] if folder else []
    for field in ("trust_remote_code", "allow_pickle", "offline"):
        words += [f"--{field.replace('_', '-')}"] if getattr(job.options, field) else []
    remark(f"kept: epoch {kept['epoch']:g}; next: {shlex.join(words)}")
