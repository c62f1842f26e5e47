"""Table of records, with one row for each measured or published score.

Boards, figures and exports select, group and pivot rows of this table. The columns of
`read_records` are:

| column | meaning |
|---|---|
| task, task_type, protocol, version | name, type, protocol and version of the task |
| encoder, encoder_digest, strength | name, digest and strength of the encoder |
| reference | digest of the reference encoder; '' if the encoder is its own reference |
| recipe, seed, base | how the encoder was trained; empty if not recorded |
| metric, k, weighting, part | parts of the `ScoreKey` |
| role | `measured`; boards also have `published` numbers |
| value | score, a fraction; joint and front are negative below chance |
| n, n_undefined | number of values behind the score, and number of undefined values |
| std, ci_low, ci_high | standard deviation and 95 % interval, over queries or folds |
| file, run | file of the score, and digest of the run |

Missing numbers are NaN. Records of training runs also have the columns `settings.NAME`. Boards add:

| column | meaning |
|---|---|
| method | the method that trained the encoder |
| n_seeds, seed_std, seed_min, seed_max | number of seeds and spread over seeds, for means |
| source, note, twin | published numbers: citation, differences in method, measured counterpart |
| key, paper, mark | published numbers: `ScoreKey`, citation without tables, star if significant |
| name, footnote, cited | published numbers: name of the row, footnote and its number |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.results.result_files import Result, read_results
from polarity_bench.scores import Score, ScoreKey

if TYPE_CHECKING:
    from pandas import DataFrame

Record = dict[Any, Any]
"""Row of the table, by column."""
COLUMNS = (
    *("task", "task_type", "protocol", "version"),
    *("encoder", "encoder_digest", "reference", "strength"),
    *("recipe", "seed", "base"),
    *("metric", "k", "weighting", "part"),
    *("role", "value", "n", "n_undefined", "std", "ci_low", "ci_high"),
    *("file", "run"),
)


def read_records(folder: str | Path) -> DataFrame:
    """Read every result below a folder as a table with one row per score.

    Cross-validations are included. Results with a limit are skipped.

    Args:
        folder: Output folder of `polarity-bench run`, or any folder that contains results.

    Returns:
        A table with the first columns of the module docstring. Scores are fractions and not
        rounded. A column without values is empty. Settings keep the types of their values.

    Raises:
        InputError: If a result is damaged.
    """
    import pandas as pd

    results = read_results(Path(folder), of_folds=None)
    whole = (result for result in results if result.limit is None)
    rows = [record for result in whole for record in result_records(result)]
    further = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    settings = {
        name: pd.Series([row.get(name, math.nan) for row in rows], dtype=object) for name in further
    }
    return pd.concat([pd.DataFrame(rows, columns=COLUMNS), pd.DataFrame(settings)], axis=1)


def result_records(
    result: Result, keys: Sequence[ScoreKey] | None = None, /, **made: Any
) -> list[dict[str, Any]]:
    """Return a record for each score of a result.

    Args:
        result: The result.
        keys: Keys of the scores to return, if the result has them; None for all scores.
        made: Additional columns, such as `recipe`, `seed` and `settings.NAME`.
    """
    key, training = result.key, result.training or {}
    recipe = dict(training.get("recipe", {}))
    common = {
        "task": result.task,
        "task_type": result.kind,
        "protocol": key.protocol_label,
        "version": result.version,
        "encoder": key.encoder.name,
        "encoder_digest": key.encoder.digest,
        "reference": key.reference.digest if key.reference else "",
        "strength": key.encoder.strength,
        "role": "measured",
        "file": str(result.path),
        "run": key.digest,
        "recipe": recipe.pop("name", None),
        "seed": training.get("seed"),
        "base": training.get("base"),
        **{f"settings.{name}": value for name, value in recipe.items()},
        **made,
    }
    wanted = result.scores if keys is None else [key for key in keys if key in result.scores]
    return [common | score_columns(key, result.scores[key]) for key in wanted]


def score_columns(key: ScoreKey, score: Score) -> dict[str, Any]:
    """Return the columns of a record that contain a score and its key."""
    return {
        "metric": key.metric,
        "k": key.k,
        "weighting": key.weighting,
        "part": key.part,
        "value": score.mean,
        "n": score.n,
        "n_undefined": score.n_undefined,
        "std": score.std,
        "ci_low": score.ci95[0],
        "ci_high": score.ci95[1],
    }
