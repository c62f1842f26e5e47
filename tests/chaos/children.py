"""Command lines in forked children, which strace can kill or fail at any system call that writes.

The parent imports the packages once, so a command takes as long as its work. strace attaches to the
child before its first step; the child waits for it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

WRITES = (
    "write,pwrite64,writev,pwritev,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "ftruncate,fallocate,fsync,fdatasync,link,linkat,symlink,chmod,fchmod"
)
"""System calls that change files, or that make a change last."""
TIMEOUT = 900.0
"""Seconds after which a command counts as hung."""
_KILLED = "+++ killed by SIGKILL +++"
_WORKERS = re.compile("spawn_main|ray::")
"""Command lines of workers, of both engines."""
_HEAVY = "torch sentence_transformers mteb datasets sklearn.linear_model scipy.stats"
_OUTSIDE = re.compile(r"(pwrite64|writev?|pwritev)\((1|2|\d+<(pipe|socket|/dev/|anon_inode))")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Exit code, or minus the number of the signal that killed it.
        out: What it printed on stdout.
        err: What it printed on stderr.
        seconds: Wall-clock time.
        group: Number of its process group, which processes that it left behind are in.
        lost_worker: Whether a process that it started was killed, and it was not.
    """

    code: int
    out: str
    err: str
    seconds: float
    group: int
    lost_worker: bool = False

    @property
    def is_killed(self) -> bool:
        return self.code == -signal.SIGKILL


def can_trace() -> bool:
    """Return whether strace is installed and may attach to another process."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        words = ["strace", "-p", str(sleeper.pid), "-o", os.devnull]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            sleeper.kill()
    return "attached" in said


def warm_up() -> None:
    """Import what commands import, so that children need not do it again."""
    import polarity_bench

    for name in _HEAVY.split():
        importlib.import_module(name)
    for module in pkgutil.walk_packages(polarity_bench.__path__, "polarity_bench."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def run(
    words: Sequence[str | Path],
    folder: Path,
    *,
    inject: str | None = None,
    trace: Path | None = None,
    kill_after: float | None = None,
    victim: str = "",
) -> Ended:
    """Run a command line of polarity-bench in a child, in a folder that also holds its cache.

    Args:
        words: The command line without the name of the program.
        folder: Working folder.
        inject: What happens at a system call, as strace says it: `write:error=EIO:when=3`.
        trace: File for the record of all system calls that write.
        kill_after: Seconds after which processes are killed.
        victim: What is hit: `driver`, the first process; `worker`, the processes that it starts; or
            '' for all of them.
    """

    def command() -> None:
        from polarity_bench.cli import app

        sys.argv = ["polarity-bench", *map(str, words)]
        app.main()

    how = {"inject": inject, "trace": trace, "kill_after": kill_after, "victim": victim}
    return call(command, folder, **how)  # type: ignore[arg-type]


def call(
    function: Callable[[], Any],
    folder: Path,
    *,
    inject: str | None = None,
    trace: Path | None = None,
    kill_after: float | None = None,
    victim: str = "",
) -> Ended:
    """Call a function in a child; see `run`."""
    # Beside the folder, because a full disk or a lost permission must not hit them.
    out, err = (folder.with_name(f"{folder.name}-{stream}.txt") for stream in ("out", "err"))
    waiting, go = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(go)
        _become(function, folder, out, err, waiting)
    os.close(waiting)
    log = trace or folder.with_name(f"{folder.name}-calls.txt")
    tracer = _attach(child, inject, log, victim) if inject or trace else None
    os.write(go, b"x")
    os.close(go)
    status, lost_worker = _wait(child, kill_after, victim)
    seconds = time.monotonic() - begun
    if tracer is not None:
        tracer.wait(60)
        lost_worker = _KILLED in log.read_text(errors="replace")
    return Ended(
        os.waitstatus_to_exitcode(status),
        out.read_text(errors="replace"),
        err.read_text(errors="replace"),
        seconds,
        child,
        lost_worker and status != signal.SIGKILL,
    )


def positions(trace: Path, driver: int) -> list[tuple[str, int]]:
    """Return the calls of the driver's main thread that write to files.

    Each is given by the name of the system call and its number among those of this name, because
    strace counts the calls of each name and each thread for itself.
    """
    calls = [call for thread, call in _calls(trace) if thread in (str(driver), "")]
    calls = [each for each in calls if re.match(r"\w+\(", each)]
    found, numbers = [], Counter[str]()
    for each in calls:
        name = each.partition("(")[0]
        numbers[name] += 1
        if not is_outside(each):
            found.append((name, numbers[name]))
    return found


def failed_call(trace: Path) -> str:
    """Return the call that failed because of `inject`, or nothing if it was not reached."""
    return next((call for _, call in _calls(trace) if call.endswith("(INJECTED)")), "")


def _calls(trace: Path) -> list[tuple[str, str]]:
    """Return the thread and the text of each traced call; '' if strace followed one thread."""
    lines = trace.read_text(errors="replace").splitlines()
    found = [re.fullmatch(r"(?:(\d+) +)?(.*)", line) for line in lines]
    return [(each[1] or "", each[2]) for each in found if each]


def is_outside(call: str) -> bool:
    """Return whether a call writes to the terminal, a pipe or a device, not to a file."""
    return bool(_OUTSIDE.match(call))


def _become(function: Callable[[], Any], folder: Path, out: Path, err: Path, waiting: int) -> None:
    """Be the child: wait for the tracer, call the function and leave without the parent's exit."""
    code: Any = 70
    try:
        os.setsid()
        os.chdir(folder)
        os.environ["POLARITY_BENCH_CACHE"] = str(folder / "cache")
        for stream, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
        os.read(waiting, 1)
        try:
            function()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except BaseException:  # noqa: BLE001  The unexpected is what is looked for.
            traceback.print_exc()
        for printed in (sys.stdout, sys.stderr):
            with suppress(OSError):
                printed.flush()
    finally:
        os._exit(code)


def _attach(child: int, inject: str | None, log: Path, victim: str) -> subprocess.Popen[str]:
    words = ["strace", "-y", "-p", str(child), "-o", str(log)]
    words += [] if victim == "driver" else ["-f"]  # without it, only the first thread is traced
    words += ["-e", f"trace={WRITES}"]
    words += ["-e", f"inject={inject}"] if inject else []
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    assert "attached" in said, said
    return tracer


def _wait(child: int, kill_after: float | None, victim: str) -> tuple[int, bool]:
    """Wait for a child, and return its status and whether one of its workers was killed."""
    begun, lost_worker = time.monotonic(), False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, lost_worker
        seconds = time.monotonic() - begun
        if seconds > TIMEOUT:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"a command had not ended after {TIMEOUT:.0f} s")
        if kill_after is not None and seconds > kill_after:
            if victim == "worker":
                lost_worker = _kill_worker(child)
            elif victim == "driver":
                os.kill(child, signal.SIGKILL)
            else:
                os.killpg(child, signal.SIGKILL)
            kill_after = None
        time.sleep(0.002)


def _kill_worker(child: int) -> bool:
    """Kill the youngest worker of a child, and return whether there was one."""
    with suppress(psutil.Error):
        inside = psutil.Process(child).children(recursive=True)
        workers = [each for each in inside if _WORKERS.search(" ".join(each.cmdline()))]
        if workers:
            max(workers, key=lambda each: each.create_time()).kill()
            return True
    return False
