"""What the tests of training share: a tiny encoder, a small recipe, and how to run it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from standins import QUERIES, SOURCES, Done

from polarity_bench.encoders import EncoderOptions
from polarity_bench.training.job import Job
from polarity_bench.training.recipe import Recipe
from polarity_bench.training.recipes.margins import Margins
from polarity_bench.training.run import TrainingRun, train

Bench = Callable[..., Done]
"""Runs a command line in this process, with the task `mini`."""

SMALL = Margins(
    examples=32,
    threshold=-1.0,
    neighbours=4,
    epochs=2,
    batch_size=8,
    rate=1e-3,
    held_out=6,
    patience=0,
)
OFFLINE = EncoderOptions(offline=True)


def job_of(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> Job:
    given: dict[str, Any] = {"options": OFFLINE, "task_dir": tasks} | more
    return Job(recipe, str(model), "mini", output, **given)


def run(model: Path, tasks: Path, output: Path, recipe: Recipe = SMALL, **more: Any) -> TrainingRun:
    overwrite = more.pop("overwrite", False)
    return train(job_of(model, tasks, output, recipe, **more), overwrite=overwrite)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return set(first) == set(second) and all(torch.equal(first[k], second[k]) for k in first)


def save_tiny_bert(folder: Path) -> Path:
    """A BERT of two layers with random weights and dropout, over the words of the task `mini`."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast  # type: ignore[attr-defined]

    texts = [text for text, _ in [*SOURCES, *QUERIES]]
    words = sorted({word.strip(".,").lower() for text in texts for word in text.split()} | {".,"})
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words) + 5,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    plain = folder / "plain"
    BertModel(config).save_pretrained(plain)
    BertTokenizerFast(str(vocabulary)).save_pretrained(plain)
    transformer = Transformer(str(plain), max_seq_length=16)
    encoder = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    encoder.save_pretrained(str(folder / "tiny"))
    return folder / "tiny"
