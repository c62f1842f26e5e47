"""SetFit: an encoder trained on sentence pairs, then with a classifier on top; a baseline.

SetFit only uses whether the classes of two texts are equal, without neighbours or similarities.
Comparisons use its body, the encoder, at an equal number of sentence pairs. The head is stored next
to the encoder as tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.examples.card import PAPER
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    LAST_ROW,
    EpochLog,
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
    warn_of_schedule,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.classifiers.head import Head
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.load import SentenceTransformerEncoder
    from polarity_bench.progress import Progress
    from polarity_bench.tasks.labelled import LabelledTexts
    from polarity_bench.training.data import TrainingData
    from polarity_bench.values import BoolArray, IntArray

Variant = Literal["papers", "setfit"]
EPOCHS = 5  # of the end-to-end training
PAIR_RATE, BODY_RATE, HEAD_RATE = 2e-5, 3e-5, 1e-2
WEIGHT_DECAY = 0.01

_SAMPLES: dict[Variant, int] = {"papers": 625, "setfit": 8}
_BATCH_SIZES: dict[Variant, int] = {"papers": 32, "setfit": 16}
_MOST_TEXTS = 5_000  # all their pairs are listed in memory


@dataclass(frozen=True, kw_only=True)
class SetFit(Recipe["LabelledTexts"]):
    """Training on sentence pairs by class alone, then a classifier.

    `papers` is what the margins paper's authors ran: one epoch on pairs, without the head, then
    five epochs of head and body together by cross-entropy. `setfit` is SetFit's default: one epoch
    on pairs, then a logistic regression on the resulting encoder.

    The authors' script is for SetFit before 1.0; with later versions its first step fails. `papers`
    does with SetFit 1.2 what the script does with 0.7, with these differences: the texts are
    distinct; our seed draws the texts and the pairs; a prompt is part of the texts; and in the
    end-to-end training, texts are padded to the longest of them instead of the model's limit, so
    dropout masks differ.

    A parameter that is None gets the variant's usual value. No rows are held out: the final weights
    are published.

    References:
        Tunstall et al. (2022), Efficient few-shot learning without prompts,
        https://arxiv.org/abs/2209.11055
    """

    name: ClassVar[str] = "setfit"
    tags: ClassVar[tuple[str, ...]] = ("setfit",)
    sources: ClassVar[str] = (
        "Method: Tunstall et al. (2022), *Efficient few-shot learning without prompts* "
        f"(https://arxiv.org/abs/2209.11055). Metrics and the variant `papers`: {PAPER}."
    )
    needs: ClassVar[Mapping[str, str]] = {"setfit": "SetFit", "accelerate": "its trainer"}
    extra: ClassVar[str] = "setfit"

    variant: Variant = parameter(
        "papers", "as the margins paper's authors ran it, or SetFit's default"
    )
    samples_per_class: int | Literal["all"] | None = parameter(
        None, "texts drawn of each class, or all [default: 625; setfit: 8]", least=2
    )
    pairs: int | None = parameter(
        None, "sentence pairs, even [default: 40 for each text; setfit: all there are]", least=2
    )
    batch_size: int | None = parameter(
        None, "pairs, and end to end texts, in a batch [default: 32; setfit: 16]", least=1
    )
    seed: int = seed_parameter("of the texts, pairs, order, head and dropout")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples_per_class is None:
            object.__setattr__(self, "samples_per_class", _SAMPLES[self.variant])
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", _BATCH_SIZES[self.variant])
        if self.pairs is not None and self.pairs % 2:
            raise InputError(
                f"`pairs` must be even, since half of the pairs are of one class, got {self.pairs}"
            )

    def load(self, bench: TrainingContext) -> Inputs[LabelledTexts]:
        """Check the base and draw the texts."""
        check_base(bench.base, self)
        return super().load(bench)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Return the number of texts in all pairs, two for each, assuming two classes."""
        per_class = self.samples_per_class
        n_texts = min(2 * per_class, n_rows) if isinstance(per_class, int) else n_rows
        usual = n_texts * (n_texts if self.variant == "setfit" else 40)
        return 2 * (self.pairs or usual)

    def read(
        self, data: TrainingData, access: DataAccess, task_dir: Path | None
    ) -> Inputs[LabelledTexts]:
        """Draw the texts, in random order."""
        import numpy as np

        from polarity_bench.tasks.labelled import LabelledTexts
        from polarity_bench.values import digest_of

        pool = data.pool
        generator = np.random.default_rng(self.seed)
        drawn = []
        for code, name in enumerate(pool.classes):
            members = generator.permutation(np.flatnonzero(pool.labels == code))
            per_class = self.samples_per_class
            count = per_class if isinstance(per_class, int) else len(members)
            if count > len(members):
                raise InputError(
                    f"`samples_per_class` {count:,}: {data.task.spec.name} has "
                    f"{len(members):,} distinct training texts of the class {name!r}; ask for fewer"
                )
            drawn.append(members[:count])
        rows = generator.permutation(np.concatenate(drawn))
        if self.variant == "setfit" and len(rows) > _MOST_TEXTS:
            raise InputError(
                f"`variant` setfit lists all pairs of its texts, so it takes at most "
                f"{_MOST_TEXTS:,}, got {len(rows):,}; lower `samples_per_class`, or use papers"
            )
        texts, labels = [pool.texts[i] for i in rows], pool.labels[rows]
        names = [pool.classes[label] for label in labels]
        examples = LabelledTexts(data.task.spec.name, texts, labels, pool.classes)
        return Inputs(digest_of([texts, names]), examples, texts)

    def fit(self, bench: TrainingContext, examples: LabelledTexts, epochs: EpochLog) -> FitResult:
        """Train on pairs, then train the head, and score the body after each."""
        from polarity_bench.classifiers.head import HEAD_FILE
        from polarity_bench.training.recipes.setfit.pairs import paired_by_rounds, paired_once

        base, labels = bench.base, examples.labels
        assert isinstance(self.batch_size, int)  # noqa: S101  filled in by __post_init__
        end_to_end = self.variant == "papers"
        draw_pairs = paired_by_rounds if end_to_end else paired_once
        positions, same = draw_pairs(labels, self.pairs, self.seed)
        n_texts = len(labels)
        n_steps = -(-len(positions) // self.batch_size)
        warn_of_schedule(n_steps, 1.0, PAIR_RATE)
        n_more = EPOCHS * -(-n_texts // self.batch_size) if end_to_end else 0
        with bench.bar(f"training {bench.folder.path.name}", n_steps + n_more) as advance, silent():
            base.model.default_prompt_name = None  # SetFit has no prompts: the texts include it
            texts = [f"{base.id.prompt or ''}{text}" for text in examples.texts]
            trainer = make_trainer(
                self,
                base.model,
                n_classes=len(examples.classes),
                max_tokens=int(base.count_tokens(texts).max()),
                folder=bench.folder.checkpoints,
                progress=advance,
            )
            epochs.add(1, n_steps, train_on_pairs(trainer, texts, positions, same))
            train_head(trainer, texts, labels, self.seed)
            if end_to_end:
                epochs.add(1 + EPOCHS, n_steps + n_more)
        facts = {
            "Training": self._in_words(n_texts, len(positions)),
            "Head": f"in {HEAD_FILE}: weight and bias over the encoder's vectors as they "
            "are, a row for each class or, of a logistic regression over two classes, one for the "
            "second; the file's metadata names the classes",
            **LAST_ROW,
        }
        head = head_of(trainer.model.model_head, examples.classes).to_bytes()
        figures = {"pairs": len(positions), "texts": n_texts}
        return FitResult(n_steps + n_more, facts, figures, {HEAD_FILE: head})

    def _in_words(self, n_texts: int, n_pairs: int) -> str:
        then = "a logistic regression"
        if self.variant == "papers":
            then = f"{EPOCHS} epochs with the head, rates {BODY_RATE:g} and {HEAD_RATE:g}"
        return (
            f"variant {self.variant}, {n_texts:,} texts, {n_pairs:,} sentence pairs, one epoch "
            f"of cosine similarity loss, batches of {self.batch_size}, rate {PAIR_RATE:g}; then "
            f"{then}; weight decay {WEIGHT_DECAY:g}, seed {self.seed}"
        )


def check_base(base: SentenceTransformerEncoder, recipe: SetFit) -> None:
    """Refuse a base that SetFit cannot train, or would train on another device than requested."""
    import torch
    from sentence_transformers.util import get_device_name

    if recipe.variant == "papers" and not callable(base.model.tokenizer):
        raise InputError(
            f"`variant` papers: {base.id.name} is a static encoder, whose tokenizer SetFit cannot "
            "use end to end; take setfit"
        )
    best = torch.device(get_device_name()).type
    if torch.device(base.device).type != best:
        raise InputError(
            f"`device` {base.device}: SetFit's trainer uses {best} whenever it is available; hide "
            "it (CUDA_VISIBLE_DEVICES='') or train on it"
        )
    if best == "cuda" and (n_gpus := torch.cuda.device_count()) > 1:
        raise InputError(
            f"SetFit's trainer takes a batch for each of the {n_gpus} GPUs, so its steps are "
            "larger; show it only one of them with CUDA_VISIBLE_DEVICES=0"
        )


@contextmanager
def silent() -> Iterator[None]:
    """Suppress SetFit's messages; importing SetFit sets its logger to show all of them."""
    from polarity_bench.encoders.load import quiet

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
    recipe: SetFit,
    model: SentenceTransformer,
    *,
    n_classes: int,
    max_tokens: int,
    folder: Path,
    progress: Progress = lambda _: None,
) -> Any:
    """Return SetFit's trainer for an encoder, which it changes, and a new head.

    Args:
        recipe: The parameters.
        model: The encoder.
        n_classes: Number of classes of the head.
        max_tokens: Length of the longest text, to which end-to-end training pads all texts.
        folder: Output folder of SetFit; its content is not kept.
        progress: Called with the number of steps done.
    """
    from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression
    from transformers import PrinterCallback, ProgressCallback, TrainerCallback, set_seed

    class Shower(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            progress(1)

    end_to_end = recipe.variant == "papers"
    set_seed(recipe.seed)  # the head is initialised before the trainer sets the seed
    size = model.get_embedding_dimension()
    if end_to_end:
        head = SetFitHead(in_features=size, out_features=n_classes, device=str(model.device))
        head.register_forward_hook(lambda *_: progress(1))  # called only in the end-to-end phase
    else:
        head = LogisticRegression()
    arguments = TrainingArguments(
        output_dir=str(folder),
        batch_size=recipe.batch_size,
        num_epochs=(1, EPOCHS),
        body_learning_rate=(PAIR_RATE, BODY_RATE),
        head_learning_rate=HEAD_RATE,
        l2_weight=WEIGHT_DECAY,
        end_to_end=end_to_end,
        max_length=max_tokens,
        show_progress_bar=False,
        seed=recipe.seed,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
    )
    trainer = Trainer(
        SetFitModel(model, head), arguments, metric=lambda *_: {}, callbacks=[Shower()]
    )
    for printer in (ProgressCallback, PrinterCallback):  # they print to stdout
        trainer.remove_callback(printer)
    return trainer


def train_on_pairs(
    trainer: Any, texts: Sequence[str], positions: IntArray, same: BoolArray
) -> float:
    """Train the body on given pairs, like `train_embeddings` on its own; return the mean loss."""
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
    """Train the head: on the frozen body, or together with the body if the head has gradients."""
    from transformers import set_seed

    set_seed(seed)
    trainer.train_classifier(list(texts), labels.tolist())


def head_of(head: Any, classes: Sequence[str]) -> Head:
    """Return the head from SetFit's own head or from scikit-learn's regression."""
    from polarity_bench.classifiers.head import Head

    linear = getattr(head, "linear", None)
    if linear is None:
        return Head(tuple(classes), head.coef_, head.intercept_)
    tensors = (each.detach().cpu().numpy() for each in (linear.weight, linear.bias))
    return Head(tuple(classes), *tensors)
