"""The Hugging Face hub: limits on waiting, checks of downloads, and errors in plain words."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """Limit the waits for the hub from now on, and check what the context downloads.

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
    from huggingface_hub import constants

    _limit_waits()
    folder = Path(constants.HF_HUB_CACHE, f"{kind}s--{name.replace('/', '--')}")
    unchecked = cache_folder() / "unchecked" / folder.name
    was_killed = False
    with suppress(OSError):
        # The file is left if a process is killed before its check. Then all downloads are checked.
        was_killed = unchecked.exists()
        if not offline:
            unchecked.parent.mkdir(parents=True, exist_ok=True)
            unchecked.touch()
    before = {} if was_killed else _downloads(folder)
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
    with suppress(OSError):
        unchecked.unlink(missing_ok=True)
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
    had_bars = library and not library.are_progress_bars_disabled()
    try:
        for each in settings:
            each.HF_HUB_OFFLINE |= offline
        if had_bars:
            library.disable_progress_bars()
        yield
    finally:
        for each, value in zip(settings, was_offline, strict=True):
            each.HF_HUB_OFFLINE = value
        if had_bars:
            library.enable_progress_bars()


def _limit_waits() -> None:
    """Add the limits to the HTTP client of `huggingface_hub`, and to each client that replaces it.

    The library makes a new client after a connection was refused.
    """
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import _http

    if _limit_silence in get_session().event_hooks["request"]:
        return
    new_client: Any = _http._GLOBAL_CLIENT_FACTORY  # noqa: SLF001  it has no public getter

    def new_limited_client() -> Any:
        client = new_client()
        client.event_hooks["request"].append(_limit_silence)
        client.event_hooks["response"].append(_refuse_long_wait)
        return client

    set_client_factory(new_limited_client)


def _limit_silence(request: Any) -> None:
    limits = request.extensions["timeout"]
    limits |= {step: _SILENCE for step, seconds in limits.items() if seconds is None}


def _refuse_long_wait(response: Any) -> None:
    """Raise the error of the last attempt, after which the library still looks into its cache."""
    from huggingface_hub.errors import HfHubHTTPError

    if (_asked_wait(response) or 0) > _LONGEST_WAIT:
        raise HfHubHTTPError("the hub asks for a long wait", response=response)


def _asked_wait(response: Any) -> int | None:
    """Return the seconds that an answer of the hub asks to wait, if any."""
    # The package lists none of its public names.
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit: Any = parse_ratelimit_headers(response.headers) if response.status_code == 429 else None
    if limit is not None and limit.remaining == 0:
        return int(limit.reset_in_seconds)
    wait = response.headers.get("Retry-After", "")
    return int(wait) if wait.isdecimal() else None


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
        response: Any = getattr(error, "response", None)
        if status := getattr(response, "status_code", None):
            if status in {408, 416, 429} or status >= 500:
                wait = _asked_wait(response)
                when = "later" if wait is None else f"in {wait:,} seconds"
                return f"the hub answered {status}; try again {when}"
        elif isinstance(error, failures) and "Offline" not in repr(error):
            return f"the connection failed ({type(error).__name__}: {error}); try again"
        elif cannot_write(error):
            return f"{error}; {SET_FOLDERS}"
        elif "Consistency check failed" in str(error):
            return "a file has another size than the hub declares; try again"
        error = error.__cause__ or error.__context__
    return ""
