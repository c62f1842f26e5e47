"""Axis: coordinates of its own for what a text's class is, beside an encoder's vector.

An embedding is (e, h): e the vector of the encoder, of unit length, and h what a classifier says of
the text's class. Sources are encoded so; a query as (e, a h), with a strength a that whoever asks
may choose. The inner product is then the cosine of the encoder plus a times the product of the
coordinates: 0 ranks as the encoder does, above 0 prefers the query's class, below 0 another one.

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
    """The last module of a sentence-transformers encoder: its vector, and coordinates of the class.

    `encode_document` gives (e, h), `encode_query` (e, a h), both for an inner product. `encode`
    gives (e, sqrt(a) h), for two texts alike. All take the strength as `strength`; without it, it
    is the one that the folder was published with.

    Args:
        classes: The names of the classes.
        dimension: Of the vectors that the classifier reads.
        strength: What a query weighs the coordinates by where nothing is said.
        tower: A transformer and its pooling, which read the text for the classifier; None has it
            read the encoder's own vector.
    """

    config_keys: list[str] = [  # noqa: RUF012  as its base class has it
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
        """Whether a transformer of its own reads the text."""
        return self.tower is not None

    @property
    def n_coordinates(self) -> int:
        """How many coordinates follow the encoder's vector."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def forward(  # type: ignore[override]
        self,
        features: dict[str, Any],
        task: str | None = None,
        strength: float | None = None,
    ) -> dict[str, Any]:
        """Append the coordinates to the sentence embeddings, (b, d) to (b, d + n).

        Raises:
            InputError: If the strength is no number, or below 0 where both sides are alike.
        """
        weight = _weight(task, self.strength if strength is None else strength)
        vectors = features["sentence_embedding"]
        logits = self.head(self._read(features).to(self.head.weight.dtype))
        placed = coordinates(logits.float().softmax(dim=1)).to(vectors.dtype)
        features["sentence_embedding"] = torch.cat([vectors, weight * placed], dim=1)
        return features

    def _read(self, features: Mapping[str, Any]) -> Tensor:
        """Return what the classifier reads, (b, d)."""
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
        """Return nothing: it depends on the encoder before."""
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
        """Read what `save` wrote."""
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
"""The class in `modules.json` of published encoders, from where sentence-transformers imports it.

Its last part is in digests of encoders too, and in the name of the axis's own folder.
"""

# sentence-transformers saves and prints a module by these two, wherever the class is defined.
Axis.__module__, _, Axis.__name__ = SAVED_AS.rpartition(".")

MODULES: dict[str, type[Module]] = {SAVED_AS: Axis}
"""The modules of ours that a folder may name, which run no code but this package's."""


def coordinates(probabilities: Tensor) -> Tensor:
    """Place probabilities of c classes, (b, c), where certain texts of one class have product 1.

    h = sqrt(c / (c - 1)) (p - 1/c): two certain texts of one class have the inner product 1, of two
    classes -1 / (c - 1). Two classes need one coordinate, 2 p - 1 of the second.

    Returns:
        (b, c), or (b, 1) of two classes.

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
    """Refuse a model with an axis whose vectors are cut, since the axis stands at their end.

    Args:
        model: A model of sentence-transformers.
        where: What the message begins with: the encoder's name, or its file.

    Raises:
        InputError: If the model has an axis and a `truncate_dim`.
    """
    if axis_of(model) is not None and model.truncate_dim is not None:
        raise InputError(
            f"{where}: the setting truncate_dim cuts off the encoder's axis, which stands at the "
            f"end of each vector, got {model.truncate_dim}; remove the setting"
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
            f"`strength` {strength:g}: below 0 it sets a query apart from documents; use "
            "encode_query and encode_document"
        )
    return math.sqrt(strength)
