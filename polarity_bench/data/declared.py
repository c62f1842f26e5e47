"""What a task file declares of its data: files with checksum and rows, hub data sets, formats."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or ":" in path:
        raise ValueError("must be a relative path with forward slashes and without '..'")
    return path


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
MtebName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9.\-]{0,95}$")]
RelativePath = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]


class Strict(BaseModel):
    """A table whose unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRef(Strict):
    """A file: where it lies below a data folder, and where the public can get it."""

    path: RelativePath | None = None
    url: Url | None = None
    sha256: Sha256 | None = None

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
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    split: str
    config: str | None = None
    text: str = "text"
    label: str = "label"


class SplitSpec(FileRef):
    """Where the rows of one split come from, and how many there must be."""

    label_file: FileRef | None = None
    hub: HubRef | None = None
    rows: Annotated[int, Field(gt=0)] | None = None
    label_rows: dict[str, int] | None = None
    where: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.path and not self.hub:
            raise ValueError("a split needs a 'path', or a 'hub' data set")
        return self


class FormatSpec(Strict):
    """How the files of a task are written; `type` is read off their suffix where it is absent."""

    type: Literal["csv", "tsv", "jsonl", "parquet", "lines"] | None = None
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    quoted: bool = True
    encoding: str = "utf-8"
    text: str = "text"
    label: str = "label"
    columns: tuple[str, ...] = ()


class Archive(Strict):
    """A public archive that holds a task's files, their paths without what `strip` says."""

    url: Url
    strip: str = ""


class CountedFile(FileRef):
    """A file of a SentEval or STS task, and how many rows it must have."""

    path: RelativePath
    sha256: Sha256
    rows: Annotated[int, Field(gt=0)]


class Owner(Protocol):
    """Who declares files: a task, as far as finding its data goes."""

    @property
    def name(self) -> str:
        """The task's name."""

    @property
    def file(self) -> Path:
        """The task file, beside which data may lie."""

    def references(self) -> list[FileRef]:
        """Return the files that the task reads."""
