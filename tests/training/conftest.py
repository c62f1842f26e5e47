"""A tiny encoder and a tiny task, for every test of training."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import save_tiny_bert
from standins import write_task


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder)
    return folder
