"""Presets: the protocol, classifier, folds and text preparation of published tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    """A classifier and the other settings of a published table; by default `senteval-sklearn`.

    Attributes:
        classifier: The classifier family and its parameters.
        n_folds: Number of folds of the tasks without a dev set.
        lower_case: Whether texts are lower-cased before they are encoded.
        placeholder: The text that is encoded in place of an empty one.
        name: Name in tables; empty for the only preset of its family.
    """

    classifier: ClassifierFamily = field(default_factory=SklearnLogistic)
    n_folds: int = 10
    lower_case: bool = False
    placeholder: str = "."
    name: str = ""

    @property
    def protocol(self) -> SentEvalProtocol:
        """Name of the protocol in results, which depends on the classifier."""
        return self.classifier.protocol

    def text(self, text: str) -> str:
        """Return the text as the encoder gets it."""
        return (text.lower() if self.lower_case else text) or self.placeholder


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "sklearn": Preset(),
        "papers": Preset(
            TorchClassifier(batch_size=128, tenacity=5, epoch_size=3),
            n_folds=3,
            lower_case=True,
            placeholder="-",
            name="papers",
        ),
        "literature": Preset(
            TorchClassifier(batch_size=64, tenacity=5, epoch_size=4), name="literature"
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
"""The toolkit's names of the classifier's parameters.

Each maps to our name, the conversion from text, and the minimum.
"""


def choose_preset(
    protocol: str | None = None,
    preset: str | None = None,
    kfold: int | None = None,
    classifier: str | None = None,
    device: str | None = None,
) -> Preset:
    """Return the preset of a transfer protocol, with the given changes.

    Args:
        protocol: `senteval-sklearn` or `senteval-torch`. The default is `senteval-torch` if
            `preset` or `classifier` is given, and `senteval-sklearn` otherwise.
        preset: `literature` (the default of `senteval-torch`) or `papers`.
        kfold: Number of folds, in place of the preset's.
        classifier: Parameters of `senteval-torch`, in place of the preset's: NAME=VALUE,
            separated by commas, with the toolkit's names.
        device: Device on which `senteval-torch` trains.

    Raises:
        InputError: If a name or value is unknown, or does not fit the protocol.
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
        assert isinstance(trained, TorchClassifier)  # noqa: S101  true of both torch presets
        changed = replace(trained, **_parameters(classifier))
        chosen = replace(
            chosen,
            classifier=replace(changed, device=device) if device else changed,
            name=" with ".join(filter(None, [name, ", ".join(_changes(trained, changed))])),
        )
    return chosen if kfold is None else replace(chosen, n_folds=kfold)


def _changes(one: TorchClassifier, other: TorchClassifier) -> list[str]:
    """Describe the parameters in which `other` differs from `one`.

    They become part of the preset's name, so that tables do not mix different settings.
    """
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
