"""An encoder with a dial: the strength of a coordinate that knows the labels of `mini`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import EncoderId
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.tasks.types.base import Task
from polarity_bench.values import FloatArray
from standins.encoders import BagEncoder
from standins.tasks import QUERIES, SOURCES

_LABELS = dict([*SOURCES, *QUERIES])


class DialEncoder(BagEncoder):
    """A bag of words, plus a label that is right for most texts, plus some noise."""

    stores_vectors = True

    def __init__(self, strength: float, name: str = "dial") -> None:
        super().__init__(name)
        self.id = EncoderId(name=name, weights=f"{name} {strength}")
        self._strength = strength
        self._words = BagEncoder("bag")

    def _vector(self, text: str) -> FloatArray:
        words = self._words._vector(text)
        letters = sum(text.encode())
        label = 1.0 if (_LABELS[text] == "1") != (letters % 8 == 0) else -1.0
        noise = letters % 5 / 4
        own = self._strength * float(np.linalg.norm(words)) * np.array([label, noise])
        return np.concatenate([words, own]).astype(np.float32)


def results_at(
    task: Task, strengths: Sequence[float], output: Path, *, name: str = "dial"
) -> dict[float, Result]:
    """Evaluate the encoder at several strengths, with the bag of words as the reference."""
    found = {}
    for strength in strengths:
        result = evaluate(DialEncoder(strength, name), task, reference=BagEncoder("bag"))
        found[strength] = replace(result, path=write_result(result, output))
    return found
