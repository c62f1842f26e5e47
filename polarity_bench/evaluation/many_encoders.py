"""Evaluation of several encoders on the same tasks, at one or more strengths of the axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import keeps_vectors
from polarity_bench.encoders import load
from polarity_bench.encoders.base import AbsentEncoder, Encoder, multiplies_bfloat16
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.encoders.reference_encoder import default_reference
from polarity_bench.encoders.saved_vectors import check_saved
from polarity_bench.encoders.steered import at_strength
from polarity_bench.encoders.train_file import training_of
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import Contamination
from polarity_bench.evaluation.many_tasks import EvaluationPlan, SuiteReport, run_suite
from polarity_bench.progress import Bar
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.types.base import Task

Remark = Callable[[str], object]
"""Function that shows a remark to the user. A remark names options as fields in backticks."""

_MANY_TEXTS = 5_000
"""Texts from which a run in bfloat16 saves time worth mentioning."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Request to evaluate encoders on tasks.

    Attributes:
        models: Names or folders of the encoders under test.
        tasks: Tasks, with their data.
        output: Folder of the results.
        options: Options for loading the encoders under test. The revision, prompt, token limit,
            precision and backend do not apply to reference encoders.
        reference: Name or folder of the reference encoder; None uses the base of a trained encoder.
        strengths: Strengths of the axis to evaluate; () uses the encoder's default strength.
        workers: Number of processes for scoring.
        overwrite: Whether to recompute current results.
        embedder: Function that opens an embedder for an encoder.
        bar: Function that opens a progress bar.
        remark: Function that shows remarks about loaded encoders to the user.
        check: Function that is called with each encoder and its reference, before its texts are
            encoded.
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
        model: Requested name or folder of the encoder.
        name: Name of the encoder in results.
        by_strength: Report for each strength; the key None is the encoder's default strength.
        error: Error if the encoder could not be loaded; otherwise None.
    """

    model: str
    name: str = ""
    by_strength: Mapping[float | None, SuiteReport] = field(default_factory=dict)
    error: InputError | None = None

    @property
    def suites(self) -> list[SuiteReport]:
        """Reports of all strengths."""
        return list(self.by_strength.values())

    @property
    def results(self) -> list[Result]:
        """Results of all strengths."""
        return [result for suite in self.suites for result in suite.results]

    @property
    def uncounted(self) -> str:
        """Why texts seen in training could not be counted; '' if there was no problem."""
        return next((suite.uncounted for suite in self.suites if suite.uncounted), "")


def evaluate_models(request: EvaluationRequest) -> Iterator[EncoderReport]:
    """Evaluate encoders one after the other, and yield a report for each encoder.

    If an encoder cannot be loaded, or fails the check, its report contains the error and the other
    encoders are still evaluated.
    """
    for model in request.models:
        try:
            encoder, reference = load_with_reference(
                model, request.options, request.reference, request.remark
            )
            encoders: dict[float | None, Encoder] = {
                strength: at_strength(encoder, strength) for strength in request.strengths
            }
            referring = [task for task in request.tasks if task.uses_reference]
            check_saved(encoder, [text for task in request.tasks for text in task.texts])
            check_saved(reference, [text for task in referring for text in task.texts])
            for variant in encoders.values() or [encoder]:
                request.check(variant, reference)
        except InputError as error:
            yield EncoderReport(model, error=error)
            continue
        _suggest_bfloat16(encoder, request)
        encoders = encoders or {None: encoder}
        contamination = Contamination(training_of(encoder), request.tasks, request.output)
        with request.embedder(next(iter(encoders.values()))) as opened:
            # Strengths share their vectors, and so do an axis and its base.
            shares = len(encoders) > 1 or getattr(encoder, "base", None) is not None
            if encoder.id.is_compressed:  # The reference may need the same vectors.
                shares = True
                opened = opened if keeps_vectors(encoder) else replace(opened, store=None)
            embedder = with_memory(opened, request.tasks) if shares else opened
            reports: dict[float | None, SuiteReport] = {}
            for strength, variant in encoders.items():
                plan = EvaluationPlan(
                    variant,
                    reference,
                    embedder,
                    request.workers,
                    request.bar,
                    reference_is_default=request.reference is None,
                    contamination=contamination,
                )
                reports[strength] = run_suite(
                    plan, request.tasks, request.output, overwrite=request.overwrite
                )
        yield EncoderReport(model, encoder.id.name, reports)


def _suggest_bfloat16(encoder: Encoder, request: EvaluationRequest) -> None:
    """Inform the user if a long run on this processor would be faster in bfloat16."""
    transformer = getattr(getattr(encoder, "model", None), "transformers_model", None)
    if (
        transformer is not None
        and transformer.device.type == "cpu"
        and encoder.id.dtype == "float32"
        and sum(len(task.texts) for task in request.tasks) >= _MANY_TEXTS
        and multiplies_bfloat16()
    ):
        request.remark(
            "this processor multiplies bfloat16 in hardware: `dtype` bfloat16 encodes about twice "
            "as fast and is a row of its own; docs/performance.md compares the speeds"
        )


def with_memory(embedder: Embedder, tasks: Sequence[Task]) -> Embedder:
    """Return the embedder. If it has no store, return a copy with a store in memory."""
    if embedder.store is not None:
        return embedder
    texts = dict.fromkeys(text for task in tasks for text in task.texts)
    return replace(embedder, store=MemoryStore(list(texts)))


def load_model(model: str, options: EncoderOptions, remark: Remark) -> Encoder:
    """Load an encoder, and inform the user if mean pooling was added."""
    encoder = load.load_encoder(model, options)
    if encoder.id.pooling_added:
        remark(f"{model} is a plain transformer without pooling; mean pooling was added")
    return encoder


def load_with_reference(
    model: str, options: EncoderOptions, reference: str | None, remark: Remark
) -> tuple[Encoder, Encoder | None]:
    """Load an encoder and its reference encoder.

    Args:
        model: Name or folder of the encoder.
        options: Options for loading. The revision, prompt, token limit, precision and backend do
            not apply to the reference.
        reference: Name or folder of the reference, which torch computes in float32. None uses the
            base of a trained encoder, in the precision that its training recorded.
        remark: Function that shows remarks about the loaded encoders to the user.

    Returns:
        The encoder and its reference. If the encoder has no base or equals its base, the reference
        is the encoder of the whole vectors, or None if they are not compressed. It is an
        `AbsentEncoder` if the base cannot be loaded.

    Raises:
        InputError: If an encoder cannot be loaded, or if the model is an unfinished training run.
    """
    encoder = load_model(model, options, remark)
    # Scores of one model in several precisions are comparable only under the same reference.
    common = replace(options.of_others, dtype="float32", backend="torch")
    if reference is not None:
        other = load_model(reference, common, remark)
        if encoder.id.prompt and not other.id.prompt:
            remark(
                f"{reference} encodes texts without a prompt, but {model} uses the prompt "
                f"{encoder.id.prompt!r}"
            )
        return encoder, other

    def say(base: Encoder) -> None:
        if isinstance(base, AbsentEncoder):
            remark(f"warning: {model}: {base.why}")
        else:
            remark(f"reference: {base.id.label}, the base of {model}")

    return encoder, default_reference(encoder, common, say)
