"""Notes below a board of results: which notes it has; `note_texts` has their texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from polarity_bench.boards.columns import Sections
from polarity_bench.boards.note_texts import NOTES
from polarity_bench.boards.records import rival_key
from polarity_bench.boards.unseen_columns import tasks_with_seen_rows
from polarity_bench.metrics.register import metric_of
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Table
from polarity_bench.results.frame import Record
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.tasks.catalogue import KINDS


def board_notes(sections: Sections, tables: Sequence[Table]) -> list[str]:
    """Return the notes below a board, which explain the order of rows and the numbers."""
    ranked, plain, alone = sections.ranked, sections.plain, sections.alone
    printed = [each for each in sections.further if each["role"] == "published"]
    rows = sections.first_rows if ranked else []
    roles = {row["role"] for row in rows}
    has_means = sections.has_means or (not ranked and len(plain) == 1)
    weights = f"Ranks are {WEIGHTINGS[sections.config.weighting].words}."
    of_alone = f"Rows are sorted by the mean of {KINDS[sections.first_of(alone).kind].heading}."
    of_plain = (of for family in plain for of in sections.tasks[family].values())
    has_seen_rows = tasks_with_seen_rows(result for of in of_plain for result in of.values())
    # Each note follows its condition: whether the board shows what the note explains.
    notes: list[tuple[object, str]] = [
        (ranked, f"{weights} {NOTES['scores']}"),
        (ranked and sections.config.keep is None, _order_note(sections)),
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
        (any(not math.isnan(number["std"]) for number in printed), NOTES["spread"]),
        (any(number["twin"] for number in printed), _twins_note(printed, sections.names)),
    ]
    return [note for holds, note in notes if holds and note]


def _twins_note(printed: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return a note that names the twin of each published row: the same encoder, measured here."""
    pairs = dict.fromkeys(
        f"{escape(number['encoder'])} with {escape(names[number['twin']])}"
        for number in printed
        if number["twin"]
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
    return f"Means leave out tasks for which some rows have no results: {', '.join(left_out)}."


def _no_rivals_note(sections: Sections) -> str:
    """Return a note if the tables are sorted by a score that no two encoders compete in, or ''."""
    by = sections.sorted_by(sections.averaged[""])
    rows = (row for row in sections.first_singles if row["role"] == "encoder")
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
