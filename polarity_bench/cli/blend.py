"""`polarity-bench blend`: encoders between one and another that was tuned from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli.inputs import (
    check_device,
    data_access_of,
    embedder_of,
    parse_decimals,
    tasks_of,
    worker_count,
)
from polarity_bench.cli.options import (
    AllowPickle,
    AsJson,
    DataDir,
    Device,
    MaxTokens,
    NoStore,
    Offline,
    Prompt,
    PromptName,
    TaskDir,
    TrustRemoteCode,
    Weight,
    Wide,
)
from polarity_bench.cli.output import print_json, progress_bar, remark, remark_draws, terminal_width

if TYPE_CHECKING:
    from polarity_bench.evaluation.many_tasks import SuiteReport


def blend(
    base: Annotated[
        str,
        typer.Argument(metavar="BASE", help="Encoder of weight 0, with which S is measured."),
    ],
    tuned: Annotated[
        str, typer.Argument(metavar="TUNED", help="Encoder of weight 1, tuned from it.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the blends, which are w-0.25 and so on."),
    ],
    weights: Annotated[
        str, typer.Option("--weights", help="Shares of TUNED, from 0 to 1.")
    ] = "0,0.25,0.5,0.75,1",
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Evaluate each on these tasks, separated by commas."),
    ] = None,
    results: Annotated[
        Path, typer.Option("--results", help="Folder of the results of these tasks.")
    ] = Path("results"),
    weighting: Weight = "linear",
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    max_tokens: MaxTokens = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit of BASE on the hub.")
    ] = None,
    device: Device = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    no_store: NoStore = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Average the weights of two encoders: a folder for each weight, and the curve of P and S."""
    from dataclasses import replace

    from polarity_bench.cli.inputs import encoder_and_reference, load_data
    from polarity_bench.cli.output import (
        exit_code,
        print_reports,
        reports_as_json,
        write_and_print_curves,
    )
    from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
    from polarity_bench.tasks.types.base import Settings

    asked, width = parse_decimals("weights", weights), terminal_width(wide)
    chosen = [] if task is None else tasks_of(task, None, task_dir)
    access = data_access_of(data_dir, offline)
    check_device(device)

    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.training.blend_weights import blend as write_blends
    from polarity_bench.training.blend_weights import checked_weights

    checked_weights(asked)
    common = EncoderOptions(
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    own = replace(
        common, revision=revision, prompt=prompt, prompt_name=prompt_name, max_tokens=max_tokens
    )
    settings = Settings(workers=worker_count(None))
    loaded, _ = load_data(chosen, access, settings, skip_missing=False)
    remark_draws(loaded)
    blends = write_blends(base, tuned, asked, output, own, bar=progress_bar)
    for each in blends:
        if each.reused:
            remark(f"already there, not made again: {each.folder}")
    reports: dict[float, SuiteReport] = {}
    for each in blends if loaded else []:
        encoder, reference = encoder_and_reference(str(each.folder), common, None, common)
        with embedder_of(encoder, no_store, None, None) as embedder:
            contest = EvaluationPlan(encoder, reference, embedder, settings.workers, progress_bar)
            report = reports[each.weight] = run_suite(contest, loaded, results)
        print_reports([report], weighting, as_json, width)
    name = output.resolve().name
    curves = write_and_print_curves(name, "weight", reports, results, weighting, as_json, width)
    if as_json:
        made = [
            {"weight": each.weight, "folder": str(each.folder), "reused": each.reused}
            for each in blends
        ]
        by_folder = {str(each.folder): reports[each.weight] for each in blends if loaded}
        judged = reports_as_json(by_folder, {})
        print_json({"blends": made, "curves": curves, **judged})
    elif not loaded:
        print("\n".join(str(each.folder) for each in blends))
    raise typer.Exit(exit_code(reports.values()) if reports else 0)
