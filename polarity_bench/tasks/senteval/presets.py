"""Presets: the classifier, folds and text preparation behind published tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from polarity_bench.errors import InputError, check_known, reworded
from polarity_bench.tasks.senteval.classifiers import (
    OPTIMIZERS,
    ClassifierFamily,
    ExactLogistic,
    SklearnLogistic,
    TorchClassifier,
)
from polarity_bench.tasks.senteval.protocol_names import (
    SENTEVAL_PROTOCOLS,
    TORCH_PRESETS,
    SentEvalProtocol,
)
from polarity_bench.validation import LAST_SEED, Strict, one_of, validated


@dataclass(frozen=True)
class Preset:
    """Settings of a transfer protocol, as in a published table. The default is `senteval-exact`.

    Attributes:
        classifier: Classifier family with its parameters.
        n_folds: Number of folds for tasks without a dev set.
        lower_case: Whether texts are lower-cased before encoding.
        placeholder: Text to encode instead of an empty text.
        name: Name of the preset in tables; empty for protocols with a single preset.
    """

    classifier: ClassifierFamily = field(default_factory=ExactLogistic)
    n_folds: int = 10
    lower_case: bool = False
    placeholder: str = "."
    name: str = ""

    @property
    def protocol(self) -> SentEvalProtocol:
        """Name of the classifier's protocol in results."""
        return self.classifier.protocol

    def text(self, text: str) -> str:
        """Prepare a text for encoding: apply `lower_case`, and replace an empty text."""
        return (text.lower() if self.lower_case else text) or self.placeholder


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "exact": Preset(),
        "sklearn": Preset(SklearnLogistic()),
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


class _Parameters(Strict):
    """Parameters of `senteval-torch` that users can set, under the toolkit's names."""

    batch_size: Annotated[int, Field(ge=1)] = 1
    dropout: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0
    epoch_size: Annotated[int, Field(ge=1)] = 1
    max_epochs: Annotated[int, Field(ge=0, alias="max_epoch")] = 0
    n_hidden: Annotated[int, Field(ge=0, alias="nhid")] = 0
    optimizer: Annotated[str, one_of(OPTIMIZERS.keys), Field(alias="optim")] = ""
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = 0
    tenacity: Annotated[int, Field(ge=0)] = 0


def choose_preset(
    protocol: str | None = None,
    preset: str | None = None,
    kfold: int | None = None,
    classifier: str | None = None,
    device: str | None = None,
) -> Preset:
    """Return the preset of a transfer protocol, with the user's changes.

    Args:
        protocol: `senteval-exact`, `senteval-sklearn` or `senteval-torch`. The default is
            `senteval-torch` if `preset` or `classifier` is given, and `senteval-exact` otherwise.
        preset: `literature` (the default of `senteval-torch`) or `papers`.
        kfold: Number of folds; the preset's number by default.
        classifier: Parameters of `senteval-torch` that replace those of the preset, as NAME=VALUE
            pairs separated by commas. The names are the toolkit's.
        device: Device on which `senteval-torch` trains, such as `cuda`.

    Raises:
        InputError: If a name is unknown, or a value is invalid for the protocol.
    """
    protocol = protocol or ("senteval-torch" if preset or classifier else "senteval-exact")
    check_known(protocol, SENTEVAL_PROTOCOLS, f"unknown `protocol` {protocol!r}")
    if kfold is not None and kfold < 2:
        raise InputError(f"`kfold` must be at least 2, got {kfold}")
    if protocol != "senteval-torch":
        if preset or classifier:
            option = "preset" if preset else "classifier"
            raise InputError(f"`{option}` needs the `protocol` senteval-torch, got {protocol}")
        chosen = PRESETS[protocol.removeprefix("senteval-")]
    else:
        name = preset or "literature"
        check_known(name, TORCH_PRESETS, f"unknown `preset` {name!r}")
        chosen = PRESETS[name]
        original = chosen.classifier
        assert isinstance(original, TorchClassifier)  # noqa: S101  Both torch presets have this type.
        changed = replace(original, **_parameters(classifier))
        chosen = replace(
            chosen,
            classifier=replace(changed, device=device) if device else changed,
            name=" with ".join(filter(None, [name, ", ".join(_changes(original, changed))])),
        )
    return chosen if kfold is None else replace(chosen, n_folds=kfold)


def _changes(one: TorchClassifier, other: TorchClassifier) -> list[str]:
    """List the parameters in which `other` differs from `one`, as NAME=VALUE.

    The list becomes part of the preset's name, so that tables do not mix different settings.
    """
    return [
        f"{info.alias or name}={getattr(other, name)}"
        for name, info in _Parameters.model_fields.items()
        if getattr(one, name) != getattr(other, name)
    ]


def _parameters(text: str | None) -> dict[str, Any]:
    """Parse NAME=VALUE pairs, and return the values keyed by `TorchClassifier`'s field names."""
    values = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, values[name] = part.partition("=")
        if not equals:
            raise InputError(f"`classifier`: expected NAME=VALUE, got {part}")
    with reworded(f"`classifier` {text}: "):
        return validated(_Parameters, values).model_dump(exclude_unset=True)
