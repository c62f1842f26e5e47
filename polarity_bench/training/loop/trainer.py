"""sentence-transformers' trainer with what a run needs beside.

That is: a draw of examples for each epoch, its own learning rate, checkpoints that are whole or
don't count, and a stop at the first loss that is no number.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from polarity_bench.errors import InputError
from polarity_bench.progress import Progress
from polarity_bench.training.evaluation import EpochEvaluator
from polarity_bench.training.folder import RunFolder
from polarity_bench.training.history import best_row, history_rows, is_over, write_history
from polarity_bench.training.schedule import learning_rate_factor
from polarity_bench.training.spec import AS_RELEASED, TrainSpec


class EpochBatches:
    """Batches of the draw of the current epoch, in its order.

    The data set holds the draws of all epochs one after the other, each in random order already.
    """

    def __init__(self, per_epoch: int, batch_size: int) -> None:
        self.per_epoch = per_epoch
        self.batch_size = batch_size
        self.epoch = 0
        self.sampler = None  # accelerate looks for one
        self.drop_last = False

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, from 0."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.per_epoch / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        first = self.epoch * self.per_epoch
        for start in range(0, self.per_epoch, self.batch_size):
            stop = min(start + self.batch_size, self.per_epoch)
            yield list(range(first + start, first + stop))


@dataclass(frozen=True)
class TrainerOptions:
    """What does not move the weights.

    Attributes:
        folder: Where the run is written to.
        title: The title of the history's figure.
        device: A torch device; None takes the best there is.
        report_to: Where the trainer reports to, such as `tensorboard`; a transformers name.
    """

    folder: RunFolder
    title: str
    device: str | None = None
    report_to: str = "none"


class PolarityTrainer(SentenceTransformerTrainer):
    """The trainer of a run.

    Args:
        model: The model to train.
        spec: How.
        dataset: The draws of all epochs, one after the other, of one size.
        loss: The loss.
        evaluator: Scores before training and after each epoch.
        options: What does not move the weights.
        resumed: Whether training goes on from a checkpoint.
    """

    def __init__(
        self,
        model: Any,
        spec: TrainSpec,
        dataset: Any,
        loss: torch.nn.Module,
        evaluator: EpochEvaluator,
        options: TrainerOptions,
        *,
        prompt: str | None = None,
        resumed: bool = False,
    ) -> None:
        self._spec = spec
        self._folder = options.folder
        self._metric = evaluator.chosen_by
        self._per_epoch = len(dataset) // spec.epochs
        n_batches = math.ceil(self._per_epoch / spec.batch_size)
        self.steps_per_epoch = math.ceil(n_batches / spec.accumulation)
        with _tensorboard_in(options.folder.path / "tensorboard"):
            super().__init__(
                model=model,
                args=training_arguments(spec, options, prompt=prompt, resumed=resumed),
                train_dataset=dataset,
                loss=loss,
                evaluator=evaluator,
                callbacks=[_Keeper(options)],
            )
        self.stopwatch = Stopwatch()
        self.add_callback(self.stopwatch)
        self.remove_callback(PrinterCallback)  # it prints to stdout
        self.add_callback(_Ender(spec, evaluator.chosen_by))
        if spec.warm_up == AS_RELEASED:
            self.add_callback(_FreshOptimizer())

    def show(self, progress: Progress) -> None:
        """Call this with 1 after each step."""
        self.add_callback(_Shower(progress))

    def load_weights(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint into the model."""
        self._load_from_checkpoint(str(checkpoint))

    def get_batch_sampler(self, *_: Any, **__: Any) -> Any:
        """Return the batches of each epoch's draw."""
        return EpochBatches(self._per_epoch, self._spec.batch_size)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # noqa: ARG002
        """Make the learning rate of the spec, which knows its number of steps."""
        if self.lr_scheduler is None:
            factor = learning_rate_factor(self._spec, self.steps_per_epoch)
            chosen: Any = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(chosen, factor)
        return self.lr_scheduler

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss, and stop at one that is no number."""
        computed = super().compute_loss(*args, **kwargs)
        loss = computed[0] if isinstance(computed, tuple) else computed
        if not torch.isfinite(loss):
            raise InputError(
                f"step {self.state.global_step + 1} (epoch {int(self.state.epoch or 0) + 1}): the "
                f"loss is {float(loss)}. {self._last_good()} Try a lower --rate"
                f"{'' if self._spec.dtype == 'float32' else ', or --dtype float32'}"
            )
        return computed

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: a run writes its own card, when it is done."""

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        step = self.state.global_step
        try:
            super()._save_checkpoint(*args, **kwargs)
            self._folder.mark_whole(step)
            best = best_row(history_rows(self.state.log_history), self._metric)["step"]
            self._folder.keep_only({step, int(best or 0)})
        except (OSError, RuntimeError, SafetensorError) as error:  # torch's for a full disk
            raise InputError(
                f"{self._folder.checkpoint(step)} could not be written: {error}. "
                f"{self._last_good()} Make room and run the same again, which goes on from there"
            ) from error

    def _last_good(self) -> str:
        steps = self._folder.whole_steps()
        if not steps:
            return "No checkpoint was written yet."
        return f"The last good checkpoint is {self._folder.checkpoint(steps[-1])}."


class Stopwatch(TrainerCallback):
    """Measures the seconds that training takes, evaluation and saving apart, and counts steps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.n_steps = 0
        self._begun = 0.0

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self._begun = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Count."""
        self.n_steps += 1

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Stop."""
        self.seconds += time.perf_counter() - self._begun


class _Shower(TrainerCallback):
    """Moves the progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._progress(1)


class _Keeper(TrainerCallback):
    """Writes the history after each evaluation."""

    def __init__(self, options: TrainerOptions) -> None:
        self._options = options

    def on_evaluate(self, args: Any, state: Any, control: Any, **__: Any) -> None:  # noqa: ARG002
        write_history(
            history_rows(state.log_history), self._options.folder.path, self._options.title
        )


class _Ender(TrainerCallback):
    """Ends training when no better epoch has come for long; reads it off the history.

    The history is part of a checkpoint, the counter of transformers' own callback is not.
    """

    def __init__(self, spec: TrainSpec, metric: str) -> None:
        self._spec = spec
        self._metric = metric

    def on_evaluate(self, args: Any, state: Any, control: Any, **__: Any) -> None:  # noqa: ARG002
        spec, rows = self._spec, history_rows(state.log_history)
        if is_over(rows, self._metric, epochs=spec.epochs, patience=spec.patience):
            control.should_training_stop = True


class _FreshOptimizer(TrainerCallback):
    """Forgets the optimizer's moments with each epoch, as a new call of `fit` does."""

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        kwargs["optimizer"].state.clear()


@contextmanager
def _tensorboard_in(folder: Path) -> Iterator[None]:
    """Have TensorBoard's callback, if it is asked for, write there, unless the user said where."""
    name = "TENSORBOARD_LOGGING_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        del os.environ[name]


def check_tracker(name: str) -> None:
    """Refuse a tracker that transformers does not know or that is not installed."""
    if name == "none":
        return
    from transformers import integrations

    known: Any = integrations
    try:
        for callback in known.get_reporting_integration_callbacks([name]):
            callback()
    except (ValueError, RuntimeError, ImportError) as error:
        raise InputError(f"--report-to {name}: {' '.join(str(error).split())}") from error


def training_arguments(
    spec: TrainSpec,
    options: TrainerOptions,
    *,
    prompt: str | None,
    resumed: bool,
) -> SentenceTransformerTrainingArguments:
    """Say a spec in the words of the trainer; schedule and batches are the trainer's own."""
    return SentenceTransformerTrainingArguments(
        output_dir=str(options.folder.checkpoints),
        num_train_epochs=spec.epochs,
        per_device_train_batch_size=spec.batch_size,
        gradient_accumulation_steps=spec.accumulation,
        learning_rate=spec.rate,
        weight_decay=spec.weight_decay,
        seed=spec.seed,
        bf16=spec.dtype == "bfloat16",
        use_cpu=options.device == "cpu",
        prompts=prompt,
        eval_strategy="epoch",
        eval_on_start=not resumed,
        save_strategy="epoch",
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        report_to=options.report_to,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def read_log(checkpoint: Path) -> list[dict[str, Any]]:
    """Read what a checkpoint's trainer had logged."""
    state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    return list(state.log_history)
