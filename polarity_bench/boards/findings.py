"""The finding of a board: one sentence with its numbers and their intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.rank_notes import Ranking
from polarity_bench.boards.rows import BoardRow
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.results.comparability import count
from polarity_bench.results.score_names import RANKED
from polarity_bench.scores import Score
from polarity_bench.tasks.types.polarity.scoring import REFERRING
from polarity_bench.values import shortest


def finding(sections: Sections) -> str:
    """Return which row of the first table is the best, by how much, and how surely.

    Returns:
        A sentence in markdown; '' if fewer than two rows have the score.
    """
    alone, tasks, names = sections.alone, sections.ranked.averaged, sections.names
    by, keep = sections.sorted_by(tasks), sections.said.keep
    scored = [
        (row, score)
        for row in sections.first_rows
        if row.role in {"encoder", "method"} and not row.opposes
        if (score := sections.score(row, tasks)) is not None and math.isfinite(score.mean)
    ]
    groups = Counter(_group(row, by) for row, _ in scored)  # in the order of the rows
    group = next((group for group, n_rows in groups.items() if n_rows > 1), None)
    if group is None:
        return ""
    references, ks = (set(shared) for shared in zip(*groups, strict=True))
    scored = [(row, score) for row, score in scored if _group(row, by) == group]
    (first, best), (second, next_best) = scored[:2]
    base = next((each for each in scored if each[0].entry.encoder == first.entry.reference), None)
    measure = alone.measured if alone else next(t for t, m in RANKED.items() if m == by)
    n_tasks = len(alone.averaged) if alone else len(tasks)
    of = f"mean {measure} over {count(n_tasks, 'task')}"
    if not alone and n_tasks == 1:
        of = f"{measure} on {escape(tasks[0])}"
    of += f" under {escape(names[group[0]])}" if group[0] and len(references) > 1 else ""
    of += f" at k = {first.entry.k}" if len(ks) > 1 else ""
    if keep is not None:
        of += f" among the rows that keep {percent(keep, 0)} % of the base's S beyond chance"
    text = f"**{escape(first.name)}**{_how(first)} has the highest {of}: {_number(best)}"
    text += f"; {escape(second.name)}{_how(second)} follows with {_number(next_best)}"
    if base and base[0] is not second:
        text += f", and the base, {escape(base[0].name)}, has {_number(base[1])}"
    return f"{text}. {_certainty(first, sections.first_rankings)}".strip()


def _group(row: BoardRow, by: str) -> tuple[str, int]:
    """Return what rows share that can be compared: k and, for some scores, the reference."""
    reference = row.entry.reference or row.entry.encoder
    return reference if by in REFERRING else "", row.entry.k


def _how(row: BoardRow) -> str:
    parts = [f"{len(row.members)} seeds"] if len(row.members) > 1 else []
    parts += [f"{row.dial} {shortest(row.strength)}, chosen on these queries"] if row.dial else []
    return f" ({', '.join(parts)})" if parts else ""


def _number(score: Score) -> str:
    low, high = score.ci95
    ends = "" if math.isnan(low) else f" [{percent(low)}, {percent(high)}]"
    return f"{percent(score.mean)}{ends}"


def _certainty(row: BoardRow, rankings: Sequence[Ranking]) -> str:
    """Return what paired tests say of the rank of a single encoder; '' if there are none."""
    for ranking in rankings:
        if row.role == "encoder" and row.entry in ranking.ranks:
            best, worst = ranking.ranks[row.entry]
            if best == worst == 1:
                return "Paired tests separate it from all others."
            return f"Paired tests do not separate it from {count(worst - best, 'other')}."
    return ""
