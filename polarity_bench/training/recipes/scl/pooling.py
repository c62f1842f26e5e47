"""Pooling as in the supervised contrastive paper: the mean over all tokens except the first.

The pooling uses sentence-transformers' own modules, so the published encoder loads without
polarity-bench. `WordWeights` gives the first token ([CLS]) weight 0 and all others weight 1, and
`Pooling` divides by the sum of the weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.loops.classifier_training import check_whole

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

PoolingKind = Literal["mean-without-first", "mean"]


def check_pooling(model: SentenceTransformer, kind: PoolingKind) -> None:
    """Check that `repool` can change the pooling of an encoder.

    Raises:
        InputError: If the encoder is not a transformer with pooling, truncates its vectors, or has
            no [CLS] token to leave out.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    check_whole(model)
    kinds = [type(module) for module in model]
    if not (issubclass(kinds[0], Transformer) and Pooling in kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise InputError(f"`model` must be a transformer with pooling, got {names}")
    tokenizer: Any = model.tokenizer
    if kind == "mean-without-first" and (
        tokenizer.cls_token is None or tokenizer("a")["input_ids"][0] != tokenizer.cls_token_id
    ):
        raise InputError(
            "`pooling` mean-without-first: the tokenizer of this encoder adds no [CLS] token to "
            "leave out; use mean"
        )


def repool(model: SentenceTransformer, kind: PoolingKind) -> None:
    """Replace a transformer's pooling by mean pooling without normalisation.

    `Normalize` modules are removed, because the loss and the pair classifier depend on the norms of
    the vectors. Other modules after the pooling, such as `Dense`, are kept.

    Raises:
        InputError: If `check_pooling` fails.
    """
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, WordWeights

    check_pooling(model, kind)
    modules: list[Any] = list(model)
    position = [type(module) for module in modules].index(Pooling)
    device = model.device
    pooling: list[nn.Module] = [Pooling(modules[0].get_embedding_dimension(), "mean")]
    if kind == "mean-without-first":
        pooling.insert(0, _first_left_out(model.tokenizer))
    before = [module for module in modules[:position] if not isinstance(module, WordWeights)]
    after = [module for module in modules[position + 1 :] if not isinstance(module, Normalize)]
    del model[:]
    model.extend([*before, *pooling, *after])
    model.to(device)


def _first_left_out(tokenizer: Any) -> nn.Module:
    """Return a module with fixed token weights: 0 for [CLS], 1 for all other tokens."""
    from sentence_transformers.sentence_transformer.modules import WordWeights

    words = {number: word for word, number in tokenizer.get_vocab().items()}
    vocabulary = [words.get(number, "") for number in range(max(words) + 1)]
    weights = WordWeights(vocabulary, {tokenizer.cls_token: 0.0})
    weights.requires_grad_(False)
    return weights
