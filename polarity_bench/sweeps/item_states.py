"""State: what of a sweep is done, failed or being made, all of it on disk.

```
SWEEP/sweep.json           what there is to make
SWEEP/runs/NAME-DIGITS/    trained encoders
SWEEP/results/             what they and their bases scored
SWEEP/state/DIGITS.json    what came of an item, written when nothing is left to do of it
SWEEP/state/DIGITS.begun   who began it and did not end it
SWEEP/state/DIGITS.lock    locked by the process that makes it
SWEEP/logs/DIGITS.log      what was said meanwhile
```

Whoever holds an item's lock may make it, so that any number of processes and of drivers share a
sweep. A process that ends, however it ends, loses its locks: the next one that looks goes on with
what it had begun.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from polarity_bench.errors import InputError
from polarity_bench.files import (
    check_writable,
    find_files,
    json_bytes,
    read_json,
    write_atomically,
)
from polarity_bench.results.result_files import PROVENANCE

GREATEST_ATTEMPTS = 3
"""How often an item may take its process with it while one driver lives."""


@dataclass(frozen=True)
class ItemFiles:
    """What was made of an item.

    Attributes:
        scores: The main score of each task, where it is defined.
        files: Below the sweep's folder, without which it is not done.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True)
class ItemOutcome:
    """What came of an item.

    Attributes:
        name: Of the item, for who reads the file.
        why: It failed.
        seconds: How long the last attempt took; 0 of what was made elsewhere.
        ended: When, in seconds since 1970.
        scores: As `ItemFiles` has them.
        files: As `ItemFiles` has them.
    """

    state: Literal["done", "failed"]
    name: str
    why: str = ""
    seconds: float = 0.0
    ended: float = field(default_factory=time.time)
    scores: Mapping[str, float] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep, in its folder."""

    folder: Path

    @property
    def files(self) -> Path:
        """Where it is kept."""
        return self.folder / "state"

    @property
    def logs(self) -> Path:
        """Where what is said of the items goes."""
        return self.folder / "logs"

    def make_folders(self) -> None:
        """Make the folders.

        Raises:
            InputError: If they cannot be written to, or their file system has no locks.
        """
        for folder in (self.files, self.logs, self.folder / "results"):
            check_writable(folder)
        try:
            with warnings.catch_warnings(action="error"), self.claimed("any"):
                pass  # without any, filelock warns and makes files that a kill leaves there
        except (OSError, NotImplementedError, UserWarning) as error:
            raise InputError(
                f"`output` {self.folder}: files cannot be locked there ({error}), by which an item "
                "is made once; name a folder on another file system"
            ) from error

    def outcome(self, digest: str) -> ItemOutcome | None:
        """Return what came of an item; None if it is still to be made.

        Raises:
            InputError: If the file is none of ours.
        """
        file = self.files / f"{digest}.json"
        if not file.is_file():
            return None
        read = read_json(file)
        try:
            outcome = ItemOutcome(**{**read, "files": tuple(read.get("files", ()))})
        except (AttributeError, TypeError) as error:
            raise InputError(f"{file}: not written by a sweep ({error}); delete it") from error
        if outcome.state not in ("done", "failed"):
            raise InputError(f"{file}: no sweep writes the state {outcome.state!r}; delete it")
        return outcome

    def ended(self) -> set[str]:
        """The digests of all items that are done or have failed."""
        return {file.stem for file in self.files.glob("*.json")}

    def outcomes(self, digests: Iterable[str]) -> dict[str, ItemOutcome]:
        """Return what came of those items that have ended, by digest."""
        ended = self.ended()
        read = {each: self.outcome(each) for each in digests if each in ended}
        return {digest: outcome for digest, outcome in read.items() if outcome is not None}

    def is_gone(self, outcome: ItemOutcome) -> bool:
        """Whether a file is gone of what was made."""
        return not all((self.folder / file).is_file() for file in outcome.files)

    def record(self, digest: str, outcome: ItemOutcome) -> None:
        """Write what came of an item, for good."""
        write_atomically(self.files / f"{digest}.json", json_bytes(asdict(outcome)))
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def forget(self, digest: str) -> None:
        """Have an item be made again from where it failed."""
        (self.files / f"{digest}.json").unlink(missing_ok=True)
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def log(self, digest: str) -> Path:
        """Return where what is said of an item goes."""
        return self.logs / f"{digest}.log"

    @contextmanager
    def claimed(self, digest: str) -> Iterator[bool]:
        """Hold an item until the end of the block; tells whether nobody else does."""
        lock = FileLock(self.files / f"{digest}.lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold a name until the end of the block, once nobody else does."""
        with FileLock(self.files / f"{name}.lock"):
            yield

    def begin(self, digest: str, driver: str) -> int:
        """Count a beginning, and return how many this driver made before that did not end."""
        file = self.files / f"{digest}.begun"
        lines = file.read_text().splitlines() if file.is_file() else []
        said = f"process {os.getpid()} on {platform.node()}, {time.strftime('%Y-%m-%d %H:%M:%S')}"
        said += f", of driver {driver}"
        write_atomically(file, "".join(f"{line}\n" for line in [*lines, said]).encode())
        with self.log(digest).open("a", encoding="utf-8") as log:
            log.write(f"begun by {said}\n")
        return sum(line.endswith(f", of driver {driver}") for line in lines)

    def running(self) -> dict[str, str]:
        """Who makes what, by digest: of what was begun and has not ended, what is locked."""
        found = {}
        for file in self.files.glob("*.begun"):
            try:
                with self.claimed(file.stem) as free:
                    if not free:
                        found[file.stem] = file.read_text().splitlines()[-1]
            except OSError:  # it has ended meanwhile, or who looks on can lock nothing
                continue
        return found


def files_of(results: Iterable[Path], folder: Path) -> tuple[str, ...]:
    """Name the files of results that are nothing without each other, below a sweep's folder."""
    several = (file for path in results for file in (path, path.with_suffix(PROVENANCE)))
    return tuple(file.relative_to(folder).as_posix() for file in several)


def stored_below(folder: Path) -> list[tuple[str, str]]:
    """Return the names of the results below a folder, and where they lie, in order."""
    files = find_files(folder, PROVENANCE)
    return sorted((file.name.removesuffix(PROVENANCE), str(file.parent)) for file in files)
