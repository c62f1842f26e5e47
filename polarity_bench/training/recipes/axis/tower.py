"""Towers: encoders that read the text for the class coordinates, beside the unchanged base."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polarity_bench.encoders.axis import WITH_TEXTS
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    load_encoder,
)
from polarity_bench.encoders.reference_encoder import card_of
from polarity_bench.errors import InputError


def load_tower(
    name: str, base: SentenceTransformerEncoder, options: EncoderOptions
) -> SentenceTransformerEncoder:
    """Load the encoder to fine-tune as the tower of an axis on a base.

    Raises:
        InputError: If the encoder cannot be loaded, is a baseline or has an axis, or if the base
            cannot pass texts to a tower.
    """
    tower = load_encoder(name, options)
    if not isinstance(tower, SentenceTransformerEncoder) or tower.id.axis:
        kind = "an encoder with an axis" if tower.id.axis else "a baseline"
        raise InputError(
            f"`tower` {name}: expected a transformer to fine-tune, got {kind}; use another encoder"
        )
    first = type(base.model[0])
    if first not in WITH_TEXTS:
        raise InputError(
            f"`model` {base.id.name}: with a `tower`, the base must begin with a Transformer or a "
            f"StaticEmbedding, got {first.__name__}; use another base"
        )
    tower.id = replace(tower.id, prompt=None)  # it reads texts without a prompt
    return tower


def costs(base: SentenceTransformerEncoder, tower: Any) -> str:
    """Describe the cost of encoding a text with a base and a tower, for the model card."""
    models = (base.model, tower)
    n_base, n_tower = (sum(part.numel() for part in model.parameters()) for model in models)
    return f"two forward passes per text: base {n_base:,} parameters, tower {n_tower:,} parameters"


def facts_of(tower: SentenceTransformerEncoder) -> dict[str, str]:
    """Return the model card's entry about a tower that is not a copy of the base."""
    licence = card_of(tower.model).get("license") or "not stated"
    which = f"{tower.id.label} (digest {tower.id.digest}, licence: {licence})"
    return {"Tower": f"{which}, fine-tuned; it reads the text without a prompt"}
