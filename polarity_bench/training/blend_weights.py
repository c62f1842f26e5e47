"""Blends: weighted averages of the weights of a base encoder and an encoder fine-tuned from it.

The weights of a blend are (1 - w) times the base's plus w times the tuned encoder's. As w grows
from 0 to 1, a blend trades the base's semantic similarity (S) for the tuned encoder's polarity (P).
Blending needs no training, and a blend encodes as fast as its base.

References:
    Wortsman et al. (2022), Robust fine-tuning of zero-shot models (WiSE-FT),
    https://arxiv.org/abs/2109.01903
    Xiao et al. (2023), LM-Cocktail: Resilient tuning of language models via model merging,
    https://arxiv.org/abs/2311.13534
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from polarity_bench.encoders.fingerprint import BASE_KEY, traits_of_model
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    folder_of,
    load_encoder,
    resolve_name,
)
from polarity_bench.encoders.reference_encoder import Base, card_of, find_base, in_card, write_base
from polarity_bench.errors import InputError, reworded, warn
from polarity_bench.files import check_writable
from polarity_bench.progress import Bar, no_bar
from polarity_bench.render.markdown import escape
from polarity_bench.training.model_card import header
from polarity_bench.training.run_folder import differences, save_encoder
from polarity_bench.training.train import load_base

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor


@dataclass(frozen=True)
class Blend:
    """A blend of two encoders in its folder.

    Attributes:
        weight: Weight of the tuned encoder, in [0, 1].
        folder: Folder of the blend.
        reused: Whether the folder already existed.
    """

    weight: float
    folder: Path
    reused: bool


def blend(
    base: str,
    tuned: str,
    weights: Sequence[float],
    output: str | Path,
    options: EncoderOptions | None = None,
    *,
    bar: Bar = no_bar,
) -> list[Blend]:
    """Write a blend for each weight, as a sentence-transformers folder that records its base.

    Each folder is written completely or not at all. A folder that already contains the same blend
    is reused.

    Args:
        base: Encoder at weight 0, and the reference for S of all blends.
        tuned: Encoder at weight 1.
        weights: Distinct weights of the tuned encoder, in [0, 1].
        output: Parent of the new folders, which are named like `w-0.25`.
        options: How to load both encoders; the revision applies to the base only.
        bar: Opens progress bars.

    Raises:
        InputError: If a weight is invalid, the encoders differ in more than the values of their
            weights, or the folder of a blend contains another encoder. In these cases, nothing is
            written.

    Warns:
        InputWarning: If the classifier head of an encoder is left out, pooling was added to an
            encoder, or the tuned encoder was trained from another base.
    """
    options = options or EncoderOptions()
    if options.dtype != "float32":
        raise InputError(f"`dtype` must be float32 to average weights, got {options.dtype}")
    check_weights(weights)
    first = _load("base", base, options)
    second = _load("tuned", tuned, replace(options, revision=None))
    pair = _Pair(first, second, Base(resolve_name(base, Path.cwd()), first.id))
    check_writable(Path(output))
    # Adding 0.0 turns -0.0 into 0.0.
    folders = [Path(output, f"w-{np.format_float_positional(w + 0.0, trim='-')}") for w in weights]
    blends = [Blend(w, each, each.exists()) for w, each in zip(weights, folders, strict=True)]
    for result in blends:
        if result.reused:
            pair.check_folder(result, options)
    with bar("blending", len(blends)) as advance:
        for result in blends:
            if not result.reused:
                pair.write(result)
            advance(1)
    return blends


def check_weights(weights: Sequence[float]) -> None:
    """Check that the weights are distinct numbers in [0, 1].

    Raises:
        InputError: If the list is empty, or a weight is invalid or repeated.
    """
    if not weights:
        raise InputError("`weights`: expected numbers from 0 to 1, got an empty list")
    for i, weight in enumerate(weights):
        if not 0 <= weight <= 1:
            raise InputError(f"`weights` must be from 0 to 1, got {weight:g}")
        if weight in weights[:i]:
            raise InputError(f"`weights`: {weight:g} is given twice")


def average_weights(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """Return (1 - w) · first + w · second, computed in float64 and cast to the dtype of the first.

    For w = 0 and w = 1, the result equals the first or the second bit for bit. Integer tensors are
    copied from the first, or from the second if w = 1.

    Example:
        >>> import torch
        >>> average_weights({"a": torch.tensor([1.0])}, {"a": torch.tensor([3.0])}, 0.25)
        {'a': tensor([1.5000])}
    """
    if weight in (0, 1):
        return dict(second if weight else first)
    return {
        name: ((1 - weight) * tensor.double() + weight * second[name].double()).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in first.items()
    }


class _Pair:
    """Two encoders of the same architecture; blends are loaded into the first encoder's model.

    Raises:
        InputError: If the encoders differ in more than the values of their weights.
    """

    def __init__(
        self, first: SentenceTransformerEncoder, second: SentenceTransformerEncoder, base: Base
    ) -> None:
        self._first, self._second, self._base = first, second, base
        self._states = [
            {name: tensor.cpu().clone() for name, tensor in each.model.state_dict().items()}
            for each in (first, second)
        ]
        ours, theirs = first.id.name, second.id.name
        unlike = f"`tuned` {theirs} cannot be averaged with `base` {ours}: "
        traits, others = _traits(first), _traits(second)
        for name in dict.fromkeys([*traits, *others]):
            found = differences({name: traits.get(name)}, {name: others.get(name)})
            if found:
                raise InputError(f"{unlike}they differ in {shorten(found[0], 160)}")
        for name, tensor in self._states[0].items():
            other = self._states[1][name]
            if not tensor.is_floating_point() and not tensor.equal(other):
                raise InputError(
                    f"{unlike}the values of {name} differ and cannot be averaged, got "
                    f"{str(tensor.dtype).removeprefix('torch.')} instead of floats"
                )
            if tensor.isnan().any() or other.isnan().any():
                raise InputError(f"`tuned` {theirs}, `base` {ours}: {name} contains NaN")
        recorded = find_base(second)
        if recorded is not None and recorded.encoder.weights != first.id.weights:
            warn(
                f"{theirs} was trained from {recorded.encoder.label}, not from {ours}; blends of "
                "the two may be useless"
            )

    def check_folder(self, blend: Blend, options: EncoderOptions) -> None:
        """Raise InputError if the folder of a blend contains anything but that blend."""
        problem = "`output`: the folder of the blend contains other files: "
        with reworded(problem, "; use another folder"):
            stored = load_encoder(str(blend.folder.absolute()), options.of_others)
        prompt, recorded = self._first.id.prompt or "", find_base(stored)
        wanted = SentenceTransformerEncoder(self._blended(blend.weight), name="", prompt=prompt).id
        its_base = recorded and recorded.encoder.digest
        if (stored.id.digest, its_base) != (wanted.digest, self._base.encoder.digest):
            raise InputError(
                f"`output` {blend.folder}: the folder contains another encoder, expected "
                f"{wanted.digest} with the base {self._base.encoder.digest}, got "
                f"{stored.id.digest} with the base {its_base}; use another folder"
            )

    def write(self, blend: Blend) -> None:
        """Write a blend to a temporary folder, then rename it to its final name."""
        folder = blend.folder
        beside = {"README.md": self._card(blend).encode()}
        model = self._blended(blend.weight)
        write_base(model, self._base)
        remedy = ". The blends written so far are complete; run the same command again for the rest"
        with (
            reworded(f"`output` {folder}: ", remedy, OSError),
            TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as aside,
        ):
            saved = Path(aside) / folder.name
            save_encoder(model, saved, beside, prompt=self._first.id.prompt)
            saved.rename(folder)

    def _blended(self, weight: float) -> SentenceTransformer:
        first, second = self._states
        self._first.model.load_state_dict(average_weights(first, second, weight))
        return self._first.model

    def _card(self, blend: Blend) -> str:
        first, second = self._first.id, self._second.id
        weight, name = blend.weight, blend.folder.name
        licence, other = (
            card_of(each.model).get("license") for each in (self._first, self._second)
        )
        licence = licence if licence == other else None
        record = in_card(self._base)[BASE_KEY]
        record |= {"blend": {"tuned": second.name, "digest": second.digest, "weight": weight}}
        front = header(
            ["merge"],
            license=licence or "other",
            license_name=None if licence else "those-of-the-parents",
            base_model=[each.name for each in (first, second) if "/" in each.name] or None,
            model_name=name,
            **{BASE_KEY: record},
        )
        return f"""{front}

# {escape(name)}

A weighted average of two sentence encoders, made with `polarity-bench blend`: each weight is
{1 - weight:g} times the base's weight plus {weight:g} times the tuned encoder's weight.

- **Base**: {escape(first.label)} (digest {first.digest})
- **Tuned**: {escape(second.label)} (digest {second.digest})
- **Weight**: {weight:g}

`polarity-bench run` scores this encoder, with the base as the reference.

## Licence

The weights are derived from both encoders. The licences of both apply.

## Sources

Wortsman et al. (2022), *Robust fine-tuning of zero-shot models*; Xiao et al. (2023), *LM-Cocktail:
Resilient tuning of language models via model merging*.
"""


def _load(field: str, name: str, options: EncoderOptions) -> SentenceTransformerEncoder:
    encoder = load_base(name, options, field)
    for file in sorted(folder_of(name, options)[0].glob("*head.safetensors")):
        warn(f"{name}: the classifier head {file.name} is left out; only the encoder is averaged")
    if encoder.id.pooling_added:
        warn(f"{name} is a plain transformer; mean pooling over its tokens was added")
    return encoder


def _traits(encoder: SentenceTransformerEncoder) -> dict[str, Any]:
    return traits_of_model(encoder.model) | {
        "similarity": str(encoder.model.similarity_fn_name),
        "`prompt`": encoder.id.prompt,
        "`max_tokens`": encoder.id.max_tokens,
    }
