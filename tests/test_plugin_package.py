"""The package of tasks in docs/plugin: built, installed and run as its readers would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def bench(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", "from polarity_bench.cli.app import main; main()", *arguments]
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_its_task_is_known_and_runs(installed: Path, tmp_path: Path) -> None:
    listed = bench(installed, tmp_path, "tasks", "--filter", "moods")
    assert "| MoodsPolarityRetrieval |" in listed.stdout
    run = bench(installed, tmp_path, "run", "--model", "tfidf", "--tasks", "moods")
    assert run.returncode == 0, run.stderr
    assert "| moods  | 4   |" in run.stdout
    assert "warning" not in run.stderr


def test_broken_it_is_named_and_takes_nothing_with_it(installed: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    file = site / "polarity_bench_moods" / "moods.toml"
    file.write_text(file.read_text().replace("title", "titel"))
    listed = bench(site, tmp_path, "tasks", "--suite", "demo")
    assert (listed.returncode, "| contrast |" in listed.stdout) == (0, True)
    assert listed.stderr.count("\n") == 1
    named = "warning: the tasks of the package 'polarity-bench-moods' are skipped: "
    assert listed.stderr.startswith(named)
    assert "unknown key 'titel'; did you mean 'title'?" in listed.stderr
    asked = bench(site, tmp_path, "run", "--model", "tfidf", "--tasks", "moods", "--json")
    said = json.loads(asked.stdout)["error"]
    skipped = "the tasks of the package 'polarity-bench-moods' are skipped: "
    assert said.startswith(f"unknown task 'moods'; {skipped}")
    assert "unknown key 'titel'; did you mean 'title'?; otherwise: " in said
