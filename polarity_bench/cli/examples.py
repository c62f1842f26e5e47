"""`polarity-bench examples`: training examples of a task, as a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from polarity_bench.cli.inputs import check_at_least
from polarity_bench.cli.options import (
    AsJson,
    DataFlags,
    EncoderFlags,
    Model,
    Seed,
    StoreFlags,
    TrainingTask,
)
from polarity_bench.cli.output import print_json, progress_bar, remark
from polarity_bench.training.examples import ExampleKind
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import from_flat

_FAMILY = {ExampleSpec.name: ExampleSpec}


def examples(
    *,
    output: Annotated[Path, "Folder to write to.", "-o"],
    task: TrainingTask = "sst2",
    kind: Annotated[ExampleKind, "Kind of examples, as the loss takes them."] = "triplets",
    model: Model = "minilm",
    seed: Seed = 0,
    epoch: Annotated[int, "Epoch whose examples are drawn, from 0."] = 0,
    held_out: Annotated[
        int | None,
        "Training rows to hold out, as in train [default: 500; a tenth of small data].",
    ] = None,
    encoder_flags: Annotated[EncoderFlags, ("prompt", "device")],
    data: DataFlags,
    embedding: StoreFlags,
    as_json: AsJson = False,
    parameters: Annotated[dict[str, Any], _FAMILY],
) -> None:
    """Make pairs, labelled pairs or triplets from training rows, as parquet with a card."""
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
    encoder = load_model(model, encoder_flags.options(offline=access.offline), remark)
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
    remark(f"the examples are in {file}, with a card in the same folder")
