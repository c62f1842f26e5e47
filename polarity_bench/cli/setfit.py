"""`polarity-bench setfit`."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.training.setfit import SetFitRun


class SetFitRecipeChoice(StrEnum):
    """Whose way of training."""

    papers = "papers"
    setfit = "setfit"


def setfit(
    output: shared.RunOutput,
    model: shared.Model = "minilm",
    task: shared.TrainingTask = "sst2",
    recipe: Annotated[
        SetFitRecipeChoice,
        typer.Option("--recipe", help="As the margins paper's authors ran it, or SetFit's own."),
    ] = SetFitRecipeChoice.papers,
    samples_per_class: Annotated[
        str | None,
        typer.Option("--samples-per-class", help="Number, or all [default: 625; setfit: 8]."),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            "--pairs",
            help="Sentence pairs, even [default: 40 for each text; setfit: all there are].",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", help="Pairs in a batch [default: 32; setfit: 16]."),
    ] = None,
    seed: shared.Seed = 0,
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
    """Train an encoder with SetFit, the baseline that sees classes and no neighbours."""
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)

    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.training.setfit import SetFitSpec, train_setfit

    spec = SetFitSpec(
        recipe.value,
        "usual" if samples_per_class is None else _number_or_all(samples_per_class),
        pairs,
        "usual" if batch_size is None else batch_size,
        seed,
    )
    options = EncoderOptions(
        revision=revision,
        prompt=prompt,
        max_tokens=max_tokens,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    with shared.open_store(no_store) as store:
        done = train_setfit(
            model,
            task,
            output,
            spec,
            options=options,
            access=access,
            task_dir=task_dir,
            embedder=Embedder(store),
            overwrite=overwrite,
            bar=shared.progress_bar,
        )
    _print_run(done, output, as_json)


def _number_or_all(text: str) -> int | None:
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"--samples-per-class {text}: a number or all is wanted") from error


def _print_run(done: SetFitRun, output: Path, as_json: bool) -> None:
    from polarity_bench.training.card import history_table

    if as_json:
        shared.print_json(
            {
                "output": str(output),
                "run": done.identity.digest,
                "reused": done.reused,
                "pairs": done.n_pairs,
                "texts": done.n_texts,
                "history": [dict(row) for row in done.rows],
            }
        )
    else:
        print(history_table(done.rows))
    if done.reused:
        shared.remark(f"this run had finished in {output} before: nothing to do")
    shared.remark(f"{done.n_pairs:,} sentence pairs were made of {done.n_texts:,} texts")
    if (done.rows[-1]["joint"] or 0) <= (done.rows[0]["joint"] or 0):
        print("warning: the joint score is not above the base's", file=sys.stderr)
    shared.remark(f"next: polarity-bench run --model {shlex.quote(str(output))} --suite full")
