"""Texts as tokens, made once, and what an encoder makes of them: a vector a text and a token.

The classifiers read more than sentence vectors: some of their losses read every token's last
hidden state. Texts are taken in order of their length in a few chunks, each padded to its own
longest, so that little of what is computed is padding.

Shapes: n texts, m tokens of all of them without padding, d dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from polarity_bench.progress import Progress
from polarity_bench.tasks.labelled import Text
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CHUNK_TEXTS = 16
"""Texts that go through the encoder at once: a CPU is as fast with few."""


@dataclass(frozen=True)
class TokenRows:
    """Texts as tokens.

    Attributes:
        ids: The tokens of each text, special ones among them, cut at the encoder's limit.
        types: Which text of a pair each token belongs to; None where the encoder does not ask.
        padding: The token that fills.
    """

    ids: Sequence[IntArray]
    types: Sequence[IntArray] | None
    padding: int

    def __len__(self) -> int:
        return len(self.ids)

    def features(self, rows: IntArray, device: str) -> dict[str, Tensor]:
        """Return some texts as the encoder takes them, padded on the right to their longest."""
        width = max(len(self.ids[row]) for row in rows)
        shape = (len(rows), width)
        ids = np.full(shape, self.padding, dtype=np.int64)
        mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for place, row in enumerate(rows):
            n_tokens = len(self.ids[row])
            ids[place, :n_tokens] = self.ids[row]
            mask[place, :n_tokens] = 1
            if self.types is not None:
                types[place, :n_tokens] = self.types[row]
        found = {"input_ids": ids, "attention_mask": mask}
        if self.types is not None:
            found["token_type_ids"] = types
        return {name: torch.from_numpy(array).to(device) for name, array in found.items()}


@dataclass(frozen=True)
class EncodedTexts:
    """What an encoder made of texts.

    Attributes:
        sentences: A vector for each text, in their order, (n, d).
        tokens: The last hidden state of each token, padding left out, (m, d).
        owners: Which text each token is of, (m,).
    """

    sentences: Tensor
    tokens: Tensor
    owners: Tensor


def tokenize(model: SentenceTransformer, texts: Sequence[Text], prompt: str = "") -> TokenRows:
    """Turn texts into tokens, each text with the prompt before it."""
    if not texts:
        return TokenRows([], None, 0)
    firsts = [prompt + (text if isinstance(text, str) else text[0]) for text in texts]
    seconds = [text[1] for text in texts if not isinstance(text, str)]
    found = model.tokenizer(
        firsts, seconds or None, truncation=True, max_length=model.max_seq_length
    )
    types = found.get("token_type_ids")
    return TokenRows(
        ids=[np.asarray(ids, dtype=np.int64) for ids in found["input_ids"]],
        types=None if types is None else [np.asarray(kind, dtype=np.int64) for kind in types],
        padding=int(model.tokenizer.pad_token_id or 0),
    )


def encode(
    model: SentenceTransformer, texts: TokenRows, rows: IntArray, *, chunk_texts: int = CHUNK_TEXTS
) -> EncodedTexts:
    """Encode some of the texts.

    Args:
        model: A transformer with pooling; in training mode or not, as it stands.
        texts: All of them.
        rows: Which.
        chunk_texts: How many go through the encoder at once.
    """
    device = str(model.device)
    order = np.argsort([-len(texts.ids[row]) for row in rows], kind="stable")
    sentences, tokens, owners = [], [], []
    for start in range(0, len(rows), chunk_texts):
        chunk = order[start : start + chunk_texts]
        features = texts.features(rows[chunk], device)
        made = model(features)
        filled = features["attention_mask"].bool()
        sentences.append(made["sentence_embedding"])
        tokens.append(made["token_embeddings"][filled])
        places = torch.from_numpy(chunk).to(device)
        owners.append(places[:, None].expand_as(filled)[filled])
    back = torch.from_numpy(np.argsort(order)).to(device)
    return EncodedTexts(torch.cat(sentences)[back], torch.cat(tokens), torch.cat(owners))


def encode_all(
    model: SentenceTransformer, texts: TokenRows, progress: Progress = lambda _: None
) -> FloatArray:
    """Return the sentence vector of every text, without gradients, (n, d).

    They are taken in chunks of the longest first, the same whatever else is asked for.
    """
    found = np.empty((len(texts), model.get_embedding_dimension() or 0), dtype=np.float32)
    order = np.argsort([-len(ids) for ids in texts.ids], kind="stable")
    with torch.inference_mode():
        for start in range(0, len(texts), CHUNK_TEXTS):
            chosen = order[start : start + CHUNK_TEXTS]
            found[chosen] = encode(model, texts, chosen).sentences.float().cpu().numpy()
            progress(len(chosen))
    return found
