"""Export in the schema of Every Eval Ever: required fields, uncertainty, and equal bytes."""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from standins import Bench, HashEncoder

from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.integrations.every_eval_ever import export_eee
from polarity_bench.results.result_files import read_results, write_result
from polarity_bench.scores import ScoreKey


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for name in ("me/one", "two"):
        write_result(evaluate(HashEncoder(name), "contrast"), folder)
    return folder


def read(files: list[Path]) -> dict[str, dict[str, Any]]:
    logs = [json.loads(file.read_text()) for file in files]
    return {log["model_info"]["id"]: log for log in logs}


def test_each_encoder_has_a_file_with_the_fields_that_the_schema_requires(
    stored: Path, tmp_path: Path
) -> None:
    files = export_eee(stored, tmp_path / "out", {}, "Lab")
    folders = {file.parent.relative_to(tmp_path / "out").as_posix() for file in files}
    assert folders == {"data/polarity-bench/me/one", "data/polarity-bench/local/two"}
    assert {uuid.UUID(file.stem).version for file in files} == {4}
    log = read(files)["me/one"]
    assert log.keys() == {
        "schema_version",
        "evaluation_id",
        "evaluation_timestamp",
        "retrieved_timestamp",
        "source_metadata",
        "model_info",
        "eval_library",
        "evaluation_results",
    }
    assert log["source_metadata"]["source_organization_name"] == "Lab"
    details = log["model_info"]["additional_details"]
    assert details["deployment_type"] == "self_deployed"
    assert all(isinstance(value, str) for value in details.values())


def test_scores_and_uncertainty_are_those_of_the_result(stored: Path, tmp_path: Path) -> None:
    result = next(r for r in read_results(stored) if r.key.encoder.name == "me/one")
    log = read(export_eee(stored, tmp_path / "out", {}))["me/one"]
    entries = {each["evaluation_result_id"]: each for each in log["evaluation_results"]}
    assert len(entries) == len(log["evaluation_results"])
    for metric in ("polarity", "similarity", "retention", "joint"):
        key = ScoreKey(metric, 16)
        score, entry = result.shown(key), entries[f"{result.result_name}:{key}"]
        assert entry["score_details"]["score"] == score.mean
        uncertainty = entry["score_details"]["uncertainty"]
        interval = uncertainty["confidence_interval"]
        assert (interval["lower"], interval["upper"]) == score.ci95
        assert uncertainty.get("standard_deviation", math.nan) == pytest.approx(
            score.std, nan_ok=True
        )
        assert entry["metric_config"]["metric_parameters"] == {"k": 16, "weighting": "linear"}
    assert entries[f"{result.result_name}:retention_at_16"]["metric_config"]["min_score"] == (
        "-Infinity"
    )


def test_equal_results_give_equal_files(stored: Path, tmp_path: Path) -> None:
    first, again = (export_eee(stored, tmp_path / name, {}) for name in "ab")
    assert [file.name for file in first] == [file.name for file in again]
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]


def test_the_command_needs_a_folder(stored: Path, bench: Bench) -> None:
    refused = bench("leaderboard", "export", stored, "--format", "eee")
    assert refused.code == 2
    assert "--output: the format eee needs an output folder" in refused.err
    done = bench("leaderboard", "export", stored, "-f", "eee", "-o", "out", "--organization", "Lab")
    assert done.code == 0
    assert "wrote 2 files to out" in done.err
