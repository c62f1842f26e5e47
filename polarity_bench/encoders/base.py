"""Identity of encoders, and the protocol that encoders implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray, digest_of, printable, shortest

Dtype = Literal["float32", "float16", "bfloat16", "int8"]
"""Precision of an encoder's weights, or of the arithmetic if the backend is not torch."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Backend = Literal["torch", "openvino", "onnx"]
"""Library that computes the forward pass of an encoder's transformer."""

Similarity = Literal["cosine", "dot"]
"""Similarity function of an encoder: cosine or inner product."""

Quantization = Literal["int8", "binary"]
"""Precision of the numbers in the vectors that are retrieved, below float32."""

QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)

Side = Literal["query", "document"]
"""Side of an asymmetric encoder."""

Sides = Literal["query-document", "query", "document"]
"""Sides that encode: queries by one and sources by the other, or all texts by the same."""

SIDES: tuple[Sides, ...] = get_args(Sides)

ABSENT = "absent "
"""Prefix of `EncoderId.weights` if the encoder is not available."""


@dataclass(frozen=True)
class EncoderId:
    """Identity of an encoder: its name, its revision, and everything that affects its embeddings.

    The digest of the weights distinguishes local folders that have the same name. It also changes
    if a hub repository publishes new weights under its old name.

    Attributes:
        name: Name of the encoder in results.
        weights: Digest of the loaded model, including its configuration and tokenizer.
        revision: Commit of the hub repository; None if there is none.
        prompt: Prefix of every text; None if there is none.
        max_tokens: Maximum number of tokens of a text; None if there is no limit.
        dtype: Precision of the weights, or of the arithmetic if the backend is not torch.
        pooling_added: Whether mean pooling was added to a plain transformer.
        similarity: Similarity function for the encoder's vectors.
        axis: Number of axis coordinates; 0 without an axis.
        strength: Weight of the axis in a query; None without an axis.
        axis_scale: Scale of an axis at the beginning of a vector (see `encoders.axis`). None
            without an axis.
        backend: Library that computes the forward pass.
        truncate_dim: Number of dimensions to keep of each vector; None keeps all.
        quantize: Precision of the vectors that are retrieved; None if they are not quantized.
        sides: Sides of an asymmetric encoder that encode; None for a symmetric encoder.
        probe: Summary of the encoder's vectors for fixed texts (see `encoders.probe`), which is not
            part of the digest. None if unknown.
    """

    name: str
    weights: str
    revision: str | None = None
    prompt: str | None = None
    max_tokens: int | None = None
    dtype: str = "float32"
    pooling_added: bool = False
    similarity: Similarity = "cosine"
    axis: int = 0
    strength: float | None = None
    axis_scale: float | None = None
    backend: Backend = "torch"
    truncate_dim: int | None = None
    quantize: Quantization | None = None
    sides: Sides | None = None
    probe: Sequence[int] | None = field(default=None, compare=False, repr=False)

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    @cached_property
    def digest(self) -> str:
        """Digest of all fields but name, revision and probe, as 16 hexadecimal digits."""
        values = self.to_dict()
        del values["name"], values["revision"]
        return digest_of(values)

    def to_dict(self, *, with_defaults: bool = False) -> dict[str, Any]:
        """Return the identity as JSON values, without its probe.

        Newer fields are left out if they have their default values.

        Digests and stored files contain the names of the fields, so fields must not be renamed.

        Args:
            with_defaults: Whether to include `similarity`, `axis` and `strength` even if they have
                their default values.
        """
        values = asdict(self)
        del values["probe"]
        # Checksums of curves cover the other defaults, but not these two.
        usual: dict[str, Any] = {"axis_scale": None, "backend": "torch"}
        usual |= dict.fromkeys(("truncate_dim", "quantize", "sides"))
        if not with_defaults:
            usual |= {"similarity": "cosine", "axis": 0, "strength": None}
        return {name: value for name, value in values.items() if (name, value) not in usual.items()}

    def to_record(self) -> dict[str, Any]:
        """Return the identity as JSON values, with its probe if known, to store beside vectors."""
        return self.to_dict() | ({} if self.probe is None else {"probe": list(self.probe)})

    @property
    def stored(self) -> EncoderId:
        """Identity for the vector store, the same at every strength and compression."""
        if not self.axis and not self.is_compressed:
            return self
        return replace(self, strength=None, truncate_dim=None, quantize=None)

    @property
    def is_compressed(self) -> bool:
        """Whether the vectors are truncated or quantized."""
        return self.truncate_dim is not None or self.quantize is not None

    @property
    def compared_by(self) -> Similarity:
        """Similarity function to use; cosine at strength 0, where the axis is left out."""
        return "cosine" if self.strength == 0 else self.similarity

    @property
    def is_absent(self) -> bool:
        """Whether the encoder is not available (see `AbsentEncoder`)."""
        return self.weights.startswith(ABSENT)

    @property
    def label(self) -> str:
        """Name for tables: the encoder's name, with its prompt and other settings if any."""
        details = [f"prompt {self.prompt!r}"] if self.prompt else []
        computed: list[str] = [] if self.backend == "torch" else [self.backend]
        computed += [] if self.dtype == "float32" else [self.dtype]
        details += [" ".join(computed)] if computed else []
        details += [f"{self.truncate_dim} dimensions"] if self.truncate_dim else []
        details += [f"{self.quantize} vectors"] if self.quantize else []
        details += [f"sides {self.sides}"] if self.sides else []
        details += [] if self.strength is None else [f"strength {shortest(self.strength)}"]
        return printable(f"{self.name} ({', '.join(details)})" if details else self.name)


class Encoder(Protocol):
    """Protocol for objects that turn texts into vectors, one batch at a time.

    Your own class needs these three members. An `EmbeddingStore` keeps its vectors only if the
    class sets `stores_vectors = True`. The store identifies the encoder by `id` alone.

    Example:
        >>> import numpy as np
        >>> class Lengths:
        ...     id = EncoderId(name="lengths", weights="lengths-v1")
        ...
        ...     def count_tokens(self, texts):
        ...         return np.array([len(text.split()) for text in texts])
        ...
        ...     def encode(self, texts):
        ...         rows = [[len(text), text.count(" ") + 1] for text in texts]
        ...         return np.array(rows, dtype=np.float32)
        >>> Lengths().encode(["not good"])
        array([[8., 2.]], dtype=float32)
    """

    @property
    def id(self) -> EncoderId:
        """Identity of this encoder; its `weights` must change whenever a vector changes."""

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of tokens of each text, at most the encoder's limit, (n,)."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of one batch in the order of the texts, (b, d) float32."""


@runtime_checkable
class CorpusEncoder(Protocol):
    """Encoder whose vectors depend on the texts of the task, such as tf-idf."""

    def for_corpus(self, texts: Sequence[str]) -> Encoder:
        """Return a copy of the encoder that is fitted to the texts of a task."""


@runtime_checkable
class TaskEncoder(Protocol):
    """Encoder whose vectors depend on the task, such as a model with prompts for its type."""

    def for_task(self, spec: Any) -> Encoder:
        """Return a copy of the encoder for the task of a task file (`TaskSpec`)."""


@dataclass(frozen=True)
class AbsentEncoder:
    """Placeholder for an encoder that is not available; scores that need it are undefined.

    Attributes:
        id: Identity of the missing encoder. Its weights begin with `ABSENT`, which distinguishes it
            from the identity of the real encoder.
        why: Error message: the reason, the consequences and a remedy.
    """

    id: EncoderId
    why: str

    def count_tokens(self, texts: Sequence[str]) -> IntArray:  # noqa: ARG002  as `Encoder`
        """Raise an `InputError` with the reason why the encoder is not available."""
        raise InputError(self.why)

    def encode(self, texts: Sequence[str]) -> FloatArray:  # noqa: ARG002  as `Encoder`
        """Raise an `InputError` with the reason why the encoder is not available."""
        raise InputError(self.why)


def model_of(holder: Any) -> Any:
    """Return the model inside an encoder of this package or of mteb, without mteb's wrappers."""
    while (inner := getattr(holder, "model", None) or getattr(holder, "_model", None)) is not None:
        holder = inner
        if hasattr(holder, "save_pretrained"):
            break
    return holder


@cache
def multiplies_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 in hardware, twice as fast as float32."""
    import torch

    return bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001  torch has no public function
