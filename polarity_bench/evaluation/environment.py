"""What a result or a trained encoder records of the process that made it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("polarity-bench", "mteb", "sentence-transformers", "transformers", "torch", "numpy")


def environment(device: str | None = None) -> dict[str, str]:
    """Return the command, platform, package versions, device and commit for the provenance."""
    facts = {"python": platform.python_version(), "platform": platform.platform()}
    if command := command_line():
        facts["command"] = command
    if commit := _commit():
        facts["commit"] = commit
    return facts | _versions() | ({"device": device} if device else {})


@cache
def _versions() -> dict[str, str]:
    """Return the versions of the packages that compute scores, of those that are installed."""
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def command_line() -> str:
    """Return the command line of this process, or '' in an interactive session."""
    if not sys.argv[0]:
        return ""
    program = Path(sys.argv[0])
    is_ours = (program.parent.name, program.name) == ("polarity_bench", "__main__.py")
    return shlex.join(["polarity-bench" if is_ours else program.name, *sys.argv[1:]])


@cache
def _commit() -> str | None:
    """Return the git commit of this package, with `-dirty` after changes; None without git."""
    root = Path(__file__).parents[2]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    # `describe --dirty` would lock the index, and leave the lock behind if it is killed.
    words = [git, "--no-optional-locks", "status", "--porcelain=v2", "--branch"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    status = subprocess.run(  # noqa: S603  no shell
        [*words, "--untracked-files=no"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env=env,
    ).stdout
    commit = re.search(r"^# branch\.oid ([0-9a-f]{12})", status, re.MULTILINE)
    is_dirty = any(not line.startswith("#") for line in status.splitlines())
    return f"{commit[1]}{'-dirty' * is_dirty}" if commit else None
