"""Train: a base encoder, a task and a spec in, a better encoder out, with all that happened."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.bind import PolarityTask
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.folder import quiet
from polarity_bench.errors import InputError
from polarity_bench.progress import Bar, no_bar
from polarity_bench.registry import choose_tasks, load_tasks
from polarity_bench.training.base import check_packages, load_base
from polarity_bench.training.card import model_card
from polarity_bench.training.data import TrainingData, load_training_data
from polarity_bench.training.folder import RunFolder, read_train_file, run_folder
from polarity_bench.training.generate import check_columns, example_source
from polarity_bench.training.losses import LOSSES
from polarity_bench.training.spec import ExampleSpec, RunIdentity, TrainSpec
from polarity_bench.types import Encoder, digest_of

if TYPE_CHECKING:
    from datasets import Dataset

_NEEDED = {"accelerate": "the trainer", "matplotlib": "the figure of the history"}


@dataclass(frozen=True)
class TrainingRun:
    """What came of a run.

    Attributes:
        folder: Where the encoder lies.
        identity: What was run.
        rows: Scores by epoch, the first before training; fractions.
        best_step: The step of the checkpoint that was kept.
        reused: Whether it had finished there before.
        speed: Texts trained on in a second; None where nothing was trained.
    """

    folder: Path
    identity: RunIdentity
    rows: Sequence[Mapping[str, float | None]]
    best_step: int
    reused: bool = False
    speed: float | None = None


def train(
    model: str,
    task: str,
    output: str | Path,
    spec: TrainSpec | None = None,
    *,
    options: EncoderOptions | None = None,
    example_encoder: str | None = None,
    examples: Mapping[str, list[Any]] | Dataset | None = None,
    access: DataAccess | None = None,
    task_dir: Path | None = None,
    embedder: Embedder | None = None,
    report_to: str = "none",
    overwrite: bool = False,
    bar: Bar = no_bar,
) -> TrainingRun:
    """Train an encoder on a polarity task, judged by P and S before and after every epoch.

    An interrupted run goes on from its last checkpoint when it is called again with the same
    arguments, and ends with the same weights.

    Args:
        model: The base: any name that `load_encoder` takes but a baseline's.
        task: A polarity task's name.
        output: The folder of the run: a sentence-transformers folder in the end.
        spec: How to train; the papers' triplets by default.
        options: How to load the base.
        example_encoder: The encoder whose neighbours the examples are; the base by default.
        examples: Columns of examples, or a data set of them, to use instead of making some; each
            epoch shuffles them anew.
        access: Where the task's data may come from.
        task_dir: A folder with task files of your own.
        embedder: How to embed what does not change; without a store by default.
        report_to: Where the trainer reports to; a name of transformers.
        overwrite: Replace another run in the folder.
        bar: Opens progress bars.

    Raises:
        InputError: If anything given cannot be used, before any long work; or, named with its step,
            if the loss is no number.
    """
    check_packages(_NEEDED, "training", extra="train")
    spec = (spec or TrainSpec()).with_loss_parameters()
    if spec.examples.count is not None:
        _check_batch(spec.examples.count, spec)
    embedder = embedder or Embedder()
    from polarity_bench.training.trainer import check_tracker

    check_tracker(report_to)
    folder = run_folder(model, output)
    (chosen,) = choose_tasks(load_tasks(task_dir), names=[task])
    data = load_training_data(
        chosen,
        access or DataAccess.from_environment(),
        held_out=spec.held_out,
        seed=spec.seed,
    )
    options = options or EncoderOptions()
    base = load_base(model, options)
    guide: Encoder = base
    if example_encoder is not None:
        guide = load_encoder(
            example_encoder,
            replace(
                options,
                revision=None,
                prompt=None,
                prompt_name=None,
                max_tokens=None,
                asked_by="--example-encoder",
            ),
        )
    given = None
    if examples is not None:
        names = getattr(examples, "column_names", examples)
        listed = {name: list(examples[name]) for name in names}
        given = check_columns(listed, LOSSES[spec.loss].examples, "the examples")
        _check_held_out(given, data)
    _check_device(base)
    identity = _identity(spec, base, guide, data, given)
    if folder.check(identity, overwrite=overwrite):
        return _finished(folder, identity)
    columns = _columns(spec, data, guide, given, embedder, bar)
    folder.claim(identity, overwrite=overwrite)
    try:
        return _train(folder, identity, base, data, columns, embedder, report_to, bar)
    except OSError as error:
        raise InputError(
            f"--output {folder.path}: {error}. What was written before is whole; run the same "
            "again, which goes on from there"
        ) from error


def _train(
    folder: RunFolder,
    identity: RunIdentity,
    base: SentenceTransformerEncoder,
    data: TrainingData,
    columns: Mapping[str, list[Any]],
    embedder: Embedder,
    report_to: str,
    bar: Bar,
) -> TrainingRun:
    from datasets import Dataset

    from polarity_bench.training.evaluation import EpochEvaluator
    from polarity_bench.training.history import best_row, history_rows, is_over, write_history
    from polarity_bench.training.length_sorted import LengthSorted
    from polarity_bench.training.trainer import PolarityTrainer, TrainerOptions, read_log

    spec, kind, task = identity.spec, LOSSES[identity.spec.loss], data.task.spec
    n_examples = len(next(iter(columns.values()))) // spec.epochs
    n_texts = n_examples * sum(name != "label" for name in columns)
    steps = folder.whole_steps()
    folder.keep_only(steps)
    name = folder.path.name
    model = base.model
    evaluator = EpochEvaluator(data, base, embedder, base.id.prompt)
    parameter = spec.margin if spec.margin is not None else spec.temperature
    loss = LengthSorted(kind.build(model, parameter or 0.0), on_gpu=base.device != "cpu")
    title = f"{base.id.name} on {task.title}, {kind.title}"
    trainer = PolarityTrainer(
        model,
        spec,
        Dataset.from_dict(dict(columns)),
        loss,
        evaluator,
        TrainerOptions(folder, title, base.device, report_to),
        prompt=base.id.prompt,
        resumed=bool(steps),
    )
    total = spec.epochs * trainer.steps_per_epoch
    last = folder.checkpoint(steps[-1]) if steps else None
    rows = history_rows(read_log(last)) if last else []
    if not is_over(rows, evaluator.chosen_by, epochs=spec.epochs, patience=spec.patience):
        with bar(f"training {name}", total) as advance, quiet():
            trainer.show(advance)
            advance(steps[-1] if steps else 0)
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        rows = history_rows(trainer.state.log_history)
    best = int(best_row(rows, evaluator.chosen_by)["step"] or 0)
    if best not in folder.whole_steps():
        raise InputError(f"{folder.checkpoint(best)}: the best checkpoint is missing or not whole")
    with quiet():
        trainer.load_weights(folder.checkpoint(best))
    write_history(rows, folder.path, title)
    card = model_card(name, identity, task, rows, best, n_examples)
    files = folder.publish(model, {"README.md": card.encode()}, prompt=base.id.prompt)
    watch = trainer.stopwatch
    n_trained = n_texts * watch.n_steps / trainer.steps_per_epoch
    speed = n_trained / watch.seconds if watch.n_steps else None
    outcome = {"best_step": best, "examples_per_epoch": n_examples, "history": rows}
    folder.record(identity, finished=True, files=files, outcome=outcome)
    return TrainingRun(folder.path, identity, rows, best, speed=speed)


def _check_held_out(examples: Mapping[str, list[Any]], data: TrainingData) -> None:
    """Refuse examples that hold a text by which the checkpoint is chosen."""
    barred = set(data.held_out.query.texts) if data.held_out else set()
    for name, values in examples.items():
        for row, value in enumerate(values):
            if value in barred:
                raise InputError(
                    f"the examples, row {row}: {name} is held out to choose the checkpoint by; "
                    "make them with the same --seed and --held-out, or train with --held-out 0"
                )


def _check_device(base: SentenceTransformerEncoder) -> None:
    """Refuse a device other than the one that the trainer takes, and more than one of them."""
    import torch

    if base.device == "cpu":
        return
    if torch.cuda.device_count() > 1 or torch.device(base.device).index:
        raise InputError(
            f"--device {base.device}: training takes one GPU; show it one of them, by "
            "CUDA_VISIBLE_DEVICES=0"
        )


def _finished(folder: RunFolder, identity: RunIdentity) -> TrainingRun:
    stored = read_train_file(folder.path) or {}
    return TrainingRun(folder.path, identity, stored["history"], stored["best_step"], reused=True)


def _identity(
    spec: TrainSpec,
    base: Encoder,
    guide: Encoder,
    data: TrainingData,
    examples: Mapping[str, list[Any]] | None,
) -> RunIdentity:
    pool = data.pool
    made = examples or {"text": list(pool.texts), "label": [pool.classes[i] for i in pool.labels]}
    sha = hashlib.sha256()
    for column in made.values():
        for value in column:
            sha.update(str(value).encode() + b"\x00")
        sha.update(b"\x01")
    judge = data.held_out or data.task
    return RunIdentity(
        spec=spec,
        base=base.id,
        example_encoder=guide.id if examples is None else None,
        task=data.task.spec.digest,
        data=sha.hexdigest()[:16],
        evaluation=digest_of([judge.digest, PolarityTask.version]),
    )


def _columns(
    spec: TrainSpec,
    data: TrainingData,
    guide: Encoder,
    examples: Mapping[str, list[Any]] | None,
    embedder: Embedder,
    bar: Bar,
) -> dict[str, list[Any]]:
    """The examples of all epochs, one after the other."""
    if examples is not None:
        draws = _shuffled(spec, examples)
    else:
        kind = LOSSES[spec.loss].examples
        with bar(f"encoding with {guide.id.name}", len(data.pool)) as advance:
            source = example_source(
                data.pool, guide, kind, spec.examples, embedder, progress=advance
            )
        draws = [source.columns(spec.seed, epoch) for epoch in range(spec.epochs)]
    n_examples = len(next(iter(draws[0].values())))
    _check_batch(n_examples, spec)
    return {name: [value for drawn in draws for value in drawn[name]] for name in draws[0]}


def _check_batch(n_examples: int, spec: TrainSpec) -> None:
    if n_examples < spec.batch_size:
        raise InputError(
            f"{n_examples} examples are fewer than a batch of {spec.batch_size}; ask for more "
            "(--examples) or a smaller --batch-size"
        )


def _shuffled(spec: TrainSpec, examples: Mapping[str, list[Any]]) -> list[dict[str, list[Any]]]:
    import numpy as np

    size = len(next(iter(examples.values())))
    count = size if spec.examples == ExampleSpec() else spec.examples.solve_count(size)
    if count > size:
        raise InputError(f"--examples {count:,}: only {size:,} were given")
    draws = []
    for epoch in range(spec.epochs):
        order = np.random.default_rng([spec.seed, epoch]).permutation(size)[:count]
        draws.append({name: [values[i] for i in order] for name, values in examples.items()})
    return draws
