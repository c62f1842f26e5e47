"""The page of `make chaos` shows its record, and its short form breaks no promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.__main__ import PAGE, RECORD, page, table
from chaos.children import can_trace


def test_the_page_shows_the_figures_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, record) == text
    assert table(record["figures"]) in text
    assert {"kill -9", "fuzz"} <= {each["attack"] for each in record["figures"]}


@pytest.mark.slow
@pytest.mark.skipif(not can_trace(), reason="needs strace, and the right to attach to a process")
def test_the_short_form_breaks_no_promise() -> None:
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--short"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    broken = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    assert (done.returncode, broken) == (0, []), done.stderr[-2000:]
    assert done.stdout.count("\nfuzz ") == 33
