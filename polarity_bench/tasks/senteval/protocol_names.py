"""Names of the SentEval protocols and presets, for modules that do not import the protocols."""

from __future__ import annotations

from typing import Literal, get_args

SentEvalProtocol = Literal["senteval-sklearn", "senteval-torch"]
SENTEVAL_PROTOCOLS: tuple[SentEvalProtocol, ...] = get_args(SentEvalProtocol)

TorchPreset = Literal["literature", "papers"]
"""Presets of `senteval-torch`."""

TORCH_PRESETS: tuple[TorchPreset, ...] = get_args(TorchPreset)
