"""Run: one encoder on many tasks. Check everything, embed once, score, store each result.

What can be wrong with the input is found before any text is encoded. A result that is there
already and was made from the same task, data, encoder, reference and protocol is reused; every
other is made again. A task that fails on the way does not stop the others. With several workers,
tasks that take one core whatever there is are scored in one of those processes, beside the others.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from polarity_bench.bind import BoundTask, RelatednessTask, Settings, bind
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder, Usage
from polarity_bench.errors import InputError
from polarity_bench.evaluation import experiment_name, other_reference, run_key, score
from polarity_bench.files import check_writable
from polarity_bench.progress import Bar
from polarity_bench.results import Result, place, read_result, write_result
from polarity_bench.spec import TaskSpec
from polarity_bench.types import CorpusEncoder, Encoder


@dataclass
class RunReport:
    """What a run did.

    Attributes:
        results: Results with their files, in the order of the tasks.
        reused: Names of the tasks whose results were there already.
        failures: Why a task failed, by its name.
        unexpected: Whether a failure was no fault of the input.
        usage: What embedding took, by encoder.
    """

    results: list[tuple[Result, Path]] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    unexpected: bool = False
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0, 1 if a task failed, or 2 if all did and the input is why."""
        if not self.failures:
            return 0
        return 1 if self.results or self.unexpected else 2

    def add(self, attempt: _Attempt) -> None:
        """Take note of what became of a task."""
        if attempt.stored is not None:
            self.results.append(attempt.stored)
        else:
            self.failures[attempt.task] = attempt.failure
            self.unexpected |= attempt.unexpected


def run(
    encoder: Encoder,
    tasks: Sequence[TaskSpec],
    access: DataAccess,
    settings: Settings,
    *,
    output: Path,
    overwrite: bool = False,
    reference: Encoder | None = None,
    embedder: Embedder,
    bar: Bar,
) -> RunReport:
    """Evaluate an encoder on tasks and store each result as soon as it is there.

    Args:
        encoder: The encoder under test.
        tasks: The tasks.
        access: Where their data may come from.
        settings: What is asked of the protocols.
        output: Folder of the results.
        overwrite: Make results again that are there and current.
        reference: The encoder that S is measured with; the encoder under test by default.
        embedder: How to embed.
        bar: Opens progress bars.

    Raises:
        InputError: Before anything is encoded, if data is missing or wrong, or the output folder
            cannot be written to.
    """
    reference = other_reference(encoder, reference)
    bound = [bind(spec, access, settings) for spec in tasks]
    check_writable(output)
    report = RunReport()
    pending = []
    for task in bound:
        stored = None if overwrite else _stored(task, encoder, reference, output)
        if stored is None:
            pending.append(task)
        else:
            report.results.append(stored)
            report.reused.append(task.spec.name)
    if pending:
        _evaluate(pending, encoder, reference, output, settings.workers, embedder, bar, report)
    order = [spec.name for spec in tasks]
    report.results.sort(key=lambda item: order.index(item[0].task))
    return report


def _stored(
    task: BoundTask, encoder: Encoder, reference: Encoder | None, output: Path
) -> tuple[Result, Path] | None:
    """The stored result of this very evaluation, if there is one."""
    reference_id = reference.id if reference and task.uses_reference else None
    experiment = experiment_name(task, reference_id)
    path = place(output, encoder.id, experiment, task.spec.result_name)
    if not path.is_file() or not path.with_suffix(".queries.safetensors").is_file():
        return None
    try:
        result = read_result(path)
    except InputError:
        return None  # half a copy, or of another version: it is made again and replaced whole
    key = run_key(task, encoder.id, reference_id)
    return (result, path) if result.key.digest == key.digest else None


def _evaluate(
    pending: Sequence[BoundTask],
    encoder: Encoder,
    reference: Encoder | None,
    output: Path,
    workers: int,
    embedder: Embedder,
    bar: Bar,
    report: RunReport,
) -> None:
    begun = time.perf_counter()
    corpus = _embed_all(pending, encoder, embedder, bar, report)
    referring = [task for task in pending if task.uses_reference]
    other = None
    if reference is not None and referring:
        other = _embed_all(referring, reference, embedder, bar, report)
    together = time.perf_counter() - begun
    device = getattr(encoder, "device", None)

    def make(task: BoundTask) -> Result:
        begun = time.perf_counter()
        ours = corpus or embedder.embed(encoder, task.texts)
        theirs = None
        if reference is not None and task.uses_reference:
            theirs = other or embedder.embed(reference, task.texts)
        seconds = {"embed": together + time.perf_counter() - begun}
        return score(task, ours, theirs, seconds=seconds, device=device)

    aside = {}
    if corpus is not None and workers > 1 and len(pending) > 1:
        for task in pending:
            if isinstance(task, RelatednessTask):  # it takes one core, however many there are
                part = _part(corpus, task.texts)
                seconds = {"embed": together}
                aside[task.spec.name] = partial(
                    score, task, part, None, seconds=seconds, device=device
                )
    with bar("scoring", len(pending)) as advance:
        elsewhere = _attempt_elsewhere(aside, output, workers)
        for task in pending:
            if task.spec.name not in aside:
                report.add(_attempt(task.spec.name, partial(make, task), output))
                advance(1)
        for attempt in elsewhere:
            report.add(attempt)
            advance(1)


@dataclass(frozen=True)
class _Attempt:
    """What became of a task: its result with its file, or why there is none."""

    task: str
    stored: tuple[Result, Path] | None = None
    failure: str = ""
    unexpected: bool = False


def _attempt(task: str, make: Callable[[], Result], output: Path) -> _Attempt:
    """Make a result and write it; one task that fails must not stop the others."""
    try:
        result = make()
        return _Attempt(task, (result, write_result(result, output)))
    except InputError as error:
        return _Attempt(task, failure=str(error))
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        return _Attempt(task, failure=f"{type(error).__name__}: {error}", unexpected=True)


def _attempt_elsewhere(
    tasks: Mapping[str, Callable[[], Result]], output: Path, workers: int
) -> Iterator[_Attempt]:
    """Attempt tasks in the processes that fit classifiers too, from now on, in any order.

    What is left undone because a process was ended, is attempted here.
    """
    if not tasks:
        return iter(())
    from sklearn.utils.parallel import Parallel, delayed

    attempts = Parallel(n_jobs=workers, return_as="generator_unordered")(
        delayed(_attempt)(name, make, output) for name, make in tasks.items()
    )

    def finish() -> Iterator[_Attempt]:
        left = dict(tasks)
        try:
            for attempt in attempts:
                del left[attempt.task]
                yield attempt
        except Exception:  # noqa: BLE001  whatever ended a process
            traceback.print_exc()
        for name, make in left.items():
            yield _attempt(name, make, output)

    return finish()


def _part(corpus: EmbeddedTexts, texts: Sequence[str]) -> EmbeddedTexts:
    """Take some texts out of a corpus, to be sent to another process."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = corpus.vectors(list(rows)).vectors
    return EmbeddedTexts(corpus.encoder, corpus.usage, vectors, rows)


def _embed_all(
    pending: Sequence[BoundTask],
    encoder: Encoder,
    embedder: Embedder,
    bar: Bar,
    report: RunReport,
) -> EmbeddedTexts | None:
    """Embed the texts of all tasks at once; None if a text can't be, or the tasks must be apart.

    What fails here, a text without a usable vector or too large a batch, then fails the tasks that
    it belongs to, when they are embedded one by one, and no others.
    """
    if isinstance(encoder, CorpusEncoder):
        return None
    texts = [text for task in pending for text in task.texts]
    with bar(f"encoding with {encoder.id.name}", len(set(texts))) as advance:
        try:
            corpus = embedder.embed(encoder, texts, advance)
        except Exception:  # noqa: BLE001  it is raised again for the task that it belongs to
            return None
    report.usage[encoder.id.label] = corpus.usage
    return corpus
