"""Packed results: one file with a line per result, instead of three files per result.

A finished sweep has thousands of small files. `pack` moves the JSON files of the results in a
folder into the file `results.jsonl` of the folder. A line contains the path of a result and the
contents of its scores, its provenance and its `model_meta.json`. Lines are sorted by path, and each
file can be restored byte for byte.

Packing does not change the paths of results. The functions of this module read the file at a path,
or the packed line if the file does not exist. A file takes precedence over a line, because it is
newer: runs write files, which the next `pack` moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from polarity_bench.errors import InputError
from polarity_bench.files import find_files, json_bytes, read_json, remove, write_atomically
from polarity_bench.values import grouped

PACKED = "results.jsonl"
PROVENANCE = ".provenance.json"
MODEL_META = "model_meta.json"


def _files(path: Path) -> dict[str, Path]:
    """Return the paths of a result's files that `pack` moves, by key in a packed line.

    The provenance comes first and is removed first, because a result without provenance is not
    valid.
    """
    return {
        "provenance": path.with_suffix(PROVENANCE),
        "model_meta": path.with_name(MODEL_META),
        "scores": path,
    }


def result_paths(folder: Path) -> list[Path]:
    """Return the sorted paths of all results below a folder, in separate files or packed."""
    files = set()
    for file in find_files(folder, (PROVENANCE, PACKED)):
        if file.name == PACKED:
            files |= {file.parent / name for name in _contents(file) if name.endswith(PROVENANCE)}
        elif file.name.endswith(PROVENANCE):
            files.add(file)
    return [path.with_name(path.name.removesuffix(PROVENANCE) + ".json") for path in sorted(files)]


def paths_by_encoder(results: Path) -> dict[str, list[Path]]:
    """Return the paths of all results below a folder, by the name of the encoder's folder."""
    return grouped(result_paths(results), lambda path: path.relative_to(results).parts[0])


def is_stored(path: Path) -> bool:
    """Return whether a file of a result exists, as a separate file or packed."""
    return path.is_file() or _read_packed(path) is not None


def read_stored(path: Path) -> Any:
    """Read a JSON file of a result, from a separate file or packed.

    Callers must not modify the returned value, because packed values are cached.

    Raises:
        InputError: If the file does not exist or is damaged.
    """
    value = _read_packed(path)
    return read_json(path) if value is None else value


def stored_bytes(path: Path) -> bytes:
    """Return the bytes of a JSON file of a result, from a separate file or packed."""
    value = _read_packed(path)
    return path.read_bytes() if value is None else json_bytes(value)


def pack(folder: Path) -> None:
    """Move the JSON files of the results in a folder into the folder's `results.jsonl`.

    The packed file is complete before any other file is removed. If the process is killed in
    between, the next call removes the remaining files. Values per query, samples and files behind
    symbolic links are not moved.

    Args:
        folder: Folder of results, which contains the folders of the encoders.

    Raises:
        InputError: If a file of a result could not be restored byte for byte, because
            polarity-bench did not write it, or if the folder is not writable.
    """
    with FileLock(folder / f"{PACKED}.lock"):
        lines: dict[str, dict[str, Any]] = {}
        for path in result_paths(folder):
            if folder in _folders_of(path):
                name = path.relative_to(folder).as_posix()
                files = {key: file for key, file in _files(path).items() if is_stored(file)}
                lines[name] = {"path": name, **{key: _exact(file) for key, file in files.items()}}
        content = "".join(
            json.dumps(lines[name], ensure_ascii=False, allow_nan=False) + "\n"
            for name in sorted(lines)
        )
        write_atomically(folder / PACKED, content.encode())
        for name, line in lines.items():
            for key, file in _files(folder / name).items():
                is_own = file.is_file() and file.resolve().is_relative_to(folder.resolve())
                if is_own and file.read_bytes() == json_bytes(line[key]):
                    _remove_below(folder, file)


def _exact(file: Path) -> Any:
    """Return the content of a JSON file, after a check that `json_bytes` gives the same bytes."""
    value = read_stored(file)
    with suppress(ValueError):  # `json_bytes` fails for text that is not valid Unicode
        if json_bytes(value) == stored_bytes(file):
            return value
    raise InputError(
        f"{file}: the file cannot be packed, because polarity-bench did not write these bytes; "
        "run the evaluation again"
    )


def _remove_below(folder: Path, file: Path) -> None:
    """Remove a file below a folder, and the parent folders that become empty."""
    remove(file)
    with suppress(OSError):  # `rmdir` fails for a folder that is not empty
        for parent in file.relative_to(folder).parents[:-1]:
            (folder / parent).rmdir()


def _folders_of(path: Path) -> Iterator[Path]:
    """Yield the folders whose `results.jsonl` may contain the result file `path`.

    Relative to such a folder, `path` is in `ENCODER/DIGEST/` or
    `ENCODER/DIGEST/experiments/NAME/`. A `results.jsonl` in any other folder may belong to another
    program.
    """
    above = path.parents
    if len(above) > 2:
        yield above[2]
    if len(above) > 4 and above[1].name == "experiments":
        yield above[4]


def _read_packed(path: Path) -> Any | None:
    """Return the content of a packed file; None if a separate file exists or nothing is stored."""
    if not path.is_file():
        for folder in _folders_of(path):
            name = path.relative_to(folder).as_posix()
            if (value := _contents(folder / PACKED).get(name)) is not None:
                return value
    return None


def _contents(file: Path) -> Mapping[str, Any]:
    """Return the contents of the packed files in a `results.jsonl`, by path.

    The mapping is empty if the file does not exist.
    """
    try:
        status = file.stat()
    except OSError:
        return {}
    return _parsed(file, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _parsed(file: Path, _version: tuple[int, ...]) -> Mapping[str, Any]:
    """Parse packed results, once for each version of the file.

    Args:
        file: File of packed results.
        _version: Inode, modification time and size of the file, as part of the cache's key.

    Raises:
        InputError: If a line is incomplete or damaged, or if two lines contain the same result.
    """
    contents: dict[str, Any] = {}
    for number, text in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not text:
            continue
        try:
            line = {"model_meta": None, **json.loads(text)}
            files = {name.as_posix(): line[key] for key, name in _files(Path(line["path"])).items()}
            why = f"a second line of {line['path']}" if line["path"] in contents else ""
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            why = repr(error)
        if why:
            raise InputError(
                f"{file}, line {number}: the line is damaged or incomplete ({why}); restore the "
                "file, for example from version control"
            )
        contents |= files
    return contents
