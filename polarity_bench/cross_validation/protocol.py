"""Protocols, which divide a data set for cross-validation in the same way for every method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from polarity_bench.cross_validation.folds import folds
from polarity_bench.data.sampling import sample
from polarity_bench.errors import InputError, check_known
from polarity_bench.training.parameters import Parameters, parameter
from polarity_bench.values import IntArray

# The seed of a fold is 1000 * seed + fold, and numpy's seeds have 32 bits.
_LAST = 2**32 // 1000 - 1

Part = tuple[int, int, IntArray, IntArray]
"""Seed, fold number, training rows and test rows of a fold."""


@dataclass(frozen=True, kw_only=True)
class Protocol(Parameters):
    """Division of a data set into the training and test rows of each fold.

    Attributes:
        seeds: Seeds of the folds; each seed divides the data in a different way.
    """

    family: ClassVar[str] = "protocol"
    name: ClassVar[str] = "few-shot"

    sample: int | None = parameter(
        None, "number of rows to draw from the data set; None for all", least=2
    )
    folds: int = parameter(40, "number of folds, each of which is the test set once", least=2)
    rows: int | None = parameter(20, "number of training rows in a fold; None for all", least=1)
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        seeds = set(self.seeds)
        if not seeds or len(seeds) < len(self.seeds) or not 0 <= min(seeds) <= max(seeds) <= _LAST:
            raise InputError(
                f"`seeds` must be distinct integers from 0 to {_LAST:,}, got {list(self.seeds)}"
            )

    def splits(self, labels: IntArray) -> Iterator[Part]:
        """Yield the seed, fold number, training rows and test rows of each fold.

        The first seed draws the sample, so all seeds divide the same sample.

        Raises:
            InputError: If a class would be missing, or if the data has too few rows.
        """
        sampled: IntArray = np.arange(len(labels))
        if self.sample is not None:
            sampled = sample(labels, self.sample, self.seeds[0])
        for seed in self.seeds:
            for fold, (train, test) in enumerate(folds(labels[sampled], self.folds, seed)):
                training = sampled[train]
                if self.rows is not None:
                    kept = sample(
                        labels[training],
                        self.rows,
                        [seed, fold],  # with one seed, every fold would keep the same indices
                        field="rows",
                        of="the fold has {:,} training rows",
                    )
                    training = training[kept]
                yield seed, fold, training, sampled[test]

    def spec(self) -> dict[str, Any]:
        """Return the settings that affect scores, as JSON values."""
        return self.to_dict("moves") | {"seeds": list(self.seeds)}


PROTOCOLS: dict[str, Protocol] = {
    "few-shot": Protocol(),
    "triple-entropy": Protocol(sample=1000, folds=5, rows=None, seeds=(2, 16, 128, 2048)),
}
"""Protocols of the papers, by name."""


def protocol_of(name: str, given: Mapping[str, Any]) -> Protocol:
    """Return a paper's protocol, with some of its fields replaced.

    Args:
        name: Name of the protocol.
        given: New values, by field name. `rows` and `sample` may be 'all'.

    Raises:
        InputError: If the protocol is unknown, or if a value is invalid.

    Example:
        >>> protocol_of("triple-entropy", {"sample": "all", "folds": 10}).spec()["sample"] is None
        True
    """
    check_known(name, PROTOCOLS, f"`protocol`: unknown protocol {name!r}")
    values = dict(given)
    for key in ("rows", "sample"):
        if isinstance(value := values.get(key), str):
            if value != "all":
                raise InputError(f"`{key}` must be an integer or 'all', got {value!r}")
            values[key] = None
    return replace(PROTOCOLS[name], **values)


def division_text(protocol: Mapping[str, Any], all_rows: str) -> str:
    """Return how the rows of a data set are divided into folds, as text.

    Args:
        protocol: Stored settings of a protocol.
        all_rows: Text for a fold whose training rows are not cut.

    Example:
        >>> spec = Protocol(sample=1000, folds=5, seeds=(2, 16)).spec()
        >>> division_text(spec, "all rows")
        '20 rows from a sample of 1,000, 5 folds, seeds 2, 16'
    """
    n_rows, sample_size, seeds = (protocol[name] for name in ("rows", "sample", "seeds"))
    rows = all_rows if n_rows is None else f"{n_rows:,} rows"
    rows += f" from a sample of {sample_size:,}" if sample_size else ""
    noun = "seeds" if len(seeds) > 1 else "seed"
    return f"{rows}, {protocol['folds']} folds, {noun} {', '.join(map(str, seeds))}"
