"""What an encoder was trained from: written where it travels with it, found again, loaded.

A base stands in the configuration of the transformer, which transformers keeps through every save
and upload, and in the model card, which sentence-transformers keeps: a static encoder has no
configuration. It moves no digest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.encoders.base import ABSENT, AbsentEncoder, Encoder, EncoderId
from polarity_bench.encoders.fingerprint import BASE_KEY, digest_of_model
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class ReferenceWarning(UserWarning):
    """The encoder that another was trained from cannot be had, to measure that one by."""


@dataclass(frozen=True)
class Base:
    """The encoder that another was trained from.

    Attributes:
        source: What it is loaded by: a name, or the absolute path of a folder.
        encoder: Which encoder it was.
    """

    source: str
    encoder: EncoderId

    def load(self, options: EncoderOptions) -> Encoder:
        """Load it, fed as it was then, or return one that is absent and says why.

        Args:
            options: How to load it, but for what moves its vectors.
        """
        base = self.encoder
        moving: dict[str, Any] = {
            "revision": base.revision,
            "prompt": base.prompt or "",
            "prompt_name": None,
            "max_tokens": base.max_tokens,
            "dtype": base.dtype,
        }
        try:
            loaded = load_encoder(self.source, replace(options, **moving))
        except InputError as error:
            why = str(error)
        else:
            if loaded.id.digest == base.digest:
                return loaded
            why = f"what is there now is {loaded.id.label} ({loaded.id.digest})"
        named = replace(
            base, name=f"{base.name} (not to be had)", weights=f"{ABSENT}{base.weights}"
        )
        return AbsentEncoder(
            named,
            f"its base {base.label} ({base.digest}), which S is measured with, cannot be had: "
            f"{why}. S, retention and joint are left out; name the base as the `reference`",
        )


def base_reference(
    holder: Any, said: Base | None = None, options: EncoderOptions | None = None
) -> Encoder | None:
    """Return what S is measured with where nothing is named: the base of a trained encoder.

    Args:
        holder: An encoder of ours or of mteb's.
        said: The base of one that names none itself, where it is known from elsewhere.
        options: How to load the base, but for what moves its vectors; None: on its own device.

    Returns:
        The base, absent if it can't be had; None if the encoder says nothing of a base.

    Warns:
        ReferenceWarning: If the base can't be had.
    """
    base = distinct_base(holder, said)
    if base is None:
        return None
    loaded = base.load(options or EncoderOptions(device=str(_model_of(holder).device)))
    if isinstance(loaded, AbsentEncoder):
        warnings.warn(loaded.why, ReferenceWarning, stacklevel=3)
    return loaded


def distinct_base(holder: Any, said: Base | None = None) -> Base | None:
    """Return the base that S is measured with.

    Args:
        holder: An encoder of ours or of mteb's.
        said: The base of one that names none itself, where it is known from elsewhere.

    Returns:
        The base; None if there is none, or if the encoder is its own: none in training was better.
    """
    base = find_base(holder) or said
    own = getattr(holder, "id", None)
    its_own = base is not None and own is not None and own.digest == base.encoder.digest
    return None if its_own else base


def find_base(holder: Any) -> Base | None:
    """Return the base that an encoder's configuration or card names, if one does."""
    from sentence_transformers import SentenceTransformer

    model = _model_of(holder)
    if not isinstance(model, SentenceTransformer):
        return None
    places: list[Any] = [getattr(_config(model), BASE_KEY, None), card_of(model).get(BASE_KEY)]
    for said in places:
        try:
            values = dict(said["base"])
            return Base(values.pop("source"), EncoderId(**values))
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _model_of(holder: Any) -> Any:
    """Return the model that an encoder of ours or of mteb's holds, below wrappers of its cache."""
    while (inner := getattr(holder, "model", None) or getattr(holder, "_model", None)) is not None:
        holder = inner
        if hasattr(holder, "save_pretrained"):
            break
    return holder


def source_of(model: SentenceTransformer) -> str | None:
    """Return the folder or hub name that a model was loaded from; None if it does not say."""
    said = getattr(_config(model), "_name_or_path", None) or model.model_card_data.base_model
    if not said:
        return None
    folder = Path(said).expanduser().absolute()
    if not folder.is_dir():
        return str(said)
    is_part = not (folder / "modules.json").is_file() and (folder.parent / "modules.json").is_file()
    return str(folder.parent if is_part else folder)


def name_of(model: SentenceTransformer) -> str:
    """Return what to call a model: as it was loaded by us, its hub name, or that of its folder."""
    known = getattr(model.model_card_data, "encoder", None)  # of a model that was loaded by us
    if isinstance(known, EncoderId) and known.weights == digest_of_model(model):
        return known.name
    source = source_of(model) or type(model).__name__
    return Path(source).name if Path(source).is_dir() else source


def write_base(model: SentenceTransformer, base: Base) -> None:
    """Write a base into a model's configuration, if it has one; its card is to name it too."""
    config = _config(model)
    if config is not None:
        setattr(config, BASE_KEY, in_card(base)[BASE_KEY])


def in_card(base: Base) -> dict[str, Any]:
    """Return what the front matter of a card says of a base."""
    return {BASE_KEY: {"base": {"source": base.source, **base.encoder.to_dict()}}}


def _config(model: SentenceTransformer) -> Any:
    return getattr(getattr(model[0], "auto_model", None), "config", None)


def card_of(model: SentenceTransformer) -> Mapping[str, Any]:
    """Return the front matter of the card that a model was loaded with; empty if there is none."""
    from huggingface_hub import ModelCard

    text = model._model_card_text or ""  # noqa: SLF001  there is no other way to it
    if not text.startswith("---"):
        return {}
    try:
        found: Any = ModelCard(text, ignore_metadata_errors=True).data
        return dict(found.to_dict())
    except Exception:  # noqa: BLE001  whatever a card that isn't ours holds
        return {}
