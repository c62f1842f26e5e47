"""Figures: what is drawn where, in which marks, said in words, and in the same bytes."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from standins import call
from standins.board import curve_of, in_places, placed

from polarity_bench.boards.board import BoardParts, board
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, Drawn, LineChart, Mark, Plane, Ranks, Series
from polarity_bench.render.figures import files as files_module
from polarity_bench.render.figures.files import draw, figure_files, figure_svg, sheet_of, stems
from polarity_bench.render.figures.lines import spread_out
from polarity_bench.render.figures.plane import front
from polarity_bench.render.figures.ranks import bar_levels
from polarity_bench.render.figures.style import (
    LIGHT,
    N_NAMED,
    THEMES,
    WIDTH,
    Theme,
    look,
    looks_of,
    plain,
    styled,
    width_of,
    wrapped,
)
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
    "名前\x00\n\u202e",
]
LONG = "sarcastic-headlines-seed0-online-contrastive-margin1.0-22b2c62493ee"


def series(names: Sequence[str], n: int) -> list[Series]:
    values = np.random.default_rng(0).uniform(0.4, 0.9, (len(names), n))
    ends = [[(float(v) - 0.02, float(v) + 0.03) for v in row] for row in values]
    return [
        Series(name, list(map(float, row)), e)
        for name, row, e in zip(names, values, ends, strict=True)
    ]


def each_kind(names: Sequence[str]) -> list[Drawn]:
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
        Ranks(
            f"ranks {names[0]}", names, [1 + i / 2 for i in range(n)], [(0, n - 1), (n - 1, n - 1)]
        ),
    ]


KINDS = ["plane", "lines", "bars", "ranks"]


@contextmanager
def drawn(*each: Drawn, theme: Theme = LIGHT) -> Iterator[Figure]:
    looks = looks_of(each)
    with styled(theme):
        figure = draw([sheet_of(one, looks) for one in each], theme)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        yield figure


def lines(axes: Any) -> dict[tuple[tuple[float, float], ...], Any]:
    """What is drawn with a marker, by its points."""
    found = [line for line in axes.lines if line.get_marker() not in {"None", None, ""}]
    return {
        tuple(map(tuple, np.round(np.asarray(line.get_xydata()), 6).tolist())): line
        for line in found
    }


def texts(figure: Figure) -> list[Text]:
    found = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible())
    return [text for text in found if isinstance(text, Text) and text.get_text()]


def legend_of(figure: Figure) -> list[str]:
    (legend,) = figure.subfigs[0].legends
    return [text.get_text() for text in legend.get_texts()]


def beside(axes: Any) -> dict[str, Annotation]:
    """Labels beside points; arrows have no text."""
    return {text.get_text(): text for text in labels(axes)}


def labels(axes: Any) -> list[Annotation]:
    return [text for text in axes.texts if isinstance(text, Annotation) and text.get_text()]


# Planes


def test_every_point_is_drawn_in_percent_large_and_in_the_whole() -> None:
    with drawn(PLANE) as figure:
        for axes in figure.axes:
            assert set(lines(axes)) == {
                ((50, 100),),
                ((20, 50),),
                ((55, 60),),
                ((40, 70),),
                ((45, 80),),
                ((35, 75),),
                ((20.5, 50.5),),
                ((30, 20), (55, 60), (50, 90)),
            }


def test_the_large_panel_shows_what_is_away_from_chance_and_the_other_all() -> None:
    with drawn(PLANE) as figure:
        large, whole = figure.axes
        for axes, hidden in ((large, {"gold", "chance", "constant", -1.0}), (whole, set())):
            (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
            for mark in MARKS:
                inside = left < 100 * mark.s < right and low < 100 * mark.p < high
                assert inside == (mark.name not in hidden and mark.at not in hidden), mark
        assert large.get_title(loc="left") == "sst2, k = 16, uniform weights"
        assert large.get_xlabel() == "S under org/base (%)"


def test_a_name_stands_once_beside_its_point_or_in_the_legend() -> None:
    crowd = [Mark(f"very much alike {i}", "encoder", 0.7, 0.4 + i / 1e4) for i in range(20)]
    with drawn(replace(PLANE, marks=[*MARKS, *crowd])) as figure:
        named = legend_of(figure)
        shown = beside(figure.axes[0])
        fixed = {"gold", "dial", "base", "chance", "made from it", "published"}
        assert fixed < set(named)
        single = {m.name for m in [*MARKS, *crowd] if m.role in ("encoder", "published")}
        assert single <= set(named) ^ set(shown)
        assert len(set(named)) == len(named)
        assert {"theirs", "one", "two"} <= set(shown)
        assert {mark.name for mark in crowd} & set(named)
        assert "0.25" in shown


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
    with drawn(replace(PLANE, marks=[*MARKS, *crowd, *cloud])) as figure:
        axes = figure.axes[0]
        boxes = [Text.get_window_extent(text) for text in labels(axes)]
        assert len(boxes) > 15
        points = axes.transData.transform([(100 * m.s, 100 * m.p) for m in [*crowd, *cloud]])
        frame = axes.get_window_extent()
        for box, other in itertools.combinations(boxes, 2):
            assert not box.overlaps(other)
        for box in boxes:
            assert frame.x0 <= box.x0
            assert box.x1 <= frame.x1
            assert not any(box.contains(*point) for point in points)


def test_an_arrow_leads_from_the_base_to_what_was_made_from_it_and_no_further() -> None:
    with drawn(PLANE) as figure:
        arrows = [t for t in figure.axes[0].texts if isinstance(t, Annotation) and not t.get_text()]
        (arrow,) = arrows
        assert (*arrow.xy, *arrow.xyann) == pytest.approx((40, 70, 55, 60))
    with drawn(replace(PLANE, marks=[mark for mark in MARKS if mark.role != "base"])) as figure:
        assert all(text.get_text() for text in figure.axes[0].texts)
        assert "made from it" not in legend_of(figure)


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 2), max_size=9))
def test_the_front_is_of_those_that_none_beats(places: list[tuple[int, int]]) -> None:
    marks = [Mark(str(i), "encoder", p / 6, s / 6) for i, (p, s) in enumerate(places)]
    marks.append(Mark("theirs", "published", 1.0, 1.0))
    best = {
        (p, s)
        for p, s in places
        if not any(a >= p and b >= s and (a, b) != (p, s) for a, b in places)
    }
    found = front(marks)
    assert {(round(6 * m.p), round(6 * m.s)) for m in found} == best
    assert len(found) == len(best)
    assert [m.s for m in found] == sorted((m.s for m in found), reverse=True)


def test_roles_differ_in_marker_and_no_two_names_look_alike() -> None:
    with drawn(PLANE) as figure:
        found = lines(figure.axes[0])
        seen = [(x.get_marker(), x.get_color(), x.get_markerfacecolor()) for x in found.values()]
        assert len(set(seen)) == len(found)
        assert found[((35, 75),)].get_markerfacecolor() == "none"
        assert found[((30, 20), (55, 60), (50, 90))].get_linestyle() == "-"
        assert found[((40, 70),)].get_linestyle() == "None"
    for theme in THEMES:
        assert len({(s["marker"], s["color"]) for s in (look(i, theme) for i in range(60))}) == 60


def test_a_name_looks_the_same_in_every_figure_of_a_board() -> None:
    other = replace(PLANE, task="cr", marks=[*MARKS[:3], Mark("two", "encoder", 0.6, 0.4)])
    curves = LineChart("k", "k", "P", [4, 16], [Series("two", [0.5, 0.6])])
    with drawn(PLANE, other, curves) as figure:
        panels = [figure.axes[0], figure.axes[2], figure.axes[4]]
        places = [((45, 80),), ((40, 60),), ((4, 50), (16, 60))]
        looks = [lines(axes)[place] for axes, place in zip(panels, places, strict=True)]
        assert len({(line.get_marker(), to_hex(line.get_color())) for line in looks}) == 1


def test_of_many_the_best_are_named_and_the_others_counted() -> None:
    many = [Mark(f"e{i}", "encoder", 0.6 + i / 1000, 0.5 - i / 1000) for i in range(N_NAMED + 5)]
    behind = [Mark(f"behind {i}", "encoder", 0.55, 0.4) for i in range(3)]
    with drawn(replace(PLANE, marks=[*behind, *many])) as figure:
        assert "8 others" in legend_of(figure)
        named = {*legend_of(figure), *beside(figure.axes[0])}
        assert not named & {mark.name for mark in behind}  # the front goes first


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


# Lines, bars, ranks


def test_lines_are_drawn_in_percent_with_gaps_bands_and_their_names() -> None:
    two = [
        Series("a", [0.5, math.nan, 0.7], [(0.4, 0.6), None, (0.6, 0.8)]),
        Series("b", [0.2, 0.3, math.nan]),
    ]
    with drawn(LineChart("title", "k", "P", [0, 4, 16], two, is_log=True)) as figure:
        (axes,) = figure.axes
        ys = {line.get_marker(): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
        assert np.allclose(ys["o"], [50, math.nan, 70], equal_nan=True)
        assert np.allclose(ys["s"], [20, 30, math.nan], equal_nan=True)
        assert len(axes.collections) == 1
        assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "4", "16"]
        ends = {name: text.xy for name, text in beside(axes).items()}
        assert {name: (x, round(y)) for name, (x, y) in ends.items()} == {
            "a": (16, 70),
            "b": (4, 30),
        }
        assert axes.get_ylabel() == "P (%)"


def test_lines_of_many_have_no_bands_and_count_the_others() -> None:
    names = [f"e{i}" for i in range(N_NAMED + 3)]
    with drawn(LineChart("t", "k", "P", [1, 2], series(names, 2))) as figure:
        assert not figure.axes[0].collections
        assert "and 3 others, faint" in beside(figure.axes[0])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_names_at_the_ends_of_lines_are_spread_out(places: list[float]) -> None:
    found = spread_out(sorted(places), 0.5, 0.0, 10.0)
    assert len(found) == len(places)
    assert all(b - a > 0.5 - 1e-9 for a, b in itertools.pairwise(found))
    assert found[0] > -1e-9
    assert found[-1] < 10 + 1e-9


def test_bars_begin_at_0_and_chance_is_a_line() -> None:
    with drawn(BarChart("t", "P", ["plain", "sarcasm"], series(["a", "b"], 2), 0.5)) as figure:
        axes: Any = figure.axes[0]
        assert axes.get_xlim()[0] == 0
        values = [100 * value for each in series(["a", "b"], 2) for value in each.values]
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(values)
        chance = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert [line.get_xdata()[0] for line in chance] == [50]
        assert legend_of(figure) == ["a", "b", "chance"]
        assert [text.get_text() for text in axes.get_yticklabels()] == ["plain", "sarcasm"]
        ends = [p.vertices[:, 0].tolist() for c in axes.collections for p in c.get_paths()]
        assert ends[0] == pytest.approx([values[0] - 2, values[0] + 3])


def test_bars_of_many_are_points_and_some_are_left_out_with_a_word() -> None:
    names = [f"e{i}" for i in range(30)]
    with drawn(BarChart("t", "P", ["plain"], series(names, 1))) as figure:
        assert not figure.axes[0].patches
        assert len(lines(figure.axes[0])) == 24
        assert legend_of(figure)[-1] == "6 others not shown"


def test_ranks_have_the_best_on_the_right_and_bars_join_ties() -> None:
    ranks = Ranks("t", ["a", "b", "c", "d"], [1.2, 1.8, 3.0, 4.0], [(0, 1), (1, 2), (3, 3)])
    with drawn(ranks) as figure:
        (axes,) = figure.axes
        at = {text.get_text().split()[0]: text.get_position() for text in axes.texts}
        assert at["a"][0] == at["b"][0] > WIDTH / 2 > at["c"][0] == at["d"][0]
        assert at["a"][1] < at["b"][1]  # the axis goes down
        assert at["d"][1] < at["c"][1]
        assert at["1"][0] > at["4"][0]
        bars = [np.asarray(line.get_xdata()) for line in axes.lines if line.get_linewidth() > 3]
        assert len(bars) == 3
        unit = at["1"][0] - at["2"][0]
        assert bars[0][1] - bars[0][0] == pytest.approx(0.6 * unit + 0.08)


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=12))
def test_no_two_bars_of_a_level_touch(pairs: list[tuple[int, int]]) -> None:
    ties = sorted((min(pair), max(pair)) for pair in pairs)
    ranks = Ranks("", [str(i) for i in range(10)], [i + 1.0 for i in range(10)], ties)
    levels = bar_levels(ranks)
    for (one, level), (other, its) in itertools.combinations(zip(ties, levels, strict=True), 2):
        assert level != its or one[1] < other[0] or other[1] < one[0]


# Text from outside, colours


@pytest.mark.parametrize("i", range(4), ids=KINDS)
def test_nothing_written_reaches_beyond_the_figure(i: int) -> None:
    names = [f"{LONG}-{i}" if i % 3 else "M" * 60 + str(i) for i in range(45)]
    with drawn(each_kind(names)[i]) as figure:
        for text in texts(figure):
            box = text.get_window_extent()
            if re.fullmatch(r"[\d.,\N{MINUS SIGN}]+", text.get_text()):
                continue  # ticks beyond the ends of an axis are not drawn
            assert box.x0 > -1, text.get_text()
            assert box.x1 < figure.bbox.width + 1, text.get_text()
            assert box.y0 > -1, text.get_text()
            assert box.y1 < figure.bbox.height + 1, text.get_text()


@pytest.mark.parametrize("i", range(4), ids=KINDS)
def test_names_that_are_markup_appear_as_text(i: int) -> None:
    content = figure_files(Board("", "", (), (), [each_kind(HOSTILE)[i]]))
    svg = next(made for name, made in content.items() if name.endswith(".svg"))
    tree = ET.fromstring(svg)
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not tags & {"img", "script", "image", "foreignObject", "a"}
    shown = " ".join("".join(e.itertext()) for e in tree.iter() if e.tag.endswith("text"))
    assert "$x^2$ & $y$" in shown
    assert "_hidden" in shown
    assert "<img src=x" in shown
    assert "名前\ufffd \ufffd" in shown
    (said,) = tree.findall("{*}desc")
    assert said.text is not None
    assert HOSTILE[0] in said.text
    assert tree.get("role") == "img"


def test_text_is_made_fit_to_be_drawn() -> None:
    assert plain("a\u2028b\ud800\u200b ") == "a b\ufffd\ufffd"
    assert wrapped("x" * 100, 10, 1) == "xxxx…xxxx"
    assert wrapped("of two words", 8) == "of two\nwords"


@given(st.text(max_size=60), st.integers(3, 20), st.integers(1, 3))
def test_wrapped_text_fits(text: str, n: int, n_lines: int) -> None:
    found = wrapped(text, n, n_lines).split("\n")
    assert len(found) <= n_lines
    assert all(width_of(line, 1) <= 0.62 * n for line in found)
    if width_of(plain(text), 1) <= 0.62 * n:
        assert found == [plain(text)]


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_can_be_read_and_marks_be_seen(theme: Theme) -> None:
    def luminance(colour: str) -> float:
        parts = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    def contrast(one: str, other: str) -> float:
        high, low = sorted((luminance(one), luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    assert contrast(theme.ink, theme.background) >= 7
    assert contrast(theme.muted, theme.background) >= 4.5
    assert len(set(theme.colours)) == 6
    for figure in each_kind(["a", "b"]):
        with drawn(figure, theme=theme) as made:
            assert to_hex(made.get_facecolor()) == theme.background
            for text in texts(made):
                assert to_hex(text.get_color()) in {theme.ink, theme.muted}, text.get_text()


# Files


def some_board() -> Board:
    results = [
        placed(EncoderId(f"e {i}", str(i)), "sst2", 0.6 + i / 20, 0.5 - i / 20, reference=BASE)
        for i in range(4)
    ]
    curve = curve_of("dial $a$ & <b>", dict(enumerate(results[:3])), 0.5, (0.4, 0.6))
    made = board(BoardParts(in_places(results), curves=[curve]))
    return replace(made, drawn=[*made.drawn, *each_kind(["a", "b"])[1:]])


def test_each_figure_has_four_files() -> None:
    found = figure_files(some_board())
    names = ["sst2-p-against-s", "a", "bars-a", "ranks-a"]
    ends = [".svg", ".png", "-dark.svg", "-dark.png"]
    assert list(found) == [f"{name}{end}" for name in names for end in ends]
    for name, content in found.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG")
            assert b"Software" not in content
        else:
            assert ET.fromstring(content).tag.endswith("svg")
            assert b"date" not in content
    assert found["a.svg"] != found["a-dark.svg"]


def test_a_figure_keeps_names_as_they_are() -> None:
    tree = ET.fromstring(figure_svg(some_board()))
    texts = {
        "".join(element.itertext()).strip()
        for element in tree.iter()
        if element.tag.endswith("text")
    }
    assert {"dial $a$ & <b>", "e 3", "gold labels (oracle)", "random retrieval"} <= texts
    (title,) = tree.findall("{*}title")
    assert title.text == "P against S: sst2, k = 16, linear weights"


def test_a_figure_says_its_numbers_in_words() -> None:
    said = {
        name: sheet_of(each, looks_of(each_kind(["a", "b"]))).said
        for name, each in zip(KINDS, each_kind(["a", "b"]), strict=True)
    }
    assert "base: P 60.0, S 55.0" in said["plane"]
    assert "a at 0.1: P 81.0, S 49.0" in said["plane"]
    first = series(["a"], 4)[0].values[0]
    assert f"a: 0 {100 * first:.1f}" in said["lines"]
    assert said["bars"].endswith("Chance: 50.0.")
    assert said["ranks"] == "Mean ranks, 1 is best: a 1.00, b 1.50. Not told apart: a to b."


def test_the_same_board_gives_the_same_bytes_in_any_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the seed of hashes, that is: in another process; and whatever its settings."""
    drawn = figure_svg(some_board())
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.fonttype": "path"}):
        assert figure_svg(some_board()) == drawn
    script = (
        "import sys; sys.path.insert(0, 'tests'); from test_figures import *; "
        "sys.stdout.buffer.write(figure_svg(some_board()))"
    )
    root = Path(__file__).parents[1]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            check=True,
        )
        assert done.stdout == drawn


def test_files_have_safe_names_and_no_two_share_one() -> None:
    titles = ["../../etc/passwd", "a", "A", "a-dark", "名前", "", "x" * 500, "x" * 400, "é|:<>"]
    found = stems([Ranks(title, [], [], []) for title in titles])
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


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"figures need matplotlib; .*'\.\[report\]'"):
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
        ("f.png", BASE, "error: --figure {}: the file's name must end in .svg"),
        ("f.svg", None, "error: --figure: there is nothing to draw, since S compares only where"),
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
