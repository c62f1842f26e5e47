"""How an encoder is loaded, and what it is fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from polarity_bench.errors import InputError, nearest

Dtype = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


@dataclass(frozen=True)
class EncoderOptions:
    """How to load an encoder and what it is fed.

    Attributes:
        revision: Branch, tag or commit of a hub repository.
        prompt: Text put before every text; None takes the encoder's own default.
        prompt_name: The name of one of the prompts that the encoder's folder declares.
        device: A torch device; None takes the best there is.
        dtype: Precision of the weights.
        max_tokens: Cut texts at so many tokens; None takes the encoder's own limit.
        trust_remote_code: Run code that the encoder's folder brings.
        allow_pickle: Load weights that are no safetensors.
        offline: Take hub repositories from the cache alone.
        asked_by: What asked for the encoder, to begin messages with.
    """

    revision: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    device: str | None = None
    dtype: Dtype = "float32"
    max_tokens: int | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    asked_by: str = "--model"

    def __post_init__(self) -> None:
        if self.prompt is not None and self.prompt_name is not None:
            raise InputError("give --prompt or --prompt-name, not both")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError(f"--max-tokens must be at least 1, got {self.max_tokens}")
        if self.dtype not in DTYPES:
            raise InputError(f"unknown dtype {self.dtype!r}{nearest(self.dtype, DTYPES)}")
