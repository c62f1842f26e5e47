"""`polarity-bench run` and `leaderboard`: evaluate an encoder; lay stored results side by side."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError
from polarity_bench.types import Dtype, SentEvalProtocol, TorchPreset, Weighting

if TYPE_CHECKING:
    from polarity_bench.suite import SuiteReport
    from polarity_bench.types import Encoder


def run(
    model: shared.Model = "minilm",
    tasks: shared.Tasks = None,
    suite: shared.Suite = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="Encoder that S is measured with [default: the model, or what it was trained on].",
        ),
    ] = None,
    ks: Annotated[
        str | None, typer.Option("--k", help="How many to retrieve, e.g. 4,16,64 [default: 16].")
    ] = None,
    weighting: shared.Weight = "linear",
    protocol: Annotated[
        SentEvalProtocol | None,
        typer.Option("--protocol", help="Transfer protocol [default: senteval-sklearn]."),
    ] = None,
    preset: Annotated[
        TorchPreset | None,
        typer.Option("--preset", help="senteval-torch as in [default: literature]."),
    ] = None,
    kfold: Annotated[
        int | None, typer.Option("--kfold", help="Folds of the transfer protocol.")
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            "--classifier",
            help="senteval-torch's: optim=adam,batch_size=64,tenacity=5,epoch_size=4,nhid=0,...",
        ),
    ] = None,
    prompt: shared.Prompt = None,
    prompt_name: Annotated[
        str | None, typer.Option("--prompt-name", help="Name of a prompt that the model declares.")
    ] = None,
    device: shared.Device = None,
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Precision of the weights.")] = "float32",
    batch_size: shared.BatchSize = None,
    batch_tokens: shared.BatchTokens = None,
    max_tokens: shared.MaxTokens = None,
    revision: shared.Revision = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    output: shared.Output = Path("results"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Evaluate again what is there and current.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only so many queries, for a quick look.")
    ] = None,
    folds_out: Annotated[
        Path | None, typer.Option("--folds-out", help="Write scores by fold to this CSV file.")
    ] = None,
    workers: shared.Workers = None,
    no_store: shared.NoStore = False,
    trust_remote_code: shared.TrustRemoteCode = False,
    allow_pickle: shared.AllowPickle = False,
    offline: shared.Offline = False,
    as_json: shared.AsJson = False,
) -> None:
    """Evaluate an encoder and print a table. Without options: the demo suite with MiniLM."""
    from dataclasses import replace

    from polarity_bench.files import check_writable
    from polarity_bench.kinds.senteval.presets import choose_preset
    from polarity_bench.kinds.task import Settings
    from polarity_bench.suite import Contest, run_suite

    chosen = shared.tasks_of(tasks, suite if suite or tasks is not None else "demo", task_dir)
    settings = Settings(
        ks=shared.numbers("ks", ks),
        limit=limit,
        transfer=choose_preset(protocol, preset, kfold, classifier, device),
        workers=shared.worker_count(workers),
    )
    if folds_out is not None:
        if folds_out.is_dir():
            raise InputError(f"`folds_out` {folds_out}: a file is wanted, this is a folder")
        check_writable(folds_out.parent, "folds_out")
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)

    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.training.folder import load_reference

    common = EncoderOptions(
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    own = replace(
        common, revision=revision, prompt=prompt, prompt_name=prompt_name, max_tokens=max_tokens
    )
    encoder = shared.load_and_announce(model, own)
    if reference is not None:
        other: Encoder | None = shared.load_and_announce(reference, common)
    elif other := load_reference(model, common):
        shared.remark(f"reference: {other.id.label}, the base of {model}")
    if reference is not None and other and encoder.id.prompt and not other.id.prompt:
        shared.remark(f"{reference} encodes without a prompt, {model} with {encoder.id.prompt!r}")
    loaded = [spec.load(access, settings) for spec in chosen]
    with shared.embedder_of(encoder, no_store, batch_tokens, batch_size) as embedder:
        contest = Contest(encoder, other, embedder, settings.workers, shared.progress_bar)
        report = run_suite(contest, loaded, output, overwrite=overwrite)
    _print_report(report, weighting, as_json)
    if folds_out is not None:
        from polarity_bench.boards.report import folds_csv
        from polarity_bench.files import write_atomically

        write_atomically(folds_out, folds_csv(report.results).encode())
    _remark_on(report, output, as_json)
    raise typer.Exit(report.exit_code)


def _print_report(report: SuiteReport, weighting: Weighting, as_json: bool) -> None:
    from polarity_bench.boards.markdown import section
    from polarity_bench.boards.report import as_json as laid_out
    from polarity_bench.boards.report import tables

    results = [result for result, _ in report.results]
    if as_json:
        rows = [
            laid_out(result) | {"file": str(path), "reused": result.task in report.reused}
            for result, path in report.results
        ]
        shared.print_json({"unit": "fraction", "results": rows, "failures": report.failures})
    elif results:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        print(f"{results[0].key.encoder.label}, reference: {name}\n")
        print("\n\n".join(map(section, tables(results, weighting))))
    for task, message in report.failures.items():
        shared.remark(shared.in_flags(f"error: {task} failed: {message}"))


def _remark_on(report: SuiteReport, output: Path, as_json: bool) -> None:
    if report.reused:
        names = ", ".join(report.reused)
        shared.remark(f"already there and current, not made again (--overwrite would): {names}")
    for label, usage in report.usage.items():
        shared.remark(
            f"{label}: {usage.n_texts:,} texts asked for, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )
    if report.results and not as_json:
        shared.remark(
            f"results are in {output}; next: polarity-bench leaderboard {shlex.quote(str(output))}"
        )


def leaderboard(
    results: Annotated[Path, typer.Argument(help="Folder of results, or of a board.")] = Path(
        "results"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    weighting: shared.Weight = "linear",
    title: Annotated[str | None, typer.Option("--title", help="Heading.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Render stored results as a markdown leaderboard."""
    from polarity_bench.boards.board import read_board
    from polarity_bench.boards.markdown import render
    from polarity_bench.boards.report import board_as_json
    from polarity_bench.files import write_atomically

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    board = read_board(results, weighting, title=title)
    text = shared.json_text(board_as_json(board)) if as_json else render(board)
    if output is None:
        print(text, end="")
        return
    if not output.parent.is_dir():
        raise InputError(f"`output` {output}: the folder {output.parent} does not exist")
    write_atomically(output, text.encode())
    shared.remark(f"wrote {output}")
