"""Labelled: the tasks whose texts have classes, so that they can be cross-validated."""

from __future__ import annotations

from collections.abc import Mapping

from polarity_bench.errors import InputError
from polarity_bench.kinds import choose_tasks
from polarity_bench.kinds.polarity import PolaritySpec
from polarity_bench.kinds.task import TaskSpec
from polarity_bench.kinds.transfer import TransferSpec


def labelled_spec(known: Mapping[str, TaskSpec], task: str) -> PolaritySpec | TransferSpec:
    """Return the task of a name, without its data.

    Raises:
        InputError: If there is none, or it is of a kind without classes.
    """
    (spec,) = choose_tasks(known, names=[task])
    if not isinstance(spec, PolaritySpec | TransferSpec):
        raise InputError(
            f"`tasks` {task}: it is a {spec.kind} task; name one of kind transfer or polarity"
        )
    return spec
