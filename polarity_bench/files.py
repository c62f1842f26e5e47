"""Files: the cache folder, safe file names, searches, JSON and atomic writes."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import secrets
import tempfile
import textwrap
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import platformdirs

from polarity_bench.errors import InputError, reworded

_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""Errors raised when a damaged compressed file is read."""
SET_FOLDERS = (
    "set HOME, or MTEB_CACHE, HF_HOME and POLARITY_BENCH_CACHE, to folders that can be written to"
)
"""What to do if a library cannot write to a cache, for the end of a message."""
_LONGEST = 120
_NO_ORGANISATION = "local"
"""Organisation for encoders without an organisation, because mteb requires one in a name."""


def cache_folder() -> Path:
    """Return the folder for downloads and embeddings: $POLARITY_BENCH_CACHE or a user default."""
    named = os.environ.get("POLARITY_BENCH_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("polarity-bench")


def expanded(path: str | Path) -> Path:
    """Return a path with `~` replaced by the home folder, or unchanged if there is no such home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  `Path.expanduser` raises an error


def folder_name(name: str) -> str:
    """Return a name that is safe as a folder name. A slash becomes two underscores.

    A name of more than 120 characters is cut and gets a digest of the full name at its end, so two
    long names do not share a folder.
    """
    safe = re.sub(r"[^\w.=+-]", "_", name.replace("/", "__"), flags=re.ASCII).lstrip(".")
    if len(safe) > _LONGEST:
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
        return f"{safe[: _LONGEST - 17]}-{digest}"
    return safe or "_"


def mteb_name(name: str) -> str:
    """Return the name of an encoder in mteb's form, ORGANISATION/NAME.

    Example:
        >>> mteb_name("org/a"), mteb_name("my encoder")
        ('org/a', 'local/my_encoder')
    """
    organisation, slash, rest = name.partition("/")
    if not slash:
        organisation, rest = _NO_ORGANISATION, name
    return f"{folder_name(organisation)}/{folder_name(rest)}"


def find_files(folder: Path, suffix: str | tuple[str, ...]) -> list[Path]:
    """Return the files below a folder whose names end with a suffix, sorted by path.

    Symbolic links to folders are followed. If links lead to the same folder twice, it is searched
    only once.

    Args:
        folder: The folder to search.
        suffix: End of the file names, or several alternatives.
    """
    files: list[Path] = []
    visited: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort(key=lambda name: (Path(place, name).is_symlink(), name))
        files += [Path(place, name) for name in names if name.endswith(suffix)]
    return sorted(files)


def check_writable(output: Path, field: str = "output") -> None:
    """Create the output folder and check that it is writable.

    Args:
        output: Path of the folder.
        field: Name of the option, for the error message.

    Raises:
        InputError: If the folder cannot be created or written to.
    """
    with input_errors(f"`{field}` {output}: the folder cannot be written to"):
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass


def cannot_write(error: BaseException) -> bool:
    """Return whether the error says that a file or folder cannot be written to."""
    unwritable = {errno.ENOTDIR, errno.EROFS, errno.ENOSPC}
    return isinstance(error, PermissionError) or getattr(error, "errno", None) in unwritable


@contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Convert an OSError inside the context to an InputError with the message `what`: reason."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror}") from error


@contextmanager
def read_errors(where: object, layout: str = "", remedy: str = "") -> Iterator[None]:
    """Convert any error of reading data to an InputError that names the data and the problem.

    Args:
        where: Path or name of the data.
        layout: Expected layout of the data, such as " as archive".
        remedy: What the user can do, if the error itself does not tell it.
    """
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        problem = f"the compressed file is damaged ({error}); is the file truncated?"
        raise InputError(f"{where}: {problem}") from error
    except Exception as error:  # Codecs, parsers and libraries raise all kinds of errors.
        if isinstance(error, OSError) and error.strerror:
            remedy = "check the path"
        elif not remedy:
            remedy = "is the file damaged?"
            if isinstance(error, UnicodeError) or type(error) is LookupError:
                remedy = "is the file damaged, or in another encoding ('encoding' in [format])?"
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = textwrap.shorten(reason, 240, placeholder="…")
        raise InputError(f"{where}: cannot be read{layout}: {reason}; {remedy}") from error


def remove(path: Path) -> None:
    """Remove a file if it exists.

    Raises:
        InputError: If the file cannot be removed.
    """
    with input_errors(f"{path}: cannot be removed"):
        path.unlink(missing_ok=True)


def file_hash(file: io.BufferedIOBase, name: str) -> str:
    """Return a hash of a file as hexadecimal digits, without reading the file into memory.

    Args:
        file: The file, opened for reading.
        name: `sha256`, `sha1`, or `git_sha1`, by which Git names the file's content.
    """
    new = partial(hashlib.new, name, usedforsecurity=False)
    if name == "git_sha1":
        header = b"blob %d\0" % file.seek(0, os.SEEK_END)  # Git hashes it before the content.
        new = partial(hashlib.sha1, header, usedforsecurity=False)
    file.seek(0)
    return hashlib.file_digest(file, new).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically, by syncing and renaming a temporary file in the same folder.

    The folder is created if it does not exist.

    Raises:
        InputError: If the folder cannot be written to.
    """
    with input_errors(f"{path}: cannot be written"):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unlike the files of `tempfile`, this file gets the mode that the umask sets.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def json_bytes(value: Any) -> bytes:
    """Return a value as indented JSON in UTF-8, with a line break at the end.

    Raises:
        ValueError: If the value contains NaN or infinity.
    """
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def with_checksum(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with its checksum as the last value, `sha256`."""
    rest = {name: value for name, value in stored.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return rest | {"sha256": digest}


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: If the file cannot be read, is not JSON or does not fit into memory.
    """
    with input_errors(f"{path}: cannot be read"):
        content = path.read_bytes()
    too_large = f"{path}: too large, its {len(content):,} bytes do not fit into memory"
    with (
        reworded(too_large, "", MemoryError),
        reworded(f"{path}: damaged, not valid JSON: ", "", ValueError, RecursionError),
    ):
        return json.loads(content)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: If the file cannot be read or is not TOML.
    """
    with input_errors(f"{path}: cannot be read"):
        content = path.read_bytes()
    with reworded(f"{path}: not valid TOML: ", "", ValueError):
        return parse_toml(content.decode())


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        InputError: If the text is not TOML, is nested too deeply, or has a number that cannot be
            printed.
    """
    with reworded("", "", ValueError, RecursionError):
        values = tomllib.loads(text)
        repr(values)  # fails for a number with more digits than Python prints
    return values
