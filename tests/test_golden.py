"""The whole pipeline on 32 lines with the hash encoder, against committed numbers."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

MAKE = runpy.run_path(str(Path(__file__).parent / "golden" / "make_golden.py"))


def test_the_pipeline_gives_the_golden_numbers(tmp_path: Path) -> None:
    found = MAKE["golden"](MAKE["result_of"](tmp_path))
    expected = json.loads(MAKE["FILE"].read_text(encoding="utf-8"))
    assert found["data"] == expected["data"]
    assert found["retrieved"] == expected["retrieved"]
    assert set(found["scores"]) == set(expected["scores"])
    assert len(expected["scores"]) > 40
    for name, value in expected["scores"].items():
        assert found["scores"][name] == pytest.approx(value, abs=1e-12), name
