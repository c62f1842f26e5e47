"""Losses: each against a slow loop over its formula in float64, and what their shapes imply."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polarity_bench.training.examples import COLUMNS
from polarity_bench.training.recipes.margins.losses import LOSSES, Loss, masked_ranking

Vector = Sequence[float]
Rows = list[list[float]]

SEEDS = st.integers(0, 2**32 - 1)
PARAMETERS = st.sampled_from([0.05, 0.1, 0.5, 1.0, 3.0])


def cosine(u: Vector, v: Vector) -> float:
    product = math.fsum(a * b for a, b in zip(u, v, strict=True))
    return product / (math.hypot(*u) * math.hypot(*v))


def distance(u: Vector, v: Vector) -> float:
    return 1 - cosine(u, v)


# The formulas, example by example


def slow_triplet(columns: list[Rows], _: list[int], margin: float) -> float:
    """FaceNet's hinge: mean of max(0, d(a, p) - d(a, n) + margin)."""
    hinges = [
        max(0.0, distance(a, p) - distance(a, n) + margin) for a, p, n in zip(*columns, strict=True)
    ]
    return math.fsum(hinges) / len(hinges)


def slow_contrastive(columns: list[Rows], labels: list[int], margin: float) -> float:
    """Hadsell et al. (2006), equation 4 with 1 for alike: half the squares, meaned."""
    total = 0.0
    for u, v, alike in zip(*columns, labels, strict=True):
        d = distance(u, v)
        total += 0.5 * (alike * d**2 + (1 - alike) * max(0.0, margin - d) ** 2)
    return total / len(labels)


def slow_online_contrastive(columns: list[Rows], labels: list[int], margin: float) -> float:
    """Only pairs alike that lie farther than the nearest pair unlike, and the other way; summed."""
    pairs = [(distance(u, v), y) for u, v, y in zip(*columns, labels, strict=True)]
    alike = [d for d, y in pairs if y == 1]
    unlike = [d for d, y in pairs if y == 0]
    far = min(unlike) if unlike else math.fsum(alike) / len(alike)
    near = max(alike) if alike else math.fsum(unlike) / len(unlike)
    pulled = math.fsum(d**2 for d in alike if d > far)
    return pulled + math.fsum(max(0.0, margin - d) ** 2 for d in unlike if d < near)


def slow_ranking(columns: list[Rows], _: list[int], temperature: float) -> float:
    """Henderson et al. (2017): the negative log of the own positive's share among all."""
    return slow_masked(columns, list(range(len(columns[0]))), temperature)


def slow_masked(columns: list[Rows], labels: list[int], temperature: float) -> float:
    """The same, where positives of another pair of the anchor's label are no candidates."""
    anchors, positives = columns
    total = 0.0
    for i, anchor in enumerate(anchors):
        own = cosine(anchor, positives[i]) / temperature
        others = 0.0
        for j, positive in enumerate(positives):
            if i == j or labels[i] != labels[j]:
                others += math.exp(cosine(anchor, positive) / temperature - own)
        total += math.log(others)
    return total / len(anchors)


def slow_cosine_similarity(columns: list[Rows], labels: list[int], _: float) -> float:
    """The mean squared error of the cosine, 1 wanted of pairs alike and 0 of others."""
    return math.fsum(
        (cosine(u, v) - y) ** 2 for u, v, y in zip(*columns, labels, strict=True)
    ) / len(labels)


SLOW: dict[str, Callable[[list[Rows], list[int], float], float]] = {
    "triplet": slow_triplet,
    "contrastive": slow_contrastive,
    "online-contrastive": slow_online_contrastive,
    "mnrl": slow_ranking,
    "mnrl-masked": slow_masked,
    "cosine-similarity": slow_cosine_similarity,
}


def some_columns(
    kind: type[Loss], seed: int, b: int = 6, d: int = 4
) -> tuple[list[Tensor], Tensor]:
    """Embeddings of any norm, half of them near the first column's, so that hinges close too."""
    generator = np.random.default_rng(seed)
    first = generator.standard_normal((b, d))
    columns = [first]
    for _ in COLUMNS[kind.examples][1:]:
        noise = generator.standard_normal((b, d)) * generator.choice([0.1, 3.0], size=(b, 1))
        columns.append((first + noise) * generator.uniform(0.5, 5, size=(b, 1)))
    n_classes = 3 if kind.examples == "pairs" else 2
    labels = torch.from_numpy(generator.integers(n_classes, size=b))
    return [torch.from_numpy(column) for column in columns], labels


def compute(kind: type[Loss], columns: list[Tensor], labels: Tensor, parameter: float) -> Tensor:
    loss: Any = with_parameter(kind, parameter).build(nn.Identity())
    computed: Tensor = loss.compute_loss_from_embeddings(columns, labels)
    return computed


def with_parameter(kind: type[Loss], value: float) -> Loss:
    """The loss with this margin or temperature, if it has one."""
    return kind(**{field.name: value for field in fields(kind)})


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.name)
@given(seed=SEEDS, b=st.integers(1, 7), parameter=PARAMETERS)
def test_a_loss_is_that_of_its_formula(
    kind: type[Loss], seed: int, b: int, parameter: float
) -> None:
    columns, labels = some_columns(kind, seed, b)
    slow = SLOW[kind.name]([column.tolist() for column in columns], labels.tolist(), parameter)
    assert compute(kind, columns, labels, parameter).item() == pytest.approx(
        slow, rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.name)
@given(seed=SEEDS)
def test_a_loss_is_blind_to_the_length_of_embeddings(kind: type[Loss], seed: int) -> None:
    columns, labels = some_columns(kind, seed)
    longer = [7 * column for column in columns]
    parameter = 0.3
    assert compute(kind, longer, labels, parameter).item() == pytest.approx(
        compute(kind, columns, labels, parameter).item(), rel=1e-9, abs=1e-12
    )


# By hand: east and north are at distance 1, east and west at 2


EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "columns", "labels", "parameter", "value"),
    [
        ("triplet", [[EAST, EAST], [EAST, NORTH], [NORTH, EAST]], None, 0.5, 0.75),  # 0 and 1.5
        ("contrastive", [[EAST, EAST], [WEST, EAST]], [1, 0], 0.5, 1.0625),  # 2²/2 and 0.5²/2
        # alike at 0 and 1, unlike at 1 and 2: the second alike is no farther than the nearest
        ("online-contrastive", [[EAST] * 4, [EAST, NORTH, NORTH, WEST]], [1, 1, 0, 0], 3.0, 0.0),
        # alike at 1 and 2, unlike at 0 and 1: pulled 1 + 4, pushed 0.5² + nothing
        ("online-contrastive", [[EAST] * 4, [NORTH, WEST, EAST, NORTH]], [1, 1, 0, 0], 0.5, 5.25),
        ("mnrl", [[EAST, EAST], [EAST, EAST]], [0, 0], 0.05, math.log(2)),
        ("mnrl-masked", [[EAST, EAST], [EAST, EAST]], [0, 0], 0.05, 0.0),
        ("mnrl-masked", [[EAST, EAST], [EAST, EAST]], [0, 1], 0.05, math.log(2)),
        ("mnrl", [[EAST], [WEST]], [0], 0.05, 0.0),
        ("cosine-similarity", [[EAST, EAST], [WEST, NORTH]], [1, 0], 0.0, 2.0),  # 4 and 0
    ],
)
def test_a_loss_by_hand(
    name: str, columns: list[Rows], labels: list[int] | None, parameter: float, value: float
) -> None:
    tensors = [torch.tensor(column, dtype=torch.float64) for column in columns]
    given_labels = torch.tensor(labels or [])
    assert compute(LOSSES[name], tensors, given_labels, parameter).item() == pytest.approx(value)


# The masked ranking loss


@given(seed=SEEDS, temperature=PARAMETERS)
def test_where_all_labels_differ_the_masked_loss_is_the_plain_one(
    seed: int, temperature: float
) -> None:
    columns, _ = some_columns(LOSSES["mnrl"], seed)
    labels = torch.arange(6)
    plain = compute(LOSSES["mnrl"], columns, labels, temperature)
    masked = compute(LOSSES["mnrl-masked"], columns, labels, temperature)
    assert masked.item() == pytest.approx(plain.item(), rel=1e-9)


@given(seed=SEEDS)
def test_masking_never_raises_the_loss_of_a_pair(seed: int) -> None:
    (anchor, positive), labels = some_columns(LOSSES["mnrl-masked"], seed)
    masked = masked_ranking(anchor, positive, labels)
    assert (masked >= 0).all()
    assert (masked <= masked_ranking(anchor, positive, torch.arange(6)) + 1e-12).all()


def test_a_batch_of_one_class_has_no_loss_and_no_gradient() -> None:
    (anchor, positive), _ = some_columns(LOSSES["mnrl-masked"], 0)
    anchor, positive = anchor.requires_grad_(), positive.requires_grad_()
    losses = masked_ranking(anchor, positive, torch.ones(6, dtype=torch.int64))
    assert losses.tolist() == [0.0] * 6
    for gradient in torch.autograd.grad(losses.mean(), (anchor, positive)):
        assert gradient.abs().max() == 0


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_gradients_of_the_masked_loss_are_those_of_finite_differences(temperature: float) -> None:
    for seed in range(3):
        (anchor, positive), labels = some_columns(LOSSES["mnrl-masked"], seed, b=5, d=3)

        def masked(anchor: Tensor, positive: Tensor, labels: Tensor = labels) -> Tensor:
            return masked_ranking(anchor, positive, labels, temperature=temperature)

        inputs = (anchor.requires_grad_(), positive.requires_grad_())
        assert torch.autograd.gradcheck(masked, inputs)


def test_a_masked_positive_gets_no_gradient_from_its_class() -> None:
    """The one pair of class 1 is no negative of itself; only the class 0 pairs move it."""
    (anchor, positive), _ = some_columns(LOSSES["mnrl-masked"], 1, b=3)
    positive.requires_grad_()
    losses = masked_ranking(anchor, positive, torch.tensor([0, 0, 1]))
    (gradient,) = torch.autograd.grad(losses[0], positive)
    assert gradient[1].abs().max() == 0
    assert gradient[2].abs().max() > 0


def test_the_module_encodes_its_columns_and_means() -> None:
    class Doubling(nn.Module):
        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": 2 * features["x"]}

    columns, labels = some_columns(LOSSES["mnrl-masked"], 2)
    loss = with_parameter(LOSSES["mnrl-masked"], 0.5).build(Doubling())
    found = loss([{"x": column} for column in columns], labels)
    assert found.item() == pytest.approx(
        masked_ranking(columns[0], columns[1], labels, temperature=0.5).mean().item()
    )


# Margins under cosine distance


def test_from_two_on_every_triplet_margin_is_one_loss() -> None:
    """The paper's rows for 5, 7.5 and 10 agree: the gradients are equal, the losses shifted."""
    kind = LOSSES["triplet"]
    found: dict[float, tuple[float, list[Tensor]]] = {}
    for margin in (2.0, 5.0, 7.5, 10.0):
        columns, labels = some_columns(kind, seed=3, b=16)
        leaves = [column.requires_grad_() for column in columns]
        loss = compute(kind, leaves, labels, margin)
        found[margin] = (loss.item(), list(torch.autograd.grad(loss, leaves)))
    base, gradients = found[2.0]
    assert max(gradient.abs().max().item() for gradient in gradients) > 0
    for margin, (loss_value, theirs) in found.items():
        assert loss_value - base == pytest.approx(margin - 2)
        assert all(torch.equal(a, b) for a, b in zip(gradients, theirs, strict=True))


def test_below_two_the_triplet_margin_changes_the_gradient() -> None:
    kind = LOSSES["triplet"]
    gradients = []
    for margin in (0.1, 1.0):
        columns, labels = some_columns(kind, seed=3, b=16)
        anchor = columns[0].requires_grad_()
        loss = compute(kind, columns, labels, margin)
        gradients.append(torch.autograd.grad(loss, anchor)[0])
    assert not torch.allclose(gradients[0], gradients[1])


# The registry


def test_the_registry() -> None:
    found = {name: (kind.title, kind.examples, kind().words) for name, kind in LOSSES.items()}
    plain = "Multiple negatives ranking"
    masked = f"{plain}, contradicting pairs masked"
    assert found == {
        "triplet": ("Triplet", "triplets", "triplet (margin 0.1)"),
        "contrastive": ("Contrastive", "labelled-pairs", "contrastive (margin 0.5)"),
        "online-contrastive": (
            *("OnlineContrastive", "labelled-pairs", "online-contrastive (margin 0.5)"),
        ),
        "mnrl": (plain, "pairs", "mnrl (temperature 0.05)"),
        "mnrl-masked": (masked, "pairs", "mnrl-masked (temperature 0.05)"),
        "cosine-similarity": ("Cosine similarity", "labelled-pairs", "cosine-similarity"),
    }
    assert list(LOSSES) == [kind.name for kind in LOSSES.values()]
    assert set(SLOW) == set(LOSSES)


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.name)
def test_a_loss_keeps_the_model_that_it_trains(kind: type[Loss]) -> None:
    model = nn.Linear(2, 2)
    loss: Any = kind().build(model)
    assert loss.model is model
