"""Encoders made from sentence-transformers models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from polarity_bench.encoders.backends import PACKAGES
from polarity_bench.encoders.base import Backend, Dtype, EncoderId
from polarity_bench.encoders.fingerprint import digest_of_model
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class SentenceTransformerEncoder:
    """Encoder for any model that sentence-transformers can load.

    Args:
        model: The loaded model.
        name: Name of the encoder in results.
        revision: Commit that the model was loaded from, if any.
        prompt: Text to put before every text. None uses the model's default prompt, and ""
            disables it.
        pooling_added: Whether mean pooling was added to a plain transformer.
        backend: Library that computes the forward pass.
        dtype: Precision to compute in; None is that of the weights.

    Raises:
        InputError: If the model has an axis and truncates vectors after it.
    """

    stores_vectors = True

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        revision: str | None = None,
        prompt: str | None = None,
        pooling_added: bool = False,
        backend: Backend = "torch",
        dtype: Dtype | None = None,
    ) -> None:
        from polarity_bench.encoders.axis import axis_of, check_whole

        self.model = model
        if prompt is None and model.default_prompt_name is not None:
            prompt = model.prompts.get(model.default_prompt_name)
        self._prompt = prompt or ""
        check_whole(model, f"the encoder {name!r}")
        axis = axis_of(model)
        stored = next((str(p.dtype) for p in model.parameters()), "torch.float32")
        self.id = EncoderId(
            name=name,
            weights=digest_of_model(model),
            revision=revision,
            prompt=self._prompt or None,
            max_tokens=_finite(model.max_seq_length),
            dtype=dtype or stored.removeprefix("torch."),
            pooling_added=pooling_added,
            similarity="dot" if model.similarity_fn_name == "dot" else "cosine",
            axis=0 if axis is None else axis.n_coordinates,
            strength=None if axis is None else float(axis.strength),
            axis_scale=None if axis is None else axis.scale,
            backend=backend,
        )
        self._sides: dict[str, Any] = {} if axis is None else {"task": "document"}

    @property
    def device(self) -> str:
        """Torch device of the model."""
        return str(self.model.device)

    @property
    def arithmetic(self) -> str:
        """Hardware and library versions, which affect vectors by rounding errors."""
        import sentence_transformers
        import torch
        import transformers

        device = self.model.device
        if device.type == "cuda":
            hardware = torch.cuda.get_device_name(device)
        else:
            capability = torch.backends.cpu.get_cpu_capability()
            hardware = f"{device.type} {capability}, {torch.get_num_threads()} threads"
        versions = [package.__version__ for package in (torch, transformers, sentence_transformers)]
        versions += [f"{package} {version(package)}" for package in PACKAGES[self.id.backend]]
        return " ".join([hardware, *versions])

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of tokens of each text, at most the encoder's limit, (n,)."""
        counts = _token_counts(self.model.tokenizer, texts)
        return counts if self.id.max_tokens is None else counts.clip(max=self.id.max_tokens)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of one batch in the order of the texts, (b, d) float32."""
        with without_autocast(self.model):
            vectors = self.model.encode(
                list(texts),
                prompt=self._prompt,
                batch_size=len(texts),
                convert_to_tensor=True,
                show_progress_bar=False,
                **self._sides,
            )
        result: FloatArray = vectors.float().cpu().numpy()
        return result


@contextmanager
def without_autocast(model: SentenceTransformer) -> Iterator[None]:
    """Make a model compute in the dtype of its weights, even during training in bfloat16.

    For training in bfloat16, accelerate replaces `forward` on the instance. The new method uses
    bfloat16 in every call, including evaluation. This context removes the replacement temporarily.
    """
    wrapped = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if wrapped is not None:
            vars(model)["forward"] = wrapped


def _token_counts(tokenizer: Any, texts: Sequence[str]) -> IntArray:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "encode_batch_fast"):
        return np.asarray([len(text) for text in texts], dtype=np.int64)
    padding, truncation = backend.padding, backend.truncation
    backend.no_padding()
    backend.no_truncation()
    counts = [len(encoding) for encoding in backend.encode_batch_fast(list(texts))]
    if padding is not None:
        backend.enable_padding(**padding)
    if truncation is not None:
        backend.enable_truncation(**truncation)
    return np.asarray(counts, dtype=np.int64)


def _finite(max_seq_length: int | float | None) -> int | None:
    """Return a token limit, or None for the limit of 1e30 that means "no limit" in tokenizers."""
    return None if max_seq_length is None or max_seq_length > 1e9 else int(max_seq_length)
