"""Gradient descent: AdamW as torch has it, whole checkpoints, the same bytes after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polarity_bench.errors import InputError
from polarity_bench.training.loops.descent import Checkpoints, DescentPlan, Steps, descend

PLAN = DescentPlan(n_steps=12, rate=0.05, warm_up=0.25, rates={"1.": 0.2}, seed=3)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2), nn.Dropout(0.3))


def noisy_loss(module: nn.Module) -> Tensor:
    """A loss that draws: its inputs, and what dropout leaves out."""
    drawn, fixed = module(torch.randn(6, 4)), module(torch.ones(1, 4))
    return torch.add(drawn.square().mean(), fixed.sum())


def trained(folder: Path | None, die_at: int | None = None) -> tuple[nn.Sequential, list[float]]:
    module = small()

    def loss_of_step(step: int) -> Tensor:
        if step == die_at:
            raise KeyboardInterrupt
        return noisy_loss(module)

    checkpoints = Checkpoints(folder, every=3) if folder else None
    return module, list(descend(module, loss_of_step, PLAN, Steps(checkpoints)))


def test_it_is_torchs_adamw_with_a_rate_for_each_group_and_step() -> None:
    module, losses = trained(None)
    other = small()
    optimizer = torch.optim.AdamW(
        [
            {"params": [other[0].weight], "lr": 0.05, "weight_decay": 0.01},
            {"params": [other[0].bias], "lr": 0.05, "weight_decay": 0.0},
            {"params": [other[1].weight], "lr": 0.2, "weight_decay": 0.01},
            {"params": [other[1].bias], "lr": 0.2, "weight_decay": 0.0},
        ]
    )
    greatest = [0.05, 0.05, 0.2, 0.2]
    shares = [1 / 3, 2 / 3, 1, 1, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]
    for step, share in enumerate(shares):
        torch.manual_seed(3 * 1_000_003 + step)
        for group, rate in zip(optimizer.param_groups, greatest, strict=True):
            group["lr"] = rate * share
        optimizer.zero_grad()
        loss = noisy_loss(other)
        assert loss.item() == pytest.approx(losses[step], rel=1e-4)
        torch.autograd.backward(loss)
        optimizer.step()
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("die_at", [1, 3, 7, 11])
def test_a_run_stopped_anywhere_goes_on_to_the_same_bytes(tmp_path: Path, die_at: int) -> None:
    whole, losses = trained(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", die_at)
    kept = [file.name.rpartition("-")[0] for file in (tmp_path / "cut").glob("*")]
    assert kept == ([f"step-{die_at // 3 * 3:08}"] if die_at >= 3 else [])
    again, later = trained(tmp_path / "cut")
    assert later == losses
    for first, second in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)


def test_a_loss_that_is_no_number_names_its_step() -> None:
    module = small()
    with pytest.raises(InputError, match=r"step 3 of 12: the loss is nan; use a lower `rate`$"):
        descend(module, lambda step: noisy_loss(module) * (1.0 if step < 2 else torch.nan), PLAN)


@pytest.mark.parametrize("place", [0, 0.3, 0.9])
def test_a_bit_that_was_flipped_in_a_checkpoint_is_found(tmp_path: Path, place: float) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, 7)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"{file}: the checkpoint is damaged; delete the file"):
        trained(tmp_path)
    file.unlink()
    whole, _ = trained(tmp_path / "whole")
    again, _ = trained(tmp_path)
    for first, second in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)


def test_after_warm_up_the_rate_stays_where_it_is_told_to() -> None:
    plan = DescentPlan(n_steps=5, rate=1.0, warm_up=0.4, after="constant")
    assert [plan.factor(step) for step in range(5)] == [0.5, 1.0, 1.0, 1.0, 1.0]
