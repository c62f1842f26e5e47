"""Tokenization and encoding of texts for classifiers: vectors of texts and of tokens.

Some losses of classifiers need the last hidden state of every token, not only sentence vectors.
Texts are encoded in chunks, in order of length. Each chunk is padded to its longest text, so little
computation is spent on padding.

Shapes: n texts, m tokens of all texts without padding, d dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polarity_bench.progress import Progress
from polarity_bench.tasks.labelled import Text
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CHUNK_TEXTS = 16
"""Number of texts that are encoded at once. On a CPU, larger chunks are not faster."""


@dataclass(frozen=True)
class TokenRows:
    """Tokenized texts, or tokenized pairs of texts.

    Attributes:
        ids: Token ids of each text, including special tokens, truncated to the encoder's limit.
        types: Token types, which identify the first and the second text of a pair; None if the
            encoder does not use token types.
        padding: Id of the padding token.
    """

    ids: Sequence[IntArray]
    types: Sequence[IntArray] | None
    padding: int

    def __len__(self) -> int:
        return len(self.ids)

    def features(self, rows: IntArray, device: str) -> dict[str, Tensor]:
        """Return the encoder's input for a batch of texts, padded on the right.

        Args:
            rows: Positions of the texts in the batch.
            device: Device of the returned tensors.
        """

        def padded(values: Sequence[IntArray], padding: int = 0) -> Tensor:
            tensors = [torch.from_numpy(value) for value in values]
            return pad_sequence(tensors, batch_first=True, padding_value=padding).to(device)

        ids = [self.ids[row] for row in rows]
        mask = [np.ones_like(each) for each in ids]
        features = {"input_ids": padded(ids, self.padding), "attention_mask": padded(mask)}
        if self.types is not None:
            features["token_type_ids"] = padded([self.types[row] for row in rows])
        return features


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts and of their tokens, computed by one encoder.

    Attributes:
        sentences: Vector of each text, in the order of the texts, (n, d).
        tokens: Last hidden state of each token, without padding, (m, d).
        owners: Position of the text that each token belongs to, (m,).
    """

    sentences: Tensor
    tokens: Tensor
    owners: Tensor


def tokenize(model: SentenceTransformer, texts: Sequence[Text], prompt: str = "") -> TokenRows:
    """Tokenize texts, each preceded by the prompt.

    Args:
        model: Model with the tokenizer and the maximum length.
        texts: Texts, or pairs of texts; at least one.
        prompt: Text to insert before each text, or before the first text of each pair.
    """
    firsts = [prompt + (text if isinstance(text, str) else text[0]) for text in texts]
    seconds = [text[1] for text in texts if not isinstance(text, str)]
    encoded = model.tokenizer(
        firsts, seconds or None, truncation=True, max_length=model.max_seq_length
    )
    types = encoded.get("token_type_ids")
    return TokenRows(
        ids=[np.asarray(ids, dtype=np.int64) for ids in encoded["input_ids"]],
        types=None if types is None else [np.asarray(kind, dtype=np.int64) for kind in types],
        padding=int(model.tokenizer.pad_token_id or 0),
    )


def encode(
    model: SentenceTransformer, texts: TokenRows, rows: IntArray, *, chunk_texts: int = CHUNK_TEXTS
) -> EncodedTexts:
    """Encode some of the tokenized texts.

    Args:
        model: Transformer with pooling. The function does not change its training mode.
        texts: All tokenized texts.
        rows: Positions of the texts to encode.
        chunk_texts: Maximum number of texts that are encoded at once.
    """
    device = str(model.device)
    order = np.argsort([-len(texts.ids[row]) for row in rows], kind="stable")
    sentences, tokens, owners = [], [], []
    for start in range(0, len(rows), chunk_texts):
        chunk = order[start : start + chunk_texts]
        features = texts.features(rows[chunk], device)
        output = model(features)
        filled = features["attention_mask"].bool()
        sentences.append(output["sentence_embedding"])
        tokens.append(output["token_embeddings"][filled])
        places = torch.from_numpy(chunk).to(device)
        owners.append(places[:, None].expand_as(filled)[filled])
    in_order = torch.cat(sentences)[np.argsort(order)]
    return EncodedTexts(in_order, torch.cat(tokens), torch.cat(owners))


def encode_all(
    model: SentenceTransformer, texts: TokenRows, progress: Progress = lambda _: None
) -> FloatArray:
    """Return the sentence vector of every text, without gradients, (n, d).

    Texts are encoded in chunks of `CHUNK_TEXTS`, starting with the longest texts. The chunks depend
    on the texts only.

    Args:
        model: Transformer with pooling.
        texts: Tokenized texts.
        progress: Function that receives the number of texts in each finished chunk.
    """
    vectors = np.empty((len(texts), model.get_embedding_dimension() or 0), dtype=np.float32)
    order = np.argsort([-len(ids) for ids in texts.ids], kind="stable")
    with torch.inference_mode():
        for start in range(0, len(texts), CHUNK_TEXTS):
            chosen = order[start : start + CHUNK_TEXTS]
            vectors[chosen] = encode(model, texts, chosen).sentences.float().cpu().numpy()
            progress(len(chosen))
    return vectors
