"""State of a sweep on disk: items that are done, have failed or are running, and their locks.

```
SWEEP/sweep.json           the plan, with all items
SWEEP/runs/NAME-DIGITS/    trained encoders
SWEEP/results/             results of trained encoders and their bases
SWEEP/state/DIGITS.json    outcome of an item, written when the item ends
SWEEP/state/DIGITS.begun   processes that started an item without ending it
SWEEP/state/DIGITS.lock    lock file of the process that runs the item
SWEEP/logs/DIGITS.log      log of an item
```

Only the process that has locked an item runs the item, so any number of processes and drivers can
share a sweep. When a process ends for any reason, its locks are released, and another process
resumes its item.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from filelock import FileLock, Timeout

from polarity_bench.errors import reworded
from polarity_bench.files import (
    check_writable,
    json_bytes,
    read_json,
    write_atomically,
)
from polarity_bench.results.packed_results import PROVENANCE, is_stored
from polarity_bench.results.result_files import Result
from polarity_bench.validation import validated

GREATEST_ATTEMPTS = 3
"""Number of attempts after which an item fails, if all were killed under one driver."""


@dataclass(frozen=True)
class ItemOutcome:
    """Outcome of an item that has ended.

    Attributes:
        name: Name of the item, for people who read the file.
        why: Reason for the failure; '' if the item is done.
        seconds: Duration of the last attempt; 0 for external results.
        ended: Time when the item ended, in seconds since 1970.
        scores: Main score of each task, where it is defined.
        files: Paths of the item's files, relative to the sweep's folder. The item counts as done
            only if all of these files exist.
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
    def of_results(cls, name: str, results: Sequence[Result], folder: Path) -> ItemOutcome:
        """Return the outcome of a done item."""
        means = {result.task: result.main.mean for result in results}
        scores = {task: mean for task, mean in means.items() if not math.isnan(mean)}
        files = files_of((result.path for result in results), folder)
        return cls("done", name, scores=scores, files=files)


@dataclass(frozen=True)
class SweepState:
    """State of the items of a sweep, stored in the sweep's folder."""

    folder: Path

    @property
    def files(self) -> Path:
        """Folder of the outcomes and locks."""
        return self.folder / "state"

    @property
    def logs(self) -> Path:
        """Folder of the logs."""
        return self.folder / "logs"

    def make_folders(self) -> None:
        """Create the folders for state, logs and results.

        Raises:
            InputError: If a folder is not writable, or if its file system does not support locks.
        """
        for folder in (self.files, self.logs, self.folder / "results"):
            check_writable(folder)
        problem = f"`output` {self.folder}: a sweep locks files, but files cannot be locked there ("
        remedy = "); use a folder on another file system"
        with (
            reworded(problem, remedy, OSError, NotImplementedError, UserWarning),
            warnings.catch_warnings(action="error"),
            self.try_lock("any"),
        ):
            pass  # without real locks, filelock warns and uses files that survive a kill

    def outcome(self, digest: str) -> ItemOutcome | None:
        """Return the outcome of an item; None if the item has not ended.

        Raises:
            InputError: If the outcome's file was not written by a sweep.
        """
        file = self.files / f"{digest}.json"
        if not file.is_file():
            return None
        with reworded(f"{file}: not written by a sweep (", "); delete the file"):
            return validated(ItemOutcome, read_json(file))

    def ended(self) -> set[str]:
        """Return the digests of all items that are done or have failed."""
        return {file.stem for file in self.files.glob("*.json")}

    def outcomes(self, digests: Iterable[str]) -> dict[str, ItemOutcome]:
        """Return the outcomes of the items that have ended, by digest."""
        ended = self.ended()
        read = {digest: self.outcome(digest) for digest in digests if digest in ended}
        return {digest: outcome for digest, outcome in read.items() if outcome is not None}

    def is_gone(self, outcome: ItemOutcome) -> bool:
        """Return whether a file of a done item is missing."""
        return not all(is_stored(self.folder / file) for file in outcome.files)

    def record(self, digest: str, outcome: ItemOutcome) -> None:
        """Store the outcome of an item."""
        write_atomically(self.files / f"{digest}.json", json_bytes(asdict(outcome)))
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def forget(self, digest: str) -> None:
        """Delete the outcome of an item, so that the item is run again."""
        (self.files / f"{digest}.json").unlink(missing_ok=True)
        (self.files / f"{digest}.begun").unlink(missing_ok=True)

    def log(self, digest: str) -> Path:
        """Return the path of an item's log."""
        return self.logs / f"{digest}.log"

    @contextmanager
    def try_lock(self, digest: str) -> Iterator[bool]:
        """Try to lock an item until the end of the `with` block.

        Yields:
            Whether the item was free: False if another process has locked it.
        """
        free = True
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(self.files / f"{digest}.lock", blocking=False))
            except Timeout:
                free = False
            yield free

    def wait_for_lock(self, name: str) -> AbstractContextManager[object]:
        """Return the lock of a name, for which the `with` statement waits."""
        return FileLock(self.files / f"{name}.lock")

    def begin(self, digest: str, driver: str) -> int:
        """Record a new attempt at an item.

        Returns:
            Number of earlier attempts of this driver that did not end.
        """
        file = self.files / f"{digest}.begun"
        lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        process = f"process {os.getpid()} on {platform.node()}, {now}, of driver {driver}"
        write_atomically(file, "".join(f"{line}\n" for line in [*lines, process]).encode())
        with self.log(digest).open("a", encoding="utf-8") as log:
            log.write(f"begun by {process}\n")
        return sum(line.endswith(f", of driver {driver}") for line in lines)

    def running(self) -> dict[str, str]:
        """Return a description of the process that runs each running item, by digest."""
        processes = {}
        for file in self.files.glob("*.begun"):
            try:
                with self.try_lock(file.stem) as free:
                    if not free:
                        lines = file.read_text("utf-8", "replace").splitlines()
                        processes[file.stem] = lines[-1] if lines else "another process"
            except OSError:  # the item has just ended, or the user may not lock files
                continue
        return processes


def files_of(results: Iterable[Path], folder: Path) -> tuple[str, ...]:
    """Return the paths of results and of their provenance files, relative to a sweep's folder.

    A result is valid only together with its provenance file.
    """
    files = (file for path in results for file in (path, path.with_suffix(PROVENANCE)))
    return tuple(file.relative_to(folder).as_posix() for file in files)
