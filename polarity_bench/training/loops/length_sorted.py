"""Encoding of a batch sorted by length, so that little computation is spent on padding.

The plain trainer pads each column of a batch to its longest text. Here all texts of the batch are
sorted by length and encoded in a few chunks, each padded to its own longest text. The embeddings
are then restored to their order before the loss sees them. Loss and gradients are the same except
for float rounding and the placement of dropout masks. The batch itself does not change, as it would
if examples were grouped by length. A static encoder, which does not pad, encodes all texts of a
batch at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.util import all_gather_with_grad
from torch import Tensor, nn

CHUNK_TEXTS = 16
"""Texts in a chunk on a CPU, where few at once are as fast; a GPU is fastest with all at once."""


class MeanLoss(nn.Module):
    """The mean of a pure function of embeddings, as a loss module for the trainer.

    Args:
        model: Maps features to `sentence_embedding`.
        function: Maps the columns' embeddings, (b, d) each, and the labels to one loss for each
            example, (b,).
    """

    def __init__(self, model: Any, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model = model
        self.function = function

    def forward(self, sentence_features: list[dict[str, Any]], labels: Tensor) -> Tensor:
        """Encode the columns and return the mean loss."""
        embeddings = [self.model(features)["sentence_embedding"] for features in sentence_features]
        return self.compute_loss_from_embeddings(embeddings, labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the mean loss of columns that are already encoded."""
        return self.function(*embeddings, labels).mean()


class LengthSortedLoss(nn.Module):
    """A loss whose texts are encoded sorted by length.

    Args:
        loss: A loss in the form of sentence-transformers with `compute_loss_from_embeddings`.
        on_gpu: Whether the model runs on a GPU, which encodes all texts at once.
        gather: Whether the loss is computed over the joined batches of all processes. The gradients
            are then those of one process with all these batches joined: each process computes the
            whole loss, its texts get the sum of all processes' gradients, and the trainer takes the
            mean over the processes.
    """

    def __init__(self, loss: nn.Module, *, on_gpu: bool = False, gather: bool = False) -> None:
        super().__init__()
        self.loss = loss
        self.gather = gather
        self.chunk_texts = 2**31 if on_gpu else CHUNK_TEXTS  # 2**31: no limit

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self.loss.model

    def forward(self, sentence_features: list[dict[str, Any]], labels: Tensor | None) -> Tensor:
        """Return the loss of a batch."""
        columns = list(sentence_features)
        loss: Any = self.loss
        if _are_bags(columns):
            embeddings = encode_joined(self.model, columns)
        elif _can_be_sorted(columns):
            embeddings = encode_sorted(self.model, columns, self.chunk_texts)
        elif self.gather:
            embeddings = [self.model(features)["sentence_embedding"] for features in columns]
        else:
            plain: Tensor = loss(columns, labels)
            return plain
        if self.gather:
            embeddings = list(map(all_gather_with_grad, embeddings))
            labels = None if labels is None else all_gather_with_grad(labels)
        computed: Tensor = loss.compute_loss_from_embeddings(embeddings, labels)
        return computed


def encode_joined(model: Any, columns: list[dict[str, Any]]) -> list[Tensor]:
    """Encode columns of token bags, the input of static encoders, in one call.

    The table of embeddings then has one gradient of its own size instead of one for each column.

    Args:
        model: Maps features to `sentence_embedding`.
        columns: The features of each column: `input_ids` of all its texts, (tokens,), and the start
            of each text, `offsets`, (b,).

    Returns:
        The embeddings of each column, (b, d) each.
    """
    n_before = 0
    offsets = []
    for features in columns:
        offsets.append(features["offsets"] + n_before)
        n_before += len(features["input_ids"])
    ids = torch.cat([features["input_ids"] for features in columns])
    joined = {**columns[0], "input_ids": ids, "offsets": torch.cat(offsets)}
    encoded = model(joined)["sentence_embedding"]
    return list(torch.split(encoded, [len(features["offsets"]) for features in columns]))


def encode_sorted(
    model: Any, columns: list[dict[str, Any]], chunk_texts: int = CHUNK_TEXTS
) -> list[Tensor]:
    """Encode tokenized columns, sorted by length across all of them.

    Args:
        model: Maps features to `sentence_embedding`.
        columns: The features of each column, tensors (b, tokens), padded on the right. Features
            that are not tensors, such as the modality, are equal in all columns and go with every
            chunk.
        chunk_texts: Texts that the model encodes at once.

    Returns:
        The embeddings of each column, (b, d) each.
    """
    width = max(features["input_ids"].shape[1] for features in columns)
    tokens = [key for key, value in columns[0].items() if isinstance(value, Tensor)]
    merged = {
        key: torch.cat([_padded(features[key], width) for features in columns]) for key in tokens
    }
    remarks = {key: value for key, value in columns[0].items() if key not in merged}
    lengths = merged["attention_mask"].sum(dim=1)
    order = torch.argsort(lengths, descending=True, stable=True)
    encoded = []
    for rows in torch.split(order, chunk_texts):
        longest = int(lengths[rows[0]])
        chunk = {key: values[rows, :longest] for key, values in merged.items()}
        encoded.append(model({**chunk, **remarks})["sentence_embedding"])
    restored = torch.cat(encoded)[torch.argsort(order)]
    return list(torch.split(restored, [len(features["input_ids"]) for features in columns]))


def _padded(values: Tensor, width: int) -> Tensor:
    return nn.functional.pad(values, (0, width - values.shape[1]))


def _are_alike(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns have tensors of the same names, and equal remarks.

    Remarks are features that apply to a whole column, such as the length of its prompt.
    """
    kinds = [
        {key: Tensor if isinstance(value, Tensor) else value for key, value in features.items()}
        for features in columns
    ]
    return all(kind == kinds[0] for kind in kinds)


def _are_bags(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns are bags of tokens with equal remarks."""
    tensors = {key for key, value in columns[0].items() if isinstance(value, Tensor)}
    return tensors == {"input_ids", "offsets"} and _are_alike(columns)


def _can_be_sorted(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns hold tokens padded on the right, and otherwise equal remarks."""
    return _are_alike(columns) and all(map(_is_right_padded, columns))


def _is_right_padded(features: dict[str, Any]) -> bool:
    mask = features.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    if any(isinstance(v, Tensor) and v.shape != mask.shape for v in features.values()):
        return False
    falling = mask[:, 1:] <= mask[:, :-1]
    return bool(falling.all()) and bool(mask.any(dim=1).all())
