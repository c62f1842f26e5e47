"""Training side by side: our trainer, and sentence-transformers' own, on the same triplets.

    python benchmarks/training.py [--model minilm] [--task contrast | --examples-from FOLDER]
                                  [--examples 512]

Texts a second in training alone, evaluation and saving apart; each trainer begins with the same
weights. What differs: the plain trainer pads each column of a batch to its longest text, ours sorts
all texts of a batch by length and pads chunks of them, with the same loss; both can compute in
bfloat16, which pays where the processor has it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric, TripletLoss
from tabulate import tabulate
from transformers import PrinterCallback

from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    load_encoder,
)
from polarity_bench.training.examples.source import generate_examples, read_examples
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.recipes.margins.length_sorted import LengthSortedLoss
from polarity_bench.training.recipes.margins.settings import TrainDtype


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--task", default="contrast")
    parser.add_argument("--examples", type=int, default=512)
    parser.add_argument("--examples-from", type=Path)
    options = parser.parse_args()
    if options.examples_from is not None:
        given = Dataset.from_dict(read_examples(options.examples_from, "triplets"))
        examples, what = given.select(range(options.examples)), options.examples_from.name
    else:
        spec = ExampleSpec(examples=options.examples)
        examples = generate_examples(options.task, encoder=options.model, spec=spec)
        what = options.task
    rows = []
    for sort, batch_size, dtype in [
        (False, 8, "float32"),  # the plain trainer's defaults
        (False, 64, "float32"),
        (False, 64, "bfloat16"),
        (True, 64, "float32"),
        (True, 64, "bfloat16"),
    ]:
        name = "polarity-bench" if sort else "SentenceTransformerTrainer"
        seconds = measure(options.model, examples, sort, batch_size, dtype)  # type: ignore[arg-type]
        rows.append([name, batch_size, dtype, 3 * len(examples) / seconds])
    print(f"{options.model}, {len(examples):,} triplets of {what}, ", end="")
    print(f"{torch.get_num_threads()} threads, {_processor()}\n")
    print(tabulate(rows, ["", "batch", "dtype", "texts/s"], "pipe", floatfmt=".1f"))


def measure(
    model: str,
    examples: Any,
    sort: bool,
    batch_size: int,
    dtype: TrainDtype,
    device: str | None = None,
) -> float:
    """Return the seconds of one epoch, after a warm-up of two batches."""
    encoder = load_encoder(model, EncoderOptions(device=device))
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise SystemExit(f"{model} is no sentence-transformers model")
    loss: Any = TripletLoss(encoder.model, TripletDistanceMetric.COSINE, triplet_margin=0.1)
    if sort:
        loss = LengthSortedLoss(loss, on_gpu=encoder.device != "cpu", bfloat16=dtype == "bfloat16")
    columns = {name: examples[name] for name in ("anchor", "positive", "negative")}
    dataset = Dataset.from_dict({name: list(values) for name, values in columns.items()})
    for part in (dataset.select(range(2 * batch_size)), dataset):
        with tempfile.TemporaryDirectory() as folder:
            trainer = SentenceTransformerTrainer(
                encoder.model,
                SentenceTransformerTrainingArguments(
                    output_dir=str(Path(folder)),
                    num_train_epochs=1,
                    per_device_train_batch_size=batch_size,
                    bf16=dtype == "bfloat16",
                    use_cpu=encoder.device == "cpu",
                    save_strategy="no",
                    logging_strategy="no",
                    report_to="none",
                    disable_tqdm=True,
                    dataloader_pin_memory=False,
                ),
                train_dataset=part,
                loss=loss,
            )
            trainer.remove_callback(PrinterCallback)
            begun = time.perf_counter()
            trainer.train()
            seconds = time.perf_counter() - begun
    return seconds


def _processor() -> str:
    has_bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - torch has no other
    return "bfloat16 in hardware" if has_bf16 else "no bfloat16 in hardware"


if __name__ == "__main__":
    main()
