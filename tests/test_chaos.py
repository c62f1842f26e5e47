"""The short form of `make chaos`, and the figures on the page of the long form."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from chaos.__main__ import PAGE, RECORD, REPOSITORY, TRIALS, page, table
from chaos.children import can_trace
from chaos.subjects import SUBJECTS


@pytest.mark.slow
def test_no_short_attack_breaks_a_promise() -> None:
    if not can_trace() or os.geteuid() != 0:
        pytest.skip("needs strace, and root to mount small disks")
    words = [sys.executable, "-m", "chaos", "--short", "--seed", "1"]
    done = subprocess.run(
        words, cwd=REPOSITORY / "tests", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "BROKEN" not in done.stdout


def test_the_page_shows_the_figures_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, record) == text
    assert table(record["figures"]) in text
    attacked = {each["subject"] for each in record["figures"]}
    assert attacked >= {subject.name for subject in SUBJECTS}
    kills = sum(each["n"] for each in record["figures"] if each["attack"] == "kill -9")
    assert kills >= 0.8 * TRIALS["kill"] * (len(SUBJECTS) - 1)
