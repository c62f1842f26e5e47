"""SentEval's machinery: its classifiers, their training loops, folds, and presets of them all."""

from __future__ import annotations
