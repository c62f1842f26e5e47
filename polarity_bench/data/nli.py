"""Labelled sentence pairs for natural language inference (NLI), from files or the hub.

Two layouts are supported. SNLI and MultiNLI have the columns `gold_label`, `sentence1` and
`sentence2`. Data sets on the hub have `label`, `premise` and `hypothesis`. Files may have any
format that `readers` supports. Pairs on which the annotators did not agree have no label ("-", or
-1 on the hub). Such pairs are skipped and counted.

Shapes: n pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from polarity_bench.data.readers import read_header, read_rows
from polarity_bench.data.sources import DataAccess, read_hub
from polarity_bench.data.specs import FormatSpec
from polarity_bench.errors import InputError, MissingDataError, nearest
from polarity_bench.files import cache_folder, expanded
from polarity_bench.values import IntArray, digest_of

CLASSES = ("entailment", "neutral", "contradiction")
"""Class names; the position of a name is the class number on the hub."""
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)

HUB_PREFIX = "hub:"
"""Prefix of the names of data sets on the hub."""

_OFFICIAL = ("gold_label", "sentence1", "sentence2")
_HUBS = ("label", "premise", "hypothesis")
_CODES = {name: code for code, name in enumerate(CLASSES)} | {str(code): code for code in range(3)}
_NO_LABEL = {"-", "-1"}

_Place = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class NliPairs:
    """Labelled sentence pairs, in file order.

    Attributes:
        premises: First text of each of the n pairs.
        hypotheses: Second text of each pair.
        labels: Class of each pair, as its position in `CLASSES`, (n,).
        n_skipped: Number of pairs that were skipped because they have no label.
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: IntArray
    n_skipped: int = 0

    def __len__(self) -> int:
        return len(self.premises)

    @property
    def digest(self) -> str:
        """Digest of the texts and labels in order, as 16 hexadecimal digits."""
        return digest_of([self.premises, self.hypotheses, self.labels.tolist()])


def load_nli(names: Sequence[str], access: DataAccess) -> NliPairs:
    """Load NLI pairs from files or hub data sets, and concatenate them in the order of the names.

    Args:
        names: Paths of files, or `hub:NAME` for the `train` split of a data set on the hub. A
            relative path may also refer to the data folder.
        access: Permitted sources of data.

    Returns:
        The pairs that have a label.

    Raises:
        InputError: If data is missing or damaged, a text is empty or a label is unknown. The
            message names the file and the line. The error is also raised if no pair has a label.
    """
    pairs: list[tuple[str, str, int]] = []
    n_skipped = 0
    for name in names:
        rows = _hub_rows(name, access) if name.startswith(HUB_PREFIX) else _file_rows(name, access)
        for where, (label, premise, hypothesis) in rows:
            if label in _NO_LABEL:
                n_skipped += 1
                continue
            if label not in _CODES:
                raise InputError(f"{where}: unknown label {label!r}{nearest(label, CLASSES)}")
            for what, text in (("premise", premise), ("hypothesis", hypothesis)):
                if not text.strip():
                    raise InputError(f"{where}: the {what} is empty")
            pairs.append((premise, hypothesis, _CODES[label]))
    if not pairs:
        raise InputError(f"{', '.join(names) or 'no files'}: expected labelled pairs, got none")
    premises, hypotheses, labels = zip(*pairs, strict=True)
    return NliPairs(premises, hypotheses, np.array(labels, dtype=np.int64), n_skipped)


def _file_rows(name: str, access: DataAccess) -> Iterator[_Place]:
    places = [expanded(name), *([access.folder / name] if access.folder else [])]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MissingDataError(f"no such file: {' or '.join(map(str, places))}")
    form = FormatSpec()
    columns = _OFFICIAL if _HUBS[0] not in read_header(path, form) else _HUBS
    for row in read_rows(path, form, columns):
        yield f"{path}, line {row.line}", row.values


def _hub_rows(name: str, access: DataAccess) -> Iterator[_Place]:
    import datasets

    on_hub = name.removeprefix(HUB_PREFIX)
    folder = str(cache_folder() / "datasets")
    load = partial(datasets.load_dataset, on_hub, split="train", cache_dir=folder)
    rows = read_hub(on_hub, lambda config: load(download_config=config), _HUBS, access, where=name)
    for i, row in enumerate(rows, start=1):
        yield f"{name}, row {i}", row
