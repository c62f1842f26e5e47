"""A task with right answers in the layout of ArguAna and NevIR: our own sentences."""

from __future__ import annotations

import json
from pathlib import Path

CORPUS = {
    "d1": "The bridge was closed in winter.",
    "d2": "The bridge was never closed in winter.",
    "d3": "Trains stop at the old mill.",
    "d4": "Trains do not stop at the old mill.",
    "d5": "The orchard grows pears.",
    "q9": "An argument of its own.",
    **{f"e{i}": f"Line {i} is of no use." for i in range(6)},
}
QUERIES = {
    "a_q1": "When was the bridge closed?",
    "b_q1": "Where do trains stop?",
    "a_q2": "Which bridge is open in winter?",
    "b_q2": "Which stop do trains leave out?",
    "c_q1": "Nobody answers this.",
}
ANSWERS = [("a_q1", "d1"), ("a_q2", "d2"), ("b_q1", "d3"), ("b_q2", "d4")]


def lines(rows: dict[str, str]) -> str:
    return "".join(f"{json.dumps({'_id': i, 'title': 't', 'text': x})}\n" for i, x in rows.items())


def write_answers(
    folder: Path,
    answers: list[tuple[str, str]] = ANSWERS,
    *,
    corpus: dict[str, str] = CORPUS,
    queries: dict[str, str] = QUERIES,
    head: str = "",
) -> Path:
    """Write a task whose files have the layout of ArguAna and NevIR."""
    (folder / "corpus.jsonl").write_text(lines(corpus), encoding="utf-8")
    (folder / "queries.jsonl").write_text(lines(queries), encoding="utf-8")
    rows = "".join(f"{query}\t{source}\t1\n" for query, source in answers)
    (folder / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")
    file = folder / "asked.toml"
    file.write_text(
        f"""
name = "asked"
kind = "opposite"
title = "Asked"
{head}
[format]
label = "_id"
[splits.query]
path = "queries.jsonl"
[splits.source]
path = "corpus.jsonl"
[splits.answers]
path = "test.tsv"
format = {{ text = "query-id", label = "corpus-id" }}
""",
        encoding="utf-8",
    )
    return file
