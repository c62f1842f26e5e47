"""Protocol: how a data set is divided for cross-validation, the same for every method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from polarity_bench.cross_validation.folds import cut, folds
from polarity_bench.data.sampling import sample
from polarity_bench.errors import InputError, nearest
from polarity_bench.training.parameters import Parameters, parameter
from polarity_bench.values import IntArray

_LAST = 2**32 // 1000 - 1  # a fold's own seed is a thousand times that, and numpy's are of 32 bits

Part = tuple[int, int, IntArray, IntArray]
"""A seed and a fold, with the rows to learn from and to be tested on."""


@dataclass(frozen=True, kw_only=True)
class Protocol(Parameters):
    """Which rows each fold learns from and is tested on."""

    family: ClassVar[str] = "protocol"
    name: ClassVar[str] = "few-shot"

    sample: int | None = parameter(None, "draw so many rows of the data set first", least=2)
    folds: int = parameter(40, "parts, each tested on once by what the others taught", least=2)
    rows: int | None = parameter(20, "rows to learn from, of each fold's; None for all", least=1)
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        seeds = set(self.seeds)
        if not seeds or len(seeds) < len(self.seeds) or not 0 <= min(seeds) <= max(seeds) <= _LAST:
            raise InputError(
                f"`seeds` {list(self.seeds)}: different whole numbers from 0 to {_LAST:,} are "
                "wanted"
            )

    def splits(self, labels: IntArray) -> Iterator[Part]:
        """Yield each seed and fold with the rows to learn from and to be tested on.

        The sample is drawn by the first seed, so that all seeds divide one data set, each anew.

        Raises:
            InputError: If a class would be missing, or more rows are asked for than there are.
        """
        kept: IntArray = np.arange(len(labels))
        if self.sample is not None:
            kept = sample(labels, self.sample, self.seeds[0])
        for seed in self.seeds:
            for fold, (train, test) in enumerate(folds(labels[kept], self.folds, seed)):
                own = kept[train]
                some = own if self.rows is None else cut(own, labels, self.rows, [seed, fold])
                yield seed, fold, some, kept[test]

    def said(self) -> dict[str, Any]:
        """Return what of it decides scores, as JSON values."""
        few = {} if self.rows is None else {"cut": "by fold"}  # it was by one seed for all folds
        return self.to_dict("moves") | {"seeds": list(self.seeds)} | few


PROTOCOLS: dict[str, Protocol] = {
    "few-shot": Protocol(),
    "triple-entropy": Protocol(sample=1000, folds=5, rows=None, seeds=(2, 16, 128, 2048)),
}
"""The papers' ways."""


def protocol_of(name: str, given: Mapping[str, Any]) -> Protocol:
    """Return a paper's way with what is given in place of its own: `rows`, `folds`, ...

    Args:
        name: Whose.
        given: Values by field; of `rows` and `sample` they may be 'all'.

    Raises:
        InputError: If there is no such way, or a value cannot be that.

    Example:
        >>> protocol_of("triple-entropy", {"sample": "all", "folds": 10}).said()["sample"] is None
        True
    """
    if name not in PROTOCOLS:
        raise InputError(f"`protocol`: unknown protocol {name!r}{nearest(name, PROTOCOLS)}")
    values = dict(given)
    for key in ("rows", "sample"):
        if isinstance(value := values.get(key), str):
            if value != "all":
                raise InputError(f"`{key}` {value}: a whole number or 'all' is wanted")
            values[key] = None
    return replace(PROTOCOLS[name], **values)
