"""benchmarks/labelled_examples.py draws examples from the texts that other recipes learn from."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return import_module("labelled_examples")


def test_pairs_have_one_class_and_every_text_is_an_anchor(program: Any) -> None:
    labels = np.array([0, 1, 1, 0, 1])
    pairs = program.random_pairs(labels, n_pairs=12, seed=0)
    assert pairs.shape == (12, 2)
    assert (labels[pairs[:, 0]] == labels[pairs[:, 1]]).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert np.bincount(pairs[:, 0]).tolist() == [3, 2, 2, 3, 2]
    assert program.random_pairs(labels, n_pairs=12, seed=0).tolist() == pairs.tolist()
