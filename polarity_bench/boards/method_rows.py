"""Method rows, which average over seeds and show one strength of a dial.

Encoders form a method if `board.toml` lists them under `[[method]]`, or if their recorded
training runs differ only in the seed. Any other encoder is a method by itself.

The strength of a dial is chosen on the test data of the shown tasks, by the mean over seeds. For
this reason, a row with a chosen strength is never ranked and never bold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from polarity_bench.boards.config import BoardFile, Method
from polarity_bench.boards.rows import BoardRow, Run, dialled_runs, scores_on_curve, worth
from polarity_bench.results.curve import Curve
from polarity_bench.results.result_files import Result, names_of
from polarity_bench.values import digest_of


def methods_of(results: Sequence[Result], listed: Sequence[Method]) -> dict[str, str]:
    """Return the name of each encoder's method, by digest; encoders without a method are left out.

    Encoders that no method lists form a method if their recorded training runs differ only in the
    seed.

    Args:
        results: The results of a board.
        listed: The methods in `board.toml`.
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
            by_name |= dict.fromkeys(names, names[0].rstrip("-_. 0123456789") or names[0])
    return {
        result.key.encoder.digest: by_name[name]
        for result in results
        for name in names_of(result.key.encoder)
        if name in by_name
    }


def method_rows(
    rows: Sequence[BoardRow],
    curves: Sequence[Curve],
    config: BoardFile,
    tasks: Sequence[str],
    methods: Mapping[str, str],
) -> list[BoardRow]:
    """Return one row for each method, with the averaged rows as its `members`.

    Args:
        rows: The rows of the encoders.
        curves: Curves over the strengths of encoders.
        config: The content of `board.toml`. Among the strengths that reach its minimum retention
            `keep`, the strength with the highest P is chosen. Without `keep`, the strength with the
            highest joint is chosen.
        tasks: Tasks over which scores are averaged to choose a strength.
        methods: Names of methods, by digest of the encoder.
    """
    by_name = sorted(rows, key=lambda row: (row.name, row.entry))
    runs = dialled_runs(by_name, curves, tasks)
    taken = {row.entry for run in runs for row in run.rows.values() if row.entry.reference}
    runs += [Run(row.name, {math.nan: row}) for row in by_name if row.entry not in taken]
    by_method: dict[tuple[str, str, int], list[Run]] = {}
    for number, run in enumerate(runs):
        entry = next(iter(run.rows.values())).entry
        name = methods.get(entry.encoder)
        key = (name, entry.reference, entry.k) if name else (run.name, str(number), 0)
        by_method.setdefault(key, []).append(run)
    return [_method_row(name, of, config, tasks) for (name, _, _), of in by_method.items()]


def _method_row(
    name: str, runs: Sequence[Run], config: BoardFile, tasks: Sequence[str]
) -> BoardRow:
    runs = [run for run in runs if run.curves] or runs
    if not runs[0].curves:
        members = [next(iter(run.rows.values())) for run in runs]
        if len(members) == 1 and name == members[0].name:
            return members[0]
        return _combined(name, members, members)
    shared = sorted(set.intersection(*(set(run.rows) for run in runs)))
    chosen = max(shared, key=lambda at: worth([run.rows[at] for run in runs], tasks, config.keep))
    members = []
    for run in runs:
        row = run.rows[chosen]
        scores = {**row.scores, **scores_on_curve(run, chosen, config.weighting)}
        members.append(replace(row, scores=scores))
    by_entry = {row.entry: row for run in runs for row in run.rows.values()}
    return replace(
        _combined(name, members, list(by_entry.values())),
        strength=chosen,
        n_strengths=len(shared),
        dial=runs[0].curves[0].dial,
    )


def _combined(name: str, members: Sequence[BoardRow], singles: Sequence[BoardRow]) -> BoardRow:
    first = members[0]
    row = BoardRow(
        name, first.entry, {}, "method", members=members, singles=singles, detail=first.detail
    )
    tasks = [task for task in first.scores if all(task in member.scores for member in members)]
    scores = {t: {m: s for m in first.scores[t] if (s := row.mean([t], m))} for t in tasks}
    return replace(row, scores=scores)
