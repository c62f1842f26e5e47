"""Encoders made from sentence-transformers models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from polarity_bench.encoders.backends import PACKAGES
from polarity_bench.encoders.base import Backend, Dtype, EncoderId, Side, Sides
from polarity_bench.encoders.fingerprint import BASE_KEY, digest_of_model
from polarity_bench.encoders.probe import take_probe
from polarity_bench.encoders.train_file import TrainFile
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_ROWS_AT_ONCE = 8192
"""Number of rows that `SentenceTransformerEncoder.from_base` computes together."""


class SentenceTransformerEncoder:
    """Encoder for any model that sentence-transformers can load.

    Args:
        model: The loaded model.
        name: Name of the encoder in results.
        revision: Commit that the model was loaded from, if any.
        prompt: Prefix of every text. None uses the model's default prompt, and "" disables it.
        pooling_added: Whether mean pooling was added to a plain transformer.
        backend: Library that computes the forward pass.
        dtype: Precision to compute in; None uses the precision of the weights.
        sides: Sides that encode; None uses both sides of a router, and otherwise none.
        probed: Whether to take the probe, which vectors and results that are stored need.

    Raises:
        InputError: If the model has an axis and truncates vectors after it, or if sides are given
            for a model with an axis.
    """

    stores_vectors = True
    training: TrainFile | None = None
    """How polarity-bench trained the encoder, if its folder says so."""

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
        sides: Sides | None = None,
        probed: bool = True,
    ) -> None:
        from polarity_bench.encoders.axis import axis_of, check_whole

        self.model = model
        check_whole(model, f"the encoder {name!r}")
        axis = axis_of(model)
        if axis is not None and sides is not None:
            raise InputError(f"the encoder {name!r} has an axis, so it takes no `sides`; remove it")
        if {"query", "document"} <= set(getattr(model[0], "sub_modules", ())):
            sides = sides or "query-document"
        self.prompt_names = [name for name, text in model.prompts.items() if text]
        self.prompts = _prompts_of_sides(model, prompt, sides)
        # Symmetric comparisons use the side of documents.
        side = "document" if sides == "query-document" else sides
        self._prompt = self.prompts[side or "query"]
        shown = dict.fromkeys(self.prompts.values()) if sides == "query-document" else ()
        stored = next((str(p.dtype) for p in model.parameters()), "torch.float32")
        self.id = EncoderId(
            name=name,
            weights=digest_of_model(model),
            revision=revision,
            prompt=" / ".join(shown) or self._prompt or None,
            max_tokens=_finite(model.max_seq_length),
            dtype=dtype or stored.removeprefix("torch."),
            pooling_added=pooling_added,
            similarity="dot" if model.similarity_fn_name == "dot" else "cosine",
            backend=backend,
            sides=sides,
            **({} if axis is None else axis.identity),
        )
        self._tokenization: Tokenization | Literal[False] | None = None  # False: unknown
        side = "document" if axis is not None else side
        self._sides: dict[str, Any] = {} if side is None else {"task": side}
        if probed and backend == "torch":  # Other backends convert the model at the first text.
            # A model in training stays so, and modules that other models share do not change.
            modes = {module: module.training for module in model.modules()}
            self.id = replace(self.id, probe=take_probe(self.encode))
            for module, mode in modes.items():
                module.training = mode

    def on_side(self, side: Side) -> SentenceTransformerEncoder:
        """Return a copy that encodes all texts by one side."""
        sided, prompt = copy(self), self.prompts[side]
        # The probe is of the other side.
        identity = replace(self.id, sides=side, prompt=prompt or None, probe=None)
        vars(sided).update(id=identity, _prompt=prompt, _sides={"task": side}, _tokenization=None)
        return sided

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

    @cached_property
    def base(self) -> SentenceTransformerEncoder | None:
        """Encoder of the modules before the axis, whose vectors the axis classifies.

        If training recorded these modules as the base, the identity is the one that the base has
        with the same options. Both encoders then share their stored vectors. None without an axis,
        with a tower, or for a static encoder, which needs no stored vectors to be fast.
        """
        from polarity_bench.encoders.axis import axis_of

        axis = axis_of(self.model)
        first: Any = self.model[0]
        if axis is None or axis.has_tower or not hasattr(first, "auto_model"):
            return None
        recorded: EncoderId | None = None
        # Other tools may write anything into a configuration.
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            record = dict(getattr(first.auto_model.config, BASE_KEY)["base"])
            recorded = EncoderId(**{name: record[name] for name in record if name != "source"})
        n_modules = len(self.model) - 1
        base = self._first_modules(n_modules, recorded)
        if recorded and base.id.weights != recorded.weights and n_modules > 1:
            # Training appends a module that normalises if the base does not normalise.
            shorter = self._first_modules(n_modules - 1, recorded)
            base = shorter if shorter.id.weights == recorded.weights else base
        return base

    def _first_modules(
        self, n_modules: int, recorded: EncoderId | None
    ) -> SentenceTransformerEncoder:
        """Return an encoder of the first modules, with the facts of the base that was recorded."""
        from sentence_transformers import SentenceTransformer

        recorded = recorded or EncoderId(name="", weights="")
        model = SentenceTransformer(
            modules=list(self.model)[:n_modules],
            device=self.device,
            similarity_fn_name="dot" if recorded.similarity == "dot" else "cosine",
        )
        encoder = SentenceTransformerEncoder(
            model,
            name=f"{self.id.name} without its axis",
            prompt=self._prompt,
            pooling_added=recorded.pooling_added,
            backend=self.id.backend,
            dtype=cast("Dtype", self.id.dtype),
        )
        if encoder.id.weights == recorded.weights:
            encoder.id = replace(encoder.id, name=recorded.name, revision=recorded.revision)
        return encoder

    def from_base(
        self, vectors: FloatArray, new_array: Callable[[int, int], FloatArray]
    ) -> FloatArray:
        """Return the vectors of texts, computed from the vectors of `base`.

        Args:
            vectors: Vectors of the base, (n, d), with n > 0.
            new_array: Function that allocates an array of n rows and a number of columns.
        """
        import torch

        n_before = 0 if self.base is None else len(self.base.model)
        added: list[Any] = list(self.model)[n_before:]
        matrix = np.empty((0, 0), dtype=np.float32)
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            with torch.inference_mode():
                block = torch.tensor(vectors[rows]).to(added[-1].head.weight)
                features: dict[str, Any] = {"sentence_embedding": block}
                for module in added[:-1]:
                    features = module(features)
                block = added[-1](features, **self._sides)["sentence_embedding"]
            if start == 0:
                matrix = new_array(len(vectors), block.shape[1])
            matrix[rows] = block.float().cpu().numpy()
        return matrix

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of tokens of each text, at most the encoder's limit, (n,).

        Raises:
            InputError: If the tokenizer panics, because its file is damaged.
        """
        with self._naming_panics():
            counts = _token_counts(self.model.tokenizer, texts)
        return counts if self.id.max_tokens is None else counts.clip(max=self.id.max_tokens)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of one batch in the order of the texts, (b, d) float32."""
        return self.encode_tokens(self.tokenize(texts))

    def encode_tokens(self, features: dict[str, Any]) -> FloatArray:
        """Return the vectors of one batch that `tokenize` prepared, (b, d) float32."""
        import torch
        from sentence_transformers.util import batch_to_device, truncate_embeddings

        model = self.model
        if model.training:
            model.eval()
        with without_autocast(model), torch.inference_mode():
            features = batch_to_device(features, model.device)
            vectors = model(features, **self._sides).get("sentence_embedding")
            if vectors is None:
                raise InputError(
                    f"the encoder {self.id.name!r}: the last module gives no sentence embedding; "
                    "add a pooling module"
                )
            if model.truncate_dim is not None:
                vectors = truncate_embeddings(vectors, model.truncate_dim)
        return np.asarray(vectors.float().cpu().numpy())

    def tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the inputs of one batch, on the CPU.

        The tokenizer is called directly if this gave the same inputs for the first batch, because
        `model.preprocess` takes a fifth as long as a small encoder in int8.

        Raises:
            InputError: If the tokenizer panics, because its file is damaged.
        """
        with self._naming_panics():
            return self._tokenize(texts)

    @contextmanager
    def _naming_panics(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # A panic of code in Rust is no `Exception`, and its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            name = f"the encoder {self.id.name!r}"
            raise InputError(f"{name}: its tokenizer fails ({error}); restore its files") from error

    def _tokenize(self, texts: Sequence[str]) -> dict[str, Any]:
        if self._tokenization is None:
            features = self.model.preprocess(
                list(texts), prompt=self._prompt or None, **self._sides
            )
            tokenization = Tokenization.of(self.model, features, self._prompt)
            same = tokenization and tokenization.features(texts)
            self._tokenization = tokenization if same and _are_equal(same, features) else False
            return features
        if self._tokenization is False:
            return self.model.preprocess(list(texts), prompt=self._prompt or None, **self._sides)
        return self._tokenization.features(texts)


@dataclass(frozen=True)
class Tokenization:
    """How a fast tokenizer turns texts into the inputs of a transformer."""

    backend: Any
    prompt: str
    padding: dict[str, Any]
    truncation: dict[str, Any] | None
    tensors: tuple[str, ...]
    others: dict[str, Any]  # the same for every batch

    @classmethod
    def of(
        cls, model: SentenceTransformer, features: dict[str, Any], prompt: str
    ) -> Tokenization | None:
        """Return the tokenization with which the model made some inputs, or None if unknown."""
        import torch

        backend = getattr(model.tokenizer, "backend_tokenizer", None)
        tensors = tuple(n for n, value in features.items() if isinstance(value, torch.Tensor))
        if backend is None or backend.padding is None or not set(tensors) <= set(_FIELDS):
            return None
        others = {name: value for name, value in features.items() if name not in tensors}
        if any(isinstance(value, list) for value in others.values()):  # as of a tower's texts
            return None
        return cls(backend, prompt, backend.padding, backend.truncation, tensors, others)

    def features(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the inputs of one batch."""
        import torch

        # Other users of the tokenizer, such as a trainer, leave their settings behind.
        if self.backend.padding != self.padding:
            self.backend.enable_padding(**self.padding)
        if self.backend.truncation != self.truncation:
            if self.truncation is None:
                self.backend.no_truncation()
            else:
                self.backend.enable_truncation(**self.truncation)
        encodings = self.backend.encode_batch_fast([self.prompt + text for text in texts])
        of_texts = {}
        for name in self.tensors:
            rows = [getattr(encoding, _FIELDS[name]) for encoding in encodings]
            # `torch.tensor` takes four times as long, more than a small encoder on a GPU.
            of_texts[name] = torch.from_numpy(np.array(rows, dtype=np.int64))
        return of_texts | self.others


_FIELDS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Attributes of a tokenizer's encodings, by the names of a transformer's inputs."""


def _are_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    import torch

    return first.keys() == second.keys() and all(
        torch.equal(first[name], value) if isinstance(value, torch.Tensor) else first[name] == value
        for name, value in second.items()
    )


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


def _prompts_of_sides(
    model: SentenceTransformer, prompt: str | None, sides: Sides | None
) -> dict[Side, str]:
    """Return the prompts of queries and documents; without sides, both are the default prompt."""
    default = model.prompts.get(model.default_prompt_name or "") or ""
    of_sides = dict.fromkeys(SIDE_NAMES, default if prompt is None else prompt)
    if prompt is None and sides is not None:
        for side, names in SIDE_NAMES.items():
            own = (model.prompts[name] for name in names if name in model.prompts)
            of_sides[side] = next(own, default) or ""
    if sides is None or sides == "query-document":
        return of_sides
    return dict.fromkeys(SIDE_NAMES, of_sides[sides])


SIDE_NAMES: dict[Side, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
"""Names of the prompts that `encode_query` and `encode_document` use, in order."""


def set_prompt(model: SentenceTransformer, prompts: Mapping[Side, str]) -> None:
    """Make prompts the only ones of a model, so that `encode` and mteb use them for every text.

    They become the prompts of `encode_query` and `encode_document`. If they are equal, they also
    become the default prompt. Other prompts are dropped, because mteb would choose one by its name.
    """
    model.prompts = {"query": prompts["query"], "document": prompts["document"]}
    is_same = prompts["query"] and prompts["query"] == prompts["document"]
    model.default_prompt_name = "query" if is_same else None


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
