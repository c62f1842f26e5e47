"""Classifier families of the transfer protocols.

A family trains one classifier per training set and regularization. It returns each classifier as a
function from features to labels. Labels are integers from 0. `SklearnLogistic` and
`TorchClassifier` reproduce the seeds, permutations, iteration limits and early stopping of the
SentEval toolkit, so results are identical to the last digit. `ExactLogistic` has none of these.
The global random state of numpy and torch does not change.

Shapes: n samples, d dimensions, c classes.

References:
    Conneau and Kiela (2018), SentEval, https://arxiv.org/abs/1803.05449
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polarity_bench.tasks.senteval.protocol_names import SentEvalProtocol
from polarity_bench.values import FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from sklearn.utils.parallel import Parallel
    from torch import Tensor, nn

Predict = Callable[[FloatArray], IntArray]
"""A fitted classifier: a function from features, (n, d), to labels, (n,)."""

Examples = tuple[FloatArray, IntArray]
"""Features, (n, d), and labels, (n,)."""

OPTIMIZERS: Mapping[str, str] = {
    name.lower(): name
    for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "ASGD", "RMSprop", "Rprop", "SGD")
}
"""torch's name of each optimizer, keyed by the toolkit's name."""

_SPARSE_SHARE = 0.05  # Features with a smaller share of nonzero values become sparse arrays.
_DEV_SHARE = 0.05  # Share of the training set that serves as dev set if `fit` gets no dev set.


@dataclass(frozen=True)
class Fit:
    """Fits on one subset of examples, one per regularization.

    Attributes:
        train: Positions of the training examples.
        regularizations: Regularization of each fit.
        dev: Positions of the dev examples; None to compute no dev accuracy.
        test: Positions of the examples to predict; None to predict nothing.
    """

    train: IntArray
    regularizations: tuple[float, ...]
    dev: IntArray | None = None
    test: IntArray | None = None


class ClassifierFamily(ABC):
    """Base class of classifier families.

    The fields of a subclass are the classifier's parameters. Stored results contain their names, so
    the names must not change.
    """

    protocol: ClassVar[SentEvalProtocol]
    """Name of the protocol in results."""
    grid: ClassVar[tuple[float, ...]]
    """Candidate regularizations for `nested_kfold` and `dev_split`."""
    wide_grid: ClassVar[tuple[float, ...]]
    """Candidate regularizations for `kfold`."""
    together: ClassVar[bool] = False
    """Whether fits on several training sets are faster together than in several processes."""
    seed: int
    """Seed of the initial weights, the permutations and the folds of `kfold`."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the classifier, keyed by their names in digests and stored results."""
        return dict(vars(self))

    def limit_threads(self, workers: int) -> AbstractContextManager[None]:  # noqa: ARG002 - one thread
        """Limit the threads of fits and predictions.

        Args:
            workers: Number of threads, for families that are faster with more than one.
        """
        return single_threaded(with_torch=False)

    @abstractmethod
    def fit(
        self,
        train: Examples,
        regularizations: Sequence[float],
        *,
        n_classes: int,
        dev: Examples | None = None,
    ) -> list[Predict]:
        """Fit one classifier per regularization.

        Args:
            train: Training examples.
            regularizations: Regularization of each classifier.
            n_classes: Number of classes.
            dev: Dev examples for early stopping, if the family uses early stopping.

        Returns:
            The fitted classifiers, one per regularization.
        """

    def fit_subsets(
        self,
        examples: Examples,
        fits: Sequence[Fit],
        *,
        n_classes: int,
    ) -> list[list[Predict]]:
        """Fit classifiers on several subsets of the same examples.

        Args:
            examples: All examples.
            fits: The subsets, and their regularizations.
            n_classes: Number of classes.

        Returns:
            The fitted classifiers of each subset, one per regularization.
        """
        features, labels = examples

        def chosen(positions: IntArray) -> Examples:
            return features[positions], labels[positions]

        return [
            self.fit(
                chosen(fit.train),
                fit.regularizations,
                n_classes=n_classes,
                dev=None if fit.dev is None else chosen(fit.dev),
            )
            for fit in fits
        ]


@dataclass(frozen=True)
class SklearnLogistic(ClassifierFamily):
    """scikit-learn's logistic regression, fitted with L-BFGS.

    Regularizations are values of scikit-learn's C, the inverse of the regularization strength. As
    in the toolkit, a fit ends after 100 iterations, even if it has not converged.
    """

    protocol: ClassVar[SentEvalProtocol] = "senteval-sklearn"
    grid: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    wide_grid: ClassVar[tuple[float, ...]] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

    seed: int = 1111

    def fit(
        self,
        train: Examples,
        regularizations: Sequence[float],
        *,
        n_classes: int,  # noqa: ARG002 - scikit-learn infers the number from the labels
        dev: Examples | None = None,  # noqa: ARG002 - this family has no early stopping
    ) -> list[Predict]:
        """Fit one model per value of C."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        features, labels = _to_sparse(train[0]), train[1]
        models = [LogisticRegression(C=c, random_state=self.seed) for c in regularizations]
        with warnings.catch_warnings():
            # The iteration limit is part of the protocol. TREC, with six classes, reaches the
            # limit.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return [model.fit(features, labels).predict for model in models]


@dataclass(frozen=True)
class ExactLogistic(ClassifierFamily):
    """Logistic regression at its optimum, computed in float64.

    Regularizations are values of scikit-learn's C, the inverse of the regularization strength.
    """

    protocol: ClassVar[SentEvalProtocol] = "senteval-exact"
    grid: ClassVar[tuple[float, ...]] = SklearnLogistic.grid
    wide_grid: ClassVar[tuple[float, ...]] = SklearnLogistic.wide_grid
    together: ClassVar[bool] = True

    seed: int = 1111

    def limit_threads(self, workers: int) -> AbstractContextManager[None]:
        """Limit BLAS to one thread per worker, because one product serves all fits."""
        from threadpoolctl import threadpool_limits

        # Limits do not apply to libraries that are loaded later.
        import polarity_bench.tasks.senteval.logistic  # noqa: F401 - loads scipy's BLAS

        return threadpool_limits(workers)  # type: ignore[no-any-return]  # threadpoolctl ships no types

    def fit(
        self,
        train: Examples,
        regularizations: Sequence[float],
        *,
        n_classes: int,
        dev: Examples | None = None,  # noqa: ARG002 - this family has no early stopping
    ) -> list[Predict]:
        """Fit one model per value of C."""
        everything = Fit(np.arange(len(train[1])), tuple(regularizations))
        return self.fit_subsets(train, [everything], n_classes=n_classes)[0]

    def fit_subsets(
        self, examples: Examples, fits: Sequence[Fit], *, n_classes: int
    ) -> list[list[Predict]]:
        """Fit the models of all subsets together, from one value of C to the next."""
        from polarity_bench.tasks.senteval.logistic import LogisticFits, predict_classes

        features, labels = examples
        trains = [fit.train for fit in fits]
        used = [[each for each in (fit.dev, fit.test) if each is not None] for fit in fits]
        classified = [np.concatenate(each) for each in used] if all(used) else None
        logistic = LogisticFits(_to_sparse(features), labels, n_classes, trains, classified)
        grid = zip(*(fit.regularizations for fit in fits), strict=True)
        solved = [logistic.solve(values) for values in grid]
        return [
            [partial(predict_classes, weights[:, fit]) for weights in solved]
            for fit in range(len(fits))
        ]


def _to_sparse(features: FloatArray) -> Any:
    """Convert features to a sparse array if nearly all values are zero, to fit faster.

    Word counts are an example of such features.
    """
    from scipy import sparse

    nearly_all_zero = np.count_nonzero(features) < _SPARSE_SHARE * features.size
    return sparse.csr_array(features) if nearly_all_zero else features


@dataclass(frozen=True)
class TorchClassifier(ClassifierFamily):
    """The toolkit's PyTorch classifier: a linear model, or a network with one hidden layer.

    Training runs in blocks of `epoch_size` epochs. After each block, the accuracy on the dev set is
    measured, and blocks without a new best accuracy are counted. This count is never reset.
    Training ends when the count exceeds `tenacity`, or when more than `max_epochs` epochs are
    finished. The weights with the best dev accuracy are kept. If there is no dev set, 5 % of the
    training set is used as a dev set. The regularization is the weight decay of the optimizer.

    Attributes:
        n_hidden: Number of units of the hidden layer; 0 means logistic regression.
        dropout: Dropout rate before the hidden layer's sigmoid.
        optimizer: Name and settings in the toolkit's notation: "adam" or "sgd,lr=0.1".
        batch_size: Number of examples per step.
        tenacity: Number of blocks without a new best accuracy that are tolerated.
        epoch_size: Number of epochs per block.
        max_epochs: A block starts only if at most this many epochs are finished.
        seed: Seed of the initial weights, the permutations and the split.
        device: Device to train on, "cpu" or "cuda".
    """

    protocol: ClassVar[SentEvalProtocol] = "senteval-torch"
    grid: ClassVar[tuple[float, ...]] = tuple(10.0**t for t in range(-5, -1))
    wide_grid: ClassVar[tuple[float, ...]] = grid

    n_hidden: int = 0
    dropout: float = 0.0
    optimizer: str = "adam"
    batch_size: int = 64
    tenacity: int = 5
    epoch_size: int = 4
    max_epochs: int = 200
    seed: int = 1111
    device: str = "cpu"

    def limit_threads(self, workers: int) -> AbstractContextManager[None]:  # noqa: ARG002 - one thread
        """Limit torch and BLAS to one thread."""
        return single_threaded()

    def fit(
        self,
        train: Examples,
        regularizations: Sequence[float],
        *,
        n_classes: int,
        dev: Examples | None = None,
    ) -> list[Predict]:
        """Fit one model per weight decay, and keep the weights with the best dev accuracy."""
        import torch

        devices = [torch.device(self.device)] if self.device != "cpu" else []
        with torch.random.fork_rng(devices):
            # BLAS rounding depends on the memory alignment of the operands. Stacking does not
            # change the alignment of rows whose size is a multiple of 16 bytes.
            aligned = train[0].shape[1] % 4 == 0 and self.device == "cpu"
            may_stack = aligned and self.n_hidden == 0 and self.optimizer == "adam"
            groups = [regularizations] if may_stack else [[value] for value in regularizations]
            fitted = [self._fit(train, dev, group, n_classes) for group in groups]
        return [partial(self._predict, model) for models in fitted for model in models]

    def _predict(self, model: nn.Module, features: FloatArray) -> IntArray:
        from polarity_bench.tasks.senteval.toolkit_training import outputs

        logits = outputs(model, self._tensor(features), self.batch_size)
        return np.asarray(logits.argmax(1).cpu())

    def _fit(
        self,
        train: Examples,
        dev: Examples | None,
        regularizations: Sequence[float],
        n_classes: int,
    ) -> Sequence[nn.Module]:
        import torch
        from torch import nn

        from polarity_bench.tasks.senteval.toolkit_training import Schedule, train_any, train_linear

        draw = np.random.RandomState(self.seed)  # The toolkit seeds this generator globally.
        torch.manual_seed(self.seed)
        if dev is None:
            train, dev = _split(train, draw)
        learn = self._tensor(train[0]), self._tensor(train[1])
        schedule = Schedule(self.batch_size, self.epoch_size, self.tenacity, self.max_epochs)
        model = self._model(learn[0].shape[1], n_classes).to(self.device)
        if len(regularizations) > 1:
            assert isinstance(model, nn.Linear)  # noqa: S101  Only linear models are stacked.
            watch = self._tensor(dev[0]), self._tensor(dev[1])
            return train_linear(learn, watch, model, regularizations, schedule, draw)
        (weight_decay,) = regularizations
        optimizer = _optimizer(self.optimizer, model, weight_decay=weight_decay)

        def n_correct(model: nn.Module) -> int:
            return int((self._predict(model, dev[0]) == dev[1]).sum())

        return [train_any(learn, model, optimizer, schedule, draw, n_correct)]

    def _model(self, n_features: int, n_classes: int) -> nn.Module:
        from torch import nn

        if self.n_hidden == 0:
            return nn.Linear(n_features, n_classes)
        return nn.Sequential(
            nn.Linear(n_features, self.n_hidden),
            nn.Dropout(self.dropout),
            nn.Sigmoid(),  # The toolkit's code uses a sigmoid, although its README says tanh.
            nn.Linear(self.n_hidden, n_classes),
        )

    def _tensor(self, values: FloatArray | IntArray) -> Tensor:
        import torch

        dtype = torch.float32 if np.issubdtype(values.dtype, np.floating) else torch.int64
        return torch.tensor(values, dtype=dtype, device=self.device)


@contextmanager
def single_threaded(*, with_torch: bool = True) -> Iterator[None]:
    """Limit computations to one thread, so that sums do not depend on the number of cores.

    `threadpoolctl` limits BLAS and OpenMP. Torch needs a separate limit: `threadpoolctl` does not
    detect torch's MKL, whose number of threads follows `torch.set_num_threads` after its first
    call.

    Args:
        with_torch: Whether to limit torch as well. Torch is then imported first, because limits do
            not apply to libraries that are loaded later.
    """
    import threadpoolctl

    with ExitStack() as stack:
        if with_torch:
            import torch

            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        stack.enter_context(threadpoolctl.threadpool_limits(1))
        yield


def single_threaded_processes(n: int, **options: Any) -> Parallel:
    """Return a pool of single-threaded processes.

    The limit applies to all libraries that the processes load. Later calls reuse the processes.
    joblib replaces a process, with a warning, if its memory has grown by 300 MB since its first
    call. The processes therefore import torch, the largest library, before that.

    Args:
        n: Number of processes.
        **options: Options of joblib's `Parallel`.
    """
    from joblib import parallel_config
    from sklearn.utils.parallel import Parallel

    with parallel_config("loky", inner_max_num_threads=1, initializer=_import_torch):
        return Parallel(n_jobs=n, **options)


def _import_torch() -> None:
    import torch  # noqa: F401  before the first fit


def _split(examples: Examples, draw: np.random.RandomState) -> tuple[Examples, Examples]:
    features, labels = examples
    order = draw.permutation(len(labels))
    n_dev = int(_DEV_SHARE * len(labels))
    dev, train = order[:n_dev], order[n_dev:]
    return (features[train], labels[train]), (features[dev], labels[dev])


def _optimizer(text: str, model: nn.Module, *, weight_decay: float) -> torch.optim.Optimizer:
    from torch import optim

    name, *settings = text.split(",")
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}; known: {', '.join(OPTIMIZERS)}")
    options = {key: float(value) for key, value in (s.split("=") for s in settings)}
    optimizer: torch.optim.Optimizer = getattr(optim, OPTIMIZERS[name])(
        model.parameters(), **options
    )
    optimizer.param_groups[0]["weight_decay"] = weight_decay
    return optimizer
