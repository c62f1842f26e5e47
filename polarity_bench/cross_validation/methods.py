"""Cross-validated methods, which build a classifier from an encoder and labelled texts.

Every method gets the same rows and the same encoder, prepared by `shape_encoder`. `FineTuning`
trains the encoder and the head together. The alternatives are a logistic regression on the frozen
encoder, and SetFit.

Shapes: n texts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polarity_bench.errors import InputError, check_installed, check_known
from polarity_bench.training.objective import OBJECTIVES, Objective, Pooling
from polarity_bench.training.parameters import Parameters, declared, flattened, from_flat, parameter
from polarity_bench.values import IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.tasks.labelled import LabelledTexts, Text

DENSE, PROXIES = "dense", "proxies"
"""Ways of predicting: by the linear layer alone, or by the layer and the proxies (equation 10)."""


@dataclass(frozen=True)
class FoldContext:
    """Inputs of a method in one fold.

    Attributes:
        model: Encoder; the method must not change it.
        data: The data set, with the encoder's prompt in its texts.
        train: Positions of the training texts.
        test: Positions of the test texts.
        seed: Seed of all random draws.
    """

    model: SentenceTransformer
    data: LabelledTexts
    train: IntArray
    test: IntArray
    seed: int

    def texts_at(self, rows: IntArray) -> list[Text]:
        """Return the texts at the given positions."""
        return [self.data.texts[row] for row in rows]


@dataclass(frozen=True)
class Predictions:
    """Predictions of a method for one fold.

    Attributes:
        classes: Predicted class of each test text, (n,), for each way of predicting.
        n_empty: Number of batches whose metric loss was 0 because they had no pairs to compare.
    """

    classes: Mapping[str, IntArray]
    n_empty: int = 0


@dataclass(frozen=True, kw_only=True)
class FineTuning(Objective):
    """Fine-tuning of the encoder and a head, with cross-entropy and optionally a metric loss."""

    extra: ClassVar[str] = "classify"

    @property
    def needs(self) -> tuple[str, ...]:
        """Additional packages that the method needs."""
        return () if self.metric is None else ("pytorch_metric_learning",)

    @property
    def title(self) -> str:
        """Title of the method, composed of its losses."""
        return self.loss.title if self.loss.name == "cce" else f"CCE + {self.loss.title}"

    def n_trained_on(self, n_rows: int) -> int:
        """Return the number of training texts, which is the number of rows times epochs."""
        return n_rows * self.epochs

    def predict(self, fold: FoldContext) -> Predictions:
        """Train on a fold, and predict with the head alone and with its proxies, if any."""
        from polarity_bench.classifiers.tokens import encode_all, tokenize
        from polarity_bench.training.loops.classifier_training import fit_classifier

        model = deepcopy(fold.model)
        rows = tokenize(model, fold.texts_at(fold.train))
        labels = fold.data.labels[fold.train]
        fitted = fit_classifier(model, rows, labels, fold.data.classes, self, seed=fold.seed)
        head = fitted.head
        vectors = encode_all(model, tokenize(model, fold.texts_at(fold.test)))
        ways = [DENSE] if head.proxies is None else [DENSE, PROXIES]
        classes = {
            way: head.scores(vectors, with_proxies=way == PROXIES).argmax(axis=1) for way in ways
        }
        return Predictions(classes, fitted.n_empty)


@dataclass(frozen=True, kw_only=True)
class _OnEncoder(Parameters):
    """Base class of the methods other than fine-tuning, with the settings of `shape_encoder`."""

    family: ClassVar[str] = "method"
    needs: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""

    pooling: Pooling = parameter("own", "pooling of a text's token vectors")
    layers: int | None = parameter(
        None, "number of the encoder's layers to keep; None for all", least=1
    )


@dataclass(frozen=True, kw_only=True)
class Frozen(_OnEncoder):
    """scikit-learn's logistic regression on the vectors of the frozen encoder.

    All settings are scikit-learn's defaults, except for a larger maximum number of iterations.
    """

    name: ClassVar[str] = "frozen"
    title: ClassVar[str] = "Frozen + logistic regression"

    def n_trained_on(self, n_rows: int) -> int:  # noqa: ARG002  as in the base class
        """Return 0, because the encoder is not trained."""
        return 0

    def predict(self, fold: FoldContext) -> Predictions:
        """Fit the regression on a fold, and predict the classes of the test texts."""
        from sklearn.linear_model import LogisticRegression

        from polarity_bench.classifiers.tokens import encode_all, tokenize

        train, test = (
            encode_all(fold.model, tokenize(fold.model, fold.texts_at(rows)))
            for rows in (fold.train, fold.test)
        )
        regression = LogisticRegression(max_iter=1000, random_state=fold.seed)
        regression.fit(train, fold.data.labels[fold.train])
        return Predictions({DENSE: np.asarray(regression.predict(test), dtype=np.int64)})


@dataclass(frozen=True, kw_only=True)
class FewShotSetFit(_OnEncoder):
    """SetFit with its default settings: one epoch over all pairs, then a logistic regression.

    References:
        Tunstall et al. (2022), https://arxiv.org/abs/2209.11055
    """

    name: ClassVar[str] = "setfit"
    title: ClassVar[str] = "SetFit"
    needs: ClassVar[tuple[str, ...]] = ("setfit", "accelerate")
    extra: ClassVar[str] = "setfit"

    batch_size: int = parameter(16, "number of pairs in a batch", least=1)

    def n_trained_on(self, n_rows: int) -> int:
        """Return the approximate number of training texts, two for each pair of rows.

        The exact number depends on the classes, because some pairs occur more than once.
        """
        return n_rows * (n_rows + 1)

    def predict(self, fold: FoldContext) -> Predictions:
        """Train on the pairs of a fold, fit the regression, and predict the test texts."""
        from polarity_bench.classifiers.tokens import encode_all, tokenize
        from polarity_bench.training.recipes.setfit import recipe
        from polarity_bench.training.recipes.setfit.pairs import paired_once

        texts: list[Any] = fold.texts_at(fold.train)
        settings = recipe.SetFit(variant="setfit", batch_size=self.batch_size, seed=fold.seed)
        model, labels = deepcopy(fold.model), fold.data.labels[fold.train]
        positions, same = paired_once(labels, None, fold.seed)
        with recipe.silent(), tempfile.TemporaryDirectory() as folder:
            trainer = recipe.make_trainer(
                settings, model, n_classes=len(fold.data.classes), folder=Path(folder)
            )
            recipe.train_on_pairs(trainer, texts, positions, same)
            recipe.train_head(trainer, texts, labels, fold.seed)
            model.eval()
            vectors = encode_all(model, tokenize(model, fold.texts_at(fold.test)))
            classes = trainer.model.model_head.predict(vectors)
        return Predictions({DENSE: np.asarray(classes, dtype=np.int64)})


Method = FineTuning | Frozen | FewShotSetFit


def full_title(method: Method) -> str:
    """Return a method's title, with the parameters that differ from their defaults.

    Pooling and layers are left out, because all methods of a table share them.

    Example:
        >>> from polarity_bench.training.losses.metric import SupCon
        >>> full_title(FineTuning(loss=SupCon(temperature=0.3), beta=0.9, epochs=128))
        'CCE + SupCon (beta 0.9, temperature 0.3)'
    """
    usual = (
        FineTuning(loss=type(method.loss)()) if isinstance(method, FineTuning) else type(method)()
    )
    default = flat(usual.to_dict("moves"))
    parameters = flat(method.to_dict("moves"))
    changed = [
        f"{key} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in parameters.items()
        if key not in _SHAPE and value != default[key]
    ]
    return f"{method.title} ({', '.join(changed)})" if changed else method.title


def flat(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's values, with the parameters of its loss at the top level."""
    loss = method.get("loss", {})
    return {**{key: value for key, value in method.items() if key != "loss"}, **loss}


_SHAPE = ("pooling", "layers")


def check_texts(method: Method, texts: Sequence[Text]) -> None:
    """Raise an error if a method does not support the texts.

    Raises:
        InputError: If the texts are pairs and the method is SetFit.
    """
    if isinstance(method, FewShotSetFit) and any(not isinstance(text, str) for text in texts):
        raise InputError("`losses` setfit: SetFit takes single texts, got pairs; leave out setfit")


METHODS: dict[str, type[Frozen] | type[FewShotSetFit]] = {"setfit": FewShotSetFit, "frozen": Frozen}
"""Methods other than fine-tuning, by the name that users give instead of a loss."""

KNOWN = (*OBJECTIVES, *METHODS)
"""Names of all losses and methods that can be cross-validated."""


@cache
def parameters_of(name: str) -> frozenset[str]:
    """Return the names of the parameters that affect a method.

    Raises:
        InputError: If the method is unknown.

    Example:
        >>> sorted(parameters_of("setfit"))
        ['batch_size', 'layers', 'pooling']
    """
    check_known(name, KNOWN, f"`losses`: unknown loss {name!r}")
    if name in METHODS:
        return frozenset(flattened(METHODS[name]))
    own = {each.name for each in declared(FineTuning)} - {"loss"}
    names = own | set(flattened(OBJECTIVES[name]))
    names -= {"beta"} if name == "cce" else set()
    names -= {"proxy_rate"} if OBJECTIVES[name].reads == "first" else set()
    return frozenset(names)


def make_method(name: str, parameters: Mapping[str, Any]) -> Method:
    """Create a method from parameters, and ignore parameters that the method does not take.

    Raises:
        InputError: If the method is unknown or a parameter is invalid.
    """
    names = parameters_of(name)
    accepted = {key: value for key, value in parameters.items() if key in names}
    if name in METHODS:
        return METHODS[name](**accepted)
    return from_flat({"classifier": FineTuning}, "classifier", {**accepted, "loss": name})


def make_methods(names: Sequence[str], parameters: Mapping[str, Any]) -> list[Method]:
    """Create several methods, each from the parameters that it takes.

    Raises:
        InputError: If a method is unknown, if its packages are missing, if a parameter is invalid,
            or if no method takes a parameter.
    """
    methods = []
    for name in names:
        methods.append(make_method(name, parameters))
        check_method(name, methods[-1])
    if unused := sorted(set(parameters) - frozenset().union(*map(parameters_of, names))):
        raise InputError(f"`{unused[0]}`: none of {', '.join(names)} takes this parameter")
    return methods


def check_method(name: str, method: Method) -> None:
    """Raise an error if a package that a method needs is not installed.

    Raises:
        InputError: If a package is missing; the message names the extra that installs it.
    """
    check_installed(f"the loss {name!r}", *method.needs, extra=method.extra)
