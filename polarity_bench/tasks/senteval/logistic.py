"""Logistic regressions on several subsets of the same samples, solved to their optimum together.

The objective is scikit-learn's: C times the sum of the log losses, plus half the squared length of
the weights. Intercepts are not penalized. Two classes have one logit; more classes have one each.
The optimum is unique, except for a constant that all intercepts may share. Predictions therefore
depend on the data and on C alone, neither on the algorithm nor on tiny changes of the features.

The training sets of the folds of a task share most samples. One product with the features serves
all folds, and one Cholesky factor of the mean Hessian preconditions all of them. Newton's method
with conjugate gradients then needs few products. Gradients, which decide where the optimum is, are
computed in float64. The Hessian decides only how fast it is reached, so float32 is enough for it.
A fit may be used only to classify samples that are known in advance. Then it ends as soon as it is
so near to the optimum that none of their classes can change.

Shapes: n samples, d features including the constant 1, f fits, c logits.

References:
    Nocedal and Wright (2006), Numerical Optimization, algorithms 3.1, 5.3 and 7.1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logsumexp, softmax

from polarity_bench.values import FloatArray, IntArray

Weights = NDArray[np.float64]
"""Weights of all fits, (d, f, c). The last feature is 1, and its weight is the intercept."""

_TOLERANCE = 1e-8
"""Greatest distance from the optimum, in the norm of the mean Hessian.

The Hessian is at least the identity, so this also bounds the error of the logits of unit vectors.
For vectors of length 1,000 the bound is 1,000 times as large.
"""
_MAX_STEPS = 200
_MAX_PRODUCTS = 500  # for one step
_PRODUCTS_PER_FACTOR = 8  # A new factor of the Hessian costs about as much.
# Features up to which the Hessian is factored. For more or sparse features, its diagonal is used.
_MAX_FACTORED = 5_000
_ROUNDING = 1e-12  # relative rounding error of a sum of losses
_ROUGH = 0.1  # greatest error of the Hessian in float32; the penalty's curvature is 1
_NEAR = 1e-4
_SAFETY = 10  # The distance may be wrong by a small factor: the mean Hessian is not that of a fit.
_FARTHEST = 0.01
"""Greatest distance at which classes count as settled, as a share of the longest vector's inverse.

Logits then change by less than 0.01 on the way to the optimum, and the Hessian by as little.
"""
_SHORTEST = 2.0**-10
"""Share of a Newton step that shows, nearer than `_NEAR`, that only rounding errors are left.

Long feature vectors reach this limit of float64 before `_TOLERANCE`.
"""


class LogisticFits:
    """Logistic regressions on subsets of the same samples.

    Attributes:
        weights: Weights of the last solution, (d, f, c); at first 0.
    """

    def __init__(
        self,
        features: Any,
        labels: IntArray,
        n_classes: int,
        trains: Sequence[IntArray],
        classified: Sequence[IntArray] | None = None,
    ) -> None:
        """Prepare the fits.

        Args:
            features: Features of all samples, (n, d - 1), dense or sparse.
            labels: Class numbers from 0, (n,).
            n_classes: Number of classes.
            trains: Positions of the training samples of each fit.
            classified: Positions of the samples that each fit is used for. A solution has the
                optimum's classes for them, and may end before the optimum. None if it is used for
                other samples, too.
        """
        self._features = _with_ones(features)
        self._lengths = np.sqrt(np.asarray((self._features**2).sum(1)).ravel())
        self._squared = float((self._lengths**2).sum())
        self._hessian_features = self._features
        self._truth = np.eye(n_classes)[labels][:, None, 1 if n_classes == 2 else 0 :]
        self._chosen = np.zeros((len(labels), len(trains), 1))
        for fit, train in enumerate(trains):
            self._chosen[train, fit] = 1.0
        self._is_classified = np.zeros(self._chosen.shape[:2], dtype=bool)
        for fit, positions in enumerate(classified or ()):
            self._is_classified[positions, fit] = True
        d, c = self._features.shape[1], self._truth.shape[2]
        self._penalty = np.ones((d, 1, 1))
        self._penalty[-1] = 0.0
        self.weights: Weights = np.zeros((d, len(trains), c))
        self._change = self.weights  # from the solution before the last one to the last one

    def solve(self, inverse_regularizations: Sequence[float]) -> Weights:
        """Move the weights from the last solution to the optimum, or near it; see `classified`.

        Args:
            inverse_regularizations: C of each fit.

        Returns:
            The weights at the optimum.

        Raises:
            FloatingPointError: If the method does not converge.
        """
        # The weight of each sample's log loss: C if the fit is trained on the sample, else 0.
        shares = np.asarray(inverse_regularizations, dtype=np.float64)[:, None] * self._chosen
        self._round_features(shares.max())
        is_first = not self.weights.any()
        last = self.weights
        # C grows evenly in a grid, so the next change resembles the last one.
        self.weights = last + self._change
        logits = self._logits(self.weights)
        losses = self._losses(logits, self.weights, shares)
        factors: list[FloatArray] = []
        is_exact = np.zeros(len(losses), dtype=bool)
        for _ in range(_MAX_STEPS):
            probabilities = _probabilities(logits)
            if not factors:
                curvatures = shares * probabilities * (1 - probabilities)
                factors = [self._factor(curvature) for curvature in curvatures.mean(1).T]
            errors = shares * (probabilities - self._truth)
            gradient = _product(self._features.T, errors) + self._penalty * self.weights
            distances = np.sqrt(_inner(gradient, _divide(gradient, factors)))
            near = self._settled_at(logits) if factors[0].ndim == 2 else _TOLERANCE
            active = ~(is_exact | (distances <= near))  # also true for NaN
            if not active.any():
                self._change = np.zeros_like(last) if is_first else self.weights - last
                return self.weights
            enough = 0.1 * near / np.maximum(distances, near)
            precisions = np.clip(distances, enough, 0.1)
            hessian = partial(self._times_hessian, probabilities, shares)
            direction, n_products = _conjugate_gradients(
                hessian, factors, -gradient, precisions, active
            )
            changes = self._logits(direction)
            slopes = _inner(gradient, direction)
            lengths = active.astype(np.float64)[:, None]
            while True:
                weights = self.weights + lengths * direction
                new = self._losses(logits + lengths * changes, weights, shares)
                too_long = new > losses + 1e-4 * lengths[:, 0] * slopes + _ROUNDING * losses
                if not too_long.any():
                    break
                lengths[too_long] /= 2
            is_exact |= active & (distances < _NEAR) & (lengths[:, 0] < _SHORTEST)
            self.weights, logits, losses = weights, logits + lengths * changes, new
            if n_products > _PRODUCTS_PER_FACTOR:
                factors = []
        raise FloatingPointError(f"no optimum after {_MAX_STEPS} steps of Newton's method")

    def _settled_at(self, logits: FloatArray) -> FloatArray:
        """Return the distance from the optimum, (f,), at which no wanted class can change."""
        nearest = np.zeros(logits.shape[1])
        if self._is_classified.any():
            if logits.shape[2] == 1:
                margins = np.abs(logits[..., 0])
            else:
                second, first = np.moveaxis(np.partition(logits, -2, axis=2)[..., -2:], 2, 0)
                margins = (first - second) / np.sqrt(2)
            margins /= self._lengths[:, None]
            nearest = margins.min(0, initial=np.inf, where=self._is_classified)
        farthest = max(_TOLERANCE, _FARTHEST / self._lengths.max())
        return np.clip(nearest / _SAFETY, _TOLERANCE, farthest)

    def _round_features(self, greatest_share: float) -> None:
        """Round the features of the Hessian to float32, unless its error would be too large."""
        error = np.finfo(np.float32).eps * greatest_share / 4 * self._squared
        if error > _ROUGH:
            self._hessian_features = self._features
        elif self._hessian_features is self._features:
            self._hessian_features = self._features.astype(np.float32)

    def _logits(self, weights: Weights) -> FloatArray:
        """Multiply the features by the weights: (n, f, c)."""
        return _product(self._features, weights)

    def _losses(self, logits: FloatArray, weights: Weights, shares: FloatArray) -> FloatArray:
        """Return the objective of each fit, (f,)."""
        # Margins, not differences of sums: losses far below the logits keep their digits.
        if logits.shape[2] == 1:
            log_losses = np.logaddexp(0, logits * (1 - 2 * self._truth))[..., 0]
        else:
            log_losses = logsumexp(logits - (logits * self._truth).sum(2, keepdims=True), 2)
        lengths = (self._penalty * weights**2).sum((0, 2))
        return np.asarray((log_losses * shares[..., 0]).sum(0) + lengths / 2)

    def _times_hessian(
        self, probabilities: FloatArray, shares: FloatArray, direction: Weights
    ) -> Weights:
        changes = probabilities * _product(self._hessian_features, direction)
        of_others = changes if changes.shape[2] == 1 else changes.sum(2, keepdims=True)
        changes -= probabilities * of_others
        changes *= shares
        return _product(self._hessian_features.T, changes) + self._penalty * direction

    def _factor(self, curvature: FloatArray) -> FloatArray:
        """Return the Cholesky factor of one logit's Hessian, (d, d), or its diagonal, (d,)."""
        penalty = self._penalty[:, 0, 0]
        if len(penalty) > _MAX_FACTORED or sparse.issparse(self._features):
            return np.asarray((self._features**2).T @ curvature + penalty)
        features = self._hessian_features
        scaled = features * np.sqrt(curvature).astype(features.dtype)[:, None]
        hessian = scaled.T @ scaled
        hessian[np.diag_indices_from(hessian)] += penalty
        factor, _ = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(factor, dtype=np.float64)  # for right sides in float64


def predict_classes(weights: FloatArray, features: FloatArray) -> IntArray:
    """Return the class of each sample, (n,), by the weights of one fit, (d, c)."""
    logits = features @ weights[:-1] + weights[-1]
    classes = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)
    return np.asarray(classes, dtype=np.int64)


def _with_ones(features: Any) -> Any:
    columns: list[Any] = [features.astype(np.float64), np.ones((features.shape[0], 1))]
    return sparse.hstack(columns, "csr") if sparse.issparse(features) else np.hstack(columns)


def _product(features: Any, values: FloatArray) -> Weights:
    """Multiply in the precision of the features: (m, n) by (n, f, c)."""
    flat = values.reshape(len(values), -1).astype(features.dtype, copy=False)
    product: Weights = np.asarray(features @ flat, dtype=np.float64)
    return product.reshape(-1, *values.shape[1:])


def _probabilities(logits: FloatArray) -> FloatArray:
    return np.asarray(expit(logits) if logits.shape[2] == 1 else softmax(logits, axis=2))


def _inner(one: Weights, other: Weights) -> FloatArray:
    """Return the inner product of the weights of each fit, (f,)."""
    return np.asarray(np.einsum("dfc,dfc->f", one, other))


def _divide(values: Weights, factors: Sequence[FloatArray]) -> Weights:
    """Divide the values of each logit by its factored Hessian.

    At the optimum, the weights of several logits sum to 0. So do gradients and directions, and
    there the Hessian is far from singular.
    """
    divided = [
        cho_solve((factor, True), each, check_finite=False)
        if factor.ndim == 2
        else each / factor[:, None]
        for factor, each in zip(factors, np.moveaxis(values, 2, 0), strict=True)
    ]
    quotients = np.stack(divided, axis=2)
    return quotients - quotients.mean(2, keepdims=True) if len(factors) > 1 else quotients


def _conjugate_gradients(
    hessian: Callable[[Weights], Weights],
    factors: Sequence[FloatArray],
    target: Weights,
    precisions: FloatArray,
    active: NDArray[np.bool_],
) -> tuple[Weights, int]:
    """Divide by the Hessian of each fit.

    Args:
        hessian: Function that multiplies by the Hessian.
        factors: Preconditioner of each logit.
        target: What to divide, (d, f, c).
        precisions: Relative error allowed for each fit, (f,).
        active: The fits to compute, (f,); the others get 0.

    Returns:
        The quotient, and the number of products with the Hessian.
    """
    quotient, residual = np.zeros_like(target), target.copy()
    direction = divided = _divide(residual, factors)
    squared = _inner(residual, divided)
    allowed = precisions**2 * squared
    n_products = 0
    while active.any() and n_products < _MAX_PRODUCTS:
        product = hessian(direction)
        n_products += 1
        lengths = np.zeros_like(squared)
        np.divide(squared, _inner(direction, product), out=lengths, where=active)
        quotient += lengths[:, None] * direction
        residual -= lengths[:, None] * product
        divided = _divide(residual, factors)
        before, squared = squared, _inner(residual, divided)
        active = active & (squared > allowed)
        shares = np.divide(squared, before, out=np.zeros_like(squared), where=active)
        direction = divided + shares[:, None] * direction
    return quotient, n_products
