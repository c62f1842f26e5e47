"""Supervised relatedness against the toolkit's loop, and from files to results."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from standins import BagEncoder, Workshop
from torch import nn
from torch.nn.functional import mse_loss

from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.correlation import correlate
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.senteval.toolkit_training import (
    Schedule,
    outputs,
    train_any,
    train_shares,
)
from polarity_bench.tasks.senteval.transfer_protocols import Samples
from polarity_bench.tasks.types.relatedness import relatedness, score_distribution
from polarity_bench.values import FloatArray


def pairs(n: int, seed: int, *, noise: float = 0.5, d: int = 8) -> Samples:
    draw = np.random.default_rng(seed)
    features = draw.standard_normal((n, d)).astype(np.float32)
    scores = 2.5 + features[:, 0] + noise * draw.standard_normal(n)
    return Samples(features, np.round(scores.clip(0, 5), 1), draw.integers(1, 9, size=(n, 2)))


def order_of(part: Samples) -> list[int]:
    return sorted(
        range(len(part.labels)), key=lambda i: (*part.n_tokens[i].tolist(), part.labels[i])
    )


def in_order(part: Samples) -> tuple[torch.Tensor, FloatArray]:
    order = order_of(part)
    return torch.from_numpy(part.features[order]), part.labels[order]


def slow_distribution(score: float) -> list[float]:
    """Tai et al., equation 14 and the line above it, bin by bin."""
    row = []
    for i in range(1, 6):
        if i == np.floor(score) + 1:
            row.append(score - np.floor(score))
        elif i == np.floor(score):
            row.append(np.floor(score) - score + 1)
        else:
            row.append(0.0)
    return row


def slow_relatedness(train: Samples, dev: Samples, test: Samples) -> tuple[float, FloatArray]:
    """The toolkit's loop from its description, over the global generators.

    It predicts in batches as the toolkit does, since a row's last bit may depend on its batch.
    """
    np.random.seed(1111)  # noqa: NPY002 - what is to be equalled
    torch.manual_seed(1111)
    (x, scores), (dev_x, dev_scores) = in_order(train), in_order(dev)
    y = torch.tensor([slow_distribution(score) for score in scores], dtype=torch.float32)
    model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=-1))
    optimizer = torch.optim.Adam(model.parameters())
    bins = torch.arange(1.0, 6.0, dtype=torch.float64)
    test_x, _ = in_order(test)
    best, kept, n_epochs, stop_count = -1.0, None, 0, 0
    while n_epochs <= 1000:
        for _ in range(50):
            order = np.random.permutation(len(x))  # noqa: NPY002
            for start in range(0, len(x), 64):
                index = torch.from_numpy(order[start : start + 64])
                loss = nn.MSELoss()(model(x[index]), y[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        n_epochs += 50
        with torch.no_grad():
            pearson = stats.pearsonr((model(dev_x).double() @ bins).numpy(), dev_scores)[0]
            if pearson > best:
                best = pearson
                kept = torch.cat([model(rows).double() @ bins for rows in torch.split(test_x, 64)])
            else:
                stop_count += 1
                if stop_count > 3:
                    break
    assert kept is not None
    predictions = np.empty(len(test))
    predictions[order_of(test)] = kept.numpy()
    return best, predictions


def test_scores_are_spread_as_the_paper_spreads_them() -> None:
    scores = np.array([0, 0.2, 1, 1.5, 2.75, 3.999, 4, 4.2, 5])
    wanted = np.array([slow_distribution(score) for score in scores], dtype=np.float32)
    assert score_distribution(scores).tolist() == wanted.tolist()
    assert score_distribution(scores)[2:] @ np.arange(1, 6) == pytest.approx(scores[2:])
    assert score_distribution(scores).sum(axis=1)[:2] == pytest.approx([0, 0.2])


def test_relatedness_is_the_toolkits_loop() -> None:
    train, dev, test = pairs(150, seed=0), pairs(60, seed=1), pairs(90, seed=2)
    with single_threaded():
        wanted_dev_pearson, wanted = slow_relatedness(train, dev, test)

    predictions, dev_pearson = relatedness(train, dev, test)

    assert dev_pearson == pytest.approx(wanted_dev_pearson, abs=1e-12)
    assert predictions == pytest.approx(wanted, abs=1e-12)
    assert stats.pearsonr(predictions, test.labels)[0] > 0.7


@pytest.mark.parametrize("n", [200, 193], ids=["whole batches", "a last batch of one"])
@pytest.mark.parametrize("d", [36, 100, 768])
def test_the_layer_ends_with_the_bits_of_a_plain_torch_loop(n: int, d: int) -> None:
    train, dev = pairs(n, seed=0, d=d), pairs(65, seed=1, d=d)
    schedule = Schedule(batch_size=32, epoch_size=3, tenacity=2, max_epochs=60)
    examples = torch.from_numpy(train.features), torch.tensor(score_distribution(train.labels))
    targets = torch.tensor(score_distribution(dev.labels))
    torch.manual_seed(0)
    start = nn.Linear(d, 5)
    plain = nn.Sequential(copy.deepcopy(start), nn.Softmax(dim=1))
    scores: dict[str, list[float]] = {"plain": [], "ours": []}

    def score(name: str, shares: torch.Tensor) -> float:
        scores[name].append(-float(mse_loss(shares, targets)))
        return 1 + scores[name][-1]

    def score_plain(model: nn.Module) -> float:
        return score("plain", outputs(model, torch.from_numpy(dev.features), 32))

    def score_ours(layer: nn.Linear) -> float:
        return score("ours", outputs(layer, torch.from_numpy(dev.features), 32).softmax(1))

    with single_threaded():
        draws = [np.random.RandomState(5) for _ in range(2)]
        adam = torch.optim.Adam(plain.parameters())
        wanted = train_any(examples, plain, adam, schedule, draws[0], score_plain, mse_loss)
        found = train_shares(examples, start, schedule, draws[1], score_ours)
    assert scores["ours"] == scores["plain"]
    assert len(scores["ours"]) > 3
    for key, value in found.state_dict().items():
        assert torch.equal(value, wanted.state_dict()[f"0.{key}"])


def test_equal_features_leave_the_correlation_undefined() -> None:
    part = pairs(64, seed=0)
    same = Samples(np.ones_like(part.features), part.labels, part.n_tokens)
    predictions, dev_pearson = relatedness(part, same, same)
    assert dev_pearson == 0
    found = correlate(predictions, same.labels)
    assert np.isnan([found.pearson, found.spearman]).all()


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(1).item()
    torch.manual_seed(3)
    first, again = (relatedness(*[pairs(64, seed=0)] * 3) for _ in range(2))
    assert torch.rand(1).item() == wanted
    assert first[0].tolist() == again[0].tolist()


def test_a_task_correlates_as_scipy_does(workshop: Workshop) -> None:
    for spec in (workshop.sick(relatedness=True), workshop.stsb(relatedness=True)):
        task = workshop.load(spec)
        result = evaluate(BagEncoder(), task)
        predicted, gold = result.arrays["prediction"], result.arrays["gold"]
        assert gold.tolist() == [row.label for row in getattr(task, "parts")["test"]]  # noqa: B009
        assert result.flat["pearson"] == pytest.approx(stats.pearsonr(predicted, gold).statistic)
        assert result.flat["spearman"] == pytest.approx(stats.spearmanr(predicted, gold).statistic)
        assert result.flat["mse"] == pytest.approx(np.mean((predicted - gold) ** 2))
        assert (
            result.flat["spearman_ci95_low"]
            < result.flat["spearman"]
            < result.flat["spearman_ci95_high"]
        )
        assert str(result.main_score) == "pearson"
