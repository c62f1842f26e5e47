"""SentEval's protocols: its classifiers, their training loops, the folds, and presets."""

from __future__ import annotations
