"""What any training begins with: its packages, and an encoder that can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from polarity_bench.encoders import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.errors import InputError


def check_packages(needed: Mapping[str, str], method: str, *, extra: str) -> None:
    """Refuse to begin without these packages.

    Args:
        needed: What each is needed for, by the package's name.
        method: What needs them.
        extra: The extra of ours that brings them.

    Raises:
        InputError: If one is missing; says how to get it.
    """
    for package, what in needed.items():
        if find_spec(package) is None:
            raise InputError(
                f"{method} needs {package} for {what}: pip install 'polarity-bench[{extra}]'"
            )


def load_base(model: str, options: EncoderOptions) -> SentenceTransformerEncoder:
    """Load the encoder to train.

    Raises:
        InputError: If it cannot be loaded, or is a baseline, which has nothing to train.
    """
    base = load_encoder(model, options)
    if not isinstance(base, SentenceTransformerEncoder):
        raise InputError(f"--model {model}: a baseline has nothing to train; name an encoder")
    return base
