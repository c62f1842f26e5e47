"""Rows of a board of results: encoders, curves, published numbers and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Literal

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.metrics.similarity import joint, retention
from polarity_bench.render.format import percent
from polarity_bench.results.aggregate import over_seeds
from polarity_bench.results.comparability import MAIN, Entry, Group, mean_of
from polarity_bench.results.curve import Curve
from polarity_bench.results.published import PublishedNumber, footnote, footnote_numbers
from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey, Weighting
from polarity_bench.tasks.types.polarity.scoring import CLIPPED, REFERRING, unclipped
from polarity_bench.values import grouped, shortest

Worth = tuple[bool, float, float]
Role = Literal["encoder", "method", "curve", "oracle", "random", "published"]
MEASURED: frozenset[Role] = frozenset({"encoder", "method", "curve"})
"""Roles of rows with scores measured here: all except published numbers and bounds."""


@dataclass(frozen=True)
class BoardRow:
    """A row of a board's tables.

    Attributes:
        name: Display name of the row.
        entry: Encoder, reference and k. The encoder is '' for curves, bounds and published rows.
        scores: Scores at the row's k, by task (see `Group.place`) and metric.
        role: Kind of row.
        point: For a curve, the row of its best point.
        opposes: Whether the strength is negative. Such an encoder is meant to retrieve the opposite
            polarity and therefore has a low P. It is not ranked.
        printed: Published numbers of the row, by task and metric.
        footnote: Note on the row, shown below a table, in markdown.
        detail: Key of the row's provenance in the board's details.
        members: For a method, the averaged rows: one for each seed, at the chosen strength.
        singles: For a method, the rows of all its encoders, at every strength.
        strength: For a method with a dial, the chosen strength; otherwise NaN.
        n_strengths: Number of strengths from which the strength was chosen.
        dial: Name of the dial, `strength` or `weight`; '' for rows without a dial.
    """

    name: str
    entry: Entry
    scores: Mapping[str, Mapping[str, Score]]
    role: Role = "encoder"
    point: BoardRow | None = None
    opposes: bool = False
    printed: Mapping[tuple[str, str], PublishedNumber] = field(default_factory=dict)
    footnote: str = ""
    detail: str = ""
    members: Sequence[BoardRow] = ()
    singles: Sequence[BoardRow] = ()
    strength: float = math.nan
    n_strengths: int = 1
    dial: str = ""

    def score(self, task: str, metric: str) -> Score | None:
        """Return the score on a task by a metric; None if the score is missing."""
        return self.scores.get(task, {}).get(metric)

    def mean(self, tasks: Sequence[str], metric: str, shown: str = "") -> Score | None:
        """Return the mean over tasks, and over the seeds of a method; None if a score is missing.

        Joint and front are clipped at 0 after they are averaged. If clipped scores were averaged,
        an encoder at chance would have a mean above chance.

        Args:
            tasks: Tasks to average.
            metric: Metric to average.
            shown: Metric that `MAIN` stands for, whose range limits the interval over seeds.
        """
        if len(tasks) == 1 and not self.members:
            return self.score(tasks[0], metric)
        means = self._seed_means(tasks, metric)
        if not means:
            return None
        mean = over_seeds(means, shown or metric) if len(means) > 1 else means[0]
        if metric not in CLIPPED:
            return mean
        clipped, low, high = np.maximum([mean.mean, *mean.ci95], 0.0).tolist()  # NaN is kept.
        return replace(mean, mean=clipped, ci95=(low, high))

    def seed_std(self, tasks: Sequence[str], metric: str) -> float | None:
        """Return the sample standard deviation over seeds; None for a single seed."""
        values = [mean.mean for mean in self._seed_means(tasks, metric)]
        return stdev(values) if len(values) > 1 else None

    def _seed_means(self, tasks: Sequence[str], metric: str) -> list[Score]:
        """Return the unclipped mean over tasks for each seed; [] if a seed lacks a score."""
        means = [row.unclipped_mean(tasks, metric) for row in self.members or [self]]
        known = [mean for mean in means if mean]
        return known if len(known) == len(means) else []

    def unclipped_mean(self, tasks: Sequence[str], metric: str) -> Score | None:
        """Return the mean of a metric over tasks, before clipping at 0.

        Return None if a score is missing. The row must have no members.
        """
        scores = [self.scores.get(task, {}) for task in tasks]
        if not scores or any(metric not in each for each in scores):
            return None
        if self.role == "curve" and metric == "front":
            # `unclipped` must not combine the front, which covers all points of the curve, with
            # scores of the best point.
            scores = [{metric: each[metric]} for each in scores]
        return mean_of([unclipped(each, metric) for each in scores])


def encoder_rows(ranked: Group, plain: Sequence[Group], names: Mapping[str, str]) -> list[BoardRow]:
    """Return a row for each encoder, reference and k.

    Encoders without retrieval results come last.

    Args:
        ranked: The retrieval tasks.
        plain: The other tasks, one group for each task type and protocol.
        names: Display names of encoders, by digest.
    """
    known = {entry.encoder for entry in ranked.entries}
    others = {entry for group in plain for entry in group.entries if entry.encoder not in known}
    rows = []
    for entry in [*ranked.entries, *others]:
        cells = ((group, task) for group in [ranked, *plain] for task in group.tasks)
        scores = {group.place(task): at for group, task in cells if (at := group.at(task, entry))}
        retrieved = filter(None, (ranked.result(task, entry) for task in ranked.tasks))
        opposes = any((result.key.encoder.strength or 0) < 0 for result in retrieved)
        detail = "-".join(filter(None, [entry.encoder, entry.reference, str(entry.k or "")]))
        rows.append(BoardRow(names[entry.encoder], entry, scores, opposes=opposes, detail=detail))
    return rows


def rival_key(row: BoardRow, metric: str) -> str | None:
    """Return a key that comparable rows share for a metric; None if the row is not ranked.

    Retrieval scores are comparable at the same k. If a score depends on the reference, rows must
    also have the same reference, which must be another encoder. Non-retrieval scores are always
    comparable. Curves, and methods with a chosen strength, are ranked only by front.
    """
    is_chosen = row.role == "curve" or row.dial
    competes = row.role in MEASURED and (metric == "front" or not is_chosen)
    if metric == MAIN:
        return "" if competes else None
    is_referring, reference = metric in REFERRING, row.entry.reference
    if not competes or row.opposes or (is_referring and not reference):
        return None
    return f"{reference if is_referring else ''}@{row.entry.k}"


def ordered(
    rows: Sequence[BoardRow],
    score_of: Callable[[BoardRow], Score | None],
    names: Mapping[str, str],
    group_by: str = "",
) -> list[BoardRow]:
    """Sort rows by a score, best first. Rows without the score come last, sorted by name.

    A curve comes before the row of its best point.

    Args:
        rows: Rows of one table.
        score_of: Function that returns the score to sort by.
        names: Display names of encoders, by digest.
        group_by: Property by which rows are grouped first, `reference` or `k`; '' for none.
    """

    def rank(row: BoardRow) -> tuple[str, int, float, str, str, bool, Entry]:
        reference = names[row.entry.reference] if group_by == "reference" else ""
        k = row.entry.k if group_by == "k" else 0
        score = score_of(row.point or row)
        mean = math.inf if score is None or math.isnan(score.mean) else -score.mean
        encoder = row.role == "encoder"
        return reference, k, mean, row.name, names[row.entry.reference], encoder, row.entry

    return sorted(rows, key=rank)


# Published numbers


def published_rows(published: Sequence[PublishedNumber], groups: Sequence[Group]) -> list[BoardRow]:
    """Return the rows of published numbers, each with a footnote.

    Numbers with the same name, k, source and note share a row. If a number is published with both
    weightings, only the number with the board's weighting is shown.

    Args:
        published: The published numbers.
        groups: The groups of the board; the retrieval tasks come first.
    """
    weighting = groups[0].weighting
    by_board = {each.question for each in published if each.key.weighting == weighting}
    published = [
        each
        for each in published
        if each.key.weighting == weighting or each.question not in by_board
    ]
    shares = grouped(published, lambda each: (each.name, each.key.k or 0, each.source, each.note))
    numbers = footnote_numbers(published)
    rows = []
    for (name, k, source, note), members in shares.items():
        number = numbers[source, note]
        printed = {place: each for each in members for place in places_of(each, groups)}
        scores: dict[str, dict[str, Score]] = {}
        for (task, metric), each in printed.items():
            scores.setdefault(task, {})[metric] = each.score
        row = BoardRow(
            f"{name}, as published [{number}]",
            Entry("", "", k),
            scores,
            "published",
            printed=printed,
            footnote=footnote(number, source, note),
            detail=f"published {number}",
        )
        rows.append(row)
    return rows


def places_of(number: PublishedNumber, groups: Sequence[Group]) -> Iterator[tuple[str, str]]:
    """Yield the task and metric of each cell that shows a published number.

    A number with the other weighting is shown in the cell of the board's weighting.
    """
    for group in groups:
        if number.task in group.tasks:
            metric = number.key.metric if group.ranks else MAIN
            shown = replace(number.key, weighting=group.weighting)
            is_shown = shown == group.key(number.task, metric, number.key.k or 0)
            if is_shown and (group.ranks or number.protocol in {"", group.protocol}):
                yield group.place(number.task), metric


def difference_to_twin(printed: PublishedNumber | None, results: Mapping[Entry, Result]) -> str:
    """Return the twin's score minus the published number, as text; '' without such a score.

    Raises:
        InputError: If the score depends on the reference, and the twin was evaluated with several.
    """
    if printed is None:
        return ""
    by_reference = {
        entry.reference: score.mean
        for entry, result in results.items()
        if entry.encoder == printed.twin and (score := result.scores.get(printed.key))
    }
    if len(by_reference) > 1 and printed.key.metric in REFERRING:
        raise InputError(
            f"{printed.where}: the twin was evaluated with {len(by_reference)} references, and "
            f"{printed.key} depends on the reference; leave `twin` empty"
        )
    measured = next(iter(by_reference.values()), None)
    return "" if measured is None else f" ({percent(measured - printed.value, sign='+')})"


# Curves


@dataclass(frozen=True)
class Run:
    """Rows of one encoder by setting of its dial, and its curves, one for each task.

    An encoder without a dial has a single row and no curves.
    """

    name: str
    rows: Mapping[float, BoardRow]
    curves: Sequence[Curve] = ()


def dialled_runs(
    rows: Sequence[BoardRow], curves: Sequence[Curve], tasks: Sequence[str]
) -> list[Run]:
    """Return a run for each k and each encoder with curves for all of these tasks.

    A run contains the settings that all of its curves share. It is left out if the row of a
    setting, or the score of a row, is missing.
    """
    measured = {(r.entry.encoder, r.entry.reference or r.entry.encoder, r.entry.k): r for r in rows}
    shares: dict[tuple[str, str, str, int], dict[str, Curve]] = {}
    for curve in curves:
        for k in curve.ks:
            share = (curve.encoder, curve.dial, curve.reference.digest, k)
            shares.setdefault(share, {})[curve.task] = curve
    runs = []
    for (_, _, reference, k), by_task in shares.items():
        if not tasks or not set(tasks) <= by_task.keys():
            continue
        of_tasks = [by_task[task] for task in tasks]
        common = set.intersection(*({point.at for point in curve.points} for curve in of_tasks))
        points = {
            point.at: measured.get((point.encoder, reference, k))
            for point in of_tasks[0].points
            if point.at in common
        }
        known = {at: row for at, row in points.items() if row and set(tasks) <= row.scores.keys()}
        if known and len(known) == len(points):
            runs.append(Run(of_tasks[0].name, known, of_tasks))
    return runs


def worth(rows: Sequence[BoardRow], tasks: Sequence[str], keep: float | None = None) -> Worth:
    """Return the sort key of a setting. The setting with the greatest key is chosen.

    Args:
        rows: The rows at this setting, one for each seed.
        tasks: Tasks over which scores are averaged.
        keep: Minimum retention, as a fraction. Settings that reach it are preferred, and then the
            highest P. By default, the highest joint is preferred.
    """

    def mean(metric: str) -> float:
        means = [unclipped(row.scores[task], metric).mean for row in rows for task in tasks]
        return fmean(means) if not any(map(math.isnan, means)) else -math.inf

    if keep is None:
        return True, mean("joint"), mean("polarity")
    return mean("retention") >= keep, mean("polarity"), mean("joint")


def curve_rows(
    rows: Sequence[BoardRow], curves: Sequence[Curve], tasks: Sequence[str], weighting: Weighting
) -> list[BoardRow]:
    """Return a row for each k and each encoder with curves for all of these tasks.

    The scores are those at the setting with the highest mean joint. Front covers all settings.
    """
    best_rows = []
    for run in dialled_runs(rows, curves, tasks):
        best = max(sorted(run.rows), key=lambda at: worth([run.rows[at]], tasks))
        point, first = run.rows[best], run.curves[0]
        name = f"{run.name} (best {first.dial} {shortest(best)})"
        entry = Entry("", first.reference.digest, point.entry.k)
        scores = scores_on_curve(run, best, weighting)
        best_rows.append(BoardRow(name, entry, scores, "curve", point=point))
    return best_rows


def scores_on_curve(run: Run, at: float, weighting: Weighting) -> dict[str, dict[str, Score]]:
    """Return the scores of a run at one setting, with front over all its settings."""
    row = run.rows[at]
    front = ScoreKey("front", row.entry.k, weighting)
    return {c.task: {**row.scores[c.task], "front": c.fronts[front]} for c in run.curves}


# Bounds


def bound_rows(ranked: Group, names: Mapping[str, str]) -> list[BoardRow]:
    """Return the rows of the oracle and of random retrieval, for each reference and k.

    Encoders that serve only as their own reference share a row. If there are several such encoders,
    this row leaves out scores that depend on the reference.
    """
    named = {entry.reference for entry in ranked.entries if entry.reference}
    shares: dict[tuple[str, int], set[Entry]] = {}
    for entry in ranked.entries:
        reference = entry.reference or (entry.encoder if entry.encoder in named else "")
        shares.setdefault((reference, entry.k), set()).add(entry)
    order = sorted(shares, key=lambda share: (share[0] == "", names[share[0]], share[1]))
    rows = [_bound_row(ranked, role, share, shares[share]) for role in _BOUNDS for share in order]
    return [row for row in rows if any(row.scores.values())]


def _bound_row(ranked: Group, role: Role, share: tuple[str, int], entries: set[Entry]) -> BoardRow:
    """Return the row of a bound, read from any entry, because all entries share the bound."""
    name, alike = _BOUNDS[role]
    scores = {}
    for task in ranked.tasks:
        on_task = [entry for entry in sorted(entries) if entry in ranked.tasks[task]]
        bound = next(filter(None, (_bound(role, ranked.at(task, entry)) for entry in on_task)), {})
        several = len({entry.reference or entry.encoder for entry in on_task}) > 1
        scores[task] = {m: s for m, s in bound.items() if m in alike or not several}
    return BoardRow(name, Entry("", *share), scores, role)


def _bound(role: Role, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return P, S, retention, joint and front of a bound, without intervals; {} if P is missing."""
    ending = "oracle" if role == "oracle" else "chance"
    if f"polarity_{ending}" not in scores:
        return {}
    names = ["polarity_chance", "similarity_chance", "similarity_reference"]
    names += [f"polarity_{ending}", f"similarity_{ending}"]
    chance, s_chance, s_reference, p, s = np.array([scores[name].mean for name in names])
    kept = retention(s, s_chance, s_reference)
    means = {"polarity": p, "similarity": s, "retention": kept, "joint": joint(p, chance, kept)}
    if role == "oracle" or "front" in scores:
        means["front"] = float(role == "oracle")
    unknown = (math.nan, math.nan)
    return {m: Score(float(value), math.nan, unknown, None) for m, value in means.items()}


_BOUNDS: dict[Role, tuple[str, set[str]]] = {
    "oracle": ("gold labels (oracle)", {"polarity", "front"}),
    "random": ("random retrieval", {"polarity", "front", "retention", "joint"}),
}
"""Name of the row, and the scores that do not depend on the reference, by role."""
