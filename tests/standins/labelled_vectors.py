"""Vectors with labels, for classifiers."""

from __future__ import annotations

import numpy as np

from polarity_bench.values import FloatArray, IntArray


def blobs(n: int, n_classes: int, seed: int, d: int = 12) -> tuple[FloatArray, IntArray]:
    """Classes that overlap, so that accuracies are neither 0 nor 1."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((n_classes, d))
    labels = draw.integers(n_classes, size=n)
    features = centres[labels] + 1.5 * draw.standard_normal((n, d))
    return features.astype(np.float32), labels
