"""Preparation of a sweep: checks of all inputs, and a list of the remaining items."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.environment import command_line
from polarity_bench.files import folder_name
from polarity_bench.progress import no_bar
from polarity_bench.results.packed_results import paths_by_encoder
from polarity_bench.sweeps.cost import Sizes, sizes
from polarity_bench.sweeps.execute import check
from polarity_bench.sweeps.external_results import ExternalResults, find_external_results
from polarity_bench.sweeps.grid import Grid
from polarity_bench.sweeps.items import Item, Setup, Training
from polarity_bench.sweeps.plan import FILE, SweepPlan, merge_plans, plan_of, read_plan, write_plan
from polarity_bench.sweeps.state_files import ItemOutcome, SweepState
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.training.examples import EXAMPLE_KINDS, ExampleKind
from polarity_bench.training.examples.draw import check_count, count_candidates
from polarity_bench.training.examples.neighbour_cache import pool_neighbours
from polarity_bench.training.examples.neighbours import Neighbours
from polarity_bench.training.job import Job
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.run_folder import run_folder
from polarity_bench.training.train import open_context

_COUNTED = 5_000
"""Maximum number of training rows for which examples are counted in advance.

On a CPU, counting the examples of a pool of this size takes seconds.
"""
_POOLS = 32
"""Maximum number of pools for which examples are counted in advance.

Runs that hold out rows have another pool for each seed, whose number of examples hardly differs.
"""


@dataclass(frozen=True)
class Sweep:
    """A checked sweep whose remaining items can be run.

    Attributes:
        grid: Grid of the sweep.
        setup: Folders and loading options.
        plan: Plan of the sweep.
        encoders: Encoders of evaluations and cross-validations, by the digest of the item.
        sizes: Sizes of the data sets.
        retry_failed: Whether to run failed items again.
    """

    grid: Grid
    setup: Setup
    plan: SweepPlan
    encoders: Mapping[str, EncoderId]
    sizes: Sizes
    retry_failed: bool = False

    @property
    def state(self) -> SweepState:
        """State of the items, stored on disk."""
        return SweepState(self.setup.output)

    @cached_property
    def outcomes(self) -> Mapping[str, ItemOutcome]:
        """Stored outcomes of items that have ended, by digest."""
        return self.state.outcomes(item.digest for item in self.grid.items)

    @cached_property
    def lost(self) -> set[str]:
        """Digests of ended items whose outcome no longer counts.

        These are done items whose files are missing. With `retry_failed`, they include failed
        items. If results of such an item exist, they are treated like external results.
        """

        def is_lost(outcome: ItemOutcome) -> bool:
            if outcome.state == "failed":
                return self.retry_failed
            return self.state.is_gone(outcome)

        return {digest for digest, outcome in self.outcomes.items() if is_lost(outcome)}

    @cached_property
    def external_results(self) -> ExternalResults:
        """Existing results that this sweep did not compute, for items that are not done."""
        done = {digest for digest, each in self.outcomes.items() if each.state == "done"}
        remaining = (item for item in self.grid.items if item.digest not in done - self.lost)
        return find_external_results(remaining, self.setup, self.encoders)

    @cached_property
    def left(self) -> list[Item]:
        """Items that still have to be run."""
        ended = self.outcomes.keys() - self.lost | self.external_results.outcomes.keys()
        return [item for item in self.grid.items if item.digest not in ended]

    @property
    def others(self) -> Sequence[str]:
        """Reasons why existing results of remaining items do not count, one for each such item."""
        of = self.external_results.rejected
        return [of[item.digest] for item in self.left if item.digest in of]

    @property
    def unused_folders(self) -> list[str]:
        """Names of result folders that belong to no item of the grid."""
        named = {folder_name(item.encoder) for item in self.plan.items}
        return sorted(paths_by_encoder(self.setup.output / "results").keys() - named)

    def write_state(self) -> None:
        """Write the plan, forget lost outcomes, and record external results as done items.

        Other drivers may be running items in the same folder.
        """
        write_plan(replace(self.plan, command=command_line()), self.setup.output)
        for digest in self.lost - self.external_results.outcomes.keys():
            with self.state.try_lock(digest) as free:  # otherwise another driver runs the item
                if free and self.state.outcome(digest) == self.outcomes[digest]:
                    self.state.forget(digest)
        for digest, outcome in self.external_results.outcomes.items():
            self.state.record(digest, outcome)


def find_sweep(
    grid: Grid, setup: Setup, file: Path, *, named: bool = False, retry_failed: bool = False
) -> Sweep:
    """Check everything that can be checked before any item is run, and return the sweep.

    Raises:
        InputError: If an input is not available, is not suitable for training, or has changed since
            the sweep began; if the folder has a sweep of another grid with the same name; or if a
            training run needs more examples than its neighbours allow.
    """
    before = read_plan(setup.output) if (setup.output / FILE).is_file() else None
    if before is not None and named and _is_another(Path(before.grid), file):
        raise InputError(
            f"`output`: {setup.output} contains the sweep of another grid, {before.grid}; use "
            "another folder"
        )
    encoders = check(grid.items, setup)
    data_sizes = sizes(grid.items, setup)
    plan = plan_of(grid.title, grid.items, setup, data_sizes, encoders, file)
    plan = plan if before is None else merge_plans(before, plan, setup.output)
    sweep = Sweep(grid, setup, plan, encoders, data_sizes, retry_failed)
    _check_examples(sweep)
    return sweep


def _check_examples(sweep: Sweep) -> None:
    """Check that the neighbours allow the number of examples that each training run needs.

    To count the examples, the pool is embedded once for each base. The embeddings are cached for
    the training runs. Large pools, and those after the first `_POOLS`, are not checked here because
    embedding them takes too long; their training runs make the same check.

    Raises:
        InputError: If a training run needs too many examples; the message names the line of the
            grid.
    """
    candidates: dict[str, dict[ExampleKind, int]] = {}
    with single_threaded(), warnings.catch_warnings(action="ignore", category=ParameterWarning):
        for item in sweep.left:
            if not isinstance(item, Training) or sweep.sizes.rows[item.job.task] > _COUNTED:
                continue
            recipe = item.job.recipe
            if not isinstance(recipe, Margins) or recipe.examples_from or not recipe.examples:
                continue
            with sweep.grid.locators[item.job.digest]():
                mining = [recipe.mining, recipe.neighbours, recipe.threshold]
                pool = [item.after, item.job.task, recipe.hold_out, recipe.example_encoder]
                if (key := repr([pool, mining])) not in candidates:
                    if len(candidates) == _POOLS:
                        continue
                    found = _neighbours(item.job, recipe)
                    candidates[key] = {k: count_candidates(found, k) for k in EXAMPLE_KINDS}
                kind = recipe.loss.examples
                check_count(recipe.examples, candidates[key][kind], kind)


def _neighbours(job: Job, recipe: Margins) -> Neighbours:
    """Return the neighbours of a training run's pool, as the training run computes them."""
    with open_context(job, run_folder(job.model, job.output), no_bar) as context:
        guide = recipe.load(context).examples.guide or context.base
        return pool_neighbours(context.data.pool, guide, recipe, context.embedder)


def _is_another(before: Path, file: Path) -> bool:
    """Return whether an earlier grid still exists and differs from the current grid."""
    return before.is_file() and before.read_bytes() != file.read_bytes()
