"""Distillation of an axis: the class probabilities of a trained axis, the teacher, are the labels.

Shapes: n texts, c classes.

References:
    Hinton et al. (2015), Distilling the Knowledge in a Neural Network,
    https://arxiv.org/abs/1503.02531. Their temperature is 1 here, and there is no term of the true
    labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    load_encoder,
)
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import known_to
from polarity_bench.files import expanded, read_errors
from polarity_bench.training.data import TrainingData, relatives
from polarity_bench.values import normalised


def load_teacher(
    name: str, options: EncoderOptions, classes: Sequence[str]
) -> SentenceTransformerEncoder:
    """Load an encoder whose axis was trained on these classes.

    Raises:
        InputError: If the encoder cannot be loaded, has no axis, or has other classes.
    """
    teacher = load_encoder(name, options)
    if not isinstance(teacher, SentenceTransformerEncoder) or not teacher.id.axis:
        raise InputError(
            f"`distil_from` {name}: expected an encoder with an axis, but {teacher.id.name} has "
            "none; give the folder of a run of the recipe 'axis'"
        )
    axis: Any = teacher.model[-1]
    if sorted(axis.classes) != sorted(classes):
        raise InputError(
            f"`distil_from` {name}: expected an axis of the classes {', '.join(classes)}, got "
            f"{', '.join(axis.classes)}; use a teacher that was trained on the same classes"
        )
    return teacher


def read_unlabelled(file: Path) -> list[str]:
    """Return the distinct texts of a file with one text per line.

    Raises:
        InputError: If the file cannot be read, or has no texts.
    """
    with read_errors(f"`unlabelled` {file}", remedy="give a text file in UTF-8"):
        lines = expanded(file).read_text(encoding="utf-8-sig").split("\n")
    texts = list(dict.fromkeys(filter(None, map(str.strip, lines))))
    if not texts:
        raise InputError(f"`unlabelled` {file}: the file has no texts; write one text per line")
    return texts


def without_evaluation_texts(texts: Sequence[str], data: TrainingData) -> list[str]:
    """Return the texts that are unrelated to the task's queries and to the held-out rows.

    A text is related if it equals such a row, contains it, or is part of it, ignoring letter case
    and punctuation.
    """
    related = relatives(texts, [*data.task.query.texts, *data.held_out_texts])
    return [text for text, is_related in zip(texts, related, strict=True) if not is_related]


def check_unseen(role: str, name: str, encoder: Encoder, data: TrainingData) -> None:
    """Check that an encoder, the value of a parameter, was not trained on held-out rows.

    Raises:
        InputError: If it was, or if its training texts are unknown.
    """
    held_out = data.held_out_texts
    known = known_to(name, encoder, role) if held_out else None
    if known is not None and (n_seen := int(known(list(map(normalised, held_out))).sum())):
        raise InputError(
            f"`{role}` {name}: the encoder was trained on {n_seen} of the {len(held_out)} held-out "
            "rows; train it with the same `held_out`, or use `held_out` 0"
        )
