"""The identity of an encoder and the protocol that encoders implement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray, digest_of, printable, shortest

Dtype = Literal["float32", "float16", "bfloat16", "int8"]
"""Precision of an encoder's weights, or of the arithmetic of a backend other than torch."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Backend = Literal["torch", "openvino", "onnx"]
"""Library that computes the forward pass of an encoder's transformer."""

Similarity = Literal["cosine", "dot"]
"""Similarity function of an encoder: cosine or inner product."""


ABSENT = "absent "
"""Prefix of `EncoderId.weights` of an encoder that is not available."""


@dataclass(frozen=True)
class EncoderId:
    """Identity of an encoder: everything that affects an embedding.

    `weights` is the digest of the loaded model. Two local folders that share a name but not their
    weights are therefore different encoders, as is a hub name whose weights have changed.

    Attributes:
        similarity: Similarity function that compares the encoder's vectors.
        axis: Number of axis coordinates, whose weight users may choose.
        axis_scale: Scale of an axis at the beginning of a vector, see `encoders.axis`; None for an
            axis at the end, or none.
        strength: Weight of the axis in a query; None for an encoder without an axis.
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

    @cached_property
    def digest(self) -> str:
        """Digest, 16 hexadecimal digits, of all that affects an embedding; the name does not."""
        values = self.to_dict()
        del values["name"], values["revision"]
        return digest_of(values)

    def to_dict(self, *, with_defaults: bool = False) -> dict[str, Any]:
        """Return the identity as JSON values; cosine and a missing axis are left out.

        Digests and stored files contain the names of the fields, so keep them.

        Args:
            with_defaults: Whether to include the values that are left out by default.
        """
        values = asdict(self)
        usual: dict[str, Any] = {
            "axis_scale": None,
            "backend": "torch",
        }  # checksums of curves cover the other defaults
        if not with_defaults:
            usual |= {"similarity": "cosine", "axis": 0, "strength": None}
        return {name: value for name, value in values.items() if (name, value) not in usual.items()}

    @property
    def stored(self) -> EncoderId:
        """Identity under which vectors are stored; it is the same at every strength."""
        return replace(self, strength=None) if self.axis else self

    @property
    def compared_by(self) -> Similarity:
        """Similarity function to use; at strength 0 it is cosine, because the axis is left out."""
        return "cosine" if self.strength == 0 else self.similarity

    @property
    def is_absent(self) -> bool:
        """Whether the encoder is not available; see `AbsentEncoder`."""
        return self.weights.startswith(ABSENT)

    @property
    def label(self) -> str:
        """Name for tables: the encoder's name with its prompt and strength, if any."""
        details = [f"prompt {self.prompt!r}"] if self.prompt else []
        details += [] if self.backend == "torch" else [f"{self.backend} {self.dtype}"]
        details += [] if self.strength is None else [f"strength {shortest(self.strength)}"]
        return printable(f"{self.name} ({', '.join(details)})" if details else self.name)


class Encoder(Protocol):
    """Protocol of an object that turns texts into vectors, one batch at a time.

    Your own class needs these three members. Its vectors are kept in an `EmbeddingStore` only if
    the class itself sets `stores_vectors = True`. The store then finds them by `id` alone.

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
        """Identity of this encoder; change its `weights` whenever a vector changes."""

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return the number of tokens of each text, cut at the maximum, (n,)."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode one batch, (b, d) float32 in the order of the texts."""


@runtime_checkable
class CorpusEncoder(Protocol):
    """Encoder whose vectors depend on the texts of the task, such as tf-idf."""

    def for_corpus(self, texts: Sequence[str]) -> Encoder:
        """Return the encoder fitted to these texts."""


@dataclass(frozen=True)
class AbsentEncoder:
    """Stand-in for a known encoder that is not available; scores that need it are undefined.

    Attributes:
        id: Identity of the encoder. Its weights begin with `ABSENT`, so that it differs from the
            identity of the encoder itself.
        why: Why the encoder is not available, and the consequences.
    """

    id: EncoderId
    why: str

    def count_tokens(self, texts: Sequence[str]) -> IntArray:  # noqa: ARG002
        """Raise `InputError`, which says why the encoder is not available."""
        raise InputError(self.why)

    def encode(self, texts: Sequence[str]) -> FloatArray:  # noqa: ARG002
        """Raise `InputError`, which says why the encoder is not available."""
        raise InputError(self.why)
