"""Records of a board of results: scores of encoders, bounds and papers, one row per score.

The tables have the columns of `results.frame` and these:

| column | meaning |
|---|---|
| row | key of the row that shows the score: an encoder, its reference and k, or a bound or paper |
| name, detail | name of the row, and key of its provenance |
| role | `encoder`, `oracle`, `random` or `published` |
| reference, k | reference and k of the row; '' and 0 if there are none |
| family | '' for retrieval tasks, otherwise the task type and protocol, or `UNMEASURED` |
| place | task, with its protocol unless it is a retrieval task |
| shown | metric of a retrieval task, or `MAIN` for the only score that boards show of other tasks |
| result | `Result` of a measured score |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from polarity_bench.boards.config import BoardFile, published_columns
from polarity_bench.errors import InputError
from polarity_bench.metrics.register import metric_of
from polarity_bench.metrics.similarity import joint, retention
from polarity_bench.render.format import DIGITS, percent
from polarity_bench.render.table import Role, Table
from polarity_bench.results.comparability import cells_of
from polarity_bench.results.frame import Record, result_records, score_columns
from polarity_bench.results.published import with_footnotes
from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.values import grouped

MAIN = "main"
"""Placeholder for the only score that boards show for a task without retrieval."""
Row = dict[str, Any]
"""Properties of a row of a table, by name: its columns in the records, and how it was averaged."""
UNMEASURED = "unmeasured"
"""Family of the published numbers of tasks without results on the board."""
_OF_A_ROW = ("row", "name", "role", "reference", "k", "cited", "footnote", "detail")
MEASURED: frozenset[Role] = frozenset({"encoder", "method", "curve"})
"""Roles of rows with scores measured here: all except published numbers and bounds."""
BOUNDS: Mapping[Literal["oracle", "random"], tuple[str, str, set[str]]] = {
    "oracle": ("gold labels (oracle)", "oracle", {"polarity", "front"}),
    "random": ("random retrieval", "chance", {"polarity", "front", "retention", "joint"}),
}
"""Name, ending of the metrics, and scores that do not depend on the reference, by role."""


def encoder_records(
    results: Sequence[Result], names: Mapping[str, str], config: BoardFile
) -> list[Record]:
    """Return the records of encoders, sorted by task.

    A row has the retrieval scores of an encoder at one reference and k, and all other scores of
    the encoder.

    Raises:
        InputError: If two results cannot share a table (see `results.comparability.cells_of`).
    """
    cells = cells_of(results)
    rows: dict[str, dict[tuple[str, int], None]] = {}
    records: list[Record] = []
    for result, k in cells:
        digest, key = result.key.encoder.digest, result.key
        reference = key.reference.digest if k and key.reference else ""
        entries = rows.setdefault(digest, {})
        if k:
            entries[reference, k] = None
        made: dict[str, Any] = {
            "name": names[digest],
            "role": "encoder",
            "family": "" if k else f"{result.kind} {key.protocol_label}",
            "place": result.task if k else f"{result.task} ({key.protocol_label})",
            "result": result,
        }
        of_cell = result_records(replace(result, scores=_shown(result, k, config)))
        for of_reference, of_k in [(reference, k)] if k else [*(entries or [("", 0)])]:
            row = "-".join(filter(None, [digest, of_reference, str(of_k or "")]))
            made |= {"row": row, "detail": row, "reference": of_reference, "k": of_k}
            records += [
                record | made | {"shown": record["metric"] if k else MAIN} for record in of_cell
            ]
    return records


def _shown(result: Result, k: int, config: BoardFile) -> dict[ScoreKey, Score]:
    """Return the scores that the board shows at k."""
    if not k:
        main = main_key(result, config)
        return {main: result.scores.get(main, Score.single(math.nan, 0))}
    at_k = {(None, "linear", None), (k, config.weighting, None)}
    return {
        key: score
        for key, score in result.scores.items()
        if (key.k, key.weighting, key.part) in at_k
        or key == metric_of(key.metric).key(k, config.weighting)
    }


def main_key(result: Result, config: BoardFile) -> ScoreKey:
    """Return the key of the score that the board shows of a task without retrieval."""
    measure = config.measures.get(result.kind, "")
    return dict(KINDS[result.kind].columns).get(measure, result.main_score)


def rows_of(records: Iterable[Record]) -> list[Row]:
    """Return the rows of a table that show these records, in the order of first occurrence.

    Each row contains the keys of the rows of encoders that it averages (`members`).
    """
    of_rows = grouped(records, lambda record: record["row"])
    unaveraged: Row = {"singles": (), "dial": "", "fronts": {}}
    return [
        unaveraged
        | {name: first.get(name, "") for name in _OF_A_ROW}
        | {"encoder": first["encoder_digest"], "members": [row]}
        | {"opposes": bool(first["k"]) and (first.get("strength") or 0) < 0}
        for row, (first, *_) in of_rows.items()
    ]


def with_rows(table: Table, rows: Sequence[Row]) -> Table:
    """Return a copy of a table with the roles, details and footnotes of its rows.

    Args:
        table: Table whose leading columns and numbers are known.
        rows: Its rows, with the columns `role`, `detail` and, for published numbers, `footnote` and
            `cited`.
    """
    roles, details = ([row.get(name, "") for row in rows] for name in ("role", "detail"))
    footnotes = {row["cited"]: row["footnote"] for row in rows if row.get("footnote")}
    notes = [*table.notes, *(footnotes[number] for number in sorted(footnotes))]
    return replace(table, roles=roles, details=details, notes=notes)


def twin_mark(measured: float | None, published: float, digits: int = DIGITS) -> str:
    """Return a measured score minus a published number as text; '' if nothing was measured."""
    return "" if measured is None else f" ({percent(measured - published, digits, '+')})"


def entry_of(row: Row) -> tuple[str, str, str, int]:
    """Return the sort key of a row: its name, encoder, reference and k."""
    return row["name"], row["encoder"], row["reference"], row["k"]


def rival_key(row: Row, metric: str) -> str | None:
    """Return a key that comparable rows share for a metric; None if the row is not ranked.

    Retrieval scores are comparable at the same k. If a score depends on the reference, rows must
    also have the same reference, which must be another encoder. Non-retrieval scores are always
    comparable. Curves, and methods with a chosen strength, are ranked only by front.
    """
    is_chosen = row["role"] == "curve" or row["dial"]
    competes = row["role"] in MEASURED and (metric == "front" or not is_chosen)
    if metric == MAIN:
        return "" if competes else None
    is_referring, reference = metric_of(metric).needs_reference, row["reference"]
    if not competes or row["opposes"] or (is_referring and not reference):
        return None
    return f"{reference if is_referring else ''}@{row['k']}"


def bound_records(measured: Sequence[Record], names: Mapping[str, str]) -> Iterator[Record]:
    """Yield the records of the oracle and of random retrieval, for each reference and k.

    Encoders that serve only as their own reference share a row. If there are several such encoders,
    this row leaves out scores that depend on the reference.
    """
    ranked = [record for record in measured if not record["family"]]
    named = {record["reference"] for record in ranked}
    cells: dict[tuple[str, int, str], dict[str, dict[str, float]]] = {}
    for record in sorted(ranked, key=lambda record: record["row"]):
        encoder, reference = record["encoder_digest"], record["reference"]
        share = reference or (encoder if encoder in named else "")
        of_cell = cells.setdefault((share, record["k"], record["place"]), {})
        of_cell.setdefault(reference or encoder, {}).setdefault(record["metric"], record["value"])
    order = sorted(cells, key=lambda cell: (cell[0] == "", names[cell[0]], *cell[1:]))
    for role, (name, ending, shared) in BOUNDS.items():
        metrics = ["polarity_chance", "similarity_chance", "similarity_reference"]
        metrics += [f"polarity_{ending}", f"similarity_{ending}"]
        for share, k, place in order:
            by_reference = cells[share, k, place]
            known = next((of for of in by_reference.values() if of.keys() >= {*metrics}), None)
            if known is None:
                continue
            chance, s_chance, s_reference, p, s = np.array([known[metric] for metric in metrics])
            kept = retention(s, s_chance, s_reference)
            values = {"polarity": p, "similarity": s, "retention": kept}
            values["joint"] = joint(p, chance, kept)
            if role == "oracle" or "front" in known:
                values["front"] = float(role == "oracle")
            made: Record = {"row": f"{role} {share} {k}", "name": name, "role": role}
            made |= {"reference": share, "k": k, "family": "", "place": place}
            made |= {"encoder_digest": "", "detail": ""}
            for metric in values.keys() & shared if len(by_reference) > 1 else values:
                score = Score.single(float(values[metric]), 0)
                yield score_columns(ScoreKey(metric), score) | made | {"shown": metric}


def paper_records(
    published: Sequence[Record], measured: Sequence[Record], config: BoardFile
) -> Iterator[Record]:
    """Yield the records of published numbers, whose rows have footnotes.

    Numbers with the same name, k, source and note share a row. If a number is published with both
    weightings, only the number with the board's weighting is shown. A number with the other
    weighting is shown in the cell of the board's weighting.

    Raises:
        InputError: If a published number would appear in no table, or in several tables.
    """
    of_places = {record["place"]: record["result"] for record in measured}
    titles = {task: published_columns(task) for task in config.unmeasured}
    by_board = {_question(each) for each in published if each["weighting"] == config.weighting}
    kept = [
        each
        for each in published
        if each["weighting"] == config.weighting or _question(each) not in by_board
    ]
    for each in published:
        if each["task"] not in titles and len(_places_of(each, of_places, config)) != 1:
            _refuse(each, of_places, config)
    for each in with_footnotes(kept):
        if is_unmeasured := each["task"] in titles:
            place, shown, k = f"{each['task']} ({titles[each['task']][each['key']]})", MAIN, 0
        else:
            ((place, shown),), k = _places_of(each, of_places, config), each["k"] or 0
        yield each | {
            "row": f"{each['name']} {k}",
            "detail": f"published {each['cited']}",
            "family": UNMEASURED if is_unmeasured else "" if k else place,
            "place": place,
            "shown": shown,
            "encoder_digest": "",
            "reference": "",
            "k": k,
        }


def _question(number: Record) -> tuple[object, ...]:
    """Return the name, source, note, task and score of a published number, for any weighting."""
    named = (number[name] for name in ("encoder", "source", "note", "task"))
    return *named, replace(number["key"], weighting="linear")


def _places_of(
    number: Record, of_places: Mapping[str, Result], config: BoardFile
) -> list[tuple[str, str]]:
    """Return the place and the shown metric of each cell that a published number fits."""
    places, key = [], replace(number["key"], weighting="linear")
    of_task = ((place, of) for place, of in of_places.items() if of.task == number["task"])
    for place, result in of_task:
        if KINDS[result.kind].has_k:
            places += [(place, key.metric)] if key.k and key.part is None else []
        elif number["protocol"] in {"", result.key.protocol_label}:
            places += [(place, MAIN)] if key == main_key(result, config) else []
    return places


def _refuse(number: Record, of_places: Mapping[str, Result], config: BoardFile) -> None:
    """Raise InputError for a published number that fits no cell, or several cells."""
    shown = [
        f"{main_key(result, config)} by the protocol {result.key.protocol_label!r}"
        for result in of_places.values()
        if result.task == number["task"] and not KINDS[result.kind].has_k
    ]
    whole = f"scores over whole tasks with a k, such as {number['metric']}_at_16"
    raise InputError(
        f"{number['file']}: for {number['task']} the board shows {', '.join(shown) or whole}, got "
        f"{number['key']} by the `protocol` {number['protocol']!r}; change the line so that one "
        "score matches, or change `measures` in board.toml"
    )


def difference_to_twin(number: Record, of_place: Iterable[Record]) -> str:
    """Return the twin's score minus the published number, as text; '' without such a score.

    Raises:
        InputError: If the score depends on the reference, and the twin was evaluated with several.
    """
    by_reference = {
        record["reference"]: score.mean
        for record in of_place
        if record["encoder_digest"] == number["twin"]
        if (score := record["result"].scores.get(number["key"]))
    }
    if len(by_reference) > 1 and metric_of(number["metric"]).needs_reference:
        raise InputError(
            f"{number['file']}: the twin was evaluated with {len(by_reference)} references, and "
            f"{number['key']} depends on the reference; leave `twin` empty"
        )
    return twin_mark(next(iter(by_reference.values()), None), number["value"])
