"""Probing tasks: SentEval's classification tasks about the form of a sentence.

A classifier predicts a property, such as the number of tokens or the tense, from the embedding. The
protocol is that of transfer tasks with a dev set. Word content always has a linear classifier, as
in the toolkit.

References:
    Conneau et al. (2018), What you can cram into a single vector: Probing sentence embeddings for
        linguistic properties, https://arxiv.org/abs/1805.01070
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, StrictBool, model_validator

from polarity_bench.data.readers import check_count
from polarity_bench.data.senteval import read_probing
from polarity_bench.data.sources import DataAccess
from polarity_bench.tasks.senteval.classifiers import TorchClassifier
from polarity_bench.tasks.senteval.transfer_protocols import Samples, TransferOutcome, dev_split
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.rows_task import Parts, required_files
from polarity_bench.tasks.types.transfer import ClassifierSpec, ClassifierTask

_FILES = {"all"}


class ProbingSpec(ClassifierSpec):
    """Content of the task file of a probing task."""

    model_config = ConfigDict(json_schema_extra={"allOf": [{"properties": required_files(_FILES)}]})

    kind: Literal["probing"]
    reader: Literal["probing"]
    """Layout of the file, as in SentEval: lines with a part, a label and a text."""
    linear: StrictBool = False
    """Whether the classifier never has a hidden layer, whatever the protocol."""

    moving: ClassVar[tuple[str, ...]] = ("reader", "linear", "files")
    heading: ClassVar[str] = "Probing"

    @model_validator(mode="after")
    def _check_reader(self) -> Self:
        self.check_files(_FILES)
        return self

    def load(self, access: DataAccess, settings: Settings) -> ProbingTask:
        """Load the rows of the task."""
        return ProbingTask(self, self.read(access, settings), settings)

    def _parts(self, paths: Mapping[str, Path]) -> Parts:
        parts = read_probing(paths["all"])
        check_count(paths["all"], sum(map(len, parts.values())), self.files["all"].rows)
        return parts


@dataclass(frozen=True)
class ProbingTask(ClassifierTask):
    """A probing task with its data."""

    spec: ProbingSpec

    def _outcome(self, parts: Mapping[str, Samples]) -> TransferOutcome:
        classifier = self.preset.classifier
        if self.spec.linear and isinstance(classifier, TorchClassifier):
            classifier = replace(classifier, n_hidden=0)
        return dev_split(**parts, classifier=classifier, workers=self.settings.workers)
