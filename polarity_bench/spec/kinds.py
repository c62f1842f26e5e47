"""The kinds of task: what each declares, and which of it moves a number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from polarity_bench.spec.parts import (
    Archive,
    CountedFile,
    FileRef,
    FormatSpec,
    MtebName,
    Name,
    PolarityProtocol,
    SplitSpec,
    Strict,
    Url,
)
from polarity_bench.types import digest_of

_METRICS = {"polarity", "similarity", "similarity_reference", "retention", "joint"}
_METRICS |= {"knn_accuracy", "overlap", "sgts", "pairwise_accuracy"}


class TaskSpec(Strict):
    """What every task declares; `file` is where it was read from."""

    file: Path = Field(exclude=True)
    name: Name
    kind: str
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    version: Annotated[int, Field(ge=1)] = 1
    mteb_name: MtebName | None = None
    description: str = ""
    languages: tuple[str, ...] = ("eng-Latn",)
    domains: tuple[str, ...] = ()
    date: tuple[str, str] | None = None
    licence: str | None = None
    homepage: Url | None = None
    citation: str | None = None

    moving: ClassVar[tuple[str, ...]] = ()
    """The fields that move a number, beside kind and version."""

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        return self.mteb_name or "".join(map(str.capitalize, self.name.split("-")))

    @property
    def main_score(self) -> str:
        """The name of the task's main score."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all in the file that moves a number."""
        values = self.model_dump(mode="json", include={"version", "kind", *self.moving})
        return digest_of(_without_places(values))

    def references(self) -> list[FileRef]:
        """Return the files that the task reads."""
        raise NotImplementedError


class PolaritySpec(TaskSpec):
    """A polarity retrieval task."""

    kind: Literal["polarity"]
    labels: dict[str, str]
    format: FormatSpec = FormatSpec()
    splits: dict[Literal["source", "query"], SplitSpec]
    protocol: PolarityProtocol = PolarityProtocol()

    moving: ClassVar[tuple[str, ...]] = ("labels", "format", "splits", "protocol")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if missing := {"source", "query"} - set(self.splits):
            raise ValueError(f"[splits.{min(missing)}] is missing")
        if len(self.labels) < 2 or len(set(self.labels.values())) != len(self.labels):
            raise ValueError("'labels' needs two or more labels, each with a name of its own")
        for split in self.splits.values():
            if unknown := set(split.label_rows or {}) - set(self.labels.values()):
                raise ValueError(f"'label_rows' counts {min(unknown)!r}, which is no label's name")
        used = {*self.protocol.groups, self.protocol.breakdown, self.protocol.pair} - {None}
        if taken := set(self.protocol.groups) & _METRICS:
            raise ValueError(f"[protocol] groups: {min(taken)!r} is a metric's name; rename it")
        if self.protocol.pair and not self.protocol.groups:
            raise ValueError("[protocol] 'pair' needs 'groups': pairs on one subject are compared")
        if undeclared := used - set(self.format.columns):
            raise ValueError(f"[protocol] names {min(map(str, undeclared))!r}, not in columns")
        return self

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        return self.mteb_name or f"{super().result_name}PolarityRetrieval"

    @property
    def main_score(self) -> str:
        """The joint score at the task's own k."""
        return f"joint_at_{self.protocol.k}"

    def references(self) -> list[FileRef]:
        """Return the files of both splits."""
        files = [[split, split.label_file] for split in self.splits.values()]
        return [file for pair in files for file in pair if file is not None]


_TRAIN_TEST = {"train", "test"}
_TRAIN_DEV_TEST = {"train", "dev", "test"}
_LAYOUTS: dict[str, tuple[str, set[str], int]] = {
    "labelled-lines": ("nested-kfold", {"positive", "negative"}, 2),
    "sst-binary": ("dev-split", _TRAIN_DEV_TEST, 2),
    "sst-fine": ("dev-split", _TRAIN_DEV_TEST, 5),
    "trec": ("kfold", _TRAIN_TEST, 6),
    "mrpc": ("kfold", _TRAIN_TEST, 2),
    "sick-entailment": ("dev-split", _TRAIN_DEV_TEST, 3),
}
"""The scheme, files and number of labels that go with each reader of a transfer task."""


class _FilesSpec(TaskSpec):
    """A task whose rows stand in files of SentEval's or SemEval's layout."""

    files: dict[str, CountedFile]
    archive: Archive | None = None

    def references(self) -> list[FileRef]:
        """Return the files."""
        return list(self.files.values())

    def _check_files(self, wanted: set[str]) -> None:
        if set(self.files) != wanted:
            raise ValueError(
                f"the reader {self.model_dump()['reader']!r} wants [files] {sorted(wanted)}, got "
                f"{sorted(self.files)}"
            )


class TransferSpec(_FilesSpec):
    """A classification task of SentEval; `labels` names the classes from 0."""

    kind: Literal["transfer"]
    reader: Literal["labelled-lines", "sst-binary", "sst-fine", "trec", "mrpc", "sick-entailment"]
    scheme: Literal["nested-kfold", "kfold", "dev-split"]
    labels: tuple[str, ...]

    moving: ClassVar[tuple[str, ...]] = ("reader", "scheme", "labels", "files")

    @model_validator(mode="after")
    def _fits_its_reader(self) -> Self:
        scheme, files, n_labels = _LAYOUTS[self.reader]
        self._check_files(files)
        if self.scheme != scheme:
            raise ValueError(f"the reader {self.reader!r} goes with the scheme {scheme!r}")
        if len(self.labels) != n_labels or len(set(self.labels)) != n_labels:
            raise ValueError(f"the reader {self.reader!r} gives {n_labels} labels; name each")
        return self

    @property
    def main_score(self) -> str:
        """The accuracy on the test set."""
        return "accuracy"


class RelatednessSpec(_FilesSpec):
    """A supervised relatedness task of SentEval."""

    kind: Literal["relatedness"]
    reader: Literal["sick-relatedness", "stsb"]

    moving: ClassVar[tuple[str, ...]] = ("reader", "files")

    @model_validator(mode="after")
    def _fits_its_reader(self) -> Self:
        self._check_files(_TRAIN_DEV_TEST)
        return self

    @property
    def main_score(self) -> str:
        """Pearson's correlation, as SentEval reports it."""
        return "pearson"


class StsSpec(_FilesSpec):
    """Unsupervised semantic textual similarity.

    A year of STS has the files `SUBSET` and `SUBSET-scores` for each of its subsets; STS-B has
    one file, which is its own only subset.
    """

    kind: Literal["sts"]
    reader: Literal["sts", "stsb"]
    subsets: tuple[str, ...]

    moving: ClassVar[tuple[str, ...]] = ("reader", "subsets", "files")

    @model_validator(mode="after")
    def _fits_its_reader(self) -> Self:
        subsets = set(self.subsets)
        if taken := subsets & {"all", "mean", "wmean"}:
            raise ValueError(f"a subset must not be called {min(taken)!r}, which names a summary")
        scores = {f"{subset}-scores" for subset in subsets} if self.reader == "sts" else set()
        self._check_files(subsets | scores)
        return self

    @property
    def main_score(self) -> str:
        """Spearman's correlation over all pairs laid together, as mteb and SimCSE report it."""
        return "spearman_all"


KINDS: dict[str, type[TaskSpec]] = {
    "polarity": PolaritySpec,
    "transfer": TransferSpec,
    "relatedness": RelatednessSpec,
    "sts": StsSpec,
}


def _without_places(value: Any) -> Any:
    """Leave out where a file lies: its content, which has a checksum, is what counts."""
    if not isinstance(value, dict):
        return value
    return {key: _without_places(v) for key, v in value.items() if key not in {"url", "path"}}
