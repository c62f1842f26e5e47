"""The learning rate, step by step against transformers' own schedules."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from standins import call
from standins.training import SMALL, run
from transformers import get_scheduler

from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.margins.settings import Schedule
from polarity_bench.training.recipes.margins.trainer import (
    RELEASED_WARM_UP_STEPS,
    learning_rate_factor,
)


def theirs(schedule: Schedule, warm_up: int, n_steps: int) -> list[float]:
    """The factor of each step, by transformers."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    name = "constant_with_warmup" if schedule == "constant" else schedule
    scheduler: Any = get_scheduler(name, optimizer, warm_up, n_steps)
    (factor,) = scheduler.lr_lambdas
    return [float(factor(step)) for step in range(n_steps)]


def ours(spec: Margins, steps_per_epoch: int) -> list[float]:
    factor = learning_rate_factor(spec, steps_per_epoch)
    return [factor(step) for step in range(spec.epochs * steps_per_epoch)]


@given(
    schedule=st.sampled_from(get_args(Schedule)),
    warm_up=st.integers(0, 40),
    epochs=st.integers(1, 4),
    steps_per_epoch=st.integers(1, 10),
)
def test_a_warm_up_in_steps_is_transformers(
    schedule: Schedule, warm_up: int, epochs: int, steps_per_epoch: int
) -> None:
    """Also where the warm-up is longer than the training."""
    spec = Margins(epochs=epochs, warm_up=warm_up, schedule=schedule)
    wanted = theirs(schedule, warm_up, epochs * steps_per_epoch)
    assert ours(spec, steps_per_epoch) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("schedule", get_args(Schedule))
@pytest.mark.parametrize(
    ("share", "n_warm_up"),
    [(0.1, 4), (0.06, 3), (0.999, 40), (0.0, 0), (0.5, 20)],  # of 40 steps, rounded up
)
def test_a_warm_up_as_share_is_rounded_up(schedule: Schedule, share: float, n_warm_up: int) -> None:
    spec = Margins(epochs=4, warm_up=share, schedule=schedule)
    assert ours(spec, 10) == pytest.approx(theirs(schedule, n_warm_up, 40), abs=1e-12)


def test_from_one_on_a_warm_up_is_in_steps() -> None:
    assert ours(Margins(epochs=1, warm_up=1), 4) == pytest.approx([0, 1, 2 / 3, 1 / 3])
    assert ours(Margins(epochs=1, warm_up=2.0), 4) == pytest.approx([0, 0.5, 1, 0.5])


def test_the_schedules_by_hand() -> None:
    """One epoch of four steps without warm-up."""
    linear = Margins(epochs=1, warm_up=0, schedule="linear")
    assert ours(linear, 4) == pytest.approx([1, 0.75, 0.5, 0.25])
    cosine = Margins(epochs=1, warm_up=0, schedule="cosine")
    assert ours(cosine, 4) == pytest.approx([1, 0.5 + 8**-0.5, 0.5, 0.5 - 8**-0.5])
    constant = Margins(epochs=1, warm_up=0, schedule="constant")
    assert ours(constant, 4) == [1] * 4


@pytest.mark.parametrize("steps_per_epoch", [1, 32, 782, 10_000, 10_300])
def test_as_released_begins_10000_steps_of_warm_up_with_every_epoch(steps_per_epoch: int) -> None:
    spec = Margins(epochs=3, warm_up="as-released")
    factor = learning_rate_factor(spec, steps_per_epoch)
    once = theirs("linear", 10_000, steps_per_epoch)
    found = [factor(step) for step in range(3 * steps_per_epoch)]
    assert found == pytest.approx(3 * once, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_after_the_last_step_the_rate_is_0(schedule: Schedule) -> None:
    factor = learning_rate_factor(Margins(epochs=3, schedule=schedule), steps_per_epoch=7)
    assert factor(21) == pytest.approx(0, abs=1e-12)


def test_the_released_rate_of_the_papers_epochs() -> None:
    """50,000 examples in batches of 64 are 782 steps: 3e-5 never gets above 2.343e-6."""
    assert RELEASED_WARM_UP_STEPS == 10_000
    factor = learning_rate_factor(Margins(warm_up="as-released"), 782)
    greatest = max(factor(step) for step in range(5 * 782))
    assert 3e-5 * greatest == pytest.approx(2.343e-6)


@given(
    schedule=st.sampled_from(get_args(Schedule)),
    warm_up=st.sampled_from([0, 0.1, 0.9, 1, 7, "as-released"]),
    steps=st.integers(1, 12),
)
def test_a_rate_is_a_share(schedule: Schedule, warm_up: Any, steps: int) -> None:
    spec = Margins(
        epochs=2, warm_up=warm_up, schedule="linear" if warm_up == "as-released" else schedule
    )
    assert all(0 <= rate <= 1 for rate in ours(spec, steps))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"epochs": 1, "batch_size": 32},
            "the run is too short: expected at least 10 optimizer steps, got 1; use more",
        ),
        (
            {"epochs": 2},
            "too short: expected at least 10 optimizer steps, got 8; use more examples",
        ),
        (
            {"epochs": 5, "warm_up": "as-released"},
            "for 20 optimizer steps: the learning rate reaches at most 3e-07 instead of 0.001",
        ),
        ({"epochs": 3}, None),
    ],
)
def test_a_schedule_without_a_real_step_is_warned_about_with_its_numbers(
    changes: dict[str, Any],
    said: str | None,
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the command line does too; nothing is trained here."""

    class Begun(BaseException):
        pass

    def begin(*_: Any) -> None:
        raise Begun

    monkeypatch.setattr(Margins, "fit", begin)
    with (
        warnings.catch_warnings(record=True, action="always", category=ParameterWarning) as caught,
        pytest.raises(Begun),
    ):
        run(tiny_model, task_dir, tmp_path / "x", replace(SMALL, **changes))
    found = [str(each.message) for each in caught if each.category is ParameterWarning]
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_the_command_says_such_a_warning_before_it_trains(
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (
        "train --task mini --examples 16 --batch-size 8 --epochs 1 --neighbours 4 --threshold -1"
    )
    more: list[str | Path] = ["--model", tiny_model, "--task-dir", task_dir, "--output", "x"]
    done = call(monkeypatch, capsys, *words.split(), *more, "--held-out", "6")
    assert done.code == 0, done.err
    said = "warning: the run is too short: expected at least 10 optimizer steps, got 2; use"
    before, _, after = done.err.partition(said)
    assert "rate of" not in done.err
    assert "training x" in after
    assert "training x" not in before
    assert done.err.count("too short") == 1
