"""Sources: find a task's files on this machine, or bring them from their public address.

A file is looked for beside the task file, then in the data folder, then among earlier downloads;
then it is downloaded, hashed while it streams and renamed when whole (pooch). Wherever it was
found, its checksum is verified before a line of it is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from polarity_bench.spec import FileRef, HubRef, TaskSpec
from polarity_bench.types import InputError

DATA_VARIABLE = "POLARITY_BENCH_DATA"


@dataclass(frozen=True)
class DataAccess:
    """Where data may come from: the user's folder, and the network unless offline."""

    folder: Path | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise InputError(f"the data folder {self.folder} does not exist or is no folder")

    @classmethod
    def from_environment(cls, folder: Path | None = None, offline: bool = False) -> DataAccess:
        """Take the folder from POLARITY_BENCH_DATA and offline from HF_HUB_OFFLINE if not given."""
        named = os.environ.get(DATA_VARIABLE)
        if folder is None and named:
            folder = Path(named)
        return cls(folder, offline or os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"})


def cache_folder() -> Path:
    """Return the folder for downloads and embeddings: $POLARITY_BENCH_CACHE or the user's cache."""
    named = os.environ.get("POLARITY_BENCH_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("polarity-bench")


def find(reference: FileRef, spec: TaskSpec, access: DataAccess) -> Path | None:
    """Return where a file lies on this machine, or None."""
    if reference.path is None:
        return None
    folders = [spec.file.parent, access.folder]
    for folder in folders:
        if folder is not None and (folder / reference.path).is_file():
            return folder / reference.path
    downloaded = _download_path(reference)
    return downloaded if downloaded and downloaded.is_file() else None


def obtain(reference: FileRef, spec: TaskSpec, access: DataAccess) -> Path:
    """Return a file's place, downloading it where it is nowhere on this machine.

    Raises:
        InputError: If it can't be had, or its checksum is wrong; says how to provide it.
    """
    path = find(reference, spec, access)
    if path is None:
        return _download(reference, spec, access)
    if reference.sha256 is not None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != reference.sha256:
            raise InputError(
                f"{path}: sha256 {found[:12]}… where {spec.name} expects "
                f"{reference.sha256[:12]}… ({path.stat().st_size:,} bytes found); "
                "a truncated or edited copy? Replace it" + _origin(reference)
            )
    return path


def load_hub_split(
    hub: HubRef, spec: TaskSpec, access: DataAccess, extra: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """Read the text, label and extra columns of a split of a hub data set at its commit.

    Raises:
        InputError: If the hub cannot be reached, or the data set lacks a column.
    """
    import datasets

    from polarity_bench.data.readers import as_text

    config = datasets.DownloadConfig(local_files_only=access.offline)
    where = f"the hub's data set {hub.id}@{hub.revision[:8]}"
    datasets.disable_progress_bars()
    try:
        rows = datasets.load_dataset(
            hub.id,
            hub.config,
            split=hub.split,
            revision=hub.revision,
            download_config=config,
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"{spec.name}: {where} cannot be read: {_one_line(error)}{_remedy(spec)}"
        ) from error
    finally:
        datasets.enable_progress_bars()
    columns = (hub.text, hub.label, *extra)
    if missing := [name for name in columns if name not in rows.column_names]:
        raise InputError(f"{spec.name}: {where} has no column {missing[0]!r}")
    return [
        tuple(as_text(value) for value in row)
        for row in zip(*(rows[name] for name in columns), strict=True)
    ]


def file_status(spec: TaskSpec, access: DataAccess) -> list[dict[str, str]]:
    """Say of each file of a task whether it is here, and where, or where it would come from."""
    rows = []
    for name, split in spec.splits.items():
        for reference in (split, split.label_file):
            if reference is None:
                continue
            path = find(reference, spec, access)
            hub = f"hub {split.hub.id}" if split.hub else None
            origin = reference.url or hub or "a folder of yours"
            rows.append(
                {
                    "task": spec.name,
                    "file": reference.path or f"({name})",
                    "status": "here" if path else "missing",
                    "place": str(path) if path else f"would come from {origin}",
                }
            )
    return rows


def _download_path(reference: FileRef) -> Path | None:
    if reference.url is None or reference.path is None or reference.sha256 is None:
        return None
    return cache_folder() / "data" / reference.sha256[:16] / Path(reference.path).name


def _download(reference: FileRef, spec: TaskSpec, access: DataAccess) -> Path:
    target = _download_path(reference)
    if target is None:
        looked = [str(spec.file.parent), *([str(access.folder)] if access.folder else [])]
        raise InputError(
            f"{spec.name}: {reference.path} is neither in {' nor in '.join(looked)}{_remedy(spec)}"
        )
    if access.offline:
        raise InputError(
            f"{spec.name}: {reference.path} is not on this machine and --offline (or "
            f"HF_HUB_OFFLINE) forbids to download {reference.url}{_remedy(spec)}"
        )
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(
            reference.url,
            known_hash=f"sha256:{reference.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=30, progressbar=False),
        )
    except (OSError, ValueError, requests.RequestException) as error:
        raise InputError(
            f"{spec.name}: {reference.path} is not on this machine and downloading "
            f"{reference.url} failed: {_one_line(error)}{_remedy(spec)}"
        ) from error
    return target


def _origin(reference: FileRef) -> str:
    return f" with {reference.url}" if reference.url else ""


def _remedy(spec: TaskSpec) -> str:
    files = [
        str(file.path)
        for split in spec.splits.values()
        for file in (split, split.label_file)
        if file is not None and file.path
    ]
    return (
        f". To use a copy, put {' and '.join(files)} into a folder and name it with --data-dir or "
        f"{DATA_VARIABLE}"
    )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 240 else text[:239] + "…"
