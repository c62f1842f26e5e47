"""Result files: the scores of one encoder on one task as JSON of mteb, and further files.

The path of the JSON file is `ENCODER/DIGEST/TASK.json`, as in mteb, and its content is a valid
`TaskResult` of mteb. DIGEST is the digest of the encoder, so two encoders with the same name have
separate folders. Results with settings other than the task's defaults are in separate folders below
`experiments/`. A result has further files next to the JSON file:

- `TASK.provenance.json` describes how the result was computed.
- `TASK.queries.safetensors` contains the values per query and the retrieved sources. With these
  values, a new statistic does not need a new run.
- `TASK.samples.jsonl` contains the same values as text. This file is optional.

Scores are fractions and not rounded; an undefined score is null. Joint and front below chance are
stored as negative scores, except that mteb's field `main_score` is the main score as it is shown
(see `Metric.shown`). Every file is written to a
temporary name, synced and renamed, so a file is never incomplete.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AliasPath,
    BeforeValidator,
    Field,
    PlainSerializer,
    SkipValidation,
)

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import MINILM
from polarity_bench.errors import InputError, MissingValuesError, reworded
from polarity_bench.files import (
    folder_name,
    json_bytes,
    remove,
    with_checksum,
    write_atomically,
)
from polarity_bench.metrics.register import metric_of
from polarity_bench.results.packed_results import (
    MODEL_META,
    PROVENANCE,
    is_stored,
    read_stored,
    result_paths,
)
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.validation import NullableFloat, as_json, validated
from polarity_bench.values import digest_of


def names_of(encoder: EncoderId) -> list[str]:
    """Return the names that select an encoder.

    These are the full name, the last part of the name, the label and the first 8 digits of the
    digest. all-MiniLM-L6-v2 also has the short name `minilm`.
    """
    last = encoder.name.rpartition("/")[2]
    also = ["minilm"] if encoder.name == MINILM else []
    return [encoder.name, last, encoder.label, encoder.digest[:8], *also]


_VERSIONS = ("polarity-bench", "sentence-transformers", "torch", "mteb", "python", "device")


def made_by(latest: Result) -> dict[str, str]:
    """Return the date of a result, the package versions and the device, by name."""
    versions = {name: latest.environment[name] for name in _VERSIONS if name in latest.environment}
    return {"last made": datetime.fromtimestamp(latest.date, UTC).date().isoformat(), **versions}


FORMAT = 6
PROGRAMS = frozenset({"polarity-bench", "__main__.py"})
"""Possible first words of a recorded command of this project."""
TRAINED_BY = "training command"
"""Key, in the environment of a result, of the command that trained the encoder."""
CROSS_VALIDATION: Final = "cross-validation"
"""Kind of the results of few-shot experiments, whose arrays have a value for each fold."""
SAMPLES = ".samples.jsonl"
_QUERIES = ".queries.safetensors"
_AGAIN = "run the evaluation again"
_SPREAD = ("std", "ci95_low", "ci95_high", "n_undefined")
_OF_MTEB = ("main_score", "hf_subset", "languages")
"""Fields of mteb beside the scores."""
_Numbers = dict[str, NullableFloat]
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError)
"""Errors of reading a record that has its checksum, but not its structure."""


@lru_cache(maxsize=4096)
def _encoder(content: str) -> EncoderId:
    """Return one shared object for equal encoders, whose digest is then computed only once.

    Args:
        content: The encoder's identity as JSON.
    """
    stored = json.loads(content)
    validated(EncoderId, stored)
    return EncoderId(**stored)  # not converted, because the digests of 4 and 4.0 differ


def _at(place: str, *further: str | int, **bounds: Any) -> Any:
    """Declare where a field is in the provenance, or below `mteb` in the file of the scores."""
    return Field(validation_alias=AliasPath(place, *further), **bounds)


StoredKey = Annotated[ScoreKey, BeforeValidator(ScoreKey.parse), PlainSerializer(str)]
"""Key of a score, whose name is stored."""
StoredEncoder = Annotated[
    EncoderId,
    BeforeValidator(lambda stored: _encoder(json.dumps(stored))),
    PlainSerializer(EncoderId.to_record),
]
"""Identity of an encoder, stored without the fields that have their defaults."""


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


def _in_iso_format(date: float) -> str:
    return datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class ResultKey:
    """Settings and data that determine the scores of a result.

    A stored result is current if its key has the same digest as the key of a new evaluation.

    Attributes:
        task: Digest of the task file.
        data: Digest of the texts and labels.
        encoder: Evaluated encoder.
        reference: Reference encoder of S; None if the evaluated encoder is its own reference.
        protocol: Name, version and parameters of the protocol.
    """

    task: Annotated[str, _at("task", "digest")]
    data: Annotated[str, _at("task", "data")]
    encoder: StoredEncoder
    reference: StoredEncoder | None
    protocol: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Digest of the key: 16 hexadecimal digits."""
        return digest_of(
            {
                "task": self.task,
                "data": self.data,
                "encoder": self.encoder.digest,
                "reference": self.reference.digest if self.reference else None,
                "protocol": dict(self.protocol),
            }
        )

    @property
    def reference_encoder(self) -> EncoderId:
        """Reference encoder of S, which may be the evaluated encoder."""
        return self.reference or self.encoder

    @property
    def protocol_label(self) -> str:
        """Label of the protocol in tables, such as `transfer sklearn, k = 10`.

        The label contains the name, the preset, the number of folds and whether texts are
        lower-cased. A preset defines how texts are prepared, so a label with a preset does not
        mention lower-casing.
        """
        protocol = self.protocol
        label = " ".join(map(str, filter(None, map(protocol.get, ("name", "preset")))))
        folds = f"k = {protocol['kfold']}" if "kfold" in protocol else ""
        lowered = protocol.get("lower_case") and "preset" not in protocol
        return ", ".join(filter(None, [label, folds, "lower-cased" if lowered else ""]))


@dataclass(frozen=True)
class Result:
    """Scores of one encoder on one task.

    Attributes:
        task: Name of the task.
        kind: Task type, or `CROSS_VALIDATION`.
        result_name: Name of the task in mteb and in file names.
        version: Version of the task.
        languages: Languages of the task.
        main_score: Key of the task's main score.
        key: Settings and data that determine the scores.
        scores: Scores, keyed by `ScoreKey`; joint and front are negative below chance.
        counts: Number of texts or rows in each part of the data, such as queries and sources.
        seen: Number of rows that occur in the encoder's training texts, by part of the data and
            kind of match; None if the training texts are unknown.
        unseen: Main score over the test rows that are not training texts, and the same score of the
            base encoder, by name. Each is a mapping with `score`, `low`, `high` and `n`. Empty if
            no test row is a training text; None if the training texts are unknown.
        unseen_of: Name of the original task, if this task is a copy with sources that must not be
            used for training.
        data_set: Data set of mteb that the task reads: its name, subsets, hub id, revision and
            licence, and why its texts must not be published; None for other tasks.
        training: Training of the encoder: `recipe` with its name and settings, `seed` and `base`;
            None if unknown. For a cross-validation, the method that was trained on each fold, with
            its `title`.
        experiment: Settings that differ from the task's defaults, and the reference if it is
            another encoder; '' if there are none.
        reference_is_default: Whether the reference was not chosen by the user: it is the base of a
            trained encoder, the encoder without compression, or the encoder itself.
        limit: Maximum number of queries or rows; None if all were used. A result with a limit is
            not comparable with other results.
        seconds: Wall time of the phases `load`, `score` and `embed`, in seconds. If a run has
            several tasks, `embed` is the time to embed the texts of all tasks.
        environment: Versions, device and platform, and the commands that computed the scores.
        date: Time of the evaluation, in seconds since 1970 (UTC).
        arrays: Values per query or fold, and retrieved sources, by name.
        path: Path of the stored result; `Path()` if the result is not stored.
    """

    task: Annotated[str, _at("task", "name")]
    kind: Annotated[str, _at("task", "kind")]
    result_name: Annotated[str, _at("mteb", "task_name"), Field(exclude=True)]
    version: Annotated[int, _at("task", "version")]
    languages: Annotated[
        tuple[str, ...], _at("mteb", "scores", "test", 0, "languages"), Field(exclude=True)
    ]
    main_score: StoredKey
    key: SkipValidation[ResultKey]
    scores: Annotated[SkipValidation[Mapping[ScoreKey, Score]], Field(exclude=True)]
    counts: Mapping[str, int]
    seen: Mapping[str, Mapping[str, int]] | None = None
    unseen: Mapping[str, Mapping[str, int | float | None]] | None = None
    unseen_of: Annotated[str | None, _at("task", "unseen_of")] = None
    data_set: Annotated[Mapping[str, Any] | None, _at("task", "data_set")] = None
    training: Mapping[str, Any] | None = None
    experiment: str = ""
    reference_is_default: bool = False
    limit: int | None = None
    seconds: Annotated[Mapping[str, float], PlainSerializer(_rounded)] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    date: Annotated[float, _at("mteb", "date", ge=0, le=1e11), PlainSerializer(_in_iso_format)] = 0
    arrays: Annotated[Mapping[str, NDArray[Any]], SkipValidation, Field(exclude=True)] = field(
        default_factory=dict, repr=False, compare=False
    )
    path: Annotated[Path, Field(exclude=True)] = field(default=Path(), repr=False, compare=False)

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True}

    @property
    def main(self) -> Score:
        """Main score of the task, as it is shown."""
        return self.shown(self.main_score)

    def shown(self, key: ScoreKey) -> Score:
        """Return a score as it is shown (see `Metric.shown`)."""
        return metric_of(key.metric).shown_score(self.scores[key])

    @property
    def settings(self) -> str:
        """Settings that differ from the defaults of the task and its reference; '' if none do."""
        is_usual = self.reference_is_default and self.experiment.startswith("reference_")
        return "" if is_usual else self.experiment

    @property
    def lacks_reference(self) -> bool:
        """Whether scores such as S and joint are NaN because the reference encoder is missing."""
        return self.key.reference is not None and self.key.reference.is_absent

    @property
    def ks(self) -> tuple[int, ...]:
        """Values of k that have scores, ascending; empty for tasks without retrieval."""
        return tuple(sorted({key.k for key in self.scores if key.k is not None}))

    @property
    def flat(self) -> dict[str, float]:
        """Scores and their spreads by their names in files and in mteb.

        A score `NAME` may also have the numbers `NAME_std`, `NAME_ci95_low`, `NAME_ci95_high` and
        `NAME_n_undefined`. Undefined numbers other than scores are left out.

        Raises:
            InputError: If two numbers would have the same name, for example a score and the spread
                of another score.
        """
        flat: dict[str, float] = {}
        names = {str(key) for key in self.scores}
        for key, score in self.scores.items():
            spread = (score.std, *score.ci95, score.n_undefined or math.nan)
            named = {f"{key}_{part}": value for part, value in zip(_SPREAD, spread, strict=True)}
            if twice := (flat.keys() & {str(key), *named}) | (names & named.keys()):
                name = min(twice)
                raise InputError(
                    f"{self.task}: two scores are named {name!r}; rename a class, subset or "
                    "column of the task"
                )
            flat[str(key)] = score.mean
            flat |= {name: float(value) for name, value in named.items() if not math.isnan(value)}
        return flat


def score_with_interval(result: Result, key: ScoreKey) -> Score | None:
    """Return a score of a result; None if it is missing.

    The accuracy that SentEval rounds gets the interval of the exact accuracy.
    """
    score, exact = result.scores.get(key), result.scores.get(ScoreKey("exact_accuracy"))
    if score and exact and key == ScoreKey("accuracy"):
        return replace(score, ci95=exact.ci95)
    return score


def _scores_of(row: Mapping[str, Any], n: Mapping[str, int | None]) -> dict[ScoreKey, Score]:
    """Return the scores in a row of a result's JSON file, which has the form of `Result.flat`.

    Args:
        row: Scores and their spreads by name; null if undefined.
        n: Number of values behind each score, by the score's name; missing if unknown.
    """
    scores = {}
    numbers = validated(_Numbers, {name: row[name] for name in row if name not in _OF_MTEB})
    for key, name, (*parts, n_undefined) in _keys_of(tuple(numbers)):
        std, low, high = (numbers.get(part, math.nan) for part in parts)
        undefined = int(numbers.get(n_undefined, 0))
        scores[key] = Score(numbers[name], std, (low, high), n.get(name), undefined)
    return scores


@lru_cache(maxsize=1024)
def _keys_of(names: tuple[str, ...]) -> tuple[tuple[ScoreKey, str, tuple[str, ...]], ...]:
    """Return the key, the name and the names of the spread of each score.

    Args:
        names: Names of scores and of their spreads.
    """
    spreads = {name: tuple(f"{name}_{part}" for part in _SPREAD) for name in names}
    others = {part for spread in spreads.values() for part in spread}
    keys = {name: ScoreKey.parse(name) for name in names if name not in others}
    return tuple((key, name, spreads[name]) for name, key in keys.items())


def place(output: Path, encoder: EncoderId, experiment: str, result_name: str) -> Path:
    """Return the path of a result.

    Args:
        output: Output folder, which contains the folders of the encoders.
        encoder: Evaluated encoder.
        experiment: Settings that differ from the task's defaults; '' if none do.
        result_name: Name of the task in file names.
    """
    folder = output / folder_name(encoder.name) / encoder.digest
    if experiment:
        folder = folder / "experiments" / folder_name(experiment)
    return folder / f"{result_name}.json"


def write_result(result: Result, output: str | Path) -> Path:
    """Write the files of a result, and return the path of the scores.

    The provenance is written last and contains the checksum of the scores. A killed run therefore
    leaves no files that look like a complete result.

    Raises:
        InputError: If the output folder is not writable.
    """
    path = place(Path(output), result.key.encoder, result.experiment, result.result_name)
    # Without its provenance, the old result is not valid while the new files are written.
    for suffix in (PROVENANCE, SAMPLES):
        remove(path.with_suffix(suffix))
    meta = {"name": result.key.encoder.name, "revision": result.key.encoder.digest}
    write_atomically(path.with_name(MODEL_META), json_bytes(meta))
    made = _provenance(result) | {"scores_sha256": scores_digest(result)}
    if result.arrays:
        from safetensors.numpy import save

        ordered = {n: np.ascontiguousarray(values) for n, values in sorted(result.arrays.items())}
        content = save(ordered)
        write_atomically(path.with_suffix(_QUERIES), content)
        made["queries_sha256"] = hashlib.sha256(content).hexdigest()
    write_atomically(path, json_bytes(_task_result(result)))
    write_atomically(path.with_suffix(PROVENANCE), json_bytes(with_checksum(made)))
    return path


def check_record(path: Path, stored: Any, what: str, version: int, remedy: str) -> None:
    """Check the format and the checksum of a stored record.

    Args:
        path: Path of the file, for the message.
        stored: Content of the file.
        what: Kind of the record, such as `curve`.
        version: Expected format.
        remedy: What the user can do if the record is not usable.

    Raises:
        InputError: If the content is not a record in this format, or if any field was edited.
    """
    if not isinstance(stored, dict) or "format" not in stored:
        raise InputError(f"{path}: not a {what} of polarity-bench; {remedy}")
    if stored["format"] != version:
        raise InputError(
            f"{path}: expected a {what} in format {version}, got format {stored['format']}; "
            f"{remedy}"
        )
    if stored != with_checksum(stored):
        raise InputError(f"{path}: the {what} was edited or is damaged; {remedy}")


def _read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance of the result at a path, after checks of its format and checksum."""
    file = path.with_suffix(PROVENANCE)
    made: dict[str, Any] = read_stored(file)
    check_record(file, made, "result", FORMAT, _AGAIN)
    return made


def read_result(path: str | Path) -> Result:
    """Read a result that `write_result` wrote, without its arrays.

    Raises:
        InputError: If the scores or the provenance are missing, edited, damaged or in another
            format.
    """
    path = Path(path)
    made, stored = _read_provenance(path), read_stored(path)
    try:
        digest = _digest_of_scores(stored)
    except (ValueError, AttributeError):  # NaN, half of a surrogate pair, or no mapping
        digest = ""
    if digest != made.get("scores_sha256"):
        raise InputError(f"{path}: the scores were edited or are incomplete; {_AGAIN}")
    with reworded(f"{path}: not a result of polarity-bench (", f"); {_AGAIN}", *_DAMAGE):
        n = validated(dict[str, int | None], made.get("n", {}))
        scores = _scores_of(stored["scores"]["test"][0], n)
        further = {"key": validated(ResultKey, made), "scores": scores, "mteb": stored}
        scores[ScoreKey.parse(made["main_score"])]
        return validated(Result, {**made, **further, "path": path})


def write_seen(result: Result) -> None:
    """Write the `seen` and `unseen` of a stored result to its provenance file.

    Raises:
        InputError: If the provenance is missing, damaged or not writable.
    """
    made = _read_provenance(result.path) | {"seen": result.seen, "unseen": result.unseen}
    write_atomically(result.path.with_suffix(PROVENANCE), json_bytes(with_checksum(made)))


def read_results(folder: Path, *, of_folds: bool | None = False) -> Iterator[Result]:
    """Yield the results below a folder, sorted by path.

    Packed results and results behind symbolic links are included.

    Args:
        folder: Folder of results.
        of_folds: Whether to yield cross-validations instead of evaluations; None yields both.

    Raises:
        InputError: If a result is damaged.
    """
    for result in map(read_result, result_paths(folder)):
        if of_folds in (None, result.kind == CROSS_VALIDATION):
            yield result


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the values per query of a result, by name.

    Args:
        path: Path of the result.
        names: Names of the arrays to read, if they exist; None for all arrays.

    Raises:
        MissingValuesError: If the file with the values is missing, or has another checksum than the
            provenance says.
    """
    from safetensors import SafetensorError, safe_open

    file, provenance = path.with_suffix(_QUERIES), path.with_suffix(PROVENANCE)
    if not file.is_file():
        raise MissingValuesError(f"{file}: the values per query are missing; run {path.stem} again")
    try:
        # A killed run leaves values without provenance, and `fewshot` continues from them.
        if is_stored(provenance):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if digest != read_stored(provenance).get("queries_sha256"):
                raise SafetensorError("its checksum is not that of the result")  # noqa: TRY301  reported as other damage
        with safe_open(file, "np") as stored:
            wanted = [name for name in stored.keys() if names is None or name in names]  # noqa: SIM118  not a dict
            return {name: stored.get_tensor(name) for name in wanted}
    except SafetensorError as error:
        raise MissingValuesError(
            f"{file}: the file is damaged or a Git LFS pointer ({error}); fetch the file with "
            f"`git lfs pull`, or run {path.stem} again"
        ) from error


def has_values_per_query(result: Result) -> bool:
    """Return whether the values per query of a stored result exist and have their checksum."""
    try:
        read_arrays(result.path, ())
    except (InputError, OSError):
        return False
    return True


def files_of(path: Path) -> list[Path]:
    """Return the paths of the files of a result, whether they exist or not, the provenance last."""
    return [path.with_suffix(suffix) for suffix in (".json", _QUERIES, SAMPLES, PROVENANCE)]


def scores_digest(result: Result) -> str:
    """Return the SHA-256 checksum of a result's scores in their stored form."""
    return _digest_of_scores(_task_result(result))


def _digest_of_scores(task_result: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_bytes(task_result.get("scores"))).hexdigest()


def _provenance(result: Result) -> dict[str, Any]:
    made = as_json(result)
    key = made.pop("key")
    task = {"name": made.pop("task"), "digest": key.pop("task"), "data": key.pop("data")}
    of_task = {name: made.pop(name) for name in ("kind", "version", "unseen_of", "data_set")}
    return {
        "format": FORMAT,
        "run": result.key.digest,
        "task": task | {name: value for name, value in of_task.items() if value is not None},
        **key,
        "main_score": made.pop("main_score"),
        "n": {str(key): score.n for key, score in result.scores.items()},
        **made,
    }


def _task_result(result: Result) -> dict[str, Any]:
    """Return the content of a result's JSON file, with the fields in mteb's order."""
    scores = dict(sorted(result.flat.items())) | {"main_score": result.main.mean}
    row = {
        **{name: None if math.isnan(value) else value for name, value in scores.items()},
        "hf_subset": "default",
        "languages": list(result.languages),
    }
    return {
        "dataset_revision": result.key.task,
        "task_name": result.result_name,
        "mteb_version": result.environment.get("mteb"),
        "scores": {"test": [row]},
        "evaluation_time": sum(result.seconds.values()),
        "kg_co2_emissions": None,
        "date": result.date,
    }
