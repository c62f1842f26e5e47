"""`polarity-bench examples`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polarity_bench.cli.inputs import check_device, data_access_of, embedder_of, load_and_announce
from polarity_bench.cli.options import (
    AsJson,
    DataDir,
    Device,
    Model,
    NoStore,
    Offline,
    Prompt,
    Seed,
    TaskDir,
    TrainingTask,
    with_parameters,
)
from polarity_bench.cli.output import print_json, progress_bar, remark
from polarity_bench.errors import InputError
from polarity_bench.training.examples import ExampleKind
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import from_flat

_FAMILY = {ExampleSpec.name: ExampleSpec}


@with_parameters(_FAMILY)
def examples(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")],
    task: TrainingTask = "sst2",
    kind: Annotated[ExampleKind, typer.Option("--kind", help="What the loss eats.")] = "triplets",
    model: Model = "minilm",
    seed: Seed = 0,
    epoch: Annotated[int, typer.Option("--epoch", help="Which of a run's draws, from 0.")] = 0,
    held_out: Annotated[
        int | None,
        typer.Option(
            "--held-out",
            help="Training rows, in no example, as in train [default: 500, of small data a tenth].",
        ),
    ] = None,
    prompt: Prompt = None,
    device: Device = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    no_store: NoStore = False,
    offline: Offline = False,
    as_json: AsJson = False,
    *,
    parameters: dict[str, Any],
) -> None:
    """Make pairs, labelled pairs or triplets of a task's training rows, as parquet with a card."""
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.examples.source import (
        check_examples_folder,
        generate_examples,
        write_examples,
    )

    spec = from_flat(_FAMILY, ExampleSpec.name, parameters)
    for name, value in (("epoch", epoch), ("seed", seed), ("held_out", held_out or 0)):
        if value < 0:
            raise InputError(f"`{name}` must be at least 0, got {value}")
    check_examples_folder(output)
    access = data_access_of(data_dir, offline)
    check_device(device)
    options = EncoderOptions(prompt=prompt, device=device, offline=access.offline)
    encoder = load_and_announce(model, options)
    with embedder_of(encoder, no_store, None, None) as embedder:
        dataset = generate_examples(
            task,
            kind,
            encoder=encoder,
            spec=spec,
            seed=seed,
            epoch=epoch,
            held_out=held_out,
            access=access,
            task_dir=task_dir,
            embedder=embedder,
            bar=progress_bar,
        )
    file = write_examples(dataset, output)
    if as_json:
        print_json({"file": str(file), "examples": len(dataset), "columns": dataset.column_names})
        return
    print(dataset.info.description.partition("\n\n")[2].strip())
    remark(f"examples are in {file}, their card beside them")
