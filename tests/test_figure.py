"""The figure of a board: what is drawn where, in which marks, and in the same bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from standins import call
from standins.board import curve_of, in_places, placed

from polarity_bench.boards import figure
from polarity_bench.boards.board import Found, board
from polarity_bench.boards.drawn import Mark, Plane
from polarity_bench.boards.figure import draw, figure_svg
from polarity_bench.boards.table import Board
from polarity_bench.errors import InputError
from polarity_bench.results import write_result
from polarity_bench.types import EncoderId

BASE = EncoderId("base", "1")
MARKS = [
    Mark("gold", "oracle", 1.0, 0.5),
    Mark("chance", "random", 0.5, 0.2),
    Mark("base", "base", 0.6, 0.55),
    Mark("one", "encoder", 0.7, 0.4),
    Mark("two", "encoder", 0.8, 0.45),
    Mark("theirs", "published", 0.75, 0.35),
    Mark("dial", "curve", 0.2, 0.3, -1.0),
    Mark("dial", "curve", 0.6, 0.55, 0.0),
    Mark("dial", "curve", 0.9, 0.5, 0.25),
]
PLANE = Plane("sst2", "org/base", 16, "uniform", MARKS)


def panels(planes: Sequence[Plane]) -> list[Axes]:
    return list(draw(planes).axes)


def lines(axes: Axes) -> dict[tuple[tuple[float, float], ...], Any]:
    """What is drawn with a marker, by its points."""
    found = [line for line in axes.lines if line.get_marker() not in {"None", None, ""}]
    return {
        tuple(map(tuple, np.round(np.asarray(line.get_xydata()), 6).tolist())): line
        for line in found
    }


def test_every_point_is_drawn_in_percent_in_both_panels() -> None:
    for axes in panels([PLANE]):
        assert set(lines(axes)) == {
            ((50, 100),),
            ((20, 50),),
            ((55, 60),),
            ((40, 70),),
            ((45, 80),),
            ((35, 75),),
            ((30, 20), (55, 60), (50, 90)),
        }


def test_the_first_panel_shows_all_and_the_second_what_lies_above_chance() -> None:
    whole, detail = panels([PLANE])
    for axes, hidden in ((whole, set()), (detail, {"chance", -1.0})):
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        for mark in MARKS:
            inside = left < 100 * mark.s < right and low < 100 * mark.p < high
            assert inside == (mark.name not in hidden and mark.at not in hidden)
    assert whole.get_title() == "sst2, k = 16, uniform weights"
    assert whole.get_xlabel() == "S under org/base (%)"


def test_strengths_stand_once_beside_their_points_and_touch_no_other() -> None:
    whole, detail = panels([PLANE])
    assert [text.get_text() for text in whole.texts] == ["-1"]
    assert [text.get_text() for text in detail.texts] == ["0", "0.25"]
    crowd = [Mark("dial", "curve", 0.8, 0.3 + i / 100, i / 10) for i in range(6)]
    plane = replace(PLANE, marks=[*MARKS[:2], *crowd])
    drawn = draw([plane])
    drawn.draw_without_rendering()
    boxes = [text.get_window_extent() for text in drawn.axes[1].texts]
    assert len(boxes) == 6
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_roles_differ_in_marker_and_no_two_names_look_alike() -> None:
    found = lines(panels([PLANE])[0])
    looks = [
        (line.get_marker(), line.get_color(), line.get_markerfacecolor()) for line in found.values()
    ]
    assert len(set(looks)) == len(found)
    published = found[((35, 75),)]
    assert published.get_markerfacecolor() == "none"
    assert found[((30, 20), (55, 60), (50, 90))].get_linestyle() == "-"
    assert found[((40, 70),)].get_linestyle() == "None"
    many = [Mark(f"e{i}", "encoder", 0.6, i / 100) for i in range(30)]
    lined = lines(panels([replace(PLANE, marks=many)])[0]).values()
    assert len({(line.get_marker(), line.get_color()) for line in lined}) == 30


def test_the_legend_names_everything_once() -> None:
    (legend,) = draw([PLANE, replace(PLANE, task="cr")]).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["gold", "dial", "one", "two", "theirs", "base", "chance"]


def test_a_base_may_be_an_encoder_like_others_in_another_plane() -> None:
    other = replace(PLANE, task="cr", marks=[Mark("base", "encoder", 0.6, 0.4)])
    panel, _, second, _ = panels([PLANE, other])
    base, encoder = lines(panel)[((55, 60),)], lines(second)[((40, 60),)]
    assert to_hex(base.get_color()) == "#000000"
    assert to_hex(encoder.get_color()) != "#000000"


@pytest.mark.parametrize(
    "marks",
    [[Mark("a", "encoder", 0.5, 0.4)], [Mark("a", "encoder", 0.4, 0.3), MARKS[1]]],
    ids=["one point", "nothing above chance"],
)
def test_a_plane_of_little_can_be_drawn(marks: list[Mark]) -> None:
    assert b"<svg" in figure_svg(Board("", "", (), (), [replace(PLANE, marks=marks)]))


def some_board() -> Board:
    results = [
        placed(EncoderId(f"e {i}", str(i)), "sst2", 0.6 + i / 20, 0.5 - i / 20, reference=BASE)
        for i in range(4)
    ]
    curve = curve_of("dial $a$ & <b>", dict(enumerate(results[:3])), 0.5, (0.4, 0.6))
    return board(Found(in_places(results), curves=[curve]))


def test_a_figure_is_valid_and_keeps_names_as_they_are() -> None:
    drawn = figure_svg(some_board())
    tree = ET.fromstring(drawn)
    texts = {
        "".join(element.itertext()).strip()
        for element in tree.iter()
        if element.tag.endswith("text")
    }
    assert {"dial $a$ & <b>", "e 3", "gold labels (oracle)", "random retrieval"} <= texts


def test_the_same_board_gives_the_same_bytes_in_any_process() -> None:
    """Whatever the seed of hashes, that is: in another process."""
    drawn = figure_svg(some_board())
    assert figure_svg(some_board()) == drawn
    assert b"date" not in drawn
    script = (
        "import sys; sys.path.insert(0, 'tests'); from test_figure import *; "
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


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"`figure` needs matplotlib: .*polarity-bench\[train\]"):
        figure_svg(some_board())


# The command


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
