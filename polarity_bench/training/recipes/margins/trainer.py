"""Trainer of the recipe `margins`, an extension of the trainer of sentence-transformers.

The extension draws new examples for each epoch and sets the recipe's learning-rate schedule. It
marks complete checkpoints and stops at the first loss that is not finite.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from torch.utils.data import BatchSampler, Sampler
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.integrations.integration_utils import TensorBoardCallback
from transformers.trainer import TRAINER_STATE_NAME

from polarity_bench.encoders.load import quiet
from polarity_bench.errors import InputError, reworded
from polarity_bench.progress import Progress
from polarity_bench.training.epoch_scores import EpochScorer
from polarity_bench.training.history import (
    Row,
    best_row,
    history_rows,
    is_over,
    kept_row,
    write_history,
)
from polarity_bench.training.processes import is_first, n_processes, wait
from polarity_bench.training.recipes.margins.length_sorted import LengthSortedLoss
from polarity_bench.training.run_folder import save_modules

if TYPE_CHECKING:
    from polarity_bench.training.recipes.base import TrainingContext
    from polarity_bench.training.recipes.margins.settings import MarginSettings

Columns = Mapping[str, list[Any]]
RELEASED_WARM_UP_STEPS = 10_000
"""Warm-up steps of each epoch in the code that the margins paper released."""


def run_epochs(
    recipe: MarginSettings, context: TrainingContext, columns: Columns, judge: EpochScorer
) -> tuple[Sequence[Row], int, float | None]:
    """Train from the start or the last complete checkpoint, and load the weights to keep.

    Args:
        recipe: The recipe.
        context: The base encoder and the folder of the run.
        columns: The examples of all epochs by column, one epoch after the other.
        judge: Scores the encoder after each epoch.

    Returns:
        The history, the step whose weights are kept, and the training speed in texts per second.
        Step 0 means the base, whose weights are not loaded. The speed is None if this process
        trained no step.

    Raises:
        InputError: If a loss is not finite, or a checkpoint is missing, damaged or cannot be
            written.
    """
    folder = context.folder
    steps = folder.whole_steps()
    if is_first():
        folder.keep_only(steps)
    wait()
    trainer = PolarityTrainer(recipe, context, columns, judge)
    rows: list[Any] = []
    if last := folder.whole_checkpoint(steps[-1]) if steps else None:
        state = TrainerState.load_from_json(str(last / TRAINER_STATE_NAME))
        rows = history_rows(state.log_history)
    if not is_over(rows, judge.chosen_by, epochs=recipe.epochs, patience=recipe.stops_after):
        total = recipe.epochs * trainer.steps_per_epoch
        with context.bar(folder.titled(steps[-1] if steps else 0), total) as advance, quiet():
            trainer.progress = advance
            advance(steps[-1] if steps else 0)
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        rows = history_rows(trainer.state.log_history)
    chosen_row = kept_row(rows, judge.chosen_by) if recipe.checkpoint == "best" else rows[-1]
    kept_step = int(chosen_row["step"] or 0)
    if kept_step:
        if kept_step not in folder.whole_steps():
            raise InputError(
                f"{folder.checkpoint(kept_step)}: the checkpoint to keep is missing; train again "
                "in a new folder"
            )
        with quiet():
            trainer.load_weights(folder.whole_checkpoint(kept_step))
    n_texts = sum(len(texts) for name, texts in columns.items() if name != "label")
    n_trained = n_texts / recipe.epochs * trainer.n_steps / trainer.steps_per_epoch
    return rows, kept_step, n_trained / trainer.seconds if trainer.n_steps else None


def steps_in_epoch(recipe: MarginSettings, n_examples: int) -> int:
    """Return the number of optimizer steps in an epoch of `n_examples` examples."""
    n_batches = math.ceil(n_examples / recipe.batch_size)
    return math.ceil(math.ceil(n_batches / n_processes()) / recipe.accumulation)


def learning_rate_factor(recipe: MarginSettings, steps_per_epoch: int) -> Callable[[int], float]:
    """Return the learning-rate schedule, as a function that maps a step to its factor in [0, 1].

    The factor is the share of the maximum learning rate, and steps are counted from 0. In the
    warm-up, the factor rises linearly from 0. Then it falls to 0 at the end of training, or stays 1
    if the schedule is `constant`.

    The warm-up `as-released` reproduces the released code of the margins paper, which calls `fit`
    again for every epoch. Each epoch therefore starts with a linear warm-up of 10,000 steps. An
    epoch of 2,000 examples in batches of 64 has only 32 steps, so the rate reaches 0.3 % of the
    maximum, and the encoder learns nothing. This explains why the first rows of the paper's Table 4
    are flat.

    Example:
        >>> from polarity_bench.training.recipes.margins.recipe import Margins
        >>> rate = learning_rate_factor(Margins(epochs=2, warm_up=0.1), steps_per_epoch=10)
        >>> [round(rate(step), 2) for step in (0, 1, 2, 11, 20)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
        >>> released = learning_rate_factor(Margins(warm_up="as-released"), steps_per_epoch=32)
        >>> released(31), released(32)
        (0.0031, 0.0)
    """
    if isinstance(recipe.warm_up, str):
        return lambda step: _released_factor(step % steps_per_epoch, steps_per_epoch)
    n_steps = recipe.epochs * steps_per_epoch
    warm_up = math.ceil(recipe.warm_up * n_steps) if recipe.warm_up < 1 else int(recipe.warm_up)

    def factor(step: int) -> float:
        if step < warm_up:
            return step / warm_up
        progress = (step - warm_up) / max(1, n_steps - warm_up)
        if recipe.schedule == "constant":
            return 1.0
        if recipe.schedule == "linear":
            return max(0.0, 1 - progress)
        return max(0.0, 0.5 * (1 + math.cos(math.pi * progress)))

    return factor


def _released_factor(step: int, steps_per_epoch: int) -> float:
    """Return the factor of the released schedule at a step of an epoch."""
    if step < RELEASED_WARM_UP_STEPS:
        return step / RELEASED_WARM_UP_STEPS
    left = steps_per_epoch - step
    return max(0.0, left / max(1, steps_per_epoch - RELEASED_WARM_UP_STEPS))


class EpochRows(Sampler[int]):
    """Sampler of the rows of the current epoch's draw.

    The data set contains the draws of all epochs, one after the other. Each draw is already in
    random order, so the sampler does not shuffle.
    """

    def __init__(self, per_epoch: int) -> None:
        self.per_epoch = per_epoch
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the current epoch, counted from 0. `accelerate` calls this method."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * self.per_epoch
        return iter(range(first, first + self.per_epoch))


class PolarityTrainer(SentenceTransformerTrainer, TrainerCallback):
    """Trainer of a run with the recipe `margins`, and its own callback.

    As a callback, it shows progress, measures the speed, writes the history and stops early. It
    decides from the history whether to stop, because checkpoints contain the history. They do not
    contain the counter of transformers' own early-stopping callback, so with that callback a
    resumed run could stop at another epoch.

    Args:
        recipe: The recipe.
        context: The base encoder and the folder of the run.
        columns: The examples of all epochs by column, one epoch after the other.
        judge: Scores the encoder after each epoch.
    """

    def __init__(
        self, recipe: MarginSettings, context: TrainingContext, columns: Columns, judge: EpochScorer
    ) -> None:
        self.progress: Progress = lambda _: None
        self.seconds = 0.0  # of training, without evaluation and saving
        self.n_steps = 0
        self._begun = 0.0
        self._recipe = recipe
        self._folder = context.folder
        self._metric = judge.chosen_by
        dataset = Dataset.from_dict(dict(columns))
        self._per_epoch = len(dataset) // recipe.epochs
        self.steps_per_epoch = steps_in_epoch(recipe, self._per_epoch)
        loss = LengthSortedLoss(
            recipe.loss.build(context.base.model),
            on_gpu=context.base.device != "cpu",
            bfloat16=recipe.dtype == "bfloat16",
            gather=recipe.gathers,
        )
        super().__init__(
            model=context.base.model,
            args=training_arguments(recipe, context),
            train_dataset=dataset,
            loss=loss,
            evaluator=_Evaluator(judge),
            callbacks=[self],
        )
        self.remove_callback(PrinterCallback)  # it prints to stdout
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
                callback.logging_dir = str(context.folder.path / "tensorboard")

    def on_epoch_begin(self, *_: Any, **kwargs: Any) -> None:
        """Start the clock, and reset the optimizer's moments if `warm_up` is `as-released`."""
        self._begun = time.perf_counter()
        if self._recipe.warm_up == "as-released":
            # The released code calls `fit` again for each epoch, which resets AdamW's moments.
            kwargs["optimizer"].state.clear()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Count the step."""
        self.n_steps += 1
        self.progress(1)

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Stop the clock."""
        self.seconds += time.perf_counter() - self._begun

    def on_evaluate(self, args: Any, state: Any, control: Any, **__: Any) -> None:
        """Write the history, and stop if training is over."""
        rows, recipe = history_rows(state.log_history), self._recipe
        if is_first():
            write_history(rows, self._folder.path)
        if is_over(rows, self._metric, epochs=recipe.epochs, patience=recipe.stops_after):
            control.should_training_stop = True

    def load_weights(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint into the model."""
        self._load_from_checkpoint(str(checkpoint))

    def get_batch_sampler(self, *_: Any, **__: Any) -> Any:
        """Return the batch sampler over the current epoch's draw."""
        return BatchSampler(EpochRows(self._per_epoch), self._recipe.batch_size, drop_last=False)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Create the learning-rate schedule of the recipe; the number of steps is ignored."""
        if self.lr_scheduler is None:
            factor = learning_rate_factor(self._recipe, self.steps_per_epoch)
            scheduled: Any = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(scheduled, factor)
        return self.lr_scheduler

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss of a batch.

        Raises:
            InputError: If the loss is not finite.
        """
        computed = super().compute_loss(*args, **kwargs)
        loss = computed[0] if isinstance(computed, tuple) else computed
        if not torch.isfinite(loss):
            raise InputError(
                f"step {self.state.global_step + 1} (epoch {int(self.state.epoch or 0) + 1}): the "
                f"loss is {float(loss)}. {self._last_good()} Try a lower `rate`"
                f"{'' if self._recipe.dtype == 'float32' else ', or `dtype` float32'}"
            )
        return computed

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no model card callback, because a run writes its own card when it ends."""

    def _save(self, output_dir: str | None = None, *_: Any, **__: Any) -> None:
        """Save the model into a checkpoint, without the library's model card."""
        if is_first():  # all processes would write the same files otherwise
            save_modules(self.model, Path(str(output_dir or self.args.output_dir)))

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        step = self.state.global_step
        problem = f"{self._folder.checkpoint(step)} could not be written: "
        remedy = f". {self._last_good()} Free some space, then run the same command again to resume"
        kinds = OSError, RuntimeError, SafetensorError  # RuntimeError: full disk (torch)
        with reworded(problem, remedy, *kinds):
            super()._save_checkpoint(*args, **kwargs)
            wait()  # each process writes a part of the checkpoint
            if is_first():
                self._folder.mark_whole(step)
                kept = {step}
                if self._recipe.checkpoint == "best":
                    best = best_row(history_rows(self.state.log_history), self._metric)["step"]
                    kept.add(int(best or 0))
                self._folder.keep_only(kept)
            wait()

    def _last_good(self) -> str:
        steps = self._folder.whole_steps()
        if not steps:
            return "No checkpoint has been written."
        return f"The last good checkpoint is {self._folder.checkpoint(steps[-1])}."


class _Evaluator(BaseEvaluator):
    """Adapter that gives an `EpochScorer` the interface of the trainer's evaluators."""

    def __init__(self, judge: EpochScorer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library has no types here
        self._judge = judge
        self.primary_metric = judge.chosen_by

    def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
        return self._judge(model)


def check_tracker(name: str) -> None:
    """Check that an experiment tracker is available.

    Raises:
        InputError: If transformers does not support the tracker, or if it is not installed.
    """
    if name == "none":
        return
    from transformers import integrations

    untyped: Any = integrations
    try:
        for callback in untyped.get_reporting_integration_callbacks([name]):
            callback()
    except (ValueError, RuntimeError, ImportError) as error:
        raise InputError(f"`report_to` {name}: {' '.join(str(error).split())}") from error


def check_device(device: str) -> None:
    """Check that a device is the one that the trainer uses.

    Raises:
        InputError: If the device is another GPU.
    """
    local_gpu = int(os.environ.get("LOCAL_RANK", "0"))
    if device != "cpu" and (torch.device(device).index or 0) != local_gpu:
        raise InputError(
            f"`device` {device}: this process trains on GPU {local_gpu}; to use another GPU, list "
            "it first in CUDA_VISIBLE_DEVICES"
        )


def training_arguments(
    recipe: MarginSettings, context: TrainingContext
) -> SentenceTransformerTrainingArguments:
    """Return the trainer's arguments for a recipe, without the schedule and the batch sampler."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(context.folder.checkpoints),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulation,
        learning_rate=recipe.rate,
        weight_decay=recipe.weight_decay,
        seed=recipe.seed,
        bf16=recipe.dtype == "bfloat16",
        use_cpu=context.base.device == "cpu",
        prompts=context.base.id.prompt,
        eval_strategy="epoch",
        eval_on_start=not context.folder.whole_steps(),
        save_strategy="epoch",
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        report_to=recipe.report_to,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        # Buffers are constant. Broadcasting them would block if processes have different numbers of
        # chunks, since each forward pass would wait for one on every other process.
        ddp_broadcast_buffers=False,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # noqa: SLF001  one process would use all GPUs
    return arguments
