"""The learning rate of each step, as a share of the greatest one."""

from __future__ import annotations

import math
from collections.abc import Callable

from polarity_bench.training.recipes.margins import Margins

AS_RELEASED = "as-released"
RELEASED_WARM_UP_STEPS = 10_000


def learning_rate_factor(recipe: Margins, steps_per_epoch: int) -> Callable[[int], float]:
    """Return the function from step, 0-based, to the share of the greatest learning rate.

    Warm-up rises linearly from 0, then the schedule falls to 0 at the last step (or stays, where
    it is constant).

    `as-released` is what the margins paper's code does by calling `fit` anew for every epoch:
    linear warm-up of 10,000 steps, begun again with each epoch. An epoch of 2,000 examples in
    batches of 64 has 32 steps, whose rate reaches 0.3 % of the greatest: nothing is learned, which
    is why the first rows of the paper's Table 4 are flat.

    Example:
        >>> rate = learning_rate_factor(Margins(epochs=2, warm_up=0.1), steps_per_epoch=10)
        >>> [round(rate(step), 2) for step in (0, 1, 2, 11, 20)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
        >>> released = learning_rate_factor(Margins(warm_up="as-released"), steps_per_epoch=32)
        >>> released(31), released(32)
        (0.0031, 0.0)
    """
    if isinstance(recipe.warm_up, str):
        return lambda step: _released(step % steps_per_epoch, steps_per_epoch)
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


def _released(step: int, steps_per_epoch: int) -> float:
    if step < RELEASED_WARM_UP_STEPS:
        return step / RELEASED_WARM_UP_STEPS
    left = steps_per_epoch - step
    return max(0.0, left / max(1, steps_per_epoch - RELEASED_WARM_UP_STEPS))
