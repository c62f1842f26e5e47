"""Encoders: a name in, something that turns texts into vectors out.

A name is a folder, a hub repository, or one of the names known here (`minilm`) and in `baselines`.
A hub repository is brought to its snapshot folder first, so that every encoder is loaded in one
way, from a folder, and told apart by the digest of what was loaded. Weights must be safetensors
and no code from the repository runs, unless the user says so.
"""

from __future__ import annotations

import math
from pathlib import Path

from polarity_bench.encoders.baselines import BASELINE_NAMES, load_baseline
from polarity_bench.encoders.digest import digest_of_model
from polarity_bench.encoders.folder import MINILM, EncoderOptions, folder_of, load_folder
from polarity_bench.encoders.model import SentenceTransformerEncoder
from polarity_bench.errors import InputError
from polarity_bench.types import Encoder

__all__ = [
    "MINILM",
    "EncoderOptions",
    "SentenceTransformerEncoder",
    "at_strength",
    "digest_of_model",
    "load_encoder",
    "located",
]


def load_encoder(name: str, options: EncoderOptions | None = None) -> Encoder:
    """Load an encoder by its name.

    Args:
        name: A folder, a hub repository (`org/name`), `minilm`, or a baseline.
        options: How to load it.

    Raises:
        InputError: If there is no such encoder, or it can't be loaded; says what would do.
    """
    options = options or EncoderOptions()
    if not name.strip():
        raise InputError(f"the encoder {name!r}: an empty name; name a folder or a hub repository")
    if name.partition(":")[0] in BASELINE_NAMES:
        for option in ("revision", "prompt", "prompt_name", "max_tokens"):
            if getattr(options, option) is not None:
                raise InputError(f"the baseline {name!r} takes no `{option}`")
        return load_baseline(name)
    folder, title, revision = folder_of(name, options)
    return load_folder(folder, title, revision, options)


def at_strength(encoder: Encoder, strength: float) -> Encoder:
    """Return an encoder with an axis as it is when queries weigh that by a strength.

    Args:
        encoder: It stays as it is; both share their stored vectors.
        strength: 0 ranks as without the axis, below 0 prefers other classes.

    Raises:
        InputError: If it has no axis, or the strength is no number.
    """
    if not math.isfinite(strength):
        raise InputError(f"`strength` must be a number, got {strength}")
    if not isinstance(encoder, SentenceTransformerEncoder) or not encoder.id.axis:
        raise InputError(
            f"`strength` {strength:g}: {encoder.id.name} has no axis to weigh; `train` with the "
            "recipe 'axis' makes encoders that have one"
        )
    return encoder.at(strength + 0.0)  # -0 is 0


def located(name: str, folder: Path) -> str:
    """Return an encoder's name; that of one whose files lie below a folder, with its whole path.

    A folder that is not there yet is one if it begins with a dot: it may else be the hub's.
    """
    kind, _, file = name.partition(":")
    if kind == "glove" and file:
        return f"{kind}:{folder / Path(file).expanduser()}"
    place = folder / Path(name).expanduser()
    known = name == "minilm" or kind in BASELINE_NAMES
    try:
        is_path = place.is_dir() or name.startswith(("./", "../", "~"))
    except OSError:  # a name longer than any file's
        is_path = False
    return str(place) if is_path and not known else name
