"""Presets: which protocol, classifier, folds and texts a published table was made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from polarity_bench.errors import InputError, nearest
from polarity_bench.tasks.senteval.classifiers import (
    OPTIMIZERS,
    ClassifierFamily,
    SklearnLogistic,
    TorchClassifier,
)
from polarity_bench.tasks.senteval.protocol_names import (
    SENTEVAL_PROTOCOLS,
    TORCH_PRESETS,
    SentEvalProtocol,
)


@dataclass(frozen=True)
class Preset:
    """A classifier with what else a published table was made with.

    Attributes:
        classifier: The family and its parameters.
        n_folds: Folds of the tasks without a dev set.
        lower_case: Whether texts are lower-cased before they are encoded.
        placeholder: What is encoded for a text without a token.
        name: What tables call it; empty for the only one of its family.
    """

    classifier: ClassifierFamily
    n_folds: int
    lower_case: bool = False
    placeholder: str = ""
    name: str = ""

    @property
    def protocol(self) -> SentEvalProtocol:
        """The protocol's name in results, which the classifier decides."""
        return self.classifier.protocol

    def text(self, text: str) -> str:
        """Return the text as it is to be encoded."""
        return (text.lower() if self.lower_case else text) or self.placeholder


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "sklearn": Preset(SklearnLogistic(), n_folds=10, placeholder="."),
        "papers": Preset(
            TorchClassifier(batch_size=128, tenacity=5, epoch_size=3),
            n_folds=3,
            lower_case=True,
            placeholder="-",
            name="papers",
        ),
        "literature": Preset(
            TorchClassifier(batch_size=64, tenacity=5, epoch_size=4),
            n_folds=10,
            placeholder=".",
            name="literature",
        ),
    }
)


_PARAMETERS: dict[str, tuple[str, Callable[[str], Any], int | None]] = {
    "batch_size": ("batch_size", int, 1),
    "dropout": ("dropout", float, None),
    "epoch_size": ("epoch_size", int, 1),
    "max_epoch": ("max_epochs", int, 0),
    "nhid": ("n_hidden", int, 0),
    "optim": ("optimizer", str, None),
    "seed": ("seed", int, 0),
    "tenacity": ("tenacity", int, 0),
}
"""The classifier's parameters by the toolkit's names: ours, how it is read, and its least value."""


def choose_preset(
    protocol: str | None = None,
    preset: str | None = None,
    kfold: int | None = None,
    classifier: str | None = None,
    device: str | None = None,
) -> Preset:
    """Return what a transfer protocol runs with.

    Args:
        protocol: `senteval-sklearn` or `senteval-torch`; by default the first, or the second where
            a preset or parameters of its classifier are given.
        preset: `literature` (the default of `senteval-torch`) or `papers`.
        kfold: Folds instead of the preset's.
        classifier: Parameters of `senteval-torch` instead of the preset's, as NAME=VALUE
            separated by commas, by the names that the toolkit gives them.
        device: Where `senteval-torch` trains.

    Raises:
        InputError: If a name or value is unknown, or does not go with the protocol.
    """
    protocol = protocol or ("senteval-torch" if preset or classifier else "senteval-sklearn")
    if protocol not in SENTEVAL_PROTOCOLS:
        raise InputError(f"unknown `protocol` {protocol!r}{nearest(protocol, SENTEVAL_PROTOCOLS)}")
    if kfold is not None and kfold < 2:
        raise InputError(f"`kfold` must be at least 2, got {kfold}")
    if protocol == "senteval-sklearn":
        if preset or classifier:
            option = "preset" if preset else "classifier"
            raise InputError(f"`{option}` goes with the `protocol` senteval-torch, not {protocol}")
        chosen = PRESETS["sklearn"]
    else:
        name = preset or "literature"
        if name not in TORCH_PRESETS:
            raise InputError(f"unknown `preset` {name!r}{nearest(name, TORCH_PRESETS)}")
        chosen = PRESETS[name]
        trained = chosen.classifier
        assert isinstance(trained, TorchClassifier)  # noqa: S101  both presets are torch's
        changed = replace(trained, **_parameters(classifier))
        chosen = replace(
            chosen,
            classifier=replace(changed, device=device) if device else changed,
            name=" with ".join(filter(None, [name, ", ".join(_changes(trained, changed))])),
        )
    return chosen if kfold is None else replace(chosen, n_folds=kfold)


def _changes(one: TorchClassifier, other: TorchClassifier) -> list[str]:
    """Say which parameters the other has different, for tables: these must not mix presets."""
    return [
        f"{name}={getattr(other, field)}"
        for name, (field, *_) in _PARAMETERS.items()
        if getattr(one, field) != getattr(other, field)
    ]


def _parameters(text: str | None) -> dict[str, Any]:
    found = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, value = part.partition("=")
        if name not in _PARAMETERS:
            raise InputError(f"`classifier` {part}: unknown parameter{nearest(name, _PARAMETERS)}")
        if not equals:
            raise InputError(f"`classifier` {part}: NAME=VALUE is wanted")
        field, convert, least = _PARAMETERS[name]
        try:
            found[field] = convert(value)
        except ValueError as error:
            raise InputError(f"`classifier` {part}: {value!r} is no {convert.__name__}") from error
        if least is not None and found[field] < least:
            raise InputError(f"`classifier` {part}: {name} must be at least {least}, got {value}")
        if name == "dropout" and not 0 <= found[field] < 1:
            raise InputError(f"`classifier` {part}: dropout must be in [0, 1), got {value}")
        if name == "optim" and value not in OPTIMIZERS:
            hint = nearest(value, OPTIMIZERS)
            raise InputError(f"`classifier` {part}: unknown optimizer{hint}")
    return found
