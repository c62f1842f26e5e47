"""Evaluation of one encoder on one task, and what its result records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import EmbeddedTexts, Embedder
from polarity_bench.encoders.base import Encoder, EncoderId, TaskEncoder
from polarity_bench.encoders.function_encoder import PROBES, FunctionEncoder
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.reference_encoder import default_reference, distinct_base, name_of
from polarity_bench.encoders.saved_vectors import check_saved
from polarity_bench.encoders.train_file import TrainFile, training_of
from polarity_bench.errors import InputError
from polarity_bench.evaluation.environment import environment
from polarity_bench.files import folder_name
from polarity_bench.metrics.register import versions_of_scores
from polarity_bench.progress import Progress
from polarity_bench.results.result_files import PROGRAMS, TRAINED_BY, Result, ResultKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.base import Settings, Task

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

AnyEncoder: TypeAlias = (
    "str | Path | Encoder | SentenceTransformer | Callable[[list[str]], ArrayLike]"
)
"""Types of encoders that `evaluate` accepts."""


def evaluate(
    encoder: AnyEncoder,
    task: str | Task,
    *,
    reference: AnyEncoder | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
) -> Result:
    """Evaluate an encoder on a task.

    Args:
        encoder: Encoder under test: a name or folder, a SentenceTransformer, your own encoder, or a
            function that takes a list of texts and returns an array of vectors.
        task: Task, or the name of a task.
        reference: Reference encoder for S. The default is the base of an encoder that was trained
            with this package, and otherwise the encoder under test.
        settings: Settings of the protocol; only for tasks that are given by name.
        embedder: Embedder; the default does not store vectors on disk.

    Returns:
        The scores and their provenance.

    Raises:
        InputError: If a name is unknown, if an argument has the wrong type, if data is missing or
            invalid, or if settings are given for a loaded task.

    Warns:
        ReferenceWarning: If the base is not available; reference-based scores are then NaN.

    Example:
        A constant encoder scores at chance, so its main score is 0:

        >>> round(evaluate("constant", "contrast").main.mean, 3)
        0.0
    """
    task = given_task(task, settings)
    encoder = _given_encoder(encoder, "encoder")
    is_default = reference is None
    reference = None if reference is None else _given_encoder(reference, "reference")
    if reference is None and task.uses_reference:
        reference = default_reference(encoder)
    if task.uses_reference:
        check_saved(reference, task.texts)  # before the encoder under test takes its time
    shared = MemoryStore(list(dict.fromkeys(task.texts))) if encoder.id.is_compressed else None
    embedder = embedder or Embedder.on(encoder, shared)
    begun = time.perf_counter()
    embedded = embed_tasks(embedder, encoder, [task])
    other = other_reference(encoder, reference) if task.uses_reference else None
    by_reference = embed_tasks(embedder, other, [task]) if other else None
    if task.uses_reference and other is None and isinstance(reference, FunctionEncoder):
        _check_equal(embedded, embed_tasks(embedder, reference, [task]), task.texts)
    seconds = {"embed": time.perf_counter() - begun}
    return score_task(
        task,
        embedded,
        by_reference,
        reference_is_default=is_default,
        seconds=seconds,
        device=getattr(encoder, "device", None),
        trained=training_facts(encoder),
    )


def _check_equal(one: EmbeddedTexts, other: EmbeddedTexts, texts: Sequence[str]) -> None:
    """Check that two functions that count as one encoder give texts the same vectors.

    Raises:
        InputError: If they do not.
    """
    first, second = (each.vectors(texts).vectors for each in (one, other))
    if first.shape != second.shape or not np.allclose(first, second, atol=1e-5):
        raise InputError(
            "`reference`: the functions of the encoder and of the reference give the probe texts "
            f"({', '.join(map(repr, PROBES))}) the same vectors, so they count as one encoder, but "
            "the task's texts have others; give vectors of the probe texts, or saved vectors"
        )


def embed_tasks(
    embedder: Embedder, encoder: Encoder, tasks: Sequence[Task], progress: Progress | None = None
) -> EmbeddedTexts:
    """Embed the texts of tasks, queries and other texts by the encoder's side for them.

    Args:
        embedder: Embedder for the encoder.
        encoder: Encoder; a `TaskEncoder` takes only one task at a time.
        tasks: The tasks.
        progress: Function that is called with numbers of texts (see `Embedder.embed`).
    """
    identity = encoder.id
    if isinstance(encoder, TaskEncoder):
        (task,) = tasks
        encoder = encoder.for_task(task.spec)
    queries, others = (list(chain(*s)) for s in zip(*(t.texts_by_side for t in tasks), strict=True))
    embedded = embedder.embed_sides(encoder, queries, others, progress)
    return replace(embedded, encoder=identity)


def given_task(task: str | Task, settings: Settings | None) -> Task:
    """Return a task; if it is given by name, load it with the settings.

    Raises:
        InputError: If settings are given for a task that is already loaded.
    """
    if isinstance(task, str):
        return load_task(task, settings)
    if settings is not None:
        raise InputError(
            f"`settings`: the task {task.spec.name!r} is already loaded, so its settings cannot "
            f"change, got {settings}; load the task with these settings: "
            f"load_task({task.spec.name!r}, settings=...)"
        )
    return task


def _given_encoder(given: AnyEncoder, field: str) -> Encoder:
    """Convert an argument of type `AnyEncoder` to an encoder.

    Args:
        given: Encoder, name, folder, SentenceTransformer or function.
        field: Name of the argument, for error messages.

    Raises:
        InputError: If the argument has another type, or if the encoder cannot be loaded.
    """
    if isinstance(given, str | Path):
        return load_encoder(str(given))
    if isinstance(given, type):
        name = given.__name__
        raise InputError(f"`{field}`: expected an instance, got the class {name}; give {name}()")
    if all(hasattr(given, name) for name in ("id", "count_tokens", "encode")):
        if not isinstance(cast("Any", given).id, EncoderId):
            raise InputError(
                f"`{field}`: the encoder's `id` must be an EncoderId, got "
                f"{cast('Any', given).id!r}; use EncoderId(name=..., weights=...)"
            )
        return cast("Encoder", given)
    from sentence_transformers import SentenceTransformer

    if isinstance(given, SentenceTransformer):
        return SentenceTransformerEncoder(given, name=name_of(given))
    if callable(given):
        return FunctionEncoder(given)
    raise InputError(
        f"`{field}`: expected a name, a SentenceTransformer, a function, or an object with `id`, "
        f"`count_tokens` and `encode`, got {type(given).__name__}; see polarity_bench.Encoder"
    )


def score_task(
    task: Task,
    embedded: EmbeddedTexts,
    reference: EmbeddedTexts | None = None,
    *,
    reference_is_default: bool = False,
    seconds: Mapping[str, float] | None = None,
    device: str | None = None,
    trained: tuple[str, dict[str, Any] | None] = ("", None),
) -> Result:
    """Score a task from embedded texts.

    Args:
        task: Task to score.
        embedded: Vectors of the task's texts from the encoder under test.
        reference: Vectors from the reference encoder; None uses the encoder under test.
        reference_is_default: Whether the user did not choose the reference.
        seconds: Durations of earlier steps, in seconds, for the provenance.
        device: Torch device of the encoder, for the provenance.
        trained: How the encoder was trained, for the provenance (see `training_facts`).
    """
    begun = time.perf_counter()
    scored = task.score(embedded, reference)
    reference_id = reference.encoder if reference is not None else None
    versions = versions_of_scores() if task.spec.has_k else {}
    changed = {name: version for name, version in versions.items() if version != "1"}
    command, training = trained
    trained_by = {TRAINED_BY: command} if command else {}
    return Result(
        task=task.spec.name,
        kind=task.spec.kind,
        result_name=task.spec.result_name,
        version=task.spec.version,
        languages=task.spec.languages,
        main_score=task.main_score,
        key=result_key(task, embedded.encoder, reference_id),
        scores=scored.scores,
        counts=task.counts,
        unseen_of=task.unseen_of,
        data_set=task.spec.data_set,
        experiment=experiment_name(task, reference_id),
        reference_is_default=reference_is_default,
        limit=task.limit,
        seconds={**(seconds or {}), "score": time.perf_counter() - begun},
        environment=environment(device) | changed | trained_by,
        date=time.time(),
        training=training,
        arrays=scored.arrays,
    )


def other_reference(encoder: Encoder, reference: Encoder | None) -> Encoder | None:
    """Return the reference encoder, or None if it is the encoder under test."""
    if reference is None or reference.id.digest == encoder.id.digest:
        return None
    return reference


def result_key(task: Task, encoder: EncoderId, reference: EncoderId | None) -> ResultKey:
    """Return the key of an evaluation, which contains everything that affects its scores."""
    return ResultKey(
        task=task.spec.digest,
        data=task.digest,
        encoder=encoder,
        reference=reference,
        protocol=task.protocol,
    )


def experiment_name(task: Task, reference: EncoderId | None) -> str:
    """Return a name in mteb's style for the settings that differ from the task's defaults."""
    parts = [task.experiment] if task.experiment else []
    if reference is not None:
        parts.append(f"reference_{folder_name(reference.name)[:60]}-{reference.digest[:8]}")
    return "__".join(parts)


def training_facts(encoder: Encoder) -> tuple[str, dict[str, Any] | None]:
    """Return the command that trained an encoder, and its recipe, seed, base, task and teachers.

    Returns:
        The command and the facts. Without `train.json`, which saving the encoder again loses, the
        command is '', and the facts contain only the base, or are None without a base. The command
        is also '' if Ray trained the encoder, because the command of a Ray worker cannot reproduce
        the run.
    """
    file = training_of(encoder)
    if file is None:
        base = distinct_base(encoder)
        return "", {"base": base.encoder.name} if base else None
    command = str(file.content.get("environment", {}).get("command", ""))
    recipe = dict(file.content["spec"]["recipe"])
    seed = recipe.pop("seed", None)
    training = {"recipe": recipe, "seed": seed, "base": file.base.name, **_learnt_from(file)}
    return command if command.partition(" ")[0] in PROGRAMS else "", training


def _learnt_from(file: TrainFile) -> dict[str, Any]:
    """Return what a run learnt from, apart from its base; its settings do not name these."""
    spec = file.content["spec"]
    stored: Mapping[str, Any] = spec.get("encoders", {})
    encoders = {role: EncoderId(**each) for role, each in stored.items()}
    others = {
        r: f"{e.name} ({e.digest})" for r, e in encoders.items() if e.digest != file.base.digest
    }
    unlabelled = file.content.get("figures", {}).get("unlabelled_digest")
    texts = {} if unlabelled is None else {"unlabelled": unlabelled}
    return {"task": spec["task"]} | ({"encoders": others} if others else {}) | texts
