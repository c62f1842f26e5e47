"""Card data that gives each model a unique name and revision in mteb's cache.

mteb reads the name and the revision from a model's card data. A model from a folder has neither.
mteb's cache would therefore return the first such model's scores for every later model.
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
    """Card data of a model that polarity-bench loaded.

    mteb uses `model_name` as the name and `base_model_revision` as the revision. The revision is a
    digest that is computed on each access, so it changes when the model is trained. A written model
    card contains neither value, because it describes a model with a new name and new weights.
    """

    encoder: EncoderId
    writes_card: bool = False

    @property
    def model_name(self) -> str | None:
        """Name that the user gave the model; by default, the encoder's name for mteb."""
        user_name: str | None = vars(self).get(_NAME)
        return user_name if user_name or self.writes_card else mteb_name(self.encoder.name)

    @model_name.setter
    def model_name(self, name: str | None) -> None:
        vars(self)[_NAME] = name

    @property
    def base_model_revision(self) -> str | None:
        """Digest of the encoder for mteb; the base model's revision while a card is written."""
        card_revision: str | None = vars(self).get(_REVISION)
        return card_revision if self.writes_card else self._digest

    @base_model_revision.setter
    def base_model_revision(self, revision: str | None) -> None:
        vars(self)[_REVISION] = revision

    @property
    def _digest(self) -> str:
        model: Any = self.model
        encoder = replace(self.encoder, weights=digest_of_model(model))
        # mteb can select any of the model's prompts, but `encoder.digest` covers only one.
        prompts = {name: text for name, text in model.prompts.items() if text}
        identity = [encoder.digest, prompts, model.default_prompt_name]
        return digest_of(identity) if prompts else encoder.digest

    def to_dict(self) -> dict[str, Any]:
        """Return the card data for a written model card, without the values for mteb."""
        user_name = vars(self).get(_NAME)
        self.writes_card = True
        try:
            return super().to_dict()
        finally:
            self.writes_card = False
            self.model_name = user_name  # `super().to_dict()` has set a default name.


def name_for_mteb(model: SentenceTransformer, encoder: EncoderId) -> None:
    """Make mteb identify a model by its encoder's name and digest."""
    model.model_card_data.__class__ = MtebCardData
    vars(model.model_card_data)["encoder"] = encoder
