"""Benchmark of sentence encoders: do they distinguish polarity without losing meaning?

- `evaluate("minilm", "sst2")` scores an encoder on a task.
- `score` scores your own vectors.
- `train(Job(...))` trains an encoder. Recipes and training examples are in
  `polarity_bench.training`.
- `register()` adds the tasks to mteb.
- `PolarityEvaluator` scores an encoder inside a trainer.

The public names are listed in `__init__.pyi` and imported on first use, so importing the package is
fast.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

__version__ = "0.1.0"

_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = {
    "training": (
        *("Axis", "ExampleSpec", "Margins", "Scl", "SetFit", "TrainingRun", "TripleEntropy"),
        *("generate_examples", "write_examples"),
    ),
    "results.result_files": ("read_result", "write_result"),
    "scores": ("Score",),
    "tasks.senteval.presets": ("choose_preset",),
    "tasks.types.base": ("Task",),
}
"""Names that moved to other modules, keyed by their new module."""


def __getattr__(name: str) -> Any:
    for module, names in _MOVED.items():
        if name in names:
            place = f"{__name__}.{module}"
            what = f"{__name__}.{name} will be removed; import it from {place}"
            warnings.warn(what, DeprecationWarning, stacklevel=2)
            return getattr(import_module(place), name)
    return _load(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
