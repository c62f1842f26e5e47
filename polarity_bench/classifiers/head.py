"""Classifier heads, which turn an encoder's vectors into classes, stored as one safetensors file.

```
FOLDER/modules.json, model.safetensors, ...   the encoder, as sentence-transformers saves it
FOLDER/head.safetensors                       weight, bias, and proxies if the head has any
```

Shapes: n texts, d dimensions, c classes, k proxies of a class.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from scipy.special import softmax

from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

HEAD_FILE = "head.safetensors"
_METADATA = "head"


@dataclass(frozen=True)
class Head:
    """A linear layer over an encoder's vectors, with proxies if it was trained with them.

    Attributes:
        classes: Names of the classes, in the order of the columns.
        weight: Weights, (c, d); or (1, d) for a logistic regression of the second of two classes.
        bias: Biases, (c,) or (1,).
        proxies: Vectors that represent each class, (c, k, d).
        beta: Weight of the linear layer in predictions with proxies.
        of_pairs: Whether the head takes pairs of texts, as (u, v, |u - v|) of their vectors. The
            weights then have shape (c, 3d).
    """

    classes: Sequence[str]
    weight: FloatArray
    bias: FloatArray
    proxies: FloatArray | None = None
    beta: float = 1.0
    of_pairs: bool = False

    def __post_init__(self) -> None:
        n_classes, shape = len(self.classes), self.weight.shape
        n_rows = 1 if n_classes == 2 and shape[:1] == (1,) else n_classes
        if len(shape) != 2 or shape[0] != n_rows or self.bias.shape != (n_rows,):
            raise InputError(
                f"a head of {n_classes} classes needs a weight of {n_rows} rows and "
                f"as many biases, got {shape} and {self.bias.shape}"
            )
        if len(set(self.classes)) < n_classes:
            raise InputError(f"class names must be distinct, got {', '.join(self.classes)}")
        if self.of_pairs and shape[1] % 3:
            raise InputError(
                "the number of dimensions of a pair classifier must be a multiple of 3, "
                f"got {shape[1]}"
            )
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise InputError("a weight or a bias is not finite")
        given = None if self.proxies is None else self.proxies.shape
        if given and (len(given) != 3 or given[::2] != (n_classes, shape[1])):
            raise InputError(
                f"the proxies must have the shape (classes, proxies, dimensions) with {n_classes} "
                f"classes and {shape[1]} dimensions, got {given}"
            )

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions of the encoder's vectors, d."""
        return int(self.weight.shape[1]) // (3 if self.of_pairs else 1)

    def probabilities(self, vectors: FloatArray) -> FloatArray:
        """Return the linear layer's probability of each class for each text, (n, c).

        Args:
            vectors: The encoder's vectors, (n, d); for pairs `pair_vectors`, (n, 3d).

        Example:
            >>> head = Head(("bad", "good"), np.array([[0.0], [1.0]]), np.zeros(2))
            >>> head.probabilities(np.array([[0.0], [np.log(3)]]))
            array([[0.5 , 0.5 ],
                   [0.25, 0.75]])
        """
        logits = np.asarray(vectors, dtype=np.float64) @ self.weight.T + self.bias
        if logits.shape[1] == 1:  # the logit of the second class; that of the first is 0
            logits = np.hstack([np.zeros_like(logits), logits])
        shares: FloatArray = softmax(logits, axis=1)
        return shares

    def similarities(self, vectors: FloatArray) -> FloatArray:
        """Return the cosine of each text with the nearest proxy of each class, (n, c)."""
        proxies = self.check_proxies()
        units = _units(vectors)
        cosines: FloatArray = np.einsum("nd,ckd->nck", units, _units(proxies)).max(axis=2)
        return cosines

    def check_proxies(self) -> FloatArray:
        """Return the proxies.

        Raises:
            InputError: If the head has no proxies.
        """
        if self.proxies is None:
            raise InputError("`proxies`: this head was trained without proxies")
        return self.proxies

    def scores(self, vectors: FloatArray, *, with_proxies: bool = False) -> FloatArray:
        """Return the score of each class for each text, (n, c); the greatest score is predicted.

        With proxies the score is β softmax(dense(z)) + (1 − β) cos(z, proxy), which is not a
        probability.

        References:
            Few-shot learning by distance metric learning, equation 10.
        """
        dense = self.probabilities(vectors)
        if not with_proxies:
            return dense
        return self.beta * dense + (1 - self.beta) * self.similarities(vectors)

    def to_bytes(self) -> bytes:
        """Return the head as safetensors, with classes and β in the metadata.

        Equal heads give equal bytes.
        """
        tensors = {"weight": self.weight, "bias": self.bias}
        if self.proxies is not None:
            tensors["proxies"] = self.proxies
        arrays = {
            name: np.ascontiguousarray(each, dtype=np.float32) for name, each in tensors.items()
        }
        metadata = {"classes": list(self.classes), "beta": float(self.beta)}
        metadata |= {"pairs": True} if self.of_pairs else {}
        # The metadata has a single key, since safetensors does not keep the order of several keys.
        return save(arrays, metadata={_METADATA: json.dumps(metadata)})

    @classmethod
    def read(cls, folder: Path) -> Head:
        """Read the head from an encoder's folder.

        Raises:
            InputError: If the head is missing or damaged.
        """
        file = folder / HEAD_FILE
        if not file.is_file():
            raise InputError(
                f"{folder} has no {HEAD_FILE}: it is not a classifier; train one with "
                "`polarity-bench train` and the recipe triple-entropy, setfit or scl"
            )
        try:
            with safe_open(file, framework="np") as stored:
                metadata = json.loads((stored.metadata() or {})[_METADATA])
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            if not isinstance(classes := metadata["classes"], list):
                raise TypeError("its classes are not a list")  # noqa: TRY301
            beta, of_pairs = float(metadata["beta"]), bool(metadata.get("pairs", False))
            return cls(tuple(classes), **tensors, beta=beta, of_pairs=of_pairs)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: not a classifier head of polarity-bench: {error}") from error


def pair_vectors(firsts: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the input of a pair classifier, (u, v, |u - v|), (n, 3d), from two (n, d) arrays."""
    return np.hstack([firsts, seconds, np.abs(firsts - seconds)])


def _units(vectors: FloatArray) -> FloatArray:
    vectors = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: FloatArray = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return units
