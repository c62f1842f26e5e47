"""Command lines that run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str


Bench = Callable[..., Done]
"""Function that runs a command line with the given arguments."""


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> Done:
    """Run a command line in this process."""
    from polarity_bench.cli import app

    monkeypatch.setattr(sys, "argv", ["polarity-bench", *map(str, arguments)])
    code: object = 0
    try:
        app.main()
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    assert isinstance(code, int)
    return Done(code, captured.out, captured.err)
