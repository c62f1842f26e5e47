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
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.axis import SCALE, Axis, coordinates
from polarity_bench.encoders.backends import PACKAGES
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.reference_encoder import Base, write_base
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.retrieval import top_k

TEXTS = [text for text, _ in (*SOURCES, *QUERIES)]


def with_axis(
    folder: Path,
    classes: list[str],
    strength: float = 1.0,
    *,
    tower: bool = False,
    scale: float = SCALE,
) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu")
    inner: Any = SentenceTransformer(str(folder), device="cpu") if tower else None
    torch.manual_seed(7)
    parts = None if inner is None else (inner[0], inner[1])
    if inner is not None:
        with torch.no_grad():
            inner[0].auto_model.embeddings.word_embeddings.weight.mul_(1.5)
    model.append(Normalize())
    model.append(Axis(classes, 32, strength, parts, scale).eval())
    model.similarity_fn_name = "dot"
    return model


FORMS: dict[str, dict[str, Any]] = {
    "no tower": {},
    "tower": {"tower": True},
    "third": {"scale": 0.3},
}


@pytest.fixture(params=FORMS)
def saved(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    model = with_axis(tiny_model, ["bad", "good"], 0.25, **FORMS[request.param])
    model.save_pretrained(str(tmp_path / "axis"), create_model_card=False)
    return tmp_path / "axis"


def test_certain_texts_have_the_products_of_a_simplex() -> None:
    for n_classes in (2, 3, 6):
        sure = coordinates(torch.eye(n_classes, dtype=torch.float64))
        expected = np.full((n_classes, n_classes), -1 / (n_classes - 1))
        np.fill_diagonal(expected, 1)
        assert_allclose(sure @ sure.T, expected, atol=1e-12)
    assert coordinates(torch.full((1, 4), 0.25)).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("scale", [0.25, 0.3])
@pytest.mark.parametrize("classes", [["bad", "good"], ["a", "b", "c"]])
def test_each_side_is_what_it_is_said_to_be(
    tiny_model: Path, classes: list[str], scale: float
) -> None:
    model = with_axis(tiny_model, classes, 0.25, scale=scale)
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
    filler = np.sqrt(1 - (placed**2).sum(axis=1))
    for side, weight in ((documents, scale), (queries, 0.25 / scale), (alike, 0.5)):
        assert_allclose(side[:, n + 1 :], base, atol=1e-7)  # what the encoder gave is not touched
        assert_allclose(side[:, :n], weight * placed, atol=1e-6)
        assert_allclose(side[:, n], scale * filler if side is documents else 0, atol=1e-6)
    expected = base @ base.T - 2 * placed @ placed.T
    below = model.encode_query(TEXTS, strength=-2.0)
    assert_allclose(below @ documents.T, expected, atol=1e-5)
    assert_allclose(alike @ alike.T, queries @ documents.T, atol=1e-5)


def sure_of_all(folder: Path, **form: Any) -> SentenceTransformer:
    """Return an encoder whose classifier is certain of some texts and not of others."""
    model = with_axis(folder, ["a", "b", "c"], **form)
    axis: Any = model[-1]
    with torch.no_grad():
        axis.head.weight.mul_(200)
    return model


@pytest.mark.parametrize("scale", [0.1, 0.25, 1.0])
def test_documents_have_one_length_and_all_similarities_rank_alike(
    tiny_model: Path, scale: float
) -> None:
    model = sure_of_all(tiny_model, scale=scale)
    documents = model.encode_document(TEXTS).astype(np.float64)
    lengths = np.linalg.norm(documents, axis=1)
    assert_allclose(lengths, math.sqrt(1 + scale**2), atol=1e-6)
    other = sure_of_all(tiny_model, scale=0.5)
    for strength in (-1.0, 0.0, 0.25, 1.0):
        queries = model.encode_query(TEXTS, strength=strength).astype(np.float64)
        products = queries @ documents.T
        same = other.encode_query(TEXTS, strength=strength) @ other.encode_document(TEXTS).T
        assert_allclose(products, same, atol=1e-5)  # whatever the scale
        cosines = products / np.outer(np.linalg.norm(queries, axis=1), lengths)
        distances = np.linalg.norm(queries[:, None] - documents, axis=2)
        for ours, theirs in zip(products, [*cosines], strict=True):
            assert np.array_equal(ours.argsort(), theirs.argsort())
        for ours, theirs in zip(products, distances, strict=True):
            assert np.all(np.diff(ours[theirs.argsort()]) < 1e-6)


def test_the_axis_cuts_the_vector_and_keeps_itself(tiny_model: Path, tmp_path: Path) -> None:
    model = sure_of_all(tiny_model)
    whole = model.encode_document(TEXTS)
    axis: Any = model[-1]
    axis.truncate_dim = 8
    documents, queries = model.encode_document(TEXTS), model.encode_query(TEXTS, strength=0.5)
    kept = whole[:, 4:12] / np.linalg.norm(whole[:, 4:12], axis=1, keepdims=True)
    assert_allclose(documents, np.hstack([whole[:, :4], kept]), atol=1e-6)
    assert_allclose(np.linalg.norm(documents, axis=1), math.sqrt(1 + SCALE**2), atol=1e-6)
    model.save_pretrained(str(tmp_path), create_model_card=False)
    encoder = load_encoder(str(tmp_path))
    embedded = Embedder().embed(at_strength(encoder, 0.5), TEXTS)
    ours = embedded.queries(TEXTS).vectors @ embedded.sources(TEXTS).vectors.T
    assert_allclose(ours, queries @ documents.T, atol=1e-6)
    axis.truncate_dim = None
    assert SentenceTransformerEncoder(model, name="x").id.weights != encoder.id.weights
    for wrong in (0, 33):
        axis.truncate_dim = wrong
        with pytest.raises(
            InputError, match=f"must be from 1 to the encoder's 32 dimensions, got {wrong}"
        ):
            model.encode_document(TEXTS)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_is_above_0(scale: float) -> None:
    with pytest.raises(InputError, match=f"`scale` must be a number above 0, got {scale}"):
        Axis(["a", "b"], 32, scale=scale)


def test_a_strength_is_a_number_and_below_0_has_two_sides(tiny_model: Path) -> None:
    model = with_axis(tiny_model, ["bad", "good"])
    with pytest.raises(
        InputError, match="must be at least 0 for `encode`, got -1; use encode_query"
    ):
        model.encode(TEXTS, strength=-1.0)
    with pytest.raises(InputError, match="`strength` must be a finite number, got nan"):
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
def test_an_encoder_whose_vectors_are_cut_after_the_axis_is_refused(
    saved: Path, dimension: int
) -> None:
    """An axis at the end would be cut off; one in front would lie beside sources of any length."""
    file = saved / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncate_dim": dimension}))
    said = (
        f"truncate_dim shortens vectors .*, got {dimension}; remove .*truncate_dim = {dimension}`"
    )
    with pytest.raises(InputError, match=f"{re.escape(str(file))}: {said}"):
        load_encoder(str(saved))
    cut = SentenceTransformer(str(saved), device="cpu", trust_remote_code=True)
    assert cut.encode(TEXTS).shape == (len(TEXTS), dimension)
    with pytest.raises(InputError, match=f"the encoder 'in memory': {said}"):
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


def axis_upon(base: SentenceTransformerEncoder, folder: Path) -> str:
    """Save a base with an axis as training does, with a record of the base, and load it."""
    model = base.model
    write_base(model, Base("base", base.id))
    if not isinstance(model[-1], Normalize):
        model.append(Normalize())
    torch.manual_seed(7)
    model.append(Axis(["bad", "good"], 32).eval())
    model.similarity_fn_name = "dot"
    model.save_pretrained(str(folder), create_model_card=False)
    return str(folder)


@pytest.fixture(params=["without Normalize", "with Normalize", "dot", "plain transformer"])
def base_folder(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    if request.param == "plain transformer":
        return tiny_model.with_name("tiny-bert")
    model = SentenceTransformer(str(tiny_model), device="cpu")
    if request.param != "without Normalize":
        model.append(Normalize())
    model.similarity_fn_name = "dot" if request.param == "dot" else "cosine"
    model.save_pretrained(str(tmp_path / "base"), create_model_card=False)
    return tmp_path / "base"


@pytest.mark.parametrize("first", ["base", "axis"])
def test_a_base_and_its_axis_share_their_stored_vectors(
    base_folder: Path, tmp_path: Path, first: str
) -> None:
    encoders = {"base": load_encoder(str(base_folder))}
    trained = load_encoder(str(base_folder))
    assert isinstance(trained, SentenceTransformerEncoder)
    encoders["axis"] = load_encoder(axis_upon(trained, tmp_path / "axis"))
    alone = {name: Embedder().embed(encoder, TEXTS) for name, encoder in encoders.items()}
    second = "axis" if first == "base" else "base"
    with EmbeddingStore(tmp_path / "store") as store:
        for name, n_encoded in ((first, len(alone[first])), (second, 0)):
            done: list[int] = []
            embedded = Embedder(store).embed(encoders[name], TEXTS, done.append)
            assert embedded.usage.n_encoded == n_encoded
            assert embedded.encoder == encoders[name].id
            assert sum(done) == len(embedded)
            for side in ("queries", "sources", "vectors"):
                ours, expected = (
                    getattr(each, side)(TEXTS).vectors for each in (embedded, alone[name])
                )
                assert np.array_equal(ours, expected)
        (stored,) = store.usage()
        assert (stored.digest, stored.name) == (encoders["base"].id.digest, base_folder.name)


@pytest.mark.parametrize(
    "options",
    [
        EncoderOptions(prompt="good "),
        EncoderOptions(max_tokens=5),
        EncoderOptions(dtype="bfloat16"),
        EncoderOptions(backend="onnx"),
    ],
    ids=["prompt", "max_tokens", "dtype", "backend"],
)
def test_a_base_is_shared_under_the_same_options(
    base_folder: Path, tmp_path: Path, options: EncoderOptions
) -> None:
    for package in PACKAGES[options.backend]:
        pytest.importorskip(package, reason=f"needs {package}, of the extra `backends`")
    trained, base = load_encoder(str(base_folder)), load_encoder(str(base_folder), options)
    assert isinstance(trained, SentenceTransformerEncoder)
    axis = load_encoder(axis_upon(trained, tmp_path / "axis"), options)
    assert isinstance(axis, SentenceTransformerEncoder)
    assert axis.base is not None
    # In bfloat16 the recorded digest of float32 weights does not say which modules are the base.
    assert isinstance(base, SentenceTransformerEncoder)
    ends_in_norm = isinstance(base.model[-1], Normalize)
    is_shared = options.dtype == "float32" or ends_in_norm
    assert (axis.base.id.digest == base.id.digest) == is_shared
    store = MemoryStore(TEXTS)
    shared = Embedder(store).embed(axis, TEXTS).vectors(TEXTS).vectors
    assert np.array_equal(shared, Embedder().embed(axis, TEXTS).vectors(TEXTS).vectors)


def test_a_changed_base_has_stored_vectors_of_its_own(tiny_model: Path, tmp_path: Path) -> None:
    trained = load_encoder(str(tiny_model))
    assert isinstance(trained, SentenceTransformerEncoder)
    folder = axis_upon(trained, tmp_path / "axis")
    transformer: Any = trained.model[0]
    with torch.no_grad():
        transformer.auto_model.embeddings.word_embeddings.weight.mul_(1.5)
    trained.model.save_pretrained(folder, create_model_card=False)
    encoder = load_encoder(folder)
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert encoder.base is not None
    assert encoder.base.id.name == "axis without its axis"
    store = MemoryStore(TEXTS)
    Embedder(store).embed(load_encoder(str(tiny_model)), TEXTS)
    embedded = Embedder(store).embed(encoder, TEXTS)
    assert embedded.usage.n_encoded == len(embedded)
    alone = Embedder().embed(encoder, TEXTS)
    assert np.array_equal(embedded.vectors(TEXTS).vectors, alone.vectors(TEXTS).vectors)


def test_a_tower_and_an_encoder_without_an_axis_use_no_other_vectors(tiny_model: Path) -> None:
    towered = SentenceTransformerEncoder(with_axis(tiny_model, ["a", "b"], tower=True), name="x")
    plain = load_encoder(str(tiny_model))
    assert isinstance(plain, SentenceTransformerEncoder)
    assert (towered.base, plain.base) == (None, None)


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
    with pytest.raises(InputError, match="`strength` must be a finite number, got inf"):
        at_strength(load_encoder(str(saved)), math.inf)


def test_an_axis_takes_no_sides_and_no_compression(saved: Path) -> None:
    changed: dict[str, Any] = {"sides": "query", "truncate_dim": 3, "quantize": "int8"}
    for option, value in changed.items():
        with pytest.raises(InputError, match=f"'axis' has an axis, so .*`{option}`"):
            load_encoder(str(saved), EncoderOptions(**{option: value}))
