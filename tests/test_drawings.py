"""Figures of results: scores by k, P by part, lines from bases to encoders, the figure of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from standins import Done, call, write_task
from standins.board import CHANCE, curve_of, in_places, placed

from polarity_bench.boards.board import board
from polarity_bench.boards.run_charts import plotted, references_of
from polarity_bench.encoders.base import EncoderId
from polarity_bench.render.chart import BarChart, LineChart, Plane
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.scores import Score, ScoreKey

BASE = EncoderId("base", "1")
ONE, TWO, OTHER = EncoderId("one", "2"), EncoderId("two", "3"), EncoderId("other", "4")


def lines_of(*results: Result) -> list[LineChart]:
    return [chart for chart in board(in_places(results)).charts if isinstance(chart, LineChart)]


def bars_of(*results: Result) -> list[BarChart]:
    return [chart for chart in board(in_places(results)).charts if isinstance(chart, BarChart)]


def shape(lines: Sequence[LineChart]) -> list[tuple[str, list[str]]]:
    return [(each.title, [series.name for series in each.series]) for each in lines]


def with_scores(result: Result, scores: Mapping[ScoreKey, Score]) -> Result:
    return replace(result, scores={**result.scores, **scores})


# Curves of k


def test_p_and_s_are_laid_out_by_k() -> None:
    ks = (4, 16, 64)
    low, high = Score(0.7, 0.1, (0.65, 0.75), 8), Score(0.6, 0.1, (math.nan, math.nan), 8)
    first = placed(ONE, "sst2", 0.5, 0.4, reference=BASE, ks=ks)
    first = with_scores(first, {ScoreKey("polarity", 4): low, ScoreKey("polarity", 64): high})
    p, s = lines_of(first, placed(TWO, "sst2", 0.8, 0.3, reference=BASE, ks=(16, 64)))
    assert (p.title, p.x_title, p.y_title) == ("sst2, linear weights: P by k", "k", "P")
    assert s.title == "sst2, linear weights: S under base by k"
    assert (p.x, p.is_log) == ([4, 16, 64], True)
    two, one = p.series  # the best at the last k first
    assert (two.name, one.name) == ("two", "one")
    assert one.values == [0.7, 0.5, 0.6]
    assert one.intervals == [(0.65, 0.75), None, None]
    assert math.isnan(two.values[0])
    assert two.values[1:] == [0.8, 0.8]
    assert [each.values[-1] for each in s.series] == [0.4, 0.3]


def test_one_k_makes_no_curve_and_s_needs_one_reference() -> None:
    assert not lines_of(placed(ONE, "sst2", 0.7, 0.4))
    ks = (4, 16)
    own = [placed(e, "sst2", 0.7, 0.4, ks=ks) for e in (ONE, TWO)]
    assert shape(lines_of(*own)) == [
        ("sst2, linear weights: P by k", ["one", "two"]),
        ("sst2, linear weights: S by k, each encoder as its own reference", ["one", "two"]),
    ]
    mixed = [*own, placed(OTHER, "sst2", 0.6, 0.4, reference=ONE, ks=ks)]
    assert shape(lines_of(*mixed)) == [
        ("sst2, linear weights: P by k", ["one", "two", "other"]),
        ("sst2, linear weights: S under one by k", ["one", "other"]),
    ]


def test_an_encoder_by_two_references_has_one_line_of_p() -> None:
    results = [placed(ONE, "sst2", 0.7, 0.4, reference=r, ks=(4, 16)) for r in (BASE, OTHER)]
    assert shape(lines_of(*results))[0][1] == ["one"]


# Parts of the queries


def of_parts(
    encoder: EncoderId, p: float, parts: Mapping[str, float], task: str = "contrast"
) -> Result:
    scores = {
        ScoreKey("polarity", k, w, part): Score(
            value + k / 1000, 0.1, (value - 0.05, value + 0.05), 8
        )
        for part, value in parts.items()
        for k in (4, 16)
        for w in ("linear", "uniform")
    }
    result = with_scores(placed(encoder, task, p, 0.4, ks=(4, 16)), scores)
    return replace(result, main_score=ScoreKey("joint", 16))


def test_p_is_laid_out_by_part_at_the_main_k() -> None:
    (bars,) = bars_of(
        of_parts(ONE, 0.6, {"sarcasm": 0.5, "plain": 0.7}),
        of_parts(TWO, 0.8, {"plain": 0.9, "sarcasm": 0.6}),
    )
    assert bars.title == "contrast: P by part of the queries, k = 16, linear weights"
    assert (bars.groups, bars.baseline) == (["plain", "sarcasm"], CHANCE)
    assert [each.name for each in bars.series] == ["two", "one"]
    assert bars.series[1].values == pytest.approx([0.716, 0.516])
    assert bars.series[1].intervals[0] == pytest.approx((0.65, 0.75))


def test_bars_name_neither_a_task_nor_the_column_of_its_breakdown() -> None:
    assert not bars_of(placed(ONE, "sst2", 0.7, 0.4))
    assert not bars_of(placed(ONE, "contrast", 0.7, 0.4))
    (bars,) = bars_of(of_parts(ONE, 0.6, {"irony": 0.5, "plain": 0.7}, "mine"))
    assert bars.title == "mine: P by part of the queries, k = 16, linear weights"


# Who was made from the reference


@pytest.mark.parametrize("known", [True, False])
def test_a_plane_marks_encoders_with_a_default_reference(known: bool) -> None:
    result = placed(ONE, "sst2", 0.7, 0.4, reference=BASE)
    result = replace(result, reference_is_default=known)
    base = replace(placed(BASE, "sst2", 0.6, 0.5), reference_is_default=True)
    (plane,) = board(in_places([result, base])).planes
    assert [mark.name for mark in plane.marks if mark.tuned] == ["one"] * known


# What a run draws


def test_a_run_draws_the_plane_at_its_main_k_even_of_a_few_queries() -> None:
    result = placed(ONE, "sst2", 0.7, 0.4, reference=BASE, ks=(4, 16), limit=20)
    (plane,) = plotted(in_places([result]), "uniform")
    assert isinstance(plane, Plane)
    assert plane.title == "sst2, 20 queries, k = 16, uniform weights"
    assert {mark.role for mark in plane.marks} == {"oracle", "random", "encoder"}


def test_a_run_draws_its_curves() -> None:
    results = [
        placed(replace(ONE, strength=s, axis=1), "sst2", 0.6 + s, 0.4, reference=BASE)
        for s in (0.1, 0.2)
    ]
    curve = curve_of("one", {0.1: results[0], 0.2: results[1]}, 0.5, (0.4, 0.6))
    (plane,) = plotted(in_places(results), "linear", [curve])
    assert isinstance(plane, Plane)
    assert [mark.at for mark in plane.marks if mark.role == "curve"] == [0.1, 0.2]


def test_a_run_without_s_draws_bars() -> None:
    lost = EncoderId("base (not available)", "absent 1")
    result = placed(ONE, "sst2", 0.7, 0.4, reference=lost)
    undefined = {
        key: Score.single(math.nan, 0)
        for key in result.scores
        if not key.metric.startswith("polarity")
    }
    transfer = replace(
        placed(ONE, "cr", 0.7, 0.4),
        kind="transfer",
        scores={ScoreKey("accuracy"): Score(0.8, 0.1, (0.75, 0.85), 9)},
        main_score=ScoreKey("accuracy"),
    )
    p, accuracy = plotted(in_places([with_scores(result, undefined), transfer]), "linear")
    assert isinstance(p, BarChart)
    assert isinstance(accuracy, BarChart)
    assert (p.y_title, p.groups, p.series[0].values) == ("P", ["sst2"], [0.7])
    assert (accuracy.y_title, accuracy.groups) == ("accuracy", ["cr"])
    assert (accuracy.series[0].name, accuracy.series[0].values) == ("one", [0.8])
    assert accuracy.series[0].intervals == [(0.75, 0.85)]


def test_the_reference_is_drawn_where_it_was_asked_the_same(tmp_path: Path) -> None:
    result = placed(ONE, "sst2", 0.7, 0.4, reference=BASE)
    assert references_of([result], tmp_path) == ([], [BASE])
    write_result(placed(BASE, "sst2", 0.6, 0.5, ks=(4,)), tmp_path)
    write_result(replace(placed(BASE, "cr", 0.6, 0.5)), tmp_path)
    assert references_of([result], tmp_path) == ([], [BASE])
    path = write_result(placed(BASE, "sst2", 0.6, 0.5, ks=(4, 16)), tmp_path)
    (found,), lacking = references_of([result], tmp_path)
    assert (found.path, lacking) == (path, [])
    (plane,) = plotted([result, found], "linear")
    assert isinstance(plane, Plane)
    assert [mark.name for mark in plane.marks if mark.role == "base"] == ["base"]
    itself = placed(BASE, "sst2", 0.6, 0.5)
    assert references_of([result, itself], tmp_path) == ([], [])


def small_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *more: str | Path,
) -> Done:
    monkeypatch.chdir(tmp_path)
    write_task(tmp_path)
    return call(monkeypatch, capsys, "run", "-t", "mini", "--task-dir", tmp_path, *more)


def test_run_draws_beside_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("-m", "tfidf", "--reference", "random", "--plot")
    done = small_run(tmp_path, monkeypatch, capsys, *words, "one.svg")
    assert done.code == 0, done.err
    assert "| mini " in done.out
    assert "the plot lacks the reference random, because results has no result of" in done.err
    assert "wrote one.svg" in done.err
    assert (
        call(monkeypatch, capsys, "run", "-t", "mini", "--task-dir", tmp_path, "-m", "random").code
        == 0
    )
    done = small_run(tmp_path, monkeypatch, capsys, *words, "two.svg")
    assert "the plot lacks" not in done.err
    shown = {
        name: {e.text for e in ET.parse(f"{name}.svg").iter() if e.tag.endswith("text")}
        for name in ("one", "two")
    }
    assert "base" in shown["two"] - shown["one"]
    assert {"P against S: mini, k = 4, linear weights", "gold labels"} <= shown["two"]
    done = small_run(tmp_path, monkeypatch, capsys, *words, "three.png", "--json")
    assert json.loads(done.out)["results"]
    assert Path("three.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("a.pdf", "--plot a.pdf: the file name must end in .svg or .png"),
        ("mini.toml/a.svg", "--plot mini.toml: the folder cannot be written to"),
        (".", "--plot .: the file name must end in"),
    ],
)
def test_run_says_at_once_why_it_cannot_draw(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    message: str,
) -> None:
    done = small_run(tmp_path, monkeypatch, capsys, "-m", "random", "--plot", file)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "results").exists()
