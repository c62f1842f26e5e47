"""Pooling without the first token: what it computes, that plain sentence-transformers loads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from standins import word_tokenizer

from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.training.recipes.scl.pooling import PoolingKind, repool

TEXTS = ["The soup was sweet and clean.", "A calm and solid answer .", "cold"]


@pytest.fixture
def model(tiny_model: Path) -> SentenceTransformer:
    """With a Normalize at its end, as MiniLM has it."""
    found = SentenceTransformer(str(tiny_model), device="cpu")
    found.append(Normalize())
    return found.eval()


def kinds(model: SentenceTransformer) -> list[str]:
    return [type(module).__name__ for module in model]


def by_hand(model: SentenceTransformer, text: str, skipped: int) -> torch.Tensor:
    """The mean of the last hidden states of one text alone, without padding."""
    with torch.no_grad():
        states: torch.Tensor = model[0](model.preprocess([text]))["token_embeddings"][0]
    return states[skipped:].mean(dim=0)


@pytest.mark.parametrize(("kind", "skipped"), [("mean-without-first", 1), ("mean", 0)])
def test_it_is_the_mean_of_the_tokens_and_padding_does_not_count(
    model: SentenceTransformer, kind: PoolingKind, skipped: int
) -> None:
    repool(model, kind)
    found = model.encode(TEXTS, convert_to_tensor=True)
    wanted = torch.stack([by_hand(model, text, skipped) for text in TEXTS])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    assert (found.norm(dim=1) - 1).abs().min() > 0.1


def test_plain_sentence_transformers_loads_what_is_saved(
    model: SentenceTransformer, tmp_path: Path
) -> None:
    repool(model, "mean-without-first")
    model.save_pretrained(str(tmp_path), create_model_card=False)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    assert kinds(loaded) == ["Transformer", "WordWeights", "Pooling"]
    assert (loaded.encode(TEXTS) == model.encode(TEXTS)).all()


def test_our_loader_takes_it_and_tells_it_from_plain_pooling(
    model: SentenceTransformer, tmp_path: Path
) -> None:
    repool(model, "mean-without-first")
    model.save_pretrained(str(tmp_path / "one"), create_model_card=False)
    repool(model, "mean")
    model.save_pretrained(str(tmp_path / "two"), create_model_card=False)
    options = EncoderOptions(device="cpu")
    one, again, two = (load_encoder(str(tmp_path / n), options) for n in ("one", "one", "two"))
    assert one.id.digest == again.id.digest != two.id.digest
    assert not (one.encode(TEXTS) == two.encode(TEXTS)).all()


def test_the_weights_of_words_are_not_trained(model: SentenceTransformer) -> None:
    n_trained = len([p for p in model.parameters() if p.requires_grad])
    repool(model, "mean-without-first")
    assert len([p for p in model.parameters() if p.requires_grad]) == n_trained


def test_pooling_anew_takes_the_place_of_what_was(model: SentenceTransformer) -> None:
    repool(model, "mean-without-first")
    once = model.encode(TEXTS)
    repool(model, "mean-without-first")
    assert kinds(model) == ["Transformer", "WordWeights", "Pooling"]
    assert (model.encode(TEXTS) == once).all()
    repool(model, "mean")
    assert kinds(model) == ["Transformer", "Pooling"]


def test_an_encoder_without_a_first_token_is_refused(model: SentenceTransformer) -> None:
    transformer = model[0]
    assert isinstance(transformer, Transformer)
    transformer.tokenizer.backend_tokenizer.post_processor = None
    with pytest.raises(InputError, match=r"`pooling` mean-without-first: .* no .CLS. token"):
        repool(model, "mean-without-first")
    repool(model, "mean")


def test_what_has_no_tokens_to_pool_is_refused() -> None:
    static = StaticEmbedding(word_tokenizer(), embedding_dim=8)
    with pytest.raises(InputError, match=r"`model` must be a transformer with pooling, got .*St"):
        repool(SentenceTransformer(modules=[static]), "mean")


def test_other_modules_stay(model: SentenceTransformer) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    model.insert(2, Dense(32, 8))
    repool(model, "mean-without-first")
    assert kinds(model) == ["Transformer", "WordWeights", "Pooling", "Dense"]
    assert isinstance(model[2], Pooling)
    assert model.encode(TEXTS).shape == (3, 8)
