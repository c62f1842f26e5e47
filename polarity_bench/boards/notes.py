"""Texts of a board of results: its main finding, and the notes below its tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from polarity_bench.boards.columns import Sections, has_front
from polarity_bench.boards.rank_notes import Ranking
from polarity_bench.boards.rows import BoardRow, rival_key
from polarity_bench.boards.unseen_columns import seen_words, tasks_with_seen_rows
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Table
from polarity_bench.results.comparability import Group
from polarity_bench.results.published import PublishedNumber
from polarity_bench.results.score_names import NOTES
from polarity_bench.scores import Score
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.tasks.types.polarity.scoring import REFERRING
from polarity_bench.values import count, shortest


def finding(sections: Sections) -> str:
    """Describe the best row of the first table, the runner-up and the base, with their scores.

    If ranks are known, a second sentence describes the paired tests.

    Returns:
        The text in markdown; '' if fewer than two comparable rows have a score.
    """
    alone, tasks, names = sections.alone, sections.ranked.averaged, sections.names
    by, keep = sections.sorted_by(tasks), sections.config.keep
    scored = [
        (row, score)
        for row in sections.first_rows
        if row.role in {"encoder", "method"} and not row.opposes
        if (score := sections.score(row, tasks)) is not None and math.isfinite(score.mean)
    ]
    # A Counter keeps insertion order, so the group of the best row comes first.
    groups = Counter(_group(row, by) for row, _ in scored)
    group = next((group for group, n_rows in groups.items() if n_rows > 1), None)
    if group is None:
        return ""
    references, ks = (set(shared) for shared in zip(*groups, strict=True))
    scored = [(row, score) for row, score in scored if _group(row, by) == group]
    (first, best), (second, next_best) = scored[:2]
    base = next((each for each in scored if each[0].entry.encoder == first.entry.reference), None)
    group_of = alone or sections.ranked
    measure, n_tasks = group_of.title_of(by), len(group_of.averaged)
    of = f"mean {measure} over {count(n_tasks, 'task')}"
    if not alone and n_tasks == 1:
        of = f"{measure} on {escape(tasks[0])}"
    if group[0] and len(references) > 1:
        of += f" with the reference {escape(names[group[0]])}"
    of += f" at k = {first.entry.k}" if len(ks) > 1 else ""
    if keep is not None:
        of += f" among the rows that keep {percent(keep, 0)} % of the base's S beyond chance"
    how = partial(_how, sections, group_of)
    text = f"**{escape(first.name)}**{how(first)} has the highest {of}: {_number(best)}"
    text += f"; {escape(second.name)}{how(second)} follows with {_number(next_best)}"
    if base and base[0] is not second:
        text += f", and the base, {escape(base[0].name)}{how(base[0])}, has {_number(base[1])}"
    return f"{text}. {_certainty(first, sections.first_rankings)}".strip()


def _group(row: BoardRow, by: str) -> tuple[str, int]:
    """Return the reference and k of a row; '' as the reference if the score ignores it."""
    reference = row.entry.reference or row.entry.encoder
    return reference if by in REFERRING else "", row.entry.k


def _how(sections: Sections, group: Group, row: BoardRow) -> str:
    """Describe a row: its seeds, the choice of its strength, and what it saw in training."""
    seen = sections.seen(group, group.averaged, [row])
    parts = [f"{len(row.members)} seeds"] if len(row.members) > 1 else []
    parts += [f"{row.dial} {shortest(row.strength)}, chosen on these queries"] if row.dial else []
    parts += filter(None, [seen_words({part: share for part, (share,) in seen.items()})])
    return f" ({', '.join(parts)})" if parts else ""


def _number(score: Score) -> str:
    low, high = score.ci95
    ends = "" if math.isnan(low) else f" [{percent(low)}, {percent(high)}]"
    return f"{percent(score.mean)}{ends}"


def _certainty(row: BoardRow, rankings: Sequence[Ranking]) -> str:
    """Describe which encoders differ significantly from this one; '' if its rank is unknown."""
    for ranking in rankings:
        if row.role == "encoder" and row.entry in ranking.ranks:
            best, worst = ranking.ranks[row.entry]
            if best == worst == 1:
                return "Paired tests separate it from all others."
            return f"Paired tests do not separate it from {count(worst - best, 'other encoder')}."
    return ""


def board_notes(sections: Sections, groups: Sequence[Group], tables: Sequence[Table]) -> list[str]:
    """Return the notes below a board, which explain the order of rows and the numbers.

    Args:
        sections: The rows of the board.
        groups: The tasks of the board, by task type and protocol.
        tables: The tables of the board.
    """
    ranked, plain, alone = sections.ranked, sections.plain, sections.alone
    printed = [number for row in sections.published for number in row.printed.values()]
    rows, keep = sections.measured if ranked.tasks else [], sections.config.keep
    roles = {row.role for row in rows}
    has_means = sections.has_means or (not ranked.tasks and len(plain) == 1)
    weights = f"Ranks are weighted {sections.config.weighting}ly."
    order = _order_note(sections) if keep is None else NOTES["keep"].format(percent(keep, 0))
    # Each note follows its condition: whether the board shows what the note explains.
    notes: list[tuple[object, str]] = [
        (ranked.tasks, f"{weights} {NOTES['scores']}"),
        (ranked.tasks, order),
        ("method" in roles, NOTES["methods"]),
        (ranked.tasks, NOTES["rivals"]),
        (ranked.tasks, _no_rivals_note(sections)),
        (any(row.opposes for row in rows), NOTES["opposed"]),
        (has_front(rows), NOTES["front"]),
        (roles & {"oracle", "random"}, NOTES["bounds" if "oracle" in roles else "random"]),
        (alone, f"Rows are sorted by the mean of {KINDS[alone.kind].heading}." if alone else ""),
        (plain, NOTES["plain_sorted"]),
        (True, _mean_note(groups) if has_means else NOTES["no_means"]),
        (ranked.pairs, NOTES["unseen"]),
        (any(tasks_with_seen_rows(group.results) for group in plain), NOTES["seen"]),
        (any(c.title.endswith(" seen") for t in tables for c in t.columns), NOTES["seen_parts"]),
        (True, NOTES["bold"]),
        (any(table.heads[0][0] == "rank" for table in tables), NOTES["ranks"]),
        (True, _data_note(ranked)),
        (printed, NOTES["published"]),
        (any(not math.isnan(number.std) for number in printed), NOTES["spread"]),
        (any(number.twin for number in printed), _twins_note(printed, sections.names)),
    ]
    return [note for holds, note in notes if holds and note]


def _twins_note(printed: Sequence[PublishedNumber], names: Mapping[str, str]) -> str:
    """Return a note that names the twin of each published row: the same encoder, measured here."""
    pairs = dict.fromkeys(
        f"{escape(number.name)} with {escape(names[number.twin])}"
        for number in printed
        if number.twin
    )
    return f"{NOTES['twins']} {', '.join(pairs)}."


def _data_note(ranked: Group) -> str:
    """Return a note on data sets of mteb: languages, licence and what it forbids; '' for none."""
    first = (next(iter(cells.values())) for cells in ranked.tasks.values())
    sets = {result.task: (result, result.data_set) for result in first if result.data_set}
    facts = [
        ", ".join(filter(None, [*result.languages, data["licence"], data["restriction"]]))
        for result, data in sets.values()
    ]
    named = [f"{escape(task)} ({escape(of)})" for task, of in zip(sets, facts, strict=True)]
    return f"Data sets of mteb, with languages and licences: {'; '.join(named)}." if named else ""


def _mean_note(groups: Sequence[Group]) -> str:
    """Return a note on the tasks that means leave out because some rows have no result for them."""
    left_out = [
        f"{task} ({group.protocol})"
        for group in groups
        for task in group.independent
        if task not in group.averaged
    ]
    if not left_out:
        return "An encoder has a mean only if it has results for all tasks."
    return (
        f"Means are over the tasks for which every row has results, without {', '.join(left_out)}."
    )


def _no_rivals_note(sections: Sections) -> str:
    """Return a note if the tables are sorted by a score that no two encoders compete in, or ''."""
    by = sections.sorted_by(sections.ranked.averaged)
    encoders = [row for row in sections.measured if row.role == "encoder" and not row.opposes]
    rivals = Counter(share for row in encoders if (share := rival_key(row, by)) is not None)
    if by not in REFERRING or len(encoders) < 2 or max(rivals.values(), default=0) >= 2:
        return ""
    return NOTES["no_rivals"].format(sections.ranked.title_of(by))


def _order_note(sections: Sections) -> str:
    """Return a note on the score by which the retrieval tables are sorted."""
    ranked = sections.ranked
    metrics = {sections.sorted_by(of) for of in [ranked.averaged, *([t] for t in ranked.tasks)]}
    itself = all(entry.reference == "" for entry in ranked.entries)
    if len(metrics) > 1:
        by = "P where every encoder of a table is its own reference, so that joint depends on P "
        by += "alone, and by joint elsewhere"
    else:
        by = ranked.title_of(*metrics)
        why = ": every encoder is its own reference, so on each task joint depends on P alone"
        by += why if itself and metrics == {"polarity"} else ""
    return f"Rows are sorted by {by}. Each table is sorted and ranked by its own scores."
