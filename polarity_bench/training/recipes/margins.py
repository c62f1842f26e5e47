"""What a training run is: everything that moves its weights, checked before any work."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from polarity_bench.errors import InputError, nearest
from polarity_bench.training.neighbours import RECIPES, Recipe
from polarity_bench.types import EncoderId, digest_of

Schedule = Literal["linear", "cosine", "constant"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
TrainDtype = Literal["float32", "bfloat16"]
TRAIN_DTYPES: tuple[TrainDtype, ...] = get_args(TrainDtype)
AS_RELEASED = "as-released"
VERSION = 1  # raised whenever the code gives the same spec other weights


@dataclass(frozen=True)
class ExampleSpec:
    """How examples are made.

    Attributes:
        recipe: How neighbours are found, see `find_neighbours`.
        k: Neighbours of each text.
        threshold: Least cosine similarity of a neighbour, in [-1, 1].
        count: Examples, of each epoch; None leaves it to the dropout.
        dropout: The share of candidates left out, in [0, 1); None leaves it to the count. Where
            both are None, DEFAULT_COUNT of them are taken, or all if there are fewer.
    """

    recipe: Recipe = "as-written"
    k: int = 16
    threshold: float = 0.5
    count: int | None = None
    dropout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", float(self.threshold))
        _choice("--recipe", self.recipe, RECIPES)
        _at_least("--neighbours", self.k, 1)
        if not -1 <= self.threshold <= 1:
            raise InputError(f"--threshold must lie in [-1, 1], a cosine, got {self.threshold}")
        if self.count is not None and self.dropout is not None:
            raise InputError("give --examples or --dropout, not both: one is solved from the other")
        if self.count is not None:
            _at_least("--examples", self.count, 1)
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"--dropout must lie in [0, 1), got {self.dropout}")

    def solve_count(self, n_candidates: int) -> int:
        """Return how many examples there are to be, of so many candidates."""
        if self.count is not None:
            return self.count
        if self.dropout is not None:
            return round((1 - self.dropout) * n_candidates)
        return min(DEFAULT_COUNT, n_candidates)


DEFAULT_COUNT = 50_000
"""Examples of an epoch, as in the papers, where neither a count nor a dropout is given."""


@dataclass(frozen=True)
class TrainSpec:
    """How an encoder is trained.

    Attributes:
        loss: A name of `LOSSES`.
        margin: In units of cosine distance, in (0, 2); None takes the papers'.
        temperature: Of the ranking losses, above 0; None takes the usual one.
        examples: How examples are made.
        epochs: How often; each has its own draw of examples.
        batch_size: Examples in a batch.
        rate: The greatest learning rate.
        warm_up: As a share of all steps if below 1, in steps from 1 on, or `as-released`.
        schedule: The learning rate after warm-up.
        weight_decay: Of AdamW.
        dtype: In which the forward pass computes; weights and evaluation stay float32.
        accumulation: Batches to a step.
        seed: Of draws, of their order and of the model's dropout.
        patience: Stop after so many epochs without a better joint score; 0 never stops.
        held_out: Rows kept from the examples, by whose joint score the checkpoint is chosen; None
            keeps 500, of small data a tenth; 0 chooses by the task's own queries.
    """

    loss: str = "triplet"
    margin: float | None = None
    temperature: float | None = None
    examples: ExampleSpec = field(default_factory=ExampleSpec)
    epochs: int = 5
    batch_size: int = 64
    rate: float = 3e-5
    warm_up: float | Literal["as-released"] = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    dtype: TrainDtype = "float32"
    accumulation: int = 1
    seed: int = 0
    patience: int = 3
    held_out: int | None = None

    def __post_init__(self) -> None:
        for name in ("margin", "temperature", "rate", "warm_up", "weight_decay"):
            if isinstance(getattr(self, name), int):  # 5 and 5.0 are one spec
                object.__setattr__(self, name, float(getattr(self, name)))
        _choice("--schedule", self.schedule, SCHEDULES)
        _choice("--dtype", self.dtype, TRAIN_DTYPES)
        for option, value, least in (
            ("--epochs", self.epochs, 1),
            ("--batch-size", self.batch_size, 1),
            ("--accumulation", self.accumulation, 1),
            ("--seed", self.seed, 0),
            ("--patience", self.patience, 0),
            ("--held-out", self.held_out or 0, 0),
        ):
            _at_least(option, value, least)
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"--rate must be above 0, got {self.rate}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InputError(f"--weight-decay must be at least 0, got {self.weight_decay}")
        if isinstance(self.warm_up, str):
            _choice("--warm-up", self.warm_up, (AS_RELEASED,))
            if self.schedule != "linear":
                raise InputError(
                    f"--schedule {self.schedule}: the warm-up {AS_RELEASED!r} has a schedule of "
                    "its own; leave --schedule out"
                )
        elif not (math.isfinite(self.warm_up) and self.warm_up >= 0):
            raise InputError(f"--warm-up must be at least 0, got {self.warm_up}")
        elif self.warm_up > 1 and self.warm_up != int(self.warm_up):
            raise InputError(
                f"--warm-up {self.warm_up}: a share of the steps below 1, whole steps, or "
                f"{AS_RELEASED!r} is wanted"
            )

    def with_loss_parameters(self) -> TrainSpec:
        """Return the spec with its margin or temperature filled in and checked.

        Raises:
            InputError: If the loss is unknown or does not take what was given.

        Warns:
            UserWarning: If a triplet margin is 2 or more.
        """
        from polarity_bench.training.losses import LOSSES

        if self.loss not in LOSSES:
            raise InputError(f"--loss: unknown loss {self.loss!r}{nearest(self.loss, LOSSES)}")
        kind = LOSSES[self.loss]
        for option, given, usual in (
            ("--margin", self.margin, kind.margin),
            ("--temperature", self.temperature, kind.temperature),
        ):
            if given is not None and usual is None:
                takers = [k.name for k in LOSSES.values() if getattr(k, option[2:]) is not None]
                raise InputError(
                    f"{option} {given}: the loss {self.loss!r} has none; these have: "
                    f"{', '.join(takers)}"
                )
            if given is not None and not (math.isfinite(given) and given > 0):
                raise InputError(f"{option} must be above 0, got {given}")
        margin = kind.margin if self.margin is None else self.margin
        if margin is not None and margin >= 2:
            warnings.warn(margin_warning(self.loss, margin), UserWarning, stacklevel=2)
        return replace(
            self,
            margin=margin,
            temperature=kind.temperature if self.temperature is None else self.temperature,
        )


def margin_warning(loss: str, margin: float) -> str:
    """Say what a margin of 2 or more means under cosine distance."""
    if loss == "triplet":
        why = "the hinge never closes, so that every such margin trains the same encoder"
    else:
        why = "no pair is ever far enough apart, so that the push never ends"
    return f"margin {margin:g}: cosine distance lies in [0, 2]; from 2 on {why}"


@dataclass(frozen=True)
class RunIdentity:
    """All that decides the weights that come out; its digest is the run's id.

    Attributes:
        spec: How the encoder is trained.
        base: The encoder before.
        example_encoder: The encoder whose neighbours the examples are; None where the examples
            came from outside.
        task: Digest of the task file.
        data: Digest of the training rows, or of the examples from outside.
        evaluation: Digest of the queries and sources that the checkpoint is chosen by, and of the
            protocol's version.
    """

    spec: TrainSpec
    base: EncoderId
    example_encoder: EncoderId | None
    task: str
    data: str
    evaluation: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"version": VERSION, **asdict(self)}

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all of it but the encoders' names."""
        values = self.to_dict()
        for encoder in ("base", "example_encoder"):
            if values[encoder] is not None:
                values[encoder] = getattr(self, encoder).digest
        return digest_of(values)


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Name what differs between two specs, as `margin: 0.1, there 0.5`."""
    found = []
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            found += differences(mine, other, f"{prefix}{key}.")
        elif mine != other:
            found.append(f"{prefix}{key}: {mine!r}, there {other!r}")
    return found


def _choice(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{option}: unknown value {value!r}{nearest(value, known)}")


def _at_least(option: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{option} must be at least {least}, got {value}")
