"""`polarity-bench examples`, and the options of a recipe, which `train` has too."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError


class RecipeChoice(StrEnum):
    """How neighbours are found."""

    as_written = "as-written"
    as_released = "as-released"


class KindChoice(StrEnum):
    """What examples are."""

    pairs = "pairs"
    labelled_pairs = "labelled-pairs"
    triplets = "triplets"


Recipe = Annotated[
    RecipeChoice,
    typer.Option("--recipe", help="Neighbours as the paper writes or as its code does."),
]
Neighbours = Annotated[
    int, typer.Option("--neighbours", help="Neighbours of each text, k in the papers.")
]
Threshold = Annotated[
    float, typer.Option("--threshold", help="Least cosine of a neighbour, as-written.")
]
Dropout = Annotated[
    float | None, typer.Option("--dropout", help="Share of candidates left out, for --examples.")
]
HeldOut = Annotated[
    int | None,
    typer.Option(
        "--held-out",
        help="Training rows, in no example, that choose the checkpoint [default: 500, of small "
        "data a tenth]; 0: the task's own queries choose it.",
    ),
]


def examples(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")],
    task: shared.TrainingTask = "sst2",
    kind: Annotated[
        KindChoice, typer.Option("--kind", help="What the loss eats.")
    ] = KindChoice.triplets,
    model: shared.Model = "minilm",
    count: Annotated[
        int | None, typer.Option("--examples", "-n", help="How many [default: 50000].")
    ] = None,
    recipe: Recipe = RecipeChoice.as_written,
    neighbours: Neighbours = 16,
    threshold: Threshold = 0.5,
    dropout: Dropout = None,
    seed: shared.Seed = 0,
    epoch: Annotated[int, typer.Option("--epoch", help="Which of a run's draws, from 0.")] = 0,
    held_out: HeldOut = None,
    prompt: shared.Prompt = None,
    device: shared.Device = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    no_store: shared.NoStore = False,
    offline: shared.Offline = False,
    as_json: shared.AsJson = False,
) -> None:
    """Make pairs, labelled pairs or triplets of a task's training rows, as parquet with a card."""
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.training.generate import (
        check_examples_folder,
        generate_examples,
        write_examples,
    )
    from polarity_bench.training.spec import ExampleSpec

    spec = ExampleSpec(recipe.value, neighbours, threshold, count, dropout)
    for option, value in (("--epoch", epoch), ("--seed", seed), ("--held-out", held_out or 0)):
        if value < 0:
            raise InputError(f"{option} must be at least 0, got {value}")
    check_examples_folder(output)
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)
    options = EncoderOptions(prompt=prompt, device=device, offline=access.offline)
    encoder = shared.load_and_announce(model, options)
    with shared.embedder_of(encoder, no_store, None, None) as embedder:
        dataset = generate_examples(
            task,
            kind.value,
            encoder=encoder,
            spec=spec,
            seed=seed,
            epoch=epoch,
            held_out=held_out,
            access=access,
            task_dir=task_dir,
            embedder=embedder,
            bar=shared.progress_bar,
        )
    file = write_examples(dataset, output)
    if as_json:
        shared.print_json(
            {"file": str(file), "examples": len(dataset), "columns": dataset.column_names}
        )
        return
    print(dataset.info.description.partition("\n\n")[2].strip())
    shared.remark(f"examples are in {file}, their card beside them")
