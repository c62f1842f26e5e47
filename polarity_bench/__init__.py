"""Can a sentence encoder tell polarity without forgetting meaning?

`evaluate("minilm", "sst2")` scores an encoder on a task of any kind, `train(Job(...))` makes a
better one, `register()` puts the tasks into mteb, and `PolarityEvaluator` scores inside a trainer.
Names are imported when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarity_bench.classifiers.classifier import Classifier as Classifier
    from polarity_bench.data.sources import DataAccess as DataAccess
    from polarity_bench.embedding.embedder import Embedder as Embedder
    from polarity_bench.embedding.store import EmbeddingStore as EmbeddingStore
    from polarity_bench.encoders import EncoderOptions as EncoderOptions
    from polarity_bench.encoders import load_encoder as load_encoder
    from polarity_bench.errors import InputError as InputError
    from polarity_bench.evaluation import evaluate as evaluate
    from polarity_bench.kinds import load_task as load_task
    from polarity_bench.kinds import load_tasks as load_tasks
    from polarity_bench.kinds.senteval.presets import choose_preset as choose_preset
    from polarity_bench.kinds.task import Settings as Settings
    from polarity_bench.kinds.task import Task as Task
    from polarity_bench.plugins.mteb import register as register
    from polarity_bench.plugins.trainer import PolarityEvaluator as PolarityEvaluator
    from polarity_bench.results import Result as Result
    from polarity_bench.results import read_result as read_result
    from polarity_bench.results import write_result as write_result
    from polarity_bench.training.examples.source import generate_examples as generate_examples
    from polarity_bench.training.examples.source import write_examples as write_examples
    from polarity_bench.training.job import Job as Job
    from polarity_bench.training.recipes.axis import Axis as Axis
    from polarity_bench.training.recipes.margins import ExampleSpec as ExampleSpec
    from polarity_bench.training.recipes.margins import Margins as Margins
    from polarity_bench.training.recipes.scl import Scl as Scl
    from polarity_bench.training.recipes.setfit import SetFit as SetFit
    from polarity_bench.training.recipes.triple_entropy import TripleEntropy as TripleEntropy
    from polarity_bench.training.run import TrainingRun as TrainingRun
    from polarity_bench.training.run import train as train
    from polarity_bench.types import Encoder as Encoder
    from polarity_bench.types import EncoderId as EncoderId
    from polarity_bench.types import Score as Score
    from polarity_bench.types import ScoreKey as ScoreKey

__version__ = "0.1.0"

_HOMES = {
    "Axis": "training.recipes.axis",
    "Classifier": "classifiers.classifier",
    "DataAccess": "data.sources",
    "Embedder": "embedding.embedder",
    "EmbeddingStore": "embedding.store",
    "Encoder": "types",
    "EncoderId": "types",
    "EncoderOptions": "encoders",
    "ExampleSpec": "training.recipes.margins",
    "InputError": "errors",
    "Job": "training.job",
    "Margins": "training.recipes.margins",
    "PolarityEvaluator": "plugins.trainer",
    "Result": "results",
    "Scl": "training.recipes.scl",
    "Score": "types",
    "ScoreKey": "types",
    "SetFit": "training.recipes.setfit",
    "Settings": "kinds.task",
    "Task": "kinds.task",
    "TrainingRun": "training.run",
    "TripleEntropy": "training.recipes.triple_entropy",
    "choose_preset": "kinds.senteval.presets",
    "evaluate": "evaluation",
    "generate_examples": "training.examples.source",
    "load_encoder": "encoders",
    "load_task": "kinds",
    "load_tasks": "kinds",
    "read_result": "results",
    "register": "plugins.mteb",
    "train": "training.run",
    "write_examples": "training.examples.source",
    "write_result": "results",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
