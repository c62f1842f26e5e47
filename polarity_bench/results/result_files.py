"""Result files: one JSON file per encoder and task, a valid `TaskResult` of mteb, and provenance.

The path of a result is `ENCODER/DIGEST/TASK.json`, as in mteb. DIGEST is the digest of the encoder,
so that two checkpoints of one name cannot collide. Results with other settings than the task's
defaults are in separate folders below `experiments/`. The following files belong to a result:

- `TASK.provenance.json` says how the result was computed.
- `TASK.queries.safetensors` holds the values per query and the retrieved sources, so that a new
  statistic needs no new run.
- `TASK.samples.jsonl`, written on request, holds the same as text.

Scores are fractions and not rounded; an undefined score is null. Files are written to a temporary
name, synced and renamed, so that a result is never incomplete.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import MINILM
from polarity_bench.errors import InputError, MissingValuesError
from polarity_bench.files import (
    folder_name,
    json_bytes,
    remove,
    write_atomically,
)
from polarity_bench.results.packed_results import (
    MODEL_META,
    PROVENANCE,
    read_stored,
    result_paths,
)
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import digest_of


def names_of(encoder: EncoderId) -> list[str]:
    """Return the names by which an encoder can be selected."""
    last = encoder.name.rpartition("/")[2]
    also = ["minilm"] if encoder.name == MINILM else []
    return [encoder.name, last, encoder.label, encoder.digest[:8], *also]


_VERSIONS = ("polarity-bench", "sentence-transformers", "torch", "mteb", "python", "device")


def made_by(latest: Result) -> dict[str, str]:
    """Return the date of a result, the versions of the packages and the device."""
    versions = {name: latest.environment[name] for name in _VERSIONS if name in latest.environment}
    return {"last made": datetime.fromtimestamp(latest.date, UTC).date().isoformat(), **versions}


FORMAT = 5
_READABLE = {3, 4, FORMAT}  # 3 lacks n and limit; 3 and 4 lack the provenance's checksum
PROGRAMS = frozenset({"polarity-bench", "__main__.py"})
"""The first word of a recorded command of this project."""
TRAINED_BY = "training command"
"""Key of a result's environment for the command that trained the encoder."""
SAMPLES = ".samples.jsonl"
_QUERIES = ".queries.safetensors"
_SPREAD = ("std", "ci95_low", "ci95_high", "n_undefined")


@dataclass(frozen=True)
class ResultKey:
    """Everything that determines the numbers of a result.

    A stored result is current if the digest of its key is that of the new evaluation.

    Attributes:
        task: Digest of the task file.
        data: Digest of the texts and labels.
        encoder: The encoder under test.
        reference: The reference encoder, which measures S; None if it is the encoder under test.
        protocol: Name, version and parameters of the protocol.
    """

    task: str
    data: str
    encoder: EncoderId
    reference: EncoderId | None
    protocol: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Digest of the key, as 16 hexadecimal digits."""
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
        """The encoder that measures S: the reference encoder, or else the encoder under test."""
        return self.reference or self.encoder

    @property
    def protocol_label(self) -> str:
        """Name of the protocol in tables, with its preset, its folds and `lower-cased` texts.

        A preset defines how texts are prepared, so only labels without a preset mention
        lower-casing. By default, texts keep their case.
        """
        protocol = self.protocol
        label = " ".join(filter(None, [protocol["name"], protocol.get("preset")]))
        folds = f"k = {protocol['kfold']}" if "kfold" in protocol else ""
        lowered = protocol.get("lower_case") and "preset" not in protocol
        return ", ".join(filter(None, [label, folds, "lower-cased" if lowered else ""]))


@dataclass(frozen=True)
class Result:
    """The scores of one encoder on one task.

    Attributes:
        task: Name of the task.
        kind: The task type.
        result_name: Name of the task in mteb and in file names.
        version: Version of the task.
        languages: Languages of the task.
        main_score: Key of the task's main score.
        key: Everything that determines the numbers.
        scores: The scores.
        counts: Number of texts of each sort.
        seen: Number of rows of each part that occur in the encoder's training texts, by the way
            they occur; None if the training texts are unknown.
        unseen: The main score over the test rows that do not occur in the training texts, and the
            base's score over the same rows, by name; each with `score`, `low`, `high` and `n`.
            Empty if no test row was seen; None if that is unknown.
        unseen_of: Name of the original task, if this task is a copy with sources that are never
            trained on.
        training: How the encoder was trained, as its folder records it: `recipe` with its name and
            settings, `seed` and `base`; None if unknown.
        experiment: Settings that differ from the task's defaults; '' if none do.
        limit: Limit of the queries or rows, for a quick look; None if all were used. A result with
            a limit is not comparable with others.
        seconds: Wall time by phase: `load`, `score` and `embed`. In a run of several tasks, `embed`
            is the time of the single pass that embedded all tasks.
        environment: Versions, device, platform, and the commands that computed the numbers.
        date: Time of the evaluation, in seconds since 1970 (UTC).
        arrays: Values per query and retrieved sources.
    """

    task: str
    kind: str
    result_name: str
    version: int
    languages: tuple[str, ...]
    main_score: ScoreKey
    key: ResultKey
    scores: Mapping[ScoreKey, Score]
    counts: Mapping[str, int]
    seen: Mapping[str, Mapping[str, int]] | None = None
    unseen: Mapping[str, Mapping[str, float | None]] | None = None
    unseen_of: str | None = None
    training: Mapping[str, Any] | None = None
    experiment: str = ""
    limit: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    date: float = 0.0
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def main(self) -> Score:
        """The main score."""
        return self.scores[self.main_score]

    @property
    def lacks_reference(self) -> bool:
        """Whether S, retention and joint are NaN because the encoder's base is not available."""
        return self.key.reference is not None and self.key.reference.is_absent

    @property
    def ks(self) -> tuple[int, ...]:
        """All k with scores, ascending; empty for tasks that do not retrieve."""
        return tuple(sorted({key.k for key in self.scores if key.k is not None}))

    @property
    def flat(self) -> dict[str, float]:
        """The scores by their names in files and mteb: `NAME`, and if defined, `NAME_std` etc.

        Raises:
            InputError: If two numbers would have the same name, for instance a score and the
                spread of another score.
        """
        flat: dict[str, float] = {}
        names = {str(key) for key in self.scores}
        for key, score in self.scores.items():
            spread = (score.std, *score.ci95, score.n_undefined or math.nan)
            named = {f"{key}_{part}": value for part, value in zip(_SPREAD, spread, strict=True)}
            if twice := (flat.keys() & {str(key), *named}) | (names & named.keys()):
                name = min(twice)
                raise InputError(f"two scores are named {name!r}; rename the part or the column")
            flat[str(key)] = score.mean
            flat |= {name: float(value) for name, value in named.items() if not math.isnan(value)}
        return flat


Stored = tuple[Path, Result]
"""The file of a result, and the result."""


def _unflatten(flat: Mapping[str, float], n: Mapping[str, int | None]) -> dict[ScoreKey, Score]:
    """Return the scores from the flat form; `n` holds the number of values of each, if known."""
    scores = {}
    for key, name, spread in _keys_of(tuple(flat)):
        std, low, high = (flat.get(part, math.nan) for part in spread[:3])
        n_undefined = int(flat.get(spread[3], 0))
        scores[key] = Score(flat[name], std, (low, high), n.get(name), n_undefined)
    return scores


@lru_cache(maxsize=1024)
def _keys_of(names: tuple[str, ...]) -> tuple[tuple[ScoreKey, str, tuple[str, ...]], ...]:
    """Return the names that are scores: key, name, and the names of the score's spread."""
    spreads = {name: tuple(f"{name}_{part}" for part in _SPREAD) for name in names}
    spread_names = {part for spread in spreads.values() for part in spread}
    keys = {name: ScoreKey.parse(name) for name in names if name not in spread_names}
    return tuple((key, name, spreads[name]) for name, key in keys.items())


def place(output: Path, encoder: EncoderId, experiment: str, result_name: str) -> Path:
    """Return the path of a result below an output folder."""
    folder = output / folder_name(encoder.name) / encoder.digest
    if experiment:
        folder = folder / "experiments" / folder_name(experiment)
    return folder / f"{result_name}.json"


def write_result(result: Result, output: str | Path) -> Path:
    """Write a result and its other files, and return the path of the result.

    The provenance is written last. It holds the checksum of the scores, so that incomplete files of
    a killed run are never taken for a result.

    Raises:
        InputError: If the output folder is not writable.
    """
    path = place(Path(output), result.key.encoder, result.experiment, result.result_name)
    for suffix in (PROVENANCE, SAMPLES):  # those of the result that is replaced
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


def with_checksum(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with its own checksum, `sha256`, as the last value."""
    rest = {name: value for name, value in stored.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return rest | {"sha256": digest}


class _Task(BaseModel):
    name: str
    kind: str
    version: int
    digest: str
    data: str
    unseen_of: str | None = None


class _Provenance(BaseModel):
    """The fields of a provenance file that are read."""

    model_config = ConfigDict(strict=True)

    run: str
    task: _Task
    encoder: EncoderId
    reference: EncoderId | None
    protocol: dict[str, Any]
    experiment: str
    limit: int | None = None
    main_score: str
    counts: dict[str, int]
    seen: dict[str, dict[str, int]] | None = None
    unseen: dict[str, dict[str, int | float | None]] | None = None
    n: dict[str, int | None] = {}
    training: dict[str, Any] | None = None
    seconds: dict[str, float]
    environment: dict[str, str]


_SHARED = {"counts", "seen", "unseen", "training", "experiment", "limit", "seconds", "environment"}
"""Fields that have the same name in a result and its provenance."""


def read_result(path: str | Path) -> Result:
    """Read a result that `write_result` wrote, without its arrays.

    Raises:
        InputError: If the file or its provenance is missing or damaged.
    """
    path = Path(path)
    made = read_stored(path.with_suffix(PROVENANCE))
    stored = read_stored(path)
    try:
        _check_whole(path, made, stored)
        provenance = _Provenance.model_validate_json(json.dumps(made))
        (row,) = stored["scores"]["test"]
        other = {"main_score", "hf_subset", "languages"}
        flat = {n: math.nan if x is None else float(x) for n, x in row.items() if n not in other}
        key = ResultKey(
            task=provenance.task.digest,
            data=provenance.task.data,
            encoder=_shared(provenance.encoder),
            reference=provenance.reference and _shared(provenance.reference),
            protocol=provenance.protocol,
        )
        result = Result(
            task=provenance.task.name,
            kind=provenance.task.kind,
            result_name=stored["task_name"],
            version=provenance.task.version,
            languages=tuple(row["languages"]),
            main_score=ScoreKey.parse(provenance.main_score),
            key=key,
            scores=_unflatten(flat, provenance.n),
            unseen_of=provenance.task.unseen_of,
            date=stored["date"],
            **provenance.model_dump(include=_SHARED),
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path.with_suffix(PROVENANCE)}: `{field}`: {first['msg']}, got {first['input']!r}; "
            "it was edited or damaged: evaluate it again"
        ) from error
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a result of polarity-bench: {error!r}") from error
    # Before format 5, an edited provenance has no checksum to show it.
    if key.digest != provenance.run:
        raise InputError(f"{path}: the provenance of this result was edited; evaluate again")
    if result.main_score not in result.scores:
        raise InputError(
            f"{path}: its main score {provenance.main_score!r} is not among its scores"
        )
    return result


@lru_cache(maxsize=4096)
def _shared(encoder: EncoderId) -> EncoderId:
    """Return the same object for equal encoders, so that its digest is computed only once."""
    return encoder


def write_seen(result: Result, path: Path) -> None:
    """Write a result's `seen` and `unseen` to its provenance.

    Raises:
        InputError: If the provenance is missing, damaged or not writable.
    """
    made = read_stored(path.with_suffix(PROVENANCE))
    if not isinstance(made, dict) or not _is_as_written(made):
        raise InputError(f"{path}: the provenance of this result was edited; evaluate again")
    content = made | {"seen": result.seen, "unseen": result.unseen}
    if made["format"] >= FORMAT:
        content = with_checksum(content)
    write_atomically(path.with_suffix(PROVENANCE), json_bytes(content))


def read_results(folder: Path) -> Iterator[tuple[Path, Result]]:
    """Read every result below a folder, including linked and packed ones, in order of paths."""
    for path in result_paths(folder):
        yield path, read_result(path)


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the values per query of a result.

    Args:
        path: Path of the result.
        names: Names of the arrays to read, if they exist; None means all arrays.

    Raises:
        MissingValuesError: If the file of the values is missing or unreadable.
    """
    from safetensors import SafetensorError, safe_open

    file = path.with_suffix(_QUERIES)
    if not file.is_file():
        raise MissingValuesError(f"{file}: the values per query are missing; run {path.stem} again")
    try:
        with safe_open(file, "np") as stored:
            wanted = [name for name in stored.keys() if names is None or name in names]  # noqa: SIM118
            return {name: stored.get_tensor(name) for name in wanted}
    except SafetensorError as error:
        raise MissingValuesError(
            f"{file}: not a safetensors file ({error}), perhaps a pointer of git-lfs; run "
            f"{path.stem} again"
        ) from error


def has_its_values(path: Path, result: Result) -> bool:
    """Return whether the values per query of a result exist and belong to the result.

    The values are checked by their checksum. Results without a checksum, from formats before 5, are
    checked by the means of the values.
    """
    try:
        checksum: str | None = read_stored(path.with_suffix(PROVENANCE)).get("queries_sha256")
        if checksum is not None:
            content = path.with_suffix(_QUERIES).read_bytes()
            return checksum == hashlib.sha256(content).hexdigest()
        arrays = read_arrays(path)
    except (InputError, OSError):
        return False
    named = {str(key): score.mean for key, score in result.scores.items()}
    means = {n: np.mean(v[~np.isnan(v)]) for n, v in arrays.items() if n in named and v.size}
    return all(math.isclose(mean, named[name], abs_tol=1e-4) for name, mean in means.items())


def files_of(path: Path) -> list[Path]:
    """Return the paths of all files of a result, the provenance last."""
    suffixes = (".json", _QUERIES, SAMPLES, PROVENANCE)
    return [path.with_suffix(suffix) for suffix in suffixes]


def scores_digest(result: Result) -> str:
    """Return the SHA-256 of a result's scores in their stored form."""
    return _digest_of_scores(_task_result(result))


def _check_whole(path: Path, made: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if made["format"] not in _READABLE:
        raise InputError(f"{path}: written in format {made['format']}, this reads {FORMAT}")
    if made["format"] < FORMAT and "__limit_" in f"__{made['experiment']}":
        raise InputError(f"{path}: written in format {made['format']}, with a limit; run it again")
    if not _is_as_written(made):
        raise InputError(f"{path}: the provenance of this result was edited; evaluate again")
    if made["scores_sha256"] != _digest_of_scores(stored):
        raise InputError(f"{path}: edited, or half written; evaluate it again")


def _is_as_written(made: Mapping[str, Any]) -> bool:
    needs_none = made["format"] < FORMAT and "sha256" not in made
    return bool(needs_none or made == with_checksum(made))


def _digest_of_scores(task_result: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_bytes(task_result["scores"])).hexdigest()


def _provenance(result: Result) -> dict[str, Any]:
    key = result.key
    return {
        "format": FORMAT,
        "run": key.digest,
        "task": {
            "name": result.task,
            "kind": result.kind,
            "version": result.version,
            "digest": key.task,
            "data": key.data,
            **({"unseen_of": result.unseen_of} if result.unseen_of else {}),
        },
        "encoder": key.encoder.to_dict(),
        "reference": key.reference.to_dict() if key.reference else None,
        "protocol": dict(key.protocol),
        "experiment": result.experiment,
        "limit": result.limit,
        "main_score": str(result.main_score),
        "counts": dict(result.counts),
        "seen": result.seen,
        "unseen": result.unseen,
        "n": {str(key): score.n for key, score in result.scores.items()},
        **({"training": dict(result.training)} if result.training else {}),
        "seconds": {name: round(value, 3) for name, value in result.seconds.items()},
        "date": datetime.fromtimestamp(result.date, UTC).isoformat(timespec="seconds"),
        "environment": dict(result.environment),
    }


def _task_result(result: Result) -> dict[str, Any]:
    """Return a result in the form of mteb's `TaskResult`, with the fields in the same order."""
    scores = {n: None if math.isnan(x) else x for n, x in sorted(result.flat.items())}
    row = {
        **scores,
        "main_score": scores[str(result.main_score)],
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
