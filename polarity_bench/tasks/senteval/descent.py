"""Fast training loops for the toolkit's PyTorch models, with bit-identical results.

The toolkit trains its classifier once per regularization, always from the same seed, so that the
initial weights and the batches are the same every time. `train_linear` stacks these classifiers
and trains them in shared steps, because most of the time of a step of such a small model is call
overhead. Every product and sum uses the same kernel, operands and order as torch's own loop, and
tests compare the results bit by bit. `train_any` is torch's own loop, for all other models, and for
relatedness.

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
    for _ in schedule.blocks():
        for features, labels in schedule.block(train, draw):
            stack.step(features, labels)
        for i, n_correct in enumerate(stack.count_correct(*dev, schedule.batch_size)):
            if not watches[i].stopped and watches[i].is_best(n_correct):
                best[i] = stack.layer(i)
        if all(watch.stopped for watch in watches):
            break
    return best


class _Stack:
    """Linear classifiers in training, by Adam with torch's defaults."""

    def __init__(self, start: nn.Linear, weight_decays: Sequence[float]) -> None:
        n = len(weight_decays)
        self._weights = start.weight.repeat(n, 1, 1)  # (r, c, d)
        self._biases = start.bias.repeat(n, 1, 1)  # (r, 1, c)
        self._weight_decay = torch.tensor(weight_decays)[:, None, None]
        self._adam = torch.optim.Adam([self._weights, self._biases])

    def step(self, features: Tensor, labels: Tensor) -> None:
        """Take one step of all classifiers on a batch of features (b, d) and labels (b,)."""
        n = len(self._weights)
        logits = self._logits(features).requires_grad_()
        with torch.enable_grad():
            losses = cross_entropy(logits.flatten(0, 1), labels.repeat(n), reduction="sum")
            (losses / len(labels)).backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None  # noqa: S101  `backward` has set it
        # Autograd would take this product the other way around, which rounds differently.
        to_weights = torch.bmm(logits.grad.transpose(1, 2), features.expand(n, -1, -1))
        self._weights.grad = to_weights.addcmul(self._weight_decay, self._weights)
        to_biases = logits.grad.sum(1, keepdim=True)
        self._biases.grad = to_biases.addcmul(self._weight_decay, self._biases)
        self._adam.step()

    def count_correct(self, features: Tensor, labels: Tensor, batch_size: int) -> list[int]:
        """Count the correct predictions of each classifier, (r,)."""
        counts = torch.zeros(len(self._weights), dtype=torch.int64)
        for batch in batches(len(labels), batch_size):
            counts += (self._logits(features[batch]).argmax(2) == labels[batch]).sum(1)
        return counts.tolist()

    def layer(self, i: int) -> nn.Linear:
        """Return a copy of a classifier."""
        n_classes, n_features = self._weights[i].shape
        layer = nn.Linear(n_features, n_classes)
        layer.load_state_dict({"weight": self._weights[i], "bias": self._biases[i, 0]})
        return layer

    def _logits(self, features: Tensor) -> Tensor:
        if len(features) == 1:
            # BLAS handles a single row by a routine whose rounding depends on the memory alignment
            # of its operands. Copies have the same alignment as the operands of torch's own loop.
            row = features.clone()
            layers = zip(self._weights, self._biases[:, 0], strict=True)
            return torch.stack([torch.addmm(b.clone(), row, w.clone().t()) for w, b in layers])
        stacked = features.expand(len(self._weights), -1, -1)
        return torch.baddbmm(self._biases, stacked, self._weights.transpose(1, 2))
