"""A sentence-transformers model as an encoder, told apart by what was loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polarity_bench.types import EncoderId, FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_VOLATILE = {
    "_name_or_path",
    "architectures",
    "dtype",
    "id2label",
    "label2id",
    "transformers_version",
}
"""Fields of a configuration that move no vector."""


class SentenceTransformerEncoder:
    """A sentence-transformers model, of any architecture that it loads.

    Args:
        model: The model.
        name: What to call it in results.
        revision: The commit that it was loaded from, if any.
        prompt: Text put before every text; None takes the model's own default prompt.
        pooling_added: Whether mean pooling was added to a plain transformer.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        revision: str | None = None,
        prompt: str | None = None,
        pooling_added: bool = False,
    ) -> None:
        self.model = model
        if prompt is None and model.default_prompt_name is not None:
            prompt = model.prompts.get(model.default_prompt_name)
        self._prompt = prompt or ""
        dtype = next((str(p.dtype) for p in model.parameters()), "torch.float32")
        self._id = EncoderId(
            name=name,
            weights=digest_of_model(model),
            revision=revision,
            prompt=self._prompt or None,
            max_tokens=_finite(model.max_seq_length),
            dtype=dtype.removeprefix("torch."),
            pooling_added=pooling_added,
        )

    @property
    def id(self) -> EncoderId:
        """What tells this encoder from others."""
        return self._id

    @property
    def device(self) -> str:
        """The torch device that it runs on."""
        return str(self.model.device)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return how many tokens each text takes, cut at the maximum, (n,)."""
        counts = _token_counts(self.model.tokenizer, texts)
        return counts if self._id.max_tokens is None else counts.clip(max=self._id.max_tokens)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode one batch, (b, d) float32 in the order of the texts."""
        vectors = self.model.encode(
            list(texts),
            prompt=self._prompt,
            batch_size=len(texts),
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        result: FloatArray = vectors.float().cpu().numpy()
        return result


def digest_of_model(model: SentenceTransformer) -> str:
    """Hash all that moves an embedder: weights, configuration, tokenizer. 16 hexadecimal digits.

    The configuration counts, since one set of weights gives other vectors under another number of
    attention heads, which no weight shows.
    """
    import torch

    sha = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        sha.update(memoryview(flat.view(torch.uint8).numpy()))
    sha.update(str(model).encode())
    for state in (_configurations(model), _tokenizer_state(model.tokenizer)):
        sha.update(json.dumps(state, sort_keys=True, default=str).encode())
    return sha.hexdigest()[:16]


def _configurations(model: SentenceTransformer) -> list[Any]:
    """What the modules are configured to do, without where they came from."""
    found: list[Any] = []
    modules: list[Any] = list(model)
    for module in modules:
        if hasattr(module, "get_config_dict"):
            found.append(module.get_config_dict())
        config = getattr(getattr(module, "auto_model", None), "config", None)
        if config is not None:
            settings = config.to_diff_dict()
            found.append({k: v for k, v in settings.items() if k not in _VOLATILE})
    return found


def _tokenizer_state(tokenizer: Any) -> Any:
    """A tokenizer's rules and vocabulary, without what calls of it leave behind."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        state = json.loads(backend.to_str())
        state.pop("truncation", None)
        state.pop("padding", None)
        return state
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    return [type(tokenizer).__name__, sorted(vocabulary.items())]


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
    """A tokenizer without a limit says 1e30."""
    return None if max_seq_length is None or max_seq_length > 1e9 else int(max_seq_length)
