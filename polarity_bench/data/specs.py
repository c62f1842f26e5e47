"""Models of the data declarations in a task file: files, hub data sets, splits and formats."""

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

from polarity_bench.validation import Seed, Strict

_INSIDE = r"^(?!/)(?!(\./*)+$)(?!(.*/)?\.\.(/|$))[^\\:]+$"


def _check_relative(path: str) -> str:
    if not re.search(_INSIDE, path):
        raise ValueError("expected a relative path with forward slashes and without '..'")
    return path


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
MtebName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9.\-]{0,95}$")]
RelativePath = Annotated[
    str, AfterValidator(_check_relative), Field(json_schema_extra={"pattern": _INSIDE})
]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
GitSha1 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{3}-[A-Z][a-z]{3}$")]
# fmt: off
Domain = Literal[
    "Academic", "Activity", "Animation", "AudioScene", "Bioacoustics", "Blog", "Chemistry",
    "Constructed", "E-commerce", "Egocentric", "Encyclopaedic", "Engineering", "Entertainment",
    "Fiction", "Financial", "Government", "Instructional", "Legal", "Medical", "Music", "Nature",
    "News", "Non-fiction", "Poetry", "Programming", "Religious", "Reviews", "Robotics", "Scene",
    "Social", "Speech", "Spoken", "Sport", "Subtitles", "Web", "Written",
]
# fmt: on
"""The domains that mteb knows, copied because an import of mteb takes seconds."""


_PINNED: list[JsonValue] = [{"required": ["path", key]} for key in ("sha256", "git_sha1")]
_URL_IS_PINNED: dict[str, JsonValue] = {"if": {"required": ["url"]}, "then": {"anyOf": _PINNED}}
_COUNTED: list[JsonValue] = [{"required": ["sha256", "rows"]}, {"required": ["git_sha1"]}]
_HAS_A_SOURCE: dict[str, JsonValue] = {"anyOf": [{"required": ["path"]}, {"required": ["hub"]}]}


class FileRef(Strict):
    """A data file with its relative path, its URL, or both."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED)

    path: RelativePath | None = None
    """Path of the file, relative to the folder of the task file or to the data folder."""
    url: Url | None = None
    """URL of the file; needs `path` and a checksum."""
    sha256: Sha256 | None = None
    """SHA-256 checksum of the file, verified before each read."""
    git_sha1: GitSha1 | None = None
    """SHA-1 that `git hash-object` prints, verified before each read."""

    @property
    def checksum(self) -> str | None:
        """The declared checksum; the `sha256` if there are two."""
        return self.sha256 or self.git_sha1

    @model_validator(mode="after")
    def _url_is_pinned(self) -> Self:
        if self.url and not self.checksum:
            raise ValueError("a file with a 'url' needs a 'sha256' or a 'git_sha1'")
        if self.url and not self.path:
            raise ValueError("a file with a 'url' needs a 'path', relative to the data folder")
        return self


class HubRef(Strict):
    """A split of a data set on the Hugging Face hub, pinned to a commit."""

    id: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    """Owner and name of the data set on the hub: `owner/name`."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    """Full commit hash of 40 hexadecimal digits, not a branch name, because branches change."""
    split: str
    """Name of the split in the hub data set, such as `train`."""
    config: str | None = None
    """Configuration of the data set, if it has several."""
    text: str = "text"
    """Column of the hub data set that contains the texts."""
    label: str = "label"
    """Column of the hub data set that contains the labels."""


class FormatSpec(Strict):
    """Format of the data files of a task."""

    type: Literal["csv", "tsv", "jsonl", "parquet", "lines"] | None = None
    """File type; by default, the suffix decides. `lines` is plain text and needs a `label_file`."""
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    """Column separator of a csv file."""
    quoted: StrictBool = True
    """Whether quotation marks enclose values in csv and tsv files."""
    header: tuple[str, ...] = ()
    """Column names, for a csv or tsv file without a header line."""
    encoding: str = "utf-8"
    """Encoding of text files, as Python names it."""
    text: str = "text"
    """Column that contains the texts."""
    label: str = "label"
    """Column that contains the labels."""
    columns: tuple[str, ...] = ()
    """Additional columns to read, for the keys `groups`, `breakdown` and `pair` of `protocol`."""


class Cut(Strict):
    """A random share of the rows of a file.

    Texts are drawn, not rows, so all rows with the same text, ignoring case, stay together.
    """

    seed: Seed
    """Seed of the random draw."""
    share: Annotated[StrictFloat, Field(gt=0, lt=1)]
    """Share of the distinct texts to draw, between 0 and 1."""
    rest: StrictBool = False
    """Whether to keep the texts that were not drawn, instead of the drawn texts."""


class SplitSpec(FileRef):
    """The data of one split: a file or a hub data set, and the expected number of rows."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED | _HAS_A_SOURCE)

    label_file: FileRef | None = None
    """File with the label of each line of text, for the file type `lines`."""
    hub: HubRef | None = None
    """Data set on the hub. It is read if `path` is not on this machine and `url` is not set."""
    rows: Annotated[StrictInt, Field(gt=0)] | None = None
    """Expected number of rows of the split."""
    label_rows: dict[str, StrictInt] | None = None
    """Expected number of rows of each label, keyed by the label's name."""
    where: dict[str, str] = Field(default_factory=dict)
    """Column values of the rows that belong to the split: `where = { split = "train" }`."""
    cut: Cut | None = None
    """Random share of the rows to keep, to divide one file between both splits."""
    format: FormatSpec | None = None
    """Format of this split's file, if it differs from the format of the task."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.path and not self.hub:
            raise ValueError("a split needs a 'path' or a 'hub' data set")
        return self


class Archive(Strict):
    """A public archive with the files of a task."""

    url: Url
    """URL of a zip or tar archive."""
    strip: str = ""
    """Prefix to remove from each file's `path` to get the path in the archive."""


class CountedFile(FileRef):
    """A file of a SentEval or STS task, with the expected number of rows."""

    model_config = ConfigDict(json_schema_extra=_URL_IS_PINNED | {"anyOf": _COUNTED})

    path: RelativePath
    """Path of the file, relative to the folder of the task file or to the data folder."""
    rows: Annotated[StrictInt, Field(gt=0)] | None = None
    """Expected number of rows of the file."""

    @model_validator(mode="after")
    def _is_counted(self) -> Self:
        if not self.git_sha1 and not (self.sha256 and self.rows):
            raise ValueError("a file needs 'sha256' and 'rows', or a 'git_sha1'")
        return self


class Owner(Protocol):
    """Interface of an object that declares data files, such as a task file."""

    @property
    def name(self) -> str:
        """Name of the task."""

    @property
    def file(self) -> Path:
        """Path of the task file. The folder of the task file may contain the data."""

    def references(self) -> list[FileRef]:
        """Return the declared files of the task."""
