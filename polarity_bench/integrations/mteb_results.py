"""Results in mteb's layout: export of ours, and the scores of any others.

`mteb.ResultCache(OUTPUT).load_results()` reads the files
`OUTPUT/results/ORG__NAME/DIGEST/TASK.json` and `model_meta.json` in the same folder. mteb's tables
identify models only by name, and average all results of the same name. Therefore exported model
names also state the reference encoder, if it differs from the model, and the settings that differ
from a task's defaults.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import quiet
from polarity_bench.errors import InputError, check_known, warn
from polarity_bench.files import (
    check_writable,
    folder_name,
    json_bytes,
    mteb_name,
    read_json,
    write_atomically,
)
from polarity_bench.progress import Bar, no_bar
from polarity_bench.results.packed_results import MODEL_META, PROVENANCE, stored_bytes
from polarity_bench.results.result_files import read_results
from polarity_bench.values import count

if TYPE_CHECKING:
    from mteb.results import BenchmarkResults, TaskResult
    from pandas import DataFrame

_READ = ("main_score", "hf_subset", "languages", "mteb_version")
"""Keys of a score that are read."""
_NAMED = 3
"""Number of damaged files that a message names."""
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors that damaged files give."""


def read_mteb(
    folder: Path, benchmark: str = "", tasks: Sequence[str] = (), *, bar: Bar = no_bar
) -> DataFrame:
    """Read the main scores of any results that mteb wrote, of any models and tasks.

    Results of experiments are skipped, as mteb does. Revisions of one model share a row: mteb
    prefers the revision in its own metadata, and then the latest version of mteb. If a result
    occurs twice, the first one counts; those that mteb downloaded, below `remote`, come last.

    Args:
        folder: Folder that contains `MODEL/REVISION/TASK.json`, at any depth.
        benchmark: Name of a benchmark of mteb, whose tasks, splits and subsets are read.
        tasks: Names of tasks to read; () for all tasks.
        bar: Function that opens a progress bar.

    Returns:
        A table with a row for each model and a column for each task, both sorted by name. A score
        is the mean over all splits and subsets of the task that occur; NaN if one is missing. A
        task of the benchmark has no column if no model has all its splits and subsets.

    Raises:
        InputError: If the benchmark or a task is unknown, if a result is damaged, or if there are
            no results.

    Warns:
        InputWarning: If a result occurs twice.
    """
    from mteb.results import BenchmarkResults, ModelResult

    of_benchmark = benchmark_tasks(benchmark) if benchmark else {}
    tasks = tasks or [*of_benchmark]
    files = [
        file
        for file in folder.rglob("*.json")
        if len(parts := file.relative_to(folder).parts) > 2  # MODEL/REVISION/TASK.json
        and file.name != MODEL_META
        and not file.name.endswith(PROVENANCE)
        and parts[-3] != "experiments"  # MODEL/REVISION/experiments/NAME/TASK.json
    ]
    found = {file.stem for file in files}
    for task in tasks if found and not benchmark else ():
        check_known(task, found, f"`tasks`: {folder} has no result of {task!r}")
    files = [file for file in files if not tasks or file.stem in tasks]
    files.sort(key=lambda file: ("remote" in file.relative_to(folder).parts[:-3], file))
    of_model: dict[tuple[str, str], list[TaskResult]] = defaultdict(list)
    damaged, model_of, firsts = [], cache(_model_of), dict[tuple[str, ...], Path]()
    copies = list[tuple[Path, Path]]()
    # mteb warns of each subset that a file lacks. Here it is a missing score, which boards list.
    with quiet("mteb.results"), bar("reading results", len(files)) as advance:
        for file in files:
            advance(1)
            key = (model_of(file.parent), file.parent.name, file.stem)
            if (used := firsts.setdefault(key, file)) != file:
                copies.append((used, file))
                continue
            try:
                result = _read_result(file)
                _check_scores(result)
                if file.stem in of_benchmark:
                    result = result.validate_and_filter_scores(of_benchmark[file.stem])
                of_model[key[:2]].append(result)
            except _DAMAGE as error:
                damaged.append(f"{file} ({type(error).__name__}: {str(error).splitlines()[0]})")
    if copies:
        warn(
            f"{' and '.join(map(str, copies[0]))} have the same model, revision and task; the "
            f"first is used ({count(len(copies), 'file')} left out)"
        )
    if damaged:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        raise InputError(
            f"{', '.join(damaged[:_NAMED])}{more}: not a result that mteb can read; restore or "
            "delete the file"
        )
    if not files:
        raise InputError(
            f"{folder}: contains no results of mteb{' on these tasks' if tasks else ''}; expected "
            "files MODEL/REVISION/TASK.json"
        )
    by_revision = [
        ModelResult(model_name=name, model_revision=revision, task_results=results)
        for (name, revision), results in of_model.items()
    ]
    return _main_scores(BenchmarkResults(model_results=by_revision).join_revisions(), of_benchmark)


def benchmark_tasks(benchmark: str) -> dict[str, Any]:
    """Return the tasks of a benchmark of mteb, keyed by name.

    Raises:
        InputError: If mteb has no such benchmark.
    """
    import mteb

    known = [each.name for each in mteb.get_benchmarks()]
    check_known(benchmark, known, f"`benchmark`: mteb has no benchmark {benchmark!r}")
    return {task.metadata.name: task for task in mteb.get_benchmark(benchmark).tasks}


def _main_scores(results: BenchmarkResults, of_benchmark: Mapping[str, Any]) -> DataFrame:
    """Return the main scores by model and task, which are missing if any subset is missing."""
    import pandas as pd

    records = [
        (model.model_name, result.task_name, split, row["hf_subset"], row.get("main_score"))
        for model in results
        for result in model.task_results
        for split, rows in result.scores.items()
        for row in rows
    ]
    names = ["encoder", "task", "split", "subset", "score"]
    table = pd.DataFrame(records, columns=names).astype({"score": float})
    # `pivot_table` with `dropna=False` has a column for each combination of task, split and subset,
    # also if it does not occur: 139 million for "MTEB(Multilingual, v2)".
    by_subset = table.groupby(names[:-1])["score"].mean().unstack(names[1:-1])
    occurring = by_subset.loc[:, by_subset.notna().any()]
    # mteb adds the subsets that a result lacks without a score, also to an aggregate task, whose
    # results have only the subset "default".
    without_score = by_subset.columns.difference(occurring.columns)
    lacking = [
        task
        for task in without_score.get_level_values("task").unique()
        if task in of_benchmark and not of_benchmark[task].is_aggregate
    ]
    scores = occurring.T.groupby(level="task").mean(skipna=False).T
    lacking += [task for task in scores if task in of_benchmark and scores[task].isna().all()]
    return scores.drop(columns=lacking, errors="ignore")


def _read_result(file: Path) -> TaskResult:
    """Read a result with its main scores.

    mteb's own reader takes three times as long, because it validates all scores. It also reads
    older layouts and describes damage.
    """
    from mteb.results import TaskResult

    try:
        data = from_json(file.read_bytes())
        for rows in data["scores"].values():
            rows[:] = [{key: row[key] for key in _READ if key in row} for row in rows]
        return TaskResult.model_validate(data | {"evaluation_phases": None})
    except _DAMAGE:
        return TaskResult.from_disk(file)


def _check_scores(result: TaskResult) -> None:
    """Raise TypeError or OverflowError if a main score is no number. mteb takes any value."""
    for row in chain.from_iterable(result.scores.values()):
        if not isinstance(score := row.get("main_score"), int | float | None):
            raise TypeError(f"main_score: expected a number, got {score!r}")
        float(score or 0)  # an integer may be too large


def _model_of(folder: Path) -> str:
    """Return the name of a model from its metadata, or else from the folder of its revision."""
    meta = folder / MODEL_META
    name = read_json(meta).get("name") if meta.is_file() else None
    return str(name or folder.parent.name.replace("__", "/"))


def export_mteb(folder: Path, output: Path) -> list[Path]:
    """Export the results in a folder, with mteb's metadata for each encoder.

    Result files are copied byte by byte. Results with a limit are skipped, and also results with an
    undefined main score, which mteb's tables cannot handle. If several encoders have the same name,
    the first digits of the digest are appended to each name. Other files in the output folder are
    kept.

    Args:
        folder: Folder with results of polarity-bench.
        output: Folder of mteb's cache; it is created if it does not exist.

    Returns:
        The sorted paths of the exported results.

    Raises:
        InputError: If the folder contains no results that mteb can read, a result is damaged, two
            results are of the same encoder and task, or the output folder is not writable.

    Warns:
        InputWarning: If results are skipped.
    """
    if not folder.is_dir():
        raise InputError(
            f"the results folder {folder} does not exist; run `polarity-bench run` first"
        )
    results = list(read_results(folder))
    stored = [r for r in results if r.limit is None and not math.isnan(r.main.mean)]
    if not stored:
        raise InputError(
            f"{folder}: no results that mteb can read; the folder is empty, or each result has a "
            "`limit` or an undefined main score"
        )
    if n_out := len(results) - len(stored):
        warn(
            f"{folder}: skipped {count(n_out, 'result')} with a `limit` or an undefined main score"
        )
    names = mteb_names(result.key.encoder for result in stored)
    marks = defaultdict(set)
    for result in stored:
        if result.key.reference is not None and not result.settings:
            marks[result.key.encoder.digest].add(_mark_of(result.key.reference))
    planned: dict[Path, tuple[Path, Any]] = {}
    for result in stored:
        encoder = result.key.encoder
        if result.settings:
            mark = folder_name(result.settings)
        elif result.key.reference is not None:
            mark = _mark_of(result.key.reference)
        else:
            # The task uses no reference. If the encoder's other results share one reference, this
            # result gets the same model name, so that mteb shows them in one row.
            mark = "".join(marks[encoder.digest]) if len(marks[encoder.digest]) == 1 else ""
        meta = _model_meta(encoder, "-".join(filter(None, [names[encoder.digest], mark])))
        place = output / "results" / meta.model_name_as_path() / encoder.digest
        target = place / f"{result.result_name}.json"
        if target in planned:
            raise InputError(
                f"{planned[target][0]} and {result.path} are results of the same encoder on the "
                "same task; remove one of them"
            )
        planned[target] = result.path, meta
    for target, (path, meta) in planned.items():
        check_writable(target.parent)
        write_atomically(target, stored_bytes(path))
        write_atomically(target.with_name(MODEL_META), _as_json(meta))
    return sorted(planned)


def _mark_of(reference: EncoderId) -> str:
    """Return the suffix of a model name that states the reference encoder."""
    return f"by-{folder_name(reference.name.rpartition('/')[2])}"


def mteb_names(encoders: Iterable[EncoderId]) -> dict[str, str]:
    """Return unique model names that mteb accepts, keyed by the digest of the encoder.

    Example:
        >>> mteb_names([EncoderId("org/a", "1")])
        {'394fa72d90451dbd': 'org/a'}
    """
    names = {encoder.digest: mteb_name(encoder.name) for encoder in encoders}
    folders = {digest: name.replace("/", "__").casefold() for digest, name in names.items()}
    n_sharing = Counter(folders.values())
    return {d: f"{n}-{d[:8]}" if n_sharing[folders[d]] > 1 else n for d, n in names.items()}


@cache
def _model_meta(encoder: EncoderId, name: str) -> Any:
    """Return mteb's metadata for an encoder under a name."""
    from mteb.models import ModelMeta

    blank: dict[str, Any] = ModelMeta.create_empty().model_dump()
    values = {
        "name": name,
        "revision": encoder.digest,
        "max_tokens": encoder.max_tokens,
        "similarity_fn_name": encoder.compared_by,
        "use_instructions": bool(encoder.prompt),
    }
    return ModelMeta.model_validate(blank | values)


def _as_json(meta: Any) -> bytes:
    return json_bytes(meta.model_dump(mode="json", exclude={"loader"}) | {"loader": None})
