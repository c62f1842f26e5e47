"""Cross-validated scores as a table of records, with one row for each mean score over folds.

The table has the columns of `results.frame`. `std` is the population standard deviation over folds
(divided by n), and `n` is the number of folds. The table has these additional columns:

- `settings.NAME`: Parameter of the method.
- `table`: Heading with the shared settings of a comparison: encoder, layers, pooling and protocol.
- `folds`: Score of each fold, keyed by seed and fold number.
- `n_planned`: Number of folds in the protocol.
- `seconds`: Mean duration of a fold, in seconds.
- `rows`: Number of rows of the data.
- `counts`: Number of rows of each class.
- `spec`: Experiment, from `Experiment.spec`.
- `mark`: A star if a paper marks a published number as significant.

Rows with the role `chance` are the scores of guessing (see `chance`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polarity_bench.cross_validation.chance import guess_scores
from polarity_bench.cross_validation.experiment import Outcome, default_measure, score_by_fold
from polarity_bench.cross_validation.methods import PROXIES, flat
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, check_known
from polarity_bench.results.frame import published_records, to_frame
from polarity_bench.results.published import read_published, refuse_repeated
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from pandas import DataFrame

MEASURES = {"macro_f1": "macro F1", "accuracy": "accuracy"}
WITH_PROXIES = " + inf"
"""Suffix of a method's name if it uses its proxies for prediction."""


def fold_frame(
    outcomes: Sequence[Outcome],
    measure: str | None = None,
    published: Iterable[Mapping[str, Any]] = (),
) -> DataFrame:
    """Return measured, guessed and published scores as a table of records.

    Args:
        outcomes: Results of experiments.
        measure: Measure to include; None uses the papers' measure for each protocol.
        published: Published scores, from `published_folds`.
    """
    measured = [
        record
        for record in experiment_records(outcomes)
        if record["metric"] == (measure or default_measure(record["spec"]))
    ]
    return to_frame([*measured, *_chance_records(measured), *published])


def experiment_records(outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """Yield a record for each method, way of predicting, task and measure.

    Experiments share a table if they have the same encoder, pooling, layers, version and protocol.
    If two tables would have the same heading, the digest of the encoder is added to both headings.
    If a task occurs with two versions of its data, the digest of the data is added to both names.
    """
    keys = [_table_key(outcome.spec) for outcome in outcomes]
    headings: dict[str, str] = {}
    versions: dict[tuple[str, str], set[str]] = {}
    for key, outcome in zip(keys, outcomes, strict=True):
        headings.setdefault(key, heading(outcome.spec))
        versions.setdefault((key, outcome.spec["task"]), set()).add(outcome.spec["data"])
    n_alike = Counter(headings.values())
    for key, outcome in zip(keys, outcomes, strict=True):
        spec, folds = outcome.spec, outcome.folds
        encoder, settings = EncoderId(**spec["encoder"]), flat(spec["method"])
        task, data, title = spec["task"], spec["data"], headings[key]
        common = {
            "task": f"{task} (data {data})" if len(versions[key, task]) > 1 else task,
            "protocol": protocol_label(spec["protocol"]),
            "version": spec["version"],
            "encoder": encoder.label,
            "encoder_digest": encoder.digest,
            "recipe": settings["name"],
            **{f"settings.{name}": value for name, value in settings.items() if name != "name"},
            "role": "measured",
            "file": outcome.file,
            "table": f"{title}, encoder {encoder.digest}" if n_alike[title] > 1 else title,
            "n_planned": spec["protocol"]["folds"] * len(spec["protocol"]["seeds"]),
            "seconds": float(np.mean(outcome.seconds)) if outcome.seconds else math.nan,
            "rows": spec["rows"],
            "counts": outcome.counts,
            "spec": spec,
        }
        for way in (name for name, value in folds[0].items() if isinstance(value, dict)):
            method = spec["title"] + (WITH_PROXIES if way == PROXIES else "")
            for measure in MEASURES:
                scores = score_by_fold(outcome, way, measure)
                values = np.array(list(scores.values()))
                yield common | {
                    "method": method,
                    "metric": measure,
                    "value": float(values.mean()),
                    "std": float(values.std()),
                    "n": len(values),
                    "folds": scores,
                }


def protocol_label(protocol: Mapping[str, Any]) -> str:
    """Return a protocol's numbers of rows, in the format of published numbers.

    Example:
        >>> protocol_label({"rows": 20, "sample": 1000, "folds": 40})
        'rows=20,sample=1000'
    """
    return ",".join(f"{name}={protocol[name]}" for name in ("rows", "sample") if protocol[name])


def heading(spec: Mapping[str, Any]) -> str:
    """Return the heading of a table, which lists the settings that its experiments share."""
    protocol, method, encoder = spec["protocol"], spec["method"], EncoderId(**spec["encoder"])
    n_rows, layers, seeds = protocol["rows"], method["layers"], protocol["seeds"]
    rows = "all training rows" if n_rows is None else f"{n_rows:,} rows"
    rows += "" if n_rows is None or "cut" in protocol else " cut by one seed"
    rows += f" from a sample of {protocol['sample']:,}" if protocol["sample"] else ""
    parts = [
        encoder.label,
        "first layer" if layers == 1 else f"first {layers} layers" if layers else "",
        "" if method["pooling"] == "own" else f"{method['pooling']} pooling",
        rows,
        f"{protocol['folds']} folds",
        f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
    ]
    return ", ".join(filter(None, parts))


def _table_key(spec: Mapping[str, Any]) -> str:
    method, encoder = spec["method"], EncoderId(**spec["encoder"])
    shape = [method.get("pooling"), method.get("layers")]
    return digest_of([spec["version"], encoder.digest, shape, dict(spec["protocol"])])


def _chance_records(measured: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records with the scores of guessing, for each task with known class counts."""
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for record in measured:
        first.setdefault((record["table"], record["task"]), record)
    for record in first.values():
        names = ("table", "task", "metric", "counts")
        common = {"role": "chance", **{name: record[name] for name in names}}
        guesses = guess_scores(record["counts"], record["metric"]) if record["counts"] else {}
        for way, value in guesses.items():
            yield common | {"method": way, "value": value}


def published_folds(file: Path) -> list[dict[str, Any]]:
    """Read published scores of cross-validations as records; return [] if the file is missing.

    In the file, `name` is the method and `model` is the encoder. `protocol` contains the number of
    rows per fold (`rows=20`), the size of the sample (`sample=1000`), or both, separated by a
    comma.

    Raises:
        InputError: If the file has an error, an unknown measure or protocol, or a duplicate number.
    """
    numbers = read_published(file)
    refuse_repeated((n, (n.name, n.model, n.task, n.key, n.protocol)) for n in numbers)
    for number in numbers:
        problem = f"{number.where}: unknown score {str(number.key)!r}"
        check_known(number.key.metric, MEASURES, problem)
        if not re.fullmatch(r"(rows=\d+(,sample=\d+)?|sample=\d+)?", number.protocol):
            raise InputError(
                f"{number.where}: 'protocol' must be like 'rows=20', 'sample=1000' or "
                f"'rows=20,sample=1000', got {number.protocol!r}"
            )
    return [
        record
        | {"method": number.name, "encoder": number.model, "base": ""}
        | {"mark": "*" if number.is_significant else ""}
        for number, record in zip(numbers, published_records(numbers), strict=True)
    ]
