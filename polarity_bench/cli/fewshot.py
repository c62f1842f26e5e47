"""`polarity-bench fewshot`: cross-validation of classifiers that learn from few rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from polarity_bench.cli.inputs import parse_numbers, required_names, worker_count
from polarity_bench.cli.options import DataFlags, InputFlags, Model, Workers, usable_options
from polarity_bench.cli.output import AsJson, announced_bar, print_json, print_tables
from polarity_bench.cross_validation.methods import KNOWN, FineTuning, make_methods
from polarity_bench.errors import InputError, check_at_least, check_known

if TYPE_CHECKING:
    from polarity_bench.results.result_files import Result


def fewshot(
    *,
    tasks: Annotated[
        str, "Names of transfer or polarity tasks, separated by commas.", "--task", "-t"
    ] = "mr",
    losses: Annotated[
        str,
        f"Training losses or other methods, separated by commas, or all: {', '.join(KNOWN)}.",
        "--loss",
    ] = "cce",
    model: Model = "minilm",
    protocol: Annotated[
        str,
        "A paper's protocol, which sets the defaults of the next four options: few-shot or "
        "triple-entropy.",
    ] = "few-shot",
    rows: Annotated[
        str | None, "Number of training rows per fold, or all [default: 20; triple-entropy: all]."
    ] = None,
    folds: Annotated[int | None, "Number of folds [default: 40; triple-entropy: 5]."] = None,
    sample: Annotated[
        str | None,
        "Number of rows to sample from the data set before it is divided into folds, or all "
        "[default: all; triple-entropy: 1000].",
    ] = None,
    seeds: Annotated[
        str | None,
        "Random seeds, separated by commas; each divides the rows into other folds "
        "[default: 0; triple-entropy: 2,16,128,2048].",
    ] = None,
    search: Annotated[
        Literal["all", "halving"] | None,
        "Choose the settings of each loss from the paper's grid on the first half of the folds, "
        "and score them on the other half: all runs every setting on the first half, halving "
        "drops settings that lose after few folds [default: no search].",
    ] = None,
    measure: Annotated[
        str | None,
        "Score in tables and tests: macro_f1 or accuracy [default: macro_f1 with few rows, "
        "accuracy with all rows].",
    ] = None,
    report: Annotated[bool, "Only print the stored results of the output folder."] = False,
    published: Annotated[
        Path | None, "CSV file with published scores to add to the tables."
    ] = None,
    output: Annotated[Path, "Folder to store the results in.", "-o"] = Path("results/fewshot"),
    encoder: InputFlags,
    workers: Workers = None,
    data: DataFlags,
    as_json: AsJson = False,
    parameters: Annotated[dict[str, Any], {"classifier": FineTuning}, ("loss",)],
) -> None:
    """Cross-validate classifiers that are trained on few rows.

    For each fold and method, the command trains a classifier on a few rows and tests it on the
    test rows of the fold. It prints the mean scores and paired tests against cross-entropy alone.
    The same command resumes an interrupted run.
    """
    from polarity_bench.boards.fewshot_tables import fewshot_board, read_board
    from polarity_bench.cross_validation.fold_results import (
        Experiment,
        read_experiments,
        run_experiments,
    )
    from polarity_bench.cross_validation.protocol import protocol_of
    from polarity_bench.cross_validation.records import MEASURES, fold_records, published_folds
    from polarity_bench.cross_validation.search import search as search_settings
    from polarity_bench.cross_validation.search import settings_of
    from polarity_bench.render.markdown import render
    from polarity_bench.tasks.labelled import LabelledTexts

    if measure is not None:
        check_known(measure, MEASURES, f"`measure`: unknown value {measure!r}")
    if published is not None and not published.is_file():
        raise InputError(f"`published` {published}: no such file")
    numbers = {"rows": rows, "sample": sample}
    overrides: dict[str, Any] = {
        field: int(text) if text.isdecimal() else text
        for field, text in numbers.items()
        if text is not None
    }
    overrides |= {"folds": folds} if folds is not None else {}
    overrides |= {"seeds": parse_numbers("seeds", seeds, int)} if seeds is not None else {}
    chosen_protocol = protocol_of(protocol, overrides)
    printed = published_folds(published) if published else []
    if report:
        if as_json:
            _print_json(read_experiments(output), measure)
        else:
            print_tables(render(read_board(output, measure, published)).removesuffix("\n"))
        return
    chosen = list(KNOWN) if losses == "all" else required_names("losses", losses)
    methods = make_methods(chosen, parameters)
    access = data.access()
    options = usable_options(encoder, offline=access.offline)
    names = required_names("tasks", tasks)
    labelled = [LabelledTexts.of(name, access, data.task_dir) for name in names]
    for each in labelled:  # raises InputError now, before the training starts
        list(chosen_protocol.splits(each.labels))
    check_at_least(1, workers=workers)
    n_workers = worker_count(workers) if encoder.device in (None, "cpu") else 1
    single: list[Experiment] = []
    searched: list[list[Experiment]] = []
    for each in labelled:
        for loss, method in zip(chosen, methods, strict=True):
            settings = settings_of(loss, protocol, parameters) if search else [method]
            made = [Experiment(one, each, chosen_protocol, model, options) for one in settings]
            if len(made) > 1:
                searched.append(made)
            else:
                single += made
    results = run_experiments(single, output, workers=n_workers, bar=announced_bar)
    for made in searched:
        results += search_settings(
            made, output, halving=search == "halving", workers=n_workers, bar=announced_bar
        )
    if as_json:
        _print_json(results, measure)
    else:
        board = fewshot_board(fold_records(results, measure, printed))
        print_tables(render(board).removesuffix("\n"))


def _print_json(results: list[Result], measure: str | None) -> None:
    from polarity_bench.boards.run_report import as_json
    from polarity_bench.cross_validation.fold_results import folds_of
    from polarity_bench.cross_validation.records import method_title

    found = [
        {
            **as_json(each),
            "title": method_title(each),
            "measure": measure or each.main_score.metric,
            "folds": folds_of(each.arrays),
        }
        for each in results
    ]
    print_json({"experiments": found})
