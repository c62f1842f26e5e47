"""`polarity-bench run`: evaluate an encoder, at one strength of its axis or several."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli.inputs import (
    check_device,
    data_access_of,
    embedder_of,
    parse_integers,
    parse_strengths,
    tasks_of,
    with_memory,
    worker_count,
)
from polarity_bench.cli.options import (
    AllowPickle,
    AsJson,
    BatchSize,
    BatchTokens,
    DataDir,
    Device,
    MaxTokens,
    Models,
    NoStore,
    Offline,
    Output,
    Prompt,
    PromptName,
    Revision,
    Strength,
    Suite,
    TaskDir,
    Tasks,
    TrustRemoteCode,
    Weight,
    Wide,
    Workers,
)
from polarity_bench.cli.output import (
    in_flags,
    print_json,
    print_tables,
    progress_bar,
    remark,
    remark_draws,
    terminal_width,
)
from polarity_bench.encoders.base import Dtype
from polarity_bench.errors import InputError
from polarity_bench.scores import Weighting
from polarity_bench.tasks.senteval.protocol_names import SentEvalProtocol, TorchPreset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.evaluation.many_tasks import SuiteReport
    from polarity_bench.tasks.types.base import Task


def run(
    model: Models = None,
    tasks: Tasks = None,
    suite: Suite = None,
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
    weighting: Weight = "linear",
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
    strength: Strength = None,
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    device: Device = None,
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Precision of the weights.")] = "float32",
    batch_size: BatchSize = None,
    batch_tokens: BatchTokens = None,
    max_tokens: MaxTokens = None,
    revision: Revision = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    output: Output = Path("results"),
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
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw P against S, or else bars, to this .svg or .png file."),
    ] = None,
    log_samples: Annotated[
        bool,
        typer.Option(
            "--log-samples", help="Write what each query retrieved beside the results, as text."
        ),
    ] = False,
    fail_under: Annotated[
        str | None,
        typer.Option(
            "--fail-under",
            metavar="BASELINE",
            help="End with 1 where a task's main score falls beyond chance: below that of a folder "
            "of results, a result's file, or an encoder of the results in --output.",
        ),
    ] = None,
    p_alone: Annotated[
        bool,
        typer.Option(
            "--p-alone", help="With --fail-under: compare P alone, so that S may have fallen."
        ),
    ] = False,
    workers: Workers = None,
    no_store: NoStore = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate an encoder and print a table. Without options: the demo suite with MiniLM."""
    from dataclasses import replace

    from polarity_bench.cli.gate import gate_of
    from polarity_bench.cli.inputs import encoder_and_reference, load_data
    from polarity_bench.cli.output import (
        exit_code,
        print_reports,
        reports_as_json,
        write_and_print_curves,
    )
    from polarity_bench.compare.gate import NoCommonReferenceError
    from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
    from polarity_bench.files import check_writable, write_atomically
    from polarity_bench.tasks.senteval.presets import choose_preset
    from polarity_bench.tasks.types.base import Settings
    from polarity_bench.training.run_folder import training_command
    from polarity_bench.values import shortest

    chosen = tasks_of(tasks, suite if suite or tasks is not None else "demo", task_dir)
    strengths = parse_strengths(strength)
    if unranked := [
        spec.name for spec in chosen if min(strengths, default=0) < 0 and not spec.ranks
    ]:
        raise InputError(
            f"`strength` {strength}: below 0 a query and a source differ, and {unranked[0]} has "
            "neither; name polarity tasks alone, or strengths from 0"
        )
    settings = Settings(
        ks=parse_integers("ks", ks),
        limit=limit,
        of_types=(choose_preset(protocol, preset, kfold, classifier, device),),
        workers=worker_count(workers),
    )
    if folds_out is not None:
        if folds_out.is_dir():
            raise InputError(f"`folds_out` {folds_out}: a file is wanted, this is a folder")
        check_writable(folds_out.parent, "folds_out")
    if plot is not None:
        check_plot(plot)
    names = list(dict.fromkeys(model or ["minilm"]))
    if p_alone and fail_under is None:
        raise InputError("`p_alone` takes no effect without `fail_under`; name a baseline")
    gate = gate_of(fail_under, output, chosen, names, strengths) if fail_under is not None else None
    access = data_access_of(data_dir, offline)
    check_device(device)

    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.encoders.steered import at_strength

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
    loaded, skipped = load_data(chosen, access, settings, skip_missing)
    remark_draws(loaded)
    reports: dict[str, SuiteReport | str] = {}
    curves: list[dict[str, object]] = []
    for name in names:
        try:
            encoder, other = encoder_and_reference(name, own, reference, common)
            several: dict[float | None, Encoder] = {
                each: at_strength(encoder, each) for each in strengths
            }
        except InputError as why:
            hint = "; for several encoders give `model` once for each" if "," in name else ""
            error = InputError(f"{why}{hint}")
            reports[name] = in_flags(str(error))
            if model is None or len(model) == 1:
                raise error from why
            remark(f"error: {reports[name]}")
            continue
        if gate is not None:
            (turned,) = several.values() or [encoder]
            try:
                gate.expect(loaded, turned, other, weighting, p_alone)
            except NoCommonReferenceError:
                if not as_json:
                    print("gate: S not compared")  # for the summary of a job, which reads stdout
                raise
        with embedder_of(encoder, no_store, batch_tokens, batch_size) as opened:
            embedder = with_memory(opened, loaded) if len(several) > 1 else opened
            made: dict[float | None, SuiteReport] = {}
            for each, turned in (several or {None: encoder}).items():
                contest = EvaluationPlan(
                    turned,
                    other,
                    embedder,
                    settings.workers,
                    progress_bar,
                    trained_by=training_command(name),
                )
                made[each] = run_suite(contest, loaded, output, overwrite=overwrite)
                which = "" if each is None else f" (strength {shortest(each)})"
                reports[name + which] = made[each]
        _count_seen(name, list(made.values()), loaded, output, access, task_dir)
        print_reports(list(made.values()), weighting, as_json, terminal_width(wide))
        for report in made.values() if log_samples else ():
            _log_samples(report, loaded)
        if len(several) > 1:
            at = {each: report for each, report in made.items() if each is not None}
            shown = (output, weighting, as_json, terminal_width(wide))
            curves += write_and_print_curves(encoder.id.name, "strength", at, *shown)
    whole = [report for report in reports.values() if not isinstance(report, str)]
    judged = gate.judge(whole) if gate is not None else None
    if as_json:
        said = reports_as_json(reports, skipped)
        said |= {"gate": judged.as_json()} if judged else {}
        print_json(said | ({"curves": curves} if strengths else {}))
    elif judged:
        print_tables(judged.text(terminal_width(wide)))
    if folds_out is not None:
        from polarity_bench.boards.run_report import folds_csv

        results = [stored for report in whole for stored in report.results]
        write_atomically(folds_out, folds_csv(results).encode())
    if plot is not None:
        write_plot(plot, whole, curves, output, weighting)
    if not as_json and any(report.results for report in whole):
        board = f"next: polarity-bench leaderboard {shlex.quote(str(output))}"
        quick = "a quick look stands on no board; next: the same command without --limit"
        remark(f"results are in {output}; {board if limit is None else quick}")
        remark("what a column is: polarity-bench explain-score NAME")
    code = exit_code(reports.values())
    if judged:
        code = code or int(not judged.is_open)
    raise typer.Exit(code)


def _count_seen(
    model: str,
    reports: Sequence[SuiteReport],
    tasks: Sequence[Task],
    output: Path,
    access: DataAccess,
    own: Path | None,
) -> None:
    from polarity_bench.training.contamination import count_seen

    try:
        count_seen(model, [report.results for report in reports], tasks, output, access, own)
    except InputError as error:
        remark(in_flags(f"warning: {error}. Nothing is counted as seen"))


def _log_samples(report: SuiteReport, tasks: Sequence[Task]) -> None:
    from polarity_bench.boards.run_report import samples_jsonl
    from polarity_bench.files import write_atomically
    from polarity_bench.results.result_files import SAMPLES

    by_name = {task.spec.name: task for task in tasks}
    for result, path in report.results:
        if text := samples_jsonl(by_name[result.task], path):
            file = path.with_suffix(SAMPLES)
            write_atomically(file, text.encode())
            remark(f"what {result.task} retrieved: {file}")


def check_plot(file: Path) -> None:
    """Check that a figure can be drawn and written, before anything is evaluated.

    Raises:
        InputError: If not.
    """
    from polarity_bench.files import check_writable
    from polarity_bench.render.figures.files import FORMATS, check_can_draw

    ends = [f".{form}" for form in FORMATS]
    if file.suffix not in ends:
        raise InputError(f"`plot` {file}: the file's name must end in {' or '.join(ends)}")
    if file.is_dir():
        raise InputError(f"`plot` {file}: a file is wanted, this is a folder")
    check_writable(file.parent, "plot")
    check_can_draw()


def write_plot(
    file: Path,
    reports: Iterable[SuiteReport],
    curves: Sequence[Mapping[str, object]],
    output: Path,
    weighting: Weighting,
) -> None:
    """Draw what a run has found, with the references that stand in its folder; say what is not.

    Args:
        file: Its end says the format.
        reports: What became of the tasks.
        curves: As `write_and_print_curves` returns them.
        output: The folder of the results.
        weighting: Of the ranks.
    """
    from polarity_bench.boards.run_charts import plotted, references_of
    from polarity_bench.files import write_atomically
    from polarity_bench.render.figures.files import drawn_together
    from polarity_bench.results.curve_files import read_curve

    own = [(path, result) for report in reports for result, path in report.results]
    references, lacking = references_of(own, output)
    for reference in lacking:
        remark(
            f"the reference {reference.label} is not in the figure: {output} holds no result of "
            "its own; run it first"
        )
    found = [read_curve(Path(str(curve["file"]))) for curve in curves]
    drawn = plotted([*own, *references], weighting, found)
    if not drawn:
        remark(f"nothing to draw: {file} is not written")
        return
    write_atomically(file, drawn_together(drawn, "png" if file.suffix == ".png" else "svg"))
    remark(f"wrote {file}")
