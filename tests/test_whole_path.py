"""What moves no printed digit: order of rows, batches, workers, threads, and a warm store."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from standins import call, tiny_encoder, write_task

SUBJECTS = ("soup", "bus", "room", "film", "coat", "road", "song", "chair", "lamp", "letter")
OPINIONS = {"0": ("cold and dull", "late", "broken"), "1": ("warm and bright", "early", "new")}
PLACES = ("in the hall", "at noon", "as we left")
ROWS = [
    (f"The {subject} was {opinion} {place}.", label)
    for subject in SUBJECTS
    for label, opinions in OPINIONS.items()
    for opinion in opinions
    for place in PLACES
]
Printed = Callable[..., str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that knows all words, so that no two texts are equal to it.

    The similarities of neighbours differ by more than 8e-6, and those of float32 by 1e-7 between
    machines, so no rank depends on rounding.
    """
    words = sorted({word for text, _ in ROWS for word in re.findall(r"\w+|\.", text.lower())})
    return tiny_encoder(tmp_path_factory.mktemp("models") / "tiny", words)


@pytest.fixture
def printed(
    encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Printed:
    """Evaluate an encoder on a task whose rows are in a random order, and return the table."""

    def printed(
        *options: str | Path, order: int = 0, store: str = "store", model: str | Path = encoder
    ) -> str:
        draw, folder = random.Random(order), tmp_path / f"task-{order}"
        folder.mkdir(exist_ok=True)
        queries = random.Random(0).sample(ROWS, 40)
        sources = [row for row in ROWS if row not in queries]
        draw.shuffle(queries)
        draw.shuffle(sources)
        write_task(folder, sources=sources, queries=queries)
        monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / store))
        places: list[str | Path] = ["--task-dir", folder, "--model", model, "--tasks", "mini"]
        output = tmp_path / f"results-{len(list(tmp_path.iterdir()))}"
        done = call(monkeypatch, capsys, "run", *places, "--output", output, *options)
        assert done.code == 0, done.err
        return done.out.replace(str(output), "OUTPUT")

    return printed


def test_no_printed_digit_depends_on_batches_workers_or_the_store(printed: Printed) -> None:
    first = printed()
    assert first.count("|") > 20
    assert printed() == first, "warm store"
    assert printed("--no-store") == first
    for size in ("1", "7", "64"):
        assert printed("--batch-size", size, store=f"batches-{size}") == first, f"batches of {size}"
    for n_workers in ("1", "2"):
        assert printed("--workers", n_workers, store=f"workers-{n_workers}") == first


def test_no_printed_digit_depends_on_the_number_of_threads(printed: Printed) -> None:
    first, before = printed(), torch.get_num_threads()
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        try:
            assert printed(store=f"threads-{n_threads}") == first, f"{n_threads} threads"
        finally:
            torch.set_num_threads(before)


def test_no_printed_score_depends_on_the_order_of_the_rows(printed: Printed) -> None:
    """Intervals do, a little: their samples are drawn by the places of the queries."""
    first, *others = (
        re.sub(r"(\[[^]]*\]|[ -])+", " ", printed(order=order, store=str(order), model="random"))
        for order in range(6)
    )
    assert "41.25" in first
    assert others == [first] * 5
