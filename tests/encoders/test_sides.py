"""Asymmetric encoders: queries and sources by the right side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from standins import Bench, HashEncoder

from polarity_bench import evaluate, load_task
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.base import Sides
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.tasks.types.base import Task
from polarity_bench.training.job import Job
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.train import load_base

BOTH: Sides = "query-document"


@pytest.fixture(scope="session")
def router(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a router of two transformers, with a prompt for each side."""
    folder = tmp_path_factory.mktemp("models") / "router"
    bert = str(tiny_model.with_name("tiny-bert"))

    def route() -> list[Any]:
        return [Transformer(bert, max_seq_length=16), Pooling(32, "mean")]

    parts = {"query": route(), "document": [*route(), Normalize()]}
    prompts = {"query": "What a ", "document": "The "}
    model = SentenceTransformer(modules=[Router(parts, "query")], device="cpu", prompts=prompts)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture
def mini(task_dir: Path) -> Task:
    return load_task("mini", task_dir=task_dir)


def test_a_router_encodes_queries_and_sources_by_their_sides(router: Path, mini: Task) -> None:
    encoder = load_encoder(str(router), EncoderOptions(device="cpu"))
    assert encoder.id.label == "router (prompt 'What a  / The ', sides query-document)"
    queries, sources = mini.texts_by_side
    whole = SentenceTransformer(str(router), device="cpu")
    embedded = Embedder().embed(encoder, mini.texts)
    for ours, expected in [
        (embedded.queries(queries), whole.encode_query(list(queries))),
        (embedded.sources(sources), whole.encode_document(list(sources))),
        (embedded.vectors(queries), whole.encode_document(list(queries))),
    ]:
        np.testing.assert_allclose(ours.vectors, expected, atol=1e-5)


def test_each_text_is_encoded_only_on_its_side(router: Path, mini: Task) -> None:
    encoder = load_encoder(str(router), EncoderOptions(device="cpu"))
    embedded = Embedder().embed_sides(encoder, *mini.texts_by_side)
    assert (embedded.usage.n_texts, embedded.usage.n_encoded) == (32, 32)
    assert Embedder().embed(encoder, mini.texts).usage.n_encoded == 64
    ranked = evaluate(encoder, mini)
    assert ranked.flat == evaluate(encoder, mini, embedder=Embedder()).flat
    both = mini.score(Embedder().embed(encoder, mini.texts), None)
    assert ranked.scores[mini.main_score].mean == pytest.approx(
        both.scores[mini.main_score].mean, abs=1e-6
    )
    with pytest.raises(KeyError, match="is not one of the 24 embedded texts"):
        embedded.vectors(mini.texts_by_side[0])


def test_a_part_for_another_process_has_its_own_texts_of_both_sides(router: Path) -> None:
    encoder = load_encoder(str(router))
    whole = Embedder().embed_sides(encoder, ["good", "bad"], ["fine", "poor", "bad"])
    part = whole.part(["good", "poor"])
    assert [*part._rows] == ["poor"]
    assert part._by_queries is not None
    assert [*part._by_queries._rows] == ["good"]
    np.testing.assert_array_equal(part.queries(["good"]).vectors, whole.queries(["good"]).vectors)
    np.testing.assert_array_equal(part.sources(["poor"]).vectors, whole.sources(["poor"]).vectors)
    pairs = whole.part(["fine", "poor"])  # of a task without queries
    np.testing.assert_array_equal(pairs.vectors(["poor"]).vectors, whole.vectors(["poor"]).vectors)


def test_the_default_of_a_model_with_prompts_is_symmetric(sentence_bert: Path) -> None:
    plain = load_encoder(str(sentence_bert))
    assert (plain.id.sides, plain.id.prompt) == (None, None)
    sided = load_encoder(str(sentence_bert), EncoderOptions(sides=BOTH))
    assert (sided.id.sides, sided.id.prompt) == (BOTH, "query:  / the ")
    assert sided.id.weights == plain.id.weights
    texts = ["a good film", "a bad film"]
    whole = SentenceTransformer(str(sentence_bert), device="cpu")
    embedded = Embedder().embed(sided, texts)
    np.testing.assert_allclose(
        embedded.queries(texts).vectors, whole.encode_query(texts), atol=1e-6
    )
    expected = whole.encode_document(texts)
    np.testing.assert_allclose(embedded.sources(texts).vectors, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("sides", "prompt", "expected"),
    [
        ("query", None, "query: "),
        ("document", None, "the "),
        ("query", "very ", "very "),
        (BOTH, "very ", "very "),
        (BOTH, "", None),
    ],
)
def test_one_side_or_one_prompt(
    sentence_bert: Path, sides: Sides, prompt: str | None, expected: str | None
) -> None:
    encoder: Any = load_encoder(str(sentence_bert), EncoderOptions(sides=sides, prompt=prompt))
    assert (encoder.id.sides, encoder.id.prompt) == (sides, expected)
    texts = ["a good film", "not"]
    plain = load_encoder(str(sentence_bert), EncoderOptions(prompt=expected or ""))
    np.testing.assert_allclose(encoder.encode(texts), plain.encode(texts), atol=1e-6)
    for encode in (encoder.model.encode_query, encoder.model.encode_document):
        np.testing.assert_allclose(encode(texts), plain.encode(texts), atol=1e-6)


def test_a_run_records_its_sides(bench: Bench, task_dir: Path, sentence_bert: Path) -> None:
    run = ["run", "--tasks", "mini", "--task-dir", task_dir, "--model", sentence_bert]
    done = bench(*run, "--sides", BOTH)
    assert done.code == 0, done.err
    assert "tiny (prompt 'query:  / the ', sides query-document)" in done.out
    assert "32 texts, 32 distinct, 32 encoded" in done.err
    again = bench(*run, "--sides", BOTH, "--overwrite")
    assert again.out == done.out
    assert "0 encoded" in again.err
    # The side of documents has its vectors in the store, but those of queries are of another side.
    assert "8 encoded in" in bench(*run, "--sides", "document").err
    assert "32 encoded in" in bench(*run).err
    assert len(list(Path("results/tiny").iterdir())) == 3


def test_encoders_without_sides(tiny_model: Path) -> None:
    with pytest.raises(InputError, match=r"the encoder 'random' takes no `sides`; remove"):
        load_encoder("random", EncoderOptions(sides=BOTH))
    with pytest.raises(InputError, match=r"unknown `sides` 'queries'"):
        EncoderOptions(sides="queries")  # type: ignore[arg-type]
    embedded = Embedder().embed_sides(HashEncoder(), ["a"], ["b"])
    assert len(embedded.vectors(["a", "b"])) == 2


def test_training_takes_no_sides_and_no_compression(router: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a router encodes queries and documents by different"):
        load_base(str(router))
    changed: dict[str, Any] = {"truncate_dim": 3, "quantize": "int8", "sides": "query"}
    for option, value in changed.items():
        with pytest.raises(InputError, match=f"`options`: `{option}` is only for evaluation"):
            Job(RECIPES["margins"](), "a", "b", tmp_path, EncoderOptions(**{option: value}))
