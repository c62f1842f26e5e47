"""Train an encoder as a job describes.

The steps are the same for every recipe: lock the folder, compute the identity of the run, claim the
folder, fit, and publish. The encoder is scored before, during and after training.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors import SafetensorError

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    load_encoder,
)
from polarity_bench.encoders.reference_encoder import Base, card_of, find_base, write_base
from polarity_bench.encoders.train_file import read_train_file
from polarity_bench.errors import InputError, reworded
from polarity_bench.evaluation.contamination import (
    TEXTS_FILE,
    TrainingTexts,
    known_to,
    texts_before,
)
from polarity_bench.evaluation.environment import environment
from polarity_bench.files import cannot_write
from polarity_bench.progress import Bar, no_bar
from polarity_bench.registers import plugin_failure
from polarity_bench.tasks.catalogue import choose_task, load_tasks
from polarity_bench.training.data import load_training_data
from polarity_bench.training.epoch_scores import EpochScorer
from polarity_bench.training.history import Row, draw_history, write_history
from polarity_bench.training.job import Job
from polarity_bench.training.model_card import model_card
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.training.processes import is_first, join, n_processes, of_first, wait
from polarity_bench.training.recipes.base import FitResult, Inputs, Recipe, TrainingContext
from polarity_bench.training.run_folder import RunFolder, RunIdentity, check_apart, run_folder
from polarity_bench.values import digest_of


@dataclass(frozen=True)
class TrainingRun:
    """Results of a training run.

    Attributes:
        folder: The run folder.
        run: Digest of the run's identity.
        rows: Scores by epoch, as fractions, or None if undefined; the first row is before training.
        kept: Step of the published weights; 0 means the unchanged base.
        figures: Number of held-out rows, and numbers of the recipe, such as the number of examples
            per epoch.
        reused: Whether the run had already finished in this folder.
        speed: Training texts per second; None if nothing was trained or the speed is unknown.
    """

    folder: Path
    run: str
    rows: Sequence[Row]
    kept: int
    figures: Mapping[str, int | str] = field(default_factory=dict)
    reused: bool = False
    speed: float | None = None


def train(
    job: Job,
    *,
    overwrite: bool = False,
    bar: Bar = no_bar,
    check: Callable[[EncoderId], None] = lambda _: None,
) -> TrainingRun:
    """Train an encoder on a polarity task, and score it before and after training.

    To resume an interrupted run, run the same job again. Training continues from the last
    checkpoint, if the recipe writes checkpoints, and the final weights are the same. Under
    torchrun, each process trains on its own batches. Only the first process computes scores and
    writes files.

    Args:
        job: The job to run.
        overwrite: Whether to replace a finished run or another run in the folder.
        bar: Opens progress bars.
        check: Called with the identity of the base before training; raises InputError to reject it.

    Raises:
        InputError: If an argument is invalid (raised before any long work starts), or if the loss
            is not finite; the message names the step.

    Warns:
        ParameterWarning: If a parameter is probably a mistake.
    """
    recipe = job.recipe
    recipe.check()
    for remark in recipe.remarks:
        warnings.warn(remark, ParameterWarning, stacklevel=2)
    join(job.options.device)
    folder = run_folder(job.model, job.output)
    with (
        folder.locked() if is_first() else nullcontext(),
        open_context(job, folder, bar if is_first() else no_bar) as context,
    ):
        check(context.base.id)
        inputs = recipe.load(context)
        for role in inputs.encoders:
            if name := getattr(recipe, role, None):
                check_apart(folder.path, f"`{role}`", name)
        identity = identify(recipe, context, inputs)
        if of_first(is_first() and folder.state(identity, overwrite=overwrite)) == "finished":
            return finished(folder, identity)
        examples = recipe.prepare(context, inputs.examples)
        if is_first():
            folder.claim(identity, overwrite=overwrite)
        wait()
        before = texts_before(job.model, context.base)
        for name, encoder in inputs.learnt_from:
            texts = texts_before(name, encoder)
            before = before and texts and before | texts
        # Checkpoints are saved with this model, so they record the base too.
        write_base(context.base.model, Base(folder.base, identity.base))
        with _output_errors(folder.path):
            epochs = EpochScorer(context.data, context.base, context.embedder, context.bar)
            if recipe.scores_first:
                epochs.add(0, 0)
            fitted = recipe.fit(context, examples, epochs)
            if is_first():
                publish(job, context, identity, fitted, epochs.rows, inputs.texts, before)
            wait()
            return replace(finished(folder, identity), reused=False, speed=fitted.speed)


@contextmanager
def _output_errors(folder: Path) -> Iterator[None]:
    """Convert an error of writing to the run folder, or of a plug-in's files, to an InputError."""
    so_far = ". The files written so far are complete; run the same command again to resume"
    with reworded(f"`output` {folder}: ", so_far, OSError, SafetensorError):
        try:
            yield
        except OSError as error:
            if not cannot_write(error) and (blamed := plugin_failure(error)):
                raise blamed from error
            raise


@contextmanager
def open_context(job: Job, folder: RunFolder, bar: Bar) -> Iterator[TrainingContext]:
    """Load the job's data and base, and open its embedding store.

    Raises:
        InputError: If the data or the base is not available.
    """
    spec = choose_task(load_tasks(job.task_dir), job.task)
    rows, seed = job.recipe.hold_out
    base = load_base(job.model, job.options)
    known = None if rows == 0 else known_to(job.model, base)
    data = load_training_data(spec, job.access(), held_out=rows, seed=seed, known=known)
    with job.embedder(base) as embedder:
        embedder = data.in_groups(embedder)
        yield TrainingContext(
            folder, base, job.options, data, embedder, job.access(), job.task_dir, bar
        )


def load_base(
    model: str, options: EncoderOptions | None = None, field: str = "model"
) -> SentenceTransformerEncoder:
    """Load an encoder whose weights can be trained or averaged.

    Args:
        model: Name or folder of the encoder.
        options: Options for loading; None uses the defaults.
        field: Name of the argument that contains the name, for the error message.

    Raises:
        InputError: If the encoder cannot be loaded, has no weights, or encodes queries and
            documents differently.
    """
    encoder = load_encoder(model, options)
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise InputError(
            f"`{field}` {model}: a baseline has no weights, nor do saved vectors; use a "
            "sentence-transformers model"
        )
    if encoder.id.sides is not None:
        raise InputError(
            f"`{field}` {model}: a router encodes queries and documents by different modules, but "
            "training needs one encoder for both; use another model"
        )
    return encoder


def identify(recipe: Recipe, context: TrainingContext, inputs: Inputs) -> RunIdentity:
    """Return the identity of a run: everything that affects its weights and scores."""
    data = context.data
    judged = [task.digest for task in (data.task, data.held_out) if task is not None]
    return RunIdentity(
        recipe=recipe,
        base=context.base.id,
        encoders=inputs.encoders,
        task=data.task.spec.digest,
        inputs=inputs.digest,
        judged=digest_of([*judged, data.task.protocol]),
        processes=n_processes(),
        gathered=recipe.gathers,
    )


def finished(folder: RunFolder, identity: RunIdentity) -> TrainingRun:
    """Read the results of a finished run from its folder, and remove what only resuming needs.

    A run that was killed before it removed its checkpoints is finished too.
    """
    folder.remove_checkpoints()
    stored = read_train_file(folder.path) or {}
    rows, kept, figures = (stored[name] for name in ("history", "kept", "figures"))
    return TrainingRun(folder.path, identity.digest, rows, kept, figures, reused=True)


def publish(
    job: Job,
    context: TrainingContext,
    identity: RunIdentity,
    fitted: FitResult,
    rows: Sequence[Row],
    texts: Sequence[str],
    before: TrainingTexts | None,
) -> None:
    """Write the history, the model card and the encoder, then mark the run as finished.

    Args:
        job: The job.
        context: The trained encoder, and the folder of the run.
        identity: Identity of the run.
        fitted: Result of the recipe.
        rows: Scores by epoch.
        texts: Training texts of the run.
        before: Training texts of the base; None if they are unknown.
    """
    from polarity_bench.encoders.axis import axis_of

    folder, recipe, task = context.folder, job.recipe, context.data.task.spec
    n_held_out = len(context.data.held_out_texts)
    facts = {**fitted.facts, "Held out": f"{n_held_out:,} training rows"}
    write_history(rows, folder.path)
    draw_history(rows, folder.path, f"{identity.base.name} on {task.title}, {recipe.title}")
    encoder = context.base if fitted.kept else load_base(job.model, job.options)
    if not fitted.kept and encoder.id.digest != identity.base.digest:
        raise InputError(
            f"`model` {job.model}: no epoch was better than the base, so the base must be "
            f"published, but its weights have changed: expected {identity.base.digest}, got "
            f"{encoder.id.digest}; restore the base and run the same command again"
        )
    # A published unchanged base still records the encoder that it was trained from.
    base = (None if fitted.kept else find_base(encoder)) or Base(folder.base, identity.base)
    write_base(encoder.model, base)
    licence = card_of(context.base.model).get("license")
    axis = axis_of(encoder.model)
    card = model_card(
        folder.path,
        recipe,
        identity,
        task,
        rows,
        replace(fitted, facts=facts),
        base,
        licence,
        strength=None if axis is None else axis.strength,
    )
    beside = {"README.md": card.encode(), **fitted.files}
    if before is not None:
        trained_on = before | TrainingTexts.of(texts if fitted.kept else ())
        beside[TEXTS_FILE] = trained_on.to_bytes()
    files = folder.publish(encoder.model, beside, prompt=identity.base.prompt)
    outcome = {
        "task": task.name,
        "environment": environment(context.base.device),
        "kept": fitted.kept,
        "figures": {"held_out": n_held_out, **fitted.figures},
        "history": rows,
    }
    folder.record(identity, finished=True, files=files, outcome=outcome)
