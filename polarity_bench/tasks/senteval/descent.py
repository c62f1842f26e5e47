"""Fast training loops for the toolkit's PyTorch models, with bit-identical results.

The toolkit trains its classifier once per regularization, always from the same seed, so that the
initial weights and the batches are the same every time. `train_linear` stacks these classifiers
and trains them in shared steps. Gradients and Adam are written out, because most of the time of a
step of such a small model is call overhead. Every product and sum uses the same kernel, operands
and order as torch's own loop, and tests compare the results bit by bit. `train_any` is torch's
own loop, for all other models, and for relatedness.

Shapes: r regularizations, n samples, b batch, d dimensions, c classes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

_RATE, _BETA, _BETA_SQUARE, _EPSILON = 1e-3, 0.9, 0.999, 1e-8  # Adam's defaults

Examples = tuple[Tensor, Tensor]
"""Features (n, d) and their labels (n,), or what else a loss compares with a model's outputs."""


def batches(n_rows: int, size: int) -> list[slice]:
    """Return the slices that divide rows into batches; the last batch may be smaller."""
    return [slice(start, start + size) for start in range(0, n_rows, size)]


@dataclass(frozen=True)
class Schedule:
    """Batch size and length of the training; see `TorchClassifier` for the attributes."""

    batch_size: int
    epoch_size: int
    tenacity: int
    max_epochs: int

    def blocks(self) -> range:
        """Return the number of epochs before each block."""
        return range(0, self.max_epochs + 1, self.epoch_size)

    def block(self, examples: Examples, draw: np.random.RandomState) -> Iterator[Examples]:
        """Yield the batches of the epochs of one block, shuffled again for each epoch."""
        features, targets = examples
        for _ in range(self.epoch_size):
            order = torch.from_numpy(draw.permutation(len(targets))).to(targets.device)
            shuffled, shuffled_targets = features[order], targets[order]
            for batch in batches(len(targets), self.batch_size):
                yield shuffled[batch], shuffled_targets[batch]


@dataclass
class EarlyStop:
    """The toolkit's early stopping, whose count of blocks without a new best is never reset."""

    tenacity: int
    best: float = -1.0
    n_worse: int = 0
    stopped: bool = False

    def is_best(self, score: float) -> bool:
        """Record the score of a block, and return whether it is a new best."""
        if score > self.best:
            self.best = score
            return True
        self.stopped = self.n_worse >= self.tenacity
        self.n_worse += 1
        return False


@torch.no_grad()
def outputs(model: nn.Module, features: Tensor, batch_size: int) -> Tensor:
    """Return the model's output for each row, (n, c), batch by batch as in the toolkit."""
    model.eval()
    return torch.cat([model(features[b]) for b in batches(len(features), batch_size)])


def train_any(
    train: Examples,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    draw: np.random.RandomState,
    score: Callable[[nn.Module], float],
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> nn.Module:
    """Train a model and return its best state.

    Args:
        train: Training examples.
        model: Model from features to outputs, trained in place.
        optimizer: Optimizer of the model's parameters.
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch.
        score: Score of a model on the dev examples, for early stopping.
        loss: Loss of a batch, from the model's outputs and the examples' labels.
    """
    watch, best = EarlyStop(schedule.tenacity), model
    for _ in schedule.blocks():
        model.train()
        for features, labels in schedule.block(train, draw):
            optimizer.zero_grad()
            loss(model(features), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if watch.is_best(score(model)):
            best = copy.deepcopy(model)
        if watch.stopped:
            break
    return best


@torch.no_grad()
def train_linear(
    train: Examples,
    dev: Examples,
    start: nn.Linear,
    weight_decays: Sequence[float],
    schedule: Schedule,
    draw: np.random.RandomState,
) -> list[nn.Linear]:
    """Train copies of a layer with cross-entropy and Adam on the CPU, one copy per weight decay.

    The result is bit-identical to that of `train_any` if d is a multiple of 4.

    Args:
        train: Training examples.
        dev: Dev examples, for the early stopping of each copy.
        start: The layer before training, from d features to c logits.
        weight_decays: Weight decay of each copy, (r,).
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch, the same for all
            copies.

    Returns:
        The best state of each copy, (r,).
    """
    stack = _Stack(start, weight_decays)
    best = [start] * len(weight_decays)
    watches = [EarlyStop(schedule.tenacity) for _ in weight_decays]
    running = list(range(len(weight_decays)))
    for _ in schedule.blocks():
        for features, labels in schedule.block(train, draw):
            stack.step(features, labels)
        n_correct = stack.count_correct(*dev, schedule.batch_size)
        for slot, i in enumerate(running):
            if watches[i].is_best(n_correct[slot]):
                best[i] = stack.layer(slot)
        kept = [slot for slot, i in enumerate(running) if not watches[i].stopped]
        running = [running[slot] for slot in kept]
        stack.keep(kept)
        if not running:
            break
    return best


class _Stack:
    """Linear classifiers in training, by Adam with torch's defaults.

    Each classifier has one row of parameters: the weights, then the biases. Adam calls the same
    kernels in the same order as torch's, with less call overhead.
    """

    def __init__(self, start: nn.Linear, weight_decays: Sequence[float]) -> None:
        self._n_classes, self._n_features = start.weight.shape
        row = torch.cat([start.weight.flatten(), start.bias])
        self._values = row.repeat(len(weight_decays), 1)
        self._weight_decay = torch.tensor(weight_decays).unsqueeze(1)
        self._mean, self._square = torch.zeros_like(self._values), torch.zeros_like(self._values)
        self._n_steps = 0

    def step(self, features: Tensor, labels: Tensor) -> None:
        """Take one step of all classifiers on a batch of features (b, d) and labels (b,)."""
        n_batch = len(labels)
        log_shares = self._logits(features).log_softmax(2)
        to_loss = torch.zeros_like(log_shares)
        to_loss[:, torch.arange(n_batch), labels] = -1 / n_batch
        to_logits = torch.ops.aten._log_softmax_backward_data(  # noqa: SLF001 - as autograd rounds
            to_loss, log_shares, 2, log_shares.dtype
        )
        stacked = features.expand(len(to_logits), -1, -1)
        to_weights = torch.bmm(to_logits.transpose(1, 2), stacked)
        self._adam(torch.cat([to_weights.flatten(1), to_logits.sum(1)], dim=1))

    def _adam(self, gradient: Tensor) -> None:
        self._n_steps += 1
        gradient = gradient.addcmul(self._weight_decay, self._values)
        self._mean.lerp_(gradient, 1 - _BETA)
        self._square.mul_(_BETA_SQUARE).addcmul_(gradient, gradient, value=1 - _BETA_SQUARE)
        correction = (1 - _BETA_SQUARE**self._n_steps) ** 0.5
        rate = _RATE / (1 - _BETA**self._n_steps)
        spread = (self._square.sqrt() / correction).add_(_EPSILON)
        self._values.addcdiv_(self._mean, spread, value=-rate)

    def count_correct(self, features: Tensor, labels: Tensor, batch_size: int) -> list[int]:
        """Count the correct predictions of each classifier, (r,)."""
        counts = torch.zeros(len(self._biases()), dtype=torch.int64)
        for batch in batches(len(labels), batch_size):
            counts += (self._logits(features[batch]).argmax(2) == labels[batch]).sum(1)
        return counts.tolist()

    def layer(self, slot: int) -> nn.Linear:
        """Return a copy of the classifier in a slot."""
        layer = nn.Linear(self._n_features, self._n_classes)
        layer.weight.copy_(self._weights()[slot])
        layer.bias.copy_(self._biases()[slot])
        return layer

    def keep(self, slots: list[int]) -> None:
        """Keep only the classifiers in these slots."""
        self._values, self._weight_decay = self._values[slots], self._weight_decay[slots]
        self._mean, self._square = self._mean[slots], self._square[slots]

    def _logits(self, features: Tensor) -> Tensor:
        if len(features) == 1:
            # BLAS handles a single row by a routine whose rounding depends on the memory alignment
            # of its operands. Copies have the same alignment as the operands of torch's own loop.
            row = features.clone()
            layers = zip(self._weights(), self._biases(), strict=True)
            return torch.stack([torch.addmm(b.clone(), row, w.clone().t()) for w, b in layers])
        return torch.baddbmm(
            self._biases().unsqueeze(1),
            features.expand(len(self._biases()), -1, -1),
            self._weights().transpose(1, 2),
        )

    def _weights(self) -> Tensor:
        flat = self._values[:, : -self._n_classes]
        return flat.view(-1, self._n_classes, self._n_features)

    def _biases(self) -> Tensor:
        return self._values[:, -self._n_classes :]
