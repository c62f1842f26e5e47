"""Engines that run the items of a sweep: local processes, or tasks on a Ray cluster.

A new engine needs a module here, and a name and a line in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from polarity_bench.errors import InputError, check_at_least, check_installed

EngineName = Literal["local", "ray"]
RunItems = Callable[..., None]
"""Function that runs items. It takes the items, the setup, and a function to call repeatedly."""


def _local(address: str | None, workers: int | None, device: str | None) -> RunItems:
    if address is not None:
        raise InputError(f"`address` {address}: only for the engine ray; add `engine` ray")
    check_at_least(1, workers=workers)
    from polarity_bench.sweeps.engines.local import default_workers, run_local

    return partial(run_local, workers=workers or default_workers(device))


def _ray(address: str | None, workers: int | None, device: str | None) -> RunItems:  # noqa: ARG001  as `_local`
    check_installed("the engine 'ray'", "ray", extra="ray")
    if workers is not None:
        raise InputError(
            f"`workers` {workers}: only for the engine local; Ray uses all cores and GPUs of the "
            "cluster"
        )
    from polarity_bench.sweeps.engines.ray import run_on_ray

    return partial(run_on_ray, address=address)


ENGINES: Mapping[EngineName, Callable[[str | None, int | None, str | None], RunItems]] = {
    "local": _local,
    "ray": _ray,
}
"""Engines by name. Each function takes the address of a cluster, the number of workers and the
device, of which it refuses those that do not apply, and returns the function that runs items."""
