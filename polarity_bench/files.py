"""Files: where the user's cache is, names that are safe as paths, JSON, and whole writes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import platformdirs

from polarity_bench.errors import InputError

_LONGEST = 120
_NO_ORGANISATION = "local"
"""Stands for the organisation, which a name of mteb's must have, where an encoder's has none."""


def cache_folder() -> Path:
    """Return the folder for downloads and embeddings: $POLARITY_BENCH_CACHE or the user's cache."""
    named = os.environ.get("POLARITY_BENCH_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("polarity-bench")


def folder_name(name: str) -> str:
    """Turn a name into one that is safe for a folder; a slash becomes two underscores.

    A name of more than 120 characters is cut and ends with a digest of the whole name, so that two
    long names never share a folder.
    """
    safe = re.sub(r"[^\w.=+-]", "_", name.replace("/", "__"), flags=re.ASCII).lstrip(".")
    if len(safe) > _LONGEST:
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
        return f"{safe[: _LONGEST - 17]}-{digest}"
    return safe or "_"


def mteb_name(name: str) -> str:
    """Turn an encoder's name into one that mteb takes, which has an organisation.

    Example:
        >>> mteb_name("org/a"), mteb_name("my encoder")
        ('org/a', 'local/my_encoder')
    """
    organisation, slash, rest = name.partition("/")
    if not slash:
        organisation, rest = _NO_ORGANISATION, name
    return f"{folder_name(organisation)}/{folder_name(rest)}"


def find_files(folder: Path, suffix: str) -> list[Path]:
    """Return the files below a folder whose names end with a suffix, in order of their paths.

    Linked folders are followed; a folder that is reached twice counts once.
    """
    found: list[Path] = []
    known: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in known:
            folders.clear()
            continue
        known.add(real)
        folders.sort(key=lambda name: (Path(place, name).is_symlink(), name))
        found += [Path(place, name) for name in names if name.endswith(suffix)]
    return sorted(found)


def check_writable(output: Path, field: str = "output") -> None:
    """Make the output folder, or say by its field why it can't be written to.

    Raises:
        InputError: If it can't.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise InputError(
            f"`{field}` {output}: the folder cannot be written to: {error.strerror}"
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises:
        InputError: If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from error


def remove(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        InputError: If it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be removed: {error.strerror}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file to a temporary name beside it, sync it and rename it.

    Raises:
        InputError: If the folder cannot be written to.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def json_bytes(value: Any) -> bytes:
    """Write JSON for a file, undefined numbers refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: If it cannot be read or is none.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: damaged, not JSON: {error}") from error
