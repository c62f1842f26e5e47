"""A board: many encoders side by side, from their stored results.

One table sums up, then each kind and protocol has its own, and each task that ranks. Means are over
the tasks that every row has, so that they compare; where there is none, only over all. What is
measured against a reference (S, retention, joint) competes only in rows that share a reference
which is another encoder than theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from polarity_bench.boards.cells import Group, lay_in_cells
from polarity_bench.boards.chosen import Stored, bearing, board_file, names_of
from polarity_bench.boards.drawings import trained
from polarity_bench.boards.glossary import (
    BOLD_NOTE,
    BOUNDS_NOTE,
    CURVES_NOTE,
    FRONT_NOTE,
    RANDOM_NOTE,
    RANKED,
    RIVALS_NOTE,
    SCORES_NOTE,
    UNSEEN_NOTE,
)
from polarity_bench.boards.planes import Published, planes, read_published
from polarity_bench.boards.rows import Row, bound_rows, curve_rows, encoder_rows, ordered
from polarity_bench.boards.table import Board, Column, Table
from polarity_bench.boards.unseen import side_by_side
from polarity_bench.curves.curve import Curve
from polarity_bench.curves.files import read_curves
from polarity_bench.errors import InputError
from polarity_bench.kinds import KINDS
from polarity_bench.results import Result, read_results
from polarity_bench.types import Score, Weighting

_BY_REFERENCE = frozenset({"similarity", "retention", "joint", "front"})
_WITH_INTERVAL = frozenset({"joint", "front"})


def read_board(
    folder: Path,
    weighting: Weighting | None = None,
    *,
    title: str | None = None,
    tasks: Sequence[str] = (),
    models: Sequence[str] = (),
) -> Board:
    """Lay out the results below a folder, and their curves.

    There, `board.toml` gives title, introduction, weighting and measures, and `published.csv`
    points for the figure.

    Args:
        folder: Where the results are.
        weighting: Of the ranks, in place of the file's, which is linear where it says nothing.
        title: In place of the file's.
        tasks: Only these.
        models: Only encoders of these names, last parts of names or first 8 digits of digests.

    Raises:
        InputError: If results are missing or do not go together, or the board's file is wrong.
    """
    described = board_file(folder / "board.toml")
    said: Weighting = described.pop("weighting", "linear")
    if title is not None:
        described["title"] = title
    found = list(read_results(folder))
    whole = [each for each in found if each[1].limit is None]
    if not whole:
        remedy = "without a `limit`, with which results are on no board" if found else "first"
        raise InputError(f"the folder {folder} holds no results; `polarity-bench run` {remedy}")
    chosen = bearing(whole, "tasks", tasks, lambda result: [result.task])
    chosen = bearing(chosen, "models", models, lambda result: names_of(result.key.encoder))
    curves = list(read_curves(folder, [result for _, result in found]))
    published = read_published(folder / "published.csv", {result.task for _, result in whole})
    return board(chosen, weighting or said, curves=curves, published=published, **described)


def board(
    stored: Iterable[Stored],
    weighting: Weighting = "linear",
    *,
    curves: Sequence[Curve] = (),
    published: Sequence[Published] = (),
    title: str = "Polarity leaderboard",
    introduction: str = "",
    measures: Mapping[str, str] = MappingProxyType({}),
) -> Board:
    """Lay results out side by side; those with a limit are no results, and left out.

    Args:
        stored: The results, with their files.
        weighting: Of the ranks.
        curves: What some of the results make together; of one that is not there whole, nothing.
        published: Points of others, for the planes.
        title: Of the board.
        introduction: What its author says of it, in markdown.
        measures: What is shown of kinds that do not rank, by kind: titles of their columns, in
            place of the main score.

    Raises:
        InputError: If results of one task were made from different versions of it, of its data or
            its protocol, or two that are not one would share a cell; names both files.
    """
    whole = sorted((each for each in stored if each[1].limit is None), key=lambda s: str(s[0]))
    if not whole:
        return Board(title, introduction, (), ())
    groups = lay_in_cells(whole, measures)
    plain = [group for group in groups if not KINDS[group.kind].ranks]
    retrieval = [group.tasks for group in groups if KINDS[group.kind].ranks]
    tasks = {task: cells for group in retrieval for task, cells in group.items()}
    ranked = Group("polarity", "", tasks, weighting)
    itself = all(entry.reference == "" for entry in ranked.entries)
    names = _names([result for _, result in whole])
    curves = _told_apart([curve for curve in curves if _is_there(curve, ranked)])
    rows = [*encoder_rows(ranked, names), *_unranked(ranked, plain, names)]
    bounds = bound_rows(ranked, names)
    averaged, by = ranked.averaged, "polarity" if itself else "joint"

    def together(of: Sequence[str]) -> list[Row]:
        return [*ordered([*rows, *curve_rows(ranked, curves, of)], averaged, by, names), *bounds]

    shown = together(averaged)
    tables = [
        _means(ranked, plain, shown, names),
        *(_plain_table(group, shown, names) for group in plain),
        *(_pair_table(pair, ranked, shown, names) for pair in ranked.pairs),
        *(_ranked_table(task, together([task]), names) for task in ranked.tasks),
    ]
    notes = [
        *_ranked_notes(weighting, itself, shown),
        _mean_note(groups),
        *([UNSEEN_NOTE] if ranked.pairs else ()),
        BOLD_NOTE,
    ]
    drawn = planes(
        shown,
        tasks,
        names,
        weighting,
        curves=curves,
        published=published,
        trained=trained(ranked),
    )
    return Board(title, introduction, tables, notes, tuple(drawn))


def _is_there(curve: Curve, ranked: Group) -> bool:
    """Whether a curve is of whole results, all of which the board holds."""
    there = {entry.encoder for entry in ranked.tasks.get(curve.task, {})}
    return curve.limit is None and {point.encoder for point in curve.points} <= there


def _told_apart(curves: Sequence[Curve]) -> list[Curve]:
    """Let curves of encoders of one name show whose they are."""
    encoders: dict[str, set[str]] = {}
    for curve in curves:
        encoders.setdefault(curve.name, set()).add(curve.encoder)
    return [
        replace(curve, name=f"{curve.name} @{curve.encoder[:8]}")
        if len(encoders[curve.name]) > 1
        else curve
        for curve in curves
    ]


def _unranked(ranked: Group, plain: Sequence[Group], names: Mapping[str, str]) -> list[Row]:
    """The rows of encoders that no task of retrieval was asked of."""
    known = {entry.encoder for entry in ranked.entries}
    others = {entry for group in plain for entry in group.entries if entry.encoder not in known}
    return [Row(names[entry.encoder], entry, {}) for entry in others]


def _names(results: Sequence[Result]) -> dict[str, str]:
    """Name every encoder by its digest, by all its names; encoders of one name show theirs."""
    found: dict[str, set[str]] = {}
    for result in results:
        for encoder in filter(None, (result.key.encoder, result.key.reference)):
            found.setdefault(encoder.digest, set()).add(encoder.label)
    labels = {digest: ", ".join(sorted(names)) for digest, names in found.items()}
    counts = Counter(labels.values())
    return {"": "itself"} | {
        digest: f"{label} @{digest[:8]}" if counts[label] > 1 else label
        for digest, label in labels.items()
    }


def _means(
    ranked: Group, plain: Sequence[Group], rows: Sequence[Row], names: Mapping[str, str]
) -> Table:
    averaged = ranked.averaged
    columns = (
        _columns(4, lambda row, metric: row.mean(averaged, metric), rows) if ranked.tasks else []
    )
    for group in plain:
        means = [group.mean(row.entry.encoder) for row in rows]
        several = len({row.entry.encoder for row, m in zip(rows, means, strict=True) if m}) > 1
        columns.append(
            Column.of(group.title(group.n_averaged), means, rivals=[""] * len(rows) * several)
        )
    over = f" over {ranked.n_averaged.replace('task', 'polarity task')}" if ranked.tasks else ""
    return Table(f"Means{over}", _heads(rows, names), columns, [row.role for row in rows])


def _plain_table(group: Group, rows: Sequence[Row], names: Mapping[str, str]) -> Table:
    known = {entry.encoder for entry in group.entries}
    encoders = [e for e in dict.fromkeys(row.entry.encoder for row in rows) if e in known]
    rivals = [""] * len(encoders)
    columns = [
        Column.of(task, [group.score(task, encoder) for encoder in encoders], rivals=rivals)
        for task in group.tasks
    ]
    of = "" if group.averaged == list(group.tasks) else f" of {', '.join(group.averaged)}"
    means = [group.mean(encoder) for encoder in encoders]
    columns.append(Column.of(f"mean{of}", means, rivals=rivals))
    return Table(group.title(), [("encoder", [names[encoder] for encoder in encoders])], columns)


def _ranked_table(task: str, rows: Sequence[Row], names: Mapping[str, str]) -> Table:
    rows = [row for row in rows if row.scores.get(task)]
    columns = _columns(5, lambda row, metric: row.score(task, metric), rows)
    return Table(task, _heads(rows, names), columns, [row.role for row in rows])


def _pair_table(
    pair: tuple[str, str], ranked: Group, rows: Sequence[Row], names: Mapping[str, str]
) -> Table:
    """Lay a task beside its twin of unseen sources."""
    both = [ranked.tasks[task] for task in pair]
    rows = [row for row in rows if any(row.entry in cells for cells in both)]
    results = [
        [cells[row.entry][1] if row.entry in cells else None for row in rows] for cells in both
    ]
    ks = [row.entry.k for row in rows]
    rivals = {m: [_rival(row, m) for row in rows] for m in ("polarity", "similarity")}
    return side_by_side(pair, _heads(rows, names), results, ks, ranked.weighting, rivals)


def _columns(
    n: int, score: Callable[[Row, str], Score | None], rows: Sequence[Row]
) -> list[Column]:
    """Lay out the first n metrics, and front where a row has it."""
    shown = list(RANKED.items())[: n + 1]
    if not _has_front(rows):
        shown = [item for item in shown if item[1] != "front"]
    return [
        Column.of(
            title,
            [score(row, metric) for row in rows],
            intervals=metric in _WITH_INTERVAL,
            rivals=[_rival(row, metric) for row in rows],
        )
        for title, metric in shown
    ]


def _rival(row: Row, metric: str) -> str | None:
    """Scores compete at one k, some under one reference only; of a curve, its front alone."""
    referring = metric in _BY_REFERENCE
    entry = row.entry
    competes = row.role == "encoder" or (row.role == "curve" and metric == "front")
    if not competes or (referring and not entry.reference):
        return None
    return f"{entry.reference if referring else ''}@{entry.k}"


def _has_front(rows: Sequence[Row]) -> bool:
    return any("front" in scores for row in rows for scores in row.scores.values())


def _heads(rows: Sequence[Row], names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    return [
        ("encoder", [row.name for row in rows]),
        ("reference", [names[row.entry.reference] for row in rows]),
        ("k", [str(row.entry.k) if row.entry.k else "-" for row in rows]),
    ]


def _mean_note(groups: Sequence[Group]) -> str:
    """Say which tasks no mean is over, because a row lacks them."""
    left_out = [
        f"{task} ({group.protocol})"
        for group in groups
        for task in group.own
        if task not in group.averaged
    ]
    if not left_out:
        return "A mean stands where an encoder has every task."
    return f"Means are over the tasks that every row has, without {', '.join(left_out)}."


def _ranked_notes(weighting: Weighting, itself: bool, rows: Sequence[Row]) -> list[str]:
    if not any(row.scores for row in rows):
        return []
    transform = ": every encoder is its own reference, so that joint is a transform of P"
    order = f"Rows are sorted by {'P' + transform if itself else 'joint'}."
    roles = {row.role for row in rows}
    notes = [f"Ranks are weighted {weighting}ly. {SCORES_NOTE}", order, RIVALS_NOTE]
    notes += [FRONT_NOTE] if _has_front(rows) else []
    notes += [CURVES_NOTE] if "curve" in roles else []
    if bounds := roles & {"oracle", "random"}:
        notes.append(BOUNDS_NOTE if "oracle" in bounds else RANDOM_NOTE)
    return notes
