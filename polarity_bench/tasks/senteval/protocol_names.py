"""Names of the SentEval protocols and presets, without imports of heavy packages."""

from __future__ import annotations

from typing import Literal, get_args

SentEvalProtocol = Literal["senteval-exact", "senteval-sklearn", "senteval-torch"]
SENTEVAL_PROTOCOLS: tuple[SentEvalProtocol, ...] = get_args(SentEvalProtocol)

TorchPreset = Literal["literature", "papers"]
"""Names of the presets of `senteval-torch`."""

TORCH_PRESETS: tuple[TorchPreset, ...] = get_args(TorchPreset)
