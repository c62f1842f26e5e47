"""Names of the SentEval protocols and presets, without importing them."""

from __future__ import annotations

from typing import Literal, get_args

SentEvalProtocol = Literal["senteval-sklearn", "senteval-torch"]
SENTEVAL_PROTOCOLS: tuple[SentEvalProtocol, ...] = get_args(SentEvalProtocol)

TorchPreset = Literal["literature", "papers"]
"""What `senteval-torch` is run as."""

TORCH_PRESETS: tuple[TorchPreset, ...] = get_args(TorchPreset)
