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
from typing import Annotated, Any, ClassVar, Literal, Self

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


_METRICS = {"polarity", "similarity", "similarity_reference", "retention", "joint"}
_METRICS |= {"knn_accuracy", "overlap", "sgts", "pairwise_accuracy"}


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


class Archive(_Strict):
    """A public archive that holds a task's files below some folder."""

    url: Url
    strip: str = ""

    def member(self, path: str) -> str:
        """Name the member of the archive that lies at this path of a data folder."""
        return path.removeprefix(self.strip)


class CountedFile(FileRef):
    """A file of a SentEval or STS task, and how many rows it must have."""

    path: RelativePath
    sha256: Sha256
    rows: Annotated[int, Field(gt=0)]


class TaskSpec(_Strict):
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


_KINDS: dict[str, type[TaskSpec]] = {
    "polarity": PolaritySpec,
    "transfer": TransferSpec,
    "relatedness": RelatednessSpec,
    "sts": StsSpec,
}


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
    kind = values.get("kind")
    if kind not in _KINDS:
        problem = "'kind' is missing" if kind is None else f"unknown kind {kind!r}"
        raise InputError(f"{path}: {problem}{nearest(str(kind), _KINDS)}")
    try:
        return _KINDS[kind].model_validate({"file": path} | values)
    except ValidationError as error:
        raise InputError(f"{path}: {_first_problem(error, _KINDS[kind])}") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are near this one, as the end of a message: '; did you mean …?'."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    shown = ", ".join(names if len(names) <= 12 else [*names[:12], f"{len(names) - 12} more"])
    return f"; known: {shown}" if names else ""


def _without_places(value: Any) -> Any:
    """Leave out where a file lies: its content, which has a checksum, is what counts."""
    if not isinstance(value, dict):
        return value
    return {key: _without_places(v) for key, v in value.items() if key not in {"url", "path"}}


def _first_problem(error: ValidationError, model: type[TaskSpec]) -> str:
    problems = error.errors(include_url=False)
    unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
    first = next(unknown, problems[0])  # a misspelt key is also missing; its spelling says more
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        return f"unknown key '{where}'{nearest(key, _keys_at(first['loc'][:-1], model))}"
    if first["type"] == "missing":
        return f"'{where}' is missing"
    got = "" if first["type"] == "value_error" else f", got {_short(first['input'])}"
    message = re.sub(r"^Value error, ", "", first["msg"])
    return f"'{where}': {message}{got}" if where else message


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _keys_at(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys that the table at this place of a task file may have."""
    tables: dict[str, type[BaseModel]] = {
        "format": FormatSpec,
        "protocol": PolarityProtocol,
        "label_file": FileRef,
        "hub": HubRef,
        "source": SplitSpec,
        "query": SplitSpec,
        "archive": Archive,
    }
    if location[:1] == ("files",):
        return sorted(CountedFile.model_fields)
    if location == ("splits",):
        return ["source", "query"]
    for part in location:
        model = tables.get(str(part), model)
    return sorted(set(model.model_fields) - {"file"})
