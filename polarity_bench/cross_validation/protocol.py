"""Protocols: how a data set is divided for cross-validation, the same for every method."""

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

_LAST = 2**32 // 1000 - 1  # a fold's seed is 1000 * seed + fold, and numpy's seeds have 32 bits

Part = tuple[int, int, IntArray, IntArray]
"""A seed and a fold number, with the training rows and the test rows of that fold."""


@dataclass(frozen=True, kw_only=True)
class Protocol(Parameters):
    """Training and test rows of every fold."""

    family: ClassVar[str] = "protocol"
    name: ClassVar[str] = "few-shot"

    sample: int | None = parameter(None, "number of rows to draw from the data set first", least=2)
    folds: int = parameter(40, "number of folds, each of which is the test set once", least=2)
    rows: int | None = parameter(20, "number of training rows in a fold; None for all", least=1)
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        seeds = set(self.seeds)
        if not seeds or len(seeds) < len(self.seeds) or not 0 <= min(seeds) <= max(seeds) <= _LAST:
            raise InputError(
                f"`seeds` must be different whole numbers from 0 to {_LAST:,}, got "
                f"{list(self.seeds)}"
            )

    def splits(self, labels: IntArray) -> Iterator[Part]:
        """Yield the seed, fold number, training rows and test rows of each fold.

        The first seed draws the sample. So all seeds divide the same data set, each in a different
        way.

        Raises:
            InputError: If a class would be missing, or the data has too few rows.
        """
        kept: IntArray = np.arange(len(labels))
        if self.sample is not None:
            kept = sample(labels, self.sample, self.seeds[0])
        for seed in self.seeds:
            for fold, (train, test) in enumerate(folds(labels[kept], self.folds, seed)):
                of_fold = kept[train]
                if self.rows is not None:
                    of_fold = cut(of_fold, labels, self.rows, [seed, fold])
                yield seed, fold, of_fold, kept[test]

    def spec(self) -> dict[str, Any]:
        """Return the settings that affect scores, as JSON values."""
        # Earlier versions cut all folds by one seed: the entry keeps their results apart from ours.
        few = {} if self.rows is None else {"cut": "by fold"}
        return self.to_dict("moves") | {"seeds": list(self.seeds)} | few


PROTOCOLS: dict[str, Protocol] = {
    "few-shot": Protocol(),
    "triple-entropy": Protocol(sample=1000, folds=5, rows=None, seeds=(2, 16, 128, 2048)),
}
"""The protocols of the papers, by name."""


def protocol_of(name: str, given: Mapping[str, Any]) -> Protocol:
    """Return a paper's protocol, with some fields replaced: `rows`, `folds`, ...

    Args:
        name: Name of the protocol.
        given: Values by field; `rows` and `sample` may be 'all'.

    Raises:
        InputError: If the protocol is unknown or a value is invalid.

    Example:
        >>> protocol_of("triple-entropy", {"sample": "all", "folds": 10}).spec()["sample"] is None
        True
    """
    if name not in PROTOCOLS:
        raise InputError(f"`protocol`: unknown protocol {name!r}{nearest(name, PROTOCOLS)}")
    values = dict(given)
    for key in ("rows", "sample"):
        if isinstance(value := values.get(key), str):
            if value != "all":
                raise InputError(f"`{key}` must be a whole number or 'all', got {value!r}")
            values[key] = None
    return replace(PROTOCOLS[name], **values)
