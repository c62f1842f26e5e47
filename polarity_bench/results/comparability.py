"""Comparability of results: which results may share a table, and which share a cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from polarity_bench.errors import InputError, check_known
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import KINDS

_FREE = frozenset({"k", "device"})
"""Protocol parameters that may differ between comparable results."""


def cells_of(results: Iterable[Result]) -> list[tuple[Result, int]]:
    """Return the result and k of each cell of a board: of each task, encoder, reference and k.

    Tasks without retrieval have k = 0. Cells are sorted by task type, protocol and task, with
    retrieval tasks first. If the reference of a result was missing, the result has no cell if
    another result of its encoder has one.

    Raises:
        InputError: If a task type is unknown, if results of a task were computed from different
            versions of the task, its data or its protocol, or if two different results belong to
            the same cell.
    """
    results = list(results)
    firsts: dict[tuple[str, ...], Result] = {}
    cells: dict[tuple[Any, ...], tuple[Result, int]] = {}
    measured = [result for result in results if not result.lacks_reference]
    known = {(r.task, r.key.encoder.digest, k) for r in measured for k in r.ks}
    for result in results:
        check_known(result.kind, KINDS, f"{result.path}: unknown kind {result.kind!r}")
        task = (result.kind, result.key.protocol_label, result.task)
        _check_alike(firsts.setdefault(task, result), result)
        has_k, digest = KINDS[result.kind].has_k, result.key.encoder.digest
        reference = result.key.reference.digest if has_k and result.key.reference else ""
        for k in result.ks if has_k else [0]:
            if not result.lacks_reference or (result.task, digest, k) not in known:
                first, _ = cells.setdefault((task, digest, reference, k), (result, k))
                check_same(first, result, k)
    return sorted(cells.values(), key=_order)


def _order(cell: tuple[Result, int]) -> tuple[bool, int, str, str]:
    result, _ = cell
    kind = list(KINDS).index(result.kind)
    return not KINDS[result.kind].has_k, kind, result.key.protocol_label, result.task


def _check_alike(one: Result, other: Result) -> None:
    """Raise InputError if two results were computed with different tasks, data or protocols."""
    if found := difference(one, other):
        what, first, second = found
        raise InputError(
            f"{one.task}: the results {one.path} and {other.path} were computed with different "
            f"versions of the task, its data or its protocol: the {what} is {first!r} and "
            f"{second!r}; run one of them again, or keep them in two folders"
        )


def difference(one: Result, other: Result) -> tuple[str, Any, Any] | None:
    """Return the first property that makes two results incomparable, and its two values.

    The compared properties are the name and digest of the task, the digest of the data and the
    protocol's parameters, but not the reference encoder.

    Returns:
        Name of the property and its values in both results; None if there is no difference.
    """
    first, second = (
        {"task's name": each.task, "task's digest": each.key.task, "data's digest": each.key.data}
        | {f"protocol's {n}": value for n, value in each.key.protocol.items() if n not in _FREE}
        for each in (one, other)
    )
    for name in [*first, *second]:
        if first.get(name) != second.get(name):
            return name, first.get(name), second.get(name)
    return None


def check_same(one: Result, other: Result, k: int) -> None:
    """Raise InputError if two results for the same cell differ by more than a small tolerance.

    Repeated evaluations may differ slightly. Embeddings differ by about 1e-7 if their batches
    differed, which can change the ranks of sources that almost tie.
    """
    if one is other:
        return
    (first, numbers), (second, others) = (_answer(result, k) for result in (one, other))
    same_question = first == second and numbers.keys() == others.keys()
    ours, theirs = list(numbers.values()), [others[key] for key in numbers if same_question]
    if not same_question or not np.allclose(ours, theirs, rtol=0, atol=1e-4, equal_nan=True):
        raise InputError(
            f"{one.task}: the results {one.path} and {other.path} are for the same encoder and the "
            "same table cell, but their settings or scores differ; delete one of them"
        )


def _answer(result: Result, k: int) -> tuple[str, dict[ScoreKey, float]]:
    """Return the digest of a result's key, and its scores, both restricted to k."""
    at_k = {"k": [k]} if k else {}
    question = replace(result.key, protocol={**result.key.protocol, **at_k})
    scores = {key: s.mean for key, s in result.scores.items() if key.k in {None, k}}
    return question.digest, scores


def pairs_of(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Return pairs of a task and its copy with unseen sources, if both have results.

    Returns:
        Sorted pairs of task names: the original task and its copy.
    """
    results = list(results)
    tasks = {result.task for result in results}
    return sorted({(r.unseen_of, r.task) for r in results if r.unseen_of and r.unseen_of in tasks})
