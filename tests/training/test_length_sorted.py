"""Encoding sorted by length: the same embeddings, loss and gradients as the plain way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.data_collator import BaseDataCollator
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from polarity_bench.training.examples import COLUMNS
from polarity_bench.training.recipes.margins.length_sorted import (
    BFLOAT16_CHUNK_TOKENS,
    CHUNK_TOKENS,
    LengthSortedLoss,
    encode_sorted,
)
from polarity_bench.training.recipes.margins.losses import LOSSES, Loss

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *"abcdefghijklmnop"]

Features = dict[str, Any]


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A BERT of two layers with random weights, in eval mode: no dropout."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = word_tokenizer()
    ends = [(word, WORDS.index(word)) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    transformer = Transformer(str(folder), max_seq_length=16)
    model = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    model.eval()
    return model


def some_texts(seed: int, count: int) -> list[str]:
    """Of 1 to 20 words, so that some are cut at the model's 16 tokens."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 21, size=count)
    return [" ".join(generator.choice(WORDS[5:], size=length)) for length in lengths]


def features_of(model: SentenceTransformer, texts: Sequence[str]) -> Features:
    found: Features = dict(model.preprocess(list(texts)))
    return found


def plainly(model: Any, columns: list[Features]) -> list[Tensor]:
    return [model(dict(features))["sentence_embedding"] for features in columns]


def chunks(columns: list[Features], limit: int) -> list[tuple[int, int]]:
    """Return the shape of each chunk, counted text by text."""
    masks = [row for features in columns for row in features["attention_mask"]]
    shapes: list[tuple[int, int]] = []
    for length in sorted((int(mask.sum()) for mask in masks), reverse=True):
        n_texts, longest = shapes[-1] if shapes else (0, 0)
        if shapes and (n_texts + 1) * longest <= limit:
            shapes[-1] = (n_texts + 1, longest)
        else:
            shapes.append((1, length))
    return shapes


class Watched(nn.Module):
    """Passes features on, and remembers the shapes that went through."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, features: Features) -> Any:
        self.shapes.append(tuple(features["input_ids"].shape))
        return self.inner(features)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 5])
@pytest.mark.parametrize("chunk_tokens", [1, 16, 60, CHUNK_TOKENS, 2**31])
def test_embeddings_are_those_of_the_plain_way(
    tiny: SentenceTransformer, n_columns: int, chunk_tokens: int
) -> None:
    columns = [features_of(tiny, some_texts(seed, 7)) for seed in range(n_columns)]
    with torch.no_grad():
        found = encode_sorted(tiny, columns, chunk_tokens)
        wanted = plainly(tiny, columns)
    assert len(found) == n_columns
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_columns_of_differing_sizes_come_back_apart(tiny: SentenceTransformer) -> None:
    columns = [features_of(tiny, some_texts(1, 2)), features_of(tiny, some_texts(2, 5))]
    with torch.no_grad():
        found = encode_sorted(tiny, columns, chunk_tokens=40)
    assert [tuple(rows.shape) for rows in found] == [(2, 32), (5, 32)]
    for ours, theirs in zip(found, plainly(tiny, columns), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_a_chunk_is_as_wide_as_its_longest_text(tiny: SentenceTransformer) -> None:
    """Of 1, 2, 4 and 8 words in two columns, with two special tokens each."""
    watched = Watched(tiny)
    columns = [features_of(tiny, ["a", "a b c d e f g h"]), features_of(tiny, ["b a", "d c b a"])]
    with torch.no_grad():
        encode_sorted(watched, columns, chunk_tokens=20)
    assert watched.shapes == [(2, 10), (2, 4)]


@pytest.mark.parametrize(
    ("on_gpu", "bfloat16", "limit"),
    [
        (False, False, CHUNK_TOKENS),
        (False, True, BFLOAT16_CHUNK_TOKENS),
        (True, False, 2**31),
    ],
)
def test_a_cpu_takes_chunks_and_a_gpu_all_at_once(
    tiny: SentenceTransformer, on_gpu: bool, bfloat16: bool, limit: int
) -> None:
    watched = Watched(tiny)
    loss = LengthSortedLoss(LOSSES["triplet"]().build(watched), on_gpu=on_gpu, bfloat16=bfloat16)
    columns = [features_of(tiny, some_texts(seed, 80)) for seed in range(3)]
    with torch.no_grad():
        loss(columns, None)
    assert watched.shapes == chunks(columns, limit)
    assert len(watched.shapes) > 1 or on_gpu


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.name)
def test_loss_and_gradients_are_those_of_the_plain_loss(
    tiny: SentenceTransformer, kind: type[Loss]
) -> None:
    """Through the trainer's own collator: what it adds to the tokens must not stop the sorting."""
    b = 24
    names = COLUMNS[kind.examples]
    texts = [some_texts(seed, b) for seed, _ in enumerate(names)]
    rows: list[dict[str, Any]] = [
        {**dict(zip(names, row, strict=True)), "label": i % 2}
        for i, row in enumerate(zip(*texts, strict=True))
    ]
    batch = BaseDataCollator(preprocess_fn=tiny.preprocess)(rows)
    columns = [
        {k[len(name) + 1 :]: v for k, v in batch.items() if k.startswith(f"{name}_")}
        for name in names
    ]
    watched = Watched(tiny)
    plain = kind().build(tiny)
    sorted_by_length = LengthSortedLoss(kind().build(watched))

    def gradients(compute: Callable[..., Tensor]) -> tuple[float, list[Tensor]]:
        loss = compute([dict(features) for features in columns], batch["label"])
        found = torch.autograd.grad(loss, list(tiny.parameters()), allow_unused=True)
        return loss.item(), [gradient for gradient in found if gradient is not None]

    plain_loss, wanted = gradients(plain)
    loss, found = gradients(sorted_by_length)
    assert watched.shapes == chunks(columns, CHUNK_TOKENS)
    assert loss == pytest.approx(plain_loss, rel=1e-5, abs=1e-6)
    assert len(found) == len(wanted) > 10
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_its_model_is_that_of_its_loss(tiny: SentenceTransformer) -> None:
    assert LengthSortedLoss(LOSSES["mnrl"]().build(tiny)).model is tiny


# What cannot be sorted goes the plain way


class Noted(nn.Module):
    """A loss that says which way it was called."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.ways: list[str] = []

    def forward(self, columns: list[Features], labels: Tensor | None) -> Tensor:
        self.ways.append("plain")
        return self._mean([self.model(dict(f))["sentence_embedding"] for f in columns])

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None
    ) -> Tensor:
        self.ways.append("sorted")
        return self._mean(embeddings)

    def _mean(self, embeddings: list[Tensor]) -> Tensor:
        return torch.cat(embeddings).mean()


def way(model: nn.Module, columns: list[Features]) -> str:
    loss = Noted(model)
    with torch.no_grad():
        LengthSortedLoss(loss)(columns, None)
    (found,) = loss.ways
    return found


def test_what_the_models_own_tokenizer_gives_is_sorted(tiny: SentenceTransformer) -> None:
    columns = [features_of(tiny, some_texts(seed, 5)) for seed in range(2)]
    assert way(tiny, columns) == "sorted"


@pytest.fixture
def static() -> SentenceTransformer:
    module = StaticEmbedding(word_tokenizer(), embedding_dim=8)
    return SentenceTransformer(modules=[module], device="cpu")


@pytest.mark.parametrize("kind", LOSSES.values(), ids=lambda kind: kind.name)
def test_a_static_encoder_encodes_all_columns_in_one_call(
    static: SentenceTransformer, kind: type[Loss]
) -> None:
    """Its ids are one flat row for all texts, with offsets: loss and gradient stay as they are."""
    names = COLUMNS[kind.examples]
    columns = [features_of(static, some_texts(seed, 6)) for seed, _ in enumerate(names)]
    columns[0] = features_of(static, [*some_texts(9, 5), ""])  # a text of no token
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    calls: list[int] = []
    hook = static[0].register_forward_hook(lambda *_: calls.append(1))

    def gradients(loss: nn.Module) -> tuple[float, Tensor]:
        found = loss([dict(features) for features in columns], labels)
        (gradient,) = torch.autograd.grad(found, list(static.parameters()))
        return found.item(), gradient

    plain_loss, wanted = gradients(kind().build(static))
    assert len(calls) == len(names)
    calls.clear()
    loss, gradient = gradients(LengthSortedLoss(kind().build(static)))
    hook.remove()
    assert len(calls) == 1
    assert columns[0]["input_ids"].ndim == 1
    assert loss == pytest.approx(plain_loss, rel=1e-6)
    assert wanted.abs().max() > 0
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-7)


def test_padding_on_the_left_is_not_sorted(tiny: SentenceTransformer) -> None:
    columns = [features_of(tiny, ["a b c", "a"]) for _ in range(2)]
    for key, value in columns[1].items():
        if isinstance(value, Tensor):
            columns[1][key] = value.flip(1)
    assert way(tiny, columns) == "plain"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attention_mask": None}, "no mask"),
        ({"attention_mask": torch.zeros((2, 4), dtype=torch.int64)}, "a text without tokens"),
        ({"prompt_length": 3}, "one column has a prompt"),
        ({"modality": "image"}, "columns of two kinds"),
        ({"pixels": torch.zeros((2, 3))}, "a tensor that is not of tokens"),
    ],
)
def test_what_is_not_tokens_alike_is_not_sorted(changes: Features, why: str) -> None:
    class Constant(nn.Module):
        def forward(self, features: Features) -> Features:
            return {"sentence_embedding": torch.ones((len(features["input_ids"]), 2))}

    def column() -> Features:
        ones = torch.ones((2, 4), dtype=torch.int64)
        return {"input_ids": ones, "attention_mask": ones, "modality": "text"}

    assert way(Constant(), [column(), column()]) == "sorted"
    assert way(Constant(), [column(), column() | changes]) == "plain", why
    assert way(Constant(), [column() | changes, column()]) == "plain", why


def test_remarks_on_a_column_reach_the_model() -> None:
    """As the length of a prompt does, which pooling may leave out."""
    seen: list[Features] = []

    class Noting(nn.Module):
        def forward(self, features: Features) -> Features:
            seen.append(features)
            return {"sentence_embedding": features["input_ids"].sum(dim=1, keepdim=True).float()}

    mask = torch.tensor([[1, 0], [1, 1]])
    column = {"input_ids": mask, "attention_mask": mask, "prompt_length": 2}
    (found,) = encode_sorted(Noting(), [column], chunk_tokens=1)
    assert [features["prompt_length"] for features in seen] == [2, 2]
    assert [tuple(features["input_ids"].shape) for features in seen] == [(1, 2), (1, 1)]
    assert found.tolist() == [[1.0], [2.0]]
