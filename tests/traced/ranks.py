"""Checks of ranks and minimum detectable differences on boards, against `statistics.json`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from polarity_bench.values import digest_of
from traced.lines import Line
from traced.raw import Raw
from traced.results import SINGLE, Results

_NAMED = ("rank", "encoder", "prompt", "reference", "k")
_UNDER_ONE_REFERENCE = {"S", "retention", "joint"}
_UNPAIRED = re.compile(
    r"Ranks by (.+?)( \(.+\))? are unknown: the values per query are missing\. "
    r"Minimum detectable difference of unpaired scores \(80 % power\): (.+) points\."
)
_OF_TASK = re.compile(r"(?:^|, )(?:(\S+) )?([\d.]+)(?: points|$)")
_METRICS = {"P": "polarity", "S": "similarity", "accuracy": "exact_accuracy"}
_SMALLEST = re.compile(r"([\d.]+|none)(?: points)? \((n = [\d,]+)\)")


def unranked(folder: Path, lines: Sequence[Line], source: Results) -> list[str]:
    """Return a message for each competition whose ranks are not those in `statistics.json`."""
    file = folder / "statistics.json"
    known = json.loads(file.read_bytes())["standings"] if file.is_file() else {}
    wrong = []
    first = [line for line in lines if line.table == lines[0].table]
    for table, rows in ranked_rows(lines).items():
        for contest in contests(rows, source):
            tasks = source.tasks_of(table)
            before = sorted(contest, key=lambda row: _place(row, first))
            by_score = sorted(contest, key=lambda row: _mean_of(row, source), reverse=True)
            for own in (before, by_score, contest):  # stored in any of these orders
                contest = own
                digest = digest_of(sorted(_answers(task, contest, source) for task in tasks))
                if digest in known:
                    break
            shown = [row.heads["rank"] for row in contest]
            held = known.get(digest, {"ranks": []})["ranks"]
            wanted = [str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in held]
            if shown != wanted:
                wrong.append(f"{folder.name}: {table}: ranks are {shown}, {digest} has {wanted}")
    return wrong


def unsorted(board: str, lines: Sequence[Line], source: Results) -> list[str]:
    """Return a message for each table of tasks whose rows are not sorted by their scores."""
    rows: dict[str, dict[tuple[str, ...], Line]] = {}
    for line in lines:
        if line.role == "encoder" and _is_of_tasks(line.table.removesuffix(SINGLE), source):
            heads = tuple(text for title, text in line.heads.items() if title != "rank")
            rows.setdefault(line.table, {}).setdefault(heads, line)
    wrong = []
    for table, own in rows.items():
        shares: dict[str, list[tuple[bool, float]]] = {}
        for line in own.values():
            of = line.heads.get(source.group_by, "") if source.group_by else ""
            # A base belongs to the group of the encoders that refer to it.
            of = line.heads["encoder"] if of == "itself" else of
            shares.setdefault(of, []).append(_mean_of(line, source))
        wrong += [
            f"{board}: {table}: rows are sorted {scores}"
            for scores in shares.values()
            if scores != sorted(scores, reverse=True)
        ]
    return wrong


def _is_of_tasks(table: str, source: Results) -> bool:
    try:
        return bool(source.tasks_of(table))
    except LookupError:  # a table of rows seen in training
        return False


def _mean_of(line: Line, source: Results) -> tuple[bool, float]:
    """Return whether a row keeps its meaning, and the mean over the tasks; -1 if there is none."""
    try:
        line = replace(line, table=line.table.removesuffix(SINGLE))
        name, tasks = source.rank_score(line), source.tasks_of(line.table)
        raws = [source.result_of(line, task) for task in tasks]
        scores = [raw.score(name) for raw in raws]
    except LookupError:
        return False, -1.0
    mean = math.fsum(scores) / len(scores)
    keeps = True
    if source.keep and line.heads.get("k", ""):
        retention = source.name("retention", int(line.heads.get("k", "")))
        keeps = math.fsum(raw.score(retention) for raw in raws) / len(raws) >= source.keep
    return keeps, -1.0 if math.isnan(mean) else round(mean, 12)


def _place(row: Line, first: Sequence[Line]) -> int:
    """Return a row's position in the first table; a table of a task type names encoders only."""
    named = {title: row.heads[title] for title in _NAMED[1:] if row.heads.get(title)}
    return next((i for i, line in enumerate(first) if named.items() <= line.heads.items()), -1)


def unknown_smallest(folder: Path, readme: str) -> list[str]:
    """Return the detectable differences in a README that `statistics.json` does not contain."""
    file = folder / "statistics.json"
    known = json.loads(file.read_bytes())["standings"].values() if file.is_file() else []
    held = {(_least(each), f"n = {each['n']:,}") for each in known}
    notes = re.findall(r"Minimum detectable difference \(80 % power\).*", readme)
    return [f"{folder.name}: {s}" for n in notes for s in _SMALLEST.findall(n) if s not in held]


def unknown_unpaired(folder: Path, readme: str, raw: Sequence[Raw]) -> list[str]:
    """Return a message for each unpaired detectable difference that fits no competition."""
    wrong = []
    for measure, under, said in _UNPAIRED.findall(readme):
        metric = _METRICS.get(measure, measure.lower().replace(" ", "_"))
        for task, least in _OF_TASK.findall(said):
            own = [each for each in raw if task in ("", each.task)]
            held = {f"{100 * each:.1f}" for each in _unpaired(own, metric)}
            if least not in held:
                wrong.append(f"{folder.name}: {measure}{under}: {task} {least}, of {sorted(held)}")
    return wrong


def _unpaired(raw: Sequence[Raw], metric: str) -> Iterator[float]:
    """Yield detectable differences of competitions on one task, or on all under one reference."""
    wanted = re.compile(f"{metric}((_uniform)?_at_.*)?")
    names = {name for each in raw for name in each.scores if wanted.fullmatch(name)}
    for name in names:
        of_task: dict[tuple[str, str], dict[str, float]] = {}
        for each in (each for each in raw if f"{name}_ci95_low" in each.scores):
            error = each.error(name)
            for reference in {"", each.reference or each.encoder, f"from {each.reference}"}:
                of_task.setdefault((reference, each.task), {})[each.encoder] = error
        for reference in {reference for reference, _ in of_task}:
            tasks = [errors for (of, _), errors in of_task.items() if of == reference]
            yield from map(least_of, [list(errors.values()) for errors in tasks])
            shared = set.intersection(*(set(errors) for errors in tasks))
            yield least_of([math.hypot(*(t[e] for t in tasks)) / len(tasks) for e in shared])


def least_of(errors: Sequence[float]) -> float:
    """Return the median over pairs of the minimum detectable difference of two unpaired scores."""
    pairs = [math.hypot(a, b) for i, a in enumerate(errors) for b in errors[i + 1 :]]
    return 2.801585 * median(pairs) if pairs else math.nan


def _least(standing: Mapping[str, Any]) -> str:
    least = standing["detectable"]
    return "none" if least is None or math.isnan(least) else f"{100 * least:.1f}"


def ranked_rows(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return one line of each row with a rank, by table."""
    found: dict[str, dict[tuple[str, ...], Line]] = {}
    for line in lines:
        if line.heads.get("rank"):
            heads = {name: text for name, text in line.heads.items() if name in _NAMED}
            own = found.setdefault(line.table.removesuffix(SINGLE), {})
            own.setdefault(tuple(heads.values()), line)
    return {table: list(rows.values()) for table, rows in found.items()}


def contests(rows: Sequence[Line], source: Results) -> Iterator[list[Line]]:
    """Split rows into competitions: at one k and, for most scores, under one reference."""
    shares: dict[tuple[str, str], list[Line]] = {}
    for row in rows:
        referring = (
            row.heads.get("k", "")
            and source.sorted_by(source.tasks_of(row.table)) in _UNDER_ONE_REFERENCE
        )
        reference = row.heads["reference"] if referring else ""
        shares.setdefault((reference, row.heads.get("k", "")), []).append(row)
    yield from shares.values()


def _answers(task: str, contest: Sequence[Line], source: Results) -> list[Any]:
    """Return the score of a competition, and the run and the number of each row."""
    name = source.rank_score(contest[0])
    raw: list[Raw] = [source.result_of(row, task) for row in contest]
    return [name, [[each.made["run"], each.score(name)] for each in raw]]
