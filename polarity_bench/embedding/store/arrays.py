"""Arrays that may be larger than memory."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from polarity_bench.errors import InputError
from polarity_bench.types import FloatArray

MEMORY_BYTES = 4 * 2**30
"""Arrays above this size lie in a temporary file."""


def allocate(
    n_texts: int, dimension: int, *, memory_bytes: int = MEMORY_BYTES, folder: Path | None = None
) -> FloatArray:
    """Return an array for the vectors of n texts: in memory, or in a temporary file if larger.

    The file has no name, so it is gone with the array, whatever ends the process.

    Args:
        n_texts: Rows.
        dimension: Columns.
        memory_bytes: The largest array to hold in memory.
        folder: Where the file lies; the system's folder for temporary files if not given.

    Returns:
        Undefined values, (n, d) float32.

    Raises:
        InputError: If the disk has no room for the file.
    """
    n_bytes = n_texts * dimension * 4
    if n_bytes <= memory_bytes:
        return np.empty((n_texts, dimension), dtype=np.float32)
    place = Path(tempfile.gettempdir()) if folder is None else folder
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, n_bytes)  # or a full disk is a bus error
            else:
                file.truncate(n_bytes)
            return np.memmap(file, dtype=np.float32, mode="r+", shape=(n_texts, dimension))
    except OSError as error:
        raise InputError(
            f"{place}: no room for a temporary file of {n_bytes / 2**30:.1f} GiB, the vectors of "
            f"{n_texts} texts ({error}); free some space"
        ) from error
