"""Evaluation of several encoders on the same tasks, each at one strength of its axis or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders import load, reference_encoder
from polarity_bench.encoders.base import AbsentEncoder, Encoder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, SuiteReport, run_suite
from polarity_bench.progress import Bar
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.types.base import Task

Remark = Callable[[str], object]
"""Gets a remark for the user, which names options as fields in backticks."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Encoders to evaluate on tasks, and how.

    Attributes:
        models: Names or folders of the encoders under test.
        tasks: The tasks, with their data.
        output: Folder of the results.
        options: How to load the encoders under test. Reference encoders are loaded without their
            revision, prompt and limit of tokens.
        reference: Name of the reference encoder; None uses the base of a trained encoder.
        strengths: Strengths of the axis, each evaluated; () uses the encoder's own.
        workers: Number of processes for scoring.
        overwrite: Whether to compute stored results that are current again.
        embedder: Opens an embedder for an encoder.
        bar: Progress bar.
        remark: Gets remarks on how encoders were loaded.
        check: Called with each encoder and its reference before any text is encoded.
    """

    models: Sequence[str]
    tasks: Sequence[Task]
    output: Path
    options: EncoderOptions = field(default_factory=EncoderOptions)
    reference: str | None = None
    strengths: Sequence[float] = ()
    workers: int = 1
    overwrite: bool = False
    _: KW_ONLY
    embedder: Callable[[Encoder], AbstractContextManager[Embedder]]
    bar: Bar
    remark: Remark
    check: Callable[[Encoder, Encoder | None], object] = lambda _, __: None


@dataclass(frozen=True)
class EncoderReport:
    """Results and failures of one encoder.

    Attributes:
        model: Name or folder of the encoder, as requested.
        name: Name of the encoder in its results.
        by_strength: Reports by strength; the key None is the default strength of the encoder.
        error: Why the encoder could not be loaded; None if it was.
    """

    model: str
    name: str = ""
    by_strength: Mapping[float | None, SuiteReport] = field(default_factory=dict)
    error: InputError | None = None

    @property
    def suites(self) -> list[SuiteReport]:
        """The reports of all strengths."""
        return list(self.by_strength.values())

    @property
    def results(self) -> list[tuple[Result, Path]]:
        """The results of all strengths, with their files."""
        return [stored for suite in self.suites for stored in suite.results]


def evaluate_models(request: EvaluationRequest) -> Iterator[EncoderReport]:
    """Evaluate encoders one after the other, and yield the report of each.

    An encoder that cannot be loaded does not stop the others.
    """
    for model in request.models:
        try:
            encoder, reference = load_with_reference(
                model, request.options, request.reference, request.remark
            )
            encoders: dict[float | None, Encoder] = {
                strength: at_strength(encoder, strength) for strength in request.strengths
            }
        except InputError as error:
            yield EncoderReport(model, error=error)
            continue
        encoders = encoders or {None: encoder}
        for variant in encoders.values():
            request.check(variant, reference)
        with request.embedder(next(iter(encoders.values()))) as opened:
            embedder = with_memory(opened, request.tasks) if len(encoders) > 1 else opened
            reports: dict[float | None, SuiteReport] = {}
            for strength, variant in encoders.items():
                plan = EvaluationPlan(
                    variant, reference, embedder, request.workers, request.bar, model=model
                )
                reports[strength] = run_suite(
                    plan, request.tasks, request.output, overwrite=request.overwrite
                )
        yield EncoderReport(model, encoder.id.name, reports)


def with_memory(embedder: Embedder, tasks: Sequence[Task]) -> Embedder:
    """Return an embedder that caches its vectors, at least in memory."""
    if embedder.store is not None:
        return embedder
    texts = dict.fromkeys(text for task in tasks for text in task.texts)
    return replace(embedder, store=MemoryStore(list(texts)))


def load_model(model: str, options: EncoderOptions, remark: Remark) -> Encoder:
    """Load an encoder, and remark on pooling that had to be added."""
    encoder = load.load_encoder(model, options)
    if encoder.id.pooling_added:
        remark(f"{model} is a plain transformer: mean pooling over its tokens was added")
    return encoder


def load_with_reference(
    model: str, options: EncoderOptions, reference: str | None, remark: Remark
) -> tuple[Encoder, Encoder | None]:
    """Load an encoder and its reference encoder.

    Args:
        model: Name or folder of the encoder.
        options: How to load it. The reference is loaded without its revision, prompt and limit of
            tokens.
        reference: Name or folder of the reference; None loads the base of a trained encoder.
        remark: Called with remarks on what was loaded.

    Raises:
        InputError: If an encoder cannot be loaded, or the model is a run that has not finished.
    """
    recorded = reference_encoder.base_of(model)  # raises for a run that has not finished
    encoder = load_model(model, options, remark)
    plain: Any = dict.fromkeys(("revision", "prompt", "prompt_name", "max_tokens"))
    common = replace(options, **plain)
    if reference is not None:
        other = load_model(reference, common, remark)
        if encoder.id.prompt and not other.id.prompt:
            remark(f"{reference} encodes without a prompt, {model} with {encoder.id.prompt!r}")
        return encoder, other
    base = reference_encoder.distinct_base(encoder, recorded)
    loaded = base.load(common) if base else None
    if isinstance(loaded, AbsentEncoder):
        remark(f"warning: {model}: {loaded.why}")
    elif loaded:
        remark(f"reference: {loaded.id.label}, the base of {model}")
    return encoder, loaded
