"""The core values: what flows between the modules. All frozen.

Shapes: n texts, d dimensions, q queries, k ranks.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polarity_bench.errors import InputError

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]

Weighting = Literal["linear", "uniform"]
"""How ranks are weighted: by the papers' equation, or as their released code did."""

WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)

Dtype = Literal["float32", "float16", "bfloat16"]
"""Precision of an encoder's weights."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Similarity = Literal["cosine", "dot"]
"""What an encoder's vectors are compared by."""

SentEvalProtocol = Literal["senteval-sklearn", "senteval-torch"]
SENTEVAL_PROTOCOLS: tuple[SentEvalProtocol, ...] = get_args(SentEvalProtocol)

TorchPreset = Literal["literature", "papers"]
"""What `senteval-torch` is run as."""

TORCH_PRESETS: tuple[TorchPreset, ...] = get_args(TorchPreset)


def digest_of(value: Any) -> str:
    """Hash a JSON value to 16 hexadecimal digits, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def shortest(value: float) -> str:
    """Write a number by the fewest digits that tell it from every other.

    Example:
        >>> shortest(-1.0), shortest(0.1), shortest(0.10000001)
        ('-1', '0.1', '0.10000001')
    """
    return repr(float(value)).removesuffix(".0")


_BIDI_CONTROLS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def printable(text: str) -> str:
    r"""Write control characters, and those that turn the direction of text, as escapes.

    A terminal would obey the first, and the second can make one name look like another.

    Example:
        >>> printable("e5\x1b[2K \u202egte")
        'e5\\x1b[2K \\u202egte'
    """
    if text.isascii() and text.isprintable():
        return text

    def is_shown(letter: str) -> bool:
        hidden = unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"}
        return not hidden and unicodedata.bidirectional(letter) not in _BIDI_CONTROLS

    kept = {"\n", "\t"}
    return "".join(
        c if c in kept or is_shown(c) else c.encode("unicode_escape").decode() for c in text
    )


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


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts: (n, d) float32, every row finite and none all zero."""

    vectors: FloatArray
    encoder: EncoderId

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class Split:
    """The labelled texts of one split, in file order.

    `columns` holds what else a task's file says of each text, by column name.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, positions: Sequence[int] | IntArray) -> Split:
        """Return the rows at these positions, in their order."""
        return Split(
            texts=tuple(self.texts[i] for i in positions),
            labels=tuple(self.labels[i] for i in positions),
            columns={
                name: tuple(values[i] for i in positions) for name, values in self.columns.items()
            },
        )


@dataclass(frozen=True)
class Retrieval:
    """The k nearest sources of each query, nearest first, ties by position in the source.

    Attributes:
        index: Positions in the source, (q, k) int64.
        similarity: Cosine similarities, or inner products where the encoder is compared by them,
            (q, k) float64.
    """

    index: IntArray
    similarity: FloatArray

    @property
    def k(self) -> int:
        """How many sources were retrieved for each query."""
        return int(self.index.shape[1])

    def at(self, k: int) -> Retrieval:
        """Return the first k ranks."""
        if not 1 <= k <= self.k:
            raise ValueError(f"k must be between 1 and {self.k}, the ranks retrieved, got {k}")
        return Retrieval(self.index[:, :k], self.similarity[:, :k])


_NAMED_PARTS = ("accuracy", "recall", "spearman", "pearson")
_RANKED = re.compile(r"(?P<name>.+?)(?P<uniform>_uniform)?_at_(?P<k>\d+)")


@dataclass(frozen=True)
class ScoreKey:
    """Which score: a metric, at which k, by which weights of the ranks, of which part of the data.

    Its text is the score's name in results and in mteb, and `parse` reads it back.

    Attributes:
        k: How many sources were retrieved; None for what does not rank.
        weighting: Of the ranks; the default, `linear`, is no part of the text.
        part: A value of the breakdown, a class, or a subset; None is all.

    Raises:
        InputError: If the text would read as another key.

    Example:
        >>> str(ScoreKey("polarity", 16, "uniform", "negation"))
        'polarity_of_negation_uniform_at_16'
        >>> ScoreKey.parse("spearman_all")
        ScoreKey(metric='spearman', k=None, weighting='linear', part='all')
    """

    metric: str
    k: int | None = None
    weighting: Weighting = "linear"
    part: str | None = None

    def __post_init__(self) -> None:
        if _fields_of(str(self)) != (self.metric, self.k, self.weighting, self.part):
            raise InputError(
                f"{self!r} cannot be told from another score by its name, {str(self)!r}; rename "
                f"the part or the column, or, if that score is meant, ScoreKey.parse({str(self)!r})"
            )

    def __str__(self) -> str:
        name = self.metric
        if self.part is not None:
            name += "_" if self.k is None and self.metric in _NAMED_PARTS else "_of_"
            name += self.part
        name += "_uniform" if self.weighting == "uniform" else ""
        return name if self.k is None else f"{name}_at_{self.k}"

    @classmethod
    def parse(cls, text: str) -> ScoreKey:
        """Return the key whose text this is."""
        return cls(*_fields_of(text))


def _fields_of(text: str) -> tuple[str, int | None, Weighting, str | None]:
    ranked = _RANKED.fullmatch(text)
    if ranked:
        metric, of, part = ranked["name"].partition("_of_")
        weighting: Weighting = "uniform" if ranked["uniform"] else "linear"
        return metric, int(ranked["k"]), weighting, part if of else None
    for metric in _NAMED_PARTS:
        if text.startswith(f"{metric}_"):
            return metric, None, "linear", text[len(metric) + 1 :]
    return text, None, "linear", None


@dataclass(frozen=True)
class Score:
    """A metric over a task: its mean over the queries where it is defined, and its spread.

    Attributes:
        mean: The score, nan where no query has a defined value.
        std: Population standard deviation over the queries, as the papers give it.
        ci95: Bootstrap 95 % interval of the mean.
        n: How many values are defined; None where a stored result does not say.
        n_undefined: How many are nan.
    """

    mean: float
    std: float
    ci95: tuple[float, float]
    n: int | None
    n_undefined: int = 0

    @classmethod
    def single(
        cls, value: float, n: int, ci95: tuple[float, float] = (math.nan, math.nan)
    ) -> Score:
        """Return a score that is not a mean of values, and has no deviation."""
        return cls(value, math.nan, ci95, n, int(math.isnan(value)))
