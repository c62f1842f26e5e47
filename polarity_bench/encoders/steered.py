"""Encoders with an axis, and how a strength changes their vectors.

The vectors of sources are stored. A strength weighs their axis when vectors are compared: that of
queries by the strength, that of sources not at all. So all strengths of an encoder share their
stored vectors. No other module knows how.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Literal

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.sentence_transformer import SentenceTransformerEncoder
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

Side = Literal["query", "source", "both"]
"""Role of vectors in a comparison: queries, sources, or texts compared with each other."""


def at_strength(encoder: Encoder, strength: float) -> Encoder:
    """Return a copy of an encoder with an axis at a given strength.

    Args:
        encoder: Encoder with an axis, which is not changed. Both share their stored vectors.
        strength: Weight of the axis in queries: 0 ranks as without the axis, a negative strength
            prefers other classes.

    Raises:
        InputError: If the encoder has no axis, or the strength is not a finite number.
    """
    if not math.isfinite(strength):
        raise InputError(f"`strength` must be a number, got {strength}")
    if not isinstance(encoder, SentenceTransformerEncoder) or not encoder.id.axis:
        raise InputError(
            f"`strength` {strength:g}: {encoder.id.name} has no axis; train an encoder with the "
            "recipe 'axis'"
        )
    steered = copy(encoder)
    steered.id = replace(encoder.id, strength=strength + 0.0)  # -0 is 0
    return steered


def weighed(
    vectors: FloatArray,
    encoder: EncoderId,
    side: Side,
    new_array: Callable[[int, int], FloatArray],
) -> FloatArray:
    """Return vectors as one side of a comparison has them.

    The axis of queries is multiplied by the strength, that of sources is not, and texts that are
    compared with each other get its square root, which gives the same inner products. At strength 0
    the vectors have no axis. The coordinates have the same length for every scale, so that cosines
    are those of (e, h) and (e, a h), see `encoders.axis`.

    Args:
        vectors: Stored vectors, (n, d); they are not changed.
        encoder: The encoder with its strength.
        side: Role of the vectors in the comparison.
        new_array: Returns an array of n rows and d columns, if a copy is needed.

    Raises:
        InputError: If texts are to be compared with each other at a strength below 0, which
            requires different vectors for queries and sources.
    """
    if not encoder.axis:
        return vectors
    strength = 1.0 if encoder.strength is None else encoder.strength
    if side == "both" and strength < 0:
        raise InputError(
            f"{encoder.label}: pairs and classifiers need a strength of at least 0; a negative "
            "strength works only for queries that retrieve sources"
        )
    # With a scale, the coordinate after the axis makes lengths equal; it is left out.
    n_axis, scale = encoder.axis, encoder.axis_scale
    axis, body = vectors[:, :n_axis], vectors[:, n_axis + 1 :]
    if scale is None:
        axis, body = vectors[:, -n_axis:], vectors[:, :-n_axis]
    if strength == 0:
        return body
    weight = {"query": strength, "source": 1.0, "both": math.sqrt(abs(strength))}[side]
    if scale is None and weight == 1:
        return vectors
    parts = [body, axis * weight] if scale is None else [axis * (weight / scale), body]
    weighted = new_array(len(vectors), n_axis + body.shape[1])
    return np.concatenate(parts, axis=1, out=weighted)
