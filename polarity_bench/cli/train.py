"""`polarity-bench train` and `polarity-bench examples`."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polarity_bench.cli import shared
from polarity_bench.cli.examples import (
    Dropout,
    HeldOut,
    Neighbours,
    Recipe,
    RecipeChoice,
    Threshold,
)
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.training.spec import ExampleSpec
    from polarity_bench.training.train import TrainingRun


class ScheduleChoice(StrEnum):
    """The learning rate after warm-up."""

    linear = "linear"
    cosine = "cosine"
    constant = "constant"


class TrainDtypeChoice(StrEnum):
    """In which the forward pass computes."""

    float32 = "float32"
    bfloat16 = "bfloat16"


def train(
    output: shared.RunOutput,
    model: shared.Model = "minilm",
    task: shared.TrainingTask = "sst2",
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            help="triplet, contrastive, online-contrastive, mnrl, mnrl-masked, cosine-similarity.",
        ),
    ] = "triplet",
    margin: Annotated[
        float | None, typer.Option("--margin", help="In cosine distance [default: the papers'].")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Of mnrl and mnrl-masked [default: 0.05].")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--examples", "-n", help="Of each epoch [default: 50000, or all given]."),
    ] = None,
    examples_from: Annotated[
        Path | None,
        typer.Option("--examples-from", help="Folder that `examples` wrote, or a parquet file."),
    ] = None,
    example_encoder: Annotated[
        str | None,
        typer.Option("--example-encoder", help="Whose neighbours count [default: the model]."),
    ] = None,
    recipe: Recipe = RecipeChoice.as_written,
    neighbours: Neighbours = 16,
    threshold: Threshold = 0.5,
    dropout: Dropout = None,
    epochs: Annotated[int, typer.Option("--epochs", help="Each draws examples anew.")] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Examples in a batch.")] = 64,
    rate: Annotated[float, typer.Option("--rate", help="Greatest learning rate.")] = 3e-5,
    warm_up: Annotated[
        str,
        typer.Option("--warm-up", help="Share of all steps, number of steps, or as-released."),
    ] = "0.1",
    schedule: Annotated[
        ScheduleChoice, typer.Option("--schedule", help="Learning rate after warm-up.")
    ] = ScheduleChoice.linear,
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Of AdamW.")] = 0.01,
    dtype: Annotated[
        TrainDtypeChoice, typer.Option("--dtype", help="Of the forward pass while training.")
    ] = TrainDtypeChoice.float32,
    accumulation: Annotated[
        int, typer.Option("--accumulation", help="Batches to an optimizer step.")
    ] = 1,
    seed: shared.Seed = 0,
    patience: Annotated[
        int, typer.Option("--patience", help="Epochs without a better joint score; 0: never stop.")
    ] = 3,
    held_out: HeldOut = None,
    report_to: Annotated[
        str, typer.Option("--report-to", help="Tracker of transformers, e.g. tensorboard.")
    ] = "none",
    prompt: shared.Prompt = None,
    max_tokens: shared.MaxTokens = None,
    revision: shared.Revision = None,
    device: shared.Device = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    overwrite: shared.ReplaceRun = False,
    no_store: shared.NoStore = False,
    trust_remote_code: shared.TrustRemoteCode = False,
    allow_pickle: shared.AllowPickle = False,
    offline: shared.Offline = False,
    as_json: shared.AsJson = False,
) -> None:
    """Train an encoder on a polarity task; the same command again goes on where it was stopped."""
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.training.spec import ExampleSpec, TrainSpec

    with _margin_remark():
        spec = TrainSpec(
            loss=loss,
            margin=margin,
            temperature=temperature,
            examples=ExampleSpec(recipe.value, neighbours, threshold, count, dropout),
            epochs=epochs,
            batch_size=batch_size,
            rate=rate,
            warm_up=_warm_up(warm_up),
            schedule=schedule.value,
            weight_decay=weight_decay,
            dtype=dtype.value,
            accumulation=accumulation,
            seed=seed,
            patience=patience,
            held_out=held_out,
        ).with_loss_parameters()
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)

    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.training.generate import read_examples
    from polarity_bench.training.losses import LOSSES
    from polarity_bench.training.train import train as run_training

    given = read_examples(examples_from, LOSSES[spec.loss].examples) if examples_from else None
    if examples_from is not None:
        _refuse_recipe(spec.examples, example_encoder)
    options = EncoderOptions(
        revision=revision,
        prompt=prompt,
        max_tokens=max_tokens,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    with shared.open_store(no_store) as store, _margin_remark(silent=True):
        done = run_training(
            model,
            task,
            output,
            spec,
            options=options,
            example_encoder=example_encoder,
            examples=given,
            access=access,
            task_dir=task_dir,
            embedder=Embedder(store),
            report_to=report_to,
            overwrite=overwrite,
            bar=shared.progress_bar,
        )
    _print_run(done, output, as_json)


def _refuse_recipe(asked: ExampleSpec, example_encoder: str | None) -> None:
    """Refuse options of a recipe where the examples are made already."""
    from polarity_bench.training.spec import ExampleSpec

    made = ExampleSpec(count=asked.count, dropout=asked.dropout)
    if example_encoder is not None or asked != made:
        raise InputError(
            "--examples-from: the examples are made already; --example-encoder, --recipe, "
            "--neighbours and --threshold would do nothing"
        )


@contextmanager
def _margin_remark(silent: bool = False) -> Iterator[None]:
    """Show a margin's warning as a remark, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "margin ", UserWarning)
        yield
    for warning in caught:
        if not (silent and str(warning.message).startswith("margin ")):
            shared.remark(f"warning: {warning.message}")


def _warm_up(text: str) -> float | Literal["as-released"]:
    if text == "as-released":
        return "as-released"
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"--warm-up {text}: a share of the steps (0.1), steps (500) or as-released is wanted"
        ) from error


def _print_run(done: TrainingRun, output: Path, as_json: bool) -> None:
    from polarity_bench.training.card import history_table

    if as_json:
        shared.print_json(
            {
                "output": str(output),
                "run": done.identity.digest,
                "reused": done.reused,
                "best_step": done.best_step,
                "texts_per_second": done.speed,
                "history": [dict(row) for row in done.rows],
            }
        )
    else:
        print(history_table(done.rows))
    if done.reused:
        shared.remark(f"this run had finished in {output} before: nothing to do")
    if done.speed:
        shared.remark(f"{done.speed:,.0f} texts a second went through the encoder in training")
    best = next(row for row in done.rows if row["step"] == done.best_step)
    if (best["joint"] or 0) <= (done.rows[0]["joint"] or 0):
        print("warning: no epoch beat the base's joint score", file=sys.stderr)
    shared.remark(
        f"kept: epoch {best['epoch']:g}; next: polarity-bench run --model "
        f"{shlex.quote(str(output))} --suite full"
    )
