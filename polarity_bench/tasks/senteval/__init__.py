"""SentEval protocols: classifiers, training loops, folds and presets."""

from __future__ import annotations
