"""Fixtures for all tests, which isolate them from the user's caches and data and the network."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import tempfile

# One thread for each process, since two workers share the cores. The libraries read this when they
# are imported, child processes inherit it.
os.environ |= dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from standins import Bench, Done, HashEncoder, Workshop, call, tiny_encoder, write_task

from polarity_bench.embedding import store_file
from polarity_bench.training import history

DATA = os.environ.get("POLARITY_BENCH_DATA")
MTEB_CACHE = tempfile.TemporaryDirectory(prefix="mteb-")  # mteb makes its cache on import
os.environ["MTEB_CACHE"] = MTEB_CACHE.name
os.environ["HF_HUB_OFFLINE"] = "1"  # the hub's libraries read it on import
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

PLOT = history.plot

settings.register_profile("suite", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import without garbage collections, which would find next to nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude what imports made from garbage collections, which trainings ask for."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    MTEB_CACHE.cleanup()


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Numbered folders in one folder: pytest looks through all of its own to make the next."""
    caches = tmp_path_factory.mktemp("caches")
    return (caches / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = next(_caches)
    folder.mkdir()
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # restored if a command changes it


@pytest.fixture
def minilm_vectors(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Share stored vectors with the other tests that ask for this, in all processes of xdist."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(shared / "minilm-vectors"))


@pytest.fixture(autouse=True)
def _own_mteb_tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove a test's own tasks from mteb's registry, since the next test may have others."""

    def registered() -> Any:
        module: Any = sys.modules.get("mteb.get_tasks")
        return module and (module.TASK_LIST, len(module._TASKS_REGISTRY or ()))

    before = registered()
    yield
    module: Any = sys.modules.get("mteb.get_tasks")
    if module is not None and registered() != before:
        made = tmp_path_factory.getbasetemp()
        tasks = module._TASKS_REGISTRY or {}  # a test sets it to None
        own = {n: t for n, t in tasks.items() if hasattr(t, "spec") and made in t.spec.file.parents}
        for name in own:
            del tasks[name]
        module.TASK_LIST = tuple(t for t in module.TASK_LIST if t not in own.values())


@pytest.fixture(autouse=True)
def _no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait until the disk holds a file, since no test cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(store_file, "SYNCHRONOUS", "OFF")


@pytest.fixture(autouse=True)
def _no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the history of a training as text, since its figure takes as long as the training."""

    def text(rows: object, title: str) -> bytes:
        return f"{title}: {rows}".encode()

    monkeypatch.setattr(history, "plot", text)


@pytest.fixture
def drawn_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the histories of trainings, as outside of tests."""
    monkeypatch.setattr(history, "plot", PLOT)


@pytest.fixture(scope="session", autouse=True)
def _no_data_by_default() -> None:
    """No test reads POLARITY_BENCH_DATA. The processes of xdist inherit it before this."""
    os.environ.pop("POLARITY_BENCH_DATA", None)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets, from POLARITY_BENCH_DATA when pytest began."""
    if DATA is None:
        pytest.skip("POLARITY_BENCH_DATA names no folder with the real data sets")
    return Path(DATA)


@pytest.fixture
def hash_encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    """A folder with the task `mini`: 24 sources, 8 queries, k = 4."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder)
    return folder


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "made")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tiny_encoder`, which knows the words of `mini`; copy it before changing it."""
    return tiny_encoder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def sentence_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder that knows a few words and declares prompts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    words = ["the", "a", "film", "was", "good", "bad", "not", "very", "query", ":", "."]
    prompts = {"query": "query: ", "document": "the "}
    return tiny_encoder(folder, words, n_layers=1, width=16, max_tokens=32, prompts=prompts)


@pytest.fixture(scope="session")
def bert(sentence_bert: Path) -> Path:
    """A folder with the plain transformer of `sentence_bert`."""
    return sentence_bert.with_name("tiny-bert")


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    """Return a function that runs a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments)

    return bench
