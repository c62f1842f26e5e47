"""A kind of task in one module, as another project would write it: accuracy of nearest means.

Its data is a csv file of texts and labels. Even rows give the mean vector of each class, odd rows
are put into the class whose mean is nearest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from polarity_bench.data.readers import read_rows
from polarity_bench.data.sources import DataAccess, obtain
from polarity_bench.data.specs import FileRef, FormatSpec
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError
from polarity_bench.metrics.register import Metric
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.types.base import Settings, Task, TaskScores, TaskSpec
from polarity_bench.values import digest_of

PUT_RIGHT = Metric("put_right", "share of texts put into their class")


class ToySpec(TaskSpec):
    """The file of a toy task."""

    kind: Literal["toy"]
    data: FileRef

    moving: ClassVar[tuple[str, ...]] = ("data",)
    heading: ClassVar[str] = "Toys"
    measure: ClassVar[str] = "share put right"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (("put right", ScoreKey("put_right")),)
    mteb_type: ClassVar[str] = "Classification"
    mteb_prompt: ClassVar[str] = "Classify user passages."

    @property
    def main_score(self) -> ScoreKey:
        """The share of texts put into their class."""
        return ScoreKey("put_right")

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return whether each text was put right."""
        return ["right"] if key.metric == "put_right" else []

    def references(self) -> list[FileRef]:
        """Return the one file."""
        return [self.data]

    def load(self, access: DataAccess, settings: Settings) -> ToyTask:
        """Read the rows."""
        if settings.limit is not None:
            raise InputError(f"`limit` is for polarity tasks; {self.name} is a toy")
        rows = read_rows(obtain(self.data, self, access), FormatSpec(), ["text", "label"])
        texts, labels = zip(*(row.values for row in rows), strict=True)
        return ToyTask(self, Split(texts, labels))


@dataclass(frozen=True)
class ToyTask(Task):
    """A toy task with its rows."""

    spec: ToySpec
    rows: Split

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over the rows."""
        return digest_of([self.rows.texts, self.rows.labels])

    @property
    def texts(self) -> Sequence[str]:
        """The texts."""
        return self.rows.texts

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Nearest means, which has no parameters."""
        return {"name": "nearest-mean", "version": self.version}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows."""
        return {"rows": len(self.rows)}

    def chance(self, scores: Mapping[ScoreKey, Score]) -> tuple[ScoreKey, float]:
        """Return the share that is put right by chance, if the classes have equal sizes."""
        return self.main_score, 1 / len(set(self.rows.labels))

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Put odd rows into the class of the nearest mean of even rows."""
        vectors = embedded.vectors(self.texts).vectors
        labels = np.array(self.rows.labels)
        classes = sorted(set(labels[::2].tolist()))
        means = np.stack([vectors[::2][labels[::2] == label].mean(axis=0) for label in classes])
        distances = np.linalg.norm(vectors[1::2, None] - means, axis=2)
        rights = np.array(classes)[distances.argmin(axis=1)] == labels[1::2]
        score = Score.single(float(rights.mean()), len(rights))
        return TaskScores({self.main_score: score}, {"right": rights.astype(np.float32)})
