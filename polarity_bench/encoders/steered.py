"""Strengths of encoders with an axis, and their effect on vectors.

The store contains every text's vector as a source. The strength is applied when vectors are
compared: the axis of queries is multiplied by the strength, and the axis of sources is unchanged.
All strengths of an encoder therefore share their stored vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.sentence_transformer_encoder import SentenceTransformerEncoder
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Side = Literal["query", "source", "both"]
"""Role of vectors: queries, sources, or both sides of a symmetric comparison."""


def at_strength(encoder: Encoder, strength: float) -> Encoder:
    """Return a copy of an encoder with another strength; both share their stored vectors.

    Args:
        encoder: Encoder with an axis; it is not changed.
        strength: Weight of the axis in queries. A strength of 0 ranks without the axis, and a
            negative strength prefers other classes.

    Raises:
        InputError: If the encoder has no axis, or the strength is not a finite number.
    """
    if not math.isfinite(strength):
        raise InputError(f"`strength` must be a finite number, got {strength}")
    if not isinstance(encoder, SentenceTransformerEncoder) or not encoder.id.axis:
        raise InputError(
            f"`strength` {strength:g}: {encoder.id.name} has no axis; train an encoder with the "
            "recipe 'axis'"
        )
    encoder.base  # noqa: B018  Copies share the base, so its weights are hashed only once.
    steered = copy(encoder)
    steered.model = _model_at(encoder.model, strength + 0.0)
    steered.id = replace(encoder.id, strength=strength + 0.0)  # Adding 0.0 turns -0.0 into 0.0.
    return steered


def _model_at(model: SentenceTransformer, strength: float) -> SentenceTransformer:
    """Return a copy of a model whose axis has another strength; both share their weights."""
    changed = copy(model)
    axis: Any = copy(model[-1])
    axis.strength = strength
    *_, last = model._modules  # noqa: SLF001  `nn.Module` has no public way to copy a sequence.
    changed._modules = {**model._modules, last: axis}  # noqa: SLF001  as above
    changed.model_card_data = copy(model.model_card_data)
    changed.model_card_data.model = changed  # mteb's revision is the digest of this model.
    return changed


def with_strength(
    vectors: FloatArray,
    encoder: EncoderId,
    side: Side,
    new_array: Callable[[int, int], FloatArray],
) -> FloatArray:
    """Return vectors with the axis weighted for their role in a comparison.

    The axis of queries is multiplied by the strength a, and the axis of sources is unchanged. In a
    symmetric comparison, both sides are multiplied by sqrt(a), which gives the same inner products.
    At strength 0 the axis is removed. The scale is divided out, so cosines equal the cosines of
    (e, h) and (e, a h) (see `encoders.axis`).

    Args:
        vectors: Stored vectors, (n, d); they are not changed.
        encoder: Identity of the encoder, with its strength.
        side: Role of the vectors in the comparison.
        new_array: Function that allocates an array of n rows and d columns for a copy.

    Raises:
        InputError: If a symmetric comparison has a strength below 0, which requires different
            vectors for queries and sources.
    """
    if not encoder.axis:
        return vectors
    strength = 1.0 if encoder.strength is None else encoder.strength
    if side == "both" and strength < 0:
        raise InputError(
            f"{encoder.label}: pairs and classifiers need a strength of at least 0; a negative "
            "strength works only for queries that retrieve sources"
        )
    # One more coordinate after the axis makes the lengths equal; drop it.
    axis, body = vectors[:, : encoder.axis], vectors[:, encoder.axis + 1 :]
    if strength == 0:
        return body
    weight = {"query": strength, "source": 1.0, "both": math.sqrt(abs(strength))}[side]
    weighted = new_array(len(vectors), encoder.axis + body.shape[1])
    parts = [axis * (weight / (encoder.axis_scale or 1.0)), body]
    return np.concatenate(parts, axis=1, out=weighted)
