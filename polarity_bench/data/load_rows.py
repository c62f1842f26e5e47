"""From the task file of a SentEval or STS task to its rows, every count checked.

Truncated copies of MR and SUBJ are in circulation and have spoiled published tables; a file
whose checksum or number of rows is not the declared one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from polarity_bench.data import senteval
from polarity_bench.data.senteval import PairRow, TextRow
from polarity_bench.data.sources import DataAccess, obtain
from polarity_bench.errors import InputError
from polarity_bench.spec import CountedFile, RelatednessSpec, StsSpec, TransferSpec

RowsSpec = TransferSpec | RelatednessSpec | StsSpec
Row = TextRow | PairRow[int] | PairRow[float]

_READERS: Mapping[str, Callable[[Path], Sequence[Row]]] = {
    "sst-binary": senteval.read_sst_binary,
    "sst-fine": senteval.read_sst_fine,
    "trec": senteval.read_trec,
    "mrpc": senteval.read_mrpc,
    "sick-entailment": senteval.read_sick_entailment,
    "sick-relatedness": senteval.read_sick_relatedness,
    "stsb": senteval.read_stsb,
}


@dataclass(frozen=True)
class RowsData:
    """The rows of a task.

    Attributes:
        spec: The task.
        parts: Rows by split (`train`, `dev`, `test`, or `all` where there is one), or by subset
            of STS.
    """

    spec: RowsSpec
    parts: Mapping[str, Sequence[Row]]

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits over every row, in order."""
        sha = hashlib.sha256()
        for name, rows in self.parts.items():
            sha.update(f"{name} {len(rows)}\n".encode())
            for row in rows:
                sha.update(repr(row).encode() + b"\n")
        return sha.hexdigest()[:16]


def load_rows(spec: RowsSpec, access: DataAccess) -> RowsData:
    """Load a transfer, relatedness or STS task.

    Raises:
        InputError: If data is missing or isn't what the task file declares.
    """
    paths = {name: obtain(file, spec, access) for name, file in spec.files.items()}
    if spec.reader == "labelled-lines":
        rows = senteval.read_labelled_lines(paths["positive"], paths["negative"])
        for name, label in (("positive", 1), ("negative", 0)):
            found = sum(row.label == label for row in rows)
            _check(paths[name], spec.files[name], found)
        return RowsData(spec, {"all": rows})
    if spec.reader == "sts":
        return RowsData(spec, {name: _subset(spec, paths, name) for name in spec.subsets})
    parts = {}
    for name, path in paths.items():
        parts[name] = _READERS[spec.reader](path)
        _check(path, spec.files[name], len(parts[name]))
    return RowsData(spec, parts)


def _subset(
    spec: TransferSpec | RelatednessSpec | StsSpec, paths: Mapping[str, Path], name: str
) -> list[PairRow[float]]:
    rows = senteval.read_sts(paths[name], paths[f"{name}-scores"])
    _check(paths[name], spec.files[name], len(rows))
    return rows


def _check(path: Path, file: CountedFile, found: int) -> None:
    if found != file.rows:
        raise InputError(
            f"{path}: {found:,} rows where {file.rows:,} are expected; a truncated or edited copy?"
        )
