"""Task files: TOML in, a checked `TaskSpec` out.

A task is a file of data. Unknown keys are refused with the nearest known one, and every message
names the file. What moves a number goes into `TaskSpec.digest`; titles and addresses do not.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from polarity_bench.types import InputError, digest_of


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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRef(_Strict):
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


class HubRef(_Strict):
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


class FormatSpec(_Strict):
    """How the files of a task are written; `type` is read off their suffix where it is absent."""

    type: Literal["csv", "tsv", "jsonl", "parquet", "lines"] | None = None
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    quoted: bool = True
    encoding: str = "utf-8"
    text: str = "text"
    label: str = "label"
    columns: tuple[str, ...] = ()


class PolarityProtocol(_Strict):
    """What of the protocol a polarity task decides.

    `sources_per_query` is the size of the source set in multiples of the number of queries, drawn
    without replacement; 0 takes all. `groups` are columns whose share among the k nearest is
    scored, `breakdown` a column of the queries by which P is split up, and `pair` the column that
    joins the twins of a minimal pair.
    """

    k: Annotated[int, Field(ge=1)] = 16
    sources_per_query: Annotated[int, Field(ge=0)] = 5
    sample_seed: int = 42
    overlap: Annotated[int, Field(ge=0)] | None = None
    groups: tuple[str, ...] = ()
    breakdown: str | None = None
    pair: str | None = None


class TaskSpec(_Strict):
    """One polarity retrieval task, as its file declares it; `file` is where it was read from."""

    name: Name
    kind: Literal["polarity"]
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
    labels: dict[str, str]
    format: FormatSpec = FormatSpec()
    splits: dict[Literal["source", "query"], SplitSpec]
    protocol: PolarityProtocol = PolarityProtocol()

    file: Path = Field(exclude=True)

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
        if undeclared := used - set(self.format.columns):
            raise ValueError(f"[protocol] names {min(map(str, undeclared))!r}, not in columns")
        return self

    @property
    def result_name(self) -> str:
        """The task's name in mteb and in result files."""
        if self.mteb_name:
            return self.mteb_name
        return "".join(map(str.capitalize, self.name.split("-"))) + "PolarityRetrieval"

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all in the file that moves a number."""
        values = self.model_dump(
            mode="json", include={"version", "kind", "labels", "format", "splits", "protocol"}
        )
        for split in values["splits"].values():
            for reference in (split, split["label_file"] or {}):
                reference.pop("url", None)
                reference.pop("path", None)
        return digest_of(values)


def read_task(path: Path) -> TaskSpec:
    """Read and check one task file.

    Raises:
        InputError: If the file is no TOML, or what it says is not a task; names the file.
    """
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file: {error}") from error
    try:
        return TaskSpec.model_validate({"file": path} | values)
    except ValidationError as error:
        raise InputError(f"{path}: {_first_problem(error)}") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are near this one, as the end of a message: '; did you mean …?'."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    return f"; known: {', '.join(names)}" if names else ""


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1]))}"
    if first["type"] == "missing":
        return f"'{where}' is missing"
    got = "" if first["type"] == "value_error" else f", got {_short(first['input'])}"
    message = re.sub(r"^Value error, ", "", first["msg"])
    return f"'{where}': {message}{got}" if where else message


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys that the table at this place of a task file may have."""
    model: type[BaseModel] = TaskSpec
    tables: dict[str, type[BaseModel]] = {
        "format": FormatSpec,
        "protocol": PolarityProtocol,
        "label_file": FileRef,
        "hub": HubRef,
        "source": SplitSpec,
        "query": SplitSpec,
    }
    for part in location:
        model = tables.get(str(part), model)
    if location == ("splits",):
        return ["source", "query"]
    return sorted(set(model.model_fields) - {"file"})
