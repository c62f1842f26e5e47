"""Metric losses: each against a slow loop over its equation in float64, and what is promised."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polarity_bench.errors import InputError
from polarity_bench.training.losses.metric import (
    METRIC_LOSSES,
    MetricLoss,
    NPairs,
    ProxyAnchor,
    ProxyNCA,
    SoftTriple,
    SupCon,
    TripletMargin,
)
from polarity_bench.training.parameters import declared

Vector = Sequence[float]
Vectors = Sequence[Vector]
Proxies = Sequence[Vectors]

SEEDS = st.integers(0, 2**32 - 1)
IN_BATCH = [loss for loss in METRIC_LOSSES.values() if loss.reads == "first"]
OVER_PROXIES = [loss for loss in METRIC_LOSSES.values() if loss.reads == "tokens"]
each_loss = pytest.mark.parametrize("kind", METRIC_LOSSES.values(), ids=lambda kind: kind.name)
each_in_batch = pytest.mark.parametrize("kind", IN_BATCH, ids=lambda kind: kind.name)
each_over_proxies = pytest.mark.parametrize("kind", OVER_PROXIES, ids=lambda kind: kind.name)


def dot(u: Vector, v: Vector) -> float:
    return math.fsum(a * b for a, b in zip(u, v, strict=True))


def unit(v: Vector) -> list[float]:
    return [a / math.hypot(*v) for a in v]


def cosine(u: Vector, v: Vector) -> float:
    return dot(unit(u), unit(v))


def triplets_of(labels: Sequence[int]) -> list[tuple[int, int, int]]:
    n = range(len(labels))
    return [
        (a, p, x)
        for a in n
        for p in n
        for x in n
        if a != p and labels[a] == labels[p] and labels[a] != labels[x]
    ]


def positives_of(labels: Sequence[int]) -> dict[int, list[int]]:
    """The positives of each anchor that has any."""
    n = range(len(labels))
    found = {i: [p for p in n if p != i and labels[p] == labels[i]] for i in n}
    return {i: positives for i, positives in found.items() if positives}


# The equations, vector by vector


def slow_triplet(vectors: Vectors, labels: Sequence[int], _: Proxies, margin: float) -> float:
    """(1), its sum over N divided by N."""
    terms = []
    for a, p, n in triplets_of(labels):
        near, far = (math.dist(vectors[a], vectors[other]) ** 2 for other in (p, n))
        terms.append(max(0.0, near - far + margin))
    return math.fsum(terms) / len(terms)


def slow_npairs(vectors: Vectors, labels: Sequence[int], _: Proxies) -> float:
    """(2), an anchor's one positive being each of its positives with equal chance."""
    anchors = []
    for i, positives in positives_of(labels).items():
        negatives = [j for j in range(len(labels)) if labels[j] != labels[i]]
        logs = []
        for p in positives:
            own = dot(vectors[i], vectors[p])
            rest = math.fsum(math.exp(dot(vectors[i], vectors[n]) - own) for n in negatives)
            logs.append(-math.log1p(rest))
        anchors.append(math.fsum(logs) / len(logs))
    return -math.fsum(anchors) / len(anchors)


def slow_supcon(vectors: Vectors, labels: Sequence[int], _: Proxies, temperature: float) -> float:
    """(3), of unit vectors, its sum over anchors divided by their number."""
    anchors = []
    for i, positives in positives_of(labels).items():
        others = [k for k in range(len(labels)) if k != i]
        logits = {k: cosine(vectors[i], vectors[k]) / temperature for k in others}
        total = math.fsum(math.exp(logits[k]) for k in others)
        shares = [math.log(math.exp(logits[p]) / total) for p in positives]
        anchors.append(-math.fsum(shares) / len(positives))
    return math.fsum(anchors) / len(anchors)


def slow_proxynca(vectors: Vectors, labels: Sequence[int], proxies: Proxies, scale: float) -> float:
    """(4), of unit vectors and proxies."""
    logs = []
    for vector, label in zip(vectors, labels, strict=True):
        near = [math.exp(-scale * math.dist(unit(vector), unit(p))) for (p,) in proxies]
        others = math.fsum(share for j, share in enumerate(near) if j != label)
        logs.append(math.log(near[label] / others))
    return -math.fsum(logs) / len(logs)


def slow_softtriple(
    vectors: Vectors,
    labels: Sequence[int],
    proxies: Proxies,
    proxies_per_class: int,
    gamma: float,
    scale: float,
    margin: float,
) -> float:
    """(5) over (6), of unit vectors and proxies."""
    logs = []
    for vector, label in zip(vectors, labels, strict=True):
        relaxed = []
        for own in proxies:
            assert len(own) == proxies_per_class
            cosines = [cosine(vector, w) for w in own]
            weights = [math.exp(c / gamma) for c in cosines]
            relaxed.append(
                math.fsum(w / math.fsum(weights) * c for w, c in zip(weights, cosines, strict=True))
            )
        wanted = math.exp(scale * (relaxed[label] - margin))
        rest = math.fsum(math.exp(scale * s) for c, s in enumerate(relaxed) if c != label)
        logs.append(math.log(wanted / (wanted + rest)))
    return -math.fsum(logs) / len(logs)


def slow_proxyanchor(
    vectors: Vectors, labels: Sequence[int], proxies: Proxies, alpha: float, margin: float
) -> float:
    """(7): both sums are 0 for a proxy that has nothing to sum."""
    pulled, pushed = [], []
    for c, (proxy,) in enumerate(proxies):
        near = [cosine(v, proxy) for v, label in zip(vectors, labels, strict=True) if label == c]
        far = [cosine(v, proxy) for v, label in zip(vectors, labels, strict=True) if label != c]
        if near:
            pulled.append(math.log1p(math.fsum(math.exp(-alpha * (s - margin)) for s in near)))
        pushed.append(math.log1p(math.fsum(math.exp(alpha * (s + margin)) for s in far)))
    return math.fsum(pulled) / len(pulled) + math.fsum(pushed) / len(proxies)


SLOW: dict[str, Callable[..., float]] = {
    "triplet": slow_triplet,
    "npairs": slow_npairs,
    "supcon": slow_supcon,
    "proxynca": slow_proxynca,
    "softtriple": slow_softtriple,
    "proxyanchor": slow_proxyanchor,
}

SOME: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "triplet": st.fixed_dictionaries({"margin": st.sampled_from([0.3, 1.0, 5.0, 9.0])}),
    "npairs": st.just({}),
    "supcon": st.fixed_dictionaries({"temperature": st.sampled_from([0.1, 0.5, 2.0])}),
    "proxynca": st.fixed_dictionaries({"scale": st.sampled_from([0.4, 1.0, 5.0])}),
    "softtriple": st.fixed_dictionaries(
        {
            "proxies_per_class": st.integers(1, 4),
            "gamma": st.sampled_from([0.01, 0.1, 1.0]),
            "scale": st.sampled_from([1.0, 3.3, 20.0]),
            "margin": st.sampled_from([0.0, 0.01, 1.0]),
        }
    ),
    "proxyanchor": st.fixed_dictionaries(
        {"alpha": st.sampled_from([1.0, 32.0]), "margin": st.sampled_from([0.0, 0.1, 0.9])}
    ),
}
"""Parameters that the equations can be computed with as they are written."""


def some_batch(seed: int, m: int, d: int = 3, c: int = 3) -> tuple[Tensor, Tensor]:
    """Vectors of any norm and labels, of which two are alike and two are not."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(m, d, generator=generator, dtype=torch.float64)
    labels = torch.randint(c, (m,), generator=generator)
    labels[:3] = torch.tensor([0, 0, 1])
    return vectors * (0.5 + torch.rand(m, 1, generator=generator)), labels


def built(loss: MetricLoss, n_classes: int = 3, size: int = 3, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return loss.build(n_classes, size).double()


def proxies_of(module: nn.Module) -> Proxies:
    proxies = getattr(module, "proxies", None)
    listed: Proxies = [] if proxies is None else proxies.tolist()
    return listed


def value_and_gradient(module: nn.Module, vectors: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    leaf = vectors.detach().requires_grad_()
    value = module(leaf, labels)
    assert value.shape == ()
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient


@each_loss
@given(data=st.data(), seed=SEEDS, m=st.integers(3, 9), d=st.integers(2, 5), c=st.integers(2, 4))
def test_a_loss_is_that_of_its_equation(
    kind: type[MetricLoss], data: st.DataObject, seed: int, m: int, d: int, c: int
) -> None:
    parameters = data.draw(SOME[kind.name])
    vectors, labels = some_batch(seed, m, d, c)
    module = built(kind(**parameters), c, d, seed)
    wanted = SLOW[kind.name](vectors.tolist(), labels.tolist(), proxies_of(module), **parameters)
    assert module(vectors, labels).item() == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@each_loss
def test_a_large_batch_is_that_of_its_equation(kind: type[MetricLoss]) -> None:
    """Beyond 25 rows the distances of torch come of a matrix product."""
    parameters: dict[str, Any] = {each.name: each.default for each in declared(kind)}
    vectors, labels = some_batch(1, m=40, d=16, c=6)
    module = built(kind(), n_classes=6, size=16)
    wanted = SLOW[kind.name](vectors.tolist(), labels.tolist(), proxies_of(module), **parameters)
    assert module(vectors, labels).item() == pytest.approx(wanted, rel=1e-9)


@each_loss
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_are_those_of_finite_differences(kind: type[MetricLoss], seed: int) -> None:
    vectors, labels = some_batch(seed, m=6)
    module = built(kind(), seed=seed)
    names = [name for name, _ in module.named_parameters()]

    def value(vectors: Tensor, *learnt: Tensor) -> Tensor:
        state = dict(zip(names, learnt, strict=True))
        found: Tensor = torch.func.functional_call(module, state, (vectors, labels))
        return found

    leaves = [each.detach().clone() for each in (vectors, *module.parameters())]
    assert torch.autograd.gradcheck(value, [leaf.requires_grad_() for leaf in leaves])


@each_loss
@given(seed=SEEDS)
def test_the_order_of_a_batch_is_of_no_matter(kind: type[MetricLoss], seed: int) -> None:
    vectors, labels = some_batch(seed, m=8)
    shuffled = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
    module = built(kind())
    value, gradient = value_and_gradient(module, vectors, labels)
    again, moved = value_and_gradient(module, vectors[shuffled], labels[shuffled])
    assert again == pytest.approx(value, rel=1e-9)
    assert torch.allclose(moved, gradient[shuffled], rtol=1e-7, atol=1e-9)


@each_in_batch
@given(seed=SEEDS)
def test_the_names_of_classes_are_of_no_matter_in_a_batch(
    kind: type[MetricLoss], seed: int
) -> None:
    vectors, labels = some_batch(seed, m=7)
    renamed = torch.tensor([7, 0, 3])[labels]
    module = built(kind())
    assert module(vectors, renamed).item() == pytest.approx(module(vectors, labels).item())


@pytest.mark.parametrize("loss", [SupCon(), ProxyNCA(), SoftTriple(), ProxyAnchor()])
def test_losses_of_unit_vectors_are_blind_to_length(loss: MetricLoss) -> None:
    vectors, labels = some_batch(0, m=6)
    module = built(loss)
    lengths = torch.linspace(0.1, 9, 6)[:, None].double()
    found = module(lengths * vectors, labels).item()
    assert found == pytest.approx(module(vectors, labels).item(), rel=1e-9)


# By hand


EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


@pytest.mark.parametrize(
    ("loss", "vectors", "labels", "value"),
    [
        # squared distances: of the like pair 2, from the first 4 and from the second 2 to the third
        # 2 - 4 + 3 and 2 - 2 + 3
        (TripletMargin(margin=3.0), [EAST, NORTH, WEST], [0, 0, 1], 2.0),
        # none and 1: both are counted
        (TripletMargin(margin=1.0), [EAST, NORTH, WEST], [0, 0, 1], 0.5),
        (NPairs(), [EAST, EAST, NORTH], [0, 0, 1], math.log(1 + math.exp(-1))),
        # of lengths 2 and 1: dot products 2 against -2, and 2 against -1
        (
            *(NPairs(), [[2.0, 0.0], EAST, WEST], [0, 0, 1]),
            (math.log(1 + math.exp(-4)) + math.log(1 + math.exp(-3))) / 2,
        ),
        (SupCon(temperature=1.0), [EAST, EAST, WEST], [0, 0, 1], math.log(1 + math.exp(-2))),
        (SupCon(temperature=0.5), [EAST, EAST, WEST], [0, 0, 1], math.log(1 + math.exp(-4))),
    ],
)
def test_a_batch_by_hand(
    loss: MetricLoss, vectors: Vectors, labels: list[int], value: float
) -> None:
    tensor = torch.tensor(vectors, dtype=torch.float64)
    assert built(loss)(tensor, torch.tensor(labels)).item() == pytest.approx(value)


def with_proxies(loss: MetricLoss, rows: Vectors, n_classes: int) -> nn.Module:
    """A module whose proxies are these, class by class."""
    module = built(loss, n_classes, len(rows[0]))
    (parameter,) = module.parameters()
    wanted = torch.tensor(rows, dtype=torch.float64)
    laid = wanted.T if isinstance(loss, SoftTriple) else wanted
    parameter.data = laid.reshape(parameter.shape).contiguous()
    assert proxies_of(module) == wanted.reshape(n_classes, -1, wanted.shape[1]).tolist()
    return module


@pytest.mark.parametrize(
    ("loss", "proxies", "value"),
    [
        (ProxyNCA(scale=3.0), [EAST, WEST], 3 * (0 - 2)),
        (ProxyNCA(), [NORTH, WEST, EAST], math.sqrt(2) + math.log(math.exp(-2) + 1)),
        # of two alike, the relaxed similarity is that of either: 1 - 0.5 against -1
        (
            SoftTriple(proxies_per_class=2, scale=1.0, margin=0.5),
            [EAST, EAST, WEST, WEST],
            math.log(1 + math.exp(-1.5)),
        ),
        # pulled: cosine 1; pushed: the other proxy at -1, the own has nothing to push
        (
            ProxyAnchor(alpha=1.0, margin=0.1),
            [EAST, WEST],
            math.log1p(math.exp(-0.9)) + math.log1p(math.exp(-0.9)) / 2,
        ),
    ],
)
def test_proxies_by_hand(loss: MetricLoss, proxies: Vectors, value: float) -> None:
    n_classes = len(proxies) // getattr(loss, "proxies_per_class", 1)
    east = torch.tensor([EAST], dtype=torch.float64)
    found = with_proxies(loss, proxies, n_classes)(east, torch.tensor([0]))
    assert found.item() == pytest.approx(value)


# The library


def test_soft_triple_and_proxy_anchor_are_the_librarys() -> None:
    from pytorch_metric_learning.losses import ProxyAnchorLoss, SoftTripleLoss

    vectors, labels = some_batch(5, m=12, d=8, c=3)
    for loss, theirs, arguments in (
        (SoftTriple(), SoftTripleLoss, {}),
        (
            SoftTriple(proxies_per_class=5, gamma=0.05, scale=3.3, margin=0.5),
            *(SoftTripleLoss, {"centers_per_class": 5, "gamma": 0.05, "la": 3.3, "margin": 0.5}),
        ),
        (ProxyAnchor(), ProxyAnchorLoss, {}),
        (ProxyAnchor(alpha=64, margin=0.3), ProxyAnchorLoss, {"alpha": 64, "margin": 0.3}),
    ):
        module = built(loss, size=8, seed=3)
        torch.manual_seed(3)
        library = theirs(3, 8, **arguments).double()
        assert module(vectors, labels).item() == library(vectors, labels).item()


def test_triplet_and_supcon_are_the_librarys_but_for_what_they_divide_by() -> None:
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import SupConLoss, TripletMarginLoss
    from pytorch_metric_learning.reducers import SumReducer

    vectors, labels = some_batch(5, m=12, d=8, c=3)
    squared = LpDistance(normalize_embeddings=False, p=2, power=2)
    summed = TripletMarginLoss(5.0, distance=squared, reducer=SumReducer())(vectors, labels)
    found = built(TripletMargin(margin=5.0))(vectors, labels).item()
    assert found * len(triplets_of(labels.tolist())) == pytest.approx(summed.item())
    # the anchor without a positive has the loss 0, which the library's mean leaves out too
    assert len(positives_of(labels.tolist())) == 11
    theirs = SupConLoss(temperature=0.1)(vectors, labels)
    assert built(SupCon())(vectors, labels).item() == pytest.approx(theirs.item())


def test_npairs_uses_every_pair_where_the_library_uses_one_of_each_class() -> None:
    """The last of class 0 has no part in the library's loss; in ours its gradient is not 0."""
    from pytorch_metric_learning.losses import NPairsLoss

    vectors, _ = some_batch(2, m=6)
    labels = torch.tensor([0, 0, 1, 1, 0, 0])
    _, ours = value_and_gradient(built(NPairs()), vectors, labels)
    _, theirs = value_and_gradient(NPairsLoss(), vectors, labels)
    assert theirs[-1].abs().max() == 0
    assert ours[-1].abs().max() > 0


def test_a_triplet_that_is_met_counts_in_the_mean() -> None:
    """The library's own mean leaves it out."""
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import TripletMarginLoss

    vectors = torch.tensor([[0.0], [1.0], [1.5], [50.0], [51.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 1])
    wanted = slow_triplet(vectors.tolist(), labels.tolist(), [], 1.0)
    assert built(TripletMargin())(vectors, labels).item() == pytest.approx(wanted)
    squared = LpDistance(normalize_embeddings=False, p=2, power=2)
    assert TripletMarginLoss(1.0, distance=squared)(vectors, labels).item() > 1.1 * wanted


# Batches that hold nothing to compare


@each_in_batch
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3], [0], []])
def test_a_batch_without_a_positive_or_a_negative_is_0_and_counted(
    kind: type[MetricLoss], labels: list[int]
) -> None:
    module = built(kind())
    vectors = torch.full((len(labels), 3), 1e30)  # no product of these is finite
    value, gradient = value_and_gradient(module, vectors, torch.tensor(labels, dtype=torch.int64))
    assert value == 0
    assert torch.equal(gradient, torch.zeros_like(vectors))
    assert module.n_empty == 1
    some, some_labels = some_batch(0, m=5)
    assert value_and_gradient(module, some, some_labels)[1].abs().max() > 0
    assert module.n_empty == 1
    assert module.state_dict()["n_empty"] == 1


@each_in_batch
def test_a_vector_alone_in_its_class_is_a_negative_and_no_anchor(kind: type[MetricLoss]) -> None:
    vectors, _ = some_batch(3, m=4)
    labels = [0, 0, 1, 2]
    parameters: dict[str, Any] = {each.name: each.default for each in declared(kind)}
    value, gradient = value_and_gradient(built(kind()), vectors, torch.tensor(labels))
    assert value == pytest.approx(SLOW[kind.name](vectors.tolist(), labels, [], **parameters))
    assert gradient.isfinite().all()


@each_over_proxies
def test_proxies_make_a_batch_of_one_class_a_loss_like_another(kind: type[MetricLoss]) -> None:
    vectors, _ = some_batch(4, m=5)
    labels = [2] * 5
    module = built(kind())
    parameters: dict[str, Any] = {each.name: each.default for each in declared(kind)}
    value, gradient = value_and_gradient(module, vectors, torch.tensor(labels))
    wanted = SLOW[kind.name](vectors.tolist(), labels, proxies_of(module), **parameters)
    assert value == pytest.approx(wanted)
    assert gradient.abs().max() > 0
    assert not hasattr(module, "n_empty")


# Where distances are 0


@each_over_proxies
def test_vectors_that_lie_on_a_proxy_have_finite_gradients(kind: type[MetricLoss]) -> None:
    module = built(kind())
    on = [proxies[0] for proxies in proxies_of(module)]
    leaf = torch.tensor(on, dtype=torch.float64).requires_grad_()
    parameters: dict[str, Any] = {each.name: each.default for each in declared(kind)}
    value = module(leaf, torch.tensor([0, 1, 1]))
    wanted = SLOW[kind.name](on, [0, 1, 1], proxies_of(module), **parameters)
    assert value.item() == pytest.approx(wanted)
    for gradient in torch.autograd.grad(value, [leaf, *module.parameters()]):
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


def test_small_distances_to_a_proxy_are_exact_in_float32() -> None:
    """Of 40 rows a matrix product would be taken, in which a distance of 1e-4 is lost."""
    generator = torch.Generator().manual_seed(0)
    module = with_proxies(ProxyNCA(), [EAST, NORTH], 2)
    vectors = torch.tensor([EAST] * 40) + 1e-4 * torch.randn(40, 2, generator=generator)
    labels = torch.zeros(40, dtype=torch.int64)
    wanted = slow_proxynca(vectors.tolist(), labels.tolist(), proxies_of(module), 1.0)
    assert module.float()(vectors, labels).item() == pytest.approx(wanted, abs=1e-6)


@each_in_batch
def test_equal_vectors_have_finite_gradients(kind: type[MetricLoss]) -> None:
    vectors = torch.ones(4, 3, dtype=torch.float64)
    value, gradient = value_and_gradient(built(kind()), vectors, torch.tensor([0, 0, 1, 1]))
    assert math.isfinite(value)
    assert gradient.isfinite().all()


@each_loss
def test_what_is_far_or_sharp_stays_finite(kind: type[MetricLoss]) -> None:
    sharp = {"temperature": 0.01, "alpha": 128.0, "gamma": 0.001, "scale": 100.0}
    known = {each.name for each in declared(kind)}
    vectors, labels = some_batch(6, m=8)
    module = built(kind(**{name: value for name, value in sharp.items() if name in known})).float()
    value, gradient = value_and_gradient(module, 30 * vectors.float(), labels)
    assert math.isfinite(value)
    assert gradient.isfinite().all()


# Width, seeds and state


@each_loss
@pytest.mark.parametrize("width", [torch.float32, torch.bfloat16])
def test_a_loss_is_computed_in_float32_under_autocast(
    kind: type[MetricLoss], width: torch.dtype
) -> None:
    vectors, labels = some_batch(0, m=8)
    narrow = vectors.to(width)
    module = built(kind()).float()
    plain = module(narrow.float(), labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = module(narrow, labels)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)
    assert {each.dtype for each in module.parameters()} <= {torch.float32}


@each_over_proxies
def test_proxies_come_of_the_global_generator_and_are_all_that_is_learnt(
    kind: type[MetricLoss],
) -> None:
    first, again, other = (built(kind(), 4, 5, seed) for seed in (1, 1, 2))
    shape = (4, getattr(kind(), "proxies_per_class", 1), 5)
    proxies = [proxies_of(module) for module in (first, again, other)]
    assert torch.tensor(proxies[0]).shape == shape
    assert proxies[0] == proxies[1] != proxies[2]
    assert sum(each.numel() for each in first.parameters()) == math.prod(shape)


@each_over_proxies
def test_a_state_brings_the_proxies(kind: type[MetricLoss]) -> None:
    module, other = built(kind(), seed=1), built(kind(), seed=2)
    other.load_state_dict(module.state_dict())
    assert proxies_of(other) == proxies_of(module)


@each_over_proxies
def test_a_step_down_the_gradient_lowers_the_loss_and_moves_the_proxies(
    kind: type[MetricLoss],
) -> None:
    vectors, labels = some_batch(0, m=12)
    module = built(kind())
    before = proxies_of(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    start = module(vectors, labels)
    start.backward()
    optimizer.step()
    assert proxies_of(module) != before
    assert module(vectors, labels).item() < start.item()


# The registry


def test_the_registry() -> None:
    found = {name: (kind.title, kind.reads) for name, kind in METRIC_LOSSES.items()}
    assert found == {
        "triplet": ("Triplet", "first"),
        "npairs": ("NPairs", "first"),
        "supcon": ("SupCon", "first"),
        "proxynca": ("ProxyNCA", "tokens"),
        "softtriple": ("SoftTriple", "tokens"),
        "proxyanchor": ("ProxyAnchor", "tokens"),
    }
    assert list(METRIC_LOSSES) == [kind.name for kind in METRIC_LOSSES.values()] == list(SLOW)


@each_loss
def test_parameters_are_read_back_and_say_what_they_are(kind: type[MetricLoss]) -> None:
    assert kind.from_dict(kind().to_dict()) == kind()
    for each in declared(kind):
        assert each.help
        assert "\n" not in each.help


@each_loss
def test_a_parameter_below_its_bound_is_refused(kind: type[MetricLoss]) -> None:
    for each in declared(kind):
        bound = "at least" if each.least is not None else "above"
        for value in (-1,) if float in each.kinds else (-1, 0):
            with pytest.raises(
                InputError, match=f"^`{each.name}` must be {bound} .*, got {value}$"
            ):
                kind(**{each.name: value})
        if float in each.kinds:
            with pytest.raises(InputError, match=f"^`{each.name}` must be finite, got nan$"):
                kind(**{each.name: math.nan})


@each_loss
def test_fewer_than_two_classes_are_refused(kind: type[MetricLoss]) -> None:
    said = f"the loss {kind.name!r} needs at least 2 classes, got 1"
    with pytest.raises(InputError, match=re.escape(said)):
        kind().build(1, 3)


def test_the_losses_are_listed_without_torch() -> None:
    code = (
        "import sys, polarity_bench.training.losses.metric\n"
        "assert not {'torch', 'pytorch_metric_learning', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
