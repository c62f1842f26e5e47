"""`polarity-bench blend`: weighted averages of a base encoder and its fine-tuned version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polarity_bench.cli.inputs import load_data, parse_numbers, worker_count
from polarity_bench.cli.options import (
    TEXT_OPTIONS,
    TRUST_OPTIONS,
    DataFlags,
    StoreFlags,
    TaskFlags,
    Weight,
    usable_options,
)
from polarity_bench.cli.output import (
    OutputFlags,
    curves_as_json,
    exit_code,
    print_json,
    print_report,
    progress_bar,
    remark,
    reports_as_json,
    write_and_print_curves,
)
from polarity_bench.encoders.load import EncoderOptions


def blend(
    *,
    base: Annotated[str, "Encoder at weight 0, and the reference encoder for S.", "BASE"],
    tuned: Annotated[str, "Encoder at weight 1, fine-tuned from BASE.", "TUNED"],
    output: Annotated[Path, "Folder for the averaged encoders: w-0, w-0.25 and so on.", "-o"],
    weights: Annotated[
        str, "Weights of TUNED, from 0 to 1, separated by commas."
    ] = "0,0.25,0.5,0.75,1",
    task: Annotated[
        str | None, "Evaluate the averaged encoders on these tasks, separated by commas.", "-t"
    ] = None,
    results: Annotated[Path, "Folder to store the results in."] = Path("results"),
    weighting: Weight = "linear",
    encoder: Annotated[EncoderOptions, (*TEXT_OPTIONS, "device", *TRUST_OPTIONS)],
    revision: Annotated[
        str | None, "Branch, tag or commit of BASE on the Hugging Face hub."
    ] = None,
    data: DataFlags,
    embedding: StoreFlags,
    out: OutputFlags,
) -> None:
    """Average the parameters of two encoders.

    For each weight w, the command writes an encoder whose parameters are (1 - w) times those of
    BASE plus w times those of TUNED. With --task, it also evaluates these encoders and prints P and
    S at each weight.
    """
    from polarity_bench.evaluation.many_encoders import EvaluationRequest, evaluate_models
    from polarity_bench.tasks.types.base import Settings
    from polarity_bench.training.blend_weights import blend as write_blends
    from polarity_bench.training.blend_weights import check_weights

    shares = parse_numbers("weights", weights, float)
    specs = [] if task is None else TaskFlags(task).choose(data.task_dir)
    access = data.access()
    options = replace(usable_options(encoder, offline=access.offline), revision=revision)
    check_weights(shares)
    settings = Settings(workers=worker_count(None))
    tasks, _ = load_data(specs, access, settings, skip_missing=False)
    blends = write_blends(base, tuned, shares, output, options, bar=progress_bar)
    for each in blends:
        if each.reused:
            remark(f"reused, because the folder exists: {each.folder}")
    request = EvaluationRequest(
        [str(each.folder) for each in blends] if tasks else [],
        tasks,
        results,
        options.of_others,
        workers=settings.workers,
        embedder=embedding.embedder,
        bar=progress_bar,
        remark=remark,
    )
    reports = []
    for report in evaluate_models(request):
        if report.error:
            raise report.error
        reports.append(report)
        print_report(report, out, weighting)
    by_weight = {
        each.weight: suite
        for each, report in zip(blends, reports, strict=False)
        for suite in report.suites
    }
    name = output.resolve().name
    curves = write_and_print_curves(name, "weight", by_weight, results, out, weighting)
    if out.as_json:
        made = {"blends": list(map(vars, blends)), "curves": curves_as_json(curves)}
        print_json(made | reports_as_json(reports, {}))
    elif not tasks:
        print("\n".join(str(each.folder) for each in blends))
    raise typer.Exit(exit_code(reports) if reports else 0)
