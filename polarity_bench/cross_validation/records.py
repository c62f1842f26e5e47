"""Cross-validated scores as records, one for each mean score over folds.

They have the columns of `results.frame`. `std` is the population standard deviation over folds
(divided by n), and `n` is the number of folds. They also have these columns:

- `table`: Heading with the shared settings of a comparison: encoder, layers, pooling and protocol.
- `folds`: Score of each fold, keyed by seed and fold number.
- `result`: The `Result`, with its arrays.
- `detail`: Key of the method in the details of a board.
- `mark`: A star if a paper marks a published number as significant.

Records with the role `chance` are the scores of guessing (see `chance`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polarity_bench.cross_validation.chance import guess_scores
from polarity_bench.cross_validation.methods import PROXIES
from polarity_bench.cross_validation.protocol import division_text
from polarity_bench.errors import InputError, check_known
from polarity_bench.results.frame import Record, result_records, score_columns
from polarity_bench.results.published import read_published, refuse_repeated
from polarity_bench.results.result_files import Result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.values import grouped

MEASURES = {"macro_f1": "macro F1", "accuracy": "accuracy"}
WITH_PROXIES = " + inf"
"""Suffix of a method's name if it uses its proxies for prediction."""


def fold_records(
    results: Sequence[Result], measure: str | None = None, published: Iterable[Record] = ()
) -> list[Record]:
    """Return the records of measured, guessed and published scores.

    Args:
        results: Results of experiments, with their arrays.
        measure: Measure to include; None uses the papers' measure for each protocol.
        published: Published scores, from `published_folds`.
    """
    measured = list(_measured_records(results, measure))
    return [*measured, *_chance_records(measured), *published]


def _measured_records(results: Sequence[Result], measure: str | None) -> Iterator[Record]:
    """Yield a record for each method, way of predicting and task.

    Experiments share a table if they have the same encoder, pooling, layers and protocol. If two
    tables would have the same heading, the digest of the encoder is added to both headings. If a
    task occurs with two versions of its data, the digest of the data is added to both names.
    """
    keys = [(result.key.encoder.digest, _division(result)) for result in results]
    headings: dict[tuple[str, str], str] = {}
    versions: dict[tuple[tuple[str, str], str], set[str]] = {}
    for key, result in zip(keys, results, strict=True):
        headings.setdefault(key, heading(result))
        versions.setdefault((key, result.task), set()).add(result.key.data)
    n_alike = Counter(headings.values())
    for key, result in zip(keys, results, strict=True):
        task, title, arrays = result.task, headings[key], result.arrays
        made = {
            "task": f"{task} (data {result.key.data})" if len(versions[key, task]) > 1 else task,
            "protocol": protocol_label(result.key.protocol),
            "table": f"{title}, encoder {key[0]}" if n_alike[title] > 1 else title,
            "result": result,
        }
        metric, method = measure or result.main_score.metric, method_title(result)
        made["detail"] = f"{made['table']}: {method}"
        names = [*zip(arrays["seed"].tolist(), arrays["fold"].tolist(), strict=True)]
        for score in (key for key in result.scores if key.metric == metric):
            way = WITH_PROXIES if score.part == PROXIES else ""
            folds = dict(zip(names, arrays[str(score)].tolist(), strict=True))
            (record,) = result_records(result, [score])
            yield record | made | {"method": f"{method}{way}", "folds": folds}


def method_title(result: Result) -> str:
    """Return the title of the method of a cross-validation."""
    return str((result.training or {})["title"])


def n_planned(result: Result) -> int:
    """Return the number of folds of a cross-validation, including folds that are missing."""
    protocol = result.key.protocol
    return int(protocol["folds"] * len(protocol["seeds"]))


def protocol_label(protocol: Mapping[str, Any]) -> str:
    """Return a protocol's numbers of rows, in the format of published numbers.

    Example:
        >>> protocol_label({"rows": 20, "sample": 1000, "folds": 40})
        'rows=20,sample=1000'
    """
    return ",".join(f"{name}={protocol[name]}" for name in ("rows", "sample") if protocol[name])


def heading(result: Result) -> str:
    """Return the heading of a table, which lists the settings that its experiments share."""
    return f"{result.key.encoder.label}, {_division(result)}"


def _division(result: Result) -> str:
    """Return the settings of an encoder's shape and of the division of the rows into folds."""
    protocol, settings = result.key.protocol, result.key.protocol["method"]
    layers = settings["layers"]
    parts = [
        "first layer" if layers == 1 else f"first {layers} layers" if layers else "",
        "" if settings["pooling"] == "own" else f"{settings['pooling']} pooling",
        division_text(protocol, "all training rows"),
    ]
    return ", ".join(filter(None, parts))


def _chance_records(measured: Iterable[Record]) -> Iterator[Record]:
    """Yield records with the scores of guessing, for each task."""
    of_tasks = grouped(measured, lambda record: (record["table"], record["task"]))
    for (table, task), (record, *_) in of_tasks.items():
        common = {"table": table, "task": task, "role": "chance"}
        counts = [*record["result"].counts.values()]
        for way, value in guess_scores(counts, record["metric"]).items():
            score = score_columns(ScoreKey(record["metric"]), Score.single(value, 0))
            yield common | score | {"method": way, "detail": "", "mark": ""}


def published_folds(file: Path) -> list[Record]:
    """Read published scores of cross-validations as records; return [] if the file is missing.

    In the file, `name` is the method and `model` is the encoder. `protocol` contains the number of
    rows per fold (`rows=20`), the size of the sample (`sample=1000`), or both, separated by a
    comma.

    Raises:
        InputError: If the file has an error, an unknown measure or protocol, or a duplicate number.
    """
    numbers = read_published(file)
    identity = ("encoder", "base", "task", "key", "protocol")
    refuse_repeated((number, tuple(number[name] for name in identity)) for number in numbers)
    for number in numbers:
        where, key, protocol = number["file"], number["key"], number["protocol"]
        check_known(key.metric, MEASURES, f"{where}: unknown score {str(key)!r}")
        if not re.fullmatch(r"(rows=\d+(,sample=\d+)?|sample=\d+)?", protocol):
            raise InputError(
                f"{where}: 'protocol' must be like 'rows=20', 'sample=1000' or "
                f"'rows=20,sample=1000', got {protocol!r}"
            )
    return [
        number | {"method": number["encoder"], "encoder": number["base"], "base": ""}
        for number in numbers
    ]
