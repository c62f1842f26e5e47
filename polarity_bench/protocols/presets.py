"""Which classifier, folds and texts the names of the transfer protocols mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from polarity_bench.protocols.classifiers import PRESETS, Preset, TorchClassifier
from polarity_bench.spec import nearest
from polarity_bench.types import InputError

PROTOCOLS = ("senteval-sklearn", "senteval-torch")
TORCH_PRESETS = ("literature", "papers")

_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "batch_size": ("batch_size", int),
    "dropout": ("dropout", float),
    "epoch_size": ("epoch_size", int),
    "max_epoch": ("max_epochs", int),
    "nhid": ("n_hidden", int),
    "optim": ("optimizer", str),
    "seed": ("seed", int),
    "tenacity": ("tenacity", int),
}
"""The toolkit's names of the classifier's parameters."""


def choose_preset(
    protocol: str,
    preset: str | None = None,
    kfold: int | None = None,
    classifier: str | None = None,
    device: str | None = None,
) -> Preset:
    """Return what a transfer protocol runs with.

    Args:
        protocol: `senteval-sklearn` or `senteval-torch`.
        preset: `literature` (the default of `senteval-torch`) or `papers`.
        kfold: Folds instead of the preset's.
        classifier: Parameters of `senteval-torch` instead of the preset's, as NAME=VALUE
            separated by commas, by the names that the toolkit gives them.
        device: Where `senteval-torch` trains.

    Raises:
        InputError: If a name or value is unknown, or does not go with the protocol.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown --protocol {protocol!r}{nearest(protocol, PROTOCOLS)}")
    if kfold is not None and kfold < 2:
        raise InputError(f"--kfold must be at least 2, got {kfold}")
    if protocol == "senteval-sklearn":
        if preset or classifier:
            option = "--preset" if preset else "--classifier"
            raise InputError(f"{option} goes with --protocol senteval-torch, not {protocol}")
        chosen = PRESETS["sklearn"]
    else:
        name = preset or "literature"
        if name not in TORCH_PRESETS:
            raise InputError(f"unknown --preset {name!r}{nearest(name, TORCH_PRESETS)}")
        chosen = PRESETS[name]
        trained = chosen.classifier
        assert isinstance(trained, TorchClassifier)  # noqa: S101  both presets are torch's
        changes = _parameters(classifier) | ({"device": device} if device else {})
        chosen = replace(chosen, classifier=replace(trained, **changes))
    return chosen if kfold is None else replace(chosen, n_folds=kfold)


def _parameters(text: str | None) -> dict[str, Any]:
    found = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, value = part.partition("=")
        if name not in _PARAMETERS or not equals:
            raise InputError(f"--classifier {part}: unknown parameter{nearest(name, _PARAMETERS)}")
        field, convert = _PARAMETERS[name]
        try:
            found[field] = convert(value)
        except ValueError as error:
            raise InputError(f"--classifier {part}: {value!r} is no {convert.__name__}") from error
    return found
