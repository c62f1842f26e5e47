"""Heads: softmax and equation 10 by other means, files that come back, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save_file
from scipy.spatial.distance import cosine
from scipy.special import softmax
from scipy.stats import special_ortho_group
from sklearn.linear_model import LogisticRegression

from polarity_bench.classifiers.head import HEAD_FILE, Head
from polarity_bench.encoders.axis import coordinates
from polarity_bench.errors import InputError

CLASSES = ("bad", "middling", "good")


def drawn(n_classes: int = 3, n_proxies: int = 2, size: int = 5) -> Head:
    generator = np.random.default_rng(0)
    return Head(
        CLASSES[:n_classes],
        generator.normal(size=(n_classes, size)).astype(np.float32),
        generator.normal(size=n_classes).astype(np.float32),
        generator.normal(size=(n_classes, n_proxies, size)).astype(np.float32),
        beta=0.3,
    )


VECTORS = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)


def test_probabilities_are_scipys_softmax() -> None:
    head = drawn()
    expected = softmax(VECTORS.astype(np.float64) @ head.weight.T + head.bias, axis=1)
    assert_allclose(head.probabilities(VECTORS), expected, rtol=1e-12)


def test_logits_of_any_size_give_shares() -> None:
    head = Head(("bad", "good"), np.array([[-1e4], [1e4]]), np.zeros(2))
    assert_array_equal(head.probabilities(np.array([[1.0], [-1.0]])), [[0, 1], [1, 0]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_regression_of_scikit_learn_is_a_head(n_classes: int) -> None:
    """Of two classes it has one row, of more one for each."""
    labels = np.arange(7) % n_classes
    regression = LogisticRegression().fit(VECTORS, labels)
    head = Head(CLASSES[:n_classes], regression.coef_, regression.intercept_)
    assert len(head.weight) == (1 if n_classes == 2 else 3)
    assert_allclose(head.probabilities(VECTORS), regression.predict_proba(VECTORS), atol=1e-6)
    assert_array_equal(head.scores(VECTORS).argmax(axis=1), regression.predict(VECTORS))


def test_scores_with_proxies_are_equation_10() -> None:
    head = drawn()
    assert head.proxies is not None
    found = head.scores(VECTORS, with_proxies=True)
    for text, vector in enumerate(VECTORS.astype(np.float64)):
        logits = [float(head.weight[code] @ vector) + float(head.bias[code]) for code in range(3)]
        total = sum(np.exp(logit) for logit in logits)
        for code in range(3):
            nearest = -1.0
            for proxy in head.proxies[code].astype(np.float64):
                lengths = np.sqrt((vector**2).sum()) * np.sqrt((proxy**2).sum())
                nearest = max(nearest, float(vector @ proxy) / lengths)
            expected = 0.3 * np.exp(logits[code]) / total + 0.7 * nearest
            assert found[text, code] == pytest.approx(expected, rel=1e-9)


def test_similarities_know_no_lengths_and_no_axes() -> None:
    head, turn = drawn(), special_ortho_group.rvs(5, random_state=0)
    assert head.proxies is not None
    turned = Head(CLASSES, head.weight, head.bias, 3 * head.proxies @ turn)
    assert_allclose(turned.similarities(7 * VECTORS @ turn), head.similarities(VECTORS), atol=1e-6)


def test_a_vector_of_zeros_is_like_no_proxy() -> None:
    assert_array_equal(drawn().similarities(np.zeros((1, 5))), np.zeros((1, 3)))


@pytest.mark.parametrize("n_proxies", [0, 2])
def test_what_is_written_is_read(tmp_path: Path, n_proxies: int) -> None:
    head = drawn(n_proxies=2)
    if not n_proxies:
        head = Head(('the "bad"', "schön"), head.weight[:2], head.bias[:2])
    (tmp_path / HEAD_FILE).write_bytes(head.to_bytes())
    again = Head.read(tmp_path)
    assert (again.classes, again.beta) == (head.classes, head.beta)
    assert_array_equal(again.weight, head.weight)
    assert_array_equal(again.bias, head.bias)
    if head.proxies is None:
        assert again.proxies is None
    else:
        assert_array_equal(again.proxies, head.proxies)
    assert {again.to_bytes() for _ in range(20)} == {head.to_bytes()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classes": ("bad", "good")}, r"2 classes need .* got the shapes \(3, 5\) and \(3,\)"),
        (
            {"weight": np.ones((1, 5)), "bias": np.ones(1)},
            "3 classes need a weight of 3",
        ),
        ({"weight": np.ones(3)}, r"shapes \(3,\) and \(3,\)"),
        ({"weight": np.ones(())}, r"shapes \(\) and \(3,\)"),
        ({"bias": np.ones(2)}, r"shapes \(3, 5\) and \(2,\)"),
        ({"proxies": np.ones((2, 2, 5))}, r"proxies must .* with 3 classes .* got \(2, 2, 5\)"),
        ({"proxies": np.ones((3, 2, 4))}, r"and 5 dimensions, got \(3, 2, 4\)"),
        ({"proxies": np.ones((3, 5))}, r"the proxies must .*, got \(3, 5\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {"classes": CLASSES, "weight": np.ones((3, 5)), "bias": np.ones(3)}
    with pytest.raises(InputError, match=message):
        Head(**(parts | given))


def test_proxies_are_wanted_where_they_are_to_take_part() -> None:
    head = Head(("bad", "good"), np.ones((2, 5)), np.ones(2))
    with pytest.raises(InputError, match="this classifier was trained without proxies"):
        head.scores(VECTORS, with_proxies=True)


def test_a_folder_without_a_head_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"head\.safetensors is missing, .* recipe triple-entropy"):
        Head.read(tmp_path)


PARTS = {"weight": np.ones((2, 5), np.float32), "bias": np.ones(2, np.float32)}
SAID: dict[str, Any] = {"classes": ["bad", "good"], "beta": 1.0}


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (PARTS, None),
        ({"weight": PARTS["weight"]}, json.dumps(SAID)),
        (PARTS, "bad, good"),
        (PARTS, json.dumps(SAID | {"classes": 2})),
        (PARTS, json.dumps(SAID | {"beta": "half"})),
        (PARTS | {"proxies": PARTS["weight"]}, json.dumps(SAID)),
        (PARTS, json.dumps(SAID | {"classes": "ab"})),
        (PARTS, json.dumps(SAID | {"classes": ["a", "a"]})),
        (PARTS, json.dumps(SAID | {"pairs": True})),
        (PARTS | {"bias": np.array([np.nan, 0], np.float32)}, json.dumps(SAID)),
    ],
    ids=[
        *("nothing said", "no bias", "no JSON", "no list", "no number", "flat proxies"),
        *("a text", "one name twice", "no three vectors", "not a number"),
    ],
)
def test_a_file_that_is_no_head_is_named(
    tmp_path: Path, tensors: dict[str, Any], said: str | None
) -> None:
    save_file(tensors, tmp_path / HEAD_FILE, None if said is None else {"head": said})
    with pytest.raises(InputError, match=r"head\.safetensors: not a classifier head of .* \("):
        Head.read(tmp_path)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    (tmp_path / HEAD_FILE).write_bytes(drawn().to_bytes()[:-8])
    with pytest.raises(InputError, match="not a classifier head of polarity-bench"):
        Head.read(tmp_path)


@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(0, 4), c=st.integers(2, 4), k=st.integers(1, 4)
)
def test_similarity_to_a_class_is_the_largest_cosine_to_its_proxies(
    seed: int, n: int, c: int, k: int
) -> None:
    draw = np.random.default_rng(seed)
    vectors, proxies = draw.normal(size=(n, 3)), draw.normal(size=(c, k, 3))
    head = Head([f"class {code}" for code in range(c)], np.zeros((c, 3)), np.zeros(c), proxies)
    found = head.similarities(vectors)
    assert found.shape == (n, c)
    for row, vector in zip(found, vectors, strict=True):
        for value, own in zip(row, proxies, strict=True):
            cosines = [1 - cosine(vector, proxy) for proxy in own]
            assert value == pytest.approx(max(cosines))


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_probabilities_are_those_that_the_coordinates_were_made_of(n_classes: int) -> None:
    known = list("abcdef")[:n_classes]
    shares = np.random.default_rng(0).dirichlet(np.ones(n_classes), 50)
    placed = coordinates(torch.from_numpy(shares)).numpy()
    head = Head.of_axis(known)
    assert_allclose(head.probabilities(placed), shares, atol=1e-6)
    float32 = placed.astype(np.float32)
    found = float32 * np.float32(math.sqrt(1 - 1 / n_classes)) + np.float32(1 / n_classes)
    if n_classes == 2:
        found = np.hstack([1 - float32, 1 + float32]) / 2
    assert_array_equal(head.probabilities(float32), found.clip(0, 1), "as teachers had them")
    assert head.probabilities(float32).dtype == np.float32
