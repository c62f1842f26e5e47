"""Bind: a task with its data and its protocol, ready to be scored.

`bind` loads and checks the data of any kind of task. What it returns says which texts it needs,
and turns their vectors into scores; everything else (embedder, storing, tables, mteb) treats all
kinds alike.
"""

from __future__ import annotations

from polarity_bench.bind.polarity import PolarityTask
from polarity_bench.bind.senteval import RelatednessTask, TransferTask
from polarity_bench.bind.sts import StsTask
from polarity_bench.bind.task import BoundTask, Scored, Settings, Vectors
from polarity_bench.data.load import load_polarity
from polarity_bench.data.load_rows import load_rows
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.spec import PolaritySpec, RelatednessSpec, StsSpec, TaskSpec, TransferSpec

__all__ = [
    "BoundTask",
    "PolarityTask",
    "RelatednessTask",
    "Scored",
    "Settings",
    "StsTask",
    "TransferTask",
    "Vectors",
    "bind",
]


def bind(spec: TaskSpec, access: DataAccess, settings: Settings) -> BoundTask:
    """Load a task's data and bind it to its protocol.

    Raises:
        InputError: If data is missing or isn't what the task file declares.
    """
    if isinstance(spec, PolaritySpec):
        k = max(settings.ks, default=spec.protocol.k)
        data = load_polarity(spec, access, limit=settings.limit, k=k)
        return PolarityTask(data, settings.ks or (spec.protocol.k,), settings.limit)
    if settings.limit is not None:
        raise InputError(f"--limit is for polarity tasks; {spec.name} is a {spec.kind} task")
    if isinstance(spec, TransferSpec):
        return TransferTask(load_rows(spec, access), spec, settings)
    if isinstance(spec, RelatednessSpec):
        return RelatednessTask(load_rows(spec, access), spec, settings)
    if isinstance(spec, StsSpec):
        return StsTask(load_rows(spec, access), spec)
    raise TypeError(f"{spec.name}: no protocol for tasks of kind {spec.kind!r}")
