"""The recipe `axis`: separate coordinates for polarity, added to an encoder's vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from polarity_bench.embedding.groups import Groups
from polarity_bench.errors import InputError
from polarity_bench.training.parameters import parameter, seed_parameter
from polarity_bench.training.recipes.base import (
    FitResult,
    Inputs,
    Recipe,
    TrainingContext,
)
from polarity_bench.values import FloatArray, digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.classifiers.head import Head
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder
    from polarity_bench.tasks.labelled import LabelledTexts
    from polarity_bench.training.epoch_scores import EpochScorer
    from polarity_bench.training.objective import Objective
    from polarity_bench.training.parameters import Role
    from polarity_bench.training.recipes.axis.probe import Probe

_OTHERS = ("tower", "distil_from")
"""Parameters that name an encoder."""

Learnt = tuple[Any, float, FitResult]
"""A module to append to the base, its loss in the last epoch, and the result of its training."""


@dataclass(frozen=True)
class Lesson:
    """What the class coordinates are learnt from.

    Attributes:
        labelled: The labelled texts.
        texts: All texts: those of `labelled`, and unlabelled texts that only the teacher labels.
        n_left_out: Number of unlabelled texts left out, because they are related to queries or to
            held-out rows.
        others: The encoders other than the base, by their parameter: the `tower` to fine-tune, and
            the teacher to `distil_from`.
        soft: The soft labels of all texts, (n, c).
    """

    labelled: LabelledTexts
    texts: Sequence[str]
    n_left_out: int = 0
    others: Mapping[str, SentenceTransformerEncoder] = field(default_factory=dict)
    soft: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class Axis(Recipe[Lesson]):
    """Class coordinates h, placed before an encoder's vector e.

    - `linear` predicts the class from e with a linear probe.
    - `tuned` predicts the class with a copy of the base, fine-tuned as a classifier, or with
      another encoder, the `tower`. Each text then passes through both.
    - `shared` fine-tunes the base itself as a classifier, and preserves e by distillation.

    `stretch` lengthens e along the probe's directions instead of adding coordinates. Neither the
    queries nor the held-out rows influence training, and the weights after the last step are
    published. With `held_out`, the run scores held-out rows, to compare settings by.

    References:
        Kim et al. (2023), EmbedDistill, for `shared`. Hinton et al. (2015), Distilling the
        Knowledge in a Neural Network, for `distil_from`. docs/training.md reports our findings.
    """

    name: ClassVar[str] = "axis"
    sources: ClassVar[str] = "Method: polarity-bench, *Polarity as a coordinate of its own*."

    head: Literal["linear", "tuned", "shared"] = parameter(
        "linear",
        "class prediction: linear probe, fine-tuned copy (tuned), or fine-tuned base (shared)",
    )
    tower: str | None = parameter(None, "tuned: encoder to tune [default: the base]", role="place")
    probe: Literal["logistic", "mean-difference", "fisher"] = parameter(
        "logistic", "linear: type of probe; fisher weights the dimensions instead of adding an axis"
    )
    labels: int | Literal["all"] = parameter(
        "all", "number of labelled texts to draw, stratified by class", least=2
    )
    labels_from: str | None = parameter(
        None, "task that provides the labels, with the same classes [default: the task itself]"
    )
    distil_from: str | None = parameter(None, "encoder whose axis gives soft labels", role="place")
    unlabelled: Path | None = parameter(None, "texts for the teacher, one per line", role="place")
    stretch: float | None = parameter(
        None,
        "linear: stretch the vector along the probe's directions by this factor; adds no axis",
        above=0,
    )
    strength: float = parameter(1.0, "default weight of the axis in a query", least=0)
    keep: float = parameter(10.0, "shared: weight of the distillation loss", least=0)
    epochs: int = parameter(2, "tuned, shared: passes over the texts", least=1)
    batch_size: int = parameter(64, "tuned, shared: texts per batch", least=1)
    rate: float = parameter(5e-5, "tuned, shared: maximum learning rate", above=0)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "precision of the forward pass")
    seed: int = seed_parameter("seed of the texts, folds, order, head and dropout")
    held_out: int = parameter(0, "training rows held out to choose settings by", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stretch is not None and self.probe == "fisher":
            raise InputError(
                f"`stretch` {self.stretch:g} needs a `probe` with directions, got fisher; use "
                "logistic or mean-difference"
            )

    @classmethod
    def unused(cls, values: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the parameters of other heads, and those that need an axis or a teacher."""
        head, instead = values.get("head", "linear"), "or use the `head`"
        heads = dict.fromkeys(("epochs", "batch_size", "rate", "dtype"), "tuned or shared")
        heads |= {"keep": "shared", "probe": "linear", "stretch": "linear", "tower": "tuned"}
        unused = {
            name: f"with the head {head!r}; omit `{name}`, {instead} {others}"
            for name, others in heads.items()
            if head not in others
        }
        no_axis = values.get("stretch") is not None or values.get("probe") == "fisher"
        if head == "linear" and no_axis:
            unused["strength"] = "without an axis; omit `strength`, or omit `stretch` and `probe`"
        if values.get("distil_from") is None:
            unused["unlabelled"] = "without a teacher; omit `unlabelled`, or use `distil_from`"
        elif (probe := values.get("probe", "logistic")) != "logistic":
            unused["distil_from"] = f"with the `probe` {probe}; omit one of them"
        return unused

    def to_dict(self, *roles: Role) -> dict[str, Any]:
        """Return the parameters; later ones only if they are set, so that digests stay the same."""
        later = (*_OTHERS, "unlabelled", "held_out")
        return {k: v for k, v in super().to_dict(*roles).items() if v or k not in later}

    @property
    def hold_out(self) -> tuple[int | None, int]:
        """Number of held-out rows, and the seed that draws them, which all runs share."""
        return self.held_out, 0

    @property
    def title(self) -> str:
        """Name of the run in its figure, with the head, the probe or the stretch factor."""
        if self.stretch is not None:
            return f"axis, stretched {self.stretch:g} times"
        return f"axis, {self.head if self.probe == 'logistic' else self.probe}"

    def additional_inputs(
        self, access: DataAccess, task_dir: Path | None, options: EncoderOptions
    ) -> Mapping[str, Callable[[], str]]:
        """Return the digests of another task's labels, the tower, the teacher and its texts."""
        from polarity_bench.encoders.load import load_encoder
        from polarity_bench.tasks.labelled import LabelledTexts
        from polarity_bench.training.recipes.axis.teacher import read_unlabelled

        others = options.of_others
        readers: dict[str, Callable[[Any], str]] = {
            "labels_from": lambda name: LabelledTexts.of(name, access, task_dir).digest,
            "unlabelled": lambda file: digest_of(read_unlabelled(file)),
            **dict.fromkeys(_OTHERS, lambda name: load_encoder(name, others).id.digest),
        }
        given = {name: value for name in readers if (value := getattr(self, name)) is not None}
        return {f"`{name}` {value}": partial(readers[name], value) for name, value in given.items()}

    def load(self, context: TrainingContext) -> Inputs[Lesson]:
        """Check the base, load the tower and the teacher, and draw the texts."""
        from polarity_bench.training.recipes.axis.teacher import check_unseen, load_teacher
        from polarity_bench.training.recipes.axis.tower import load_tower

        _check_base(context.base)
        options, given = context.options.of_others, {}
        encoder, field = context.base, f"`model` {context.base.id.name}"
        if self.tower is not None:
            encoder, field = load_tower(self.tower, encoder, options), f"`tower` {self.tower}"
            given["tower"] = encoder
        if self.head != "linear":
            from polarity_bench.training.loops.classifier_training import check_encoder

            check_encoder(encoder.model, self._objective(), field)
        if self.head == "tuned":
            from sentence_transformers.sentence_transformer.modules import Pooling

            if not isinstance(encoder.model[1], Pooling):
                raise InputError(
                    f"{field}: `head` tuned needs an encoder whose second module is the pooling, "
                    "so it cannot have token weights; use `head` shared"
                )
        inputs = super().load(context)
        if self.distil_from is not None:
            classes = inputs.examples.labelled.classes
            given["distil_from"] = load_teacher(self.distil_from, options, classes)
        for role, other in given.items():
            check_unseen(role, getattr(self, role), other, context.data)
        return replace(
            inputs,
            examples=replace(inputs.examples, others=given),
            encoders={role: other.id for role, other in given.items()},
            learnt_from=[(getattr(self, role), other) for role, other in given.items()],
        )

    def n_trained_on(self, n_rows: int, access: DataAccess) -> int:
        """Return the number of labelled texts times epochs; 0 for the head `linear`."""
        from polarity_bench.training.recipes.axis.teacher import read_unlabelled

        n_texts = n_rows if self.labels == "all" else min(self.labels, n_rows)
        n_texts += 0 if self.unlabelled is None else len(read_unlabelled(self.unlabelled))
        return 0 if self.head == "linear" else self.epochs * n_texts

    def read(self, context: TrainingContext) -> Inputs[Lesson]:
        """Draw the labelled texts from the pool or from another task, stratified by class.

        Unlabelled texts are left out if they are related to queries or to held-out rows.
        """
        from polarity_bench.training.recipes.axis.teacher import (
            read_unlabelled,
            without_evaluation_texts,
        )

        data = context.data
        given = data.pool.labelled(data.task.spec.name)
        if self.labels_from is not None:
            given = _of_another(self.labels_from, context)
        given = given.drawn(self.labels, self.seed, field="labels")
        counts = np.bincount(given.labels, minlength=len(given.classes))
        if counts.min() < 2:
            raise InputError(
                f"`labels` {self.labels}: expected at least 2 texts of each class, got "
                f"{counts.min()} of {given.classes[int(counts.argmin())]!r}; use more labels"
            )
        if self.unlabelled is None:
            return Inputs(given.digest, Lesson(given, _single(given)), _single(given))
        known = set(given.texts)
        further = [text for text in read_unlabelled(self.unlabelled) if text not in known]
        kept = without_evaluation_texts(further, data)
        lesson = Lesson(given, [*_single(given), *kept], len(further) - len(kept))
        return Inputs(digest_of([given.digest, kept]), lesson, lesson.texts)

    def fit(self, context: TrainingContext, examples: Lesson, epochs: EpochScorer) -> FitResult:
        """Train the module and append it to the base."""
        from sentence_transformers.base.modules import Normalize

        from polarity_bench.encoders.axis import pass_texts

        model, texts = context.base.model, examples.texts
        embedder = context.embedder
        if self.labels != "all":
            # With the usual groups, batches with texts that were not drawn would be encoded too.
            embedder = replace(embedder, groups=Groups([texts]))
        vectors = None
        if self.head != "tuned":
            with context.bar("encoding the training texts", len(set(texts))) as advance:
                embedded = embedder.embed(context.base, texts, advance)
            vectors = _units(embedded.vectors(texts).vectors)
        lesson = _taught(context, examples, embedder)
        if not isinstance(model[-1], Normalize):
            model.append(Normalize())
        module, loss, fitted = self._learn(context, lesson, vectors)
        if tower := examples.others.get("tower"):
            pass_texts(model)
            module.max_tokens = tower.id.max_tokens or 10**9  # without a limit
        model.append(module.to(model.device))
        model.similarity_fn_name = "cosine" if self.stretch or self.probe == "fisher" else "dot"
        epochs.add(1 if self.head == "linear" else self.epochs, fitted.kept, loss)
        of = "" if self.labels_from is None else f" of {self.labels_from}"
        n_labelled = len(examples.labelled.texts)
        facts = {"Training": f"{n_labelled:,} labelled texts{of}"}
        figures: dict[str, int | str] = {"texts": len(texts)}
        trained_on = self.labels_from
        if teacher := examples.others.get("distil_from"):
            facts["Labels"] = f"class probabilities of {teacher.id.label} ({teacher.id.digest})"
        if self.unlabelled is not None:
            figures |= {"unlabelled": len(texts) - n_labelled, "left_out": examples.n_left_out}
            figures["unlabelled_digest"] = digest_of(list(texts[n_labelled:]))
            left_out = "{left_out:,} more are related to queries or held-out rows, and left out"
            facts["Unlabelled texts"] = ("{unlabelled:,}; " + left_out).format(**figures)
            trained_on = f"{trained_on or context.data.task.spec.title}, and unlabelled texts"
        facts |= fitted.facts
        return replace(fitted, facts=facts, figures=figures, trained_on=trained_on)

    def _learn(
        self, context: TrainingContext, lesson: Lesson, vectors: FloatArray | None
    ) -> Learnt:
        """Return the module to append to the base, its loss, and facts about its training."""
        from polarity_bench.training.recipes.axis.probe import (
            fisher_weights,
            logistic,
            mean_difference,
        )

        given = lesson.labelled
        if vectors is None:
            return self._fine_tune(context, lesson)
        if self.probe == "fisher":
            weights = np.sqrt(fisher_weights(vectors, given.labels))
            facts = {"Space": "each dimension weighted by the square root of its Fisher ratio"}
            return _dense(np.diag(weights)), 0.0, FitResult(1, facts)
        if self.probe == "mean-difference":
            probe = mean_difference(vectors, given.labels)
        else:
            probe = logistic(vectors, given.labels, self.seed, lesson.soft)
        if self.head == "shared":
            return self._fine_tune(context, lesson, probe, vectors)
        facts = {"Probe": f"{self.probe}, log loss {probe.log_loss:.4f}"}
        if self.stretch is None:
            return self._axis(given.classes, probe), probe.log_loss, FitResult(1, facts)
        basis = probe.directions
        grown = np.eye(basis.shape[1]) + (self.stretch - 1) * basis.T @ basis
        facts |= {"Space": f"stretched {self.stretch:g} times along the probe's directions"}
        return _dense(grown), probe.log_loss, FitResult(1, facts)

    def _fine_tune(
        self,
        context: TrainingContext,
        lesson: Lesson,
        probe: Probe | None = None,
        vectors: FloatArray | None = None,
    ) -> Learnt:
        """Fine-tune a classifier and return its axis.

        The head `tuned` fine-tunes the tower, which is a copy of the base by default. The head
        `shared` fine-tunes the base itself and preserves its vectors.

        Args:
            context: The context.
            lesson: The texts with their labels.
            probe: Initial head, only for `shared`.
            vectors: Vectors of the base to preserve, (n, d), only for `shared`.
        """
        from sentence_transformers import SentenceTransformer

        from polarity_bench.training.loops.classifier_training import shape_encoder
        from polarity_bench.training.recipes.axis.shared_encoder import distillation
        from polarity_bench.training.recipes.axis.tower import costs, facts_of

        objective, also = self._objective(), None
        facts: dict[str, str] = {}
        base, encoder = context.base, context.base.model
        if tower := lesson.others.get("tower"):
            context, encoder = replace(context, base=tower), tower.model
            facts |= facts_of(tower)
        if vectors is not None:
            also = distillation(encoder, vectors, self.keep)
        else:
            parts = [deepcopy(module) for module in (encoder[0], encoder[1])]
            encoder = SentenceTransformer(modules=parts).to(encoder.device)
            shape_encoder(encoder, objective)
            facts["Encoding"] = costs(base, encoder)
        begin = {"weight": probe.weight, "bias": probe.bias} if probe else None
        fitted, speed = context.fit_classifier(
            encoder, lesson.labelled, objective, self.seed, begin=begin, soft=lesson.soft, also=also
        )
        axis = self._axis(lesson.labelled.classes, fitted.head, None if probe else encoder)
        return axis, fitted.loss, FitResult(len(fitted.losses), facts, speed=speed)

    def _axis(
        self, classes: Sequence[str], head: Probe | Head, tower: SentenceTransformer | None = None
    ) -> Any:
        import torch

        from polarity_bench.encoders.axis import Axis as Module

        parts: Any = None if tower is None else (tower[0], tower[1])
        axis = Module(list(classes), head.weight.shape[1], self.strength, parts)
        weights = {"weight": torch.tensor(head.weight), "bias": torch.tensor(head.bias)}
        axis.head.load_state_dict(weights)
        return axis.eval()

    def _objective(self) -> Objective:
        from polarity_bench.training.objective import Objective

        return Objective(
            epochs=self.epochs, batch_size=self.batch_size, rate=self.rate, dtype=self.dtype
        )


def _taught(context: TrainingContext, lesson: Lesson, embedder: Embedder) -> Lesson:
    """Return a lesson whose texts all have the teacher's labels, if there is a teacher."""
    from polarity_bench.classifiers.head import Head
    from polarity_bench.training.recipes.axis.probe import MOST_ROWS

    if (teacher := lesson.others.get("distil_from")) is None:
        return lesson
    axis: Any = teacher.model[-1]
    given, texts = lesson.labelled, lesson.texts
    with context.bar("labelling by the teacher", len(set(texts))) as advance:
        embedded = embedder.embed(teacher, texts, advance)
    # At strength 0, the vectors have no coordinates.
    embedded = replace(embedded, encoder=replace(embedded.encoder, strength=1.0))
    placed = embedded.sources(texts).vectors[:, : teacher.id.axis]
    order = [axis.classes.index(name) for name in given.classes]
    soft = Head.of_axis(axis.classes).probabilities(placed)[:, order]
    predicted = soft.argmax(axis=1)
    labels = np.concatenate([given.labels, predicted[len(given.labels) :]])
    counts, n_rarest = np.bincount(predicted, minlength=soft.shape[1]), np.bincount(labels).min()
    if counts.max() == len(texts) or n_rarest * MOST_ROWS < 2 * len(texts):
        raise InputError(
            f"`distil_from` {teacher.id.name}: the teacher gives {counts.min()} of {len(texts):,} "
            f"texts the class {given.classes[int(counts.argmin())]!r}, which is too few to learn "
            "it; use another teacher or other texts"
        )
    labelled = replace(given, texts=texts, labels=labels)
    return replace(lesson, labelled=labelled, soft=soft)


def _check_base(base: SentenceTransformerEncoder) -> None:
    """Check that normalising the base's vectors and adding an axis preserves the base's ranking.

    Raises:
        InputError: If the base truncates its vectors, or compares vectors that are not normalised.
    """
    from sentence_transformers.base.modules import Normalize

    name, cut = base.id.name, base.model.truncate_dim
    if cut is not None:
        raise InputError(
            f"`model` {name}: the encoder has `truncate_dim` {cut}, which would shorten "
            "vectors after the axis is added; save the encoder without `truncate_dim`, train, then "
            f"set `encoder[-1].truncate_dim = {cut}` on the trained encoder"
        )
    if base.id.similarity == "dot" and not isinstance(base.model[-1], Normalize):
        raise InputError(
            f"`model` {name}: the base ranks by inner products of vectors that are not normalised, "
            "but an axis needs unit vectors, so strength 0 would not rank like the base; use a "
            "base that ranks by cosine"
        )


def _of_another(name: str, context: TrainingContext) -> LabelledTexts:
    """Return the texts and labels of another task with the same classes.

    Raises:
        InputError: If the classes differ, the task has pairs, or a text is a query or held out.
    """
    from polarity_bench.tasks.labelled import LabelledTexts

    labelled, data = LabelledTexts.of(name, context.access, context.task_dir), context.data
    classes = data.pool.classes
    if tuple(sorted(labelled.classes)) != classes:
        raise InputError(
            f"`labels_from` {name}: expected the classes of {data.task.spec.name} "
            f"({', '.join(classes)}), got {', '.join(sorted(labelled.classes))}; use a task with "
            "the same classes"
        )
    if len(texts := _single(labelled)) < len(labelled.texts):
        raise InputError(
            f"`labels_from` {name}: expected a task with single texts, got pairs; use another task"
        )
    data.check_given({"text": texts})
    codes = np.array([classes.index(name) for name in labelled.classes])
    return replace(labelled, labels=codes[labelled.labels], classes=classes)


def _single(given: LabelledTexts) -> list[str]:
    """Return the single texts, without pairs."""
    return [text for text in given.texts if isinstance(text, str)]


def _units(vectors: FloatArray) -> FloatArray:
    """Normalise vectors to unit length, (n, d) float32."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / lengths, dtype=np.float32)


def _dense(matrix: FloatArray) -> Any:
    """Return a matrix as a `Dense` module, which loads without polarity-bench installed."""
    import torch
    from sentence_transformers.base.modules import Dense

    size = len(matrix)
    dense = Dense(size, size, bias=False, activation_function=torch.nn.Identity())
    dense.load_state_dict({"linear.weight": torch.tensor(matrix, dtype=torch.float32)})
    return dense
