"""SentEval's transfer and relatedness tasks, bound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarity_bench.bind.task import Scored, Settings, Vectors
from polarity_bench.data.load_rows import Row, RowsData
from polarity_bench.data.senteval import PairRow, TextRow
from polarity_bench.errors import InputError
from polarity_bench.metrics.classification import classification_scores
from polarity_bench.metrics.correlation import spearman_interval
from polarity_bench.protocols import transfer
from polarity_bench.protocols.relatedness import ScoredPairs, relatedness
from polarity_bench.types import FloatArray, Score, digest_of


@dataclass(frozen=True)
class _SentEvalTask:
    """What transfer and relatedness tasks share: rows, and how their texts are prepared."""

    data: RowsData
    spec: Any
    settings: Settings

    version = 1  # raised whenever the code moves a score
    uses_reference = False

    @property
    def data_digest(self) -> str:
        """Digest of the rows."""
        return self.data.digest

    @cached_property
    def texts(self) -> Sequence[str]:
        """All texts of all splits, as the protocol wants them encoded."""
        return [text for rows in self.data.parts.values() for text in self._texts(rows)]

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name, version and parameters of the protocol."""
        raise NotImplementedError

    @property
    def experiment(self) -> str:
        """Another protocol than the default."""
        default = Settings()
        if (self.settings.transfer, self.settings.preset) == (default.transfer, default.preset):
            return ""
        return f"protocol_{self.settings.transfer}-{digest_of(dict(self.protocol))[:8]}"

    @property
    def main_score(self) -> str:
        """The name of the main score."""
        return str(self.spec.main_score)

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by split."""
        return {name: len(rows) for name, rows in self.data.parts.items()}

    def _text_parameters(self) -> dict[str, Any]:
        preset = self.settings.preset
        return {"lower_case": preset.lower_case, "placeholder": preset.placeholder}

    def _texts(self, rows: Sequence[Row]) -> list[str]:
        prepare = self.settings.preset.text
        if rows and isinstance(rows[0], PairRow):
            pairs = [row for row in rows if isinstance(row, PairRow)]
            return [prepare(r.first) for r in pairs] + [prepare(r.second) for r in pairs]
        return [prepare(row.text) for row in rows if isinstance(row, TextRow)]

    def _features(self, rows: Sequence[Row], vectors: Vectors) -> FloatArray:
        found = vectors(self._texts(rows)).vectors
        if len(found) == len(rows):
            return found
        return transfer.pair_features(found[: len(rows)], found[len(rows) :])


@dataclass(frozen=True)
class TransferTask(_SentEvalTask):
    """A classification task of SentEval."""

    def __post_init__(self) -> None:
        if self.spec.scheme == "dev-split":
            return
        rows = next(iter(self.data.parts.values()))  # `all`, or `train`
        smallest = min(Counter(row.label for row in rows).values())
        n_folds = self.settings.preset.n_folds
        needed = n_folds + 1 if self.spec.scheme == "nested-kfold" else n_folds
        if smallest < needed:
            raise InputError(
                f"{self.spec.name}: {n_folds} folds need {needed} rows of every label, the rarest "
                f"has {smallest}; choose a smaller --kfold"
            )

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The classifier, its parameters and the folds."""
        preset = self.settings.preset
        parameters: dict[str, Any] = {
            "name": self.settings.transfer,
            "version": self.version,
            "kfold": preset.n_folds,  # a task with a dev set has no folds, but is of the same run
        }
        if preset.name:
            parameters["preset"] = preset.name
        parameters |= self._text_parameters() | asdict(preset.classifier)  # type: ignore[call-overload]
        return parameters

    def score(self, vectors: Vectors, reference: Vectors | None) -> Scored:  # noqa: ARG002
        """Fit classifiers and test them as the task's scheme says."""
        parts = {
            name: transfer.Samples(
                features=self._features(rows, vectors),
                labels=np.array([row.label for row in rows], dtype=np.int64),
                n_tokens=np.array([row.n_tokens for row in rows], dtype=np.int64),
            )
            for name, rows in self.data.parts.items()
        }
        classifier, workers = self.settings.preset.classifier, self.settings.workers
        n_folds = self.settings.preset.n_folds
        if self.spec.scheme == "nested-kfold":
            outcome = transfer.nested_kfold(
                parts["all"], classifier, n_folds=n_folds, workers=workers
            )
        elif self.spec.scheme == "kfold":
            outcome = transfer.kfold(
                parts["train"], parts["test"], classifier, n_folds=n_folds, workers=workers
            )
        else:
            outcome = transfer.dev_split(
                parts["train"], parts["dev"], parts["test"], classifier, workers=workers
            )
        n = len(outcome.labels)
        scores = {
            "accuracy": Score.single(outcome.test_accuracy / 100, n),
            "dev_accuracy": Score.single(outcome.dev_accuracy / 100, n),
            **classification_scores(outcome.labels, outcome.predictions, self.spec.labels),
        }
        if self.spec.reader == "mrpc":
            scores["f1"] = Score.single(outcome.f1 / 100, n)
        arrays: dict[str, NDArray[Any]] = {
            "fold_accuracy": np.asarray(outcome.fold_accuracies, dtype=np.float64) / 100,
            "fold_regularization": np.asarray(outcome.regularizations, dtype=np.float64),
            "prediction": outcome.predictions.astype(np.int32),
            "label": outcome.labels.astype(np.int32),
        }
        return Scored(scores, arrays)


@dataclass(frozen=True)
class RelatednessTask(_SentEvalTask):
    """A supervised relatedness task of SentEval."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The toolkit's layer: it has no parameters to choose."""
        name = "senteval-relatedness"
        return {"name": name, "version": self.version} | self._text_parameters()

    @property
    def experiment(self) -> str:
        """Other texts than the default's."""
        return "lower_case" if self.settings.preset.lower_case else ""

    def score(self, vectors: Vectors, reference: Vectors | None) -> Scored:  # noqa: ARG002
        """Train the layer and correlate what it predicts."""
        parts = {
            name: ScoredPairs(
                features=self._features(rows, vectors),
                scores=np.array([row.label for row in rows], dtype=np.float64),
                n_tokens=np.array([row.n_tokens for row in rows], dtype=np.int64),
            )
            for name, rows in self.data.parts.items()
        }
        outcome = relatedness(parts["train"], parts["dev"], parts["test"])
        n = len(outcome.scores)
        scores = {
            "pearson": Score.single(outcome.pearson, n),
            "spearman": Score(
                outcome.spearman,
                math.nan,
                spearman_interval(outcome.predictions, outcome.scores),
                n,
            ),
            "mse": Score.single(outcome.mse, n),
            "dev_pearson": Score.single(outcome.dev_pearson, n),
        }
        return Scored(scores, {"prediction": outcome.predictions, "gold": outcome.scores})
