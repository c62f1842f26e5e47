"""Training loops for the PyTorch models of the SentEval toolkit, with bit-identical results.

The toolkit trains its classifier once per regularization, always from the same seed. The initial
weights and the batches are therefore the same each time. `train_linear` stacks these classifiers
and trains them together. It and `train_shares`, for relatedness, compute gradients and Adam by
hand, because a step of such a small model spends most of its time on call overhead. Each product
and sum uses the same kernel, operands and order as a standard torch loop. Tests compare the results
bit by bit. `train_any` is a standard torch loop, for all other models.

Shapes: r regularizations, n samples, b samples in a batch, d dimensions, c classes.
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
_ALIGNED = 16
"""Rows of values have a multiple of this length: BLAS rounding depends on memory alignment."""

Examples = tuple[Tensor, Tensor]
"""Features, (n, d), and targets: labels, (n,), or other values that the loss accepts."""


def batches(n_rows: int, size: int) -> list[slice]:
    """Return slices that divide `n_rows` rows into batches; the last batch may be smaller."""
    return [slice(start, start + size) for start in range(0, n_rows, size)]


@dataclass(frozen=True)
class Schedule:
    """Batch size and number of epochs; see `TorchClassifier` for the attributes."""

    batch_size: int
    epoch_size: int
    tenacity: int
    max_epochs: int

    def blocks(self) -> range:
        """Return the number of finished epochs at the start of each block."""
        return range(0, self.max_epochs + 1, self.epoch_size)

    def block(self, examples: Examples, draw: np.random.RandomState) -> Iterator[Examples]:
        """Yield the batches of one block of epochs. Examples are shuffled for each epoch."""
        features, targets = examples
        for _ in range(self.epoch_size):
            order = torch.from_numpy(draw.permutation(len(targets))).to(targets.device)
            # A copy of one batch fits into the processor's cache, unlike a copy of all rows.
            for batch in batches(len(targets), self.batch_size):
                rows = order[batch]
                yield features.index_select(0, rows), targets.index_select(0, rows)


@dataclass
class EarlyStop:
    """Early stopping as in the toolkit.

    Unlike in common implementations, a new best score does not reset the count of worse blocks.

    Attributes:
        tenacity: Number of worse blocks that are tolerated before training ends.
        best: Best score so far.
        n_worse: Number of blocks without a new best score.
        stopped: Whether training must end.
    """

    tenacity: int
    best: float = -1.0
    n_worse: int = 0
    stopped: bool = False

    def is_best(self, score: float) -> bool:
        """Record the score of a block, and return whether the score is a new best."""
        if score > self.best:
            self.best = score
            return True
        self.stopped = self.n_worse >= self.tenacity
        self.n_worse += 1
        return False


@torch.no_grad()
def outputs(model: nn.Module, features: Tensor, batch_size: int) -> Tensor:
    """Return the model's outputs, (n, c), computed in batches as in the toolkit."""
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
    """Train a model with early stopping, and return its best state.

    Args:
        train: Training examples.
        model: Model that maps features to outputs. It is trained in place.
        optimizer: Optimizer of the model's parameters.
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch.
        score: Function that returns the dev score of a model; higher is better.
        loss: Function of the model's outputs and the targets that returns the loss of a batch.

    Returns:
        A copy of the model after the block with the best dev score.
    """
    watch, best = EarlyStop(schedule.tenacity), model
    for _ in schedule.blocks():
        model.train()
        for features, labels in schedule.block(train, draw):
            optimizer.zero_grad()
            loss(model(features), labels).backward()  # type: ignore[no-untyped-call]  # torch has no types here
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
    """Train copies of a linear layer with cross-entropy and Adam on the CPU, one per weight decay.

    If d is a multiple of 4, the result is bit-identical to `train_any`.

    Args:
        train: Training examples.
        dev: Dev examples, for early stopping. Each copy stops on its own.
        start: Layer before training, from d features to c logits.
        weight_decays: Weight decay of each copy, (r,).
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch. All copies share the
            order.

    Returns:
        The best state of each copy.
    """
    stack = _Stack(start, weight_decays)
    best = [start] * len(weight_decays)
    watches = [EarlyStop(schedule.tenacity) for _ in weight_decays]
    running = list(range(len(weight_decays)))
    for _ in schedule.blocks():
        for features, labels in schedule.block(train, draw):
            stack.step(features, labels, _cross_entropy_gradient)
        n_correct = stack.count_correct(*dev, schedule.batch_size)
        for slot, i in enumerate(running):
            if watches[i].is_best(n_correct[slot]):
                best[i] = stack.layer(slot)
        slots = [slot for slot, i in enumerate(running) if not watches[i].stopped]
        running = [running[slot] for slot in slots]
        stack.keep(slots)
        if not running:
            break
    return best


@torch.no_grad()
def train_shares(
    train: Examples,
    start: nn.Linear,
    schedule: Schedule,
    draw: np.random.RandomState,
    score: Callable[[nn.Linear], float],
) -> nn.Linear:
    """Train a linear layer with softmax, squared error and Adam on the CPU.

    If d is a multiple of 4, the result is bit-identical to `train_any`.

    Args:
        train: Training features, and targets, (n, c).
        start: Layer before training, from d features to c logits.
        schedule: Batch size and length of the training.
        draw: Generator that draws the order of the examples in each epoch.
        score: Function that returns the dev score of a layer; higher is better.

    Returns:
        The layer after the block with the best dev score.
    """
    stack, best = _Stack(start, [0.0]), start
    watch = EarlyStop(schedule.tenacity)
    for _ in schedule.blocks():
        for features, targets in schedule.block(train, draw):
            stack.step(features, targets, _squared_error_gradient)
        layer = stack.layer(0)
        if watch.is_best(score(layer)):
            best = layer
        if watch.stopped:
            break
    return best


def _cross_entropy_gradient(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy with respect to the logits, (r, b, c)."""
    log_shares = logits.log_softmax(2)
    to_log_shares = torch.zeros_like(log_shares)
    to_log_shares[:, torch.arange(len(labels)), labels] = -1 / len(labels)
    return torch.ops.aten._log_softmax_backward_data(  # type: ignore[no-any-return]  # noqa: SLF001 - rounds as autograd does
        to_log_shares, log_shares, 2, logits.dtype
    )


def _squared_error_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the gradient of the mean squared error of the softmax, (r, b, c)."""
    shares = logits.softmax(2)
    to_shares = (shares - targets) * (2 / targets.numel())
    return torch.ops.aten._softmax_backward_data(  # type: ignore[no-any-return]  # noqa: SLF001 - rounds as autograd does
        to_shares, shares, 2, logits.dtype
    )


class _Rows:
    """One row of values for each classifier, and views of its parts.

    Attributes:
        values: The rows: the weights, the biases, and zeros (see `_ALIGNED`).
        weights: View of the weights, (r, c, d).
        biases: View of the biases, (r, c).
    """

    def __init__(self, values: Tensor, shape: torch.Size) -> None:
        self.values = values
        self.weights = values[:, : shape.numel()].view(-1, *shape)
        self.biases = values[:, shape.numel() :][:, : shape[0]]


class _Stack:
    """Stack of linear classifiers that are trained together, by Adam with torch's defaults.

    The steps call the same kernels in the same order as torch's Adam, with less overhead: most
    kernels write to memory that all steps use again.
    """

    def __init__(self, start: nn.Linear, weight_decays: Sequence[float]) -> None:
        row = torch.cat([start.weight.flatten(), start.bias])
        values = nn.functional.pad(row, (0, -len(row) % _ALIGNED)).repeat(len(weight_decays), 1)
        self._mean, self._square = torch.zeros_like(values), torch.zeros_like(values)
        self._weight_decay = torch.tensor(weight_decays).unsqueeze(1)
        self._n_steps, self._shape = 0, start.weight.shape
        self._set(values)

    def _set(self, values: Tensor) -> None:
        self._parameters = _Rows(values, self._shape)
        self._gradient = _Rows(torch.zeros_like(values), self._shape)
        self._spread = torch.empty_like(values)

    def step(
        self, features: Tensor, targets: Tensor, gradient: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        """Update all classifiers on a batch.

        Args:
            features: Features, (b, d).
            targets: Labels or other targets of the batch.
            gradient: Function of the logits and the targets that returns the gradient of the loss
                with respect to the logits, (r, b, c).
        """
        to_logits = gradient(self._logits(features), targets)
        if self._is_small(features):
            for of_layer, weights in zip(to_logits, self._gradient.weights, strict=True):
                torch.mm(of_layer.t(), features, out=weights)
        else:
            stacked = features.expand(len(to_logits), -1, -1)
            torch.bmm(to_logits.transpose(1, 2), stacked, out=self._gradient.weights)
        torch.sum(to_logits, 1, out=self._gradient.biases)
        self._adam(self._gradient.values, self._parameters.values)

    def _adam(self, gradient: Tensor, values: Tensor) -> None:
        self._n_steps += 1
        gradient.addcmul_(self._weight_decay, values)
        self._mean.lerp_(gradient, 1 - _BETA)
        self._square.mul_(_BETA_SQUARE).addcmul_(gradient, gradient, value=1 - _BETA_SQUARE)
        correction = (1 - _BETA_SQUARE**self._n_steps) ** 0.5
        rate = _RATE / (1 - _BETA**self._n_steps)
        spread = torch.sqrt(self._square, out=self._spread).div_(correction).add_(_EPSILON)
        values.addcdiv_(self._mean, spread, value=-rate)

    def count_correct(self, features: Tensor, labels: Tensor, batch_size: int) -> list[int]:
        """Return the number of correct predictions of each classifier."""
        counts = torch.zeros(len(self._weight_decay), dtype=torch.int64)
        for batch in batches(len(labels), batch_size):
            counts += (self._logits(features[batch]).argmax(2) == labels[batch]).sum(1)
        return counts.tolist()

    def layer(self, slot: int) -> nn.Linear:
        """Return a copy of the classifier at position `slot` of the stack."""
        weight = self._parameters.weights[slot]
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.copy_(weight)
        layer.bias.copy_(self._parameters.biases[slot])
        return layer

    def keep(self, slots: list[int]) -> None:
        """Remove all classifiers from the stack except those at positions `slots`."""
        self._mean, self._square = self._mean[slots], self._square[slots]
        self._weight_decay = self._weight_decay[slots]
        self._set(self._parameters.values[slots])

    def _logits(self, features: Tensor) -> Tensor:
        weights, biases = self._parameters.weights, self._parameters.biases
        if len(features) == 1 or self._is_small(features):
            # For a single row, BLAS uses a routine whose rounding depends on the memory alignment
            # of the operands. Copies have the same alignment as the operands in a standard torch
            # loop.
            row, layers = features.clone(), zip(weights, biases, strict=True)
            return torch.stack([torch.addmm(b.clone(), row, w.clone().t()) for w, b in layers])
        if len(weights) == 1:  # faster than a batch of one product
            return torch.addmm(biases[0], features, weights[0].t()).unsqueeze(0)
        stacked = features.expand(len(weights), -1, -1)
        return torch.baddbmm(biases.unsqueeze(1), stacked, weights.transpose(1, 2))

    def _is_small(self, features: Tensor) -> bool:
        """Return whether torch would multiply stacks without BLAS, which rounds differently."""
        return len(features) * self._shape.numel() < 400
