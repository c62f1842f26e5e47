"""Gradient descent with AdamW: the learning rate of each step, and checkpoints to resume from.

Before each step, torch's generator is seeded with the run's seed and the number of the step. A step
therefore depends only on the weights, the optimizer's moments and the number of the step, which a
checkpoint contains. A resumed run ends with the same bytes as a run without an interruption.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from polarity_bench.errors import InputError, reworded
from polarity_bench.files import write_atomically
from polarity_bench.progress import Progress

# Larger than the number of steps of any run, so runs with different seeds never share a seed.
_SEED_STRIDE = 1_000_003


@dataclass(frozen=True)
class DescentPlan:
    """Schedule and settings of the optimizer.

    Attributes:
        n_steps: Total number of optimizer steps.
        rate: Maximum learning rate.
        warm_up: Share of the steps in which the rate rises linearly.
        after: Schedule after the warm-up: `linear` falls towards 0, `constant` does not change.
        weight_decay: Weight decay of AdamW. Biases and norms do not decay, as is usual.
        rates: Maximum learning rates that replace `rate`, by the prefix of the parameters' names.
        bfloat16: Whether the loss is computed under bfloat16 autocast; weights stay float32.
        seed: Seed of all randomness in a step, such as dropout.
    """

    n_steps: int
    rate: float
    warm_up: float = 0.1
    after: Literal["linear", "constant"] = "linear"
    weight_decay: float = 0.01
    rates: Mapping[str, float] = field(default_factory=dict)
    bfloat16: bool = False
    seed: int = 0

    @classmethod
    def of(cls, settings: Any, n_steps: int, **further: Any) -> DescentPlan:
        """Return the plan for the settings of a recipe or an objective."""
        names = ("rate", "warm_up", "weight_decay")
        common = {name: getattr(settings, name) for name in names}
        return cls(n_steps, **common, bfloat16=settings.dtype == "bfloat16", **further)

    def factor(self, step: int) -> float:
        """Return the share of the maximum rate at a step, counted from 0.

        Example:
            >>> plan = DescentPlan(n_steps=10, rate=1e-5, warm_up=0.2)
            >>> [plan.factor(step) for step in (0, 1, 2, 6, 9)]
            [0.5, 1.0, 1.0, 0.5, 0.125]
        """
        rising = math.ceil(self.warm_up * self.n_steps)
        if step < rising:
            return (step + 1) / rising
        if self.after == "constant":
            return 1.0
        return (self.n_steps - step) / max(1, self.n_steps - rising)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a run, in a folder.

    Attributes:
        folder: Folder of the checkpoints.
        every: Number of steps between two checkpoints.
    """

    folder: Path
    every: int = 200

    def latest(self) -> Path | None:
        """Return the path of the last checkpoint; None if there is none."""
        return max(self.folder.glob("step-*-*.safetensors"), default=None)

    @property
    def step(self) -> int:
        """Number of completed steps at the last checkpoint; 0 if there is none."""
        latest = self.latest()
        return int(latest.stem.split("-")[1]) if latest else 0

    def write(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Write a checkpoint, whose name has the hash of its content, then remove the others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = list(self.folder.glob("step-*.safetensors"))
        content = save(dict(tensors))
        write_atomically(self.folder / f"step-{step:08}-{_hash(content)}.safetensors", content)
        for file in before:
            file.unlink()


@dataclass(frozen=True)
class Steps:
    """Checkpoints and progress of the optimizer steps that a process takes.

    Attributes:
        checkpoints: Checkpoints to resume from and to write; None means no checkpoints.
        progress: Function that gets the number of newly completed steps.
        share: Share of all steps that this process takes, in [0, 1]. Earlier processes took the
            other steps.
        begun: Start time of the first step of this process, from `time.perf_counter`.
    """

    checkpoints: Checkpoints | None = None
    progress: Progress = lambda _: None
    share: float = 1.0
    begun: float = 0.0

    def speed(self, n_texts: float) -> float | None:
        """Return the training speed so far, in texts per second; None if no text was trained on.

        Args:
            n_texts: Number of texts that this process has trained on.
        """
        return n_texts / (time.perf_counter() - self.begun) if n_texts else None


FRESH = Steps()


def descend(
    module: nn.Module,
    loss_of_step: Callable[[int], Tensor],
    plan: DescentPlan,
    steps: Steps = FRESH,
) -> Sequence[float]:
    """Minimise a loss over the parameters of a module.

    Args:
        module: The module, already in training mode. All parameters that require gradients are
            trained.
        loss_of_step: Function that returns the scalar loss of a step, counted from 0.
        plan: Schedule and settings of the optimizer.
        steps: Where to resume from, and how to report progress.

    Returns:
        The loss of each step.

    Raises:
        InputError: If a loss is not finite, or a checkpoint is damaged. The message names the step
            or the file.
    """
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    optimizer = torch.optim.AdamW(_groups(weights, plan), fused=True)
    maxima = [group["lr"] for group in optimizer.param_groups]
    losses = torch.zeros(plan.n_steps, dtype=torch.float64)
    state: dict[str, Tensor] = {"losses": losses}
    state |= {f"weight.{name}": weight for name, weight in weights.items()}
    state |= {f"buffer.{name}": buffer for name, buffer in module.named_buffers()}
    done, checkpoints = 0, steps.checkpoints
    if checkpoints and (file := checkpoints.latest()):
        done = _restore(file, state, weights, optimizer)
        steps.progress(done)
    device = next(iter(weights.values())).device.type
    for step in range(done, plan.n_steps):
        torch.manual_seed(plan.seed * _SEED_STRIDE + step)
        for group, rate in zip(optimizer.param_groups, maxima, strict=True):
            group["lr"] = rate * plan.factor(step)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=plan.bfloat16):
            loss = loss_of_step(step)
        if not torch.isfinite(loss):
            raise InputError(
                f"step {step + 1} of {plan.n_steps}: the loss is {loss.item()}; use a lower `rate`"
                f"{', or `dtype` float32' if plan.bfloat16 else ''}"
            )
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses[step] = loss.detach()
        steps.progress(1)
        if checkpoints and (step + 1) % checkpoints.every == 0 and step + 1 < plan.n_steps:
            checkpoints.write(step + 1, _state(step + 1, state, weights, optimizer))
    return losses.tolist()


def _groups(weights: Mapping[str, nn.Parameter], plan: DescentPlan) -> list[dict[str, object]]:
    """Group the parameters by learning rate and weight decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in weights.items():
        own_rates = (rate for start, rate in plan.rates.items() if name.startswith(start))
        decay = plan.weight_decay if weight.ndim > 1 else 0.0
        groups.setdefault((next(own_rates, plan.rate), decay), []).append(weight)
    return [
        {"params": parameters, "lr": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]


def _state(
    step: int,
    state: Mapping[str, Tensor],
    weights: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
) -> dict[str, Tensor]:
    """Return the content of a checkpoint."""
    tensors = {"step": torch.tensor(step), **state}
    for name, weight in weights.items():
        tensors |= {f"{key}.{name}": moment for key, moment in optimizer.state[weight].items()}
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _restore(
    file: Path,
    state: Mapping[str, Tensor],
    weights: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
) -> int:
    """Restore the state from a checkpoint and return the number of completed steps."""
    with reworded(f"{file}: the checkpoint cannot be read (", "); delete the file", OSError):
        content = file.read_bytes()
    if _hash(content) != file.stem.rpartition("-")[2]:
        raise InputError(
            f"{file}: the checkpoint is damaged; delete the file, then run the same command again "
            "to train from the beginning"
        )
    tensors = load(content)
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(tensors[name])
        for name, weight in weights.items():
            optimizer.state[weight] = {
                key: tensors[f"{key}.{name}"].to(weight.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{key}.{name}" in tensors
            }
    return int(tensors["step"])
