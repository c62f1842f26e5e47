"""Kills, faults and bit flips on `SUBJECTS`, each followed by the same command undisturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos.children import Ended, failed_call, is_outside, positions, run
from chaos.subjects import Subject, copy, made

ERRORS = ("ENOSPC", "EACCES", "EIO", "EROFS")


@dataclass
class Figures:
    """What one attack found.

    Attributes:
        attack: Its name.
        subject: The command or the reader that was attacked.
        n: Number of attacks that had an effect.
        outcomes: How often each harmless outcome was seen.
        defects: One line for each attack that broke a promise.
        seconds: Time of a reader; 0 for a command.
    """

    attack: str
    subject: str
    n: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)
    seconds: float = 0

    def count(self, outcome: str, n: int = 1) -> None:
        """Count an outcome of n attacks that had an effect; n is 0 for one without."""
        self.n += n
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def add(self, earlier: Figures) -> None:
        """Add the figures of an earlier run of the same attack."""
        counts = Counter(earlier.outcomes) + Counter(self.outcomes)
        self.outcomes, self.n = dict(counts), self.n + earlier.n
        self.defects = [*earlier.defects, *self.defects]
        self.seconds = round(self.seconds + earlier.seconds, 1)

    def judge(self, where: str, problem: str, ended: Ended, unharmed: str) -> None:
        """Count an attack by its problem, by the message that named it, or as `unharmed`."""
        if problem:
            self.defects.append(f"{where}: {problem}")
        else:
            self.count("named" if ended.code else unharmed)


@dataclass(frozen=True)
class Bench:
    """The folder that an attack works in, and what an undisturbed run of the subject gives."""

    root: Path
    subject: Subject
    draw: random.Random
    expected: Mapping[str, str]
    whole: Ended
    places: list[tuple[str, int]]
    is_short: bool

    @classmethod
    def of(cls, root: Path, subject: Subject, *, is_short: bool) -> Bench:
        """Run the subject once, and record where it writes."""
        # The same folder for all trials, because some files name the path of the base.
        folder = copy(root / "template", root / "work")
        trace = root / "trace.txt"
        # strace would make the start of workers far slower.
        victim = "driver" if subject.has_workers else ""
        whole = run(subject.words, folder, trace=trace, victim=victim)
        assert whole.code == 0, f"{subject.line}: {whole.err}"
        expected = made(folder / subject.product)
        assert expected
        places = positions(trace, whole.group)
        return cls(root, subject, random.Random(), expected, whole, places, is_short)

    def attack(self, name: str, n: int, seed: int) -> Figures:
        """Attack n times, as the seed and the names of the attack and the subject determine."""
        self.draw.seed(f"{seed} {self.subject.name} {name}")
        return ATTACKS[name](self, n)

    def fresh(self) -> Path:
        return copy(self.root / "template", self.root / "work")

    def run(self, **how: object) -> Ended:
        return run(self.subject.words, self.root / "work", **how)  # type: ignore[arg-type]

    def problem_after(self) -> str:
        """Return what is wrong after the command ran again, or nothing."""
        again = self.run()
        if again.code != 0:
            return f"the next run ended with {again.code}: {_last(again)}"
        found = made(self.root / "work" / self.subject.product)
        names = found.keys() | self.expected.keys()
        other = [name for name in names if found.get(name) != self.expected.get(name)]
        return f"other bytes in {', '.join(sorted(other))}" if other else ""


KILLS = [("driver", True), ("worker", False), ("driver", False), ("", False)]
"""Kills of a command with workers, in turn: what is hit, and whether at a call that writes.

'' is all of its processes at once. If a worker is hit, the command ends, because the driver
replaces it.
"""


def kill(bench: Bench, n: int) -> Figures:
    """Kill the command n times: every third time twice, and half of them at a random instant.

    The others are at a call that writes. In the short form, all are. A command with workers is
    killed once in each trial, in one of the ways of `KILLS`.
    """
    figures = Figures("kill -9", bench.subject.name)
    has_workers = bench.subject.has_workers
    for i in range(n):
        bench.fresh()
        said, groups = [], []
        # Each third trial is killed twice.
        kills = [("", bench.is_short or i % 2 == 1)] * (1 + i % 3 // 2)
        if has_workers:
            kills = [KILLS[i % len(KILLS)]]
        for victim, at_call in kills:
            if at_call:
                name, number = bench.draw.choice(bench.places)
                ended = bench.run(inject=f"{name}:signal=SIGKILL:when={number}", victim=victim)
                said.append(f"{victim} {name} {number}")
            else:
                after = bench.draw.uniform(0, bench.whole.seconds)
                ended = bench.run(kill_after=after, victim=victim)
                said.append(f"{victim} {after:.3f} s")
            groups.append(ended.group)
            if not (ended.is_killed or ended.lost_worker):
                figures.count("had ended before", 0)
            elif has_workers:
                figures.count(f"{victim or 'driver and worker'} killed")
            else:
                figures.n += 1
            if problem := "" if ended.is_killed else _unexpected(ended):
                figures.defects.append(f"killed at {' and '.join(said)}: {problem}")
        if problem := bench.problem_after():
            figures.defects.append(f"killed at {' and '.join(said)}: {problem}")
        else:
            figures.count("ended in the same bytes", 0)
        for group in groups:  # of a killed driver, if its workers did not end by themselves
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
                figures.outcomes["left a process"] = figures.outcomes.get("left a process", 0) + 1
    return figures


def fail(bench: Bench, n: int) -> Figures:
    """Let n calls that write fail, as with a full disk, a lost permission or a broken disk."""
    figures = Figures("failed write", bench.subject.name)
    for i in range(n):
        bench.fresh()
        error, (name, number) = ERRORS[i % len(ERRORS)], bench.draw.choice(bench.places)
        victim = "driver" if bench.subject.has_workers else ""
        trace = bench.root / "trace.txt"
        inject = f"{name}:error={error}:when={number}"
        ended = bench.run(inject=inject, trace=trace, victim=victim)
        call = failed_call(trace).replace(f"{bench.root / 'work'}/", "")
        if not call or is_outside(call):  # another thread was first, or it wrote to the terminal
            figures.count("no file was hit", 0)
            continue
        problem = _unexpected(ended) or bench.problem_after()
        figures.judge(f"{error} in {call[:80]}", problem, ended, "went on without")
    return figures


def fill(bench: Bench, n: int) -> Figures:
    """Run the command on n disks that are too small, then on one with room.

    An undisturbed run shows how much the command writes. Each disk has room for a part of it.
    """
    figures = Figures("full disk", bench.subject.name)
    template, work = bench.root / "template", bench.root / "work"
    with _disk(work, 2**20):
        shutil.copytree(template, work, dirs_exist_ok=True)
        before = _used(work)
        bench.run()
        written = _used(work) - before
    assert written > 0
    for _ in range(n):
        room = bench.draw.randrange(written * 9 // 10) // 1024
        with _disk(work, before // 1024 + room) as grow:
            shutil.copytree(template, work, dirs_exist_ok=True)
            ended = bench.run()
            grow()
            problem = _unexpected(ended) or bench.problem_after()
            figures.judge(f"{room} KiB left", problem, ended, "went on without")
    return figures


def _used(folder: Path) -> int:
    """Return the bytes in use on the disk that is mounted at a folder."""
    disk = os.statvfs(folder)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def flip(bench: Bench, n: int) -> Figures:
    """Flip one bit in n kept files, run the command again, and compare what it prints and keeps."""
    figures = Figures("bit flip", bench.subject.name)
    folder = bench.fresh()
    bench.run()
    printed = bench.run().out
    shutil.rmtree(bench.root / "done", ignore_errors=True)
    shutil.copytree(folder, bench.root / "done")
    kept = [
        path.relative_to(folder)
        for part in (bench.subject.product, "cache")
        for path in sorted((folder / part).rglob("*"))
        if path.is_file() and path.stat().st_size and path.suffix not in (".log", ".svg", ".png")
    ]
    for _ in range(n):
        folder = copy(bench.root / "done", bench.root / "work")
        name = bench.draw.choice(kept)
        content = bytearray((folder / name).read_bytes())
        place = bench.draw.randrange(8 * len(content))
        content[place // 8] ^= 1 << place % 8
        (folder / name).write_bytes(content)
        ended = bench.run()
        where = f"{name} bit {place}"
        if problem := _unexpected(ended):
            figures.defects.append(f"{where}: {problem}")
        elif ended.code:
            is_named = any(part in ended.err for part in (name.name, name.parent.name))
            figures.count("named" if is_named else "refused")
        elif (folder / name).read_bytes() != bytes(content):
            found = made(folder / bench.subject.product)
            if found == bench.expected:
                figures.count("made again")
            else:
                figures.defects.append(f"{where}: made again, with other bytes")
        elif ended.out == printed:
            figures.count("not read, or no number moved")
        else:
            figures.defects.append(f"{where}: unnoticed, and the output differs")
    return figures


ATTACKS: dict[str, Callable[[Bench, int], Figures]] = {
    "kill -9": kill,
    "failed write": fail,
    "full disk": fill,
    "bit flip": flip,
}


@contextmanager
def _disk(folder: Path, kibibytes: int) -> Iterator[Callable[[], None]]:
    """Mount a small disk in memory at a folder; the function that it gives makes it large."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)], check=True
    )

    def grow() -> None:
        subprocess.run(["mount", "-o", "remount,size=1g", str(folder)], check=True)

    try:
        yield grow
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _unexpected(ended: Ended) -> str:
    """Return the code and the last lines if a command ended in another way than with a message."""
    is_expected = ended.code in (0, 1, 2) and "Traceback" not in ended.err
    return "" if is_expected else f"code {ended.code}: {_last(ended)}"


def _last(ended: Ended) -> str:
    lines = [line for line in ended.err.splitlines() if line.strip()]
    return " | ".join(lines[-2:])[-300:]
