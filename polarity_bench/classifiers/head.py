"""Classifier heads, which predict classes from an encoder's vectors.

The head and the encoder are stored in the same folder:

```
FOLDER/modules.json, model.safetensors, ...   encoder in the format of sentence-transformers
FOLDER/head.safetensors                       weight, bias, and proxies if the head has any
```

Shapes: n texts, d dimensions, c classes, k proxies per class.
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

from polarity_bench.errors import InputError, reworded
from polarity_bench.values import FloatArray

HEAD_FILE = "head.safetensors"
_METADATA = "head"


@dataclass(frozen=True)
class Head:
    """Linear layer on an encoder's vectors, with class proxies if the head was trained with them.

    Attributes:
        classes: Names of the classes, in the order of the columns.
        weight: Weights, (c, d); or (1, d) for a logistic regression of the second of two classes.
        bias: Biases, (c,) or (1,).
        proxies: Vectors that represent each class, (c, k, d); None if there are none.
        beta: Weight of the linear layer in predictions with proxies, from 0 to 1.
        of_pairs: Whether the head classifies pairs of texts, see `pair_vectors`. The weights then
            have shape (c, 3d).
        is_linear: Whether the linear layer gives probabilities instead of logits, see `of_axis`.
    """

    classes: Sequence[str]
    weight: FloatArray
    bias: FloatArray
    proxies: FloatArray | None = None
    beta: float = 1.0
    of_pairs: bool = False
    is_linear: bool = False

    def __post_init__(self) -> None:
        n_classes, shape = len(self.classes), self.weight.shape
        n_rows = 1 if n_classes == 2 and shape[:1] == (1,) else n_classes
        if len(shape) != 2 or shape[0] != n_rows or self.bias.shape != (n_rows,):
            raise InputError(
                f"classifier head: {n_classes} classes need a weight of {n_rows} rows and a bias "
                f"of {n_rows} values, got the shapes {shape} and {self.bias.shape}"
            )
        if len(set(self.classes)) < n_classes:
            raise InputError(
                f"classifier head: class names must be distinct, got {', '.join(self.classes)}"
            )
        if self.of_pairs and shape[1] % 3:
            raise InputError(
                "classifier head: the number of columns of a pair classifier's weight must be a "
                f"multiple of 3, got {shape[1]}"
            )
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise InputError("classifier head: a weight or a bias is not finite")
        given = None if self.proxies is None else self.proxies.shape
        if given and (len(given) != 3 or given[::2] != (n_classes, shape[1])):
            raise InputError(
                "classifier head: the proxies must have the shape (classes, proxies, dimensions) "
                f"with {n_classes} classes and {shape[1]} dimensions, got {given}"
            )

    @classmethod
    def of_axis(cls, classes: Sequence[str]) -> Head:
        """Return the head that computes probabilities from the coordinates of an axis.

        It inverts `encoders.axis.coordinates`; a head of this kind is not stored.

        Example:
            >>> Head.of_axis(["bad", "good"]).probabilities(np.array([[0.5]]))
            array([[0.25, 0.75]])
        """
        n = len(classes)
        weight = np.array([[-0.5], [0.5]]) if n == 2 else np.sqrt(1 - 1 / n) * np.eye(n)
        bias = np.full(n, 1 / n, dtype=np.float32)
        return cls(classes, weight.astype(np.float32), bias, is_linear=True)

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions of the encoder's vectors, d."""
        return int(self.weight.shape[1]) // (3 if self.of_pairs else 1)

    def probabilities(self, vectors: FloatArray) -> FloatArray:
        """Return the linear layer's probability of each class for each text, (n, c).

        Args:
            vectors: Encoder's vectors of texts, (n, d), or `pair_vectors` of pairs, (n, 3d).

        Example:
            >>> head = Head(("bad", "good"), np.array([[0.0], [1.0]]), np.zeros(2))
            >>> head.probabilities(np.array([[0.0], [np.log(3)]]))
            array([[0.5 , 0.5 ],
                   [0.25, 0.75]])
        """
        if self.is_linear:
            return np.asarray(vectors @ self.weight.T + self.bias).clip(0, 1)
        logits = np.asarray(vectors, dtype=np.float64) @ self.weight.T + self.bias
        # A logistic regression of two classes has the logit of the second class only.
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        return np.asarray(softmax(logits, axis=1))

    def similarities(self, vectors: FloatArray) -> FloatArray:
        """Return the cosine between each text and the nearest proxy of each class, (n, c).

        Raises:
            InputError: If the head has no proxies.
        """
        proxies = self.check_proxies()
        units = _units(vectors)
        return np.asarray(np.einsum("nd,ckd->nck", units, _units(proxies)).max(axis=2))

    def check_proxies(self) -> FloatArray:
        """Return the proxies, (c, k, d), after a check that the head has proxies.

        Raises:
            InputError: If the head has no proxies.
        """
        if self.proxies is None:
            raise InputError(
                "`proxies`: this classifier was trained without proxies; predict without them"
            )
        return self.proxies

    def scores(self, vectors: FloatArray, *, with_proxies: bool = False) -> FloatArray:
        """Return the score of each class for each text, (n, c); the highest score is predicted.

        Without proxies, the scores are probabilities. With proxies, the score of a text z is
        β softmax(dense(z)) + (1 − β) cos(z, proxy), which is not a probability.

        Raises:
            InputError: If `with_proxies` is set and the head has no proxies.

        References:
            Few-shot learning by distance metric learning, equation 10.
        """
        dense = self.probabilities(vectors)
        if not with_proxies:
            return dense
        return self.beta * dense + (1 - self.beta) * self.similarities(vectors)

    def to_bytes(self) -> bytes:
        """Serialize the head to safetensors, with the classes and β in the metadata.

        Equal heads give equal bytes.
        """
        tensors = {"weight": self.weight, "bias": self.bias}
        if self.proxies is not None:
            tensors["proxies"] = self.proxies
        arrays = {
            name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()
        }
        metadata = {"classes": list(self.classes), "beta": float(self.beta)}
        metadata |= {"pairs": True} if self.of_pairs else {}
        # The metadata has one key only, because safetensors does not preserve the order of keys.
        return save(arrays, metadata={_METADATA: json.dumps(metadata)})

    @classmethod
    def read(cls, folder: Path) -> Head:
        """Read the head in the folder of a classifier.

        Raises:
            InputError: If the file of the head is missing or damaged.
        """
        file = folder / HEAD_FILE
        if not file.is_file():
            raise InputError(
                f"{folder}: {HEAD_FILE} is missing, so the folder is not a classifier; train one "
                "with `polarity-bench train` and the recipe triple-entropy, setfit, scl or axis"
            )
        before = f"{file}: not a classifier head of polarity-bench, or damaged ("
        kinds = (OSError, SafetensorError, KeyError, TypeError, ValueError)
        with reworded(before, "); copy or train the classifier again", *kinds):
            with safe_open(file, framework="np") as stored:
                metadata = json.loads((stored.metadata() or {})[_METADATA])
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  not a dict
            if not isinstance(classes := metadata["classes"], list):
                raise TypeError("the classes are not a list")
            beta, of_pairs = float(metadata["beta"]), bool(metadata.get("pairs", False))
            return cls(tuple(classes), **tensors, beta=beta, of_pairs=of_pairs)


def pair_vectors(firsts: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the vectors of pairs of texts, (n, 3d), from the vectors of both texts, (n, d) each.

    The vector of a pair (u, v) is the concatenation of u, v and |u - v|.
    """
    return np.hstack([firsts, seconds, np.abs(firsts - seconds)])


def _units(vectors: FloatArray) -> FloatArray:
    vectors = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, np.finfo(np.float32).tiny))
