"""Method rows, which average over seeds and show one strength of a dial.

Encoders form a method if `board.toml` lists them under `[[method]]`, or if their recorded
training runs differ only in the seed. Any other encoder is a method by itself.

The strength of a dial is chosen on the test data of the shown tasks, by the mean over seeds. For
this reason, a row with a chosen strength is never ranked and never bold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean

from polarity_bench.boards.config import Method
from polarity_bench.boards.records import Row, entry_of
from polarity_bench.results.curve import Curve
from polarity_bench.results.frame import Record, score_columns
from polarity_bench.results.result_files import Result, names_of
from polarity_bench.scores import ScoreKey
from polarity_bench.values import digest_of, shortest

Cells = Mapping[tuple[str, str], Mapping[str, Record]]
"""Records by row and place, and then by metric (see `boards.records`)."""


def methods_of(results: Sequence[Result], listed: Sequence[Method]) -> dict[str, str]:
    """Return the name of each encoder's method, by digest; encoders without a method are left out.

    Encoders that no method lists form a method if their recorded training runs differ only in the
    seed. The method has their name without the seed, or else that of the first encoder.
    """
    by_name = {name: method.name for method in listed for name in method.encoders}
    by_training: dict[str, dict[int, str]] = {}
    for result in results:
        name, training = result.key.encoder.name, dict(result.training or {})
        seed = training.pop("seed", None)
        if seed is not None and not {name, name.rpartition("/")[2]} & by_name.keys():
            by_training.setdefault(digest_of(training), {})[seed] = name
    for seeds in by_training.values():
        names = sorted({*seeds.values()})
        if len(names) > 1:
            bare = {re.sub(rf"[-_. ]*(?<!\d){seed}$", "", name) for seed, name in seeds.items()}
            is_name = len(bare) == 1 and not bare & {"", *by_name.values()}
            by_name |= dict.fromkeys(names, bare.pop() if is_name else names[0])
    return {
        result.key.encoder.digest: by_name[name]
        for result in results
        for name in names_of(result.key.encoder)
        if name in by_name
    }


def dialled_runs(
    rows: Sequence[Row],
    cells: Cells,
    curves: Sequence[Curve],
    tasks: Sequence[str],
    weighting: str,
) -> list[Row]:
    """Return a run for each k and each encoder with curves for all of these tasks.

    A run contains the rows of the settings that all of its curves share, by setting, and the front
    over all settings of each curve, by task. It is left out if the row of a setting, or the score
    of a row, is missing.
    """
    by_entry = {(row["encoder"], row["reference"] or row["encoder"], row["k"]): row for row in rows}
    shares: dict[tuple[str, str, str, int], dict[str, Curve]] = {}
    for curve in curves:
        for k in curve.ks:
            share = (curve.encoder, curve.dial, curve.reference.digest, k)
            shares.setdefault(share, {})[curve.task] = curve
    runs = []
    for (_, dial, reference, k), by_task in shares.items():
        if not tasks or not set(tasks) <= by_task.keys():
            continue
        of_tasks = [by_task[task] for task in tasks]
        common = set.intersection(*({point.at for point in curve.points} for curve in of_tasks))
        settings = {
            point.at: by_entry.get((point.encoder, reference, k), {"row": ""})
            for point in of_tasks[0].points
            if point.at in common
        }
        places = {(row["row"], task) for row in settings.values() for task in tasks}
        if places and cells.keys() >= places:
            front = ScoreKey("front", k, weighting)
            fronts = {curve.task: score_columns(front, curve.fronts[front]) for curve in of_tasks}
            run = {"name": of_tasks[0].name, "dial": dial, "reference": reference}
            runs.append(run | {"settings": settings, "of_tasks": fronts})
    return runs


def curve_rows(runs: Sequence[Row], cells: Cells) -> list[Row]:
    """Return a row for each run, with its scores at the setting with the highest mean joint.

    Front covers all settings.
    """
    rows: list[Row] = []
    for run in runs:
        at, _ = _best_setting([run], cells)
        point, about = run["settings"][at], {"role": "curve", "encoder": "", "detail": ""}
        about |= {"name": f"{run['name']} (best {run['dial']} {shortest(at)})", "point": point}
        about |= {"row": f"curve {len(rows)}", "reference": run["reference"]}
        rows.append(point | about | {"fronts": _fronts([run], at)})
    return rows


def _fronts(runs: Sequence[Row], at: float) -> dict[tuple[str, str], Record]:
    """Return the front over all settings of runs, by the row at one setting and the task."""
    of_runs = ((run["settings"][at]["row"], run["of_tasks"]) for run in runs)
    return {(row, task): front for row, fronts in of_runs for task, front in fronts.items()}


def _best_setting(
    runs: Sequence[Row], cells: Cells, keep: float | None = None
) -> tuple[float, int]:
    """Return the best setting that all runs share, and the number of shared settings.

    Args:
        runs: Runs with different seeds.
        cells: Records of rows.
        keep: Minimum retention, as a fraction. Settings that reach it are preferred, and then the
            highest P. By default, the highest joint is preferred.
    """

    def worth(at: float) -> tuple[bool, float, float]:
        places = [(run["settings"][at]["row"], task) for run in runs for task in run["of_tasks"]]
        metrics = ("joint", "polarity", "retention")
        of_metrics = ([cells[place][metric]["value"] for place in places] for metric in metrics)
        joint, p, retention = (
            -math.inf if any(map(math.isnan, each)) else fmean(each) for each in of_metrics
        )
        return (True, joint, p) if keep is None else (retention >= keep, p, joint)

    shared = sorted(set.intersection(*(set(run["settings"]) for run in runs)))
    return max(shared, key=worth), len(shared)


def method_rows(
    rows: Sequence[Row],
    dialled: Sequence[Row],
    cells: Cells,
    keep: float | None,
    methods: Mapping[str, str],
) -> list[Row]:
    """Return one row for each method, with the keys of the averaged rows as its `members`.

    Args:
        rows: The rows of the encoders.
        dialled: The runs with a dial.
        cells: Records of rows.
        keep: Minimum retention of a setting, see `_best_setting`.
        methods: Names of methods, by digest of the encoder.
    """
    taken = {r["row"] for run in dialled for r in run["settings"].values() if r["reference"]}
    alone = [row for row in sorted(rows, key=entry_of) if row["row"] not in taken]
    runs = [*dialled, *({"name": row["name"], "settings": {math.nan: row}} for row in alone)]
    by_method: dict[tuple[str, str, int], list[Row]] = {}
    for number, run in enumerate(runs):
        first = next(iter(run["settings"].values()))
        name = methods.get(first["encoder"])
        key = (name, first["reference"], first["k"]) if name else (run["name"], str(number), 0)
        by_method.setdefault(key, []).append(run)
    return [_method_row(key, of, cells, keep) for key, of in by_method.items()]


def _method_row(
    key: tuple[str, str, int], runs: Sequence[Row], cells: Cells, keep: float | None
) -> Row:
    runs = [run for run in runs if "dial" in run] or runs
    singles: list[Row] = [row for run in runs for row in run["settings"].values()]
    made: Row = {"row": f"method {key}", "name": key[0], "role": "method"}
    members = singles
    if "dial" in runs[0]:
        at, n = _best_setting(runs, cells, keep)
        members = [run["settings"][at] for run in runs]
        made |= {"dial": runs[0]["dial"], "strength": at, "n_strengths": n}
        made["fronts"] = _fronts(runs, at)
    elif len(members) == 1 and key[0] == members[0]["name"]:
        return members[0]
    made["singles"] = [row["row"] for row in singles]
    return members[0] | made | {"members": [row["row"] for row in members]}
