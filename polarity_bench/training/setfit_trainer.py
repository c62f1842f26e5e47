"""SetFit's own trainer: made, kept silent, and called one phase at a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polarity_bench.encoders import SentenceTransformerEncoder
from polarity_bench.encoders.folder import quiet
from polarity_bench.progress import Progress
from polarity_bench.types import BoolArray, IntArray

EPOCHS = 5  # end to end
PAIR_RATE, BODY_RATE, HEAD_RATE = 2e-5, 3e-5, 1e-2
WEIGHT_DECAY = 0.01


@contextmanager
def silent() -> Iterator[None]:
    """Keep what SetFit says off the screen; on import, it sets its logger to say everything."""
    with quiet():
        import setfit  # type: ignore[import-untyped]  # noqa: F401

        logger = logging.getLogger("setfit")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def make_trainer(
    base: SentenceTransformerEncoder,
    texts: Sequence[str],
    *,
    n_classes: int,
    end_to_end: bool,
    batch_size: int,
    seed: int,
    folder: Path,
    progress: Progress,
) -> Any:
    """Return SetFit's trainer over the base, which it changes, and a new head.

    Args:
        base: What to train.
        texts: All texts; end to end, they are padded to the longest of them.
        n_classes: Classes of the head.
        end_to_end: Whether the head has gradients; else it is a logistic regression.
        batch_size: Of both phases.
        seed: Of the head's first weights, the order and the dropout.
        folder: Where SetFit may write; nothing is kept there.
        progress: Called with 1 after each step.
    """
    from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression
    from transformers import PrinterCallback, ProgressCallback, TrainerCallback, set_seed

    class Shower(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            progress(1)

    set_seed(seed)  # the head is drawn before the trainer sets it
    size = base.model.get_embedding_dimension()
    if end_to_end:
        head = SetFitHead(in_features=size, out_features=n_classes, device=base.device)
        head.register_forward_hook(lambda *_: progress(1))  # it is only called in its own phase
    else:
        head = LogisticRegression()
    arguments = TrainingArguments(
        output_dir=str(folder),
        batch_size=batch_size,
        num_epochs=(1, EPOCHS),
        body_learning_rate=(PAIR_RATE, BODY_RATE),
        head_learning_rate=HEAD_RATE,
        l2_weight=WEIGHT_DECAY,
        end_to_end=end_to_end,
        max_length=int(base.count_tokens(texts).max()),
        show_progress_bar=False,
        seed=seed,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
    )
    trainer = Trainer(
        SetFitModel(base.model, head), arguments, metric=lambda *_: {}, callbacks=[Shower()]
    )
    for printer in (ProgressCallback, PrinterCallback):  # they print to stdout
        trainer.remove_callback(printer)
    return trainer


def train_on_pairs(
    trainer: Any, texts: Sequence[str], positions: IntArray, same: BoolArray
) -> float:
    """Train the body on pairs, as `train_embeddings` does on its own; the mean loss."""
    from datasets import Dataset

    left, right = positions.T
    columns = {
        "sentence_1": [texts[i] for i in left],
        "sentence_2": [texts[i] for i in right],
        "label": same.astype(float).tolist(),
    }
    inner = trainer.st_trainer
    inner.train_dataset = Dataset.from_dict(columns)
    inner.loss = trainer.args.loss(trainer.model.model_body)
    inner.train()
    return float(inner.state.log_history[-1]["train_loss"])


def train_head(trainer: Any, texts: Sequence[str], labels: IntArray, seed: int) -> None:
    """Train the head: on the body as it is, or both together if it has gradients."""
    from transformers import set_seed

    set_seed(seed)
    trainer.train_classifier(list(texts), labels.tolist())


def head_tensors(head: Any, classes: Sequence[str]) -> bytes:
    """The head as safetensors: weight (classes, d) and bias (classes,)."""
    import torch
    from safetensors.torch import save

    linear = getattr(head, "linear", None)
    if linear is not None:
        weight, bias = linear.weight.detach().cpu(), linear.bias.detach().cpu()
    else:
        weight, bias = torch.from_numpy(head.coef_), torch.from_numpy(head.intercept_)
    tensors = {"weight": weight.contiguous(), "bias": bias.contiguous()}
    return save(tensors, metadata={"classes": json.dumps(list(classes))})
