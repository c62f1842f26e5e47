"""What encoders gain over their references: paired, kept without values, and only if asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from standins.board import placed

from polarity_bench.boards.board import board, find_board
from polarity_bench.compare.encoder_ranks import standings_bytes
from polarity_bench.encoders.base import EncoderId
from polarity_bench.render.chart import BarChart, Plane
from polarity_bench.render.table import Board, Table
from polarity_bench.results.result_files import write_result
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey

BASE, OTHER = EncoderId("org/base", "1"), EncoderId("org/other", "2")
DIAL, WORSE = EncoderId("dial", "3"), EncoderId("worse", "4")
NOISE = np.random.default_rng(0).normal(0, 0.2, 200)


def write(
    folder: Path, encoder: EncoderId, task: str, p: float, s: float, reference: EncoderId | None
) -> None:
    """Write a result whose values per query are those of any other, but for their mean."""
    result = placed(encoder, task, p, s, reference=reference)
    scores, arrays = dict(result.scores), {}
    for metric, mean in {"polarity": p, "similarity": s}.items():
        for weighting in WEIGHTINGS:
            key, values = ScoreKey(metric, 16, weighting), (mean + NOISE).astype(np.float32)
            scores[key] = Score.single(float(values.mean(dtype=np.float64)), len(values))
            arrays[str(key)] = values
    write_result(replace(result, scores=scores, arrays=arrays), folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "board.toml").write_text("gains = true\n")
    for task in ("irony", "sst2"):
        write(tmp_path, BASE, task, 0.6, 0.5, None)
        write(tmp_path, DIAL, task, 0.7 if task == "sst2" else 0.6, 0.48, BASE)
    write(tmp_path, WORSE, "sst2", 0.55, 0.4, BASE)
    write(tmp_path, EncoderId("lost", "5"), "sst2", 0.9, 0.4, OTHER)
    return tmp_path


def tables(made: Board) -> list[Table]:
    return [table for table in made.tables if table.heading.endswith(": gain over the reference")]


def cells(made: Board, title: str) -> dict[tuple[str, str], tuple[float, Sequence[float]]]:
    """Return each gain with its interval, by the row and the column."""
    (table,) = (table for table in tables(made) if table.heading.startswith(f"{title}: "))
    names = dict(table.heads)["encoder"]
    return {
        (name, column.title): (round(value, 6), [round(end, 6) for end in ends])
        for column in table.columns
        for name, value, ends in zip(names, column.values, column.intervals, strict=True)
        if value is not None and ends is not None
    }


def test_a_gain_is_the_difference_to_the_reference_and_its_interval_is_paired(folder: Path) -> None:
    made = board(find_board(folder))
    assert cells(made, "P") == {
        ("dial", "irony"): (0.0, [0.0, 0.0]),
        ("dial", "sst2"): (0.1, [0.1, 0.1]),
        ("worse", "sst2"): (-0.05, [-0.05, -0.05]),
    }, "every query moves as much, so a paired interval has no width"
    assert cells(made, "S") == {
        ("dial", "irony"): (-0.02, [-0.02, -0.02]),
        ("dial", "sst2"): (-0.02, [-0.02, -0.02]),
        ("worse", "sst2"): (-0.1, [-0.1, -0.1]),
    }
    for table in tables(made):
        assert {column.unit for column in table.columns} == {"points"}
        assert dict(table.heads)["encoder"] == ["dial", "worse"], "no base, and none without one"


def test_intervals_are_kept_where_the_values_per_query_are_gone(folder: Path) -> None:
    found = find_board(folder)
    before = cells(board(found), "P")
    (folder / "statistics.json").write_bytes(standings_bytes(found.standings))
    for file in folder.rglob("*.queries.safetensors"):
        file.unlink()
    again = find_board(folder)
    assert cells(board(again), "P") == before
    assert standings_bytes(again.standings) == (folder / "statistics.json").read_bytes()
    (folder / "statistics.json").unlink()
    alone = find_board(folder)
    column = tables(board(alone))[0].columns[1]
    assert [round(value or math.nan, 6) for value in column.values] == [0.1, -0.05]
    assert column.intervals == [None, None]
    assert any("values per query" in why for why in alone.standings.unknown)


def test_a_result_that_changed_has_no_kept_interval(folder: Path) -> None:
    found = find_board(folder)
    board(found)
    (folder / "statistics.json").write_bytes(standings_bytes(found.standings))
    write(folder, WORSE, "sst2", 0.5, 0.4, BASE)
    for file in folder.rglob("*.queries.safetensors"):
        file.unlink()
    changed = cells(board(find_board(folder)), "P")
    assert ("worse", "sst2") not in changed
    assert ("dial", "sst2") in changed


def test_the_figures_are_bars_of_gains_for_each_reference(folder: Path) -> None:
    drawn = board(find_board(folder)).charts
    bars = [each for each in drawn if isinstance(each, BarChart)]
    assert len(bars) == len(drawn) == 2
    assert [each.title for each in bars] == [
        f"{title}: gain over org/base, k = 16, linear weights" for title in "PS"
    ]
    assert bars[0].groups == ["irony", "sst2"]
    assert [each.name for each in bars[0].series] == ["dial", "worse"]
    assert [round(value, 6) for value in bars[0].series[0].values] == [0.0, 0.1]
    assert math.isnan(bars[0].series[1].values[0])


def test_a_board_that_asks_for_no_gains_shows_none(folder: Path) -> None:
    (folder / "board.toml").write_text("")
    found = find_board(folder)
    made = board(found)
    assert not tables(made)
    assert all(isinstance(each, Plane) for each in made.charts)
    assert list(json.loads(standings_bytes(found.standings))) == ["format", "standings"]
