"""`polarity-bench train`: any recipe, its options built from what the recipe declares."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli.inputs import check_device, data_access_of
from polarity_bench.cli.options import (
    AllowPickle,
    AsJson,
    DataDir,
    Device,
    MaxTokens,
    Model,
    NoStore,
    Offline,
    Prompt,
    ReplaceRun,
    Revision,
    TaskDir,
    TrainingTask,
    TrustRemoteCode,
    Wide,
    with_parameters,
)
from polarity_bench.cli.output import (
    announced_bar,
    print_json,
    print_tables,
    remark,
    terminal_width,
    warnings_as_remarks,
)
from polarity_bench.errors import InputError
from polarity_bench.training.parameters import ParameterWarning, from_flat
from polarity_bench.training.processes import is_first
from polarity_bench.training.recipes import RECIPES

if TYPE_CHECKING:
    from polarity_bench.training.job import Job
    from polarity_bench.training.train import TrainingRun


@with_parameters(RECIPES)
def train(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the run.")
    ] = None,
    model: Model = "minilm",
    task: TrainingTask = "sst2",
    recipe: Annotated[
        str, typer.Option("--recipe", help=f"How to train: {', '.join(RECIPES)}.")
    ] = "margins",
    job: Annotated[
        Path | None, typer.Option("--job", help="Run the job that this TOML file says.")
    ] = None,
    prompt: Prompt = None,
    max_tokens: MaxTokens = None,
    revision: Revision = None,
    device: Device = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    overwrite: ReplaceRun = False,
    no_store: NoStore = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    wide: Wide = False,
    as_json: AsJson = False,
    *,
    parameters: dict[str, Any],
) -> None:
    """Train an encoder on a polarity task. The same command resumes a run that was interrupted.

    RECIPE is how to train: margins, axis, scl, triple-entropy or setfit. `train RECIPE --help`
    shows the options of one recipe.
    """
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.job import Job
    from polarity_bench.training.train import train as run_training

    access = data_access_of(data_dir, offline)
    if job is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = {
            name for name, source in sources.items() if source and source.name == "COMMANDLINE"
        }
        if asked := given - {"job", "overwrite", "wide", "as_json"}:
            raise InputError(
                f"`job`: the file says all that is to be done; leave `{min(asked)}` out, or write "
                f"{min(asked)} = ... into the file"
            )
        made = Job.read(job)
    elif output is None:
        raise InputError("`output`: name a folder for the run")
    else:
        check_device(device)
        options = EncoderOptions(
            revision=revision,
            prompt=prompt,
            max_tokens=max_tokens,
            device=device,
            trust_remote_code=trust_remote_code,
            allow_pickle=allow_pickle,
            offline=access.offline,
        )
        chosen = from_flat(RECIPES, recipe, parameters)
        chosen.check_used(parameters)
        made = Job(chosen, model, task, output, options, data_dir, task_dir, store=not no_store)
    with warnings_as_remarks(ParameterWarning):
        done = run_training(made, overwrite=overwrite, bar=announced_bar)
    if is_first():
        _print_run(done, made, terminal_width(wide), as_json)


def _print_run(done: TrainingRun, job: Job, width: int | None, as_json: bool) -> None:
    from polarity_bench.training.model_card import history_table

    if as_json:
        print_json(
            {
                "output": str(job.output),
                "recipe": job.recipe.name,
                "run": done.run,
                "reused": done.reused,
                "kept": done.kept,
                "figures": dict(done.figures),
                "texts_per_second": done.speed,
                "history": list(done.rows),
            }
        )
    else:
        print_tables(history_table(done.rows, width))
    if done.reused:
        remark(f"this run had finished in {job.output} before: nothing to do")
    if done.speed:
        remark(f"{done.speed:,.0f} texts a second went through the encoder in training")
    kept = next(row for row in done.rows if row["step"] == done.kept)
    if not done.kept:
        print("warning: no epoch scored better than the base, which is kept", file=sys.stderr)
    elif (kept["joint"] or 0) <= (done.rows[0]["joint"] or 0):
        print("warning: the joint score is not above the base's", file=sys.stderr)
    words = ["polarity-bench", "run", "--model", str(job.output), "--tasks", job.task]
    for flag, folder in (("--task-dir", job.task_dir), ("--data-dir", job.data_dir)):
        words += [flag, str(folder)] if folder else []
    for field in ("trust_remote_code", "allow_pickle", "offline"):
        words += [f"--{field.replace('_', '-')}"] if getattr(job.options, field) else []
    remark(f"kept: epoch {kept['epoch']:g}; next: {shlex.join(words)}")
