"""Make: one item of a sweep, from what is there of it to its end."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders import EncoderOptions, load_encoder
from polarity_bench.encoders.base import base_reference
from polarity_bench.errors import InputError
from polarity_bench.kinds import choose_tasks, load_tasks
from polarity_bench.kinds.senteval.classifiers import single_threaded
from polarity_bench.kinds.task import Settings
from polarity_bench.suite import Contest, run_suite
from polarity_bench.sweeps.grid import Item, Setup, Training
from polarity_bench.sweeps.state import GREATEST_ATTEMPTS, Outcome, SweepState
from polarity_bench.training.folder import base_of
from polarity_bench.training.run import train


def make(item: Item, setup: Setup, state: SweepState) -> Outcome:
    """Make an item that is held, and write what came of it; an error is what came of it too."""
    begun = time.perf_counter()
    lost = state.begin(item.digest)
    if lost >= GREATEST_ATTEMPTS:
        why = f"the process that makes it ended {lost} times, of memory perhaps"
    else:
        with _one_thread():
            why = _attempt(item, setup, state.log(item.digest))
    seconds = time.perf_counter() - begun
    outcome = Outcome("failed" if why else "done", item.name, why, round(seconds, 3))
    state.record(item.digest, outcome)
    return outcome


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread, since sums, and so weights, depend on how many there are.

    Holding the libraries to one alone was seen to give other weights beside other processes.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with single_threaded():
            yield
    finally:
        torch.set_num_threads(before)


def _attempt(item: Item, setup: Setup, log: Path) -> str:
    """Make an item, what is said meanwhile into its log; return why it failed."""
    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            _make(item, setup)
        except InputError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  one that fails must not stop the others
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"
    return ""


def _make(item: Item, setup: Setup) -> None:
    if isinstance(item, Training):
        train(item.job)
        own = replace(item.job.options, revision=None, prompt=None, max_tokens=None)
        _evaluate(str(item.job.output), own, item.tasks, setup)
    else:
        _evaluate(item.model, item.options, item.tasks, setup)


def _evaluate(model: str, options: EncoderOptions, tasks: Sequence[str], setup: Setup) -> None:
    """Evaluate an encoder, by its base if it has one, into the results of the sweep."""
    access = setup.access()
    specs = choose_tasks(load_tasks(setup.task_dir), names=list(tasks))
    loaded = [spec.load(access, Settings()) for spec in specs]
    encoder = load_encoder(model, options)
    reference = base_reference(encoder, base_of(model), setup.options)
    with EmbeddingStore() if setup.store else nullcontext() as store:
        contest = Contest(encoder, reference, Embedder(store))
        report = run_suite(contest, loaded, setup.output / "results")
    if report.failures:
        raise InputError("; ".join(f"{task}: {why}" for task, why in report.failures.items()))


def check(items: Sequence[Item], setup: Setup) -> None:
    """Load every base and every data set once, before anything is made.

    Raises:
        InputError: If one cannot be had.
    """
    tasks = dict.fromkeys(task for item in items for task in item.tasks)
    for spec in choose_tasks(load_tasks(setup.task_dir), names=list(tasks)):
        spec.load(setup.access(), Settings())
    for item in items:
        if isinstance(item, Training):
            item.job.recipe.check()
    encoders = {
        (item.job.model, item.job.options)
        if isinstance(item, Training)
        else (item.model, item.options)
        for item in items
    }
    for model, options in sorted(encoders, key=str):
        load_encoder(model, options)
