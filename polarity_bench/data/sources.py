"""Sources of data: local files, downloads and data sets on the hub.

A file is looked up first in the folder of the task file, then in the data folder, and then in the
download cache. If the file is in none of them, pooch downloads it. Checksums that the task file
declares are verified after a download and before each read.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import tarfile
import textwrap
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from polarity_bench.data.readers import as_text
from polarity_bench.data.specs import CountedFile, FileRef, HubRef, Owner
from polarity_bench.errors import InputError, MissingDataError, nearest
from polarity_bench.files import cache_folder, cannot_write, file_hash, write_atomically
from polarity_bench.hub import reading_hub

DATA_VARIABLE = "POLARITY_BENCH_DATA"
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_LAYOUTS = ("", "senteval", "SentEval/data", "data")
"""Subfolders of the user's data folder that may contain SentEval's `downstream`."""


@dataclass(frozen=True, init=False)
class DataAccess:
    """Permitted sources of data.

    Attributes:
        folder: The user's data folder; None if there is none.
        offline: Whether downloads are forbidden.
    """

    folder: Path | None
    offline: bool

    def __init__(self, folder: str | Path | None = None, offline: bool = False) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise InputError(f"the data folder {folder} does not exist or is not a folder")
        object.__setattr__(self, "folder", None if folder is None else Path(folder))
        object.__setattr__(self, "offline", offline)

    @classmethod
    def from_environment(
        cls, folder: str | Path | None = None, offline: bool = False
    ) -> DataAccess:
        """Return the permitted sources, with defaults from the environment.

        Args:
            folder: Data folder; the value of POLARITY_BENCH_DATA by default.
            offline: Whether downloads are forbidden. HF_HUB_OFFLINE also forbids downloads.

        Raises:
            InputError: If the data folder does not exist.
        """
        named = os.environ.get(DATA_VARIABLE)
        return cls(
            folder or named or None,
            offline or os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"},
        )


def find(reference: FileRef, spec: Owner, access: DataAccess) -> Path | None:
    """Return the local path of a file, or None if the file is not on this machine."""
    if reference.path is None:
        return None
    folders = [spec.file.parent]
    folders += [access.folder / layout for layout in _LAYOUTS if access.folder is not None]
    places = [*(folder / reference.path for folder in folders), _download_path(reference)]
    is_file = os.path.isfile  # unlike `Path.is_file`, also for a name that is too long
    return next((place for place in places if place and is_file(place)), None)


def obtain(reference: FileRef, spec: Owner, access: DataAccess) -> Path:
    """Return the local path of a file, after downloading the file if necessary.

    Raises:
        InputError: If the file is not available or has the wrong checksum. The message explains how
            to provide the file.
    """
    path = find(reference, spec, access)
    if path is None:
        return _download(reference, spec, access)
    with path.open("rb") as file:
        problem = _mismatch(file, reference)
    if problem:
        own = (
            "; if it is data of your own that you edited, remove the task file and run "
            "`polarity-bench tasks new` again"
        )
        raise InputError(
            f"{path}: {spec.name} expects the {problem} ({_size(path, reference)}); is the file "
            f"truncated or edited? Replace the file{_origin(reference, spec) or own}"
        )
    return path


def _mismatch(file: io.BufferedIOBase, reference: FileRef) -> str:
    """Return a declared checksum that differs, with the actual one; '' if none differs.

    The file is not read without a declared checksum.
    """
    for name in ("sha256", "git_sha1"):
        if expected := getattr(reference, name):
            actual = file_hash(file, name)
            if actual != expected:
                return f"{name} {expected[:12]}…, got {actual[:12]}…"
    return ""


def load_hub_split(
    hub: HubRef, spec: Owner, access: DataAccess, extra: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """Read one split of a hub data set at its pinned commit.

    Args:
        hub: Data set, commit, split and columns.
        spec: Task that declares the data set, for error messages.
        access: Permitted sources of data.
        extra: Names of additional columns.

    Returns:
        Text, label and extra columns of each row, as strings.

    Raises:
        InputError: If the data set is not available, or lacks a column.
    """
    return read_hub(
        hub.id,
        partial(_load_at_commit, hub),
        (hub.text, hub.label, *extra),
        access,
        where=f"{spec.name}: the hub data set {hub.id}@{hub.revision[:8]}",
        hint="; correct 'text' and 'label' of 'hub' in the task file",
        remedy=_remedy(spec),
    )


def read_hub(
    name: str,
    load: Callable[[Any], Any],
    columns: Sequence[str],
    access: DataAccess,
    *,
    where: str,
    hint: str = "",
    remedy: str = "",
) -> list[tuple[str, ...]]:
    """Read columns of a hub data set.

    Args:
        name: Name of the data set on the hub.
        load: Function that maps a `datasets.DownloadConfig` to the data set.
        columns: Names of the columns.
        access: Permitted sources of data.
        where: Name of the data set, for error messages.
        hint: Text to append to the message about a missing column.
        remedy: Text to append to the message if the data set is not available.

    Returns:
        The values of the columns in each row, as strings.

    Raises:
        InputError: If the data set is not available, or lacks a column.
    """
    import datasets

    try:
        with reading_hub(name, "dataset", access.offline):
            rows = load(datasets.DownloadConfig(local_files_only=access.offline))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise MissingDataError(f"{where}: cannot be read: {shorten(error)}{remedy}") from error
    if missing := [name for name in columns if name not in rows.column_names]:
        suggestion = nearest(missing[0], rows.column_names)
        raise InputError(f"{where}: no column {missing[0]!r}{suggestion}{hint}")
    by_column = [[as_text(value) for value in rows[name]] for name in columns]
    return list(zip(*by_column, strict=True))


def _load_at_commit(hub: HubRef, config: Any) -> Any:
    import datasets

    builder = datasets.load_dataset_builder(
        hub.id, hub.config, revision=hub.revision, download_config=config
    )
    if builder.hash != hub.revision:
        # If the hub cannot be reached, `datasets` silently falls back to the latest cached commit.
        raise ValueError(
            f"the hub is not available, and the cache contains only commit {builder.hash}"
        )
    builder.download_and_prepare(download_config=config)
    return builder.as_dataset(split=hub.split)


def file_status(spec: Owner, access: DataAccess) -> list[dict[str, str]]:
    """Return the status of each file of a task, one row per file.

    Each row contains the task, the file, the status (`here` or `missing`), and the local path of
    the file or its source. A file that several splits share has one row.
    """
    rows: list[dict[str, str]] = []
    for reference in spec.references():
        path = find(reference, spec, access)
        origin = _origin(reference, spec) or " with your own copy"
        row = {
            "task": spec.name,
            "file": reference.path or "(only on the hub)",
            "status": "here" if path else "missing",
            "place": str(path) if path else origin.removeprefix(" with "),
        }
        if row not in rows:
            rows.append(row)
    return rows


def _size(path: Path, reference: FileRef) -> str:
    n_bytes = f"{path.stat().st_size:,} bytes"
    if not isinstance(reference, CountedFile) or not reference.rows:
        return f"{n_bytes} found"
    with path.open("rb") as file:
        n_lines = sum(1 for _ in file)
    return f"{n_lines:,} lines and {n_bytes} found, {reference.rows:,} rows expected"


def _download_path(reference: FileRef) -> Path | None:
    if reference.path is None or reference.checksum is None:
        return None
    return cache_folder() / "data" / reference.checksum[:16] / Path(reference.path).name


def _download(reference: FileRef, spec: Owner, access: DataAccess) -> Path:
    target = _download_path(reference)
    archive = getattr(spec, "archive", None) if reference.url is None else None
    url = archive.url if archive else reference.url
    if target is None or url is None:
        folders = [str(spec.file.parent), *([str(access.folder)] if access.folder else [])]
        raise MissingDataError(
            f"{spec.name}: {reference.path} is not in {' or '.join(folders)}{_remedy(spec)}"
        )
    if access.offline and not (archive and _archive_path(url).is_file()):
        raise MissingDataError(
            f"{spec.name}: {reference.path} is not on this machine, and `offline` (or "
            f"HF_HUB_OFFLINE) forbids downloading {url}{_remedy(spec)}"
        )
    try:
        if archive is not None:
            member = str(reference.path).removeprefix(archive.strip)
            return _unpack(url, member, reference, target)
        return _retrieve(url, target, reference)
    except (OSError, ValueError, EOFError, tarfile.TarError, *_BAD_ARCHIVE) as error:
        hint = "; set POLARITY_BENCH_CACHE to another folder" if cannot_write(error) else ""
        raise MissingDataError(
            f"{spec.name}: {reference.path} is not on this machine and downloading "
            f"{url} failed: {shorten(error)}{hint}{_remedy(spec)}"
        ) from error


def _retrieve(url: str, target: Path, reference: FileRef | None = None) -> Path:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(timeout=30, progressbar=False)
    path = Path(pooch.retrieve(url, None, target.name, target.parent, downloader=downloader))
    if reference is not None:
        with path.open("rb") as file:
            problem = _mismatch(file, reference)
        if problem:
            path.unlink()
            raise ValueError(f"expected {problem}")
    return path


def _archive_path(url: str) -> Path:
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return cache_folder() / "archives" / digest / Path(url).name


def _unpack(url: str, member: str, reference: FileRef, target: Path) -> Path:
    """Extract a file from an archive, which is downloaded on first use.

    If the archive does not contain the file with the right checksum, the archive is deleted, so
    that the next call downloads it again.
    """
    packed = _retrieve(url, _archive_path(url))
    with ExitStack() as on_error:
        on_error.callback(packed.unlink, missing_ok=True)
        content = _content(packed, member)
        if problem := _mismatch(io.BytesIO(content), reference):
            raise ValueError(f"{member}: expected {problem}")
        on_error.pop_all()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)
    return target


def _content(archive: Path, member: str) -> bytes:
    """Find the archive entry with a path that ends in `member`, and return its content.

    The function never unpacks the archive to disk. Archives have no checksum, and a malicious path
    in an archive could point outside the target folder.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            return packed.read(_member(packed.namelist(), member))
    with tarfile.open(archive) as packed_tar:
        files = [entry.name for entry in packed_tar if entry.isfile()]
        extracted = packed_tar.extractfile(_member(files, member))
        assert extracted is not None  # noqa: S101  `files` contains only regular files
        return extracted.read()


def _member(names: Sequence[str], wanted: str) -> str:
    for name in names:
        if f"/{name.removeprefix('./')}".endswith(f"/{wanted}"):
            return name
    raise ValueError(f"the archive does not contain {wanted}")


def _origin(reference: FileRef, spec: Owner) -> str:
    hub = getattr(reference, "hub", None)
    archive = getattr(spec, "archive", None)
    if reference.url:
        return f" with {reference.url}"
    if archive is not None:
        return f" with the copy in {archive.url}"
    return f" with the hub data set {hub.id}" if hub else ""


def _remedy(spec: Owner) -> str:
    files = list(dict.fromkeys(each.path for each in spec.references() if each.path))
    if not files:
        return ""
    shown = files if len(files) <= 4 else [*files[:3], f"{len(files) - 3} more"]
    return (
        f". To use a copy, put {' and '.join(shown)} into a folder and set `data_dir` or "
        f"{DATA_VARIABLE} to this folder"
    )


def shorten(error: BaseException) -> str:
    """Return the message of an error, shortened to 240 characters, and how to read gated data."""
    hint = (
        "; ask for access on the page of the data set, then run `hf auth login` or set HF_TOKEN"
        if "is a gated dataset" in str(error)
        else ""
    )
    return textwrap.shorten(str(error), 240, placeholder="…") + hint
