"""Execution of one item of a sweep, if no other process has its lock, and the checks before."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import AbsentEncoder, Encoder, EncoderId
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.encoders.reference_encoder import default_reference
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
from polarity_bench.registers import plugin_failure
from polarity_bench.sweeps.items import CrossValidation, Evaluation, Item, Setup, Training
from polarity_bench.sweeps.plan import check_encoder
from polarity_bench.sweeps.state_files import (
    GREATEST_ATTEMPTS,
    ItemOutcome,
    SweepState,
)
from polarity_bench.sweeps.validation_blocks import check_validations, cross_validate
from polarity_bench.tasks.catalogue import choose_task, choose_tasks, load_tasks
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.data import check_trainable
from polarity_bench.training.train import load_base, train


def make_if_free(item: Item, setup: Setup, state: SweepState) -> bool:
    """Run an item unless the item has ended or another process is running it.

    Returns:
        Whether this process ran the item.
    """
    with state.try_lock(item.digest) as free:
        if is_left := free and state.outcome(item.digest) is None:
            make(item, setup, state)
        return is_left


def make(item: Item, setup: Setup, state: SweepState) -> ItemOutcome:
    """Run an item that this process has locked, record the outcome and return it.

    If the item raises an error, its outcome is `failed`.
    """
    start = time.perf_counter()
    lost = state.begin(item.digest, setup.driver)
    if lost >= GREATEST_ATTEMPTS:
        why = f"the worker process ended {lost} times, perhaps because memory ran out"
        outcome = ItemOutcome("failed", item.name, why)
    else:
        # The rounding of sums, and so the weights, depends on the number of threads. Tokenizers are
        # single-threaded too: 16 processes, each with one thread per core, stalled a machine.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with single_threaded():
            outcome = _attempt(item, setup, state.log(item.digest))
    outcome = replace(outcome, seconds=round(time.perf_counter() - start, 3))
    state.record(item.digest, outcome)
    return outcome


def _attempt(item: Item, setup: Setup, log: Path) -> ItemOutcome:
    """Run an item, redirect its output to its log, and return errors as failed outcomes."""
    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            return _make(item, setup)
        except InputError as error:
            return ItemOutcome("failed", item.name, str(error))
        except Exception as error:  # noqa: BLE001  a failed item must not stop the others
            traceback.print_exc()
            problem = plugin_failure(error) or f"{type(error).__name__}: {error}"
            return ItemOutcome("failed", item.name, str(problem))


def _make(item: Item, setup: Setup) -> ItemOutcome:
    """Run an item of any kind."""
    if isinstance(item, CrossValidation):
        return cross_validate(item, setup)
    if isinstance(item, Evaluation):
        return _evaluate(item, item.model, item.options, setup)
    # An earlier version of the grid with other tasks may have an item with the same job, so the
    # folder of the job is locked too.
    job = item.job
    with SweepState(setup.output).wait_for_lock(job.output.name):
        train(job, check=partial(check_encoder, setup.output, job.model, job.options))
    return _evaluate(item, str(job.output), job.options.of_others, setup)


def _evaluate(
    item: Training | Evaluation, model: str, options: EncoderOptions, setup: Setup
) -> ItemOutcome:
    """Evaluate an encoder and store the results in the folder of the sweep.

    The reference is the encoder's base, or the encoder itself if it has no base. Only embeddings of
    untrained encoders are cached, because other items reuse them.

    Raises:
        InputError: If a task fails, the encoder has changed, or the base of a training run is not
            available.
    """
    is_trained = isinstance(item, Training)
    settings = Settings() if isinstance(item, Training) else item.protocols
    specs = choose_tasks(load_tasks(setup.task_dir), names=list(item.tasks))
    loaded = [spec.load(setup.access(), settings) for spec in specs]
    encoder = load_encoder(model, options)
    if not is_trained:
        check_encoder(setup.output, model, options, encoder.id)
    reference = default_reference(encoder, setup.options, _require if is_trained else None)
    with EmbeddingStore() if setup.store else nullcontext() as store:
        caching = Embedder.on(encoder, store)
        plan = EvaluationPlan(
            encoder,
            reference,
            Embedder.on(encoder) if is_trained else caching,
            reference_embedder=caching,
        )
        report = run_suite(plan, loaded, setup.output / "results")
    if report.uncounted:
        print(report.uncounted)  # to the item's log
    if report.failures:
        raise InputError("; ".join(f"{task}: {why}" for task, why in report.failures.items()))
    return ItemOutcome.of_results(item.name, report.results, setup.output)


def _require(base: Encoder) -> None:
    """Raise InputError if the base of a training run is not available."""
    if isinstance(base, AbsentEncoder):
        raise InputError(
            f"{base.why}; restore the base encoder, then run the same command again with "
            "`retry_failed`"
        )


def check(items: Sequence[Item], setup: Setup) -> dict[str, EncoderId]:
    """Load all encoders and check that every item can start, before any item is run.

    The data of cross-validations are loaded and divided into folds too.

    Returns:
        The encoders of evaluations and cross-validations, by the digest of the item.

    Raises:
        InputError: If an encoder or data is not available, or if an item cannot start.
    """
    trainings = [item for item in items if isinstance(item, Training)]
    for item in trainings:
        item.job.recipe.check()
    known = load_tasks(setup.task_dir)
    for task in dict.fromkeys(item.job.task for item in trainings):
        check_trainable(choose_task(known, task))
    trained = {item.after for item in trainings}
    encoders: dict[str, EncoderId] = {}
    first_names: dict[tuple[EncoderId, str], str] = {}
    for each in items:
        if isinstance(each, Evaluation):
            load = load_base if each.digest in trained else load_encoder
            encoder = load(each.model, each.options)
            other = first_names.setdefault((encoder.id, str(each.given)), each.model)
            if other != each.model:
                raise InputError(
                    f"`model` {other} and {each.model} are the same encoder, {encoder.id.name}; "
                    "use one of these names only"
                )
            encoders[each.digest] = encoder.id
    return encoders | check_validations(items, setup)
