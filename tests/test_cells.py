"""No cell of a committed board is lost, and none changes, but on purpose: see `cells`."""

from __future__ import annotations

import csv
import gzip
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cells import (
    FILE,
    KEYS,
    LEADERBOARDS,
    Cells,
    Excuse,
    Key,
    Numbers,
    differences,
    export,
    read,
    read_excuses,
    to_bytes,
)

SHOWN = 40


@pytest.fixture(scope="module")
def now() -> Cells:
    return export()


def unexcused(before: Cells, now: Cells, excuses: Sequence[Excuse]) -> list[str]:
    """Name the cells that are lost or changed without a reason, and the reasons without a cell."""
    found = differences(before, now)
    wrong = [
        f"{key}: {what}" for key, what in found.items() if not any(e.fits(key) for e in excuses)
    ]
    idle = [e for e in excuses if not any(e.fits(key) for key in found)]
    wrong += [f"excused, but neither lost nor changed: {dict(e.patterns)}" for e in idle]
    return wrong + [
        f"without a reason: {dict(e.patterns)}" for e in excuses if not e.reason.strip()
    ]


def test_every_cell_of_before_is_there_or_excused(now: Cells) -> None:
    wrong = unexcused(read(), now, read_excuses())
    more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    assert not wrong, "\n".join([f"{len(wrong)} cells:", *wrong[:SHOWN], *more])


def test_the_same_cells_have_the_same_bytes() -> None:
    content = FILE.read_bytes()
    cells = read()
    assert len(cells) > 5_000
    assert gzip.decompress(to_bytes(cells)) == gzip.decompress(content)
    assert to_bytes(cells) == to_bytes(read())
    assert content[4:8] == bytes(4), "the time of the compression"
    assert len(content) < 1_500_000
    assert list(cells) == sorted(cells)


def test_every_number_of_the_committed_tables_is_a_cell(now: Cells) -> None:
    for board in sorted({key.board for key in now}):
        values = {cell.value for key, cell in now.items() if key.board == board}
        with (LEADERBOARDS / board / "table.csv").open(encoding="utf-8", newline="") as stream:
            shown = {float(line["value"]) for line in csv.DictReader(stream)}
        assert shown
        assert not sorted(shown - values), board


def test_all_boards_and_roles_are_there() -> None:
    cells = read()
    assert {key.board for key in cells} == {
        file.parent.name for file in LEADERBOARDS.glob("*/board.toml")
    }
    roles = {"measured", "published", "curve", "oracle", "random", "table"}
    assert {key.role for key in cells} == roles
    for key in cells:
        if key.role == "measured":
            assert len(key.digest) == 16, key
            assert key.metric, key


def test_a_result_that_is_gone_and_an_edited_number_are_found(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LEADERBOARDS / "scl", tmp_path / "scl"))
    for file in (folder / "results" / "scl-1").rglob("SemEvalSTS13*.json"):
        file.unlink()
    published = folder / "published.csv"
    text = published.read_text(encoding="utf-8")
    assert text.count(",66.06,") == 1
    published.write_text(text.replace(",66.06,", ",66.07,"), encoding="utf-8")
    before = {key: cell for key, cell in read().items() if key.board == "scl"}
    wrong = differences(before, export(tmp_path))
    assert any(
        (key.role, key.task, key.encoder, said[:4]) == ("measured", "sts13", "scl-1", "lost")
        for key, said in wrong.items()
    )
    assert any(key.role == "published" and "changed" in said for key, said in wrong.items())
    assert not [key for key in wrong if key.role == "measured" and key.task != "sts13"]


KEY = Key("axis", "measured", "sst2", "minilm", "0" * 16, "", "polarity", "16", "linear")
BEFORE: Cells = {KEY: Numbers(0.5, 0.4, 0.6), replace(KEY, k="4"): Numbers(0.25)}


def test_a_lost_cell_and_a_changed_one_are_named() -> None:
    assert not unexcused(BEFORE, BEFORE, [])
    (lost,) = unexcused(BEFORE, {KEY: BEFORE[KEY]}, [])
    assert "k='4'" in lost
    assert lost.endswith("lost, it was 0.25")
    for numbers in (Numbers(0.5001, 0.4, 0.6), Numbers(0.5, 0.4), Numbers(math.nan, 0.4, 0.6)):
        (changed,) = unexcused(BEFORE, {**BEFORE, KEY: numbers}, [])
        assert "k='16'" in changed
        assert "changed from Numbers(value=0.5, low=0.4, high=0.6" in changed
    assert not unexcused(BEFORE, {**BEFORE, KEY: Numbers(0.5 + 1e-14, 0.4, 0.6)}, [])


def test_an_excuse_needs_a_reason_and_a_cell() -> None:
    excuse = Excuse({"board": "axis", "encoder": "mini*", "k": "4"}, "no longer shown")
    now = {KEY: BEFORE[KEY]}
    assert not unexcused(BEFORE, now, [excuse])
    assert len(unexcused(BEFORE, {}, [excuse])) == 1, "the other cell is not excused"
    assert unexcused(BEFORE, BEFORE, [excuse]) == [
        "excused, but neither lost nor changed: {'board': 'axis', 'encoder': 'mini*', 'k': '4'}"
    ]
    assert unexcused(BEFORE, now, [replace(excuse, reason=" ")]) == [
        "without a reason: {'board': 'axis', 'encoder': 'mini*', 'k': '4'}"
    ]
    assert set(excuse.patterns) <= set(KEYS)
