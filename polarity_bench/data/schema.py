"""Declarations of data in a task file: files with checksum and rows, hub data sets, formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    model_validator,
)

from polarity_bench.validation import Strict

_INSIDE = r"^(?!/)(?!(\./*)+$)(?!(.*/)?\.\.(/|$))[^\\:]+$"


def _inside(path: str) -> str:
    if not re.search(_INSIDE, path):
        raise ValueError("must be a relative path with forward slashes and without '..'")
    return path


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
MtebName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9.\-]{0,95}$")]
RelativePath = Annotated[
    str, AfterValidator(_inside), Field(json_schema_extra={"pattern": _INSIDE})
]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]


_URL_IS_PINNED: dict[str, JsonValue] = {"dependentRequired": {"url": ["path", "sha256"]}}
_HAS_A_SOURCE: dict[str, JsonValue] = {"anyOf": [{"required": ["path"]}, {"required": ["hub"]}]}


class FileRef(Strict):
    """A file: where it lies below a data folder, and where the public can get it."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED)

    path: RelativePath | None = None
    """Its place below the folder of the task file, or below the data folder."""
    url: Url | None = None
    """Where anybody can download it; needs `path` and `sha256`."""
    sha256: Sha256 | None = None
    """Its checksum, verified whenever the file is read."""

    @model_validator(mode="after")
    def _url_is_pinned(self) -> Self:
        if self.url and not self.sha256:
            raise ValueError("a file with a 'url' needs its 'sha256'")
        if self.url and not self.path:
            raise ValueError("a file with a 'url' needs a 'path', its place in a data folder")
        return self


class HubRef(Strict):
    """A split of a data set on the Hugging Face hub, pinned to a commit."""

    id: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    """Owner and name on the hub."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    """The whole id of a commit, 40 digits; a branch would move."""
    split: str
    """The data set's own name of the split, such as `train`."""
    config: str | None = None
    """The data set's configuration, where it has several."""
    text: str = "text"
    """The column of the texts on the hub."""
    label: str = "label"
    """The column of the labels on the hub."""


class FormatSpec(Strict):
    """How the files of a task are written; `type` is read off their suffix where it is absent."""

    type: Literal["csv", "tsv", "jsonl", "parquet", "lines"] | None = None
    """By default what the suffix says; `lines` is plain text, with a `label_file` beside it."""
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    """Between the columns of a csv file."""
    quoted: StrictBool = True
    """Whether quotation marks enclose values in csv and tsv."""
    header: tuple[str, ...] = ()
    """Names of the columns of a csv or tsv file whose first line does not name them."""
    encoding: str = "utf-8"
    """Of text files, by Python's name."""
    text: str = "text"
    """The column of the texts."""
    label: str = "label"
    """The column of the labels."""
    columns: tuple[str, ...] = ()
    """Further columns to keep, for `groups`, `breakdown` and `pair` of the protocol."""


class Cut(Strict):
    """A share of the rows of a file, drawn by a seed; texts equal but for case stay together."""

    seed: StrictInt
    """Of the draw."""
    share: Annotated[StrictFloat, Field(gt=0, lt=1)]
    """How much of the distinct texts is drawn."""
    rest: StrictBool = False
    """Take the others instead."""


class SplitSpec(FileRef):
    """Where the rows of one split come from, and how many there must be."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED | _HAS_A_SOURCE)

    label_file: FileRef | None = None
    """Of the format `lines`: the file of the labels, a line for each line of text."""
    hub: HubRef | None = None
    """The data set on the hub that is read where the file is not on this machine."""
    rows: Annotated[StrictInt, Field(gt=0)] | None = None
    """How many rows there must be."""
    label_rows: dict[str, StrictInt] | None = None
    """How many rows of each label there must be, by the labels' names."""
    where: dict[str, str] = Field(default_factory=dict)
    """Only the rows with these values in these columns: `where = { split = "train" }`."""
    cut: Cut | None = None
    """Only a share of the rows, so that one file makes both splits."""
    format: FormatSpec | None = None
    """How its file is written, where that is not how the task's others are."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.path and not self.hub:
            raise ValueError("a split needs a 'path', or a 'hub' data set")
        return self


class Archive(Strict):
    """A public archive that holds a task's files, their paths without what `strip` says."""

    url: Url
    """Of a zip or tar archive."""
    strip: str = ""
    """What of the files' paths is not there in the archive."""


class CountedFile(FileRef):
    """A file of a SentEval or STS task, and how many rows it must have."""

    path: RelativePath
    """Its place below the folder of the task file, or below the data folder."""
    sha256: Sha256
    """Its checksum, verified whenever the file is read."""
    rows: Annotated[StrictInt, Field(gt=0)]
    """How many rows there must be."""


class Owner(Protocol):
    """Protocol of an object that declares files: the part of a task that finding data needs."""

    @property
    def name(self) -> str:
        """Name of the task."""

    @property
    def file(self) -> Path:
        """Task file, whose folder may contain the data."""

    def references(self) -> list[FileRef]:
        """Return the files that the task reads."""
