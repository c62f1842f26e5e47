"""What an encoder is: its identity and its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray, IntArray, digest_of, printable, shortest

Dtype = Literal["float32", "float16", "bfloat16"]
"""Precision of an encoder's weights."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Similarity = Literal["cosine", "dot"]
"""What an encoder's vectors are compared by."""


ABSENT = "absent "
"""What the weights of an encoder begin with that cannot be had."""


@dataclass(frozen=True)
class EncoderId:
    """What tells one encoder from another: everything that moves an embedding.

    `weights` is the digest of the files that the encoder was loaded from, so that two local
    folders of one name, or one hub name whose weights changed, are two encoders.

    Attributes:
        similarity: What its vectors are compared by.
        axis: How many coordinates, the last ones, are an axis, whose weight is a matter of choice.
        strength: That weight in a query; None for an encoder without an axis.
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

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over all that moves an embedding; the name does not."""
        said = self.to_dict()
        del said["name"], said["revision"]
        return digest_of(said)

    def to_dict(self, *, with_defaults: bool = False) -> dict[str, Any]:
        """Return it as JSON values; cosine and a missing axis are left out.

        Digests and stored files hold these keys, whatever the fields are called.

        Args:
            with_defaults: Leave nothing out.
        """
        values = {
            "name": self.name,
            "weights": self.weights,
            "revision": self.revision,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "dtype": self.dtype,
            "pooling_added": self.pooling_added,
            "similarity": self.similarity,
            "axis": self.axis,
            "strength": self.strength,
        }
        if with_defaults:
            return values
        usual = {"similarity": "cosine", "axis": 0, "strength": None}
        return {name: value for name, value in values.items() if (name, value) not in usual.items()}

    @property
    def stored(self) -> EncoderId:
        """Whose the vectors in a store are: the same at every strength."""
        return replace(self, strength=None) if self.axis else self

    @property
    def compared_by(self) -> Similarity:
        """What two of its vectors are compared by; at strength 0 the axis takes no part."""
        return "cosine" if self.strength == 0 else self.similarity

    @property
    def is_absent(self) -> bool:
        """Whether it could not be had, see `AbsentEncoder`."""
        return self.weights.startswith(ABSENT)

    @property
    def label(self) -> str:
        """The name for tables: the encoder's, with its prompt and strength where it has them."""
        said = [f"prompt {self.prompt!r}"] if self.prompt else []
        said += [] if self.strength is None else [f"strength {shortest(self.strength)}"]
        return printable(f"{self.name} ({', '.join(said)})" if said else self.name)


class Encoder(Protocol):
    """Anything that turns texts into vectors, a batch at a time.

    A class of your own needs these three. Its vectors are not kept in an `EmbeddingStore`, unless
    the class itself says `stores_vectors = True`. The store then finds them by `id` alone.

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
        """What tells this encoder from others; change its `weights` when a vector changes."""

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return how many tokens each text takes, cut at the maximum, (n,)."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode one batch, (b, d) float32 in the order of the texts."""


@runtime_checkable
class CorpusEncoder(Protocol):
    """An encoder whose vectors depend on the texts of the task, like tf-idf."""

    def for_corpus(self, texts: Sequence[str]) -> Encoder:
        """Return the encoder fitted to these texts."""


@dataclass(frozen=True)
class AbsentEncoder:
    """An encoder that is known and cannot be had: what is measured with it is undefined.

    Attributes:
        id: What it is called, told from the encoder itself: its weights begin with `ABSENT`.
        why: Why it cannot be had, and what follows.
    """

    id: EncoderId
    why: str

    def count_tokens(self, texts: Sequence[str]) -> IntArray:  # noqa: ARG002
        """Refuse."""
        raise InputError(self.why)

    def encode(self, texts: Sequence[str]) -> FloatArray:  # noqa: ARG002
        """Refuse."""
        raise InputError(self.why)
