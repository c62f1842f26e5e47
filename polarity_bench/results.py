"""Results: one JSON per encoder and task, valid as mteb's `TaskResult`, and its provenance.

A result lies at `ENCODER/DIGEST/TASK.json`, as mteb lays out its own, where DIGEST is that of the
encoder: two checkpoints of one name cannot collide. What was asked differently from the task's
defaults lies in a folder of its own below `experiments/`. Beside each result stand
`TASK.provenance.json`, which says how it came about, and `TASK.queries.safetensors`, the values
per query and what was retrieved, so that a new statistic needs no new run.

Scores are fractions, unrounded; an undefined one is null. Files are written to a temporary name,
synced and renamed: a result is never half there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.errors import InputError
from polarity_bench.files import folder_name, write_atomically
from polarity_bench.types import EncoderId, Score, digest_of

FORMAT = 3
_PROVENANCE = ".provenance.json"


@dataclass(frozen=True)
class RunKey:
    """All that decides the numbers of a result. Its digest tells whether a stored one is current.

    Attributes:
        task: Digest of the task file.
        data: Digest of the texts and labels.
        encoder: The encoder under test.
        reference: The encoder that S is measured with; None is the encoder under test.
        protocol: The protocol's name, its version and its parameters.
    """

    task: str
    data: str
    encoder: EncoderId
    reference: EncoderId | None
    protocol: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all of it."""
        return digest_of(
            {
                "task": self.task,
                "data": self.data,
                "encoder": self.encoder.digest,
                "reference": self.reference.digest if self.reference else None,
                "protocol": dict(self.protocol),
            }
        )


@dataclass(frozen=True)
class Result:
    """The scores of one encoder on one task.

    Attributes:
        task: The task's name.
        kind: Its kind: polarity, transfer, relatedness or sts.
        result_name: Its name in mteb, which the files bear.
        version: Its version.
        languages: Its languages.
        main_score: Which of the scores is the task's main one.
        key: What decided the numbers.
        scores: Scores by name: `NAME`, and where defined `NAME_std`, `NAME_ci95_low`,
            `NAME_ci95_high` and `NAME_n_undefined`.
        counts: Sources, queries, overlap.
        experiment: What was asked differently from the task's defaults, '' if nothing was.
        seconds: Wall time by phase: `load`, `score`, and `embed`, which for a run of several
            tasks is that of the one pass that embedded all of them.
        environment: Versions, device, platform.
        date: When it was made, seconds since 1970 (UTC).
        arrays: Values per query and what was retrieved.
    """

    task: str
    kind: str
    result_name: str
    version: int
    languages: tuple[str, ...]
    main_score: str
    key: RunKey
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    experiment: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    date: float = 0.0
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def limited(self) -> bool:
        """Whether it is a quick look at some of the queries, which is not comparable."""
        return re.search(r"(^|__)limit_\d+(__|$)", self.experiment) is not None


def flatten(scores: Mapping[str, Score]) -> dict[str, float]:
    """Lay scores out as numbers by name, deviation and interval where they are defined."""
    flat: dict[str, float] = {}
    for name, score in scores.items():
        flat[name] = score.mean
        extra = {"std": score.std, "ci95_low": score.ci95[0], "ci95_high": score.ci95[1]}
        flat |= {f"{name}_{part}": v for part, v in extra.items() if not math.isnan(v)}
        if score.n_undefined:
            flat[f"{name}_n_undefined"] = float(score.n_undefined)
    return flat


def place(output: Path, encoder: EncoderId, experiment: str, result_name: str) -> Path:
    """Return where a result lies below an output folder."""
    folder = output / folder_name(encoder.name) / encoder.digest
    if experiment:
        folder = folder / "experiments" / folder_name(experiment)
    return folder / f"{result_name}.json"


def write_result(result: Result, output: Path) -> Path:
    """Write a result and what belongs to it, the provenance last; returns the result's path.

    The provenance holds the checksum of the scores, so that what a killed run leaves half done is
    never taken for a result.

    Raises:
        InputError: If the output folder cannot be written to.
    """
    path = place(output, result.key.encoder, result.experiment, result.result_name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be made: {error.strerror}") from error
    meta = {"name": result.key.encoder.name, "revision": result.key.encoder.digest}
    write_atomically(path.with_name("model_meta.json"), _json(meta))
    if result.arrays:
        _write_arrays(path.with_suffix(".queries.safetensors"), result.arrays)
    scores = _json(_task_result(result))
    write_atomically(path, scores)
    made = _provenance(result) | {"scores_sha256": _digest_of_scores(_task_result(result))}
    write_atomically(path.with_suffix(_PROVENANCE), _json(made))
    return path


def read_result(path: Path) -> Result:
    """Read a result that `write_result` wrote, without its arrays.

    Raises:
        InputError: If the file or its provenance is missing or damaged.
    """
    made = _read_json(path.with_suffix(_PROVENANCE))
    stored = _read_json(path)
    try:
        _check_whole(path, made, stored)
        reference = made["reference"]
        (row,) = stored["scores"]["test"]
        scores = {
            name: math.nan if value is None else float(value)
            for name, value in row.items()
            if name not in {"main_score", "hf_subset", "languages"}
        }
        return Result(
            task=made["task"]["name"],
            kind=made["task"]["kind"],
            result_name=stored["task_name"],
            version=made["task"]["version"],
            languages=tuple(row["languages"]),
            main_score=made["main_score"],
            key=RunKey(
                task=made["task"]["digest"],
                data=made["task"]["data"],
                encoder=EncoderId(**made["encoder"]),
                reference=EncoderId(**reference) if reference else None,
                protocol=made["protocol"],
            ),
            scores=scores,
            counts=made["counts"],
            experiment=made["experiment"],
            seconds=made["seconds"],
            environment=made["environment"],
            date=stored["date"],
        )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a result of polarity-bench: {error!r}") from error


def read_results(folder: Path) -> Iterator[tuple[Path, Result]]:
    """Read every result below a folder, in order of their paths."""
    for provenance in sorted(folder.rglob(f"*{_PROVENANCE}")):
        path = provenance.with_name(provenance.name.removesuffix(_PROVENANCE) + ".json")
        yield path, read_result(path)


def _check_whole(path: Path, made: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if made["format"] != FORMAT:
        raise InputError(f"{path}: written in format {made['format']}, this reads {FORMAT}")
    if made["scores_sha256"] != _digest_of_scores(stored):
        raise InputError(f"{path}: edited, or half written; evaluate it again")


def _digest_of_scores(task_result: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(task_result["scores"])).hexdigest()


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
        },
        "encoder": asdict(key.encoder),
        "reference": asdict(key.reference) if key.reference else None,
        "protocol": dict(key.protocol),
        "experiment": result.experiment,
        "main_score": result.main_score,
        "counts": dict(result.counts),
        "seconds": {name: round(value, 3) for name, value in result.seconds.items()},
        "environment": dict(result.environment),
    }


def _task_result(result: Result) -> dict[str, Any]:
    """Lay a result out as mteb's `TaskResult` does, with the fields in its order."""
    scores = {
        name: None if math.isnan(value) else value for name, value in sorted(result.scores.items())
    }
    row = {
        **scores,
        "main_score": scores[result.main_score],
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


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    from safetensors.numpy import save

    ordered = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    write_atomically(path, save(ordered))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: damaged, not JSON: {error}") from error
