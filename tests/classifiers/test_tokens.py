"""Texts as tokens: what sentence-transformers computes, however they are put together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sentence_transformers import SentenceTransformer
from standins import SOURCES, tiny_encoder
from tokenizers.processors import TemplateProcessing

from polarity_bench.classifiers.tokens import encode, encode_all, tokenize

TEXTS = [text for text, _ in SOURCES[:9]] + ["", "Cold.", " ".join(["warm"] * 40)]
PAIRS = [("The a was warm.", "The b was cold."), ("Cold.", "What a warm and honest a.")]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> SentenceTransformer:
    return SentenceTransformer(str(tiny_model), device="cpu")


@pytest.mark.parametrize("chunk_texts", [1, 5, 100])
def test_sentences_are_those_of_sentence_transformers(
    model: SentenceTransformer, chunk_texts: int
) -> None:
    rows = np.random.default_rng(0).permutation(len(TEXTS))[:8]
    with torch.inference_mode():
        made = encode(model, tokenize(model, TEXTS), rows, chunk_texts=chunk_texts)
    expected = model.encode([TEXTS[row] for row in rows])
    assert_allclose(made.sentences.numpy(), expected, atol=1e-6)


def test_all_are_those_of_sentence_transformers(model: SentenceTransformer) -> None:
    many = TEXTS * 3  # more than a chunk
    done: list[int] = []
    found = encode_all(model, tokenize(model, many), done.append)
    assert_allclose(found, model.encode(many), atol=1e-6)
    assert sum(done) == len(many)


def test_a_prompt_stands_before_every_text(model: SentenceTransformer) -> None:
    found = encode_all(model, tokenize(model, TEXTS[:3], "The soup was "))
    assert_allclose(found, model.encode(TEXTS[:3], prompt="The soup was "), atol=1e-6)
    assert not np.allclose(found, model.encode(TEXTS[:3]), atol=1e-3)


@pytest.mark.parametrize("chunk_texts", [1, 4, 100])
def test_tokens_are_those_of_each_text_by_itself(
    model: SentenceTransformer, chunk_texts: int
) -> None:
    with torch.inference_mode():
        rows = np.array([10, 3, 11, 0, 9])
        made = encode(model, tokenize(model, TEXTS), rows, chunk_texts=chunk_texts)
    assert made.tokens.shape[0] == made.owners.shape[0]
    for place, row in enumerate(rows):
        expected = model.encode(TEXTS[row], output_value="token_embeddings").numpy()
        own = made.tokens[made.owners == place].numpy()
        assert_allclose(own, expected, atol=1e-6)
    assert len(made.tokens[made.owners == 2]) == 16  # cut at the encoder's limit


def test_pairs_are_told_apart_by_the_types_of_their_tokens(tiny_model: Path) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    model.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    rows = tokenize(model, PAIRS)
    features = model.tokenizer(
        [first for first, _ in PAIRS],
        [second for _, second in PAIRS],
        padding=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        expected = model(dict(features))["sentence_embedding"].numpy()
    found = encode_all(model, rows)
    assert_allclose(found, expected, atol=1e-6)
    assert not np.allclose(found, encode_all(model, replace(rows, types=None)), atol=1e-3)
    assert rows.types is not None
    for types, (first, second) in zip(rows.types, PAIRS, strict=True):
        n_first, n_second = (len(tokenize(model, [text]).ids[0]) for text in (first, second))
        assert types.tolist() == [0] * n_first + [1] * (n_second - 1)


def test_a_batch_has_no_padding_but_to_its_own_longest(model: SentenceTransformer) -> None:
    rows = tokenize(model, TEXTS)
    features = rows.features(np.array([10, 9]), "cpu")
    lengths = sorted(len(rows.ids[row]) for row in (9, 10))
    assert lengths == [2, 4]
    assert features["input_ids"].shape == (2, 4)
    assert features["attention_mask"].sum().item() == 6
    assert features["input_ids"][features["attention_mask"] == 0].sum().item() == 0


def test_an_encoder_whose_padding_is_another_token_pads_by_it(tmp_path: Path) -> None:
    model = SentenceTransformer(str(tiny_encoder(tmp_path / "tiny")), device="cpu")
    model.tokenizer.pad_token = "[MASK]"
    features = tokenize(model, TEXTS).features(np.array([10, 9]), "cpu")
    filled = features["input_ids"][features["attention_mask"] == 0]
    assert filled.tolist() == [model.tokenizer.mask_token_id] * 2
