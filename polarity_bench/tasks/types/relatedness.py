"""Supervised relatedness (SICK-R, STS-B): a linear layer predicts human scores of text pairs.

Each score is converted to a distribution over the integers 1 to 5. A linear layer with softmax is
trained on these distributions with squared error. Its prediction is the expected score. Training
uses Adam in blocks of 50 epochs and keeps the block with the best Pearson correlation on the dev
set. The result equals that of the SentEval toolkit to the last digit.

Shapes: n pairs, f features.

References:
    Tai et al. (2015), Improved semantic representations from tree-structured LSTMs,
        https://arxiv.org/abs/1503.00075
    Conneau and Kiela (2018), SentEval, https://arxiv.org/abs/1803.05449
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, model_validator

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.metrics.correlation import COEFFICIENTS, correlate, spearman_interval
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.senteval.transfer_protocols import Samples, sorted_positions
from polarity_bench.tasks.types.base import Settings, TaskScores
from polarity_bench.tasks.types.rows_task import FilesSpec, PreparedTask, required_files
from polarity_bench.values import BoolArray, FloatArray

if TYPE_CHECKING:
    from torch import Tensor

_FILES = {"train", "dev", "test"}
_N_BINS = 5
_SEED = 1111
_BATCH_SIZE = 64
_BLOCK_EPOCHS = 50
_MAX_EPOCHS = 1000  # A block starts only if at most this many epochs are finished.
_TENACITY = 3  # Training ends after more blocks than this without a new best score.


class RelatednessSpec(FilesSpec):
    """Content of the task file of a supervised relatedness task."""

    model_config = ConfigDict(json_schema_extra={"allOf": [{"properties": required_files(_FILES)}]})

    kind: Literal["relatedness"]
    reader: Literal["sick-relatedness", "stsb"]
    """Layout of the files, as in SentEval."""

    moving: ClassVar[tuple[str, ...]] = ("reader", "files")
    heading: ClassVar[str] = "Supervised relatedness"
    measure: ClassVar[str] = "Pearson"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (
        ("Pearson", ScoreKey("pearson")),
        ("Spearman", ScoreKey("spearman")),
    )
    mteb_type: ClassVar[str] = "STS"
    mteb_prompt: ClassVar[str] = "Retrieve semantically similar text."

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the predictions and the human scores, for a correlation on the test set."""
        return ("prediction", "gold") if key.metric in COEFFICIENTS else ()

    @model_validator(mode="after")
    def _check_reader(self) -> Self:
        self.check_files(_FILES)
        return self

    def load(self, access: DataAccess, settings: Settings) -> RelatednessTask:
        """Load the rows of the task and check their number."""
        return RelatednessTask(self, self.read(access, settings), settings)


@dataclass(frozen=True)
class RelatednessTask(PreparedTask):
    """A supervised relatedness task with its data."""

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name and version of the protocol, and how texts are prepared."""
        return {"name": "senteval-relatedness", "version": self.version} | self.text_parameters()

    @property
    def variant(self) -> str:
        """`lower_case` if the preparation of texts differs from the default, '' otherwise."""
        default = replace(self, settings=Settings())
        return "" if self.text_parameters() == default.text_parameters() else "lower_case"

    def for_one_core(self, n_dimensions: int) -> RelatednessTask:
        """Return the task itself: its steps are too small for several cores."""
        return self

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Train the layer, and correlate its predictions on the test set with human scores."""
        train, dev, test = (
            self.samples(self.parts[name], embedded) for name in ("train", "dev", "test")
        )
        predictions, dev_pearson = relatedness(train, dev, test)
        gold, n = test.labels, len(test)
        correlation = correlate(predictions, gold)
        interval = spearman_interval(predictions, gold)
        scores = {
            ScoreKey("pearson"): Score.single(correlation.pearson, n),
            ScoreKey("spearman"): Score.single(correlation.spearman, n, interval),
            ScoreKey("mse"): Score.single(float(np.mean((predictions - gold) ** 2)), n),
            ScoreKey("dev_pearson"): Score.single(dev_pearson, n),
        }
        return TaskScores(scores, {"prediction": predictions, "gold": gold})

    def main_score_of(self, arrays: Mapping[str, NDArray[Any]], rows: BoolArray) -> Score:
        """Correlate predictions with human scores (Pearson), over the pairs in `rows`."""
        correlation = correlate(arrays["prediction"][rows], arrays["gold"][rows])
        return Score.single(correlation.pearson, correlation.n)


def score_distribution(scores: FloatArray) -> FloatArray:
    """Convert scores to distributions over the integers 1 to 5.

    The mass of a score is divided between the two nearest integers. The integer 0 has no column, so
    the row of a score below 1 sums to the score, not to 1.

    Args:
        scores: Scores in [0, 5], (n,).

    Returns:
        The distributions, (n, 5) float32.

    Example:
        >>> score_distribution(np.array([2.25, 5.0, 0.5]))
        array([[0.  , 0.75, 0.25, 0.  , 0.  ],
               [0.  , 0.  , 0.  , 0.  , 1.  ],
               [0.5 , 0.  , 0.  , 0.  , 0.  ]], dtype=float32)
    """
    below = np.floor(scores).astype(np.int64)
    spread = np.zeros((len(scores), _N_BINS + 2), dtype=np.float32)  # columns 0 to 6
    rows = np.arange(len(scores))
    spread[rows, below] = below - scores + 1
    spread[rows, below + 1] = scores - below
    return spread[:, 1:-1]


def relatedness(train: Samples, dev: Samples, test: Samples) -> tuple[FloatArray, float]:
    """Train the layer with early stopping on the dev set, and predict the scores of the test set.

    Returns:
        The predicted scores, (n,), and the best Pearson correlation on the dev set.
    """
    import torch
    from torch import nn

    from polarity_bench.tasks.senteval.toolkit_training import Schedule, outputs, train_shares

    schedule = Schedule(_BATCH_SIZE, _BLOCK_EPOCHS, _TENACITY, _MAX_EPOCHS)
    parts = (train, dev, test)
    orders = [sorted_positions(part.labels, part.n_tokens) for part in parts]
    train_features, dev_features, test_features = (
        torch.tensor(part.features[order], dtype=torch.float32)
        for part, order in zip(parts, orders, strict=True)
    )
    targets = torch.tensor(score_distribution(train.labels[orders[0]]))

    def expect(layer: nn.Linear, features: Tensor) -> FloatArray:
        """Return the expected score of each pair, (n,)."""
        shares = outputs(layer, features, schedule.batch_size).softmax(1).numpy()
        return np.asarray(shares @ np.arange(1, _N_BINS + 1))

    def dev_pearson(layer: nn.Linear) -> float:
        correlation = correlate(expect(layer, dev_features), dev.labels[orders[1]])
        return float(np.nan_to_num(correlation.pearson))

    with single_threaded(), torch.random.fork_rng([]):
        torch.manual_seed(_SEED)
        layer = nn.Linear(train_features.shape[1], _N_BINS)
        draw = np.random.RandomState(_SEED)  # The toolkit uses this generator.
        best = train_shares((train_features, targets), layer, schedule, draw, dev_pearson)
        predictions = np.empty(len(test))
        predictions[orders[2]] = expect(best, test_features)
        return predictions, dev_pearson(best)
