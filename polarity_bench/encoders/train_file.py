"""Reading of `train.json`, the record of a training run in the folder of its encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polarity_bench.errors import InputError

FORMAT = 2
TRAIN_FILE = "train.json"


def read_train_file(folder: str | Path) -> dict[str, Any] | None:
    """Return the content of a run's `train.json`, or None if the file or the folder is missing.

    Raises:
        InputError: If the file cannot be read or was not written by polarity-bench.
    """
    file = Path(folder).expanduser() / TRAIN_FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as JSON: {error}") from error
    keys = {"format", "run", "finished", "base", "files", "spec"}
    if not (isinstance(content, dict) and keys <= set(content) and content["format"] == FORMAT):
        raise InputError(
            f"{file}: not a training file of polarity-bench in format {FORMAT}; move the file "
            "out of the folder and run again"
        )
    return content
