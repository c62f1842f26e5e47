"""Name and digest of a model for mteb, whose cache identifies models by them.

mteb reads both from a model's card data. A model from a folder has neither, so mteb's cache would
give the scores of the first such model to all later ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.fingerprint import digest_of_model
from polarity_bench.files import mteb_name
from polarity_bench.values import digest_of

_NAME, _REVISION = "model_name", "base_model_revision"


class MtebCardData(SentenceTransformerModelCardData):
    """Card data of a model that was loaded here.

    mteb uses `model_name` as the name and `base_model_revision` as the revision. The revision is
    the digest of the model at the time when mteb reads it, so training the model changes it. A
    model card shows neither of them, because it describes the saved model, which is a different
    one.
    """

    encoder: EncoderId
    writes_card: bool = False

    @property
    def model_name(self) -> str | None:
        """Name that the user gave the model, otherwise that of the encoder."""
        given: str | None = vars(self).get(_NAME)
        return given if given or self.writes_card else mteb_name(self.encoder.name)

    @model_name.setter
    def model_name(self, name: str | None) -> None:
        vars(self)[_NAME] = name

    @property
    def base_model_revision(self) -> str | None:
        """Digest of the encoder; in a model card, the revision of the base model."""
        given: str | None = vars(self).get(_REVISION)
        return given if self.writes_card else self._digest

    @base_model_revision.setter
    def base_model_revision(self, revision: str | None) -> None:
        vars(self)[_REVISION] = revision

    @property
    def _digest(self) -> str:
        model: Any = self.model
        encoder = replace(self.encoder, weights=digest_of_model(model))
        # mteb selects a prompt by its name, but the digest of an encoder covers one prompt only.
        prompts = {name: text for name, text in model.prompts.items() if text}
        identity = [encoder.digest, prompts, model.default_prompt_name]
        return digest_of(identity) if prompts else encoder.digest

    def to_dict(self) -> dict[str, Any]:
        """Return the values for a model card."""
        given = vars(self).get(_NAME)
        self.writes_card = True
        try:
            return super().to_dict()
        finally:
            self.writes_card = False
            self.model_name = given  # undo the default name that `super().to_dict()` sets


def name_for_mteb(model: SentenceTransformer, encoder: EncoderId) -> None:
    """Make mteb identify a model by its name and its digest."""
    model.model_card_data.__class__ = MtebCardData
    vars(model.model_card_data)["encoder"] = encoder
