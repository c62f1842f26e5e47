"""Numbers to markdown: rounding, bold, intervals, and names that try to be markup."""

from __future__ import annotations

import math
import re

import pytest

from polarity_bench.render.format import decimal, percent
from polarity_bench.render.markdown import escape, render, section, table, unescape
from polarity_bench.render.table import Board, Column, Table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "12.35"),
        (1.0, "100.00"),
        (-0.5, "-50.00"),
        (-0.00001, "0.00"),
        (math.nan, "-"),
        (None, "-"),
    ],
)
def test_percent(value: float | None, text: str) -> None:
    assert percent(value) == text


def test_a_table_fits_a_width_by_columns_and_then_by_texts() -> None:
    heads = [("file", ["a/long/way/to/some/file.txt", "b"]), ("k", ["4", "16"])]
    columns = [Column(title, [0.5, 0.25]) for title in ("first", "second", "third")]
    whole = table(heads, columns)
    assert table(heads, columns, width=len(whole.splitlines()[0])) == whole
    for width in range(40, len(whole.splitlines()[0])):
        text, _, rest = table(heads, columns, width=width).partition("\n\n")
        assert max(map(len, text.splitlines())) <= width
        assert "first" in text
        assert rest.startswith("Too wide to show here, see `wide`: ")
        assert all((name in text) != (name in rest) for name in ("second", "third"))
    fewer = table(heads, width=33, n_kept=1)
    assert "| a/long/way/to/some/file.txt |\n" in fewer
    assert fewer.endswith("\n\nToo wide to show here, see `wide`: k")
    shortened = table(heads, width=33)
    assert "| a/long/way/…me/file.txt |" in shortened
    assert shortened.endswith("\n\nLong texts are shortened, see `wide`.")
    assert "shortened" not in table(heads)
    assert table([("file", [])], width=2) == table([("file", [])])


def test_a_difference_shows_its_sign_but_zero_has_none() -> None:
    assert [decimal(v, 1, "+") for v in (0.26, -0.26, 0.04, -0.04, None)] == [
        "+0.3",
        "-0.3",
        "0.0",
        "0.0",
        "-",
    ]


def column(values: list[float | None], *rivals: str | None) -> str:
    return table([("x", ["a"] * len(values))], [Column("P", values, rivals=rivals)])


def test_the_best_as_shown_of_all_rivals_is_bold_ties_included() -> None:
    assert column([0.50001, 0.50002, None], "", "", "").count("**50.00**") == 2
    assert "**" not in column([0.5], "")
    assert "**" not in column([0.5, None], "", "")
    assert "**" not in column([0.5, 0.6])
    assert "**" not in column([0.5, 0.6], "one", "other")
    text = column([0.9, 0.5, 0.6, 0.1, 0.2], None, "one", "one", "other", "other")
    assert re.findall(r"\*\*(.*?)\*\*", text) == ["60.00", "20.00"]


@pytest.mark.parametrize("ranks", [[], [("rank", ["1", "-"])]], ids=["alone", "after ranks"])
def test_the_name_of_a_row_that_does_not_compete_is_in_italics(
    ranks: list[tuple[str, list[str]]],
) -> None:
    heads = [*ranks, ("encoder", ["ash", "a paper"]), ("k", ["16", "16"])]
    text = table(heads, [Column("P", [0.5, 0.6])], ["encoder", "published"])
    ours, theirs = text.splitlines()[-2:]
    assert "*" not in ours
    assert re.fullmatch(r"(\| - +)?\| \*a paper\* +\| 16 +\| +\*60\.00\* \|", theirs)


def test_an_interval_follows_its_value() -> None:
    intervals = [(0.1, 0.35), (math.nan, math.nan), None]
    shown = table([("x", ["a", "b", "c"])], [Column("P", [0.2, 0.3, None], intervals, [""] * 3)])
    cells = [line.split("|")[2].strip() for line in shown.splitlines()[2:]]
    assert cells == ["20.00 [10.00, 35.00]", "**30.00**", "-"]


@pytest.mark.parametrize(
    "name", ["a|b", "<script>alert(1)</script>", "*x*", "`x`", "a\nb", "[x](y)"]
)
def test_names_cannot_break_the_table(name: str) -> None:
    text = table([("encoder", [name, "plain"])], [Column("P", [0.1, 0.2])])
    assert len(text.splitlines()) == 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines()} == {3}
    assert "<" not in text
    assert re.sub(r"\\(.)", r"\1", escape("a|*b*")) == "a|*b*"


@pytest.mark.parametrize("name", ["mteb:X[de]", "[en-ext] y", "[a] [b]"])
def test_a_word_in_brackets_is_no_markup(name: str) -> None:
    assert escape(name) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("[x](y)", r"\[x\](y)"),
        ("[x][y]", r"\[x\]\[y\]"),
        ("[x]: y", r"\[x\]: y"),
        ("![x]", r"\![x]"),
        ("[3]", r"\[3\]"),
        ("[a b]", r"\[a b\]"),
    ],
)
def test_brackets_that_may_be_links_are_escaped(name: str, text: str) -> None:
    assert escape(name) == text


@pytest.mark.parametrize("name", ["_x*", "a|b", "<b> & c", r"a\b", "[3] #1 ~", r"\_", "a\\"])
def test_on_a_terminal_a_name_is_shown_as_it_is(name: str) -> None:
    heads, columns = [("x", [name, "plain"])], [Column("P", [0.1, 0.2])]
    text = table(heads, columns)
    shown = unescape(f"{escape(name)}\n\n{text}")
    first, _, *rows = shown.split("\n")
    assert first == name.strip()
    assert f"| {name} " in rows[2]
    assert {len(row) for row in rows} == {len(text.split("\n")[0])}, "the cells keep their width"


def test_a_board_is_title_introduction_tables_and_notes() -> None:
    one = Table("a | b", [("x", ["y"])], [Column("P", [0.5])])
    text = render(
        Board("A & <B>", "By *hand*.", [one, Table("", [("x", ["z"])], [])], ["N.", "M."])
    )
    assert text.split("\n\n") == [
        "# A &amp; &lt;B&gt;",
        "By *hand*.",
        "## a \\| b",
        *section(one).split("\n\n")[1:],
        "[What the columns, ranks and bold numbers mean](#notes)",
        "| x   |\n|:----|\n| z   |",
        "## Notes",
        "All numbers times 100.",
        "N.",
        "M.\n",
    ]
