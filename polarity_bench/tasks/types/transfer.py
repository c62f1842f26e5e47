"""Transfer tasks: SentEval's classification tasks on frozen embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, JsonValue, model_validator

from polarity_bench.data.readers import check_count
from polarity_bench.data.senteval import read_labelled_lines
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError
from polarity_bench.metrics.classification import classification_scores
from polarity_bench.metrics.statistics import Bootstrap
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.senteval.presets import Preset
from polarity_bench.tasks.senteval.transfer_protocols import (
    Samples,
    TransferOutcome,
    dev_split,
    kfold,
    nested_kfold,
)
from polarity_bench.tasks.types.base import Settings, TaskScores
from polarity_bench.tasks.types.rows_task import FilesSpec, Parts, PreparedTask, required_files
from polarity_bench.values import BoolArray, digest_of

RIGHT = ("accuracy", "exact_accuracy")
"""Scores that are the share of correct predictions; `accuracy` is rounded."""
_LARGEST_FOR_ONE_CORE = 2**25
"""Greatest number of values of all vectors. Fits need 25 to 55 bytes for each, so up to 1.8 GB."""
_VALUES_PER_CLASS = 10
"""Values of a vector that need as much memory as the logits and probabilities of one class."""
_TRAIN_TEST = {"train", "test"}
_TRAIN_DEV_TEST = {"train", "dev", "test"}
_LAYOUTS: dict[str, tuple[str, set[str], int]] = {
    "labelled-lines": ("nested-kfold", {"positive", "negative"}, 2),
    "sst-binary": ("dev-split", _TRAIN_DEV_TEST, 2),
    "sst-fine": ("dev-split", _TRAIN_DEV_TEST, 5),
    "trec": ("kfold", _TRAIN_TEST, 6),
    "mrpc": ("kfold", _TRAIN_TEST, 2),
    "sick-entailment": ("dev-split", _TRAIN_DEV_TEST, 3),
}
"""Scheme, file names and number of labels of each reader."""
_FITTING: list[JsonValue] = [
    {
        "properties": {
            "reader": {"const": reader},
            "scheme": {"const": scheme},
            "labels": {"minItems": n_labels, "maxItems": n_labels, "uniqueItems": True},
            **required_files(files),
        }
    }
    for reader, (scheme, files, n_labels) in _LAYOUTS.items()
]


class ClassifierSpec(FilesSpec):
    """Keys and columns of the task types that train classifiers on embeddings."""

    measure: ClassVar[str] = "accuracy"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (
        ("accuracy", ScoreKey("accuracy")),
        ("dev accuracy", ScoreKey("dev_accuracy")),
    )
    mteb_type: ClassVar[str] = "Classification"
    mteb_prompt: ClassVar[str] = "Classify user passages."  # mteb's own tasks use this prompt.

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the predicted and the true label of each test row, for the accuracy."""
        return ("prediction", "label") if key.metric in RIGHT else ()


class TransferSpec(ClassifierSpec):
    """Content of the task file of a transfer task."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _FITTING})

    kind: Literal["transfer"]
    reader: Literal["labelled-lines", "sst-binary", "sst-fine", "trec", "mrpc", "sick-entailment"]
    """Layout of the files, as in SentEval."""
    scheme: Literal["nested-kfold", "kfold", "dev-split"]
    """Division into training, dev and test sets. Each reader requires a particular scheme."""
    labels: tuple[str, ...]
    """Names of the classes, in the order of the class numbers from 0."""

    moving: ClassVar[tuple[str, ...]] = ("reader", "scheme", "labels", "files")
    heading: ClassVar[str] = "Transfer"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (
        *ClassifierSpec.columns,
        ("macro-F1", ScoreKey("macro_f1")),
        ("F1", ScoreKey("f1")),
    )

    @model_validator(mode="after")
    def _check_reader(self) -> Self:
        scheme, files, n_labels = _LAYOUTS[self.reader]
        self.check_files(files)
        if self.scheme != scheme:
            raise ValueError(
                f"the reader {self.reader!r} needs the scheme {scheme!r}, got {self.scheme!r}"
            )
        if len(self.labels) != n_labels or len(set(self.labels)) != n_labels:
            raise ValueError(
                f"the reader {self.reader!r} needs {n_labels} different labels, got "
                f"{list(self.labels)}"
            )
        return self

    def load(self, access: DataAccess, settings: Settings) -> TransferTask:
        """Load the rows of the task and check their number."""
        return TransferTask(self, self.read(access, settings), settings)

    def _parts(self, paths: Mapping[str, Path]) -> Parts:
        if self.reader != "labelled-lines":
            return super()._parts(paths)
        rows = read_labelled_lines(paths["positive"], paths["negative"])
        for name, label in (("positive", 1), ("negative", 0)):
            n_rows = sum(row.label == label for row in rows)
            check_count(paths[name], n_rows, self.files[name].rows)
        return {"all": rows}


class ClassifierTask(PreparedTask):
    """A task that trains classifiers on the embeddings of labelled rows."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and preset of the protocol, with the classifier's parameters."""
        preset = self.preset
        parameters: dict[str, Any] = {
            "name": preset.protocol,
            "version": self.version,
            # Tasks with a dev set have no folds, but all tasks of a run share one protocol.
            "kfold": preset.n_folds,
        }
        if preset.name:
            parameters["preset"] = preset.name
        return parameters | self.text_parameters() | preset.classifier.parameters

    @property
    def variant(self) -> str:
        """Name of the protocol and digest of its parameters; '' for the default protocol."""
        preset = self.preset
        if preset == Preset():
            return ""
        return f"protocol_{preset.protocol}-{digest_of(dict(self.protocol))[:8]}"

    def for_one_core(self, n_dimensions: int) -> Self | None:
        """Return a copy with one worker, or None if fits use all cores or need much memory."""
        if not self.preset.classifier.together:
            return None
        n_classes = len({row.label for rows in self.parts.values() for row in rows})
        n_values = len(self.texts) * (n_dimensions + _VALUES_PER_CLASS * n_classes)
        if n_values > _LARGEST_FOR_ONE_CORE:
            return None
        return replace(self, settings=replace(self.settings, workers=1))

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Train and test classifiers on the embeddings, as the scheme of the task defines."""
        outcome = self._outcome({n: self.samples(r, embedded) for n, r in self.parts.items()})
        n = len(outcome.labels)
        scores = {
            ScoreKey("accuracy"): Score.single(outcome.test_accuracy, n),
            ScoreKey("dev_accuracy"): Score.single(outcome.dev_accuracy, n),
            **self._further_scores(outcome),
        }
        arrays: dict[str, NDArray[Any]] = {
            "fold_accuracy": np.asarray(outcome.fold_accuracies, dtype=np.float64),
            "fold_regularization": np.asarray(outcome.regularizations, dtype=np.float64),
            "prediction": outcome.predictions.astype(np.int32),
            "label": outcome.labels.astype(np.int32),
        }
        return TaskScores(scores, arrays)

    def chance(self, scores: Mapping[ScoreKey, Score]) -> tuple[ScoreKey, float]:
        """Return the accuracy and the share of the most frequent class among the tested rows."""
        counts = Counter(item["label"] for item in self.items)
        return self.main_score, max(counts.values()) / counts.total()

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Return the unrounded accuracy over the test rows in `rows`."""
        right = (arrays["prediction"] == arrays["label"])[rows]
        return Bootstrap({"right": right.astype(np.float64)}).score("right")

    def _outcome(self, parts: Mapping[str, Samples]) -> TransferOutcome:
        raise NotImplementedError

    def _further_scores(self, outcome: TransferOutcome) -> Mapping[ScoreKey, Score]:
        right = (outcome.predictions == outcome.labels).astype(np.float64)
        return {ScoreKey("exact_accuracy"): Bootstrap({"right": right}).score("right")}


@dataclass(frozen=True)
class TransferTask(ClassifierTask):
    """A transfer task with its data."""

    spec: TransferSpec

    def __post_init__(self) -> None:
        if self.spec.scheme == "dev-split":
            return
        rows = next(iter(self.parts.values()))  # The first part is `all` or `train`.
        smallest = min(Counter(row.label for row in rows).values())
        n_folds = self.preset.n_folds
        needed = n_folds + 2 if self.spec.scheme == "nested-kfold" else n_folds
        if smallest < needed:
            raise InputError(
                f"{self.spec.name}: {n_folds} folds need {needed} rows of each label, but the "
                f"rarest label has {smallest}; choose a smaller `kfold`"
            )

    def _further_scores(self, outcome: TransferOutcome) -> Mapping[ScoreKey, Score]:
        positive = 1 if self.spec.reader == "mrpc" else None
        labels, predictions = outcome.labels, outcome.predictions
        return classification_scores(labels, predictions, self.spec.labels, positive=positive)

    def _outcome(self, parts: Mapping[str, Samples]) -> TransferOutcome:
        preset, workers = self.preset, self.settings.workers
        if self.spec.scheme == "dev-split":
            return dev_split(**parts, classifier=preset.classifier, workers=workers)
        options = {"n_folds": preset.n_folds, "workers": workers}
        if self.spec.scheme == "kfold":
            return kfold(parts["train"], parts["test"], preset.classifier, **options)
        return nested_kfold(parts["all"], preset.classifier, **options)
