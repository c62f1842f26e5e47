"""Evaluate: one encoder on one task, from texts to a result. Fits on one screen."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from polarity_bench.bind import BoundTask, PolarityTask
from polarity_bench.data.load import PolarityData
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.files import folder_name
from polarity_bench.results import Result, ResultKey
from polarity_bench.types import Encoder, EncoderId, ScoreKey

_PACKAGES = ("polarity-bench", "mteb", "sentence-transformers", "transformers", "torch", "numpy")


def evaluate(
    encoder: Encoder,
    task: PolarityData | BoundTask,
    *,
    reference: Encoder | None = None,
    ks: Sequence[int] = (),
    embedder: Embedder | None = None,
) -> Result:
    """Evaluate an encoder on a task.

    Args:
        encoder: The encoder under test.
        task: The data of a polarity task, of `load_polarity`, or any task, of `bind`.
        reference: The encoder that S is measured with; the encoder under test by default.
        ks: How many sources to score on polarity data; the task's own k by default.
        embedder: How to embed.
    """
    if isinstance(task, PolarityData):
        task = PolarityTask(task, tuple(ks) or (task.spec.protocol.k,))
    embedder = embedder or Embedder()
    begun = time.perf_counter()
    corpus = embedder.embed(encoder, task.texts)
    reference = other_reference(encoder, reference)
    other = embedder.embed(reference, task.texts) if reference and task.uses_reference else None
    seconds = {"embed": time.perf_counter() - begun}
    return score(task, corpus, other, seconds=seconds, device=getattr(encoder, "device", None))


def score(
    task: BoundTask,
    corpus: EmbeddedTexts,
    reference: EmbeddedTexts | None,
    *,
    seconds: Mapping[str, float] | None = None,
    device: str | None = None,
) -> Result:
    """Score a task whose texts are embedded already."""
    begun = time.perf_counter()
    scored = task.score(corpus.vectors, reference.vectors if reference is not None else None)
    reference_id = reference.encoder if reference is not None else None
    return Result(
        task=task.spec.name,
        kind=task.spec.kind,
        result_name=task.spec.result_name,
        version=task.spec.version,
        languages=task.spec.languages,
        main_score=ScoreKey.parse(task.main_score),
        key=run_key(task, corpus.encoder, reference_id),
        scores={ScoreKey.parse(name): found for name, found in scored.scores.items()},
        counts=task.counts,
        experiment=experiment_name(task, reference_id),
        limit=getattr(task, "limit", None),
        seconds={**(seconds or {}), "score": time.perf_counter() - begun},
        environment=environment(device),
        date=time.time(),
        arrays=scored.arrays,
    )


def other_reference(encoder: Encoder, reference: Encoder | None) -> Encoder | None:
    """Return the reference if it is another encoder than the one under test."""
    if reference is None or reference.id.digest == encoder.id.digest:
        return None
    return reference


def run_key(task: BoundTask, encoder: EncoderId, reference: EncoderId | None) -> ResultKey:
    """Return what decides the numbers of this evaluation."""
    return ResultKey(
        task=task.spec.digest,
        data=task.data_digest,
        encoder=encoder,
        reference=reference,
        protocol=task.protocol,
    )


def experiment_name(task: BoundTask, reference: EncoderId | None) -> str:
    """Name what is asked differently from the task's defaults, as mteb names experiments."""
    parts = [task.experiment] if task.experiment else []
    if reference is not None:
        parts.append(f"reference_{folder_name(reference.name)[:60]}-{reference.digest[:8]}")
    return "__".join(parts)


def environment(device: str | None = None) -> dict[str, str]:
    """Say what the numbers were made with."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | ({"device": device} if device else {})
