"""Texts of a board of results: its main finding, and the notes below its tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.rank_notes import Ranking
from polarity_bench.boards.records import Row, rival_key
from polarity_bench.boards.unseen_columns import seen_words, tasks_with_seen_rows
from polarity_bench.metrics.register import metric_of
from polarity_bench.render.format import percent, score_text
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Table
from polarity_bench.results.aggregate import score_of
from polarity_bench.results.published import PublishedNumber
from polarity_bench.results.score_names import NOTES
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.values import count, shortest


def finding(sections: Sections) -> str:
    """Describe the best row of the first table, the runner-up and the base, with their scores.

    If ranks are known, a second sentence describes the paired tests.

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
    # A Counter keeps insertion order, so the group of the best row comes first.
    groups = Counter(row["group"] for row in scored)
    group = next((group for group, n_rows in groups.items() if n_rows > 1), None)
    if group is None:
        return ""
    references, ks = (set(shared) for shared in zip(*groups, strict=True))
    scored = [row for row in scored if row["group"] == group]
    first, second, *_ = scored
    base = next((row for row in scored if row["encoder"] == first["reference"]), None)
    measure = sections.title_of(by, alone)
    of = f"mean {measure} over {count(len(averaged), 'task')}"
    if len(averaged) == 1:
        of = f"{measure} on {escape(sections.first_of(alone, averaged[0]).task)}"
    if group[0] and len(references) > 1:
        of += f" with the reference {escape(names[group[0]])}"
    of += f" at k = {first['k']}" if len(ks) > 1 else ""
    if keep is not None:
        of += f" among the rows that keep {percent(keep, 0)} % of the base's S beyond chance"
    how = partial(_how, sections, averaged)
    others = f"{escape(second['name'])}{how(second)} follows with {_number(second)}"
    if base and base is not second:
        others += f", and the base, {escape(base['name'])}{how(base)}, has {_number(base)}"
    text = best_sentence(first["name"], of, [_number(first), others], how(first))
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
    """Describe which encoders differ significantly from this one; '' if its rank is unknown."""
    for ranking in rankings:
        if row["row"] in ranking.ranks:
            best, worst = ranking.ranks[row["row"]]
            if best == worst == 1:
                return "Paired tests separate it from all others."
            return f"Paired tests do not separate it from {count(worst - best, 'other encoder')}."
    return ""


def board_notes(sections: Sections, tables: Sequence[Table]) -> list[str]:
    """Return the notes below a board, which explain the order of rows and the numbers.

    Args:
        sections: The rows of the board.
        tables: The tables of the board.
    """
    ranked, plain, alone = sections.ranked, sections.plain, sections.alone
    printed = [each["number"] for each in sections.further if each["role"] == "published"]
    rows, keep = sections.first_rows if ranked else [], sections.config.keep
    roles = {row["role"] for row in rows}
    has_means = sections.has_means or (not ranked and len(plain) == 1)
    weights = f"Ranks are {WEIGHTINGS[sections.config.weighting].words}."
    order = _order_note(sections) if keep is None else NOTES["keep"].format(percent(keep, 0))
    of_alone = f"Rows are sorted by the mean of {KINDS[sections.first_of(alone).kind].heading}."
    of_plain = (of for family in plain for of in sections.tasks[family].values())
    has_seen_rows = tasks_with_seen_rows(result for of in of_plain for result in of.values())
    # Each note follows its condition: whether the board shows what the note explains.
    notes: list[tuple[object, str]] = [
        (ranked, f"{weights} {NOTES['scores']}"),
        (ranked, order),
        ("method" in roles, NOTES["methods"]),
        (ranked, NOTES["rivals"]),
        (ranked, _no_rivals_note(sections)),
        (any(row["opposes"] for row in rows), NOTES["opposed"]),
        (sections.has_score(rows, "front"), NOTES["front"]),
        (roles & {"oracle", "random"}, NOTES["bounds" if "oracle" in roles else "random"]),
        (alone, of_alone),
        (plain, NOTES["plain_sorted"]),
        (True, _mean_note(sections) if has_means else NOTES["no_means"]),
        (sections.pairs, NOTES["unseen"]),
        (has_seen_rows, NOTES["seen"]),
        (any(c.title.endswith(" seen") for t in tables for c in t.columns), NOTES["seen_parts"]),
        (True, NOTES["bold"]),
        (any(table.heads[0][0] == "rank" for table in tables), NOTES["ranks"]),
        (True, _data_note(sections)),
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


def _data_note(sections: Sections) -> str:
    """Return a note on data sets of mteb: languages, licence and what it forbids; '' for none."""
    named = [
        f"{escape(task)} ({escape(', '.join(filter(None, facts)))})"
        for task in sections.ranked
        if (data := (first := sections.first_of("", task)).data_set)
        for facts in [[*first.languages, data["licence"], data["restriction"]]]
    ]
    return f"Data sets of mteb, with languages and licences: {'; '.join(named)}." if named else ""


def _mean_note(sections: Sections) -> str:
    """Return a note on the tasks that means leave out because some rows have no result for them."""
    left_out = [
        f"{first.task} ({first.key.protocol_label})"
        for family, places in sections.independent.items()
        for place in places
        if place not in sections.averaged[family] and (first := sections.first_of(family, place))
    ]
    if not left_out:
        return "An encoder has a mean only if it has results for all tasks."
    return (
        f"Means are over the tasks for which every row has results, without {', '.join(left_out)}."
    )


def _no_rivals_note(sections: Sections) -> str:
    """Return a note if the tables are sorted by a score that no two encoders compete in, or ''."""
    by = sections.sorted_by(sections.averaged[""])
    rows = (row for row in sections.first_rows if row["role"] == "encoder")
    encoders = [row for row in rows if not row["opposes"]]
    rivals = Counter(share for row in encoders if (share := rival_key(row, by)) is not None)
    is_referring = metric_of(by).needs_reference
    if not is_referring or len(encoders) < 2 or max(rivals.values(), default=0) >= 2:
        return ""
    return NOTES["no_rivals"].format(sections.title_of(by))


def _order_note(sections: Sections) -> str:
    """Return a note on the score by which the retrieval tables are sorted."""
    tables = [sections.averaged[""], *([task] for task in sections.ranked)]
    metrics = {sections.sorted_by(tasks) for tasks in tables}
    if len(metrics) > 1:
        by = "P where every encoder of a table is its own reference, so that joint depends on P "
        by += "alone, and by joint elsewhere"
    else:
        by = sections.title_of(*metrics)
        itself = not any(row["reference"] for row in sections.rows)
        why = ": every encoder is its own reference, so on each task joint depends on P alone"
        by += why if itself and metrics == {"polarity"} else ""
    return f"Rows are sorted by {by}. Each table is sorted and ranked by its own scores."
