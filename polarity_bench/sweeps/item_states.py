"""State of a sweep on disk: which items are done, have failed or are running.

```
SWEEP/sweep.json           the plan, with all items
SWEEP/runs/NAME-DIGITS/    trained encoders
SWEEP/results/             results of trained encoders and their bases, in files or packed
SWEEP/state/DIGITS.json    outcome of an item, written when the item has ended
SWEEP/state/DIGITS.begun   processes that began an item and did not end it
SWEEP/state/DIGITS.lock    locked by the process that makes the item
SWEEP/logs/DIGITS.log      log of an item
```

The process that holds the lock of an item may make it, so any number of processes and drivers can
share a sweep. A process that ends in any way loses its locks, and the next process that looks
resumes its item.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from filelock import FileLock, Timeout

from polarity_bench.errors import InputError
from polarity_bench.files import (
    check_writable,
    json_bytes,
    read_json,
    write_atomically,
)
from polarity_bench.results.packed_results import PROVENANCE, is_stored
from polarity_bench.results.result_files import Stored
from polarity_bench.validation import validated

GREATEST_ATTEMPTS = 3
"""How often the process that makes an item may be killed while one driver runs."""


@dataclass(frozen=True)
class ItemOutcome:
    """The outcome of an item.

    Attributes:
        name: Name of the item, for readers of the file.
        why: Reason of a failure.
        seconds: Duration of the last attempt; 0 for items made elsewhere.
        ended: Time of the end, in seconds since 1970.
        scores: The main score of each task, if it is defined.
        files: Paths relative to the sweep's folder. An item is done only if all of them exist.
    """

    state: Literal["done", "failed"]
    name: str
    why: str = ""
    seconds: float = 0.0
    ended: float = field(default_factory=time.time)
    scores: Mapping[str, float] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    @classmethod
    def of_results(cls, name: str, results: Iterable[Stored], folder: Path) -> ItemOutcome:
        """Return the outcome of an item that is done, from its results in a sweep's folder."""
        stored = list(results)
        means = {result.task: result.main.mean for _, result in stored}
        scores = {task: mean for task, mean in means.items() if not math.isnan(mean)}
        files = files_of((path for path, _ in stored), folder)
        return cls("done", name, scores=scores, files=files)


@dataclass(frozen=True)
class SweepState:
    """State of the sweep in a folder."""

    folder: Path

    @property
    def files(self) -> Path:
        """Folder of the state files."""
        return self.folder / "state"

    @property
    def logs(self) -> Path:
        """Folder of the logs."""
        return self.folder / "logs"

    def make_folders(self) -> None:
        """Create the folders.

        Raises:
            InputError: If the folders are not writable, or their file system has no locks.
        """
        for folder in (self.files, self.logs, self.folder / "results"):
            check_writable(folder)
        try:
            with warnings.catch_warnings(action="error"), self.claimed("any"):
                pass  # without locks, filelock warns and creates files that survive a kill
        except (OSError, NotImplementedError, UserWarning) as error:
            raise InputError(
                f"`output` {self.folder}: files cannot be locked there ({error}), but a sweep "
                "needs locks; use a folder on another file system"
            ) from error

    def outcome(self, digest: str) -> ItemOutcome | None:
        """Return the outcome of an item; None if the item has not ended.

        Raises:
            InputError: If the file was not written by a sweep.
        """
        file = self.files / f"{digest}.json"
        if not file.is_file():
            return None
        try:
            return validated(ItemOutcome, read_json(file))
        except InputError as error:
            raise InputError(f"{file}: not written by a sweep ({error}); delete it") from error

    def ended(self) -> set[str]:
        """Return the digests of all items that are done or have failed."""
        return {file.stem for file in self.files.glob("*.json")}

    def outcomes(self, digests: Iterable[str]) -> dict[str, ItemOutcome]:
        """Return the outcomes of the items that have ended, by digest."""
        ended = self.ended()
        read = {each: self.outcome(each) for each in digests if each in ended}
        return {digest: outcome for digest, outcome in read.items() if outcome is not None}

    def is_gone(self, outcome: ItemOutcome) -> bool:
        """Return whether a file of an outcome is missing."""
        return not all(is_stored(self.folder / file) for file in outcome.files)

    def record(self, digest: str, outcome: ItemOutcome) -> None:
        """Write the outcome of an item."""
        write_atomically(self.files / f"{digest}.json", json_bytes(asdict(outcome)))
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def forget(self, digest: str) -> None:
        """Delete the outcome of an item, so that the item is resumed."""
        (self.files / f"{digest}.json").unlink(missing_ok=True)
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def log(self, digest: str) -> Path:
        """Return the path of an item's log."""
        return self.logs / f"{digest}.log"

    @contextmanager
    def claimed(self, digest: str) -> Iterator[bool]:
        """Lock an item until the end of the block; yield False if another process holds it."""
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
        """Wait until no other process holds a name, then lock it until the end of the block."""
        with FileLock(self.files / f"{name}.lock"):
            yield

    def begin(self, digest: str, driver: str) -> int:
        """Record an attempt, and return how many earlier attempts of this driver did not end."""
        file = self.files / f"{digest}.begun"
        lines = file.read_text().splitlines() if file.is_file() else []
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        process = f"process {os.getpid()} on {platform.node()}, {now}, of driver {driver}"
        write_atomically(file, "".join(f"{line}\n" for line in [*lines, process]).encode())
        with self.log(digest).open("a", encoding="utf-8") as log:
            log.write(f"begun by {process}\n")
        return sum(line.endswith(f", of driver {driver}") for line in lines)

    def running(self) -> dict[str, str]:
        """Return the process that makes each running item, by digest: items begun and locked."""
        processes = {}
        for file in self.files.glob("*.begun"):
            try:
                with self.claimed(file.stem) as free:
                    if not free:
                        processes[file.stem] = file.read_text().splitlines()[-1]
            except OSError:  # the item has ended, or locks are not permitted
                continue
        return processes


def files_of(results: Iterable[Path], folder: Path) -> tuple[str, ...]:
    """Return the paths of results and their provenance, relative to a sweep's folder.

    A result is only valid together with its provenance.
    """
    several = (file for path in results for file in (path, path.with_suffix(PROVENANCE)))
    return tuple(file.relative_to(folder).as_posix() for file in several)
