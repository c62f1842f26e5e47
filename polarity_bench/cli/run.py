"""`polarity-bench run`: evaluate an encoder and print a table."""

from __future__ import annotations

import csv
import io
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import Settings
    from polarity_bench.results import Result
    from polarity_bench.suite import RunReport
    from polarity_bench.types import Encoder, Weighting


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
    k: Annotated[
        str | None, typer.Option("--k", help="How many to retrieve, e.g. 4,16,64 [default: 16].")
    ] = None,
    weighting: shared.Weight = shared.WeightingChoice.linear,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="Transfer protocol: senteval-sklearn [default] or senteval-torch.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="senteval-torch as in: literature [default] or papers."),
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
    dtype: Annotated[
        shared.DtypeChoice, typer.Option("--dtype", help="Precision of the weights.")
    ] = shared.DtypeChoice.float32,
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
    from polarity_bench.kinds import choose_tasks, load_tasks
    from polarity_bench.suite import run as run_tasks

    names = shared.split_names(tasks)
    if tasks is not None and not names:
        raise InputError(f"--tasks {tasks!r}: names no task")
    chosen = choose_tasks(
        load_tasks(task_dir), names=names, suite=suite if suite or names else "demo"
    )
    settings = replace(
        transfer_settings(protocol, preset, kfold, classifier, device),
        ks=shared.numbers("--k", k),
        limit=limit,
        workers=shared.worker_count(workers),
    )
    if folds_out is not None:
        if folds_out.is_dir():
            raise InputError(f"--folds-out {folds_out}: a file is wanted, this is a folder")
        check_writable(folds_out.parent, "--folds-out")
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)

    from polarity_bench.encoders import EncoderOptions

    common = EncoderOptions(
        device=device,
        dtype=dtype.value,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    own = replace(
        common, revision=revision, prompt=prompt, prompt_name=prompt_name, max_tokens=max_tokens
    )
    encoder = shared.load_and_announce(model, own)
    other = None
    if reference is None:
        other = base_reference(model, common)
    else:
        other = shared.load_and_announce(reference, replace(common, asked_by="--reference"))
        if encoder.id.prompt and not other.id.prompt:
            shared.remark(
                f"{reference} encodes without a prompt, {model} with {encoder.id.prompt!r}"
            )
    with shared.embedder_of(encoder, no_store, batch_tokens, batch_size) as embedder:
        report = run_tasks(
            encoder,
            chosen,
            access,
            settings,
            output=output,
            overwrite=overwrite,
            reference=other,
            embedder=embedder,
            bar=shared.progress_bar,
        )
    _print_report(report, weighting.value, as_json)
    if folds_out is not None:
        _write_folds(report, folds_out)
    _remark_on(report, output, as_json)
    raise typer.Exit(report.exit_code)


def base_reference(model: str, common: EncoderOptions) -> Encoder | None:
    """Load the encoder that a run's folder was trained from; None if the model is no such folder.

    Raises:
        InputError: If its base can't be loaded, or is not the one that it was trained from.
    """
    from dataclasses import replace

    from polarity_bench.training.folder import base_of

    found = base_of(model)
    if found is None:
        return None
    name, base = found
    options = replace(
        common,
        revision=base.revision,
        prompt=base.prompt,
        max_tokens=base.max_tokens,
        dtype="float32",
        asked_by=f"the base of {model}, which S is measured with:",
    )
    loaded = shared.load_and_announce(name, options)
    if loaded.id.weights != base.weights:
        raise InputError(
            f"--model {model} was trained from {base.name} with the weights {base.weights}; what "
            f"is there now has {loaded.id.weights}. Name the base with --reference"
        )
    shared.remark(f"reference: {base.label}, the base of {model}")
    return loaded


def transfer_settings(
    protocol: str | None,
    preset: str | None,
    kfold: int | None,
    classifier: str | None,
    device: str | None = None,
) -> Settings:
    """Build the settings that the options of the transfer protocol mean.

    Raises:
        InputError: If an option is unknown, or does not go with the protocol.
    """
    from polarity_bench.kinds.senteval.presets import choose_preset
    from polarity_bench.kinds.task import Settings

    name = protocol or ("senteval-torch" if preset or classifier else "senteval-sklearn")
    return Settings(transfer=name, preset=choose_preset(name, preset, kfold, classifier, device))


def _print_report(report: RunReport, weighting: Weighting, as_json: bool) -> None:
    from polarity_bench.boards.run_tables import run_tables

    results = [result for result, _ in report.results]
    if as_json:
        rows = [
            _result_json(result, path, result.task in report.reused)
            for result, path in report.results
        ]
        shared.print_json({"unit": "percent", "results": rows, "failures": report.failures})
    elif results:
        reference = next((r.key.reference for r in results if r.key.reference), None)
        name = reference.label if reference else "itself"
        print(f"{results[0].key.encoder.label}, reference: {name}\n")
        print("\n\n".join(run_tables(results, weighting)))
    for task, message in report.failures.items():
        print(f"error: {task} failed: {message}", file=sys.stderr)


def _remark_on(report: RunReport, output: Path, as_json: bool) -> None:
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


def _write_folds(report: RunReport, file: Path) -> None:
    """Write the scores of each fold of the transfer tasks, as fractions."""
    from safetensors.numpy import load_file

    from polarity_bench.boards.run_tables import protocol_label
    from polarity_bench.files import write_atomically

    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["encoder", "encoder_digest", "task", "protocol", "fold", "accuracy", "reg"])
    for result, path in report.results:
        if result.kind != "transfer":
            continue
        arrays = load_file(path.with_suffix(".queries.safetensors"))
        folds = zip(arrays["fold_accuracy"], arrays["fold_regularization"], strict=True)
        encoder, name = result.key.encoder, protocol_label(result)
        for fold, (accuracy, regularization) in enumerate(folds):
            row = [encoder.label, encoder.digest, result.task, name, fold]
            writer.writerow([*row, float(accuracy), float(regularization)])
    write_atomically(file, lines.getvalue().encode())


def _result_json(result: Result, path: Path, reused: bool) -> dict[str, Any]:
    return {
        "task": result.task,
        "kind": result.kind,
        "mteb_name": result.result_name,
        "encoder": result.key.encoder.name,
        "encoder_digest": result.key.encoder.digest,
        "reference": result.key.reference.name if result.key.reference else None,
        "protocol": dict(result.key.protocol),
        "run": result.key.digest,
        "file": str(path),
        "reused": reused,
        "main_score": str(result.main_score),
        "counts": dict(result.counts),
        "seconds": dict(result.seconds),
        "scores": {name: _percent(name, value) for name, value in sorted(result.flat.items())},
    }


def _percent(name: str, value: float) -> float | None:
    if name.endswith("_n_undefined"):
        return value
    return None if math.isnan(value) else round(100 * value, 6)
