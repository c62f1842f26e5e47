"""Export of results in the schema of Every Eval Ever, with their uncertainty.

The schema is that of https://github.com/evaleval/every_eval_ever, version 0.3.0.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from polarity_bench.files import json_bytes, mteb_name, write_atomically
from polarity_bench.integrations.hub_card import HOMEPAGE, SOURCE, CardScore, select_scores
from polarity_bench.metrics.register import metric_of
from polarity_bench.metrics.statistics import N_SAMPLES
from polarity_bench.results.result_files import read_results
from polarity_bench.training.model_card import DataSet
from polarity_bench.values import grouped

VERSION = "0.3.0"
"""Version of the schema."""
_PERCENT = re.compile(", percent$")


def export_eee(
    folder: Path, output: Path, data_sets: Mapping[str, DataSet], organization: str = "unknown"
) -> list[Path]:
    """Write a file for each encoder, `OUTPUT/data/polarity-bench/DEVELOPER/MODEL/UUID.json`.

    A file has the scores of a model card: P, S, retention and joint at each k, or the main score.
    The name of the file is derived from its content, so equal results give equal files.

    Args:
        folder: Folder with results of polarity-bench.
        output: Folder for the files.
        data_sets: Data set of each task.
        organization: Name of the organisation that computed the results.

    Returns:
        The sorted paths of the files.

    Raises:
        InputError: If there are no results without a limit, or a result is damaged.
    """
    scores = select_scores(list(read_results(folder)), data_sets)
    written = []
    for own in grouped(scores, lambda score: score.result.key.encoder.digest).values():
        content = json_bytes(_log(own, organization))
        name = uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)
        place = output / "data" / SOURCE / mteb_name(own[0].result.key.encoder.name)
        write_atomically(place / f"{name}.json", content)
        written.append(place / f"{name}.json")
    return sorted(written)


def _log(scores: Sequence[CardScore], organization: str) -> dict[str, Any]:
    """Return the content of an encoder's file."""
    latest = max((score.result for score in scores), key=lambda result: result.date)
    encoder, date = latest.key.encoder, str(int(latest.date))
    name = mteb_name(encoder.name)
    identity = {n: str(value) for n, value in encoder.to_dict().items() if value is not None}
    return {
        "schema_version": VERSION,
        "evaluation_id": f"{SOURCE}/{name.replace('/', '_')}/{date}",
        "evaluation_timestamp": datetime.fromtimestamp(latest.date, UTC).isoformat(),
        "retrieved_timestamp": date,
        "source_metadata": {
            "source_name": SOURCE,
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "other",
            "additional_details": {"homepage": HOMEPAGE},
        },
        "eval_library": {
            "name": SOURCE,
            "version": latest.environment.get("polarity-bench", "unknown"),
        },
        "model_info": {
            "name": encoder.name,
            "id": name,
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
                "digest": encoder.digest,
                **identity,
            },
        },
        "evaluation_results": [_entry(score) for score in scores],
    }


def _entry(card: CardScore) -> dict[str, Any]:
    """Return one score with its metric, its data and its uncertainty."""
    result, key, score = card.result, card.key, card.result.shown(card.key)
    metric = metric_of(key.metric)
    least, most = metric.bounds
    parameters = {"k": key.k, "weighting": key.weighting} if key.k else {}
    on_hub = card.data_set.dataset_revision is not None
    hub = {"source_type": "hf_dataset", "hf_repo": card.data_set.dataset_type}
    uncertainty: dict[str, Any] = {"num_samples": score.n} if score.n is not None else {}
    if not math.isnan(score.std):
        uncertainty["standard_deviation"] = score.std
    if not any(map(math.isnan, score.ci95)):
        low, high = score.ci95
        uncertainty["confidence_interval"] = {
            "lower": low,
            "upper": high,
            "confidence_level": 0.95,
            "method": "bootstrap over queries or rows",
        }
        uncertainty["num_bootstrap_samples"] = N_SAMPLES
    return {
        "evaluation_result_id": ":".join(
            filter(None, [result.result_name, result.settings, str(key)])
        ),
        "evaluation_name": result.task,
        "source_data": {"dataset_name": card.data_set.dataset_name}
        | (hub if on_hub else {"source_type": "other"}),
        "metric_config": {
            "metric_id": f"polarity_bench.{key.metric}",
            "metric_name": _PERCENT.sub("", card.name),
            "metric_unit": "proportion",
            "metric_parameters": parameters,
            "lower_is_better": not metric.higher_is_better,
            "score_type": "continuous",
            "min_score": _bound(least),
            "max_score": _bound(most),
            "additional_details": card.facts,
        },
        "score_details": {"score": score.mean, "uncertainty": uncertainty},
    }


def _bound(value: float) -> float | str:
    """Return an end of a metric's range; JSON has no infinite numbers."""
    return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
