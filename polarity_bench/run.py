"""Run: one encoder on many tasks. Check everything, embed once, score, store each result.

What can be wrong with the input is found before any text is encoded. A result that is there
already and was made from the same task, data, encoder, reference and protocol is reused; every
other is made again. A task that fails on the way does not stop the others.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from polarity_bench.data.load import PolarityData, load_polarity
from polarity_bench.data.sources import DataAccess
from polarity_bench.embed import Corpus, Usage
from polarity_bench.evaluate import (
    Embedding,
    check_ks,
    environment,
    experiment_name,
    run_key,
    score,
)
from polarity_bench.results import Result, check_writable, place, read_result, write_result
from polarity_bench.spec import TaskSpec
from polarity_bench.types import CorpusEncoder, Encoder, InputError, Progress

Bar = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens a progress bar: its title and total in, what advances it out."""


@dataclass(frozen=True)
class RunOptions:
    """What is asked of a run.

    Attributes:
        output: Folder of the results.
        ks: How many sources to score; each task's own k by default.
        limit: Only so many queries, for a quick look.
        overwrite: Make results again that are there and current.
    """

    output: Path
    ks: tuple[int, ...] = ()
    limit: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_ks(self.ks)
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit must be at least 1, got {self.limit}")


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


def run(
    encoder: Encoder,
    tasks: Sequence[TaskSpec],
    access: DataAccess,
    options: RunOptions,
    *,
    reference: Encoder | None = None,
    embedding: Embedding,
    bar: Bar,
) -> RunReport:
    """Evaluate an encoder on tasks and store each result as soon as it is there.

    Raises:
        InputError: Before anything is encoded, if data is missing or wrong, or the output folder
            cannot be written to.
    """
    check_writable(options.output)
    if reference is not None and reference.id.digest == encoder.id.digest:
        reference = None
    loaded = [
        load_polarity(spec, access, limit=options.limit, k=max(options.ks, default=spec.protocol.k))
        for spec in tasks
    ]
    report = RunReport()
    pending = []
    for data in loaded:
        current = None if options.overwrite else _stored(data, encoder, reference, options)
        if current is None:
            pending.append(data)
        else:
            report.results.append(current)
            report.reused.append(data.spec.name)
    if pending:
        _evaluate(pending, encoder, reference, options, embedding, bar, report)
    order = [spec.name for spec in tasks]
    report.results.sort(key=lambda item: order.index(item[0].task))
    return report


def _stored(
    data: PolarityData, encoder: Encoder, reference: Encoder | None, options: RunOptions
) -> tuple[Result, Path] | None:
    """The stored result of this very evaluation, if there is one."""
    ks = _ks(data, options)
    reference_id = reference.id if reference else None
    experiment = experiment_name(data, reference_id, ks, options.limit)
    path = place(options.output, encoder.id, experiment, data.spec.result_name)
    if not path.is_file():
        return None
    try:
        result = read_result(path)
    except InputError:
        return None  # half a copy, or of another version: it is made again and replaced whole
    key = run_key(data, encoder.id, reference_id, ks)
    return (result, path) if result.key.digest == key.digest else None


def _evaluate(
    pending: Sequence[PolarityData],
    encoder: Encoder,
    reference: Encoder | None,
    options: RunOptions,
    embedding: Embedding,
    bar: Bar,
    report: RunReport,
) -> None:
    corpora = [
        _embed_all(pending, each, embedding, bar, report) if each is not None else None
        for each in (encoder, reference)
    ]
    device = getattr(encoder, "device", None)
    with bar("scoring", len(pending)) as advance:
        for data in pending:
            try:
                ours, theirs = (
                    _corpus_of(data, each, corpus, embedding)
                    for each, corpus in zip((encoder, reference), corpora, strict=True)
                )
                assert ours is not None  # noqa: S101  there always is an encoder
                result = score(data, ours, theirs, ks=_ks(data, options), limit=options.limit)
                result = replace(result, environment=environment(device))
                report.results.append((result, write_result(result, options.output)))
            except InputError as error:
                report.failures[data.spec.name] = str(error)
            except Exception as error:  # noqa: BLE001  one task must not stop the others
                traceback.print_exc()
                report.failures[data.spec.name] = f"{type(error).__name__}: {error}"
                report.unexpected = True
            advance(1)


def _embed_all(
    pending: Sequence[PolarityData],
    encoder: Encoder,
    embedding: Embedding,
    bar: Bar,
    report: RunReport,
) -> Corpus | None:
    """Embed the texts of all tasks at once; None if a text can't be, or the tasks must be apart.

    A text without a usable vector fails the tasks that hold it and no others, which `_corpus_of`
    finds out.
    """
    if isinstance(encoder, CorpusEncoder):
        return None
    texts = [text for data in pending for text in data.texts]
    with bar(f"encoding with {encoder.id.name}", len(set(texts))) as advance:
        try:
            corpus = embedding(encoder, texts, advance)
        except InputError:
            return None
    report.usage[encoder.id.label] = corpus.usage
    return corpus


def _corpus_of(
    data: PolarityData, encoder: Encoder | None, corpus: Corpus | None, embedding: Embedding
) -> Corpus | None:
    if encoder is None or corpus is not None:
        return corpus
    return embedding(encoder, data.texts)


def _ks(data: PolarityData, options: RunOptions) -> tuple[int, ...]:
    return tuple(sorted(set(options.ks))) or (data.spec.protocol.k,)
