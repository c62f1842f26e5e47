"""`polarity-bench fewshot`: cross-validate classifiers on few rows, with tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polarity_bench.cli.inputs import check_at_least, parse_integers, split_names, worker_count
from polarity_bench.cli.options import (
    AsJson,
    DataFlags,
    InputFlags,
    Model,
    Workers,
)
from polarity_bench.cli.output import announced_bar, print_json
from polarity_bench.cross_validation.methods import KNOWN, FineTuning, make_methods
from polarity_bench.errors import InputError, nearest

if TYPE_CHECKING:
    from polarity_bench.cross_validation.experiment import Outcome


def fewshot(
    *,
    tasks: Annotated[
        str, "Transfer or polarity tasks, separated by commas.", "--task", "-t"
    ] = "mr",
    losses: Annotated[
        str, f"Losses, separated by commas, or all: {', '.join(KNOWN)}.", "--loss"
    ] = "cce",
    model: Model = "minilm",
    protocol: Annotated[str, "Source of defaults: few-shot or triple-entropy."] = "few-shot",
    rows: Annotated[str | None, "Training rows in each fold, or all."] = None,
    folds: Annotated[int | None, "Number of folds."] = None,
    sample: Annotated[str | None, "Rows to draw from the data first, or all."] = None,
    seeds: Annotated[str | None, "Seeds of the divisions into folds, separated by commas."] = None,
    measure: Annotated[
        str | None,
        "macro_f1 or accuracy, in tables and tests "
        "[default: macro_f1 for few rows, accuracy for all].",
    ] = None,
    report: Annotated[bool, "Only print the board of the folder."] = False,
    published: Annotated[Path | None, "CSV file with published scores to show."] = None,
    output: Annotated[Path, "Folder for the results.", "-o"] = Path("results/fewshot"),
    encoder: InputFlags,
    workers: Workers = None,
    data: DataFlags,
    as_json: AsJson = False,
    parameters: Annotated[dict[str, Any], {"classifier": FineTuning}, ("loss",)],
) -> None:
    """Cross-validate classifiers on few rows. The same command resumes an interrupted run."""
    from polarity_bench.boards.fewshot_tables import fewshot_board, read_board
    from polarity_bench.cross_validation.experiment import (
        Experiment,
        read_outcomes,
        run_experiments,
    )
    from polarity_bench.cross_validation.protocol import protocol_of
    from polarity_bench.cross_validation.to_frame import MEASURES, fold_frame, published_folds
    from polarity_bench.render.markdown import render
    from polarity_bench.tasks.labelled import LabelledTexts

    if measure is not None and measure not in MEASURES:
        raise InputError(f"`measure`: unknown value {measure!r}{nearest(measure, MEASURES)}")
    if published is not None and not published.is_file():
        raise InputError(f"`published` {published}: no such file")
    numbers = {"rows": rows, "sample": sample}
    given: dict[str, Any] = {
        field: int(text) if text.isdecimal() else text for field, text in numbers.items() if text
    }
    given |= {"folds": folds} if folds is not None else {}
    given |= {"seeds": parse_integers("seeds", seeds)} if seeds else {}
    wanted = protocol_of(protocol, given)
    printed = published_folds(published) if published else []
    if report:
        if as_json:
            _print_json(read_outcomes(output), measure)
        else:
            print(render(read_board(output, measure, published)), end="")
        return
    chosen = list(KNOWN) if losses == "all" else list(dict.fromkeys(split_names(losses)))
    if not chosen:
        raise InputError(f"`losses`: no loss is named, got {losses!r}")
    methods = make_methods(chosen, parameters)
    access = data.access()
    options = encoder.options(offline=access.offline)
    names = list(dict.fromkeys(split_names(tasks)))
    if not names:
        raise InputError(f"`tasks`: no task is named, got {tasks!r}")
    labelled = [LabelledTexts.of(name, access, data.task_dir) for name in names]
    for each in labelled:
        list(wanted.splits(each.labels))  # raises InputError before any long work
    check_at_least(1, workers=workers)
    n_workers = worker_count(workers) if encoder.device in (None, "cpu") else 1
    experiments = [
        Experiment(method, each, wanted, model, options) for each in labelled for method in methods
    ]
    outcomes = run_experiments(experiments, output, workers=n_workers, bar=announced_bar)
    if as_json:
        _print_json(outcomes, measure)
    else:
        print(render(fewshot_board(fold_frame(outcomes, measure, printed))), end="")


def _print_json(outcomes: list[Outcome], measure: str | None) -> None:
    from polarity_bench.cross_validation.experiment import default_measure

    found = [
        {
            **each.spec,
            "measure": measure or default_measure(each.spec),
            "folds": each.folds,
            "seconds": each.seconds,
        }
        for each in outcomes
    ]
    print_json({"experiments": found})
