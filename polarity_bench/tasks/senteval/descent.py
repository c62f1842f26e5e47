"""Fast training loops for the toolkit's PyTorch models, with bit-identical results.

The toolkit trains its classifier once per regularization, always from the same seed, so that the
initial weights and the batches are the same every time. `train_linear` stacks these classifiers
and trains them in shared steps. Gradients and Adam are written out, because most of the time of a
step of such a small model is call overhead. Every product and sum uses the same kernel, operands
and order as torch's own loop, and tests compare the results bit by bit. `train_any` is torch's
own loop, for all other models.

Shapes: r regularizations, n samples, b batch, d dimensions, c classes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

_RATE, _BETA, _BETA_SQUARE, _EPSILON = 1e-3, 0.9, 0.999, 1e-8  # Adam's defaults

Examples = tuple[Tensor, Tensor]
"""Features (n, d) and their labels (n,)."""


@dataclass(frozen=True)
class Schedule:
    """Batch size and length of the training; see `TorchClassifier` for the attributes."""

    batch_size: int
    epoch_size: int
    tenacity: int
    max_epochs: int


def batches(n_rows: int, size: int) -> list[slice]:
    """Return the slices that divide rows into batches; the last batch may be smaller."""
    return [slice(start, start + size) for start in range(0, n_rows, size)]


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
def predict(model: nn.Module, features: Tensor, batch_size: int) -> Tensor:
    """Predict the class of each row, (n,), batch by batch as in the toolkit."""
    model.eval()
    return torch.cat([model(features[b]).argmax(1) for b in batches(len(features), batch_size)])


def train_any(
    train: Examples,
    dev: Examples,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    draw: np.random.RandomState,
) -> nn.Module:
    """Train a model with cross-entropy and return its best state.

    Args:
        train: Training examples.
        dev: Dev examples, for early stopping.
        model: Model from features to logits, trained in place.
        optimizer: Optimizer of the model's parameters.
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch.
    """
    watch, best = EarlyStop(schedule.tenacity), model
    n_epochs = 0
    while not watch.stopped and n_epochs <= schedule.max_epochs:
        model.train()
        for _ in range(schedule.epoch_size):
            features, labels = _shuffled(train, draw)
            for batch in batches(len(labels), schedule.batch_size):
                optimizer.zero_grad()
                loss = cross_entropy(model(features[batch]), labels[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        n_epochs += schedule.epoch_size
        correct = predict(model, dev[0], schedule.batch_size) == dev[1]
        if watch.is_best(int(correct.sum())):
            best = copy.deepcopy(model)
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
    n_epochs = 0
    while running and n_epochs <= schedule.max_epochs:
        for _ in range(schedule.epoch_size):
            features, labels = _shuffled(train, draw)
            for batch in batches(len(labels), schedule.batch_size):
                stack.step(features[batch], labels[batch])
        n_epochs += schedule.epoch_size
        n_correct = stack.count_correct(*dev, schedule.batch_size)
        for slot, i in enumerate(running):
            if watches[i].is_best(n_correct[slot]):
                best[i] = stack.layer(slot)
        kept = [slot for slot, i in enumerate(running) if not watches[i].stopped]
        if len(kept) < len(running):
            running = [running[slot] for slot in kept]
            stack.keep(kept)
    return best


class Adam:
    """Adam with torch's defaults, written out.

    It calls the same kernels in the same order as torch's Adam, with less call overhead.

    Attributes:
        values: The parameters, updated in place by each step.
    """

    def __init__(self, values: Tensor, weight_decay: Tensor | float = 0.0) -> None:
        self.values = values
        self._weight_decay = torch.as_tensor(weight_decay, dtype=values.dtype, device=values.device)
        self._mean = torch.zeros_like(values)
        self._square = torch.zeros_like(values)
        self._n_steps = 0

    def step(self, gradient: Tensor) -> None:
        """Take one step against the gradient, which has the shape of `values`."""
        self._n_steps += 1
        gradient = gradient.addcmul(self._weight_decay, self.values)
        self._mean.lerp_(gradient, 1 - _BETA)
        self._square.mul_(_BETA_SQUARE).addcmul_(gradient, gradient, value=1 - _BETA_SQUARE)
        correction = (1 - _BETA_SQUARE**self._n_steps) ** 0.5
        rate = _RATE / (1 - _BETA**self._n_steps)
        spread = (self._square.sqrt() / correction).add_(_EPSILON)
        self.values.addcdiv_(self._mean, spread, value=-rate)

    def keep(self, rows: list[int]) -> None:
        """Keep only these rows of the values and of the weight decay."""
        self.values, self._weight_decay = self.values[rows], self._weight_decay[rows]
        self._mean, self._square = self._mean[rows], self._square[rows]


class SoftmaxLayer:
    """A linear layer with softmax that learns distributions with squared error and Adam."""

    def __init__(self, start: nn.Linear) -> None:
        self._n_classes = start.out_features
        self._adam = Adam(torch.cat([start.weight.flatten(), start.bias]).detach())
        self._one = torch.ones((), device=start.weight.device)

    @torch.no_grad()
    def step(self, features: Tensor, wanted: Tensor) -> None:
        """Take one step on a batch of features (b, d) and target distributions (b, c)."""
        shares = self.shares(features)
        mean = 1  # torch's code for the reduction "mean"
        to_shares = torch.ops.aten.mse_loss_backward(self._one, shares, wanted, mean)
        to_logits = torch.ops.aten._softmax_backward_data(  # noqa: SLF001 - as autograd rounds
            to_shares, shares, 1, shares.dtype
        )
        to_weights = to_logits.t().mm(features)
        self._adam.step(torch.cat([to_weights.flatten(), to_logits.sum(0)]))

    @torch.no_grad()
    def shares(self, features: Tensor) -> Tensor:
        """Predict the distribution of each row, (n, c)."""
        weights = self._adam.values[: -self._n_classes].view(self._n_classes, -1)
        biases = self._adam.values[-self._n_classes :]
        return torch.addmm(biases, features, weights.t()).softmax(1)


class _Stack:
    """Linear classifiers in training.

    Each classifier has one row of parameters: the weights, then the biases.
    """

    def __init__(self, start: nn.Linear, weight_decays: Sequence[float]) -> None:
        self._n_classes, self._n_features = start.weight.shape
        row = torch.cat([start.weight.flatten(), start.bias])
        decays = torch.tensor(weight_decays).unsqueeze(1)
        self._adam = Adam(row.repeat(len(weight_decays), 1), decays)

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
        self._adam.step(torch.cat([to_weights.flatten(1), to_logits.sum(1)], dim=1))

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
        self._adam.keep(slots)

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
        flat = self._adam.values[:, : -self._n_classes]
        return flat.view(-1, self._n_classes, self._n_features)

    def _biases(self) -> Tensor:
        return self._adam.values[:, -self._n_classes :]


def _shuffled(examples: Examples, draw: np.random.RandomState) -> Examples:
    features, labels = examples
    order = torch.from_numpy(draw.permutation(len(labels))).to(labels.device)
    return features[order], labels[order]
