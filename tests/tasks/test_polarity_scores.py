"""Scores of polarity tasks: what their intervals resample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from standins import QUERIES, BagEncoder, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.errors import InputWarning
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.statistics import SEED, Bootstrap
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task, load_tasks, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import polarity_scores, rank
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask
from polarity_bench.values import FloatArray

HERE = DataAccess(offline=True)


@pytest.fixture(scope="module")
def contrast() -> PolarityTask:
    task = load_task("contrast", access=HERE)
    assert isinstance(task, PolarityTask)
    return task


@pytest.fixture(scope="module")
def result(contrast: PolarityTask) -> Result:
    return evaluate(BagEncoder(), contrast)


def slow_interval(values: FloatArray, task: PolarityTask) -> tuple[float, float]:
    """Resample whole pairs of twins, as many of each topic as there are."""
    twins: dict[str, dict[str, list[int]]] = {}
    rows = zip(task.query.columns["topic"], task.query.columns["pair"], strict=True)
    for i, (topic, pair) in enumerate(rows):
        twins.setdefault(topic, {}).setdefault(pair, []).append(i)
    generator = np.random.default_rng(SEED)
    means = []
    for _ in range(4):
        draws = {
            topic: generator.integers(len(pairs), size=(250, len(pairs)))
            for topic, pairs in sorted(twins.items())
        }
        for sample in range(250):
            drawn = [
                i
                for topic, pairs in twins.items()
                for place in draws[topic][sample]
                for i in pairs[sorted(pairs)[place]]
            ]
            means.append(float(np.mean(values[drawn])))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


@pytest.mark.parametrize("name", ["polarity_at_16", "topic_at_16", "similarity_uniform_at_16"])
def test_intervals_of_contrast_resample_pairs_within_topics(
    name: str, contrast: PolarityTask, result: Result
) -> None:
    found = result.scores[ScoreKey.parse(name)].ci95
    assert found == pytest.approx(slow_interval(result.arrays[name], contrast), abs=1e-6)


@pytest.mark.parametrize(("name", "wider"), [("topic_at_16", True), ("polarity_at_16", False)])
def test_intervals_by_pairs_are_wider_where_twins_agree_and_narrower_where_they_do_not(
    name: str, wider: bool, contrast: PolarityTask, result: Result
) -> None:
    """Twins are about as near a topic as each other; what is near in polarity to one, is not to
    the other."""
    values = result.arrays[name]
    pairs = np.argsort(contrast.query.columns["pair"], kind="stable").reshape(-1, 2)
    correlation = np.corrcoef(values[pairs[:, 0]], values[pairs[:, 1]])[0, 1]
    assert (correlation > 0.2) if wider else (correlation < -0.2)
    by_sentences = Bootstrap({name: values.astype(np.float64)}).score(name).ci95
    by_pairs = result.scores[ScoreKey.parse(name)].ci95
    ratio = np.ptp(by_pairs) / np.ptp(by_sentences)
    assert (ratio > 1.05) if wider else (ratio < 0.95)


def test_joint_is_resampled_in_step_with_its_parts(contrast: PolarityTask, result: Result) -> None:
    means = Bootstrap(
        {
            name: result.arrays[name].astype(np.float64)
            for name in ("polarity_at_16", "polarity_chance")
        },
        resampling=contrast.resampling,
    ).resampled
    chance = means["polarity_chance"]
    lift = (means["polarity_at_16"] - chance) / (1 - chance)
    joint = 2 * lift / (1 + np.abs(lift))  # the encoder is its own reference: it retains all
    wanted = tuple(np.percentile(joint, [2.5, 97.5]))
    assert result.scores[ScoreKey("joint", 16)].ci95 == pytest.approx(wanted, abs=1e-6)


def test_the_protocol_says_what_is_resampled_where_it_is_not_queries(
    contrast: PolarityTask, tmp_path: Path
) -> None:
    assert contrast.protocol["intervals"] == "pairs within topic"
    plain = read_task(write_task(tmp_path)).load(HERE, Settings())
    assert isinstance(plain, PolarityTask)
    assert "intervals" not in plain.protocol
    assert plain.resampling is None
    paired = {
        name
        for name, spec in load_tasks().items()
        if isinstance(spec, PolaritySpec) and spec.protocol.pair
    }
    assert paired == {"contrast"}  # of sst2 and the others, queries are drawn


def test_queries_of_equal_text_are_drawn_together(tmp_path: Path) -> None:
    """Each query three times over says no more than once: the interval is the same."""
    queries = sorted(QUERIES, key=lambda row: row[0].casefold())
    repeated = [(text.upper() if i else text, label) for text, label in queries for i in range(3)]
    tasks = []
    for name, rows in (("once", queries), ("thrice", repeated)):
        spec = read_task(write_task(tmp_path, name, queries=rows))
        if name == "once":
            tasks.append(spec.load(HERE, Settings()))
            continue
        with pytest.warns(
            InputWarning, match=r"thrice: 16 of 24 queries repeat the text .* resample"
        ):
            tasks.append(spec.load(HERE, Settings()))
    once, thrice = (evaluate(CaselessEncoder(), task) for task in tasks)
    assert thrice.key.protocol["intervals"] == "equal texts"
    for metric in ("polarity", "similarity", "joint", "front"):
        key = ScoreKey(metric, 4)
        assert thrice.scores[key].mean == pytest.approx(once.scores[key].mean, abs=1e-9)
        assert thrice.scores[key].ci95 == pytest.approx(once.scores[key].ci95, abs=1e-6), metric
    assert thrice.arrays["resampled_units"].tolist() == [i for i in range(8) for _ in range(3)]


class CaselessEncoder(BagEncoder):
    def _vector(self, text: str) -> FloatArray:
        return super()._vector(text.lower())


def test_a_reference_that_ranks_alike_is_the_encoder_itself(contrast: PolarityTask) -> None:
    ours = rank(contrast, Embedder().embed(BagEncoder(), contrast.texts))
    alone, beside = (polarity_scores(contrast, ours, other).scores for other in (None, ours))
    assert list(alone) == list(beside)
    for key, score in alone.items():
        assert beside[key].mean == pytest.approx(score.mean, abs=1e-6, nan_ok=True)
    assert alone[ScoreKey("retention", 16)].mean == pytest.approx(1)
