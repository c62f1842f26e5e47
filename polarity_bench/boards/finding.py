"""Main finding of a board of results, in one sentence: best row, runner-up and reference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.rank_notes import Ranking
from polarity_bench.boards.records import Row
from polarity_bench.boards.unseen_columns import seen_words
from polarity_bench.metrics.register import metric_of
from polarity_bench.render.format import percent, score_text
from polarity_bench.render.markdown import escape
from polarity_bench.results.means import score_of
from polarity_bench.values import count, shortest

_NAMED = 3
"""Maximum number of encoders that are named as not separated from the best."""


def finding(sections: Sections) -> str:
    """Describe the best row of the first table, the runner-up and the reference, with their scores.

    As in ranks, a row that is its own reference does not compete by a score that depends on the
    reference. If ranks are known, a second sentence describes the paired tests.

    Returns:
        The text in markdown; '' if fewer than two comparable rows have a score.
    """
    alone, tasks, names = sections.alone, sections.averaged[""], sections.names
    by, keep, averaged = sections.sorted_by(tasks), sections.config.keep, sections.averaged[alone]
    competing = [row for row in sections.first_rows if row["role"] in {"encoder", "method"}]
    scored = [
        row | {"score": score, "group": _group(row, by)}
        for row in sections.in_order(competing, tasks, group_by="")
        if not row["opposes"]
        if (score := sections.mean(row, averaged, by)) and math.isfinite(score["value"])
    ]
    groups, is_referring = Counter(row["group"] for row in scored), metric_of(by).needs_reference
    ranked = [row for row in scored if row["reference"] or not is_referring]
    group = next((row["group"] for row in ranked if groups[row["group"]] > 1), None)
    if group is None:
        return ""
    references, ks = (set(shared) for shared in zip(*groups, strict=True))
    first, second, *_ = [*(row for row in ranked if row["group"] == group), None]
    same_group = (row for row in scored if row["group"] == group)
    reference = next((row for row in same_group if row["encoder"] == first["reference"]), None)
    is_highest = (
        is_referring and reference and reference["score"]["value"] >= first["score"]["value"]
    )
    measure = sections.title_of(by, alone)
    of = f"mean {measure} over {count(len(averaged), 'task')}"
    if len(averaged) == 1:
        of = f"{measure} on {escape(sections.first_of(alone, averaged[0]).task)}"
    if is_highest:
        of += f" among the encoders with the reference {escape(names[group[0]])}"
    elif group[0] and len(references) > 1:
        of += f" with the reference {escape(names[group[0]])}"
    of += f" at k = {first['k']}" if len(ks) > 1 else ""
    if keep is not None:
        of += f" among the rows that keep {percent(keep, 0)} % of the reference's S beyond chance"
    how = partial(_how, sections, averaged)
    clauses = []
    if second:
        clauses.append(f"{escape(second['name'])}{how(second)} follows with {_number(second)}")
    if reference and is_highest:
        clauses.append(
            f"the reference itself{how(reference)} has {_number(reference)} and does not compete"
        )
    elif reference and reference is not second:
        clauses.append(
            f"the reference, {escape(reference['name'])}{how(reference)}, has {_number(reference)}"
        )
    numbers = [_number(first), ", and ".join(clauses)]
    text = best_sentence(first["name"], of, numbers, how(first))
    return f"{text} {_certainty(first, sections.first_rankings)}".strip()


def best_sentence(name: str, of: str, numbers: Sequence[str], how: str = "") -> str:
    """Return the sentence on the best row that opens boards of results and of sweeps.

    Args:
        name: Name of the row, as plain text.
        of: The score in markdown, such as `mean P over 2 tasks`.
        numbers: Score of the row, and then clauses on other rows.
        how: Description of the row in markdown.
    """
    return f"**{escape(name)}**{how} has the highest {of}: {'; '.join(numbers)}."


def _group(row: Row, by: str) -> tuple[str, int]:
    """Return the reference and k of a row; '' as the reference if the score ignores it."""
    return (row["reference"] or row["encoder"]) if metric_of(by).needs_reference else "", row["k"]


def _how(sections: Sections, places: Sequence[str], row: Row) -> str:
    """Describe a row: its seeds, the choice of its strength, and what it saw in training."""
    seen = sections.seen(places, [row])
    parts = [f"{len(row['members'])} seeds"] if len(row["members"]) > 1 else []
    if row["dial"]:
        parts.append(f"{row['dial']} {shortest(row['strength'])}, chosen on these queries")
    parts += filter(None, [seen_words({part: share for part, (share,) in seen.items()})])
    return f" ({', '.join(parts)})" if parts else ""


def _number(row: Row) -> str:
    return score_text(score_of(row["score"]))


def _certainty(row: Row, rankings: Sequence[Ranking]) -> str:
    """Name encoders that do not differ significantly from this one; '' if its rank is unknown."""
    for ranking in rankings:
        if row["row"] in ranking.ranks and (standing := ranking.standing):
            place = list(ranking.ranks).index(row["row"])
            ties = [i for tie in standing.ties if place in tie for i in tie if i != place]
            others = [escape(ranking.rows[i]["name"]) for i in dict.fromkeys(ties)]
            if not others:
                return "Paired tests separate it from all others."
            if len(others) > _NAMED:
                others[_NAMED:] = [f"{len(others) - _NAMED} more"]
            *before, last = others  # Names may contain commas.
            named = f"{'; '.join(before)}{';' * (len(before) > 1)} and {last}" if before else last
            return f"Paired tests do not separate it from {named}."
    return ""
