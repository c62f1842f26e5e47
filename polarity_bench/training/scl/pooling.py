"""Pooling as the supervised contrastive paper has it: the mean over tokens without the first.

It is made of sentence-transformers' own modules, so that what is published loads without our code:
`WordWeights` gives the token that stands before every text ([CLS]) the weight 0 and counts the
others, and `Pooling` divides by that count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

PoolingKind = Literal["mean-without-first", "mean"]


def repool(model: SentenceTransformer, kind: PoolingKind) -> None:
    """Have a transformer pool by a mean, whatever it did before, and leave norms as they are.

    A `Normalize` at its end is dropped: the dot products of the loss and the classifier of pairs
    read the norms. Other modules, such as a `Dense`, stay.

    Raises:
        InputError: If it is no transformer with pooling, or has no token before its texts.
    """
    from sentence_transformers.sentence_transformer.modules import (
        Normalize,
        Pooling,
        Transformer,
        WordWeights,
    )

    kinds = [type(module) for module in model]
    if not (issubclass(kinds[0], Transformer) and Pooling in kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise InputError(f"`model`: a transformer with pooling is wanted, this is made of {names}")
    pooling: list[nn.Module] = [Pooling(model[0].get_embedding_dimension(), "mean")]
    if kind == "mean-without-first":
        vocabulary, first = _vocabulary(model.tokenizer)
        weights = WordWeights(vocabulary, {first: 0.0})
        weights.requires_grad_(False)
        pooling.insert(0, weights)
    place = kinds.index(Pooling)
    kept = [m for m in list(model)[place + 1 :] if not isinstance(m, Normalize)]
    before = [m for m in list(model)[:place] if not isinstance(m, WordWeights)]
    device = model.device
    del model[:]
    model.extend([*before, *pooling, *kept])
    model.to(device)


def _vocabulary(tokenizer: Any) -> tuple[list[str], str]:
    """Return the words by their numbers, and the one before every text."""
    ids = tokenizer("a")["input_ids"]
    if tokenizer.cls_token is None or ids[0] != tokenizer.cls_token_id:
        raise InputError(
            "`pooling` mean-without-first: this encoder has no token before its texts to leave "
            "out; take mean"
        )
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    return [words.get(i, "") for i in range(max(words) + 1)], str(tokenizer.cls_token)
