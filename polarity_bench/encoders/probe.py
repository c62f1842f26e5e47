"""Probe of an encoder: its vectors for fixed texts, which verify that an identity is complete.

The digest of an encoder covers its weights, configuration, tokenizer and code (see `fingerprint`).
If anything else moves a vector, such as a setting of a new library, two encoders share a digest.
Identities therefore carry a probe. The vector store and stored results keep the probe, and refuse
an encoder that has their digest but another probe. The probe is not part of the digest, because
rounding errors depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

if TYPE_CHECKING:
    from polarity_bench.encoders.base import EncoderId

_LONG = "The committee read every page of the report, and then it asked for a shorter one. "

TEXTS = (
    *("A good film.", "A bad film.", "no", "NO", "Never again!", "?", ".", " ", "\t42\n", "🙂 🙃"),
    "It rains in Oslo today, and nobody minds.",
    "it rains in oslo today and nobody minds",
    "The soup was cold, but the waiter could not have been kinder.",
    "How kind of them to wake the whole street at five in the morning.",
    "In 1987 the bridge carried 12,400 vehicles a day; by 2019 it carried 38,000.",
    "e-mail: someone@example.org, see https://example.org/a?b=c#d (page 3/4)",
    "Ein schöner Abend, nur der Wein war zu süß.",
    "L'été dernier, nous n'avons rien regretté.",
    "Фильм скучный, зато музыка прекрасная.",
    "这家餐厅的服务很好，但是菜太咸了。",  # noqa: RUF001  Chinese punctuation
    "この映画は長すぎます。",
    "الطعام لذيذ والخدمة بطيئة.",
    "यह किताब अच्छी है।",
    _LONG * 12,
)
"""Texts of a probe: short, long, with capitals, almost empty and in several scripts."""

_TOLERANCE = {"float32": 10}
_TOLERANCE_OF_OTHERS = 250
"""Maximum differences of probes of the same encoder, in thousandths (see `take_probe`).

Between machines, probes in float32 differ by less than 1. In bfloat16 they differ by about 20.
"""


def take_probe(encode: Callable[[Sequence[str]], FloatArray]) -> tuple[int, ...]:
    """Return an encoder's probe: one number for each text, in thousandths.

    The number is the inner product of the text's vector and a fixed vector, relative to the mean
    length of the vectors. It has the order of magnitude of 1.

    Args:
        encode: Function that returns the vectors of a batch, (b, d).
    """
    # The long text is encoded alone, so that the other texts need no padding.
    vectors = np.concatenate([encode(TEXTS[:-1]), encode(TEXTS[-1:])]).astype(np.float64)
    vectors = np.nan_to_num(vectors)
    fixed = np.sqrt(2) * np.cos(np.arange(1, vectors.shape[1] + 1))
    mean_length = np.linalg.norm(vectors, axis=1).mean()
    numbers = 1000 * (vectors @ fixed) / (mean_length or 1.0)
    return tuple(int(number) for number in numbers.round())


def check_probe(stored: EncoderId, now: EncoderId, where: object) -> None:
    """Raise an error if an encoder gives other vectors than the stored encoder of its digest.

    Args:
        stored: Identity that was stored with vectors or scores.
        now: Identity of the loaded encoder, with the same digest.
        where: File of the stored vectors or scores, for the message.

    Raises:
        InputError: If both have a probe, and the probes differ by more than rounding errors.
    """
    if stored.probe is None or now.probe is None or len(stored.probe) != len(now.probe):
        return
    differences = np.abs(np.subtract(stored.probe, now.probe))
    difference, worst = differences.max(), TEXTS[differences.argmax()]
    if difference > _TOLERANCE.get(now.dtype, _TOLERANCE_OF_OTHERS):
        raise InputError(
            f"{where}: the encoder {stored.label} of this file and the encoder {now.label} that "
            f"is loaded now have the digest {now.digest}, but their vectors for fixed texts "
            f"differ, by {difference / 1000:.3f} for {worst[:40]!r}; a setting or a library that "
            "the digest does not cover has changed; restore it, or remove what was stored "
            "(`polarity-bench cache prune` with this digest) and pass `overwrite`"
        )
