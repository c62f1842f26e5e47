"""A board: many encoders side by side, rendered from their stored results.

One table sums up, then each kind of task has its own. Rows are sorted by the mean joint score,
best first; the best of a column is in bold. A mean stands only where an encoder has every task of
the board. S and retention are never bold where references differ: they cannot be compared then.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.boards.markdown import Column, escape, table
from polarity_bench.boards.run_tables import ks_of, protocol_label
from polarity_bench.errors import InputError, nearest
from polarity_bench.protocols.polarity import score_name
from polarity_bench.results import Result, read_results
from polarity_bench.types import Weighting

_POLARITY = (
    ("P", "polarity"),
    ("S", "similarity"),
    ("retention", "retention"),
    ("joint", "joint"),
    ("kNN accuracy", "knn_accuracy"),
)
_TITLES = {"transfer": "Transfer", "relatedness": "Supervised relatedness", "sts": "STS"}
_MEASURES = {"transfer": "accuracy", "relatedness": "Pearson", "sts": "Spearman all"}


@dataclass(frozen=True, order=True)
class Row:
    """A row of the board: an encoder, what S is measured with, and k."""

    label: str
    digest: str
    reference: str = "itself"
    reference_digest: str = ""
    k: int = 0


@dataclass(frozen=True)
class Group:
    """The tasks of one kind and protocol, which make one mean."""

    kind: str
    protocol: str
    tasks: tuple[str, ...]

    @property
    def title(self) -> str:
        """The heading of the group's mean: what it is a mean of, and by which protocol."""
        measure = _MEASURES[self.kind]
        return (
            f"{_TITLES[self.kind]} ({measure}, {self.protocol}, {_count(len(self.tasks), 'task')})"
        )


def board(results: Iterable[Result], weighting: Weighting = "linear") -> str:
    """Render a board of results.

    Raises:
        InputError: If results of one task were made from different versions of it, or of its data.
    """
    results = list(results)
    _check_versions(results)
    chosen = sorted(results, key=lambda r: (r.task, r.key.encoder.label, r.experiment))
    retrieval = [result for result in chosen if result.kind == "polarity"]
    scores = _by_row(retrieval)
    tasks = sorted({result.task for result in retrieval})
    others = [result for result in chosen if result.kind != "polarity"]
    known = {row.digest for row in scores}
    for result in others:
        encoder = result.key.encoder
        if encoder.digest not in known:
            scores.setdefault(Row(encoder.label, encoder.digest), {})

    def mean(row: Row, metric: str) -> float | None:
        name = score_name(metric, weighting, row.k)
        return _mean([scores[row][task].flat[name] for task in tasks if task in scores[row]], tasks)

    def rank(row: Row) -> float:
        joint = mean(row, "joint")
        return 1.0 if joint is None or math.isnan(joint) else -joint

    order = sorted(scores, key=lambda row: (rank(row), row))
    groups = _groups(others)
    heading = f"## Means over {_count(len(tasks), 'polarity task')}" if tasks else "## Means"
    columns = [
        Column(title, [mean(row, metric) for row in order], _is_comparable(metric, order))
        for title, metric in _POLARITY[:4]
        if tasks
    ]
    for group in groups:
        values = _group_values(others, group)
        means = [_mean(list(values.get(row.digest, {}).values()), group.tasks) for row in order]
        columns.append(Column(group.title, means))
    names = _names(order)
    sections = [
        f"{heading}\n\n{table(_heads(order, names), columns)}",
        *(_group_section(others, group, order, names) for group in groups),
        *(_polarity_section(task, order, scores, weighting, names) for task in tasks),
    ]
    return "\n\n".join([*sections, _legend(weighting)]) + "\n"


def _check_versions(results: Sequence[Result]) -> None:
    first: dict[tuple[str, str], Result] = {}
    for result in results:
        other = first.setdefault((result.task, protocol_label(result)), result)
        made, before = ((r.key.task, r.key.data) for r in (result, other))
        if made != before:
            raise InputError(
                f"{result.task}: the results of {result.key.encoder.label} and of "
                f"{other.key.encoder.label} were made from different versions of the task or its "
                "data; run one of them again, or keep them in two folders"
            )


def _by_row(results: Sequence[Result]) -> dict[Row, dict[str, Result]]:
    rows: dict[Row, dict[str, Result]] = {}
    for result in results:
        encoder, reference = result.key.encoder, result.key.reference
        measured_with = (reference.label, reference.digest) if reference else ("itself", "")
        for k in ks_of(result):
            row = Row(encoder.label, encoder.digest, *measured_with, k)
            rows.setdefault(row, {})[result.task] = result
    return rows


def _groups(results: Sequence[Result]) -> list[Group]:
    """Group tasks by kind and protocol."""
    found: dict[tuple[str, str], set[str]] = {}
    for result in results:
        found.setdefault((result.kind, protocol_label(result)), set()).add(result.task)
    order = list(_TITLES)
    keys = sorted(found, key=lambda key: (order.index(key[0]), key[1]))
    return [Group(kind, family, tuple(sorted(found[kind, family]))) for kind, family in keys]


def _group_values(results: Sequence[Result], group: Group) -> dict[str, dict[str, float]]:
    """The main score of each task of a group, by digest of the encoder."""
    values: dict[str, dict[str, float]] = {}
    for result in results:
        if (result.kind, protocol_label(result)) == (group.kind, group.protocol):
            row = values.setdefault(result.key.encoder.digest, {})
            row[result.task] = result.main.mean
    return values


def _group_section(
    results: Sequence[Result], group: Group, order: Sequence[Row], names: Mapping[str, str]
) -> str:
    values = _group_values(results, group)
    digests = list(dict.fromkeys(row.digest for row in order if row.digest in values))
    columns = [
        Column(task, [values[digest].get(task) for digest in digests]) for task in group.tasks
    ]
    means = [_mean(list(values[digest].values()), group.tasks) for digest in digests]
    columns.append(Column("mean", means))
    heads = [("encoder", [names[digest] for digest in digests])]
    return f"## {group.title}\n\n{table(heads, columns)}"


def _polarity_section(
    task: str,
    order: Sequence[Row],
    scores: Mapping[Row, Mapping[str, Result]],
    weighting: Weighting,
    names: Mapping[str, str],
) -> str:
    rows = [row for row in order if task in scores[row]]
    columns = [
        Column(
            title,
            [scores[row][task].flat.get(score_name(metric, weighting, row.k)) for row in rows],
            best=_is_comparable(metric, rows),
        )
        for title, metric in _POLARITY
    ]
    return f"## {escape(task)}\n\n{table(_heads(rows, names), columns)}"


def _is_comparable(metric: str, rows: Sequence[Row]) -> bool:
    """S and retention depend on the reference: they compare only under one that is the same."""
    if metric not in {"similarity", "retention"}:
        return True
    return len({row.reference_digest for row in rows}) == 1 and rows[0].reference_digest != ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _mean(values: Sequence[float], tasks: Sequence[str]) -> float | None:
    return sum(values) / len(values) if values and len(values) == len(tasks) else None


def _names(rows: Sequence[Row]) -> dict[str, str]:
    """Name every encoder by its digest; encoders of one name on the board show theirs."""
    encoders = {(row.label, row.digest) for row in rows}
    encoders |= {(row.reference, row.reference_digest) for row in rows}
    counts = Counter(label for label, _ in encoders)
    return {
        digest: f"{label} @{digest[:8]}" if counts[label] > 1 else label
        for label, digest in encoders
    }


def _heads(rows: Sequence[Row], names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    return [
        ("encoder", [names[row.digest] for row in rows]),
        ("reference", [names[row.reference_digest] for row in rows]),
        ("k", [str(row.k) if row.k else "-" for row in rows]),
    ]


def _legend(weighting: Weighting) -> str:
    return (
        f"All numbers times 100, ranks weighted {weighting}ly. P: polarity score; S: semantic "
        "similarity score under the reference, comparable only where the reference is the same; "
        "retention: how much of the reference's own S beyond chance is kept, 100 by definition "
        "where the reference is the encoder itself; joint: harmonic mean of P's lift over chance "
        "and of retention. A mean stands where an encoder has every task."
    )


def render_board(folder: Path, *, weighting: Weighting = "linear", title: str | None = None) -> str:
    """Render the results below a folder; `board.toml` there gives heading and introduction.

    Results of runs with --limit are no results: they are left out.

    Raises:
        InputError: If there are no results, or the board's file is wrong.
    """
    found = [result for _, result in read_results(folder) if result.limit is None]
    if not found:
        raise InputError(f"the folder {folder} holds no results; `polarity-bench run` first")
    described = _board_file(folder / "board.toml")
    heading = title or described.get("title", "Polarity leaderboard")
    introduction = described.get("introduction", "").strip()
    parts = [f"# {escape(heading)}", *([introduction] if introduction else [])]
    return "\n\n".join([*parts, board(found, weighting)])


def _board_file(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not a TOML file: {error}") from error
    known = {"title", "introduction"}
    if unknown := set(values) - known:
        raise InputError(f"{file}: unknown key {min(unknown)!r}{nearest(min(unknown), known)}")
    for key, value in values.items():
        if not isinstance(value, str):
            raise InputError(f"{file}: {key!r} must be text, got {value!r}")
    return values
