"""`polarity-bench run`: evaluation of encoders, at one or more strengths of their axis."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli.inputs import (
    check_file,
    load_data,
    parse_numbers,
    parse_strengths,
    split_names,
    worker_count,
)
from polarity_bench.cli.options import (
    DataFlags,
    EmbeddingFlags,
    EncoderFlags,
    Models,
    Output,
    Strength,
    TaskFlags,
    Weight,
    Workers,
    usable_options,
)
from polarity_bench.cli.output import (
    OutputFlags,
    curves_as_json,
    exit_code,
    print_json,
    print_report,
    print_tables,
    progress_bar,
    remark,
    reports_as_json,
    write_and_print_curves,
    write_file,
)
from polarity_bench.errors import InputError, check_known
from polarity_bench.tasks.senteval.protocol_names import SentEvalProtocol, TorchPreset

if TYPE_CHECKING:
    from polarity_bench.cli.fail_under import RunGate
    from polarity_bench.evaluation.many_encoders import EncoderReport
    from polarity_bench.tasks.types.base import Settings, Task, TaskSpec


@dataclass(frozen=True)
class ProtocolFlags:
    """Options for the protocols of tasks."""

    ks: Annotated[
        str | None,
        "Number of sources to retrieve per query, or several numbers, e.g. 4,16,64 [default: the "
        "task's own, usually 16].",
        "--k",
    ] = None
    limit: Annotated[
        int | None, "Use only this many queries or rows per task, for a quick test."
    ] = None
    protocol: Annotated[
        SentEvalProtocol | None,
        "Classifier protocol of transfer and probing tasks [default: senteval-exact; "
        "senteval-torch with --preset or --classifier].",
    ] = None
    preset: Annotated[
        TorchPreset | None,
        "Published settings of the protocol senteval-torch [default: literature].",
    ] = None
    kfold: Annotated[
        int | None,
        "Number of folds for transfer tasks without a dev set [default: 10; preset papers: 3].",
    ] = None
    classifier: Annotated[
        str | None,
        "Classifier settings of the protocol senteval-torch, e.g. "
        "optim=adam,batch_size=64,tenacity=5,epoch_size=4,nhid=0.",
    ] = None
    workers: Workers = None

    def settings(self, device: str | None) -> Settings:
        """Return the settings for loading tasks.

        Args:
            device: Torch device for the classifiers of senteval-torch; None uses the default.
        """
        from polarity_bench.tasks.senteval.presets import choose_preset
        from polarity_bench.tasks.types.base import Settings

        preset = choose_preset(self.protocol, self.preset, self.kfold, self.classifier, device)
        ks, workers = parse_numbers("ks", self.ks, int), worker_count(self.workers)
        return Settings(ks=ks, limit=self.limit, workers=workers, of_types=(preset,))


@dataclass(frozen=True)
class GateFlags:
    """Options for comparing a run with a baseline."""

    fail_under: Annotated[
        str | None,
        typer.Option(
            "--fail-under",
            metavar="BASELINE",
            help="Exit with code 1 if the main score of a task is significantly lower than in this "
            "baseline: a folder of results, a result file, or an encoder with results in --output.",
        ),
    ] = None
    p_alone: Annotated[
        bool, "With --fail-under: compare only P. A loss of meaning is then not detected."
    ] = False

    def gate(
        self,
        output: Path,
        tasks: Sequence[TaskSpec],
        models: Sequence[str],
        strengths: Sequence[float],
    ) -> RunGate | None:
        """Return the gate of a run, or None if the user named no baseline.

        Raises:
            InputError: If the baseline is unknown, or the run has several encoders or strengths.
        """
        from polarity_bench.cli.fail_under import RunGate
        from polarity_bench.compare.gate_baseline import find_baseline

        if self.fail_under is None:
            if self.p_alone:
                raise InputError("`p_alone` has no effect without `fail_under`; name a baseline")
            return None
        if len(models) > 1 or len(strengths) > 1:
            raise InputError(
                "`fail_under` compares one encoder with a baseline; give only one `model`, and at "
                "most one `strength`"
            )
        results = find_baseline(self.fail_under, output, [spec.name for spec in tasks])
        return RunGate(self.fail_under, results, self.p_alone)


@dataclass(frozen=True)
class FileFlags:
    """Options for files that a run writes in addition to its results."""

    folds_out: Annotated[
        Path | None, "Also write the scores of transfer tasks in each fold to this CSV file."
    ] = None
    plot: Annotated[
        Path | None,
        "Also plot the scores to this .svg or .png file: P against S, or bars for other tasks.",
    ] = None
    log_samples: Annotated[
        bool, "Also write the texts retrieved for each query to .samples.jsonl files."
    ] = False

    def check(self) -> None:
        """Raise InputError if a file cannot be written. Called before anything is evaluated."""
        from polarity_bench.render.figures.figure_files import FORMATS, check_can_draw

        check_file("folds_out", self.folds_out, make_folder=True)
        check_file("plot", self.plot, [f".{form}" for form in FORMATS], make_folder=True)
        if self.plot is not None:
            check_can_draw()

    def write_samples(self, report: EncoderReport, tasks: Sequence[Task]) -> None:
        """Write the sources retrieved for each query to files next to an encoder's results.

        Without `--log-samples`, nothing is written.
        """
        from polarity_bench.boards.run_report import samples_jsonl
        from polarity_bench.files import write_atomically
        from polarity_bench.results.result_files import SAMPLES

        by_name = {task.spec.name: task for task in tasks}
        for result in report.results if self.log_samples else ():
            if text := samples_jsonl(by_name[result.task], result.path):
                file = result.path.with_suffix(SAMPLES)
                write_atomically(file, text.encode())
                remark(f"retrieved texts of {result.task}: {file}")

    def write(
        self,
        reports: Sequence[EncoderReport],
        curves: Sequence[Path],
        folder: Path,
        weighting: str,
    ) -> None:
        """Write the CSV file of scores per fold, and the plot, if the user asked for them."""
        from polarity_bench.boards.run_charts import plotted, references_of
        from polarity_bench.boards.run_report import folds_csv
        from polarity_bench.files import write_atomically
        from polarity_bench.render.figures.figure_files import draw_charts
        from polarity_bench.results.curve_files import read_curve

        own = [result for report in reports for result in report.results]
        if self.folds_out is not None:
            write_atomically(self.folds_out, folds_csv(own).encode())
        if self.plot is None:
            return
        references, lacking = references_of(own, folder)
        for reference in lacking:
            remark(
                f"the plot lacks the reference {reference.label}, because {folder} has no result "
                "of this encoder; evaluate the reference first"
            )
        charts = plotted([*own, *references], weighting, list(map(read_curve, curves)))
        if not charts:
            remark(f"{self.plot}: not written, because there is nothing to plot")
            return
        write_file(self.plot, draw_charts(charts, "png" if self.plot.suffix == ".png" else "svg"))


def run(
    *,
    model: Models = None,
    task: TaskFlags,
    reference: Annotated[
        str | None,
        "Reference encoder, which measures S; computed in float32 by torch, without the options of "
        "the model [default: the base that the model was trained from, or the model itself].",
    ] = None,
    weighting: Weight = "linear",
    protocol: ProtocolFlags,
    strength: Strength = None,
    encoder: EncoderFlags,
    compare_prompts: Annotated[
        bool, "Also evaluate each encoder without its prompt, and test whether the scores differ."
    ] = False,
    embedding: EmbeddingFlags,
    data: DataFlags,
    output: Output = Path("results"),
    overwrite: Annotated[bool, "Recompute results that are already stored."] = False,
    skip_missing: Annotated[bool, "Skip tasks whose data is missing."] = False,
    columns: Annotated[
        str | None,
        "Titles of the columns to print, separated by commas, or all [default: the main scores].",
    ] = None,
    files: FileFlags,
    baseline: GateFlags,
    out: OutputFlags,
) -> None:
    """Evaluate encoders on tasks and print their scores.

    By default, the command evaluates MiniLM on the suite demo. In a polarity task, an encoder
    retrieves the texts nearest to each query among the sources. P is the weighted share of these
    texts that have the query's label. S is their similarity to the query under a reference encoder.
    `polarity-bench explain-score` explains all scores.
    """
    from polarity_bench.cli import compare_prompts as prompts
    from polarity_bench.cli.fail_under import gate_json, gate_text
    from polarity_bench.encoders.load import load_encoder
    from polarity_bench.evaluation.many_encoders import EvaluationRequest, evaluate_models

    specs, strengths = task.choose(data.task_dir, "demo"), parse_strengths(strength)
    unranked = [spec.name for spec in specs if not spec.retrieves]
    if unranked and min(strengths, default=0) < 0:
        raise InputError(
            f"`strength` {strength}: a negative strength needs a task with queries and sources, "
            f"got {unranked[0]}; give only such tasks, or strengths of at least 0"
        )
    if unranked and encoder.quantize:
        raise InputError(
            f"`quantize` {encoder.quantize}: needs a task with queries and sources, got "
            f"{unranked[0]}; give only such tasks"
        )
    if compare_prompts and (baseline.fail_under or len(strengths) > 1):
        raise InputError(
            "`compare_prompts` takes no `fail_under` and at most one `strength`; remove the others"
        )
    settings = protocol.settings(encoder.device)
    files.check()
    models = list(dict.fromkeys(model or ["minilm"]))
    gate = baseline.gate(output, specs, models, strengths)
    access = data.access()
    options = usable_options(encoder, offline=access.offline)
    # Fail before the data is loaded, if the prompt depends on the encoder.
    if compare_prompts and len(models) == 1 and not options.prompt:
        prompts.check_prompt(load_encoder(models[0], options))
    tasks, skipped = load_data(specs, access, settings, skip_missing)
    titles = _column_titles(columns, tasks)
    request = EvaluationRequest(
        models,
        tasks,
        output,
        options,
        reference,
        strengths,
        settings.workers,
        overwrite,
        embedder=embedding.embedder,
        check=partial(gate.expect, tasks, weighting, out) if gate else lambda *_: None,
        bar=progress_bar,
        remark=remark,
    )
    reports: list[EncoderReport] = []
    curves: list[Path] = []
    evaluate = prompts.with_and_without if compare_prompts else evaluate_models
    for report in map(partial(_with_hint, alone=len(models) == 1), evaluate(request)):
        reports.append(report)
        _warn_of_uncounted(report)
        print_report(report, out, weighting, titles)
        files.write_samples(report, tasks)
        if len(strengths) > 1:
            at = {at: suite for at, suite in report.by_strength.items() if at is not None}
            curves += write_and_print_curves(report.name, "strength", at, output, out, weighting)
    judged = gate.judge(reports) if gate else None
    compared = prompts.compare_prompts(reports, weighting) if compare_prompts else []
    if out.as_json:
        gated = {"gate": gate_json(judged)} if judged else {}
        shown = {"curves": curves_as_json(curves)} if strengths else {}
        pairs = {"prompts": list(map(prompts.prompts_json, compared))} if compare_prompts else {}
        print_json(reports_as_json(reports, skipped) | gated | shown | pairs)
    elif judged:
        print_tables(gate_text(judged, out.width))
    else:
        for comparisons in compared:
            print_tables(prompts.prompts_text(comparisons, out.width))
    files.write(reports, curves, output, weighting)
    if not out.as_json and any(report.results for report in reports):
        _remark_next(output, is_cut=settings.limit is not None)
    raise typer.Exit(exit_code(reports) or int(judged is not None and not judged.is_open))


def _column_titles(text: str | None, tasks: Sequence[Task]) -> list[str]:
    """Return the column titles in an option's value. A title may contain a comma: `P, negation`."""
    from polarity_bench.boards.run_report import column_titles

    known = {"all", *column_titles(tasks)}
    names = split_names(text)
    chosen: list[str] = []
    for before, name in zip(["", *names], names, strict=False):
        if f"{before}, {name}" in known:
            chosen[-1:] = [f"{before}, {name}"]
        else:
            check_known(name, known, f"`columns` {text}: no column {name!r}")
            chosen.append(name)
    return chosen


def _with_hint(report: EncoderReport, *, alone: bool) -> EncoderReport:
    """Return a report with a hint added to its error, and print the error.

    Raises:
        InputError: If `alone` is set, for a run of one encoder, and the encoder failed to load.
    """
    if report.error is None:
        return report
    hint = "; to evaluate several encoders, repeat `model`" if "," in report.model else ""
    error = InputError(f"{report.error}{hint}")
    if alone:
        raise error from report.error
    remark(f"error: {error}")
    return replace(report, error=error)


def _warn_of_uncounted(report: EncoderReport) -> None:
    """Print a warning if texts that the encoder was trained on are not counted."""
    why = "texts seen in training are not counted"
    if report.uncounted:
        remark(f"warning: {why}: {report.uncounted}")
    elif any(result.training and result.seen is None for result in report.results):
        unknown = "was trained, but its training texts are unknown"
        remark(f"warning: {report.model} {unknown}, so {why}")


def _remark_next(folder: Path, *, is_cut: bool) -> None:
    """Print the folder of the results and the suggested next commands."""
    board = f"next: polarity-bench leaderboard {shlex.quote(str(folder))}"
    quick = "boards show only complete results; next: run the same command without --limit"
    remark(f"results are in {folder}; {quick if is_cut else board}")
    remark("to explain a column: polarity-bench explain-score NAME")
