"""Execution of one item of a sweep, from its existing files to its end."""

from __future__ import annotations

import math
import os
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import AbsentEncoder, EncoderId
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.encoders.reference_encoder import ReferenceWarning, base_of, base_reference
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
from polarity_bench.sweeps.item_states import (
    GREATEST_ATTEMPTS,
    ItemFiles,
    ItemOutcome,
    SweepState,
    files_of,
)
from polarity_bench.sweeps.items import CrossValidation, Evaluation, Item, Setup, Training
from polarity_bench.sweeps.plan import check_encoder
from polarity_bench.sweeps.validation_blocks import check_validations, cross_validate
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.data import check_trainable
from polarity_bench.training.train import check_base, train

_TOKENIZERS = "TOKENIZERS_PARALLELISM"


def make(item: Item, setup: Setup, state: SweepState) -> ItemOutcome:
    """Make an item whose lock is held, and record its outcome; an error is an outcome too."""
    begun = time.perf_counter()
    made = ItemFiles()
    lost = state.begin(item.digest, setup.driver)
    if lost >= GREATEST_ATTEMPTS:
        why = f"the process that makes it ended {lost} times, of memory perhaps"
    else:
        with _one_thread():
            made, why = _attempt(item, setup, state.log(item.digest))
    seconds = round(time.perf_counter() - begun, 3)
    how: Literal["done", "failed"] = "failed" if why else "done"
    outcome = ItemOutcome(how, item.name, why, seconds, scores=made.scores, files=made.files)
    state.record(item.digest, outcome)
    return outcome


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread, since sums, and so weights, depend on the number of threads.

    Tokenizers use one thread too: sixteen processes whose tokenizers each used all cores brought a
    machine to a halt.
    """
    tokenizers = os.environ.get(_TOKENIZERS)
    os.environ[_TOKENIZERS] = "false"
    try:
        with single_threaded():
            yield
    finally:
        if tokenizers is None:
            del os.environ[_TOKENIZERS]
        else:
            os.environ[_TOKENIZERS] = tokenizers


def _attempt(item: Item, setup: Setup, log: Path) -> tuple[ItemFiles, str]:
    """Make an item with its output in its log; return what was made and why it failed, or ''."""
    with log.open("a", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            return _make(item, setup), ""
        except InputError as error:
            return ItemFiles(), str(error)
        except Exception as error:  # noqa: BLE001  a failed item must not stop the others
            traceback.print_exc()
            return ItemFiles(), f"{type(error).__name__}: {error}"


def _make(item: Item, setup: Setup) -> ItemFiles:
    if isinstance(item, Evaluation):
        return _evaluate(
            item.model, item.options, item.tasks, setup, protocols=item.protocols, keep=True
        )
    if isinstance(item, CrossValidation):
        return cross_validate(item, setup)
    # Two items may share a job: one of the grid, and one of the same grid with fewer tasks.
    job = item.job
    with SweepState(setup.output).alone(job.output.name):
        train(job, check=partial(check_encoder, setup.output, job.model, job.options))
    own = replace(job.options, revision=None, prompt=None, max_tokens=None)
    return _evaluate(str(job.output), own, item.tasks, setup, keep=False)


def _evaluate(
    model: str,
    options: EncoderOptions,
    tasks: Sequence[str],
    setup: Setup,
    *,
    protocols: Settings | None = None,
    keep: bool,
) -> ItemFiles:
    """Evaluate an encoder and store its results in the sweep; its base, if any, is the reference.

    Embeddings are stored for bases only, since other items need them again.
    """
    access = setup.access()
    specs = choose_tasks(load_tasks(setup.task_dir), names=list(tasks))
    loaded = [spec.load(access, protocols or Settings()) for spec in specs]
    encoder = load_encoder(model, options)
    if keep:
        check_encoder(setup.output, model, options, encoder.id)
    silent = warnings.catch_warnings(action="ignore", category=ReferenceWarning)
    with nullcontext() if keep else silent:  # an error for training runs, see below
        reference = base_reference(encoder, base_of(model), setup.options)
    if isinstance(reference, AbsentEncoder) and not keep:
        raise InputError(
            f"{reference.why}; in a sweep, put the base back, then run the same command again with "
            "`retry_failed`"
        )
    device = getattr(encoder, "device", None)
    with EmbeddingStore() if setup.store else nullcontext() as store:
        kept = Embedder.on(device, store)
        contest = EvaluationPlan(
            encoder,
            reference,
            kept if keep else Embedder.on(device),
            reference_embedder=kept,
            model=model,
        )
        report = run_suite(contest, loaded, setup.output / "results")
    if report.failures:
        raise InputError("; ".join(f"{task}: {why}" for task, why in report.failures.items()))
    main = {result.task: result.main.mean for result, _ in report.results}
    scores = {task: value for task, value in main.items() if not math.isnan(value)}
    return ItemFiles(scores, files_of((path for _, path in report.results), setup.output))


def check(items: Sequence[Item], task_dir: Path | None = None) -> dict[str, EncoderId]:
    """Load every base once, and check that every training run can begin, before anything is made.

    Data of cross-validations are loaded and divided too.

    Returns:
        The encoders of evaluations and cross-validations, by item.

    Raises:
        InputError: If an encoder or data are not available, or an item cannot begin.
    """
    trainings = [item for item in items if isinstance(item, Training)]
    recipes = [item.job.recipe for item in trainings]
    alike = {(type(recipe), *sorted(recipe.needs)): recipe for recipe in recipes}
    for recipe in alike.values():
        recipe.check()
    specs = load_tasks(task_dir)
    for task in dict.fromkeys(item.job.task for item in trainings):
        check_trainable(specs[task])
    trained = {item.after for item in trainings}
    named: dict[str, EncoderId] = {}
    alike_of: dict[tuple[EncoderId, str], str] = {}
    for each in items:
        if isinstance(each, Evaluation):
            encoder = load_encoder(each.model, each.options)
            if each.digest in trained:
                check_base(encoder, each.model)
            other = alike_of.setdefault((encoder.id, str(each.said)), each.model)
            if other != each.model:
                raise InputError(
                    f"`model` {other} and {each.model} are one encoder, {encoder.id.name}; name it "
                    "in one way"
                )
            named[each.digest] = encoder.id
    return named | check_validations(items)
