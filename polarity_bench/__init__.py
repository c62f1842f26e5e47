"""Can a sentence encoder tell polarity without forgetting meaning?

`evaluate("minilm", "sst2")` scores an encoder on a task of any type, `train(Job(...))` trains an
encoder, `register()` adds the tasks to mteb, and `PolarityEvaluator` scores inside a trainer.
Names are imported on first use, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polarity_bench.classifiers.classifier import Classifier as Classifier
    from polarity_bench.data.sources import DataAccess as DataAccess
    from polarity_bench.embedding.embedder import Embedder as Embedder
    from polarity_bench.embedding.store import EmbeddingStore as EmbeddingStore
    from polarity_bench.encoders.base import Encoder as Encoder
    from polarity_bench.encoders.base import EncoderId as EncoderId
    from polarity_bench.encoders.load import EncoderOptions as EncoderOptions
    from polarity_bench.encoders.load import load_encoder as load_encoder
    from polarity_bench.errors import InputError as InputError
    from polarity_bench.evaluation.one_task import evaluate as evaluate
    from polarity_bench.integrations.mteb_tasks import register as register
    from polarity_bench.integrations.trainer_callback import PolarityEvaluator as PolarityEvaluator
    from polarity_bench.results.result_files import Result as Result
    from polarity_bench.results.result_files import read_result as read_result
    from polarity_bench.results.result_files import write_result as write_result
    from polarity_bench.scores import Score as Score
    from polarity_bench.scores import ScoreKey as ScoreKey
    from polarity_bench.tasks.catalogue import load_task as load_task
    from polarity_bench.tasks.catalogue import load_tasks as load_tasks
    from polarity_bench.tasks.senteval.presets import choose_preset as choose_preset
    from polarity_bench.tasks.types.base import Settings as Settings
    from polarity_bench.tasks.types.base import Task as Task
    from polarity_bench.training.examples.source import generate_examples as generate_examples
    from polarity_bench.training.examples.source import write_examples as write_examples
    from polarity_bench.training.examples.spec import ExampleSpec as ExampleSpec
    from polarity_bench.training.job import Job as Job
    from polarity_bench.training.recipes.axis.recipe import Axis as Axis
    from polarity_bench.training.recipes.margins import Margins as Margins
    from polarity_bench.training.recipes.scl.recipe import Scl as Scl
    from polarity_bench.training.recipes.setfit.recipe import SetFit as SetFit
    from polarity_bench.training.recipes.triple_entropy import TripleEntropy as TripleEntropy
    from polarity_bench.training.train import TrainingRun as TrainingRun
    from polarity_bench.training.train import train as train

__version__ = "0.1.0"

_HOMES = {
    "Axis": "training.recipes.axis.recipe",
    "Classifier": "classifiers.classifier",
    "DataAccess": "data.sources",
    "Embedder": "embedding.embedder",
    "EmbeddingStore": "embedding.store",
    "Encoder": "encoders.base",
    "EncoderId": "encoders.base",
    "EncoderOptions": "encoders.load",
    "ExampleSpec": "training.examples.spec",
    "InputError": "errors",
    "Job": "training.job",
    "Margins": "training.recipes.margins",
    "PolarityEvaluator": "integrations.trainer_callback",
    "Result": "results.result_files",
    "Scl": "training.recipes.scl.recipe",
    "Score": "scores",
    "ScoreKey": "scores",
    "SetFit": "training.recipes.setfit.recipe",
    "Settings": "tasks.types.base",
    "Task": "tasks.types.base",
    "TrainingRun": "training.train",
    "TripleEntropy": "training.recipes.triple_entropy",
    "choose_preset": "tasks.senteval.presets",
    "evaluate": "evaluation.one_task",
    "generate_examples": "training.examples.source",
    "load_encoder": "encoders.load",
    "load_task": "tasks.catalogue",
    "load_tasks": "tasks.catalogue",
    "read_result": "results.result_files",
    "register": "integrations.mteb_tasks",
    "train": "training.train",
    "write_examples": "training.examples.source",
    "write_result": "results.result_files",
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
