"""Base encoders of trained encoders, the default references: recording, finding, loading them.

Training records the base in the transformer's configuration, which transformers keeps through every
save and upload. A static encoder has no configuration, so the model card records the base too.
These records do not change the digest of an encoder. A training run also records the base in
`train.json`, for models without such a record.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.encoders.base import ABSENT, AbsentEncoder, Encoder, EncoderId, model_of
from polarity_bench.encoders.compression import uncompressed
from polarity_bench.encoders.fingerprint import BASE_KEY, digest_of_model
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.encoders.train_file import training_of
from polarity_bench.errors import InputError
from polarity_bench.files import expanded

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class ReferenceWarning(UserWarning):
    """Warning that the base encoder, needed as the reference, could not be loaded."""


@dataclass(frozen=True)
class Base:
    """Base encoder from which another encoder was trained.

    Attributes:
        source: Name or absolute folder from which the base is loaded.
        encoder: Identity of the base when the training started.
    """

    source: str
    encoder: EncoderId

    def load(self, options: EncoderOptions) -> Encoder:
        """Load the base with the recorded revision, prompt, token limit and dtype.

        Args:
            options: Other options for loading, such as the device.

        Returns:
            The base, or an `AbsentEncoder` if the base has changed or cannot be loaded.
        """
        base = self.encoder
        recorded: Any = {
            name: getattr(base, name) for name in ("revision", "max_tokens", "dtype", "backend")
        }
        options = replace(options, prompt=base.prompt or "", prompt_name=None, **recorded)
        try:
            loaded = load_encoder(self.source, options)
        except InputError as error:
            why = str(error)
        else:
            if loaded.id.digest == base.digest:
                return loaded
            why = f"the base has changed and is now {loaded.id.label} ({loaded.id.digest})"
        named = replace(
            base, name=f"{base.name} (not available)", weights=f"{ABSENT}{base.weights}"
        )
        return AbsentEncoder(
            named,
            f"the base {base.label} ({base.digest}), the reference for S, is not available: {why}. "
            "S, retention and joint are left out; give the base as the `reference`",
        )


def default_reference(
    holder: Any,
    options: EncoderOptions | None = None,
    check: Callable[[Encoder], object] | None = None,
) -> Encoder | None:
    """Load the default reference of an encoder.

    Args:
        holder: Encoder of this package or of mteb.
        options: Options for loading a base, except those that affect vectors. None loads the base
            on the encoder's device.
        check: Function that is called with a base, available or not. None warns if the base is not
            available.

    Returns:
        The base of a trained encoder, which may be an `AbsentEncoder`; otherwise the encoder of the
        whole vectors if they are compressed, or None if the encoder is its own reference.

    Warns:
        ReferenceWarning: If the base cannot be loaded.
    """
    base = distinct_base(holder)
    if base is None:
        return uncompressed(holder) if isinstance(getattr(holder, "id", None), EncoderId) else None
    loaded = base.load(options or EncoderOptions(device=str(model_of(holder).device)))
    if check is not None:
        check(loaded)
    elif isinstance(loaded, AbsentEncoder):
        warnings.warn(loaded.why, ReferenceWarning, stacklevel=3)
    return loaded


def distinct_base(holder: Any) -> Base | None:
    """Return the base of an encoder of this package or of mteb, unless the two are equal.

    An encoder equals its base if no epoch of the training was better.
    """
    base, identity = find_base(holder), getattr(holder, "id", None)
    is_base = base and identity and identity.digest == base.encoder.digest
    return None if is_base else base


def find_base(holder: Any) -> Base | None:
    """Return the base in an encoder's configuration, model card or `train.json`, or None."""
    library = sys.modules.get("sentence_transformers")  # its import takes seconds
    model = model_of(holder)
    if library is None or not isinstance(model, library.SentenceTransformer):
        return None
    places: list[Any] = [getattr(_config(model), BASE_KEY, None), card_of(model).get(BASE_KEY)]
    for record in places:
        try:
            values = dict(record["base"])
            return Base(values.pop("source"), EncoderId(**values))
        except (KeyError, TypeError, ValueError):
            continue
    training = training_of(holder)
    return Base(training.content["base"], training.base) if training else None


def source_of(model: SentenceTransformer) -> str | None:
    """Return the folder or hub name from which a model was loaded, or None if unknown."""
    source = getattr(_config(model), "_name_or_path", None) or model.model_card_data.base_model
    if not source:
        return None
    folder = expanded(source).absolute()
    if not folder.is_dir():
        return str(source)
    is_part = not (folder / "modules.json").is_file() and (folder.parent / "modules.json").is_file()
    return str(folder.parent if is_part else folder)


def name_of(model: SentenceTransformer) -> str:
    """Return a model's name: its name in results, its hub name, or the name of its folder."""
    # `name_for_mteb` has set this attribute if this package loaded the model.
    identity = getattr(model.model_card_data, "encoder", None)
    if isinstance(identity, EncoderId) and identity.weights == digest_of_model(model):
        return identity.name
    source = source_of(model) or type(model).__name__
    return Path(source).name if Path(source).is_dir() else source


def write_base(model: SentenceTransformer, base: Base) -> None:
    """Record a base in a model's configuration, if any; the model card is not changed."""
    config = _config(model)
    if config is not None:
        setattr(config, BASE_KEY, in_card(base)[BASE_KEY])


def in_card(base: Base) -> dict[str, Any]:
    """Return the front-matter entry that records a base in a model card."""
    return {BASE_KEY: {"base": {"source": base.source, **base.encoder.to_dict()}}}


def _config(model: SentenceTransformer) -> Any:
    return getattr(getattr(model[0], "auto_model", None), "config", None)


def card_of(model: SentenceTransformer) -> Mapping[str, Any]:
    """Return the front matter of a loaded model's card; an empty dict if there is none."""
    from huggingface_hub import ModelCard

    text = model._model_card_text or ""  # noqa: SLF001  There is no public attribute.
    if not text.startswith("---"):  # `ModelCard` would warn about missing front matter.
        return {}
    try:
        data: Any = ModelCard(text, ignore_metadata_errors=True).data
        return dict(data.to_dict())
    except Exception:  # noqa: BLE001  Cards from other tools may contain anything.
        return {}
