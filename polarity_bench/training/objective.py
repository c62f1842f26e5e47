"""Objective: how a classifier is trained, by cross-entropy and optionally a metric loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from polarity_bench.errors import InputError
from polarity_bench.training.losses.metric import METRIC_LOSSES, MetricLoss
from polarity_bench.training.parameters import Parameters, parameter


@dataclass(frozen=True)
class CrossEntropy(MetricLoss):
    """Categorical cross-entropy alone."""

    name: ClassVar[str] = "cce"
    title: ClassVar[str] = "CCE"


OBJECTIVES: dict[str, type[MetricLoss]] = {"cce": CrossEntropy, **METRIC_LOSSES}
"""Losses to combine with cross-entropy, by name; the first, `cce`, adds nothing."""

Pooling = Literal["own", "first", "mean"]


@dataclass(frozen=True, kw_only=True)
class Objective(Parameters):
    """β · cross-entropy + (1 − β) · metric loss, for one encoder; see `fit_classifier`.

    References:
        Sosnowski et al. (2022), TripleEntropy, equation 6; the few-shot paper of the same group,
        equation 8.
    """

    family: ClassVar[str] = "objective"
    name: ClassVar[str] = "classifier"

    loss: MetricLoss = parameter(
        CrossEntropy(), "loss to combine with cross-entropy; cce adds nothing", variants=OBJECTIVES
    )
    beta: float | None = parameter(
        None, "share of cross-entropy in loss and inference [default: 0.5; cce: 1]", least=0, most=1
    )
    pooling: Pooling = parameter(
        "own", "vector of a text: as the encoder pools, that of the first token, or the mean"
    )
    layers: int | None = parameter(None, "number of the encoder's layers to keep", least=1)
    epochs: int = parameter(128, "passes over the rows", least=1)
    batch_size: int = parameter(64, "texts per batch", least=1)
    rate: float = parameter(1e-5, "maximum learning rate", above=0)
    head_rate: float | None = parameter(
        None, "the linear layer's maximum [default: as `rate`]", above=0
    )
    proxy_rate: float = parameter(1e-3, "maximum learning rate of proxies", above=0)
    warm_up: float = parameter(0.06, "share of the steps in which the rates rise", least=0, most=1)
    weight_decay: float = parameter(0.01, "weight decay of AdamW", least=0)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "precision of the forward pass")

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = self.loss.name == "cce"
        if self.beta is None:
            object.__setattr__(self, "beta", 1.0 if plain else 0.5)
        if plain and self.share < 1:
            raise InputError(f"`beta` {self.beta}: the loss 'cce' is cross-entropy alone")

    def n_steps(self, n_rows: int) -> int:
        """Return the number of optimizer steps over this number of rows."""
        return self.epochs * -(-n_rows // self.batch_size)

    @property
    def metric(self) -> MetricLoss | None:
        """The metric loss; None if its share is 0."""
        return None if self.share == 1 else self.loss

    @property
    def share(self) -> float:
        """β, with the default filled in."""
        assert self.beta is not None  # noqa: S101  filled in by __post_init__
        return self.beta
