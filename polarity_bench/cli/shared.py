"""What the commands share: options, what they mean, progress, output."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.errors import InputError
from polarity_bench.types import Weighting, printable

if TYPE_CHECKING:
    from polarity_bench.boards.standings import Standings
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.embedding.store import EmbeddingStore
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import Task, TaskSpec
    from polarity_bench.progress import Progress
    from polarity_bench.types import Encoder

LINE_SECONDS = 30.0
"""How often a line tells of progress where stderr is no terminal."""

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf; "
        "several are evaluated one after the other [default: minilm].",
    ),
]
Strength = Annotated[
    str | None,
    typer.Option(
        "--strength",
        help="For an encoder with an axis: what queries weigh it by, e.g. -1,0,0.5,1; each is a "
        "row, from one encoding [default: as published].",
    ),
]
TaskDir = Annotated[
    Path | None,
    typer.Option("--task-dir", help="Folder with task files of your own (TOML), or one file."),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder that holds data sets; or set POLARITY_BENCH_DATA."),
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", "-t", help="Tasks, separated by commas. See `tasks`.")
]
Suite = Annotated[
    str | None, typer.Option("--suite", "-s", help="demo, polarity, unseen, transfer, sts or full.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Use no network; also HF_HUB_OFFLINE=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program, errors too.")]
Wide = Annotated[
    bool, typer.Option("--wide", help="Show whole tables, however narrow the terminal.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]
Weight = Annotated[
    Weighting, typer.Option("--weighting", help="Weights of the ranks in the main columns.")
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
PromptName = Annotated[
    str | None, typer.Option("--prompt-name", help="Name of a prompt that the model declares.")
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
    str, typer.Option("--task", "-t", help="Polarity task to train on and be judged by.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed, the same bytes.")]
ReplaceRun = Annotated[bool, typer.Option("--overwrite", help="Replace another run in the folder.")]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep no embeddings on disk.")]


def in_flags(message: str) -> str:
    """Name the options of the command that runs by their flags, where a message names fields."""
    from polarity_bench.cli import app

    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    command = getattr(command, "commands", {}).get(getattr(command, "usual", None), command)
    flags = {parameter.name: parameter.opts[0] for parameter in command.params}
    return re.sub(r"`(\w+)`", lambda named: flags.get(named[1], named[0]), message)


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
    chosen = split_names(names)
    if names is not None and not chosen:
        raise InputError(f"`tasks` {names!r}: names no task")
    return choose_tasks(known, names=chosen, suite=suite)


def tell_draws(tasks: Iterable[Task]) -> None:
    """Say of which tasks only a draw of the sources takes part."""
    for task in tasks:
        if n_pool := task.counts.get("drawn from"):
            drawn = f"{task.counts['sources']:,} of its {n_pool:,} sources drawn"
            remark(f"{task.spec.name}: {drawn} (sources_per_query in its file)")


def tell_unknown_ranks(folder: Path, standings: Standings | None) -> None:
    """Name the first file of values per query without which a board's ranks are unknown."""
    if standings is not None and standings.unknown:
        missing = list(dict.fromkeys(standings.unknown))
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        remark(f"{folder}: some ranks are unknown: {missing[0]}{more}")


def load_and_announce(model: str, options: EncoderOptions) -> Encoder:
    """Load an encoder, and say so if pooling had to be added."""
    from polarity_bench.encoders import load_encoder

    encoder = load_encoder(model, options)
    if encoder.id.pooling_added:
        remark(f"{model} is a plain transformer: mean pooling over its tokens was added")
    return encoder


def strengths(text: str | None) -> list[float]:
    """Return the strengths that an option lists; none where it isn't given."""
    found: list[float] = []
    for part in text.split(",") if text is not None else ():
        try:
            value = float(part)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"`strength` {text}: {part!r} is no number; say e.g. -1,0,0.5,1")
        if value in found:
            raise InputError(f"`strength` {text}: {part} stands there twice")
        found.append(value + 0.0)  # -0 is 0
    return found


def remembering(embedder: Embedder, tasks: Sequence[Task]) -> Embedder:
    """Return an embedder that keeps what it encodes, if only in memory."""
    from dataclasses import replace

    from polarity_bench.embedding.memory import MemoryStore

    if embedder.store is not None:
        return embedder
    texts = dict.fromkeys(text for task in tasks for text in task.texts)
    return replace(embedder, store=MemoryStore(list(texts)))


@contextmanager
def embedder_of(
    encoder: Encoder, no_store: bool, batch_tokens: int | None, batch_size: int | None
) -> Iterator[Embedder]:
    """Open the store, and choose the size of batches by the encoder's device."""
    from dataclasses import replace

    from polarity_bench.embedding.embedder import Embedder

    sizes: dict[str, Any] = {"batch_tokens": batch_tokens, "batch_size": batch_size}
    with open_store(no_store) as store:
        usual = Embedder.on(getattr(encoder, "device", None), store)
        yield replace(usual, **{name: n for name, n in sizes.items() if n is not None})


def open_store(no_store: bool) -> AbstractContextManager[EmbeddingStore | None]:
    """Open the store of embeddings, or none."""
    from polarity_bench.embedding.store import EmbeddingStore

    return nullcontext() if no_store else EmbeddingStore()


def worker_count(workers: int | None) -> int:
    """Return how many processes may fit classifiers: those asked for, or one for each core."""
    if workers is not None:
        return workers
    from polarity_bench.training.processes import usable_cores

    return usable_cores()


def check_device(device: str | None) -> None:
    """Refuse a device that torch cannot use here."""
    if device is None:
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"`device` {device}: not usable here: {str(error).splitlines()[0]}"
        ) from error


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Progress]:
    """Show progress on stderr: a bar with the time left, or a line now and then in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    if not console.is_terminal:
        with _progress_lines(title, total) as advance:
            yield advance
        return
    title = printable(title)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda done: progress.advance(bar, done)


def announced_bar(title: str, total: int) -> AbstractContextManager[Progress]:
    """As `progress_bar`, for what may take hours: in a log, its title is said at once."""
    if not sys.stderr.isatty():
        remark(f"{title}: {total:,} in all")
    return progress_bar(title, total)


@contextmanager
def _progress_lines(title: str, total: int) -> Iterator[Progress]:
    """Print a line every half minute, from a thread: one step may take longer than that."""
    calls: list[tuple[float, int]] = []  # the first may tell of what had been done before
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LINE_SECONDS):
            n_done, n_new = sum(done for _, done in calls), sum(done for _, done in calls[1:])
            rate = n_new / (time.monotonic() - calls[0][0]) if n_new else 0.0
            seconds = (total - n_done) / rate if rate else 0.0
            left = duration(seconds)
            speed = f"{1 / rate:,.1f} seconds each" if 0 < rate < 1 else f"{rate:,.1f} a second"
            pace = f", {speed}, {left} left" if rate else ""
            remark(f"{title}: {n_done:,} of {total:,}{pace}")

    def advance(done: int) -> None:
        calls.append((time.monotonic(), done))

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield advance
    finally:
        ended.set()
        teller.join()


def split_names(names: str | None) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def numbers(field: str, text: str | None) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    try:
        return tuple(int(part) for part in split_names(text))
    except ValueError as error:
        raise InputError(
            f"`{field}` {text}: whole numbers separated by commas are wanted"
        ) from error


def decimals(field: str, text: str) -> tuple[float, ...]:
    """Read numbers separated by commas."""
    try:
        return tuple(float(part) for part in split_names(text))
    except ValueError as error:
        raise InputError(f"`{field}` {text}: numbers separated by commas are wanted") from error


def duration(seconds: float) -> str:
    """Say how long something takes, in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def remark(text: str) -> None:
    """Say something beside the results; control characters, as names may hold, are escaped."""
    print(printable(text), file=sys.stderr, flush=True)


@contextmanager
def warnings_as_remarks(category: type[Warning]) -> Iterator[None]:
    """Say warnings of a category as remarks, each once."""
    show = warnings.showwarning

    def say(message: Warning | str, kind: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(kind, category):
            remark(in_flags(f"warning: {message}"))
        else:
            show(message, kind, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("default", category)
        warnings.showwarning = say  # type: ignore[assignment]  # it passes all else on
        yield


def width(wide: bool) -> int | None:
    """Return how wide tables may be: as the terminal; None, as they are, where there is none."""
    return None if wide or not sys.stdout.isatty() else shutil.get_terminal_size().columns


def print_tables(text: str) -> None:
    """Print tables, which name options as errors do."""
    print(in_flags(text) if sys.stdout.isatty() else text, flush=True)


def json_text(value: Any) -> str:
    """Write JSON, for a program or a person."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    print(json_text(value), end="")
