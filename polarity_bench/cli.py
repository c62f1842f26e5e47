"""The command line. Results go to stdout, progress and remarks to stderr.

Exit codes: 0 all is well; 1 a task failed while others went on; 2 the input cannot be used.
Everything heavy is imported inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench import __version__
from polarity_bench.types import InputError

if TYPE_CHECKING:
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.results import Result
    from polarity_bench.run import RunReport
    from polarity_bench.spec import TaskSpec
    from polarity_bench.types import Progress

app = typer.Typer(
    name="polarity-bench",
    help="Can a sentence encoder tell polarity without forgetting meaning?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
tasks_app = typer.Typer(help="List the tasks, or show one.", invoke_without_command=True)
data_app = typer.Typer(help="See where the data of the tasks is, or download it.")
app.add_typer(tasks_app, name="tasks")
app.add_typer(data_app, name="data")


class WeightingChoice(StrEnum):
    """How the ranks are weighted."""

    linear = "linear"
    uniform = "uniform"


class DtypeChoice(StrEnum):
    """Precision of the encoder's weights."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


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
Suite = Annotated[str | None, typer.Option("--suite", "-s", help="Suite: demo or polarity.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use no network; also HF_HUB_OFFLINE=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]
Weight = Annotated[
    WeightingChoice, typer.Option("--weighting", help="Weights of the ranks in the main columns.")
]


def main() -> None:
    """Run the command line; bad input ends with one message and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def run(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Encoder: hub name, folder, `minilm`, or a baseline (random, constant, tfidf).",
        ),
    ] = "minilm",
    tasks: Tasks = None,
    suite: Suite = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="Encoder that S is measured with [default: the model]."),
    ] = None,
    k: Annotated[
        str | None, typer.Option("--k", help="How many to retrieve, e.g. 4,16,64 [default: 16].")
    ] = None,
    weighting: Weight = WeightingChoice.linear,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Text before every text, e.g. 'query: ' for E5.")
    ] = None,
    prompt_name: Annotated[
        str | None, typer.Option("--prompt-name", help="Name of a prompt that the model declares.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Torch device [default: the best there is].")
    ] = None,
    dtype: Annotated[
        DtypeChoice, typer.Option("--dtype", help="Precision of the weights.")
    ] = DtypeChoice.float32,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Texts in a batch, at most [default: 512].")
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option("--batch-tokens", help="Tokens in a batch [default: 2048; 32768 on a GPU]."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Cut texts [default: the model's limit].")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")
    ] = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    output: Output = Path("results"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Evaluate again what is there and current.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only so many queries, for a quick look.")
    ] = None,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Keep no embeddings on disk.")
    ] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that the model brings.")
    ] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Load weights that are no safetensors.")
    ] = False,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate an encoder and print a table. Without options: the demo suite with MiniLM."""
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.registry import choose_tasks, load_tasks
    from polarity_bench.run import RunOptions
    from polarity_bench.run import run as run_tasks

    names = _split(tasks)
    chosen = choose_tasks(
        load_tasks(task_dir), names=names, suite=suite if suite or names else "demo"
    )
    options = RunOptions(output, _numbers("--k", k), limit, overwrite)
    access = DataAccess.from_environment(data_dir, offline)
    _check_device(device)

    from polarity_bench.encoders import EncoderOptions, load_encoder

    shared = EncoderOptions(
        device=device,
        dtype=dtype.value,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    encoder = load_encoder(model, _with(shared, revision, prompt, prompt_name, max_tokens))
    if encoder.id.pooling_added:
        _remark(f"{model} is a plain transformer: mean pooling over its tokens was added")
    with _embedding(encoder, no_store, batch_tokens, batch_size) as embedding:
        report = run_tasks(
            encoder,
            chosen,
            access,
            options,
            reference=load_encoder(reference, shared) if reference else None,
            embedding=embedding,
            bar=_bar,
        )
    _print_report(report, weighting.value, as_json)
    _suggest(report, output, as_json)
    raise typer.Exit(report.exit_code)


@tasks_app.callback()
def list_tasks(
    context: typer.Context,
    suite: Suite = None,
    match: Annotated[
        str | None, typer.Option("--filter", "-f", help="Only tasks whose name holds this.")
    ] = None,
    task_dir: TaskDir = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks."""
    if context.invoked_subcommand:
        return
    from polarity_bench.leaderboard.markdown import table
    from polarity_bench.registry import choose_tasks, load_tasks

    known = load_tasks(task_dir)
    chosen = choose_tasks(known, suite=suite) if suite else list(known.values())
    chosen = [spec for spec in chosen if match is None or match.lower() in spec.name]
    if as_json:
        _print_json([_describe(spec) for spec in chosen])
        return
    heads: list[tuple[str, list[str]]] = [
        ("task", [spec.name for spec in chosen]),
        ("kind", [spec.kind for spec in chosen]),
        ("labels", [", ".join(spec.labels.values()) for spec in chosen]),
        ("in mteb", [spec.result_name for spec in chosen]),
        ("title", [spec.title for spec in chosen]),
    ]
    print(table(heads, []))


@tasks_app.command("show")
def show_task(
    name: Annotated[str, typer.Argument(help="Name of the task.")],
    task_dir: TaskDir = None,
    as_json: AsJson = False,
) -> None:
    """Show all that a task declares."""
    from polarity_bench.registry import choose_tasks, load_tasks

    (spec,) = choose_tasks(load_tasks(task_dir), names=[name])
    if as_json:
        _print_json(_describe(spec) | {"spec": spec.model_dump(mode="json")})
        return
    print(f"# {spec.file}\n# digest {spec.digest}, in mteb: {spec.result_name}\n")
    print(spec.file.read_text(encoding="utf-8"), end="")


@data_app.command("status")
def data_status(
    tasks: Tasks = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    as_json: AsJson = False,
) -> None:
    """Say for every file where it is, or where it would come from."""
    from polarity_bench.data.sources import DataAccess, file_status
    from polarity_bench.leaderboard.markdown import table

    access = DataAccess.from_environment(data_dir)
    rows = [row for spec in _tasks(tasks, suite, task_dir) for row in file_status(spec, access)]
    if as_json:
        _print_json(rows)
        return
    titles = ("task", "file", "status", "place")
    print(table([(title, [str(row[title]) for row in rows]) for title in titles], []))


@data_app.command("fetch")
def data_fetch(
    tasks: Tasks = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    offline: Offline = False,
) -> None:
    """Bring the data of tasks to this machine, and check every count."""
    from polarity_bench.data.load import load_polarity
    from polarity_bench.data.sources import DataAccess

    access = DataAccess.from_environment(data_dir, offline)
    chosen = _tasks(tasks, suite, task_dir)
    failures = []
    with _bar("fetching", len(chosen)) as advance:
        for spec in chosen:
            try:
                data = load_polarity(spec, access)
            except InputError as error:
                failures.append(str(error))
            else:
                print(f"{spec.name}: {len(data.source):,} sources, {len(data.query):,} queries")
            advance(1)
    if failures:
        raise InputError("\nerror: ".join(failures))


@app.command()
def leaderboard(
    results: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    weighting: Weight = WeightingChoice.linear,
    title: Annotated[str, typer.Option("--title", help="Heading.")] = "Polarity leaderboard",
) -> None:
    """Render stored results as a markdown leaderboard."""
    from polarity_bench.leaderboard.markdown import escape
    from polarity_bench.leaderboard.tables import board
    from polarity_bench.results import read_results, write_atomically

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    found = [result for _, result in read_results(results)]
    if not found:
        raise InputError(f"the folder {results} holds no results; `polarity-bench run` first")
    text = f"# {escape(title)}\n\n{board(found, weighting.value)}"
    if output is None:
        print(text, end="")
        return
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: the folder {output.parent} does not exist")
    write_atomically(output, text.encode())
    _remark(f"wrote {output}")


@contextmanager
def _embedding(
    encoder: Any, no_store: bool, batch_tokens: int | None, batch_size: int | None
) -> Iterator[Any]:
    from polarity_bench.embed import BATCH_SIZE, BATCH_TOKENS, GPU_BATCH_TOKENS
    from polarity_bench.evaluate import Embedding
    from polarity_bench.store import EmbeddingStore

    on_gpu = getattr(encoder, "device", "cpu") != "cpu"
    tokens = batch_tokens or (GPU_BATCH_TOKENS if on_gpu else BATCH_TOKENS)
    for option, value in (("--batch-size", batch_size), ("--batch-tokens", batch_tokens)):
        if value is not None and value < 1:
            raise InputError(f"{option} must be at least 1, got {value}")
    if no_store:
        yield Embedding(None, tokens, batch_size or BATCH_SIZE)
        return
    with EmbeddingStore() as store:
        yield Embedding(store, tokens, batch_size or BATCH_SIZE)


@contextmanager
def _bar(title: str, total: int) -> Iterator[Progress]:
    """A progress bar on stderr, with the time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as RichProgress,
    )

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


def _print_report(report: RunReport, weighting: Any, as_json: bool) -> None:
    from polarity_bench.leaderboard.tables import detail_table, run_table

    results = [result for result, _ in report.results]
    if as_json:
        _print_json(
            {
                "unit": "percent",
                "results": [
                    _result_json(result, path, result.task in report.reused)
                    for result, path in report.results
                ],
                "failures": report.failures,
            }
        )
    elif results:
        encoder = results[0].key.encoder
        reference = results[0].key.reference
        print(f"{encoder.label}, reference: {reference.label if reference else 'itself'}\n")
        print(run_table(results, weighting))
        for detail in filter(None, (detail_table(result, weighting) for result in results)):
            print(f"\n{detail}")
    for task, message in report.failures.items():
        print(f"error: {task} failed: {message}", file=sys.stderr)


def _suggest(report: RunReport, output: Path, as_json: bool) -> None:
    if report.reused:
        names = ", ".join(report.reused)
        _remark(f"already there and current, not made again (--overwrite would): {names}")
    for label, usage in report.usage.items():
        _remark(
            f"{label}: {usage.n_texts:,} texts asked for, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )
    if report.results and not as_json:
        _remark(f"results are in {output}; next: polarity-bench leaderboard {output}")


def _result_json(result: Result, path: Path, reused: bool) -> dict[str, Any]:
    return {
        "task": result.task,
        "mteb_name": result.result_name,
        "encoder": result.key.encoder.name,
        "encoder_digest": result.key.encoder.digest,
        "reference": result.key.reference.name if result.key.reference else None,
        "run": result.key.digest,
        "file": str(path),
        "reused": reused,
        "main_score": result.main_score,
        "counts": dict(result.counts),
        "seconds": dict(result.seconds),
        "scores": {name: _shown(name, value) for name, value in sorted(result.scores.items())},
    }


def _shown(name: str, value: float) -> float | None:
    if name.endswith("_n_undefined"):
        return value
    return None if math.isnan(value) else round(100 * value, 6)


def _describe(spec: TaskSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "title": spec.title,
        "mteb_name": spec.result_name,
        "labels": list(spec.labels.values()),
        "version": spec.version,
        "digest": spec.digest,
        "file": str(spec.file),
    }


def _tasks(names: str | None, suite: str | None, task_dir: Path | None) -> list[TaskSpec]:
    from polarity_bench.registry import choose_tasks, load_tasks

    known = load_tasks(task_dir)
    if names is None and suite is None:
        return list(known.values())
    return choose_tasks(known, names=_split(names), suite=suite)


def _with(
    shared: EncoderOptions,
    revision: str | None,
    prompt: str | None,
    prompt_name: str | None,
    max_tokens: int | None,
) -> EncoderOptions:
    from dataclasses import replace

    return replace(
        shared, revision=revision, prompt=prompt, prompt_name=prompt_name, max_tokens=max_tokens
    )


def _check_device(device: str | None) -> None:
    if device is None:
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {device}: not usable here: {str(error).splitlines()[0]}"
        ) from error


def _split(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in _split(text)}))
    except ValueError as error:
        raise InputError(
            f"{option} {text}: whole numbers separated by commas are wanted"
        ) from error


def _remark(text: str) -> None:
    print(text, file=sys.stderr)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
