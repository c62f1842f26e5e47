"""The package of tasks in docs/plugin: built, installed and run as its readers would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from standins import Done, call_several

EXAMPLE = Path(__file__).parents[1] / "docs" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, installed from its wheel."""
    build = pytest.importorskip("hatchling.build", reason="the build backend; `make test` has it")
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "checkout")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "checkout")
        wheel = build.build_wheel(str(folder))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = folder / "site"
    offline = ["--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, *offline, str(folder / wheel)], check=True)
    return target


def bench(site: Path, cwd: Path, *lines: str) -> list[Done]:
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return call_several([line.split() for line in lines], cwd, os.environ | {"PYTHONPATH": paths})


def test_its_task_is_known_and_runs(installed: Path, tmp_path: Path) -> None:
    lines = "tasks --filter moods", "run --model tfidf --tasks moods"
    listed, run = bench(installed, tmp_path, *lines)
    assert "| MoodsPolarityRetrieval |" in listed.out
    assert run.code == 0, run.err
    assert "| moods  | 4   |" in run.out
    assert "warning" not in run.err


def test_broken_it_is_named_and_takes_nothing_with_it(installed: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    file = site / "polarity_bench_moods" / "moods.toml"
    file.write_text(file.read_text().replace("title", "titel"))
    lines = "tasks --suite demo", "run --model tfidf --tasks moods --json"
    listed, asked = bench(site, tmp_path, *lines)
    assert (listed.code, "| contrast |" in listed.out) == (0, True)
    assert listed.err.count("\n") == 1
    named = "warning: the tasks of the package 'polarity-bench-moods' are skipped: "
    assert listed.err.startswith(named)
    assert "unknown key 'titel'; did you mean 'title'?" in listed.err
    said = json.loads(asked.out)["error"]
    skipped = "the tasks of the package 'polarity-bench-moods' are skipped: "
    assert said.startswith(f"unknown task 'moods'; {skipped}")
    assert "unknown key 'titel'; did you mean 'title'?; otherwise: " in said
