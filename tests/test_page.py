"""The page of a board: what it escapes, sorts by and holds, read without a browser."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="the extra `report`")

from standins.board import read_board

from polarity_bench.errors import InputError
from polarity_bench.render.chart import BarChart, LineChart, Mark, Plane, Series
from polarity_bench.render.figures.figure_files import figures_of
from polarity_bench.render.html.board_page import page_html
from polarity_bench.render.html.prose import inline_html, prose_html
from polarity_bench.render.html.tables import lay_out, number_of
from polarity_bench.render.html.templates import script_json
from polarity_bench.render.markdown import NOTES_LINK
from polarity_bench.render.table import Board, Column, Detail, Table
from polarity_bench.results.score_names import hint

EVIL = "<img src=x onerror=alert(1)>|[x](javascript:1)"
ENDS = "</script><!--<script>"


def evil_board() -> Board:
    table = Table(
        EVIL,
        [(EVIL, [EVIL, "plain"]), ("k", ["16", "-"])],
        [Column(EVIL, [0.5, None], marks=[EVIL, ""])],
        roles=["encoder", "published"],
        details=[EVIL, ""],
        lead=EVIL,
        notes=[EVIL],
    )
    marks = [Mark(EVIL, "encoder", 0.5, 0.4), Mark(EVIL, "curve", 0.6, 0.4, at=1.0)]
    series = [Series(EVIL, [0.5, math.nan], [(0.4, 0.6), None])]
    return Board(
        EVIL,
        EVIL,
        [table],
        [EVIL],
        [
            Plane(EVIL, EVIL, 16, "linear", marks),
            LineChart(EVIL, EVIL, EVIL, [1, 2], series),
            BarChart(EVIL, EVIL, [EVIL, "b"], series, 0.5),
        ],
        {EVIL: Detail({EVIL: ENDS}, f"run {ENDS}", [ENDS], EVIL)},
    )


def html_of(board: Board) -> str:
    return page_html(board, hint)


class Read(HTMLParser):
    """What a browser would find: elements with their attributes, and text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] not in {"script", "style"}:
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_a_hostile_name_is_text_everywhere() -> None:
    read = Read(html_of(evil_board()))
    assert not read.all("img")
    assert not [a for _, a in read.elements if any(name.startswith("on") for name in a)]
    links = [a["href"] or "" for a in read.all("a")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert sum(EVIL in text for text in read.texts) > 10


def test_a_page_names_nothing_to_load() -> None:
    read = Read(html_of(evil_board()))
    assert not read.all("link")
    assert not [a for _, a in read.elements if "src" in a]
    (policy,) = [m for m in read.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in (policy["content"] or "")


def test_scripts_end_where_they_should() -> None:
    html = html_of(evil_board())
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == len(Read(html).all("script")) == html.count("</script") == 5
    assert not [s for s in scripts if "<!--" in s or "<script" in s.lower()]
    data = json.loads(scripts[0])
    (detail,), texts = data["details"], data["texts"]
    assert 'data-key="0"' in html
    assert [[texts[place] for place in fact] for fact in detail["facts"]] == [[EVIL, ENDS]]
    assert " ".join(texts[place] for place in detail["command"]) == f"run {ENDS}"
    assert ["".join(texts[place] for place in file) for file in detail["files"]] == [ENDS]
    assert texts[detail["source"]] == EVIL
    assert len(set(texts)) == len(texts)
    assert script_json(ENDS).isascii()
    assert json.loads(script_json(ENDS)) == ENDS


def test_the_same_board_has_the_same_bytes() -> None:
    assert html_of(evil_board()) == html_of(evil_board())
    specs = [[figure.spec for figure in figures_of(evil_board().charts)] for _ in range(2)]
    assert specs[0] == specs[1]


def test_what_is_sorted_by_tells_all_numbers_apart() -> None:
    values = [0.123456789, None, math.nan, 0.12345678, 1.0]
    table = Table("", [("x", ["a"] * 5)], [Column("P", values, rivals=[""] * 5)])
    html = html_of(Board("", "", [table], []))
    cells = re.findall(r'<td data-order="([^"]*)">(.*?)</td>', html)
    assert cells == [
        ("0.12345679", "12.35"),
        ("", "-"),
        ("", "-"),
        ("0.12345678", "12.35"),
        ("1", "<b>100.00</b>"),
    ]


def test_a_cell_shows_its_interval_spread_and_mark() -> None:
    columns = [
        Column("P", [0.5], [(0.4, 0.6)], spreads=[0.045], marks=["*"], digits=1),
        Column("S", [0.5], spreads=[0.045], marks=[" (2 of 3)"], spread_as="sub"),
        Column("gain", [0.012], unit="points"),
    ]
    html = html_of(Board("", "", [Table("", [("x", ["a"])], columns)], []))
    assert [cell for _, cell in re.findall(r'<td data-order="([^"]*)">(.*?)</td>', html)] == [
        '50.0<small> [40.0, 60.0]</small><small> ± 4.5</small><span class="hangs">*</span>',
        "50.00<sub>4.50</sub><span> (2 of 3)</span>",
        "+1.20",
    ]


def test_what_follows_numbers_is_padded_so_that_they_stand_below_each_other() -> None:
    column = Column("P", [0.5, 0.6, None], [(0.1, 0.9), (0.01, 0.9), None], digits=0)
    html = html_of(Board("", "", [Table("", [("x", ["a", "b", "c"])], [column])], []))
    shown = ["50<small> [10, 90]", "60<small> \N{FIGURE SPACE}[1, 90]", "-"]
    assert re.findall(r'<td data-order="[^"]*">(.*?)<', html.replace("<small>", "&")) == [
        text.replace("<small>", "&") for text in shown
    ]


def test_heads_are_numbers_where_all_are() -> None:
    heads = [("name", ["b", "a"]), ("k", ["64", "4"]), ("N", ["10,000", "-"]), ("ref", ["x", "y"])]
    (laid_out,) = lay_out([Table("", heads, [])])
    assert [head.is_number for head in laid_out.heads] == [False, True, True, False]
    assert [list(head.choices) for head in laid_out.heads] == [
        [],
        ["4", "64"],
        ["10,000", "-"],
        ["x", "y"],
    ]
    assert number_of("1e-05") == 0.00001
    assert number_of("nan") is None
    html = html_of(Board("", "", [Table("", heads, [])], []))
    assert 'data-order="10000"' in html


def test_a_column_of_one_text_says_little_but_prompts_never_do() -> None:
    """Two rows of one encoder differ by their prompt only."""
    heads = [("encoder", ["e5", "e5"]), ("prompt", ["-", "'query: '"]), ("k", ["16", "16"])]
    (laid_out,) = lay_out([Table("", heads, [])])
    assert [head.says_little for head in laid_out.heads[1:]] == [False, True]


def test_columns_are_grouped_by_what_their_titles_begin_with() -> None:
    titles = ["P", "P, negation", "S", "Transfer (accuracy, k = 10)"]
    table = Table("", [("x", ["a"])], [Column(title, [0.5]) for title in titles])
    (laid_out,) = lay_out([table], hint)
    found = [(stem, [column.title for column in columns]) for stem, columns in laid_out.groups]
    assert found == [("P", titles[:2]), ("", titles[2:])]
    assert laid_out.columns[0].about.startswith("Share of the k nearest sources")


def test_tables_of_one_heading_have_addresses_of_their_own() -> None:
    tables = [Table(heading, [("x", ["a"])], []) for heading in ("A b", "A b!", "A b 2", "", "<>")]
    ids = [table.id for table in lay_out(tables)]
    assert len(set(ids)) == 5
    assert ids[0] == "t-a-b"


def test_prose_runs_and_loads_nothing() -> None:
    html = prose_html(
        "*a* `b` <b>c</b> ![d](http://e/f.png) [g](javascript:1) [h](JaVaScRiPt&#58;1)\n"
        "[i](data:text/html,x) [j](//k) [l](../m.md#n) [o](https://p.q)"
    )
    assert re.findall(r"<(\w+)", html) == ["p", "em", "code", "a", "a", "a"]
    assert re.findall(r'href="([^"]*)"', html) == ["http://e/f.png", "../m.md#n", "https://p.q"]
    assert inline_html(r"\<b\> &lt;i&gt;") == "&lt;b&gt; &lt;i&gt;"


def test_every_mark_of_a_plane_can_be_read() -> None:
    board = read_board(Path(__file__).parent.parent / "leaderboards" / "axis")
    figures = figures_of(board.charts)
    assert len(figures) == len(board.planes) > 1
    for figure, plane in zip(figures, board.planes, strict=True):
        shown, named = [row[0] for row in figure.cells], [mark.name for mark in plane.marks]
        if len(named) <= 100:
            assert shown == named
            continue
        assert f"The table below has 100 of {len(named)}, the front first." in figure.note
        left = Counter(named)
        left.subtract(shown)
        assert (len(shown), left.total(), min(left.values())) == (100, len(named) - 100, 0)
        rows = {name for table in board.tables for name in dict(table.heads).get("encoder", ())}
        for name in +left:  # a table of the board has it
            assert any(row.startswith(name) for row in rows), name


def test_a_board_without_figures_says_why_and_brings_no_vega() -> None:
    for title, is_said in (("P", True), ("accuracy", False)):
        table = Table("", [("x", ["a"])], [Column(title, [0.5])])
        html = html_of(Board("A", "", [table], []))
        assert ("P against S is not drawn" in html) == is_said
        assert ('<section id="figure"' in html) == is_said
        assert "window.vegaEmbed" not in html
    heads = [("x", ["a", "b"]), ("reference", ["itself", "a"])]
    shared = Table("", heads, [Column("P", [0.5, 0.6])])
    assert "is not drawn" not in html_of(Board("A", "", [shared], [])), "b and a share a"


def test_the_contents_leave_out_parts_of_sections_and_the_first_table_links_to_the_notes() -> None:
    """Before, all tables were listed, some of them under the same name."""
    heads = [("x", ["a"])]
    tables = [
        Table("First", heads, []),
        Table("Part", heads, [], level=3),
        Table("First: single runs", heads, [], is_folded=True),
        Table("Last", heads, []),
    ]
    html = html_of(Board("A", "", tables, ["N."]))
    contents = re.search(r'<nav class="contents".*?</nav>', html, re.DOTALL)
    assert contents
    assert re.findall(r">([^<]+)</a>", contents[0]) == ["First", "Last", "Notes"]
    assert html.count(f'<a href="#notes">{NOTES_LINK}</a>') == 1
    assert NOTES_LINK not in html_of(Board("A", "", tables, []))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "polarity_bench.errors.find_spec", lambda name: None if name == "altair" else name
    )
    with pytest.raises(InputError, match=r"needs altair; .* pip install -e '\.\[report\]'"):
        html_of(Board("A", "", (), ()))


def test_of_hundreds_a_figure_has_the_first() -> None:
    names = [f"encoder {i}" for i in range(500)]
    bars = BarChart("bars", "P", ["all"], [Series(name, [0.5]) for name in names])
    marks = [Mark(name, "encoder", 0.5 + i / 1e4, 0.4) for i, name in enumerate(names)]
    plane, drawn_bars = figures_of([Plane("t", "base", 16, "linear", marks), bars])
    assert (len(plane.cells), drawn_bars.heads[-1]) == (100, names[23])
    assert ["100 of 500" in plane.note, "476 more" in drawn_bars.note] == [True] * 2
