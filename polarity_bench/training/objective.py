"""Training objective of classifiers: cross-entropy, optionally with a metric loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.losses.metric import METRIC_LOSSES, MetricLoss
from polarity_bench.training.parameters import Parameters, parameter


@dataclass(frozen=True)
class CrossEntropy(MetricLoss):
    """Categorical cross-entropy without a metric loss."""

    name: ClassVar[str] = "cce"
    title: ClassVar[str] = "CCE"


OBJECTIVES: dict[str, type[MetricLoss]] = {"cce": CrossEntropy, **METRIC_LOSSES}
"""Losses to combine with cross-entropy, by name; `cce` means cross-entropy alone."""

Pooling = Literal["own", "first", "mean"]


@dataclass(frozen=True, kw_only=True)
class Objective(Parameters):
    """The objective β · cross-entropy + (1 − β) · metric loss, and the settings of its training.

    References:
        Sosnowski et al. (2022), TripleEntropy, equation 6; the few-shot paper of the same group,
        equation 8.
    """

    family: ClassVar[str] = "objective"
    name: ClassVar[str] = "classifier"

    loss: MetricLoss = parameter(
        CrossEntropy(), "loss added to cross-entropy; cce: cross-entropy alone", variants=OBJECTIVES
    )
    beta: float | None = parameter(
        None,
        "weight of cross-entropy in training and inference [default: 0.5; cce: 1]",
        least=0,
        most=1,
    )
    pooling: Pooling = parameter(
        "own", "pooling of token vectors: the encoder's own, the first token, or the mean"
    )
    layers: int | None = parameter(
        None, "number of encoder layers to keep, from the first [default: all]", least=1
    )
    epochs: int = parameter(128, "passes over the rows", least=1)
    batch_size: int = parameter(64, "texts per batch", least=1)
    rate: float = parameter(1e-5, "maximum learning rate", above=0)
    head_rate: float | None = parameter(
        None, "maximum learning rate of the linear layer [default: `rate`]", above=0
    )
    proxy_rate: float = parameter(1e-3, "maximum learning rate of proxies", above=0)
    warm_up: float = parameter(0.06, "share of the steps used for warm-up", least=0, most=1)
    weight_decay: float = parameter(0.01, "weight decay", least=0)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "precision of the forward pass")

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = self.loss.name == "cce"
        if self.beta is None:
            object.__setattr__(self, "beta", 1.0 if plain else 0.5)
        if plain and self.share < 1:
            raise InputError(
                f"`beta` must be 1 with the `loss` cce (cross-entropy alone), got {self.beta}; "
                "omit `beta`, or use another `loss`"
            )

    def n_steps(self, n_rows: int) -> int:
        """Return the number of optimizer steps in all epochs over `n_rows` rows."""
        return self.epochs * -(-n_rows // self.batch_size)

    @property
    def metric(self) -> MetricLoss | None:
        """The metric loss; None if its weight is 0."""
        return None if self.share == 1 else self.loss

    @property
    def share(self) -> float:
        """Weight β of cross-entropy, in [0, 1]; the default is filled in."""
        assert self.beta is not None  # noqa: S101  filled in by __post_init__
        return self.beta
