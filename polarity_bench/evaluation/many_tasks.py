"""Evaluation of one encoder on many tasks: stored results are reused, failures do not end it.

The output folder is checked before any text is encoded. A stored result is reused if it has the
same task, data, encoder, reference encoder and protocol, if it has the scores of all installed
metrics in their present versions, and if its values per query are stored too. The texts of all
other tasks are embedded together. Then each task is scored and its result is stored. If a task
fails, the other tasks are still scored. With several workers, tasks that need a single core and
little memory are scored in worker processes, in parallel with the other tasks.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder, Usage
from polarity_bench.encoders.base import AbsentEncoder, CorpusEncoder, Encoder, TaskEncoder
from polarity_bench.encoders.probe import check_probe
from polarity_bench.encoders.train_file import training_of
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import Contamination, SeenRows
from polarity_bench.evaluation.one_task import (
    embed_tasks,
    experiment_name,
    other_reference,
    result_key,
    score_task,
    training_facts,
)
from polarity_bench.files import check_writable
from polarity_bench.metrics.register import versions_of_scores
from polarity_bench.progress import Bar, Progress, no_bar
from polarity_bench.registers import plugin_failure
from polarity_bench.results.packed_results import is_stored
from polarity_bench.results.result_files import (
    Result,
    has_values_per_query,
    place,
    read_result,
    write_result,
)
from polarity_bench.tasks.senteval.classifiers import single_threaded_processes
from polarity_bench.tasks.types.base import Task


@dataclass(frozen=True)
class EvaluationPlan:
    """Encoder under test, reference encoder, and settings for embedding and scoring.

    Attributes:
        encoder: Encoder under test.
        reference: Reference encoder for S; None if it is the encoder under test.
        embedder: Embedder for the encoder under test.
        workers: Number of processes for scoring.
        bar: Function that opens a progress bar.
        reference_embedder: Embedder for the reference encoder; None uses `embedder`.
        reference_is_default: Whether the user did not choose the reference.
        contamination: Counts the rows that the encoder was trained on; None counts those of the
            evaluated tasks. Plans of one encoder at several strengths share it.
    """

    encoder: Encoder
    reference: Encoder | None = None
    embedder: Embedder = field(default_factory=Embedder)
    workers: int = 1
    bar: Bar = no_bar
    reference_embedder: Embedder | None = None
    reference_is_default: bool = True
    contamination: Contamination | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", other_reference(self.encoder, self.reference))

    def embed(
        self, encoder: Encoder, tasks: Sequence[Task], progress: Progress | None = None
    ) -> EmbeddedTexts:
        """Embed the texts of tasks with the encoder under test or the reference encoder."""
        embedder = self.reference_embedder if encoder is self.reference else None
        return embed_tasks(embedder or self.embedder, encoder, tasks, progress)

    def reference_for(self, task: Task) -> Encoder | None:
        """Return the reference encoder, or None if the task does not use a reference."""
        return self.reference if task.uses_reference else None


@dataclass
class SuiteReport:
    """Results and failures of one encoder on several tasks.

    Attributes:
        results: Results, in the order of the tasks.
        reused: Names of the tasks with reused results.
        failures: Error message of each failed task, by task name.
        unexpected: Whether any failure was not an `InputError`.
        usage: Text counts and times of the embedding, by encoder label.
        warnings: Problems that did not cause a failure.
        uncounted: Why texts seen in training could not be counted, if the file with the training
            texts or a result is damaged or not writable.
    """

    results: list[Result] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    unexpected: bool = False
    usage: dict[str, Usage] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    uncounted: str = ""

    @property
    def exit_code(self) -> int:
        """Exit code: 0 if no task failed, 2 if all failed with input errors, otherwise 1."""
        if not self.failures:
            return 0
        return 1 if self.results or self.unexpected else 2

    def add(self, attempt: _Attempt) -> None:
        """Add the result or the failure of a task to the report."""
        if attempt.result is not None:
            self.results.append(attempt.result)
        else:
            self.failures[attempt.task] = attempt.failure
            self.unexpected |= attempt.unexpected


def run_suite(
    plan: EvaluationPlan, tasks: Sequence[Task], output: Path, *, overwrite: bool = False
) -> SuiteReport:
    """Evaluate an encoder on tasks, and store each result as soon as it is computed.

    Args:
        plan: Encoders, and settings for embedding and scoring.
        tasks: Tasks to evaluate.
        output: Folder of the results.
        overwrite: Whether to recompute results that are current.

    Raises:
        InputError: If the output folder is not writable; no text is encoded in this case.
    """
    check_writable(output)
    contamination = plan.contamination or Contamination(training_of(plan.encoder), tasks, output)
    report = SuiteReport()
    pending = []
    for task in tasks:
        try:
            stored = _stored(task, plan, output, overwrite, report)
        except InputError as error:  # The stored result is of another encoder or task.
            report.failures[task.spec.name] = str(error)
            continue
        if stored is None:
            pending.append(task)
        else:
            report.results.append(contamination.count_again(task, stored))
            report.reused.append(task.spec.name)
    if pending:
        _evaluate(plan, pending, output, report, contamination.of)
    report.uncounted = contamination.problem
    order = [task.spec.name for task in tasks]
    report.results.sort(key=lambda result: order.index(result.task))
    return report


def _stored(
    task: Task, plan: EvaluationPlan, output: Path, overwrite: bool, report: SuiteReport
) -> Result | None:
    """Return the stored result of this evaluation, or None if it is to be computed.

    The report gets a warning if a result of other data is to be replaced.

    Raises:
        InputError: If the file has the result of another task or encoder, which would be lost.
    """
    encoder, reference = plan.encoder.id, plan.reference_for(task)
    reference_id = reference.id if reference else None
    key = result_key(task, encoder, reference_id)
    path = place(output, encoder, experiment_name(task, reference_id), task.spec.result_name)
    try:
        result = read_result(path) if is_stored(path) else None
    except InputError:
        return None  # The file is incomplete or from another version, so replace it.
    if result is None:
        return None
    if result.task != task.spec.name:
        raise InputError(
            f"{task.spec.file}: {path} has the result of the task {result.task!r}; set another "
            "`mteb_name` in the task file, or choose another `output`"
        )
    if overwrite:
        return None
    if result.key.data != key.data:
        report.warnings.append(
            f"{path}: the stored result, of other texts, labels or columns, is replaced; to keep "
            "both, use another `output`, or another name of the task"
        )
    stored, versions = result.environment, versions_of_scores() if task.spec.has_k else {}
    is_current = result.key.digest == key.digest and task.has_all(result.scores)
    is_current &= all(stored.get(name, "1") == version for name, version in versions.items())
    if not is_current or not has_values_per_query(result):
        return None
    check_probe(result.key.encoder, encoder, path)
    if reference and result.key.reference:
        check_probe(result.key.reference, reference.id, path)
    return result


def _evaluate(
    plan: EvaluationPlan,
    pending: Sequence[Task],
    output: Path,
    report: SuiteReport,
    seen_rows: Callable[[Task], SeenRows | None],
) -> None:
    begun = time.perf_counter()
    shared = _embed_all(plan, plan.encoder, pending, report)
    referring = [task for task in pending if plan.reference_for(task)]
    shared_by_reference = _embed_all(plan, plan.reference, referring, report)
    shared_seconds = time.perf_counter() - begun
    device = getattr(plan.encoder, "device", None)
    score = partial(
        _score,
        reference_is_default=plan.reference_is_default,
        device=device,
        trained=training_facts(plan.encoder),
    )

    def make(task: Task) -> Result:
        """Score a task; if its texts are not embedded yet, embed them first."""
        begun = time.perf_counter()
        name, reference = task.spec.name, plan.reference_for(task)
        embedded = shared.get(name) or plan.embed(plan.encoder, [task])
        by_reference = None
        if reference:
            by_reference = shared_by_reference.get(name) or plan.embed(reference, [task])
        seconds = shared_seconds + time.perf_counter() - begun
        return score(task, embedded, by_reference, seconds, seen_rows(task))

    parallel: dict[str, Callable[[], Result]] = {}
    if plan.workers > 1 and len(pending) > 1:
        parallel = {
            name: partial(
                score, small, shared[name].part(task.texts), None, shared_seconds, seen_rows(task)
            )
            for name, task in ((task.spec.name, task) for task in pending)
            if name in shared and not task.uses_reference
            if (small := _for_one_core(task, shared[name].n_dimensions))
        }
    with plan.bar("scoring", len(pending)) as advance:
        attempts = _attempt_in_processes(parallel, output, plan.workers)
        for task in pending:
            if task.spec.name not in parallel:
                report.add(_attempt(task.spec.name, partial(make, task), output))
                advance(1)
        for attempt in attempts:
            report.add(attempt)
            advance(1)


def _for_one_core(task: Task, n_dimensions: int) -> Task | None:
    """Return the task for scoring on one core; None if it has none, or the method fails."""
    try:
        return task.for_one_core(n_dimensions)
    except Exception:  # noqa: BLE001  The method of a plug-in must not end the run.
        traceback.print_exc()
        return None


def _embed_all(
    plan: EvaluationPlan, encoder: Encoder | None, tasks: Sequence[Task], report: SuiteReport
) -> dict[str, EmbeddedTexts]:
    """Return the embedded texts of tasks, except of tasks that `_embed` leaves out, by name."""
    alone = isinstance(encoder, TaskEncoder)
    found: dict[str, EmbeddedTexts] = {}
    for group in [[task] for task in tasks] if alone else [tasks]:
        if embedded := _embed(plan, encoder, group, report):
            found |= {task.spec.name: embedded for task in group}
    return found


def _embed(
    plan: EvaluationPlan, encoder: Encoder | None, tasks: Sequence[Task], report: SuiteReport
) -> EmbeddedTexts | None:
    """Embed the texts of all tasks together, or return None if each task needs its own embedding.

    A corpus encoder depends on the texts of one task. Embedding all texts together also fails if a
    text has no usable vector, or if a batch is too large for the memory. The tasks are then
    embedded one by one, so only the tasks with such texts fail.
    """
    if encoder is None or not tasks or isinstance(encoder, CorpusEncoder | AbsentEncoder):
        return None
    sides = zip(*(task.texts_by_side for task in tasks), strict=True)
    queries, others = (set(chain(*side)) for side in sides)
    is_two_sided = encoder.id.sides == "query-document"
    n_texts = len(queries) + len(others) if is_two_sided else len(queries | others)
    with plan.bar(f"encoding with {encoder.id.name}", n_texts) as advance:
        try:
            embedded = plan.embed(encoder, tasks, advance)
        except InputError:
            return None  # Embedding the task with the unusable vector raises the error again.
        except Exception as error:  # noqa: BLE001  Single tasks may succeed, for example if memory ran out.
            report.warnings.append(
                f"{encoder.id.label}: the texts of all tasks could not be encoded together "
                f"({type(error).__name__}: {error}); each task was encoded separately"
            )
            return None
    before = report.usage.get(encoder.id.label)
    report.usage[encoder.id.label] = embedded.usage if before is None else before + embedded.usage
    return embedded


def _score(
    task: Task,
    embedded: EmbeddedTexts,
    by_reference: EmbeddedTexts | None,
    embed_seconds: float,
    seen: SeenRows | None,
    **facts: Any,
) -> Result:
    """Score a task, and add the seen rows to the result; `facts` are those of `score_task`."""
    seconds = {"embed": embed_seconds}
    result = score_task(task, embedded, by_reference, seconds=seconds, **facts)
    return seen.count(result) if seen else result


@dataclass(frozen=True)
class _Attempt:
    """Outcome of a task: its result, or its error message."""

    task: str
    result: Result | None = None
    failure: str = ""
    unexpected: bool = False


def _attempt(task: str, make: Callable[[], Result], output: Path) -> _Attempt:
    """Compute and write a result; catch all errors, because other tasks must continue."""
    try:
        result = make()
        return _Attempt(task, replace(result, path=write_result(result, output)))
    except InputError as error:
        return _Attempt(task, failure=str(error))
    except Exception as error:  # noqa: BLE001  A failed task must not stop the others.
        if blamed := plugin_failure(error):
            return _Attempt(task, failure=str(blamed))
        traceback.print_exc()
        return _Attempt(task, failure=f"{type(error).__name__}: {error}", unexpected=True)


def _attempt_in_processes(
    tasks: Mapping[str, Callable[[], Result]], output: Path, workers: int
) -> Iterator[_Attempt]:
    """Start scoring tasks in the classifier pool, and yield their outcomes in order.

    If a worker process dies, the remaining tasks are scored in the main process.
    """
    if not tasks:
        return iter(())
    from sklearn.utils.parallel import delayed

    processes = single_threaded_processes(workers, return_as="generator")
    attempts = processes(delayed(_attempt)(name, make, output) for name, make in tasks.items())

    def finish() -> Iterator[_Attempt]:
        for name, make in tasks.items():
            try:
                attempt = next(attempts, None)
            except Exception:  # noqa: BLE001  A process can die for any reason.
                traceback.print_exc()
                attempt = None
            yield attempt or _attempt(name, make, output)

    return finish()
