"""Encoding of the texts of a batch in order of length, to reduce padding.

The trainer of sentence-transformers pads each column of a batch to the longest text of the column.
Here all texts of the batch are sorted by length and encoded in chunks, each padded to its longest
text. Before the loss is computed, the embeddings are put back into their original order. Loss and
gradients are the same except for float rounding and dropout masks. Unlike grouping examples by
length, this does not change the batches. Static encoders need no padding and encode all texts of a
batch at once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from sentence_transformers.util import all_gather_with_grad
from torch import Tensor, nn

CHUNK_TOKENS = 512
"""Maximum number of tokens in a chunk on a CPU in float32, including padding."""

BFLOAT16_CHUNK_TOKENS = 2048
"""The same in bfloat16, where smaller chunks are slower."""


class MeanLoss(nn.Module):
    """Loss module for the trainer: the mean of a pure function of embeddings and labels.

    Args:
        model: Model that adds `sentence_embedding` to features.
        function: Function of the columns' embeddings, (b, d) each, and the labels, (b,), that
            returns the loss of each example, (b,).
    """

    def __init__(self, model: Any, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model = model
        self.function = function

    def forward(self, sentence_features: list[dict[str, Any]], labels: Tensor) -> Tensor:
        """Encode the columns of a batch and return the mean loss."""
        embeddings = [self.model(features)["sentence_embedding"] for features in sentence_features]
        return self.compute_loss_from_embeddings(embeddings, labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the mean loss of the columns' embeddings."""
        return self.function(*embeddings, labels).mean()


class LengthSortedLoss(nn.Module):
    """Loss module that encodes the texts of a batch in order of length.

    With `gather`, each process computes the loss of the joined batches of all processes. A process
    sums the gradients of its own texts over all processes, and the trainer takes the mean over the
    processes. The gradients therefore equal those of a single process with the joined batch.

    Args:
        loss: A loss of sentence-transformers with `compute_loss_from_embeddings`.
        on_gpu: Whether the model runs on a GPU, where encoding all texts at once is fastest.
        bfloat16: Whether the model computes in bfloat16. The loss cannot see this, because the
            trainer enables autocast only within the model.
        gather: Whether to join the batches of all processes.
    """

    def __init__(
        self,
        loss: nn.Module,
        *,
        on_gpu: bool = False,
        bfloat16: bool = False,
        gather: bool = False,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.gather = gather
        on_cpu = BFLOAT16_CHUNK_TOKENS if bfloat16 else CHUNK_TOKENS
        self.chunk_tokens = 2**31 if on_gpu else on_cpu  # 2**31: no limit

    @property
    def model(self) -> Any:
        """The model in training."""
        return self.loss.model

    def forward(self, sentence_features: list[dict[str, Any]], labels: Tensor | None) -> Tensor:
        """Encode the columns of a batch and return the loss."""
        columns = list(sentence_features)
        loss: Any = self.loss
        if _are_bags(columns):
            embeddings = encode_joined(self.model, columns)
        elif _can_be_sorted(columns):
            embeddings = encode_sorted(self.model, columns, self.chunk_tokens)
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

    Each call creates a gradient as large as the embedding table, so one call for all columns saves
    time and memory.

    Args:
        model: Model that adds `sentence_embedding` to features.
        columns: The features of each column: `input_ids` of all its texts, (tokens,), and the start
            of each text, `offsets`, (b,).

    Returns:
        The embeddings of each column, (b, d) each.
    """
    starts = accumulate((len(column["input_ids"]) for column in columns), initial=0)
    offsets = [column["offsets"] + start for column, start in zip(columns, starts, strict=False)]
    ids = torch.cat([features["input_ids"] for features in columns])
    joined = {**columns[0], "input_ids": ids, "offsets": torch.cat(offsets)}
    encoded = model(joined)["sentence_embedding"]
    return list(torch.split(encoded, [len(features["offsets"]) for features in columns]))


def encode_sorted(
    model: Any, columns: list[dict[str, Any]], chunk_tokens: int = CHUNK_TOKENS
) -> list[Tensor]:
    """Encode the texts of all columns together, in order of length.

    Args:
        model: Model that adds `sentence_embedding` to features.
        columns: The features of each column: tensors, (b, tokens), padded on the right. Features
            that are not tensors, such as the modality, must be equal in all columns.
        chunk_tokens: Maximum padded size of a chunk, in tokens. A longer text forms a chunk by
            itself.

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
    encoded, n_encoded = [], 0
    while n_encoded < len(order):
        longest = int(lengths[order[n_encoded]])
        rows = order[n_encoded : n_encoded + max(1, chunk_tokens // longest)]
        n_encoded += len(rows)
        chunk = {key: values[rows, :longest] for key, values in merged.items()}
        encoded.append(model({**chunk, **remarks})["sentence_embedding"])
    restored = torch.cat(encoded)[torch.argsort(order)]
    return list(torch.split(restored, [len(features["input_ids"]) for features in columns]))


def _padded(values: Tensor, width: int) -> Tensor:
    """Pad values with zeros on the right, (b, width)."""
    return nn.functional.pad(values, (0, width - values.shape[1]))


def _are_alike(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns have tensors of the same names and the same other features.

    Features that are not tensors apply to a whole column, such as the length of its prompt.
    """
    kinds = [
        {key: Tensor if isinstance(value, Tensor) else value for key, value in features.items()}
        for features in columns
    ]
    return all(kind == kinds[0] for kind in kinds)


def _are_bags(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns are bags of tokens that can be encoded together."""
    tensors = {key for key, value in columns[0].items() if isinstance(value, Tensor)}
    return tensors == {"input_ids", "offsets"} and _are_alike(columns)


def _can_be_sorted(columns: list[dict[str, Any]]) -> bool:
    """Return whether all columns are padded on the right and can be encoded together."""
    return _are_alike(columns) and all(map(_is_right_padded, columns))


def _is_right_padded(features: dict[str, Any]) -> bool:
    """Return whether a column has only right padding, and no text without tokens."""
    mask = features.get("attention_mask")
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    if any(isinstance(v, Tensor) and v.shape != mask.shape for v in features.values()):
        return False
    falling = mask[:, 1:] <= mask[:, :-1]
    return bool(falling.all()) and bool(mask.any(dim=1).all())
