"""Begin: what of a sweep is done and what is left of it, all checked before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from polarity_bench.errors import InputError
from polarity_bench.sweeps.effort import Sizes, sizes
from polarity_bench.sweeps.elsewhere import Elsewhere, find_elsewhere
from polarity_bench.sweeps.grid import Grid
from polarity_bench.sweeps.items import Item, Setup
from polarity_bench.sweeps.make import check
from polarity_bench.sweeps.plan import FILE, Plan, going_on, plan_of, read_plan, write_plan
from polarity_bench.sweeps.state import Outcome, SweepState
from polarity_bench.types import EncoderId


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is found.

    Attributes:
        encoders: Those that no training makes, by item.
        sizes: Of its data sets.
        retry_failed: Whether what failed is to be made again.
    """

    grid: Grid
    setup: Setup
    plan: Plan
    encoders: Mapping[str, EncoderId]
    sizes: Sizes
    retry_failed: bool = False

    @property
    def state(self) -> SweepState:
        """What is done, failed or being made."""
        return SweepState(self.setup.output)

    @cached_property
    def lost(self) -> set[str]:
        """The digits of what ended and is to be made again."""
        return self.state.lost(self.plan.items, retry_failed=self.retry_failed)

    @cached_property
    def elsewhere(self) -> Elsewhere:
        """What is known of that did not end here, or is to be made again."""
        ended = self.state.ended() - self.lost
        left = (item for item in self.grid.items if item.digest not in ended)
        return find_elsewhere(left, self.setup, self.encoders)

    @cached_property
    def left(self) -> list[Item]:
        """What is to be made."""
        ended = self.state.ended() - self.lost | self.elsewhere.scores.keys()
        return [item for item in self.grid.items if item.digest not in ended]

    def take_up(self) -> None:
        """Write the plan, and what is left into the state; others may work there meanwhile."""
        write_plan(self.plan, self.setup.output)
        for digest in self.lost:
            self.state.forget(digest)
        for item in self.grid.items:
            if item.digest in self.elsewhere.scores:
                outcome = Outcome("done", item.name, scores=self.elsewhere.scores[item.digest])
                self.state.record(item.digest, outcome)


def find_sweep(
    grid: Grid, setup: Setup, file: Path, *, named: bool = False, retry_failed: bool = False
) -> Sweep:
    """Check all that can be checked before anything is made, and say what there is.

    Args:
        grid: What there is to make.
        setup: Where, and how.
        file: That says so.
        named: Whether the folder has its name of the grid.
        retry_failed: Whether what failed is to be made again.

    Raises:
        InputError: If something cannot be had, or trained; or is another than the sweep in the
            folder began with; or that sweep is of another grid of the name.
    """
    before = read_plan(setup.output) if (setup.output / FILE).is_file() else None
    if before is not None and named and before.grid != str(file.absolute()):
        raise InputError(
            f"`output`: {setup.output} is the sweep of another grid, {before.grid}; name a folder"
        )
    encoders = check(grid.items, setup.task_dir)
    known = sizes(grid.items, setup)
    plan = plan_of(grid, setup, known, encoders, file)
    plan = plan if before is None else going_on(before, plan, setup.output)
    return Sweep(grid, setup, plan, encoders, known, retry_failed)
