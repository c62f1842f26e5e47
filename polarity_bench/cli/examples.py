"""`polarity-bench examples`: training examples of a task, as a parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from polarity_bench.cli.options import DataFlags, Model, StoreFlags, usable_options
from polarity_bench.cli.output import AsJson, print_json, progress_bar, remark
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import check_at_least
from polarity_bench.training.examples import ExampleKind
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import from_flat

_FAMILY = {ExampleSpec.name: ExampleSpec}


def examples(
    *,
    output: Annotated[Path, "Folder to write the examples to.", "-o"],
    task: Annotated[str, "Polarity task that provides the training rows.", "-t"] = "sst2",
    kind: Annotated[ExampleKind, "Kind of examples; it must fit the loss."] = "triplets",
    model: Model = "minilm",
    seed: Annotated[int, "Random seed; the same seed gives byte-identical output."] = 0,
    epoch: Annotated[int, "Number of the epoch, from 0; each epoch draws other examples."] = 0,
    held_out: Annotated[
        int | None,
        "Training rows to hold out, as in `train` [default: 500, or a tenth of a small data set].",
    ] = None,
    encoder_flags: Annotated[EncoderOptions, ("prompt", "device")],
    data: DataFlags,
    embedding: StoreFlags,
    as_json: AsJson = False,
    parameters: Annotated[dict[str, Any], _FAMILY],
) -> None:
    """Write training examples of a task to a file.

    The examples are pairs, labelled pairs or triplets of training texts that are neighbours under
    an encoder. The folder gets a parquet file, and a card that describes the examples.
    """
    from polarity_bench.evaluation.many_encoders import load_model
    from polarity_bench.training.examples.source import (
        check_examples_folder,
        generate_examples,
        write_examples,
    )

    spec = from_flat(_FAMILY, ExampleSpec.name, parameters)
    check_at_least(0, epoch=epoch, seed=seed, held_out=held_out)
    check_examples_folder(output)
    access = data.access()
    encoder = load_model(model, usable_options(encoder_flags, offline=access.offline), remark)
    with embedding.embedder(encoder) as embedder:
        dataset = generate_examples(
            task,
            kind,
            encoder=encoder,
            spec=spec,
            seed=seed,
            epoch=epoch,
            held_out=held_out,
            access=access,
            task_dir=data.task_dir,
            embedder=embedder,
            bar=progress_bar,
        )
    file = write_examples(dataset, output)
    if as_json:
        print_json({"file": str(file), "examples": len(dataset), "columns": dataset.column_names})
        return
    print(dataset.info.description.partition("\n\n")[2].strip())
    remark(f"wrote the examples to {file}, and a card to the same folder")
