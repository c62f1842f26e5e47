"""`polarity-bench run` and `leaderboard`: evaluate an encoder; lay stored results side by side."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError, MissingDataError
from polarity_bench.types import Dtype, SentEvalProtocol, TorchPreset, Weighting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import Settings, Task, TaskSpec
    from polarity_bench.suite import SuiteReport
    from polarity_bench.types import Encoder


def run(
    model: shared.Models = None,
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
        int | None,
        typer.Option("--limit", help="Only so many queries, or rows of a part, for a quick look."),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out tasks whose data cannot be had.")
    ] = False,
    folds_out: Annotated[
        Path | None, typer.Option("--folds-out", help="Write scores by fold to this CSV file.")
    ] = None,
    log_samples: Annotated[
        bool,
        typer.Option(
            "--log-samples", help="Write what each query retrieved beside the results, as text."
        ),
    ] = False,
    workers: shared.Workers = None,
    no_store: shared.NoStore = False,
    trust_remote_code: shared.TrustRemoteCode = False,
    allow_pickle: shared.AllowPickle = False,
    offline: shared.Offline = False,
    wide: shared.Wide = False,
    as_json: shared.AsJson = False,
) -> None:
    """Evaluate an encoder and print a table. Without options: the demo suite with MiniLM."""
    from dataclasses import replace

    from polarity_bench.files import check_writable, write_atomically
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
    loaded, skipped = _load(chosen, access, settings, skip_missing)
    shared.tell_draws(loaded)
    reports: dict[str, SuiteReport | str] = {}
    for name in dict.fromkeys(model or ["minilm"]):
        try:
            encoder, other = _encoders(name, own, reference, common)
        except InputError as error:
            reports[name] = shared.in_flags(str(error))
            if model is None or len(model) == 1:
                raise
            shared.remark(f"error: {reports[name]}")
            continue
        with shared.embedder_of(encoder, no_store, batch_tokens, batch_size) as embedder:
            contest = Contest(encoder, other, embedder, settings.workers, shared.progress_bar)
            report = reports[name] = run_suite(contest, loaded, output, overwrite=overwrite)
        _print_report(report, weighting, as_json, shared.width(wide))
        if log_samples:
            _log_samples(report, loaded)
    if as_json:
        shared.print_json(_json(reports, skipped))
    made = [report for report in reports.values() if not isinstance(report, str)]
    if folds_out is not None:
        from polarity_bench.boards.report import folds_csv

        results = [stored for report in made for stored in report.results]
        write_atomically(folds_out, folds_csv(results).encode())
    if not as_json and any(report.results for report in made):
        board = f"next: polarity-bench leaderboard {shlex.quote(str(output))}"
        quick = "a quick look stands on no board; next: the same command without --limit"
        shared.remark(f"results are in {output}; {board if limit is None else quick}")
        shared.remark("what a column is: polarity-bench explain-score NAME")
    codes = {2 if isinstance(report, str) else report.exit_code for report in reports.values()}
    raise typer.Exit(codes.pop() if len(codes) == 1 else 1)


def _log_samples(report: SuiteReport, tasks: Sequence[Task]) -> None:
    from polarity_bench.boards.report import samples_jsonl
    from polarity_bench.files import write_atomically
    from polarity_bench.results import SAMPLES

    by_name = {task.spec.name: task for task in tasks}
    for result, path in report.results:
        if text := samples_jsonl(by_name[result.task], path):
            file = path.with_suffix(SAMPLES)
            write_atomically(file, text.encode())
            shared.remark(f"what {result.task} retrieved: {file}")


def _load(
    specs: Sequence[TaskSpec], access: DataAccess, settings: Settings, skip_missing: bool
) -> tuple[list[Task], dict[str, str]]:
    """Load tasks; say which lack their data, and go on without them or not at all."""
    loaded, missing = [], {}
    for spec in specs:
        try:
            loaded.append(spec.load(access, settings))
        except MissingDataError as error:
            missing[spec.name] = shared.in_flags(str(error))
    if missing and not (skip_missing and loaded):
        said = "\nerror: ".join(missing.values())
        if skip_missing:
            said += "\nerror: the data of every task is missing"
        elif loaded:
            there = ", ".join(task.spec.name for task in loaded)
            said += f"\nerror: `skip_missing` goes on with the others: {there}"
        raise InputError(said)
    for message in missing.values():
        shared.remark(f"skipped: {message}")
    return loaded, missing


def _encoders(
    model: str, options: EncoderOptions, reference: str | None, common: EncoderOptions
) -> tuple[Encoder, Encoder | None]:
    """Load an encoder, and the reference: the one named, or the base of what was trained."""
    from polarity_bench.encoders.base import distinct_base
    from polarity_bench.training.folder import base_of
    from polarity_bench.types import AbsentEncoder

    found = base_of(model)  # a run that has not finished holds no encoder to be loaded
    encoder = shared.load_and_announce(model, options)
    if reference is None:
        base = distinct_base(encoder, found)
        loaded = base.load(common) if base else None
        if isinstance(loaded, AbsentEncoder):
            shared.remark(shared.in_flags(f"warning: {model}: {loaded.why}"))
        elif loaded:
            shared.remark(f"reference: {loaded.id.label}, the base of {model}")
        return encoder, loaded
    other = shared.load_and_announce(reference, common)
    if encoder.id.prompt and not other.id.prompt:
        shared.remark(f"{reference} encodes without a prompt, {model} with {encoder.id.prompt!r}")
    return encoder, other


def _print_report(
    report: SuiteReport, weighting: Weighting, as_json: bool, width: int | None
) -> None:
    from polarity_bench.boards.markdown import section
    from polarity_bench.boards.report import tables

    results = [result for result, _ in report.results]
    if results and not as_json:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        print(f"{results[0].key.encoder.label}, reference: {name}\n")
        sections = [section(table, width) for table in tables(results, weighting)]
        shared.print_tables("\n\n".join(sections) + "\n")
    for task, message in report.failures.items():
        shared.remark(shared.in_flags(f"error: {task} failed: {message}"))
    if report.reused:
        names = ", ".join(report.reused)
        shared.remark(f"already there and current, not made again (--overwrite would): {names}")
    for label, usage in report.usage.items():
        shared.remark(
            f"{label}: {usage.n_texts:,} texts asked for, {usage.n_distinct:,} distinct, "
            f"{usage.n_encoded:,} encoded in {usage.encode_seconds:.1f} s, "
            f"{usage.n_read:,} read from the store"
        )


def _json(
    reports: Mapping[str, SuiteReport | str], skipped: Mapping[str, str]
) -> dict[str, object]:
    """Lay out what became of the encoders; a failure without a task is that of an encoder."""
    from polarity_bench.boards.report import as_json

    results: list[dict[str, object]] = []
    failures: list[dict[str, object]] = []
    for model, report in reports.items():
        if isinstance(report, str):
            failures.append({"encoder": model, "task": None, "error": report})
            continue
        results += (
            as_json(result) | {"file": str(path), "reused": result.task in report.reused}
            for result, path in report.results
        )
        failures += (
            {"encoder": model, "task": task, "error": shared.in_flags(message)}
            for task, message in report.failures.items()
        )
    return {"unit": "fraction", "results": results, "failures": failures, "skipped": skipped}


def leaderboard(
    results: Annotated[Path, typer.Argument(help="Folder of results, or of a board.")] = Path(
        "results"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Also draw P against S, to this SVG file."),
    ] = None,
    weighting: shared.Weight = "linear",
    title: Annotated[str | None, typer.Option("--title", help="Heading.")] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", "-t", help="Only these, separated by commas.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Only encoders of these names or digests, by commas."),
    ] = None,
    wide: shared.Wide = False,
    as_json: shared.AsJson = False,
) -> None:
    """Render stored results as a markdown leaderboard."""
    from polarity_bench.boards.board import read_board
    from polarity_bench.boards.markdown import render
    from polarity_bench.boards.report import board_as_json
    from polarity_bench.files import write_atomically

    if not results.is_dir():
        raise InputError(f"the results folder {results} does not exist; `polarity-bench run` first")
    chosen = {"tasks": shared.split_names(tasks), "models": shared.split_names(models)}
    for field, file in (("output", output), ("figure", figure)):
        if file is not None and not file.parent.is_dir():
            raise InputError(f"`{field}` {file}: the folder {file.parent} does not exist")
    if figure is not None and figure.suffix != ".svg":
        raise InputError(f"`figure` {figure}: the file's name must end in .svg")
    board = read_board(results, weighting, title=title, **chosen)
    if figure is not None:
        from polarity_bench.boards.figure import figure_svg

        write_atomically(figure, figure_svg(board))
        shared.remark(f"wrote {figure}")
    width = shared.width(wide) if output is None else None
    text = shared.json_text(board_as_json(board)) if as_json else render(board, width)
    if output is None:
        shared.print_tables(text.removesuffix("\n"))
        return
    write_atomically(output, text.encode())
    shared.remark(f"wrote {output}")
