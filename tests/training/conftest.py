"""A tiny encoder and a tiny task, for every test of training."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Bench, save_tiny_bert
from standins import Done, call, write_task


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder)
    return folder


@pytest.fixture
def bench(
    tmp_path: Path,
    tasks: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run a command line in this process, with the task `mini`."""
    monkeypatch.chdir(tmp_path)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments, "--task-dir", tasks)

    return bench
