"""Checks of the numbers in figures, which a page also shows as tables, against raw files."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from traced.formulas import bound
from traced.raw import one, shortest
from traced.results import Results, names_of

_TABLE = re.compile(r'<table class="plain-table">(.*?)</table>', re.DOTALL)
_CAPTION = re.compile(r"<caption[^>]*>(.*?)</caption>")
_CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
_PLANE = re.compile(r"P against S: (.+?), k = (\d+), (linear|uniform) weights(?:, S under (.+))?")
_BARS = re.compile(r"(.+): P by part of the queries, k = (\d+), (linear|uniform) weights")
_BY_K = re.compile(r"(.+), (linear|uniform) weights: ([PS])(?: under (.+))? by k(?:, .+)?")
_BY_NUMBER = re.compile(r"(.+), k = (\d+), (linear|uniform) weights: ([PS]) by .+")
_GAIN = re.compile(r"([PS]): gain over (.+), k = (\d+), (linear|uniform) weights")
_BOUNDS = {"gold labels": "oracle", "random retrieval": "random"}
Place = tuple[str, str, Sequence[float]]
"""Position of a number, its shown text, and its possible values in the raw files."""


def undrawn(file: str, page: str, source: Results) -> list[str]:
    """Return a message for each number in a page's figures that differs from the raw files."""
    wrong = []
    for table in _TABLE.findall(page):
        caption = html.unescape(_CAPTION.findall(table)[0])
        lines = [list(map(html.unescape, _CELL.findall(row))) for row in table.split("<tr>")[1:]]
        try:
            for where, shown, found in _places(caption, lines[0], lines[1:], source):
                if shown not in {f"{value:.2f}" for value in found}:
                    wrong.append(f"{file}: {caption}: {where} is {shown}, its files have {found}")
        except LookupError as error:
            wrong.append(f"{file}: {caption}: comes from nowhere: {error!r}")
    return wrong


def _places(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], source: Results
) -> Iterator[Place]:
    """Yield each number of a figure; the caption tells the kind of figure."""
    if said := _PLANE.fullmatch(caption):
        for name, what, dial, *shown in rows:
            marked = _of_mark(source, said[1], _end(said[2], said[3]), (name, what, dial))
            for title, text, found in zip("PS", shown, zip(*marked, strict=True), strict=True):
                yield f"{title} of {name} {dial}", text, [100 * value for value in found]
    elif said := _BARS.fullmatch(caption):
        end = _end(said[2], said[3])
        yield from _of_grid(source, said[1], heads, {f"polarity_of_{r[0]}{end}": r for r in rows})
    elif said := _BY_K.fullmatch(caption):
        metric = {"P": "polarity", "S": "similarity"}[said[3]]
        scores = {f"{metric}{_end(row[0], said[2])}": row for row in rows}
        yield from _of_grid(source, said[1], heads, scores)
    elif said := _BY_NUMBER.fullmatch(caption):
        score = {"P": "polarity", "S": "similarity"}[said[4]] + _end(said[2], said[3])
        lines = {line for _, line in source.numbered}
        for at, *shown in rows:
            for name, text in zip(heads[1:], shown, strict=True):
                if name not in lines:
                    yield name, text, [100 * each for each in _scores(source, said[1], name, score)]
                elif (at, name) in source.numbered or text != "-":
                    mean = _of_method(source, said[1], (at, name), score)
                    yield f"{name} at {at}", text, [100 * mean]
    elif said := _GAIN.fullmatch(caption):
        score = {"P": "polarity", "S": "similarity"}[said[1]] + _end(said[3], said[4])
        for task, *shown in rows:
            (before,) = _scores(source, task, said[2], score)
            for name, text in zip(heads[1:], shown, strict=True):
                gains = [100 * (after - before) for after in _scores(source, task, name, score)]
                yield f"{task} of {name}", text, gains
    else:
        raise LookupError("no such figure is known")


def _of_grid(
    source: Results, task: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]]
) -> Iterator[Place]:
    """Yield the numbers of a grid with a score in each row and an encoder in each column."""
    for score, (_, *shown) in rows.items():
        for name, text in zip(heads[1:], shown, strict=True):
            if text not in {"", "-"}:
                found = _scores(source, task, name, score)
                yield f"{score} of {name}", text, [100 * value for value in found]


def _end(k: str, weighting: str) -> str:
    return f"{'_uniform' * (weighting == 'uniform')}_at_{k}"


def _scores(source: Results, task: str, name: str, score: str) -> list[float]:
    encoder = source.called(name)
    own = [e for e in source.ranked if (e.task, e.encoder) == (task, encoder)]
    return [each.score(score) for each in own if score in each.scores]


def _of_method(source: Results, task: str, at: tuple[str, str], score: str) -> float:
    """Return the mean score of the encoders of the method with a number on a line."""
    encoders = source.numbered[at]
    own = [e for e in source.ranked if e.task == task and names_of(e) & {*encoders}]
    if len(own) != len(encoders):
        raise LookupError(f"{at} has {len(own)} results of {len(encoders)} encoders")
    return fmean(each.score(score) for each in own)


def _of_mark(
    source: Results, task: str, end: str, mark: tuple[str, str, str]
) -> list[tuple[float, float]]:
    """Return the possible positions, P and S, of a mark."""
    name, what, dial = mark
    names = f"polarity{end}", f"similarity{end}"
    if what in _BOUNDS:
        own = [raw for raw in source.ranked if raw.task == task]
        found = [bound(raw.score, _BOUNDS[what], end) for raw in own if names[0] in raw.scores]
        return [(each["P"], each["S"]) for each in found]
    if what == "published":
        cited = [e for e in source.cited if (e["name"], e["task"]) == (name, task)]
        p, s = (one([e for e in cited if e["score"] == score]) for score in names)
        return [(float(p["value"]) / 100, float(s["value"]) / 100)]
    if what == "curve":
        return [
            (point["scores"][names[0]], point["scores"][names[1]])
            for curve in source.curves
            for point in curve["points"]
            if (curve["task"], curve["name"]) == (task, name.partition(" @")[0])
            and shortest(point[curve["dial"]]) == dial
        ]
    scores = (_scores(source, task, name, score) for score in names)
    return list(zip(*scores, strict=True))
