"""Training of a classifier: an encoder, a linear layer and, optionally, a metric loss.

The loss is L = β CE(dense(z), y) + (1 − β) L_DML, where z is the pooled vector of a text and y its
label. CE is the cross-entropy and L_DML the metric loss, which reads z. A metric loss with proxies
reads the last hidden state of every token instead, with the label of the token's text.

Shapes: n texts, c classes, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from polarity_bench.classifiers.head import Head
from polarity_bench.classifiers.tokens import CHUNK_TEXTS, EncodedTexts, TokenRows, encode
from polarity_bench.errors import InputError
from polarity_bench.training.loops.descent import FRESH, DescentPlan, Steps, descend
from polarity_bench.training.loops.vocabulary import trimmed
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.training.objective import Objective


@dataclass(frozen=True)
class FittedHead:
    """Results of training, without the encoder.

    Attributes:
        head: The trained head.
        losses: The loss of each step.
        loss: Mean loss of the last epoch.
        n_empty: Number of batches whose metric loss was 0 because they lacked two texts of the same
            class or two texts of different classes.
    """

    head: Head
    losses: Sequence[float]
    loss: float
    n_empty: int


def fit_classifier(
    model: SentenceTransformer,
    rows: TokenRows,
    labels: IntArray,
    classes: Sequence[str],
    objective: Objective,
    *,
    seed: int,
    steps: Steps = FRESH,
    begin: Mapping[str, FloatArray] | None = None,
    soft: FloatArray | None = None,
    also: Callable[[EncodedTexts, IntArray], Tensor] | None = None,
) -> FittedHead:
    """Train an encoder together with a head. The encoder is changed in place.

    Args:
        model: The encoder, prepared by `shape_encoder`.
        rows: The tokenized training texts.
        labels: Class of each text, (n,).
        classes: Names of the classes.
        objective: Losses and settings of the training.
        seed: Seed of the head, the proxies, the order of the rows in each epoch, and dropout.
        steps: Where to resume from, and how to report progress.
        begin: The initial `weight`, (c, d), and `bias`, (c,), of the linear layer. None initialises
            the layer at random.
        soft: Class probabilities to learn instead of `labels`, (n, c) float32; only without a
            metric loss.
        also: Function that returns a further term of a batch's loss, from the encoded texts of the
            batch and their positions in `rows`.

    Returns:
        The trained head, and the losses.

    Raises:
        InputError: If a loss is not finite, or a class has no rows.
    """
    if empty := [name for code, name in enumerate(classes) if not (labels == code).any()]:
        raise InputError(f"the class {empty[0]!r} has no training rows; add rows of this class")
    torch.manual_seed(seed)
    modules = ClassifierModules(model, classes, objective)
    if begin is not None:
        modules.dense.load_state_dict({name: torch.tensor(each) for name, each in begin.items()})
    targets = torch.from_numpy(labels if soft is None else soft).to(model.device)
    size = objective.batch_size
    rates = {"metric": objective.proxy_rate, "dense": objective.head_rate or objective.rate}
    plan = DescentPlan.of(objective, objective.n_steps(len(rows)), rates=rates, seed=seed)
    n_batches = plan.n_steps // objective.epochs

    def loss_of_step(step: int) -> Tensor:
        epoch, batch = divmod(step, n_batches)
        order = np.random.default_rng([seed, epoch]).permutation(len(rows))
        chosen = order[batch * size : (batch + 1) * size]
        chunk = CHUNK_TEXTS if model.device.type == "cpu" else len(chosen)
        encoded = encode(model, trimmed_rows, chosen, chunk_texts=chunk)
        loss = modules.loss(encoded, targets[chosen])
        return loss if also is None else loss + also(encoded, chosen)

    model.train()
    has_word_weights = _pooling_place(model) > 1  # `WordWeights` reads ids, which trimming changes
    trimming = nullcontext(rows) if has_word_weights else trimmed(transformer_of(model), rows, plan)
    with trimming as trimmed_rows:
        losses = descend(modules, loss_of_step, plan, steps)
    model.eval()
    last = losses[-n_batches:]
    n_empty = int(getattr(modules.metric, "n_empty", 0))
    return FittedHead(modules.head(), losses, sum(last) / len(last), n_empty)


class ClassifierModules(nn.Module):
    """Everything that a classifier's training optimises: an encoder, a linear layer and a loss.

    Args:
        model: The encoder.
        classes: Names of the classes.
        objective: Losses and settings of the training.
    """

    def __init__(
        self, model: SentenceTransformer, classes: Sequence[str], objective: Objective
    ) -> None:
        super().__init__()
        self.classes, self.objective = tuple(classes), objective
        size, metric = int(model.get_embedding_dimension() or 0), objective.metric
        self.encoder = model
        self.dense = nn.Linear(size, len(classes))
        self.metric = None if metric is None else metric.build(len(classes), size)
        self.to(model.device)

    def loss(self, made: EncodedTexts, labels: Tensor) -> Tensor:
        """Return the loss of encoded texts with their labels, (n,), as a scalar."""
        entropy = cross_entropy(self.dense(made.sentences).float(), labels)
        if self.metric is None:
            return entropy
        if self.objective.loss.reads == "tokens":
            metric_loss = self.metric(made.tokens.float(), labels[made.owners])
        else:
            metric_loss = self.metric(made.sentences.float(), labels)
        share = self.objective.share
        mixed: Tensor = share * entropy + (1 - share) * metric_loss
        return mixed

    def head(self) -> Head:
        """Return the trained head."""
        proxies: Tensor | None = getattr(self.metric, "proxies", None)
        return Head(
            self.classes,
            self.dense.weight.detach().cpu().numpy(),
            self.dense.bias.detach().cpu().numpy(),
            None if proxies is None else proxies.detach().cpu().numpy(),
            self.objective.share,
        )


def shape_encoder(
    model: SentenceTransformer, objective: Objective, *, pooling_added: bool = False
) -> None:
    """Reduce an encoder to a transformer and its pooling, as a classifier needs.

    Modules after the pooling, such as a normalisation, are removed. If the encoder keeps its own
    pooling, a module that weights tokens before the pooling, as in the recipe `scl`, is kept too.

    Args:
        model: The encoder, changed in place.
        objective: Number of layers to keep, and the pooling.
        pooling_added: Whether the encoder was loaded from a transformer without pooling. The
            pooling `own` then means the first token, as in the papers.

    Raises:
        InputError: If the encoder is not a transformer with pooling, or has fewer layers than
            `objective.layers`.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    check_encoder(model, objective)
    first: Any = model[0]
    pooling = objective.pooling
    if pooling == "own" and pooling_added:
        pooling = "first"
    if pooling == "own":
        del model[_pooling_place(model) + 1 :]
    else:
        mode = "cls" if pooling == "first" else "mean"
        del model[1:]
        model.append(Pooling(first.get_embedding_dimension(), pooling_mode=mode))
    if objective.layers is not None:
        del first.auto_model.encoder.layer[objective.layers :]
        first.auto_model.config.num_hidden_layers = objective.layers


def check_encoder(model: SentenceTransformer, objective: Objective, field: str = "`model`") -> None:
    """Check that `shape_encoder` can reduce an encoder. Messages begin with `field`.

    Raises:
        InputError: If the encoder is not a transformer with pooling, truncates its vectors, has too
            few layers, or does not store its layers like BERT.
    """
    check_whole(model, field)
    first: Any = model[0]
    if not (hasattr(first, "auto_model") and _pooling_place(model)):
        raise InputError(
            f"{field}: a classifier needs a transformer with pooling over its tokens; use another "
            "encoder"
        )
    if objective.layers is None:
        return
    stack = getattr(getattr(first.auto_model, "encoder", None), "layer", None)
    if not isinstance(stack, nn.ModuleList):
        raise InputError(
            f"`layers` {objective.layers}: {type(first.auto_model).__name__} has no list of "
            "layers (`encoder.layer`); leave out `layers`"
        )
    if objective.layers > len(stack):
        raise InputError(
            f"`layers` {objective.layers}: the encoder has {len(stack)} layers; keep at most "
            f"{len(stack)}"
        )


def check_whole(model: SentenceTransformer, field: str = "`model`") -> None:
    """Check that an encoder does not truncate its vectors, because losses need whole vectors.

    Messages begin with `field`.

    Raises:
        InputError: If the encoder truncates its vectors.
    """
    if model.truncate_dim is not None:
        raise InputError(
            f"{field}: the encoder truncates its vectors to {model.truncate_dim} dimensions "
            "(truncate_dim), but training needs whole vectors; save the encoder without "
            "truncate_dim"
        )


def _pooling_place(model: SentenceTransformer) -> int:
    """Return the index of the pooling module; 0 if the encoder has none after its transformer.

    A module that weights tokens may come between the transformer and the pooling.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling, WordWeights

    modules: list[Any] = list(model)
    others = (i for i, module in enumerate(modules) if i and not isinstance(module, WordWeights))
    position = next(others, 0)
    return position if isinstance(modules[position], Pooling) else 0


def transformer_of(model: SentenceTransformer) -> Any:
    """Return the `transformers` model inside an encoder."""
    first: Any = model[0]
    return first.auto_model
