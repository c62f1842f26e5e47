"""`train.json`, which describes a training run in the folder of its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.files import expanded, input_errors, read_json, with_checksum

FORMAT = 2
TRAIN_FILE = "train.json"


@dataclass(frozen=True)
class TrainFile:
    """How polarity-bench trained an encoder.

    Attributes:
        folder: Folder of the encoder.
        content: Content of `train.json`.
    """

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path) -> TrainFile | None:
        """Read the file in a folder, or return None if the folder is not of a training run.

        Raises:
            InputError: If the training has not finished, or the file cannot be read.
        """
        content = read_train_file(folder)
        if content is None:
            return None
        if not content["finished"]:
            raise InputError(
                f"{folder}: the training has not finished; run the same `polarity-bench train` "
                "command again"
            )
        return cls(folder, content)

    @property
    def base(self) -> EncoderId:
        """Identity of the base when the training started."""
        return EncoderId(**self.content["spec"]["base"])


def training_of(encoder: Any) -> TrainFile | None:
    """Return how an encoder was trained, if that is known."""
    training = getattr(encoder, "training", None)  # a flag in modules of torch
    return training if isinstance(training, TrainFile) else None


def read_train_file(folder: str | Path) -> dict[str, Any] | None:
    """Return the content of a run's `train.json`, or None if the file or the folder is missing.

    Raises:
        InputError: If the file cannot be read, was not written by polarity-bench, or has changed.
    """
    file = expanded(folder) / TRAIN_FILE
    with input_errors(f"{file}: cannot be read"):
        if not file.exists():
            return None
    content = read_json(file)
    keys = {"format", "run", "finished", "base", "files", "spec"}
    if not (isinstance(content, dict) and keys <= set(content) and content["format"] == FORMAT):
        raise InputError(
            f"{file}: not a training file of polarity-bench in format {FORMAT}; move the file "
            "out of the folder and run again"
        )
    if "sha256" in content and content != with_checksum(content):  # older files have none
        raise InputError(
            f"{file}: was edited or is damaged; restore the file, or delete its `sha256` if you "
            "edited it"
        )
    return content
