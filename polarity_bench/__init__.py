"""Can a sentence encoder tell polarity without forgetting meaning?

`register()` puts the tasks into mteb; `evaluate(load_encoder(name), load_polarity(task, access))`
scores an encoder without it; `PolarityEvaluator` scores one inside a trainer. `train` makes a
better one, and `generate_examples` what it is trained on. Names are imported when they are first
used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarity_bench.data.load import PolarityData, load_polarity
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders import EncoderOptions, load_encoder
    from polarity_bench.errors import InputError
    from polarity_bench.evaluation import evaluate
    from polarity_bench.plugins.mteb import register
    from polarity_bench.plugins.trainer import PolarityEvaluator
    from polarity_bench.registry import load_tasks
    from polarity_bench.results import Result, read_result, write_result
    from polarity_bench.training.examples.source import generate_examples, write_examples
    from polarity_bench.training.job import Job
    from polarity_bench.training.recipes.margins import ExampleSpec, Margins
    from polarity_bench.training.recipes.setfit import SetFit
    from polarity_bench.training.run import TrainingRun, train

__version__ = "0.1.0"

__all__ = [
    "DataAccess",
    "EncoderOptions",
    "ExampleSpec",
    "InputError",
    "Job",
    "Margins",
    "PolarityData",
    "PolarityEvaluator",
    "Result",
    "SetFit",
    "TrainingRun",
    "evaluate",
    "generate_examples",
    "load_encoder",
    "load_polarity",
    "load_tasks",
    "read_result",
    "register",
    "train",
    "write_examples",
    "write_result",
]

_HOMES = {
    "DataAccess": "data.sources",
    "EncoderOptions": "encoders",
    "ExampleSpec": "training.recipes.margins",
    "InputError": "errors",
    "Job": "training.job",
    "Margins": "training.recipes.margins",
    "PolarityData": "data.load",
    "PolarityEvaluator": "plugins.trainer",
    "Result": "results",
    "SetFit": "training.recipes.setfit",
    "TrainingRun": "training.run",
    "evaluate": "evaluation",
    "generate_examples": "training.examples.source",
    "load_encoder": "encoders",
    "load_polarity": "data.load",
    "load_tasks": "registry",
    "read_result": "results",
    "register": "plugins.mteb",
    "train": "training.run",
    "write_examples": "training.examples.source",
    "write_result": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
