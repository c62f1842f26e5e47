"""Command lines that run in this process, or several in one other process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str


Bench = Callable[..., Done]
"""Function that runs a command line with the given arguments."""


_BUILD = typer.main.get_command


@cache
def _built(app: Any) -> Any:
    """Build the parser of all commands once, which takes as long as a short command."""
    return _BUILD(app)


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> Done:
    """Run a command line in this process."""
    from polarity_bench.cli import app

    monkeypatch.setattr("typer.main.get_command", _built)
    monkeypatch.setattr(sys, "argv", ["polarity-bench", *map(str, arguments)])
    code: object = 0
    try:
        app.main()
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    assert isinstance(code, int)
    return Done(code, captured.out, captured.err)


_SEVERAL = """
import contextlib, functools, io, json, sys

begin, before, lines = json.loads(sys.argv[1])
exec(begin)
import typer.main
from polarity_bench.cli.app import main

typer.main.get_command = functools.cache(typer.main.get_command)
for step, words in zip(before, lines):
    exec(step)
    sys.argv = ["polarity-bench", *words]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def call_several(
    lines: Sequence[Sequence[str | Path]],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    *,
    begin: str = "",
    before: Sequence[str] = (),
) -> list[Done]:
    """Run command lines, one after the other in one new process, which imports once for all.

    Args:
        lines: Arguments of each command line.
        cwd: Folder of the process.
        env: Environment of the process; by default, that of this process.
        begin: Code to run before the package is imported.
        before: Code to run before each command line, if any.
    """
    steps = before or [""] * len(lines)
    given = json.dumps([begin, steps, [list(map(str, words)) for words in lines]])
    done = subprocess.run(
        [sys.executable, "-c", _SEVERAL, given],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = [Done(*json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(lines)
    return found


def exit_code_of_copy(run: Callable[[], object]) -> int:
    """Run a function in a forked copy of this process, which need not import anything again.

    Returns:
        The exit code of the copy: 0 if the function returned, 1 if it raised an exception, and
        minus the number of the signal that ended it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: there are threads
        copy = os.fork()
    if copy == 0:
        code = 1
        try:
            run()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
