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
    """A file: its place below a data folder, and its public address."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED)

    path: RelativePath | None = None
    """Path below the folder of the task file, or below the data folder."""
    url: Url | None = None
    """Public address of the file; needs `path` and `sha256`."""
    sha256: Sha256 | None = None
    """Checksum, verified whenever the file is read."""

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
    """Full commit id, 40 digits; a branch would move."""
    split: str
    """Name of the split in the data set, such as `train`."""
    config: str | None = None
    """Configuration of the data set, if it has several."""
    text: str = "text"
    """Column with the texts on the hub."""
    label: str = "label"
    """Column with the labels on the hub."""


class FormatSpec(Strict):
    """Format of the files of a task."""

    type: Literal["csv", "tsv", "jsonl", "parquet", "lines"] | None = None
    """By default, the suffix decides; `lines` is plain text, which needs a `label_file`."""
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    """Separator of the columns of a csv file."""
    quoted: StrictBool = True
    """Whether quotation marks enclose values in csv and tsv."""
    header: tuple[str, ...] = ()
    """Names of the columns of a csv or tsv file without a header line."""
    encoding: str = "utf-8"
    """Encoding of text files, by Python's name."""
    text: str = "text"
    """Column with the texts."""
    label: str = "label"
    """Column with the labels."""
    columns: tuple[str, ...] = ()
    """Further columns to keep, for `groups`, `breakdown` and `pair` of the protocol."""


class Cut(Strict):
    """A random share of the rows of a file; texts that differ only in case stay together."""

    seed: StrictInt
    """Seed of the draw."""
    share: Annotated[StrictFloat, Field(gt=0, lt=1)]
    """Share of the distinct texts that is drawn."""
    rest: StrictBool = False
    """Whether to keep the texts that are not drawn."""


class SplitSpec(FileRef):
    """The source of the rows of one split, and their expected number."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED | _HAS_A_SOURCE)

    label_file: FileRef | None = None
    """File with one label per line of text, for the format `lines`."""
    hub: HubRef | None = None
    """Data set on the hub, which is read if the file is not on this machine."""
    rows: Annotated[StrictInt, Field(gt=0)] | None = None
    """Expected number of rows."""
    label_rows: dict[str, StrictInt] | None = None
    """Expected number of rows of each label, by the names of the labels."""
    where: dict[str, str] = Field(default_factory=dict)
    """Keep only rows with these values in these columns: `where = { split = "train" }`."""
    cut: Cut | None = None
    """Keep only a share of the rows, so that one file makes both splits."""
    format: FormatSpec | None = None
    """Format of the file of this split, if it differs from that of the task."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.path and not self.hub:
            raise ValueError("a split needs a 'path', or a 'hub' data set")
        return self


class Archive(Strict):
    """A public archive that contains the files of a task."""

    url: Url
    """Address of a zip or tar archive."""
    strip: str = ""
    """Start of the paths of the files, which the paths in the archive do not have."""


class CountedFile(FileRef):
    """A file of a SentEval or STS task, with its expected number of rows."""

    path: RelativePath
    """Path below the folder of the task file, or below the data folder."""
    sha256: Sha256
    """Checksum, verified whenever the file is read."""
    rows: Annotated[StrictInt, Field(gt=0)]
    """Expected number of rows."""


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
