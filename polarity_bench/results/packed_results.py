"""Packed results: one file with a line per result, in place of three files per result.

A finished sweep has thousands of small files. `pack` moves the JSON files of the results in a
folder into the folder's `results.jsonl`. A line holds the path of a result and the content of its
scores, its provenance and its `model_meta.json`. Lines are sorted by path, and each file can be
restored byte for byte.

The paths of results stay the same. The functions here take such a path, and read the file on disk
or else the line. A file on disk takes precedence, because runners go on writing files; the next
`pack` moves them too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from filelock import FileLock

from polarity_bench.errors import InputError
from polarity_bench.files import find_files, json_bytes, read_json, remove, write_atomically

PACKED = "results.jsonl"
PROVENANCE = ".provenance.json"
MODEL_META = "model_meta.json"


def _files(path: Path) -> dict[str, Path]:
    """Return the packed files of a result, the provenance first; no result is valid without it."""
    return {
        "provenance": path.with_suffix(PROVENANCE),
        "model_meta": path.with_name(MODEL_META),
        "scores": path,
    }


def result_paths(folder: Path) -> list[Path]:
    """Return the paths of all results below a folder, in files or packed, sorted."""
    files = set()
    for file in find_files(folder, (PROVENANCE, PACKED)):
        if file.name == PACKED:
            files |= {file.parent / name for name in _contents(file) if name.endswith(PROVENANCE)}
        elif file.name.endswith(PROVENANCE):
            files.add(file)
    return [path.with_name(path.name.removesuffix(PROVENANCE) + ".json") for path in sorted(files)]


def paths_by_encoder(results: Path) -> dict[str, list[Path]]:
    """Return the paths of all results in a folder, by the name of the encoder's folder."""
    paths = groupby(result_paths(results), lambda path: path.relative_to(results).parts[0])
    return {name: list(of_encoder) for name, of_encoder in paths}


def is_stored(path: Path) -> bool:
    """Return whether a file of a result exists, on disk or packed."""
    return path.is_file() or _packed(path) is not None


def read_stored(path: Path) -> Any:
    """Read a JSON file of a result, on disk or packed. Callers must not change the value.

    Raises:
        InputError: If the file does not exist or is damaged.
    """
    value = _packed(path)
    return read_json(path) if value is None else value


def stored_bytes(path: Path) -> bytes:
    """Return the content of a file of a result, on disk or packed."""
    value = _packed(path)
    return path.read_bytes() if value is None else json_bytes(value)


def pack(folder: Path) -> None:
    """Move the JSON files of the results in a folder into its packed results.

    The packed file is complete before any other file is removed. If the process is killed in
    between, both exist and have the same content, and the next call removes the rest. Values per
    query and samples stay where they are. So do files behind symbolic links.

    Raises:
        InputError: If a file of a result was not written by polarity-bench, because it could not be
            restored byte for byte, or if the folder is not writable.
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
    """Return the content of a JSON file that `json_bytes` restores byte for byte."""
    value = read_stored(file)
    with suppress(ValueError):  # text that is not valid Unicode
        if json_bytes(value) == stored_bytes(file):
            return value
    raise InputError(
        f"{file}: cannot be packed: its bytes are not those that polarity-bench writes; evaluate "
        "it again"
    )


def _remove_below(folder: Path, file: Path) -> None:
    """Remove a file and the folders that are then empty."""
    remove(file)
    with suppress(OSError):  # a folder is not empty
        for parent in file.relative_to(folder).parents[:-1]:
            (folder / parent).rmdir()


def _folders_of(path: Path) -> Iterator[Path]:
    """Return the folders whose packed results may hold a file of a result.

    The file is in `ENCODER/DIGEST/` or `ENCODER/DIGEST/experiments/WHAT/` of such a folder. A
    `results.jsonl` in any other folder may be of another program.
    """
    above = path.parents
    if len(above) > 2:
        yield above[2]
    if len(above) > 4 and above[1].name == "experiments":
        yield above[4]


def _packed(path: Path) -> Any | None:
    """Return the content of a packed file; None if it is on disk or not stored."""
    if not path.is_file():
        for folder in _folders_of(path):
            name = path.relative_to(folder).as_posix()
            if (value := _contents(folder / PACKED).get(name)) is not None:
                return value
    return None


def _contents(file: Path) -> Mapping[str, Any]:
    """Return the contents of packed files by path; empty if there are no packed results."""
    try:
        status = file.stat()
    except OSError:
        return {}
    return _parsed(file, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _parsed(file: Path, _version: tuple[int, ...]) -> Mapping[str, Any]:
    """Parse packed results once for each version of the file.

    Raises:
        InputError: If a line is incomplete or damaged, or two lines are of one result.
    """
    contents: dict[str, Any] = {}
    for number, text in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not text:
            continue
        try:
            line = {"model_meta": None, **json.loads(text)}
            files = {name.as_posix(): line[key] for key, name in _files(Path(line["path"])).items()}
            why = f"a second line of {line['path']}" if line["path"] in contents else ""
        except (KeyError, TypeError, ValueError) as error:
            why = repr(error)
        if why:
            raise InputError(
                f"{file}: line {number}: damaged, or half written: {why}; restore the file, for "
                "example from version control"
            )
        contents |= files
    return contents
