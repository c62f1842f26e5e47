"""The page of `make chaos` shows its record, and its short form breaks no promise."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from chaos.__main__ import PAGE, RECORD, page, table
from chaos.attacks import Figures
from chaos.children import can_trace
from chaos.mutations import mutate


def test_the_page_shows_the_figures_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, record) == text
    assert table(record["figures"]) in text
    assert {"kill -9", "fuzz"} <= {each["attack"] for each in record["figures"]}


SAMPLES = {
    ".toml": b'title = "x"\nrows = 3\n[splits.query]\npath = "a.csv"\nlabels = ["a", "b"]\n',
    ".json": b'{"scores": {"test": [{"a": 0.5, "b": null}]}, "date": 3}',
    ".jsonl": b'{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n',
    ".csv": b"text,label\na,1\nb,0\n",
}
PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    ".csv": lambda text: [*csv.reader(io.StringIO(text), strict=True)],
}


@pytest.mark.parametrize("suffix", SAMPLES)
def test_a_number_determines_a_mutation_and_many_keep_the_format(suffix: str) -> None:
    made = [mutate(SAMPLES[suffix], random.Random(number), suffix) for number in range(200)]
    assert made == [mutate(SAMPLES[suffix], random.Random(number), suffix) for number in range(200)]
    assert len(set(made)) > 150
    n_parsed = 0
    for content in made:
        with suppress(ValueError, RecursionError, csv.Error):
            PARSERS[suffix](content.decode())
            n_parsed += 1
    assert n_parsed > 80


def test_figures_of_two_runs_are_added() -> None:
    figures = Figures("fuzz", "x", 3, {"read": 2, "refused": 1}, ["a"], 2.5)
    figures.add(Figures("fuzz", "x", 1, {"read": 1}, [], 1.0))
    assert figures == Figures("fuzz", "x", 4, {"read": 3, "refused": 1}, ["a"], 3.5)


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
    assert done.stdout.count("\nfuzz ") == 46
