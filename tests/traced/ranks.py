"""Ranks in the tables of a board of results, and what they can tell, from `statistics.json`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.types import digest_of
from traced.lines import Line
from traced.raw import Raw
from traced.results import Results

_UNDER_ONE_REFERENCE = {"S", "retention", "joint"}
_SMALLEST = re.compile(r"([\d.]+|none) \((n = [\d,]+)\)")


def unranked(folder: Path, lines: Sequence[Line], source: Results) -> list[str]:
    """Say of each contest whose ranks are not those of `statistics.json`, by its own results."""
    file = folder / "statistics.json"
    known = json.loads(file.read_bytes())["standings"] if file.is_file() else {}
    wrong = []
    for table, rows in ranked_rows(lines).items():
        for contest in contests(rows, source):
            tasks = source.tasks_of(table)
            digest = digest_of(sorted(_answers(task, contest, source) for task in tasks))
            shown = [row.heads["rank"] for row in contest]
            held = known.get(digest, {"ranks": []})["ranks"]
            wanted = [str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in held]
            if shown != wanted:
                wrong.append(f"{folder.name}: {table}: ranks are {shown}, {digest} has {wanted}")
    return wrong


def unknown_smallest(folder: Path, readme: str) -> list[str]:
    """Say which smallest difference below a README's tables `statistics.json` does not hold."""
    file = folder / "statistics.json"
    known = json.loads(file.read_bytes())["standings"].values() if file.is_file() else []
    held = {(_least(each), f"n = {each['n']:,}") for each in known}
    notes = re.findall(r"The smallest true difference .*", readme)
    return [f"{folder.name}: {s}" for n in notes for s in _SMALLEST.findall(n) if s not in held]


def _least(standing: Mapping[str, Any]) -> str:
    least = standing["detectable"]
    return "none" if least is None or math.isnan(least) else f"{100 * least:.1f}"


def ranked_rows(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return a line of each row that has a rank, by table."""
    found: dict[str, dict[tuple[str, ...], Line]] = {}
    for line in lines:
        if line.heads.get("rank", "-") not in {"", "-"}:
            found.setdefault(line.table, {}).setdefault(tuple(line.heads.values()), line)
    return {table: list(rows.values()) for table, rows in found.items()}


def contests(rows: Sequence[Line], source: Results) -> Iterator[list[Line]]:
    """Part rows into those that compete: at one k and, by most scores, under one reference."""
    shares: dict[tuple[str, str], list[Line]] = {}
    for row in rows:
        referring = source.sorted_by in _UNDER_ONE_REFERENCE and row.heads["k"]
        reference = row.heads["reference"] if referring else ""
        shares.setdefault((reference, row.heads["k"]), []).append(row)
    yield from shares.values()


def _answers(task: str, contest: Sequence[Line], source: Results) -> list[Any]:
    """Return the score that a contest is by, and of each row the run and its number."""
    name = source.rank_score(contest[0])
    raw: list[Raw] = [source.result_of(row, task) for row in contest]
    return [name, [[each.made["run"], each.score(name)] for each in raw]]
