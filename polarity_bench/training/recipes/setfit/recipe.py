"""The recipe `setfit`: SetFit, a baseline that trains on sentence pairs and adds a classifier.

SetFit uses only whether two texts have the same class, not neighbours or similarities. Compare its
encoder (the body) with other recipes at an equal number of sentence pairs. The classifier (the
head) is stored as tensors in the folder of the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.examples.card import PAPER
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    LAST_ROW,
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
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.values import BoolArray, IntArray

Variant = Literal["papers", "setfit"]
EPOCHS = 5  # number of epochs of the end-to-end training
PAIR_RATE, BODY_RATE, HEAD_RATE = 2e-5, 3e-5, 1e-2
WEIGHT_DECAY = 0.01

_SAMPLES: dict[Variant, int] = {"papers": 625, "setfit": 8}
_BATCH_SIZES: dict[Variant, int] = {"papers": 32, "setfit": 16}
_MOST_TEXTS = 5_000  # the variant `setfit` lists all pairs of its texts in memory


@dataclass(frozen=True, kw_only=True)
class SetFit(Recipe["LabelledTexts"]):
    """SetFit: training on sentence pairs of equal and different classes, then a classifier.

    - `papers` is the training of the margins paper: one epoch on pairs, then five epochs of
      cross-entropy training of head and body together.
    - `setfit` is SetFit's default: one epoch on pairs, then a logistic regression on the encoder.

    The margins paper's script needs SetFit before 1.0. `papers` does the same with SetFit 1.2 as
    the script does with SetFit 0.7, except for four differences. The texts are distinct. Our seed
    draws the texts and the pairs. A prompt is part of the texts. End-to-end training pads texts to
    the longest text instead of the model's limit, so dropout masks differ.

    Parameters that are None get the default of the variant. No rows are held out, and the final
    weights are published.

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
    needs: ClassVar[tuple[str, ...]] = ("setfit", "accelerate")
    extra: ClassVar[str] = "setfit"

    variant: Variant = parameter(
        "papers", "training as in the margins paper (papers), or SetFit's default (setfit)"
    )
    samples_per_class: int | Literal["all"] | None = parameter(
        None, "number of texts to draw per class, or all [default: 625; setfit: 8]", least=2
    )
    labels: int | None = parameter(
        None,
        "number of texts to draw, stratified by class like `labels` of axis, instead of "
        "`samples_per_class`",
        least=2,
    )
    pairs: int | None = parameter(
        None,
        "number of sentence pairs, even [default: 40 per text; setfit: all possible pairs]",
        least=2,
    )
    batch_size: int | None = parameter(
        None, "pairs per batch, and texts per end-to-end batch [default: 32; setfit: 16]", least=1
    )
    seed: int = seed_parameter("seed of the texts, pairs, order, head and dropout")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is not None and self.samples_per_class not in (None, "all"):
            raise InputError("`labels` and `samples_per_class` exclude each other; give one")
        if self.samples_per_class is None:
            per_class = _SAMPLES[self.variant] if self.labels is None else "all"
            object.__setattr__(self, "samples_per_class", per_class)
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", _BATCH_SIZES[self.variant])
        if self.pairs is not None and self.pairs % 2:
            raise InputError(
                f"`pairs` must be even, got {self.pairs}; half of the pairs have equal classes"
            )

    def load(self, context: TrainingContext) -> Inputs[LabelledTexts]:
        """Check the base, and draw the texts."""
        check_base(context.base, self)
        return super().load(context)

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Estimate the number of texts in all pairs, two per pair, assuming two classes."""
        per_class = self.samples_per_class
        n_texts = min(2 * per_class, n_rows) if isinstance(per_class, int) else n_rows
        n_texts = min(self.labels or n_texts, n_rows)
        usual = n_texts * (n_texts if self.variant == "setfit" else 40)
        return 2 * (self.pairs or usual)

    def read(self, context: TrainingContext) -> Inputs[LabelledTexts]:
        """Draw texts of each class, and return them in random order."""
        import numpy as np

        from polarity_bench.tasks.labelled import LabelledTexts
        from polarity_bench.values import digest_of

        data = context.data
        pool = data.pool.labelled(data.task.spec.name)
        pool = pool.drawn(self.labels or "all", self.seed, field="labels")
        generator = np.random.default_rng(self.seed)
        drawn = []
        for code, name in enumerate(pool.classes):
            members = generator.permutation(np.flatnonzero(pool.labels == code))
            per_class = self.samples_per_class
            count = per_class if isinstance(per_class, int) else len(members)
            if count > len(members):
                raise InputError(
                    f"`samples_per_class` {count:,}: {data.task.spec.name} has only "
                    f"{len(members):,} distinct training texts of the class {name!r}; use a "
                    "smaller number"
                )
            drawn.append(members[:count])
        rows = generator.permutation(np.concatenate(drawn))
        if self.variant == "setfit" and len(rows) > _MOST_TEXTS:
            field = "labels" if self.labels else "samples_per_class"
            raise InputError(
                f"`variant` setfit lists all pairs of texts, so at most {_MOST_TEXTS:,} texts are "
                f"allowed, got {len(rows):,}; use a smaller `{field}`, or the `variant` papers"
            )
        texts, labels = [pool.texts[i] for i in rows], pool.labels[rows]
        names = [pool.classes[label] for label in labels]
        examples = LabelledTexts(data.task.spec.name, texts, labels, pool.classes)
        return Inputs(digest_of([texts, names]), examples, texts)

    def fit(
        self, context: TrainingContext, examples: LabelledTexts, epochs: EpochScorer
    ) -> FitResult:
        """Train on pairs, then train the head; score the encoder whenever it has changed."""
        from polarity_bench.classifiers.head import HEAD_FILE
        from polarity_bench.training.recipes.setfit.pairs import paired_by_rounds, paired_once

        base, labels = context.base, examples.labels
        assert isinstance(self.batch_size, int)  # noqa: S101  filled in by __post_init__
        end_to_end = self.variant == "papers"
        draw_pairs = paired_by_rounds if end_to_end else paired_once
        positions, same = draw_pairs(labels, self.pairs, self.seed)
        n_texts = len(labels)
        n_steps = -(-len(positions) // self.batch_size)
        warn_of_schedule(n_steps, 1.0, PAIR_RATE)
        n_more = EPOCHS * -(-n_texts // self.batch_size) if end_to_end else 0
        with (
            context.bar(f"training {context.folder.path.name}", n_steps + n_more) as advance,
            silent(),
        ):
            base.model.default_prompt_name = None  # SetFit has no prompts, so the texts include it
            texts = [f"{base.id.prompt or ''}{text}" for text in examples.texts]
            trainer = make_trainer(
                self,
                base.model,
                n_classes=len(examples.classes),
                folder=context.folder.checkpoints,
                max_tokens=int(base.count_tokens(texts).max()),
                progress=advance,
            )
            epochs.add(1, n_steps, train_on_pairs(trainer, texts, positions, same))
            train_head(trainer, texts, labels, self.seed)
            if end_to_end:
                epochs.add(1 + EPOCHS, n_steps + n_more)
        then = "a logistic regression"
        if end_to_end:
            then = f"{EPOCHS} epochs with the head, rates {BODY_RATE:g} and {HEAD_RATE:g}"
        facts = {
            "Training": f"{n_texts:,} texts, one epoch of cosine similarity loss on "
            f"{len(positions):,} sentence pairs, rate {PAIR_RATE:g}; then {then}; weight decay "
            f"{WEIGHT_DECAY:g}",
            "Head": f"in {HEAD_FILE}: weights and biases for the encoder's vectors, one row per "
            "class, or only the second class's row for a logistic regression with two classes; "
            "the metadata of the file names the classes",
            **LAST_ROW,
        }
        head = head_of(trainer.model.model_head, examples.classes).to_bytes()
        figures = {"pairs": len(positions), "texts": n_texts}
        return FitResult(n_steps + n_more, facts, figures, {HEAD_FILE: head})


def check_base(base: SentenceTransformerEncoder, recipe: SetFit) -> None:
    """Check that SetFit can train the base on the requested device.

    Raises:
        InputError: If the variant cannot train a static encoder, SetFit would use another device,
            or several GPUs are visible.
    """
    import torch
    from sentence_transformers.util import get_device_name

    if recipe.variant == "papers" and not callable(base.model.tokenizer):
        raise InputError(
            f"`variant` papers: SetFit cannot train the static encoder {base.id.name} end to end; "
            "use the `variant` setfit"
        )
    best = torch.device(get_device_name()).type
    if torch.device(base.device).type != best:
        raise InputError(
            f"`device` {base.device}: SetFit always uses {best} if available; use that device, or "
            "hide it (CUDA_VISIBLE_DEVICES='')"
        )
    if best == "cuda" and (n_gpus := torch.cuda.device_count()) > 1:
        raise InputError(
            f"the recipe 'setfit' must use one GPU, got {n_gpus}, because SetFit trains on a batch "
            "per GPU in each step; set CUDA_VISIBLE_DEVICES=0"
        )


@contextmanager
def silent() -> Iterator[None]:
    """Suppress SetFit's log messages; importing SetFit sets its logger to show all of them."""
    from polarity_bench.encoders.load import quiet

    with quiet():
        import setfit  # type: ignore[import-untyped]  # noqa: F401  see above

        with quiet("setfit"):
            yield


def make_trainer(
    recipe: SetFit,
    model: SentenceTransformer,
    *,
    n_classes: int,
    folder: Path,
    max_tokens: int | None = None,
    progress: Progress = lambda _: None,
) -> Any:
    """Return SetFit's trainer for an encoder and a new head.

    Args:
        recipe: The parameters.
        model: The encoder; training changes its weights.
        n_classes: Number of classes of the head.
        folder: Temporary output folder of SetFit.
        max_tokens: Tokens of the longest text, for end-to-end training, which pads all texts to
            this length.
        progress: Called with the number of new steps.
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
        head.register_forward_hook(lambda *_: progress(1))  # only the end-to-end phase calls it
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
    """Train the body on our pairs instead of SetFit's, and return the mean loss.

    This replaces the trainer's `train_embeddings`, which makes its own pairs.
    """
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
    """Train the head: a SetFit head together with the body, a regression on the frozen body."""
    from transformers import set_seed

    set_seed(seed)
    trainer.train_classifier(list(texts), labels.tolist())


def head_of(head: Any, classes: Sequence[str]) -> Head:
    """Convert a SetFit head or a scikit-learn regression to a `Head`."""
    from polarity_bench.classifiers.head import Head

    linear = getattr(head, "linear", None)
    if linear is None:
        return Head(tuple(classes), head.coef_, head.intercept_)
    tensors = (each.detach().cpu().numpy() for each in (linear.weight, linear.bias))
    return Head(tuple(classes), *tensors)
