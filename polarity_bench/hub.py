"""The Hugging Face hub: limits on waiting, checks of downloads, and errors in plain words."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polarity_bench.files import SET_FOLDERS, cache_folder, cannot_write, file_hash

_SILENCE = 60.0
"""Seconds without an answer before a request fails."""
_LONGEST_WAIT = 300
"""Longest wait that the hub may ask for, in seconds: the length of its rate limits' windows."""
_HASHES = {64: ("sha256",), 40: ("git_sha1", "sha1")}
"""Hashes that can be the name of a file in the hub's cache, by length; mirrors use `sha1`."""


class HubError(OSError):
    """Error for a failure of the hub or the connection that a later attempt may not have."""


@contextmanager
def reading_hub(name: str, kind: str, offline: bool) -> Iterator[None]:
    """Bound the waits for the hub inside the context, and check what is downloaded.

    `huggingface_hub` may wait for an answer without limit, or for as long as the hub asks it to,
    and compares only the sizes of files.

    Args:
        name: Name of the repository.
        kind: "model" or "dataset".
        offline: Whether no connection may be made.

    Raises:
        HubError: If the hub or the connection fails, or if a file that was downloaded does not
            have the hash that the hub declares. The file is removed, and all data made from it.
    """
    from huggingface_hub import constants, get_session

    hooks: Any = get_session().event_hooks
    if _bound not in hooks["request"]:
        hooks["request"].append(_bound)
        hooks["response"].append(_refuse_long_wait)
    folder = Path(constants.HF_HUB_CACHE, f"{kind}s--{name.replace('/', '--')}")
    before = _downloads(folder).keys()
    failure: BaseException | None = None
    try:
        with _library_settings(kind, offline):
            yield
    except BaseException as error:  # noqa: BLE001  raised again below
        failure = error
    problem = _problem(failure)
    for blob, path in _downloads(folder).items():
        if blob not in before and _is_damaged(blob):
            blob.unlink(missing_ok=True)
            _remove_tables(name, commit=path.relative_to(folder).parts[1])
            problem = f"{path.name} arrived damaged and was removed; try again"
    if failure and not (problem and isinstance(failure, Exception)):
        raise failure
    if problem:
        raise HubError(problem) from failure


@contextmanager
def _library_settings(kind: str, offline: bool) -> Iterator[None]:
    """Let the libraries make no connection if `offline`, and `datasets` show no progress bars.

    The libraries read HF_HUB_OFFLINE when they are imported, which may be too early.
    """
    from huggingface_hub import constants

    library: Any = sys.modules["datasets"] if kind == "dataset" else None
    settings: list[Any] = [constants, *([library.config] if library else [])]
    was_offline = [each.HF_HUB_OFFLINE for each in settings]
    try:
        for each in settings:
            each.HF_HUB_OFFLINE |= offline
        if library:
            library.disable_progress_bars()
        yield
    finally:
        for each, value in zip(settings, was_offline, strict=True):
            each.HF_HUB_OFFLINE = value
        if library:
            library.enable_progress_bars()


def _bound(request: Any) -> None:
    limits = request.extensions["timeout"]
    limits |= {step: _SILENCE for step, seconds in limits.items() if seconds is None}


def _refuse_long_wait(response: Any) -> None:
    wait = response.headers.get("Retry-After", "")
    if wait.isdigit() and int(wait) > _LONGEST_WAIT:
        status = response.status_code
        raise HubError(f"the hub answered {status}; try again in {int(wait):,} seconds")


def _downloads(folder: Path) -> dict[Path, Path]:
    """Return the files of a repository in the hub's cache, by the files to which they link."""
    return {path.resolve(): path for path in folder.glob("snapshots/*/**/*") if path.is_file()}


def _is_damaged(blob: Path) -> bool:
    kinds = _HASHES.get(len(blob.name), ())
    with blob.open("rb") as file:
        return bool(kinds) and blob.name not in {file_hash(file, kind) for kind in kinds}


def _remove_tables(name: str, commit: str) -> None:
    """Remove what `datasets` made from the files of a commit."""
    import datasets

    for cache in (Path(datasets.config.HF_DATASETS_CACHE), cache_folder() / "datasets"):
        for made in cache.glob(f"{name.replace('/', '___')}/*/*/{commit}"):
            shutil.rmtree(made)


def _problem(error: BaseException | None) -> str:
    """Return what went wrong between this machine and the hub, or '' if nothing or another thing.

    The answer of the hub is often only the cause of the error that a library raises.
    """
    from huggingface_hub.errors import HfHubHTTPError

    failures = (HfHubHTTPError.__bases__[0], ConnectionError)  # HTTPError of httpx or httpx2
    while error is not None:
        if isinstance(error, HubError):
            return str(error)
        if (response := getattr(error, "response", None)) is not None:
            if (status := response.status_code) in {408, 416, 429} or status >= 500:
                return f"the hub answered {status}; try again later"
        elif isinstance(error, failures) and "Offline" not in repr(error):
            return f"the connection failed ({type(error).__name__}: {error}); try again"
        elif cannot_write(error):
            return f"{error}; {SET_FOLDERS}"
        elif "Consistency check failed" in str(error):
            return "a file has another size than the hub declares; try again"
        error = error.__cause__ or error.__context__
    return ""
