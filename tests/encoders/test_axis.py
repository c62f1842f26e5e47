"""An encoder with an axis: its sides, its folder, its digests, its ranking at each strength."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from standins import QUERIES, SOURCES

from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.axis import Axis, coordinates
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.retrieval import top_k

TEXTS = [text for text, _ in (*SOURCES, *QUERIES)]


def with_axis(
    folder: Path, classes: list[str], strength: float = 1.0, *, tower: bool = False
) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu")
    inner: Any = SentenceTransformer(str(folder), device="cpu") if tower else None
    torch.manual_seed(7)
    parts = None if inner is None else (inner[0], inner[1])
    if inner is not None:
        with torch.no_grad():
            inner[0].auto_model.embeddings.word_embeddings.weight.mul_(1.5)
    model.append(Normalize())
    model.append(Axis(classes, 32, strength, parts).eval())
    model.similarity_fn_name = "dot"
    return model


@pytest.fixture(params=[False, True], ids=["no tower", "tower"])
def saved(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    model = with_axis(tiny_model, ["bad", "good"], 0.25, tower=request.param)
    model.save_pretrained(str(tmp_path / "axis"), create_model_card=False)
    return tmp_path / "axis"


def test_certain_texts_have_the_products_of_a_simplex() -> None:
    for n_classes in (2, 3, 6):
        sure = coordinates(torch.eye(n_classes, dtype=torch.float64))
        expected = np.full((n_classes, n_classes), -1 / (n_classes - 1))
        np.fill_diagonal(expected, 1)
        assert_allclose(sure @ sure.T, expected, atol=1e-12)
    assert coordinates(torch.full((1, 4), 0.25)).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("classes", [["bad", "good"], ["a", "b", "c"]])
def test_each_side_is_what_it_is_said_to_be(tiny_model: Path, classes: list[str]) -> None:
    model = with_axis(tiny_model, classes, 0.25)
    base = SentenceTransformer(str(tiny_model), device="cpu").encode(
        TEXTS, normalize_embeddings=True
    )
    n = 1 if len(classes) == 2 else 3
    documents, queries, alike = (
        model.encode_document(TEXTS),
        model.encode_query(TEXTS),
        model.encode(TEXTS),
    )
    axis: Any = model[-1]
    logits = base @ axis.head.weight.detach().numpy().T + axis.head.bias.detach().numpy()
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    placed = 2 * shares[:, 1:] - 1 if n == 1 else math.sqrt(3 / 2) * (shares - 1 / 3)
    for side, weight in ((documents, 1), (queries, 0.25), (alike, 0.5)):
        assert_allclose(side[:, :-n], base, atol=1e-7)  # what the encoder gave is not touched
        assert_allclose(side[:, -n:], weight * placed, atol=1e-6)
    assert_allclose(model.encode_query(TEXTS, strength=-2.0)[:, -n:], -2 * placed, atol=1e-5)
    assert_allclose(alike @ alike.T, queries @ documents.T, atol=1e-5)


def test_a_strength_is_a_number_and_below_0_has_two_sides(tiny_model: Path) -> None:
    model = with_axis(tiny_model, ["bad", "good"])
    with pytest.raises(
        InputError, match="must be at least 0 for `encode`, got -1; use encode_query"
    ):
        model.encode(TEXTS, strength=-1.0)
    with pytest.raises(InputError, match="`strength` must be a number, got nan"):
        model.encode_query(TEXTS, strength=math.nan)
    found = model.encode_query(TEXTS, strength=np.float32(0.5))
    assert_allclose(found, model.encode_query(TEXTS, strength=0.5))


def test_a_folder_gives_the_same_vectors_and_digest(saved: Path, tiny_model: Path) -> None:
    encoder = load_encoder(str(saved))
    assert isinstance(encoder, SentenceTransformerEncoder)
    trusted = SentenceTransformer(str(saved), device="cpu", trust_remote_code=True)
    assert type(encoder.model) is SentenceTransformer
    assert_allclose(encoder.encode(TEXTS), trusted.encode_document(TEXTS), atol=1e-6)
    assert encoder.id.weights == SentenceTransformerEncoder(trusted, name="x").id.weights
    assert (encoder.id.similarity, encoder.id.axis, encoder.id.strength) == ("dot", 1, 0.25)
    assert encoder.id.label == "axis (strength 0.25)"
    assert not list(saved.rglob("*.bin"))
    assert encoder.id.weights != load_encoder(str(tiny_model)).id.weights


@pytest.mark.parametrize("dimension", [8, 32])
def test_an_encoder_whose_axis_is_cut_off_is_refused(saved: Path, dimension: int) -> None:
    """Of 33 dimensions the last is the axis: the one before it would be weighed in its place."""
    file = saved / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncate_dim": dimension}))
    said = f"truncate_dim cuts off .*, got {dimension}; remove the setting"
    with pytest.raises(InputError, match=f"{re.escape(str(file))}: the setting {said}"):
        load_encoder(str(saved))
    cut = SentenceTransformer(str(saved), device="cpu", trust_remote_code=True)
    assert cut.encode(TEXTS).shape == (len(TEXTS), dimension)
    with pytest.raises(InputError, match=f"the encoder 'in memory': the setting {said}"):
        SentenceTransformerEncoder(cut, name="in memory")


def test_the_towers_weights_and_configuration_are_part_of_the_digest(tiny_model: Path) -> None:
    plain = with_axis(tiny_model, ["bad", "good"], tower=True)
    before = SentenceTransformerEncoder(plain, name="x").id.weights
    axis: Any = plain[-1]
    tower = axis.tower["tower"].auto_model
    tower.config.num_attention_heads += 2
    assert SentenceTransformerEncoder(plain, name="x").id.weights != before
    tower.config.num_attention_heads -= 2
    assert SentenceTransformerEncoder(plain, name="x").id.weights == before
    with torch.no_grad():
        tower.embeddings.word_embeddings.weight[0] += 1
    assert SentenceTransformerEncoder(plain, name="x").id.weights != before


def test_an_id_says_nothing_of_what_is_usual() -> None:
    usual = EncoderId("a", "b")
    assert usual.digest == "2b23d09803af4b66"  # as before these fields came
    assert not {"similarity", "axis", "strength"} & usual.to_dict().keys()
    dial = EncoderId("a", "b", similarity="dot", axis=1, strength=0.0)
    assert EncoderId(**dial.to_dict()) == dial
    assert len({usual.digest, dial.digest, EncoderId("a", "b", similarity="dot").digest}) == 3
    assert (dial.compared_by, dial.stored.strength, usual.stored) == ("cosine", None, usual)


def test_one_encoding_serves_every_strength(saved: Path, tiny_model: Path) -> None:
    encoder = load_encoder(str(saved))
    embedder = Embedder(MemoryStore(TEXTS))
    embedder.embed(encoder, TEXTS)
    trusted = SentenceTransformer(str(saved), device="cpu", trust_remote_code=True)
    for strength in (-1.0, 0.0, 0.5, 3.0):
        turned = at_strength(encoder, strength)
        embedded = embedder.embed(turned, TEXTS)
        assert embedded.usage.n_encoded == 0
        assert embedded.encoder.digest != encoder.id.digest
        sources, queries = embedded.sources(TEXTS), embedded.queries(TEXTS)
        found = top_k(queries, sources, 5)
        theirs = trusted.encode_query(TEXTS, strength=strength) @ trusted.encode_document(TEXTS).T
        at = np.take_along_axis(theirs, found.index, axis=1)
        assert_allclose(found.similarity, at, atol=1e-5)
        assert_allclose(at, -np.sort(-theirs, axis=1)[:, :5], atol=1e-5)
    plain = load_encoder(str(tiny_model))
    assert isinstance(plain, SentenceTransformerEncoder)
    plain.model.append(Normalize())
    base = Embedder().embed(plain, TEXTS)
    embedded = embedder.embed(at_strength(encoder, 0), TEXTS)
    ours = top_k(embedded.queries(TEXTS), embedded.sources(TEXTS), 9)
    theirs = top_k(base.queries(TEXTS), base.sources(TEXTS), 9)
    assert np.array_equal(ours.index, theirs.index)
    assert np.array_equal(ours.similarity, theirs.similarity)


def test_pairs_are_weighed_by_the_root_on_both_sides(saved: Path) -> None:
    embedded = Embedder().embed(at_strength(load_encoder(str(saved)), 4), TEXTS)
    alike, source, query = (
        side(TEXTS).vectors for side in (embedded.vectors, embedded.sources, embedded.queries)
    )
    assert_allclose(alike @ alike.T, query @ source.T, atol=1e-5)
    below = Embedder().embed(at_strength(load_encoder(str(saved)), -1), TEXTS)
    with pytest.raises(InputError, match="pairs and classifiers need a strength of at least 0"):
        below.vectors(TEXTS)
    with pytest.raises(ValueError, match="read-only"):
        below.queries(TEXTS).vectors[0] = 1


def test_only_an_axis_has_a_strength(tiny_model: Path, saved: Path) -> None:
    for name in (str(tiny_model), "random"):
        with pytest.raises(InputError, match=r"`strength` 1: .* has no axis; train an encoder"):
            at_strength(load_encoder(name), 1)
    with pytest.raises(InputError, match="`strength` must be a number, got inf"):
        at_strength(load_encoder(str(saved)), math.inf)
