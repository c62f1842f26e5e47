"""What the commands share: options, what they mean, progress bars, output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.embedding.store import EmbeddingStore
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import TaskSpec
    from polarity_bench.progress import Progress
    from polarity_bench.types import Encoder


class WeightingChoice(StrEnum):
    """How the ranks are weighted."""

    linear = "linear"
    uniform = "uniform"


class DtypeChoice(StrEnum):
    """Precision of the encoder's weights."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf.",
    ),
]
TaskDir = Annotated[
    Path | None, typer.Option("--task-dir", help="Folder with task files of your own (TOML).")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder that holds data sets; or set POLARITY_BENCH_DATA."),
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", "-t", help="Tasks, separated by commas. See `tasks`.")
]
Suite = Annotated[
    str | None, typer.Option("--suite", "-s", help="demo, polarity, transfer, sts or full.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Use no network; also HF_HUB_OFFLINE=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]
Weight = Annotated[
    WeightingChoice, typer.Option("--weighting", help="Weights of the ranks in the main columns.")
]
Device = Annotated[
    str | None, typer.Option("--device", help="Torch device [default: the best there is].")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes that fit classifiers [default: one for each core]."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", help="Texts in a batch, at most [default: 512].")
]
BatchTokens = Annotated[
    int | None,
    typer.Option("--batch-tokens", help="Tokens in a batch [default: 2048; 32768 on a GPU]."),
]
Prompt = Annotated[
    str | None, typer.Option("--prompt", help="Text before every text, e.g. 'query: ' for E5.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Cut texts [default: the model's limit].")
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that the model brings.")
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Load weights that are no safetensors.")
]
TrainingTask = Annotated[
    str, typer.Option("--task", "-t", help="Polarity task whose sources to train on.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed, the same bytes.")]
RunOutput = Annotated[Path, typer.Option("--output", "-o", help="Folder of the run.")]
ReplaceRun = Annotated[bool, typer.Option("--overwrite", help="Replace another run in the folder.")]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep no embeddings on disk.")]


def data_access(data_dir: Path | None, offline: bool = False) -> DataAccess:
    """Say where data may come from."""
    from polarity_bench.data.sources import DataAccess

    access = DataAccess.from_environment(data_dir, offline)
    if access.offline:  # datasets and huggingface_hub read it when they are imported, after this
        os.environ["HF_HUB_OFFLINE"] = "1"
    return access


def tasks_of(names: str | None, suite: str | None, task_dir: Path | None) -> list[TaskSpec]:
    """Return the tasks asked for; all where nothing is."""
    from polarity_bench.kinds import choose_tasks, load_tasks

    known = load_tasks(task_dir)
    if names is None and suite is None:
        return list(known.values())
    return choose_tasks(known, names=split_names(names), suite=suite)


def load_and_announce(model: str, options: EncoderOptions) -> Encoder:
    """Load an encoder, and say so if pooling had to be added."""
    from polarity_bench.encoders import load_encoder

    encoder = load_encoder(model, options)
    if encoder.id.pooling_added:
        remark(f"{model} is a plain transformer: mean pooling over its tokens was added")
    return encoder


@contextmanager
def embedder_of(
    encoder: Encoder, no_store: bool, batch_tokens: int | None, batch_size: int | None
) -> Iterator[Embedder]:
    """Open the store, and choose the size of batches by the encoder's device."""
    from polarity_bench.embedding.embedder import (
        BATCH_SIZE,
        BATCH_TOKENS,
        GPU_BATCH_TOKENS,
        Embedder,
    )

    for option, value in (("--batch-size", batch_size), ("--batch-tokens", batch_tokens)):
        if value is not None and value < 1:
            raise InputError(f"{option} must be at least 1, got {value}")
    on_gpu = getattr(encoder, "device", "cpu") != "cpu"
    tokens = batch_tokens or (GPU_BATCH_TOKENS if on_gpu else BATCH_TOKENS)
    with open_store(no_store) as store:
        yield Embedder(store, tokens, batch_size or BATCH_SIZE)


def open_store(no_store: bool) -> AbstractContextManager[EmbeddingStore | None]:
    """Open the store of embeddings, or none."""
    from polarity_bench.embedding.store import EmbeddingStore

    return nullcontext() if no_store else EmbeddingStore()


def worker_count(workers: int | None) -> int:
    """Return how many processes may fit classifiers."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}")
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS
    return workers or (len(usable(0)) if usable else os.cpu_count() or 1)


def check_device(device: str | None) -> None:
    """Refuse a device that torch cannot use here."""
    if device is None:
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {device}: not usable here: {str(error).splitlines()[0]}"
        ) from error


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Progress]:
    """Show a progress bar on stderr, with the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda done: progress.advance(bar, done)


def split_names(names: str | None) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def numbers(option: str, text: str | None) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    try:
        return tuple(sorted({int(part) for part in split_names(text)}))
    except ValueError as error:
        raise InputError(
            f"{option} {text}: whole numbers separated by commas are wanted"
        ) from error


def remark(text: str) -> None:
    """Say something beside the results."""
    print(text, file=sys.stderr)


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
