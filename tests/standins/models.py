"""A BERT with random weights, small enough to be created, trained and loaded in a second."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from standins.tasks import QUERIES, SOURCES

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = sorted(set(re.findall(r"\w+|[.,]", " ".join(t.lower() for t, _ in [*SOURCES, *QUERIES]))))
"""The words of the task `mini`."""


def word_tokenizer(words: Sequence[str] = WORDS, *, ends: bool = False) -> Any:
    """Return a lower-casing word tokenizer; with `ends`, it adds [CLS] and [SEP]."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    if ends:
        added = [(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=added)
    return tokenizer


def tiny_bert(
    folder: Path, words: Sequence[str] = WORDS, *, n_layers: int = 2, width: int = 32
) -> Path:
    """Save a plain transformer for up to 32 tokens, not a sentence-transformers folder."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    config = BertConfig(
        vocab_size=len(SPECIAL) + len(words),
        hidden_size=width,
        num_hidden_layers=n_layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=32,
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=word_tokenizer(words, ends=True),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=32,
    ).save_pretrained(folder)
    return folder


def tiny_encoder(
    folder: Path,
    words: Sequence[str] = WORDS,
    *,
    n_layers: int = 2,
    width: int = 32,
    max_tokens: int | None = 16,
    **options: Any,
) -> Path:
    """Save a sentence-transformers folder around `tiny_bert`, with mean pooling.

    Args:
        folder: Folder to write. The transformer is saved next to it, as `NAME-bert`.
        words: Words that the tokenizer knows.
        n_layers: Number of layers.
        width: Number of dimensions.
        max_tokens: Number of tokens at which texts are cut.
        options: Options of SentenceTransformer, such as `prompts` and `default_prompt_name`.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    bert = tiny_bert(folder.with_name(f"{folder.name}-bert"), words, n_layers=n_layers, width=width)
    modules = [Transformer(str(bert), max_seq_length=max_tokens), Pooling(width, "mean")]
    model = SentenceTransformer(modules=modules, device="cpu", **options)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder
