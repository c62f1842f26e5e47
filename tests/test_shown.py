"""Cells of every unit, with what stands beside their number, and which are the best."""

from __future__ import annotations

import math

import pytest

from polarity_bench.render.format import FormattedCell, best_of, in_unit, shown
from polarity_bench.render.markdown import table
from polarity_bench.render.table import Column, Unit


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("percent", 0.12345, "12.35"),
        ("points", 0.0321, "+3.21"),
        ("points", -0.0321, "-3.21"),
        ("probability", 0.00001, "1e-05"),
        ("probability", 1 / 10_001, "0.0001"),
        ("probability", 0.25, "0.2500"),
        ("seconds", 1.5, "1.50"),
        ("count", 910.0, "910"),
        ("count", math.nan, "-"),
    ],
)
def test_every_unit(unit: Unit, value: float, text: str) -> None:
    assert in_unit(value, unit, 2) == text


def test_a_cell_has_its_interval_spread_and_mark() -> None:
    column = Column(
        "gain",
        [0.01, -0.02, None],
        [(-0.01, 0.03), None, (math.nan, math.nan)],
        ["", "", ""],
        [0.045, math.nan, None],
        ["*†", "", ""],
        "points",
        digits=1,
    )
    assert shown(column) == [
        FormattedCell("+1.0", "[-1.0, +3.0]", "4.5", "*†", is_best=True),
        FormattedCell("-2.0"),
        FormattedCell("-"),
    ]
    cells = table([("x", ["a", "b", "c"])], [column]).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in cells] == [
        r"**+1.0** [-1.0, +3.0] ± 4.5\*†",
        "-2.0",
        "-",
    ]


def test_a_spread_may_stand_below_the_line() -> None:
    column = Column("P", [0.5], spreads=[0.045], marks=[" (2 of 3)"], digits=1, spread_as="sub")
    assert "| 50.0 <sub>4.5</sub> (2 of 3) |" in table([("x", ["a"])], [column])


@pytest.mark.parametrize(
    ("values", "n_best", "best"),
    [
        ([0.1, 0.3, 0.2], 1, [False, True, False]),
        ([0.1, 0.3, 0.2], 2, [False, True, True]),
        ([0.3, 0.3, 0.2], 2, [True, True, False]),
        ([0.3, 0.2, 0.2], 2, [True, True, True]),
        ([0.3, 0.2], 3, [True, True]),
        ([0.3, None], 2, [False, False]),
    ],
)
def test_the_n_best_are_as_many_as_that_and_their_ties(
    values: list[float | None], n_best: int, best: list[bool]
) -> None:
    assert best_of(Column("P", values, rivals=[""] * len(values), n_best=n_best)) == best
