"""`polarity-bench run`: evaluate encoders, at one or more strengths of their axis."""

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
    parse_integers,
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
    OutputFlags,
    Strength,
    TaskFlags,
    Weight,
    Workers,
)
from polarity_bench.cli.output import (
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
from polarity_bench.errors import InputError, nearest
from polarity_bench.scores import Weighting
from polarity_bench.tasks.senteval.protocol_names import SentEvalProtocol, TorchPreset

if TYPE_CHECKING:
    from polarity_bench.cli.gate import RunGate
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.evaluation.many_encoders import EncoderReport, EvaluationRequest
    from polarity_bench.tasks.types.base import Settings, Task, TaskSpec


@dataclass(frozen=True)
class ProtocolFlags:
    """Settings of the protocols."""

    ks: Annotated[str | None, "Sources to retrieve, e.g. 4,16,64 [default: 16].", "--k"] = None
    limit: Annotated[int | None, "Use only so many queries or rows, for a quick look."] = None
    protocol: Annotated[
        SentEvalProtocol | None, "Transfer protocol [default: senteval-sklearn]."
    ] = None
    preset: Annotated[TorchPreset | None, "senteval-torch settings [default: literature]."] = None
    kfold: Annotated[int | None, "Number of folds of the transfer protocol."] = None
    classifier: Annotated[
        str | None, "For senteval-torch: optim=adam,batch_size=64,tenacity=5,epoch_size=4,nhid=0."
    ] = None
    workers: Workers = None

    def settings(self, device: str | None) -> Settings:
        """Return the settings that tasks are loaded with."""
        from polarity_bench.tasks.senteval.presets import choose_preset
        from polarity_bench.tasks.types.base import Settings

        preset = choose_preset(self.protocol, self.preset, self.kfold, self.classifier, device)
        ks, workers = parse_integers("ks", self.ks), worker_count(self.workers)
        return Settings(ks=ks, limit=self.limit, workers=workers, of_types=(preset,))


@dataclass(frozen=True)
class GateFlags:
    """The baseline that a run is compared with."""

    fail_under: Annotated[
        str | None,
        typer.Option(
            "--fail-under",
            metavar="BASELINE",
            help="Exit with 1 if the main score of a task is significantly below this baseline: a "
            "folder of results, the file of a result, or an encoder with results in --output.",
        ),
    ] = None
    p_alone: Annotated[bool, "With --fail-under: compare only P, so that S may fall."] = False

    def gate(
        self,
        output: Path,
        tasks: Sequence[TaskSpec],
        models: Sequence[str],
        strengths: Sequence[float],
    ) -> RunGate | None:
        """Return the gate of a run if a baseline is named, else None.

        Raises:
            InputError: If the baseline is unknown or the run has several encoders.
        """
        from polarity_bench.cli.gate import RunGate
        from polarity_bench.compare.gate import find_baseline

        if self.fail_under is None:
            if self.p_alone:
                raise InputError("`p_alone` has no effect without `fail_under`; name a baseline")
            return None
        if len(models) > 1 or len(strengths) > 1:
            raise InputError(
                "`fail_under` compares one encoder with a baseline: give one `model`, and at most "
                "one `strength`"
            )
        stored = find_baseline(self.fail_under, output, [spec.name for spec in tasks])
        return RunGate(self.fail_under, stored, self.p_alone)


@dataclass(frozen=True)
class FileFlags:
    """Files that a run writes in addition to its results."""

    folds_out: Annotated[Path | None, "Write scores by fold to this CSV file."] = None
    plot: Annotated[Path | None, "Plot P against S, or bars, to this .svg or .png file."] = None
    log_samples: Annotated[bool, "Write the retrieved texts of each query to a file."] = False

    def check(self) -> None:
        """Raise InputError if a file cannot be written, before anything is evaluated."""
        from polarity_bench.render.figures.files import FORMATS, check_can_draw

        check_file("folds_out", self.folds_out, make_folder=True)
        check_file("plot", self.plot, [f".{form}" for form in FORMATS], make_folder=True)
        if self.plot is not None:
            check_can_draw()

    def write_samples(self, report: EncoderReport, tasks: Sequence[Task]) -> None:
        """Write what each query retrieved, next to the results of an encoder."""
        from polarity_bench.boards.run_report import samples_jsonl
        from polarity_bench.files import write_atomically
        from polarity_bench.results.result_files import SAMPLES

        by_name = {task.spec.name: task for task in tasks}
        for result, path in report.results if self.log_samples else ():
            if text := samples_jsonl(by_name[result.task], path):
                file = path.with_suffix(SAMPLES)
                write_atomically(file, text.encode())
                remark(f"what {result.task} retrieved: {file}")

    def write(
        self,
        reports: Sequence[EncoderReport],
        curves: Sequence[Path],
        folder: Path,
        weighting: Weighting,
    ) -> None:
        """Write the scores by fold, and the plot."""
        from polarity_bench.boards.run_report import folds_csv
        from polarity_bench.files import write_atomically

        if self.folds_out is not None:
            results = [stored for report in reports for stored in report.results]
            write_atomically(self.folds_out, folds_csv(results).encode())
        if self.plot is not None:
            write_plot(self.plot, reports, curves, folder, weighting)


def run(
    *,
    model: Models = None,
    task: TaskFlags,
    reference: Annotated[
        str | None,
        "Encoder that measures S [default: the base of a trained model, else the model].",
    ] = None,
    weighting: Weight = "linear",
    protocol: ProtocolFlags,
    strength: Strength = None,
    encoder: EncoderFlags,
    embedding: EmbeddingFlags,
    data: DataFlags,
    output: Output = Path("results"),
    overwrite: Annotated[bool, "Compute results again that are stored and current."] = False,
    skip_missing: Annotated[bool, "Skip tasks whose data is missing."] = False,
    columns: Annotated[
        str | None, "Columns to print, separated by commas, or all [default: the main scores]."
    ] = None,
    files: FileFlags,
    baseline: GateFlags,
    out: OutputFlags,
) -> None:
    """Evaluate an encoder and print a table; by default MiniLM on the demo suite."""
    from polarity_bench.cli.gate import gate_json, gate_text
    from polarity_bench.evaluation.many_encoders import EvaluationRequest, evaluate_models

    specs, strengths = task.choose(data.task_dir, "demo"), parse_strengths(strength)
    _check_strengths(strength, strengths, specs)
    settings = protocol.settings(encoder.device)
    files.check()
    models = list(dict.fromkeys(model or ["minilm"]))
    gate = baseline.gate(output, specs, models, strengths)
    access = data.access()
    options = encoder.options(offline=access.offline)
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
    for report in map(partial(_with_hint, alone=len(models) == 1), evaluate_models(request)):
        reports.append(report)
        _count_seen(report, request, access, data.task_dir)
        print_report(report, out, weighting, titles)
        files.write_samples(report, tasks)
        if len(strengths) > 1:
            at = {at: suite for at, suite in report.by_strength.items() if at is not None}
            curves += write_and_print_curves(report.name, "strength", at, output, out, weighting)
    judged = gate.judge(reports) if gate else None
    if out.as_json:
        gated = {"gate": gate_json(judged)} if judged else {}
        shown = {"curves": curves_as_json(curves)} if strengths else {}
        print_json(reports_as_json(reports, skipped) | gated | shown)
    elif judged:
        print_tables(gate_text(judged, out.width))
    files.write(reports, curves, output, weighting)
    if not out.as_json and any(report.results for report in reports):
        _remark_next(output, is_cut=settings.limit is not None)
    raise typer.Exit(exit_code(reports) or int(judged is not None and not judged.is_open))


def _check_strengths(
    text: str | None, strengths: Sequence[float], specs: Sequence[TaskSpec]
) -> None:
    """Raise InputError for a negative strength if a task has no queries and sources."""
    unranked = [spec.name for spec in specs if not spec.ranks]
    if unranked and min(strengths, default=0) < 0:
        raise InputError(
            f"`strength` {text}: a negative strength needs queries and sources, which "
            f"{unranked[0]} lacks; name only polarity tasks, or strengths of at least 0"
        )


def _column_titles(text: str | None, tasks: Sequence[Task]) -> list[str]:
    """Return the titles that an option lists; a title may contain a comma: `P, negation`."""
    from polarity_bench.boards.run_report import column_titles

    known = {"all", *column_titles(tasks)}
    names = split_names(text)
    chosen: list[str] = []
    for before, name in zip(["", *names], names, strict=False):
        if f"{before}, {name}" in known:
            chosen[-1:] = [f"{before}, {name}"]
        elif name in known:
            chosen.append(name)
        else:
            raise InputError(f"`columns` {text}: no column {name!r}{nearest(name, known)}")
    return chosen


def _with_hint(report: EncoderReport, *, alone: bool) -> EncoderReport:
    """Report why an encoder could not be loaded; raise the error if it is the only encoder."""
    if report.error is None:
        return report
    hint = "; to evaluate several encoders, repeat `model`" if "," in report.model else ""
    error = InputError(f"{report.error}{hint}")
    if alone:
        raise error from report.error
    remark(f"error: {error}")
    return replace(report, error=error)


def _count_seen(
    report: EncoderReport, request: EvaluationRequest, access: DataAccess, task_dir: Path | None
) -> None:
    from polarity_bench.training.contamination import count_seen

    if not report.results:
        return
    stored = [suite.results for suite in report.suites]
    try:
        count_seen(report.model, stored, request.tasks, request.output, access, task_dir)
    except InputError as error:
        remark(f"warning: {error}. Texts seen in training are not counted")


def _remark_next(folder: Path, *, is_cut: bool) -> None:
    """Suggest the next command."""
    board = f"next: polarity-bench leaderboard {shlex.quote(str(folder))}"
    quick = "boards show only complete results; next: the same command without --limit"
    remark(f"results are in {folder}; {quick if is_cut else board}")
    remark("to explain a column: polarity-bench explain-score NAME")


def write_plot(
    file: Path,
    reports: Sequence[EncoderReport],
    curves: Sequence[Path],
    folder: Path,
    weighting: Weighting,
) -> None:
    """Plot the results of a run, with those of the reference encoders in its folder.

    Args:
        file: The file of the plot; its suffix gives the format.
        reports: Results of the encoders.
        curves: Files of curves over these results.
        folder: Folder of the results.
        weighting: Weighting of the ranks.
    """
    from polarity_bench.boards.run_charts import plotted, references_of
    from polarity_bench.render.figures.files import drawn_together
    from polarity_bench.results.curve_files import read_curve

    own = [(path, result) for report in reports for result, path in report.results]
    references, lacking = references_of(own, folder)
    for reference in lacking:
        remark(
            f"the reference {reference.label} is not in the plot: {folder} has no result of it; "
            "evaluate it first"
        )
    drawn = plotted([*own, *references], weighting, list(map(read_curve, curves)))
    if not drawn:
        remark(f"nothing to plot: {file} is not written")
        return
    write_file(file, drawn_together(drawn, "png" if file.suffix == ".png" else "svg"))
