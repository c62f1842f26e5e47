"""The axis: coordinates for the class of a text, placed before an encoder's vector.

Notation: e is the encoder's vector, of unit length. h encodes a classifier's prediction of the
text's class, with |h| <= 1. s is the scale. a is the strength, which the user may choose.

A source has the vector (s h, s sqrt(1 - |h|^2), e), and a query has the vector ((a / s) h, 0, e).
Their inner product is the cosine of the two e plus a times the inner product of the two h. A
strength of 0 keeps the encoder's ranking. A positive strength prefers sources of the query's class,
and a negative strength prefers other classes.

All sources have the length sqrt(1 + s^2). The inner product, the cosine and the Euclidean distance
therefore give the same ranking, and a vector store may use any of them. The scale does not change
exact rankings. It sets the weight of the axis in distances between sources, which stores use to
build their graphs.

Shapes: b texts, d dimensions, c classes, n coordinates.

References:
    Bachrach et al. (2014), Speeding Up the Xbox Recommender System Using a Euclidean Transformation
    for Inner-Product Spaces, introduce the coordinate that makes all lengths equal. The software
    Superlinked also weights parts of a vector in the query, but users supply its attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule, Module
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    StaticEmbedding,
    Transformer,
)
from torch import Tensor, nn

from polarity_bench.errors import InputError

TEXTS = "texts"
"""Feature with the texts of a batch, for a tower with its own tokenizer."""

_PARTS = ("tower", "pooling")
_HUB = ("token", "cache_folder", "revision", "local_files_only")

SCALE = 0.25
"""Default scale.

With HNSW graphs over SST-2, a scale near 0.3 loses no recall at any strength (see docs/dial.md).
Multiplication by a power of 2 adds no rounding error to the coordinates.
"""


class Axis(Module):
    """Last module of a sentence-transformers encoder, which adds coordinates for the class.

    `encode_document` returns the vectors of sources, and `encode_query` returns the vectors of
    queries. `encode` returns (sqrt(a) h, 0, e), for symmetric comparison of two texts. All three
    methods accept `strength`; its default is stored in the encoder's configuration.

    Args:
        classes: Names of the classes.
        dimension: Dimension of the classifier's input vectors.
        strength: Default weight of the coordinates in a query.
        tower: Transformer and pooling that compute the classifier's input from the text. None
            classifies the encoder's own vector.
        scale: Scale s of the coordinates in a source.
        truncate_dim: Number of dimensions of e to keep, before e is normalised again. None keeps
            all dimensions.
        max_tokens: Maximum number of tokens of a tower that tokenizes the text itself, without a
            prompt. The encoder's first module must then pass the text on (see `pass_texts`). None
            gives the tower the tokens of the encoder's first module.

    Raises:
        InputError: If the scale is not a number above 0.
    """

    config_keys: list[str] = [  # noqa: RUF012  as the base class declares it
        *("classes", "dimension", "strength", "has_tower", "scale", "truncate_dim", "max_tokens")
    ]
    forward_kwargs: set[str] = {"task", "strength"}  # noqa: RUF012  as the base class declares it

    def __init__(
        self,
        classes: list[str],
        dimension: int,
        strength: float = 1.0,
        tower: tuple[Transformer, Pooling] | None = None,
        scale: float = SCALE,
        truncate_dim: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library has no types here
        if not 0 < scale < math.inf:
            raise InputError(f"`scale` must be a number above 0, got {scale}")
        self.classes = list(classes)
        self.dimension = dimension
        self.strength = strength
        self.scale = scale
        self.truncate_dim = truncate_dim
        self.max_tokens = max_tokens
        self.head = nn.Linear(dimension, len(self.classes))
        self.tower = None if tower is None else nn.ModuleDict(dict(zip(_PARTS, tower, strict=True)))

    @property
    def has_tower(self) -> bool:
        """Whether the classifier uses its own transformer."""
        return self.tower is not None

    @property
    def n_coordinates(self) -> int:
        """Number n of coordinates: 1 for two classes, otherwise the number of classes."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def identity(self) -> dict[str, Any]:
        """Fields of the identity of an encoder with this axis (see `EncoderId`)."""
        strength = float(self.strength)
        return {"axis": self.n_coordinates, "strength": strength, "axis_scale": self.scale}

    def forward(  # type: ignore[override]  # it names the keywords of the base class
        self,
        features: dict[str, Any],
        task: str | None = None,
        strength: float | None = None,
    ) -> dict[str, Any]:
        """Add the coordinates to the sentence embeddings.

        The shape changes from (b, d) to (b, n + 1 + d).

        Args:
            features: Features of a batch, with `sentence_embedding`, (b, d).
            task: "query", "document", or None for symmetric comparison.
            strength: Weight of the coordinates in a query. None uses the default strength.

        Raises:
            InputError: If the strength is not a finite number, if a negative strength is used
                without a `task`, or if `truncate_dim` is above d.
        """
        weight = _weight(task, self.strength if strength is None else strength)
        vectors = features["sentence_embedding"]
        logits = self.head(self._read(features).to(self.head.weight.dtype))
        placed = coordinates(logits.float().softmax(dim=1))
        if self.truncate_dim is not None:
            vectors = _truncated(vectors, self.truncate_dim)
        if task == "document":
            filler = (1 - placed.square().sum(dim=1, keepdim=True)).clamp(min=0).sqrt()
            parts = [self.scale * placed, self.scale * filler, vectors]
        else:
            weight = weight / self.scale if task == "query" else weight
            parts = [weight * placed, torch.zeros_like(placed[:, :1]), vectors]
        features["sentence_embedding"] = torch.cat([p.to(vectors.dtype) for p in parts], dim=1)
        return features

    def _read(self, features: Mapping[str, Any]) -> Tensor:
        """Return the classifier's input vectors, (b, d)."""
        if self.tower is None:
            vectors: Tensor = features["sentence_embedding"]
            return vectors
        names = ("input_ids", "attention_mask", "token_type_ids")
        if self.max_tokens is not None:
            tower: Any = self.tower["tower"]
            features = tower.preprocess(features[TEXTS], max_length=self.max_tokens)
        device = self.head.weight.device
        read = {name: features[name].to(device) for name in names if name in features}
        for part in _PARTS:
            read = self.tower[part](read)
        pooled: Tensor = read["sentence_embedding"]
        return pooled

    def get_config_dict(self) -> dict[str, Any]:
        """Return the configuration, which digests cover.

        Options added later are left out at their default, so that digests stay the same.
        """
        later = ("truncate_dim", "max_tokens")
        config = super().get_config_dict()
        return {key: value for key, value in config.items() if value or key not in later}

    def get_embedding_dimension(self) -> int | None:
        """Return None: the dimension depends on the modules before this one."""
        return None

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **_: Any) -> None:  # noqa: ARG002  as in the base class
        """Write the configuration as JSON, and the classifier and the tower as safetensors."""
        from safetensors.torch import save_file

        self.save_config(output_path)
        head = {name: tensor.contiguous() for name, tensor in self.head.state_dict().items()}
        save_file(head, str(Path(output_path) / "model.safetensors"))
        for part in _PARTS if self.tower is not None else ():
            folder = Path(output_path) / part
            folder.mkdir(exist_ok=True)
            self.tower[part].save(str(folder), safe_serialization=True)  # type: ignore[index, operator]  # not None here

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Axis:  # type: ignore[override]  # other keywords are the hub's
        """Load a saved axis."""
        hub: dict[str, Any] = {name: kwargs[name] for name in _HUB if name in kwargs}
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **hub)
        tower: Any = None
        if config.pop("has_tower"):
            tower = tuple(
                part.load(model_name_or_path, subfolder=f"{subfolder}/{name}", **kwargs)
                for name, part in zip(_PARTS, (Transformer, Pooling), strict=True)
            )
        axis = cls(**config, tower=tower)
        axis.head.load_state_dict(cls.load_torch_weights(model_name_or_path, subfolder, **hub))
        return axis


SAVED_AS = "polarity_bench.encoders.axis.Axis"
"""Import path of the class in the `modules.json` of published encoders.

The class name at its end is also part of encoder digests and of the name of the axis's folder.
"""

# sentence-transformers saves and prints modules under these names, so they must not change if the
# class moves.
Axis.__module__, _, Axis.__name__ = SAVED_AS.rpartition(".")


class _WithTexts(InputModule):
    """First module of an encoder, which passes on the texts of a batch beside its own features."""

    def preprocess(self, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the features of texts, and the texts without the prompt."""
        features: dict[str, Any] = super().preprocess(inputs, *args, **kwargs)
        return features | {TEXTS: list(inputs)}

    @classmethod
    def load(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a saved module, for which `StaticEmbedding` does not use the class."""
        module = super().load(*args, **kwargs)
        module.__class__ = cls
        return module


class TransformerWithTexts(_WithTexts, Transformer):
    """A `Transformer` that passes on the texts."""


class StaticEmbeddingWithTexts(_WithTexts, StaticEmbedding):
    """A `StaticEmbedding` that passes on the texts."""


WITH_TEXTS: dict[type, type[Module]] = {
    Transformer: TransformerWithTexts,
    StaticEmbedding: StaticEmbeddingWithTexts,
}
"""Classes of first modules, and for each the class that passes on the texts."""

MODULES: dict[str, type[Module]] = {SAVED_AS: Axis}
"""Module classes of this package, which are imported without `trust_remote_code`."""
for _class in WITH_TEXTS.values():
    _class.__module__ = Axis.__module__
    MODULES[f"{_class.__module__}.{_class.__name__}"] = _class


def pass_texts(model: Any) -> None:
    """Make a model's first module pass on the texts; the vectors of the model do not change."""
    model[0].__class__ = WITH_TEXTS[type(model[0])]


def coordinates(probabilities: Tensor) -> Tensor:
    """Return the coordinates h for the class probabilities of texts.

    The formula is h = sqrt(c / (c - 1)) (p - 1/c). If two predictions are certain, the inner
    product of their coordinates is 1 for equal classes and -1 / (c - 1) otherwise. Two classes need
    only one coordinate, 2 p - 1, where p is the probability of the second class.

    Args:
        probabilities: Class probabilities, (b, c).

    Returns:
        Coordinates, (b, c); (b, 1) for two classes.

    Example:
        >>> coordinates(torch.tensor([[0.25, 0.75]]))
        tensor([[0.5000]])
        >>> sure = coordinates(torch.eye(3))
        >>> (sure @ sure.T).round(decimals=4)
        tensor([[ 1.0000, -0.5000, -0.5000],
                [-0.5000,  1.0000, -0.5000],
                [-0.5000, -0.5000,  1.0000]])
    """
    n_classes = probabilities.shape[1]
    if n_classes == 2:
        return 2 * probabilities[:, 1:] - 1
    return math.sqrt(n_classes / (n_classes - 1)) * (probabilities - 1 / n_classes)


def axis_of(model: Any) -> Axis | None:
    """Return the axis of a sentence-transformers model, or None if the model has no axis."""
    last: Any = model[-1] if isinstance(model, nn.Sequential) and len(model) else None
    return last if isinstance(last, Axis) else None


def check_whole(model: Any, where: str) -> None:
    """Raise an error if a model has an axis and its vectors are truncated after the axis.

    This truncation would remove the axis, or give sources different lengths.

    Args:
        model: A sentence-transformers model.
        where: Encoder or file to name at the start of the error message.

    Raises:
        InputError: If the model has an axis and a `truncate_dim`.
    """
    if axis_of(model) is not None and model.truncate_dim is not None:
        raise InputError(
            f"{where}: truncate_dim shortens vectors after the axis is added, got "
            f"{model.truncate_dim}; remove this setting and set `encoder[-1].truncate_dim = "
            f"{model.truncate_dim}` instead"
        )


def _truncated(vectors: Tensor, n_kept: int) -> Tensor:
    """Return the first `n_kept` dimensions of vectors, normalised again, (b, n_kept)."""
    if not 1 <= n_kept <= vectors.shape[1]:
        raise InputError(
            f"`truncate_dim` of the axis must be from 1 to the encoder's {vectors.shape[1]} "
            f"dimensions, got {n_kept}"
        )
    return torch.nn.functional.normalize(vectors[:, :n_kept], dim=1)


def _weight(task: str | None, strength: float) -> float:
    """Return the weight of the coordinates in a query, a document or a symmetric comparison."""
    if not isinstance(strength, Real) or not math.isfinite(strength):
        raise InputError(f"`strength` must be a finite number, got {strength!r}")
    if task == "document":
        return 1.0
    if task == "query":
        return strength
    if strength < 0:
        raise InputError(
            f"`strength` must be at least 0 for `encode`, got {strength:g}; use encode_query and "
            "encode_document"
        )
    return math.sqrt(strength)
