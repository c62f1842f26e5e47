"""Figures: what is drawn where, in which colours, said in words, and in the same bytes."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("altair", reason="the extra `report`")

import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from standins import call
from standins.board import curve_of, in_places, placed

from polarity_bench.boards.board import BoardParts, board
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, Chart, LineChart, Mark, Plane, Series
from polarity_bench.render.figures.figure import Figure
from polarity_bench.render.figures.figure_files import (
    _SCALE,
    _converter,
    _cropped,
    _png,
    draw_charts,
    figure_files,
    figure_svg,
    figures_of,
    stems,
)
from polarity_bench.render.figures.labels import SIZE, TakenSpace, box_at, spread_out
from polarity_bench.render.figures.themes import DARK, LIGHT, Theme, plain, width_of
from polarity_bench.render.html.templates import ASSETS
from polarity_bench.render.table import Board
from polarity_bench.results.result_files import write_result

BASE = EncoderId("base", "1")
MARKS = [
    Mark("gold", "oracle", 1.0, 0.5),
    Mark("chance", "random", 0.5, 0.2),
    Mark("base", "base", 0.6, 0.55),
    Mark("one", "encoder", 0.7, 0.4, tuned=True),
    Mark("two", "encoder", 0.8, 0.45),
    Mark("theirs", "published", 0.75, 0.35),
    Mark("constant", "encoder", 0.505, 0.205),
    Mark("dial", "curve", 0.2, 0.3, -1.0),
    Mark("dial", "curve", 0.6, 0.55, 0.0),
    Mark("dial", "curve", 0.9, 0.5, 0.25),
]
PLANE = Plane("sst2", "org/base", 16, "uniform", MARKS)
HOSTILE = [
    "<img src=x onerror=alert(1)>|[x](javascript:1)",
    "$x^2$ & $y$",
    "_hidden",
    "quo\"te's \\x1b \\u202e ${x} \\",
    "名前\x00\n\u202e",
]


def series(names: Sequence[str], n: int) -> list[Series]:
    values = np.random.default_rng(0).uniform(0.4, 0.9, (len(names), n))
    ends = [[(float(v) - 0.02, float(v) + 0.03) for v in row] for row in values]
    return [
        Series(name, list(map(float, row)), e)
        for name, row, e in zip(names, values, ends, strict=True)
    ]


def each_kind(names: Sequence[str]) -> list[Chart]:
    """A figure of each kind that has these names."""
    n = len(names)
    places = np.random.default_rng(1).uniform(0.3, 0.5, (n, 2))
    marks = [
        Mark(m, "encoder", 0.4 + float(p), float(s), tuned=True)
        for m, (p, s) in zip(names, places, strict=True)
    ]
    curve = [Mark(names[0], "curve", 0.8 + i / 100, 0.5 - i / 100, i / 10) for i in range(4)]
    others = [
        Mark(name, "published", m.p, m.s - 0.02) for name, m in zip(names, marks, strict=True)
    ]
    return [
        Plane(names[0], names[-1], 16, "linear", [*MARKS[:3], *marks, *curve, *others]),
        LineChart(names[0], names[0], names[0], [0, 1, 16, 1000], series(names, 4), is_log=True),
        BarChart(f"bars {names[0]}", names[0], ["plain", names[0]], series(names, 2), 0.5),
    ]


KINDS = ["plane", "lines", "bars"]


def figure_of(drawn: Chart) -> Figure:
    (figure,) = figures_of([drawn])
    return figure


def layers(
    figure: Figure, panel: int = 0
) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Layers of a panel with their rows, by their names without the panel's."""
    spec = figure.spec
    view = spec["concat"][panel] if "concat" in spec else spec
    return {
        re.sub(r"^(large|small)-|_\d+$", "", each["name"]): (
            each,
            spec["datasets"][each["data"]["name"]],
        )
        for each in view["layer"]
    }


POINTS = ("behind", "curve-points", "bounds", "points")


def points(figure: Figure, panel: int = 0) -> dict[str, list[dict[str, Any]]]:
    found = layers(figure, panel)
    return {name: found[name][1] for name in POINTS if name in found}


def labels(figure: Figure) -> list[dict[str, Any]]:
    found = layers(figure)
    return [row for name in ("labels", "labels-soft") if name in found for row in found[name][1]]


def colours(figure: Figure) -> dict[str, str]:
    """The colour of each series in a figure."""
    _, (layer, *_) = (
        next(iter(layers(figure).values())),
        [each for each, _ in layers(figure).values() if "color" in each["encoding"]],
    )
    scale = layer["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def domain(figure: Figure, panel: int = 0) -> tuple[list[float], list[float]]:
    layer = next(each for name, (each, _) in layers(figure, panel).items() if name in POINTS)
    x, y = (layer["encoding"][side]["scale"]["domain"] for side in "xy")
    return x, y


# Planes


def test_every_point_is_drawn_in_percent_large_and_in_the_whole() -> None:
    figure = figure_of(PLANE)
    for panel in (0, 1):
        rows = [row for part in points(figure, panel).values() for row in part]
        assert {(row["s"], row["p"]) for row in rows} == {
            (round(100 * m.s, 4), round(100 * m.p, 4)) for m in MARKS
        }
        (curve,) = [[(r["s"], r["p"]) for r in layers(figure, panel)["curves"][1]]]
        assert curve == [(30, 20), (55, 60), (50, 90)]
    assert layers(figure)["frame"][1] == [{"s": 20, "p": 50, "s2": 50, "p2": 100}]


def test_the_large_panel_shows_what_is_away_from_chance_and_the_other_all() -> None:
    figure = figure_of(PLANE)
    for panel, hidden in ((0, {"gold", "chance", "constant", -1.0}), (1, set())):
        (left, right), (low, high) = domain(figure, panel)
        for mark in MARKS:
            inside = left < 100 * mark.s < right and low < 100 * mark.p < high
            assert inside == (mark.name not in hidden and mark.at not in hidden), mark
    (frame,) = layers(figure, 1)["large"][1]
    assert [[frame["s"], frame["s2"]], [frame["p"], frame["p2"]]] == list(domain(figure))
    assert figure.title == "P against S: sst2, k = 16, uniform weights"
    x = layers(figure)["behind"][0]["encoding"]["x"]
    assert x["title"] == "S under org/base (%)"


def test_points_on_the_front_are_coloured_and_named_and_all_others_grey() -> None:
    marks = [
        *MARKS[:3],
        Mark("best p", "encoder", 0.95, 0.3, family="triplet"),
        Mark("best s", "encoder", 0.62, 0.56, family="mnrl"),
        Mark("behind", "encoder", 0.8, 0.25, family="triplet"),
        Mark("of a family behind", "encoder", 0.55, 0.45, family="lost"),
    ]
    figure = figure_of(replace(PLANE, marks=marks))
    series = {row["name"]: row["series"] for part in points(figure).values() for row in part}
    assert series == {
        "best p": "triplet",
        "best s": "mnrl",
        "behind": "not on the front",
        "of a family behind": "not on the front",
        "base": "base",
        "gold": "gold labels",
        "chance": "random retrieval",
    }
    shown = {row["text"]: row["soft"] for row in labels(figure)}
    assert shown == {"best p": False, "best s": False, "behind": True, "of a family behind": True}
    painted = colours(figure)
    assert painted["not on the front"] == "--faint"
    assert {painted["triplet"], painted["mnrl"]} == {"--c0", "--c1"}
    assert "lost" not in painted


def test_labels_cover_no_label_and_no_point_and_stay_inside() -> None:
    crowd = [
        Mark(f"c{i}", "curve", 0.8 + j / 200, 0.3 + i / 50 + j / 100, j / 10)
        for i in range(4)
        for j in range(6)
    ]
    rng = np.random.default_rng(3)
    cloud = [
        Mark(f"encoder {i}", "encoder", float(p), float(s))
        for i, (p, s) in enumerate(rng.uniform(0.55, 0.8, (25, 2)))
    ]
    figure = figure_of(replace(PLANE, marks=[*MARKS, *crowd, *cloud]))
    (left, right), (low, high) = domain(figure)
    width, height = (figure.spec["concat"][0][side] for side in ("width", "height"))

    def at(s: float, p: float) -> tuple[float, float]:
        return (s - left) / (right - left) * width, (p - low) / (high - low) * height

    boxes = []
    for row in labels(figure):
        x, y = at(row["s"], row["p"])
        wide = width_of(row["text"], SIZE)
        start = {"left": x, "center": x - wide / 2, "right": x - wide}[row["align"]]
        boxes.append((start, y - SIZE / 2, start + wide, y + SIZE / 2))
    assert len(boxes) > 15
    for one, other in itertools.combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    for box in boxes:
        assert box[0] >= 0
        assert box[2] <= width
        for mark in [*crowd, *cloud]:
            x, y = at(100 * mark.s, 100 * mark.p)
            assert not (box[0] < x < box[2] and box[1] < y < box[3])


def test_a_label_is_placed_as_by_a_look_at_every_box_and_point() -> None:
    rng = np.random.default_rng(5)
    points = rng.uniform(0, 300, (60, 2))
    room = TakenSpace((0, 0, 300, 300), points)
    room.take([box_at((x, y), (8.0, 8.0)) for x, y in points])
    for i, (x, y) in enumerate(points.tolist()):
        before = room.taken.tolist()
        placed = room.place(f"name {i}", (x, y), far=i % 2 == 0, is_soft=False)
        boxes = room.taken.tolist()[len(before) :]
        assert placed == bool(boxes)
        for left, low, right, high in boxes:
            assert not any(
                left < b[2] and b[0] < right and low < b[3] and b[1] < high for b in before
            )
        if placed and not room.placed[-1].is_far:
            left, low, right, high = boxes[0]
            away = [
                math.hypot(max(left - a, a - right, 0), max(low - b, b - high, 0))
                for a, b in points.tolist()
            ]
            assert sorted(away)[1] > away[i] + 1.5
    assert 10 < len(room.placed) < 60


def test_of_many_points_the_table_has_the_front_first() -> None:
    """Before, it had the first hundred by name, and the front among them by chance."""
    crowd = [Mark(f"encoder {i}", "encoder", 0.5 + i / 1e4, 0.3) for i in range(150)]
    last = [Mark("best p", "encoder", 0.9, 0.2), Mark("best s", "encoder", 0.55, 0.6)]
    figure = figure_of(replace(PLANE, marks=[*crowd, *last]))
    assert [row[0] for row in figure.cells[:3]] == ["best p", "best s", "encoder 0"]
    assert len(figure.cells) == 100
    assert figure.note.endswith("The table below has 100 of 152, the front first.")


def test_points_without_room_for_a_name_are_listed() -> None:
    crowd = [Mark(f"very much alike {i}", "encoder", 0.7, 0.4 + i / 1e5) for i in range(20)]
    figure = figure_of(replace(PLANE, marks=[*MARKS, *crowd]))
    placed = {row["text"] for row in labels(figure)}
    lacking = [mark.name for mark in crowd if mark.name not in placed]
    assert len(lacking) > 6
    assert f"Not labelled: {', '.join(lacking[:6])} and " in figure.note
    assert {"theirs", "one", "two"} <= placed


def test_the_width_of_text_is_an_upper_bound() -> None:
    for text in ("sst2-mnrl-masked", "SetFit (Cosine)", "WWMM@@%%", "ill 1.0", "Ünïcode ÅÄ"):
        spec = {
            "data": {"values": [{}]},
            "padding": 0,
            "width": 1,
            "height": 20,
            "mark": {"type": "text", "text": text, "align": "left", "fontSize": 100},
            "encoding": {"x": {"value": 0}},
            "config": {"font": "Liberation Sans", "view": {"stroke": None}},
        }
        svg = ET.fromstring(_converter().vegalite_to_svg(spec))
        assert float(svg.attrib["width"]) <= width_of(text, 100) + 1, text


def test_a_line_leads_from_the_base_to_what_was_trained_from_it() -> None:
    assert layers(figure_of(PLANE))["pulls"][1] == [{"s": 55, "p": 60, "s2": 40, "p2": 70}]
    without = figure_of(replace(PLANE, marks=[mark for mark in MARKS if mark.role != "base"]))
    assert "pulls" not in layers(without)
    assert "trained from it" not in without.note


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 2), max_size=9))
def test_the_front_is_of_those_that_none_beats(places: list[tuple[int, int]]) -> None:
    marks = [Mark(str(i), "encoder", p / 6, s / 6) for i, (p, s) in enumerate(places)]
    marks.append(Mark("theirs", "published", 1.0, 1.0))
    best = {
        (p, s)
        for p, s in places
        if not any(a >= p and b >= s and (a, b) != (p, s) for a, b in places)
    }
    found = replace(PLANE, marks=marks).front
    assert {(round(6 * m.p), round(6 * m.s)) for m in found} == best
    assert len(found) == len(best)
    assert [m.s for m in found] == sorted((m.s for m in found), reverse=True)


def test_roles_differ_in_shape_or_colour() -> None:
    layer = layers(figure_of(PLANE))["behind"][0]["encoding"]
    looks = list(
        zip(layer["color"]["scale"]["range"], layer["shape"]["scale"]["range"], strict=True)
    )
    assert len(set(looks)) == len(looks) > 5
    assert layer["color"]["scale"]["domain"] == layer["shape"]["scale"]["domain"]


def test_a_name_looks_the_same_in_every_figure_of_a_board() -> None:
    curves = LineChart(
        "k", "k", "P", [4, 16], [Series("x", [0.4, 0.5]), Series("dial", [0.5, 0.6])]
    )
    plane, lines = map(colours, figures_of([PLANE, curves]))
    assert plane["dial"] == lines["dial"]
    assert lines["x"] != lines["dial"]


@pytest.mark.parametrize(
    "marks",
    [
        [Mark("a", "encoder", 0.5, 0.4)],
        [Mark("a", "encoder", 0.4, 0.3), MARKS[1]],
        [MARKS[0], MARKS[1]],
        [Mark("a", "encoder", 0.6, 0.3), Mark("b", "encoder", 0.7, 0.2), MARKS[1]],
    ],
    ids=["one point", "nothing above chance", "only bounds", "no oracle"],
)
def test_a_plane_of_little_can_be_drawn(marks: list[Mark]) -> None:
    assert b"<svg" in figure_svg(Board("", "", (), (), [replace(PLANE, marks=marks)]))


# Lines and bars


def test_lines_are_drawn_in_percent_with_gaps_bands_and_their_names() -> None:
    two = [
        Series("a", [0.5, math.nan, 0.7], [(0.4, 0.6), None, (0.6, 0.8)]),
        Series("b", [0.2, 0.3, math.nan]),
    ]
    figure = figure_of(LineChart("title", "k", "P", [0, 4, 16], two, is_log=True))
    found = layers(figure)
    layer, rows = found["lines"]
    assert [(row["name"], row["x"], row["y"]) for row in rows] == [
        ("a", 0, 50),
        ("a", 16, pytest.approx(70)),
        ("b", 0, 20),
        ("b", 4, 30),
    ]
    assert [(row["low"], row["high"]) for row in found["bands"][1]] == [(40, 60), (60, 80)]
    x = layer["encoding"]["x"]
    assert (x["scale"]["type"], x["axis"]["values"]) == ("symlog", [0, 4, 16])
    assert {row["name"]: (row["x"], round(row["y"])) for row in found["labels"][1]} == {
        "a": (16, 70),
        "b": (4, 30),
    }
    assert layer["encoding"]["y"]["title"] == "P (%)"
    low, high = layer["encoding"]["y"]["scale"]["domain"]
    assert low < 20
    assert high > 80
    assert figure.note.startswith("Bands are 95 % intervals.")


def test_the_interval_of_a_single_point_is_a_vertical_line() -> None:
    """Before, its band had no width."""
    point = Series("point", [0.25, math.nan], [(0.2, 0.3), None])
    whole = Series("whole", [0.2, 0.3], [(0.1, 0.3), (0.2, 0.4)])
    figure = figure_of(LineChart("title", "labels", "P", [20, 500], [whole, point]))
    layer, rows = layers(figure)["ranges"]
    assert [(row["name"], row["low"], row["high"]) for row in rows] == [("point", 20, 30)]
    assert layer["mark"]["type"] == "rule"
    assert figure.note.startswith("Bands and vertical lines are 95 % intervals.")
    assert "ranges" not in layers(figure_of(LineChart("t", "k", "P", [20, 500], [whole])))


@pytest.mark.parametrize(
    ("x", "shown"), [([20, 500], ["20", "500"]), ([250, 1250, 12500], ["250", "1.25k", "12.5k"])]
)
def test_ticks_are_labelled_with_all_their_digits(x: list[int], shown: list[str]) -> None:
    """Before, 20 beside 500 was 2e+1, and 250 beside 12,500 was 0k."""
    chart = LineChart("title", "x", "P", x, [Series("only", [0.2] * len(x))])
    texts = re.findall(">([^<]+)</text>", draw_charts([chart], "svg").decode())
    assert set(shown) <= set(texts), texts


def test_a_line_that_ends_early_has_a_dotted_line_to_its_name() -> None:
    """Before, the thin line from a single point to the margin looked like values."""
    whole, point = Series("whole", [0.2, 0.3]), Series("point", [0.25, math.nan])
    chart = LineChart("title", "labels", "P", [20, 500], [whole, point])
    figure = figure_of(chart)
    layer, rows = layers(figure)["long-label-lines"]
    assert [(row["name"], row["x"]) for row in rows] == [("point", 20)]
    assert layer["mark"]["strokeDash"]
    assert [row["name"] for row in layers(figure)["label-lines"][1]] == ["whole"]
    assert figure.note == "Dotted lines lead to the names of lines that end earlier."
    plain = figure_of(replace(chart, series=[whole, replace(point, values=[0.25, 0.26])]))
    assert "long-label-lines" not in layers(plain)
    assert plain.note == ""


def test_of_many_lines_the_first_are_coloured_and_the_others_grey() -> None:
    names = [f"e{i}" for i in range(30)]
    figure = figure_of(LineChart("t", "k", "P", [1, 2], series(names, 2)))
    found = layers(figure)
    assert "bands" not in found
    assert {row["name"] for row in found["lines"][1]} == set(names[:8])
    assert {row["name"] for row in found["others"][1]} == set(names[8:])
    assert {row["name"] for row in found["labels"][1]} == set(names[:24])
    assert figure.note == "6 more are grey and have no name."


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_names_at_the_ends_of_lines_are_spread_out(places: list[float]) -> None:
    found = spread_out(sorted(places), 0.5, 0.0, 10.0)
    assert len(found) == len(places)
    assert all(b - a > 0.5 - 1e-9 for a, b in itertools.pairwise(found))
    assert found[0] > -1e-9
    assert found[-1] < 10 + 1e-9


def test_bars_begin_at_0_and_chance_is_a_line() -> None:
    figure = figure_of(BarChart("t", "P", ["plain", "sarcasm"], series(["a", "b"], 2), 0.5))
    found = layers(figure)
    layer, rows = found["bars"]
    assert layer["mark"]["type"] == "bar"
    values = [100 * value for each in series(["a", "b"], 2) for value in each.values]
    assert [row["y"] for row in rows] == pytest.approx(values)
    low, high = layer["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > max(values) + 3
    assert [row["y"] for row in found["chance"][1]] == [50]
    first = found["intervals"][1][0]
    assert (first["low"], first["high"]) == pytest.approx((values[0] - 2, values[0] + 3))
    assert layer["encoding"]["y"]["sort"] == ["plain", "sarcasm"]
    assert figure.note == (
        "The dashed line is chance over all queries; chance in a part depends on its labels. "
        "Thin lines are 95 % intervals."
    )


def test_bars_reach_as_far_as_their_intervals_below_0() -> None:
    of = [Series("a", [0.5, 0.2], [(0.1, 0.97), (-0.15, 0.3)]), Series("b", [0.6, 0.1])]
    layer = layers(figure_of(BarChart("bars", "P", ["x", "y"], of, None)))["bars"][0]
    low, high = layer["encoding"]["x"]["scale"]["domain"]
    assert low < -15
    assert high > 97


def test_bars_of_many_are_points_and_some_are_left_out_with_a_word() -> None:
    names = [f"e{i}" for i in range(30)]
    figure = figure_of(BarChart("t", "P", ["plain"], series(names, 1)))
    layer, rows = layers(figure)["bars"]
    assert layer["mark"]["type"] == "point"
    assert [row["name"] for row in rows] == names[:24]
    assert figure.note.endswith("6 more are left out.")
    colours, shapes = (layer["encoding"][name]["scale"]["range"] for name in ("color", "shape"))
    assert len({*zip(colours, shapes, strict=True)}) == 24, (
        "before, the ninth looked like the first"
    )


def test_of_many_groups_of_bars_the_lowest_are_shown() -> None:
    """Before, the figure of a task of 1,000 parts was more than 25,000 pixels high."""
    values = [math.nan, *(0.9 - i / 1000 for i in range(199))]
    of = [Series("a", values, [(0.1, 0.9)] * 200), Series("b", [0.5] * 200)]
    figure = figure_of(BarChart("t", "P", [f"part {i}" for i in range(200)], of))
    layer, rows = layers(figure)["bars"]
    shown = layer["encoding"]["y"]["sort"]
    assert shown == [f"part {i}" for i in range(199, 149, -1)]
    assert len(rows) == 100
    assert figure.note.endswith("Of 200 groups, the 50 where a is lowest are shown.")


# Text from outside, colours


@pytest.mark.parametrize("i", range(3), ids=KINDS)
def test_names_that_are_markup_appear_as_text(i: int) -> None:
    tree = ET.fromstring(draw_charts([each_kind(HOSTILE)[i]], "svg"))
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not tags & {"img", "script", "image", "foreignObject", "a"}
    assert not [name for e in tree.iter() for name in e.attrib if name.startswith("on")]
    shown = " ".join("".join(e.itertext()) for e in tree.iter() if e.tag.endswith("text"))
    assert "<img src=x" in shown
    (said,) = tree.findall("{*}desc")
    assert said.text is not None
    for name in (*HOSTILE[:4], "名前\ufffd \ufffd"):
        assert name in said.text
    for name in HOSTILE[:4]:
        assert name in shown or len(name) > 25  # a long name is cut
    assert tree.get("role") == "img"


def test_a_name_that_is_a_colour_of_the_theme_stays_a_name() -> None:
    bars = BarChart("--ink", "--ink", ["--ink"], [Series("--c0", [0.5]), Series("--c1", [0.6])])
    svg = draw_charts([bars], "svg").decode()
    for name in ("--ink", "--c0", "--c1"):
        assert f">{name}<" in svg
    assert not re.search(r'(fill|stroke)="--', svg)


def test_text_is_made_fit_to_be_drawn() -> None:
    assert plain("a\u2028b\ud800\u200b ") == "a b\ufffd\ufffd"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_and_marks_be_seen(theme: Theme) -> None:
    def contrast(name: str) -> float:
        high, low = sorted((luminance(theme[name]), luminance(theme["--paper"])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    assert contrast("--ink") >= 7
    assert contrast("--soft") >= 4.5
    for name in theme:
        if name not in {"--paper", "--rule"}:
            assert contrast(name) >= 3, name
    assert len({theme[f"--c{i}"] for i in range(8)}) == 8
    drawn = draw_charts(each_kind(["a", "b"]), "svg", theme).decode()
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', drawn))
    assert used <= set(theme.values())
    texts = set(re.findall(r'<text[^>]* fill="([^"]*)"', drawn))
    assert texts <= {theme["--ink"], theme["--soft"]}


def test_a_page_has_the_colours_of_the_files() -> None:
    css = (ASSETS / "page.css").read_text(encoding="utf-8")
    pairs = dict(re.findall(r"(--\w+): light-dark\((#\w+, #\w+)\)", css))
    for name in LIGHT:
        if name != "--paper":
            assert pairs[name] == f"{LIGHT[name]}, {DARK[name]}"


# Files


def some_parts() -> tuple[BoardParts, list[Chart]]:
    """The results and the curve of a board, and charts to add to it."""
    results = [
        placed(EncoderId(f"e {i}", str(i)), "sst2", 0.6 + i / 20, 0.5 - i / 20, reference=BASE)
        for i in range(4)
    ]
    curve = curve_of("dial $a$ & <b>", dict(enumerate(results[:3])), 0.5, (0.4, 0.6))
    return BoardParts(in_places(results), curves=[curve]), each_kind(["a", "b"])[1:]


def some_board() -> Board:
    parts, more = some_parts()
    made = board(parts)
    return replace(made, charts=[*made.charts, *more])


def test_each_figure_has_four_files() -> None:
    made = some_board()
    found = figure_files(made, figures_of(made.charts))
    names = ["sst2-p-against-s", "a", "bars-a"]
    ends = [".svg", ".png", "-dark.svg", "-dark.png"]
    assert list(found) == [f"{name}{end}" for name in names for end in ends]
    for name, content in found.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
        else:
            assert ET.fromstring(content).tag.endswith("svg")
    assert found["a.svg"] != found["a-dark.svg"]


def test_a_figure_keeps_names_as_they_are() -> None:
    tree = ET.fromstring(figure_svg(some_board()))
    texts = {"".join(e.itertext()).strip() for e in tree.iter() if e.tag.endswith("text")}
    assert {"dial $a$ & <b>", "e 3", "gold labels", "random retrieval"} <= texts
    (title,) = tree.findall("{*}title")
    assert title.text == "P against S: sst2, k = 16, linear weights"


def test_a_figure_says_its_numbers_in_words() -> None:
    said = dict(zip(KINDS, (f.description for f in figures_of(each_kind(["a", "b"]))), strict=True))
    assert "base: P 60.0, S 55.0" in said["plane"]
    assert "a at 0.1: P 81.0, S 49.0" in said["plane"]
    first = series(["a"], 4)[0].values[0]
    assert f"a: 0 {100 * first:.1f}" in said["lines"]
    assert said["bars"].endswith("Chance: 50.0.")


def test_the_same_board_gives_the_same_bytes_in_any_process() -> None:
    """Whatever the seed of hashes, the fonts of the machine, and what was drawn before."""
    drawn = figure_svg(some_board())
    assert figure_svg(some_board()) == drawn
    script = (
        "import pickle, sys; from dataclasses import replace; "
        "from polarity_bench.boards.board import board; "
        "from polarity_bench.render.figures.figure_files import figure_svg; "
        "parts, more = pickle.load(sys.stdin.buffer); made = board(parts); "
        "made = replace(made, charts=[*made.charts, *more]); "
        "sys.stdout.buffer.write(figure_svg(made))"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        input=pickle.dumps(some_parts()),
        env={
            "PYTHONHASHSEED": "1",
            "PYTHONPATH": str(root),
            "HF_HUB_OFFLINE": "1",
            "FONTCONFIG_FILE": "/none",
        },
        capture_output=True,
        check=True,
    )
    assert done.stdout == drawn


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_a_specification_is_valid(kind: int) -> None:
    figure = figure_of(each_kind(["a", "b", "c"])[kind])
    valid = figure.chart.to_dict()
    valid.pop("config")
    assert json.dumps(valid | {"description": figure.title}) == json.dumps(figure.spec)


def test_a_png_shows_every_pixel_of_the_svg() -> None:
    """Marks far outside of a panel are removed before a PNG is drawn."""
    svg = figure_svg(some_board()).decode()
    assert _cropped(svg).count("<path") < svg.count("<path")
    drawn = _converter().svg_to_png(svg, scale=_SCALE)
    assert _png(svg) == bytes(drawn)


def test_fonts_of_the_machine_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of Liberation Sans would change the bytes of every PNG."""
    seen: list[str | None] = []
    drawn = vl_convert.svg_to_png

    def draw(svg: str) -> bytes:
        seen.append(os.environ.get("FONTCONFIG_FILE"))
        return drawn(svg)

    monkeypatch.setattr(vl_convert, "svg_to_png", draw)
    monkeypatch.delenv("FONTCONFIG_FILE", raising=False)
    _converter.__wrapped__()
    (file,) = seen
    (folder,) = ET.parse(str(file)).getroot()
    assert (folder.tag, folder.text) == ("dir", "/dev/null")
    assert "FONTCONFIG_FILE" not in os.environ, "a browser that inherits it has no fonts"
    monkeypatch.setenv("FONTCONFIG_FILE", "my.conf")
    _converter.__wrapped__()
    assert len(seen) == 1


def test_two_planes_of_one_title_name_their_references() -> None:
    one, other = figures_of([PLANE, replace(PLANE, reference="other")])
    assert one.title.endswith(", S under org/base")
    assert other.title.endswith(", S under other")


def test_files_have_safe_names_and_no_two_share_one() -> None:
    titles = ["../../etc/passwd", "a", "A", "a-dark", "名前", "", "x" * 500, "x" * 400, "é|:<>"]
    found = stems([BarChart(title, "P", [], []) for title in titles])
    assert found[:6] == ["etc-passwd", "a", "a-2", "a-dark-2", "figure", "figure-2"]
    assert found[8] == "e"
    assert all(len(stem) <= 83 for stem in found)
    names = [name for stem in found for name in (stem, f"{stem}-dark")]
    assert len(set(names)) == len(names)
    planes = [
        replace(PLANE, k=4),
        PLANE,
        replace(PLANE, reference="other"),
        replace(PLANE, task="cr"),
    ]
    assert stems(planes) == [
        "sst2-p-against-s-k-4",
        "sst2-p-against-s-k-16",
        "sst2-p-against-s-k-16-2",
        "cr-p-against-s",
    ]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarity_bench.errors.find_spec", lambda _: None)
    with pytest.raises(
        InputError, match=r"a figure needs altair, jinja2, vl_convert; .*'\.\[report\]'"
    ):
        figure_svg(some_board())


# The commands


def test_the_command_draws_a_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        write_result(
            placed(EncoderId(name, name), "sst2", 0.7, 0.4, reference=BASE), tmp_path / "r"
        )
    file = tmp_path / "f.svg"
    done = call(monkeypatch, capsys, "leaderboard", tmp_path / "r", "--figure", file)
    assert done.code == 0, done.err
    assert "| one " in done.out
    assert f"wrote {file}" in done.err
    assert ET.fromstring(file.read_bytes()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("file", "reference", "message"),
    [
        ("none/f.svg", BASE, "error: --figure {}: the folder"),
        ("f.png", BASE, "error: --figure {}: the file name must end in .svg"),
        ("f.svg", None, "error: --figure: there is nothing to draw, because no two encoders"),
    ],
)
def test_the_command_says_why_there_is_no_figure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    reference: EncoderId | None,
    message: str,
) -> None:
    for name in ("one", "two"):
        result = placed(EncoderId(name, name), "sst2", 0.7, 0.4, reference=reference)
        write_result(result, tmp_path / "r")
    done = call(monkeypatch, capsys, "leaderboard", tmp_path / "r", "--figure", tmp_path / file)
    assert done.code == 2
    assert message.format(tmp_path / file) in done.err
    assert not (tmp_path / file).exists()
