"""The axis: extra coordinates for the class of a text, appended to an encoder's vector.

A source is embedded as (e, h): e is the encoder's vector, of unit length, and h encodes a
classifier's prediction of the text's class. A query is embedded as (e, a h), with a strength a that
the user may choose. The inner product is the encoder's cosine plus a times the product of the
coordinates: a = 0 ranks as the encoder does, a > 0 prefers the query's class, a < 0 prefers others.

Shapes: b texts, d dimensions, c classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn

from polarity_bench.errors import InputError

_PARTS = ("tower", "pooling")
_HUB = ("token", "cache_folder", "revision", "local_files_only")


class Axis(Module):
    """Last module of a sentence-transformers encoder, which appends coordinates for the class.

    `encode_document` gives (e, h) and `encode_query` gives (e, a h), for the inner product of a
    query and a document. `encode` gives (e, sqrt(a) h), for symmetric comparison of two texts. All
    three accept `strength`; the default is the strength that the encoder was published with.

    Args:
        classes: Names of the classes.
        dimension: Dimension of the vectors that the classifier reads.
        strength: Default weight of the coordinates in a query.
        tower: Transformer and pooling that read the text for the classifier. If None, the
            classifier reads the encoder's own vector.
    """

    config_keys: list[str] = [  # noqa: RUF012  defined so by the base class
        "classes",
        "dimension",
        "strength",
        "has_tower",
    ]
    forward_kwargs: set[str] = {"task", "strength"}  # noqa: RUF012

    def __init__(
        self,
        classes: list[str],
        dimension: int,
        strength: float = 1.0,
        tower: tuple[Transformer, Pooling] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.classes = list(classes)
        self.dimension = dimension
        self.strength = strength
        self.head = nn.Linear(dimension, len(self.classes))
        self.tower = None if tower is None else nn.ModuleDict(dict(zip(_PARTS, tower, strict=True)))

    @property
    def has_tower(self) -> bool:
        """Whether the classifier has its own transformer to read the text."""
        return self.tower is not None

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates after the encoder's vector."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def forward(  # type: ignore[override]
        self,
        features: dict[str, Any],
        task: str | None = None,
        strength: float | None = None,
    ) -> dict[str, Any]:
        """Append the coordinates to the sentence embeddings, (b, d) to (b, d + n).

        Raises:
            InputError: If the strength is not a finite number, or is below 0 without a `task` that
                separates queries from documents.
        """
        weight = _weight(task, self.strength if strength is None else strength)
        vectors = features["sentence_embedding"]
        logits = self.head(self._read(features).to(self.head.weight.dtype))
        placed = coordinates(logits.float().softmax(dim=1)).to(vectors.dtype)
        features["sentence_embedding"] = torch.cat([vectors, weight * placed], dim=1)
        return features

    def _read(self, features: Mapping[str, Any]) -> Tensor:
        """Return the vectors that the classifier reads, (b, d)."""
        if self.tower is None:
            vectors: Tensor = features["sentence_embedding"]
            return vectors
        names = ("input_ids", "attention_mask", "token_type_ids")
        read = {name: features[name] for name in names if name in features}
        for part in _PARTS:
            read = self.tower[part](read)
        found: Tensor = read["sentence_embedding"]
        return found

    def get_embedding_dimension(self) -> int | None:
        """Return None: the dimension depends on the modules before this one."""
        return None

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **_: Any) -> None:  # noqa: ARG002
        """Write the configuration, the classifier and the tower, all as safetensors."""
        from safetensors.torch import save_file

        self.save_config(output_path)
        head = {name: tensor.contiguous() for name, tensor in self.head.state_dict().items()}
        save_file(head, str(Path(output_path) / "model.safetensors"))
        for part in _PARTS if self.tower is not None else ():
            folder = Path(output_path) / part
            folder.mkdir(exist_ok=True)
            self.tower[part].save(str(folder), safe_serialization=True)  # type: ignore[index, operator]

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Axis:  # type: ignore[override]
        """Load an axis that `save` wrote."""
        from safetensors.torch import load_file

        hub: dict[str, Any] = {name: kwargs[name] for name in _HUB if name in kwargs}
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **hub)
        tower: Any = None
        if config.pop("has_tower"):
            tower = tuple(
                part.load(model_name_or_path, subfolder=f"{subfolder}/{name}", **kwargs)
                for name, part in zip(_PARTS, (Transformer, Pooling), strict=True)
            )
        axis = cls(**config, tower=tower)
        hub |= {"filename": "model.safetensors", "subfolder": subfolder}
        weights = cls.load_file_path(model_name_or_path, **hub)
        if weights is None:
            raise InputError(f"{model_name_or_path}/{subfolder}: model.safetensors is missing")
        axis.head.load_state_dict(load_file(weights))
        return axis


SAVED_AS = "polarity_bench.encoders.axis.Axis"
"""Name of the class in `modules.json` of published encoders, by which sentence-transformers imports
it.

Its last part is also in digests of encoders and in the name of the axis's folder.
"""

# sentence-transformers uses these two to save and print a module, wherever the class is defined.
Axis.__module__, _, Axis.__name__ = SAVED_AS.rpartition(".")

MODULES: dict[str, type[Module]] = {SAVED_AS: Axis}
"""Modules of this package that an encoder's folder may name; they run no code from the folder."""


def coordinates(probabilities: Tensor) -> Tensor:
    """Return the coordinates for probabilities of c classes, (b, c).

    h = sqrt(c / (c - 1)) (p - 1/c). Two texts with certain predictions have the inner product 1 if
    their classes are equal, and -1 / (c - 1) otherwise. Two classes need one coordinate, 2 p - 1
    with p of the second class.

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
    """Return the axis of a sentence-transformers model, if it has one."""
    found: Any = model[-1] if isinstance(model, nn.Sequential) and len(model) else None
    return found if isinstance(found, Axis) else None


def check_whole(model: Any, where: str) -> None:
    """Raise an error if a model has an axis and its vectors are truncated.

    The axis is at the end of each vector, so truncation would remove it.

    Args:
        model: Model of sentence-transformers.
        where: Beginning of the message: the encoder's name, or its file.

    Raises:
        InputError: If the model has an axis and a `truncate_dim`.
    """
    if axis_of(model) is not None and model.truncate_dim is not None:
        raise InputError(
            f"{where}: the setting truncate_dim cuts off the encoder's axis, which is at the end "
            f"of each vector, got {model.truncate_dim}; remove the setting"
        )


def _weight(task: str | None, strength: float) -> float:
    if not isinstance(strength, Real) or not math.isfinite(strength):
        raise InputError(f"`strength` must be a number, got {strength!r}")
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
