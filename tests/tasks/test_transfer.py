"""Transfer tasks from files to results, against scikit-learn by hand."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from standins import BagEncoder, Workshop, call

from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import read_results
from polarity_bench.tasks.senteval.classifiers import TorchClassifier
from polarity_bench.tasks.senteval.presets import PRESETS, Preset, choose_preset
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.transfer import TransferTask
from polarity_bench.values import FloatArray, IntArray

SKLEARN = Settings(of_types=(choose_preset("senteval-sklearn", kfold=3),))
PAPERS = Settings(of_types=(PRESETS["papers"],))
GRID = (0.25, 0.5, 1, 2, 4, 8)

Scheme = tuple[list[float], IntArray]
"""Accuracy of each outer fold on its test set, and the predictions in the order of the rows."""


def features(rows: Sequence[Any], text: Callable[[str], str] = str) -> FloatArray:
    def vectors(texts: Sequence[str]) -> FloatArray:
        return BagEncoder().encode([text(one) for one in texts])

    u, *others = (vectors(side) for side in zip(*(row.texts for row in rows), strict=True))
    return np.hstack([np.abs(u - others[0]), u * others[0]]) if others else u


def labels_of(rows: Sequence[Any]) -> IntArray:
    return np.array([row.label for row in rows])


def in_order(rows: Sequence[Any]) -> list[int]:
    """The toolkit's order: by tokens, of pairs the first's first, then by label."""
    return sorted(range(len(rows)), key=lambda i: (rows[i].n_tokens, rows[i].label))


@pytest.mark.parametrize("name", ["sst_binary", "sst_fine", "sick"])
def test_a_dev_split_scores_what_scikit_learn_does_by_hand(name: str, workshop: Workshop) -> None:
    make = getattr(workshop, name)
    task: Any = workshop.load(make(relatedness=False) if name == "sick" else make(), SKLEARN)
    parts = {part: (features(rows), labels_of(rows)) for part, rows in task.parts.items()}
    dev, test = [], []
    for c in GRID:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=c, random_state=1111).fit(*parts["train"])
        dev.append(round(100 * model.score(*parts["dev"]), 2))
        test.append(model.predict(parts["test"][0]))
    predicted, labels = test[int(np.argmax(dev))], parts["test"][1]

    result = evaluate(BagEncoder(), task)
    accuracy = np.mean(predicted == labels)
    assert 0 < accuracy < 1
    assert result.flat["dev_accuracy"] == pytest.approx(max(dev) / 100, abs=1e-12)
    assert result.flat["accuracy"] == pytest.approx(round(100 * accuracy, 2) / 100, abs=1e-12)
    assert result.flat["exact_accuracy"] == pytest.approx(accuracy, abs=1e-12)
    np.testing.assert_array_equal(result.arrays["prediction"], predicted)
    assert result.flat["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"))
    recalls = recall_score(labels, predicted, average=None)
    names = [label.replace(" ", "_") for label in task.spec.labels]
    for label, recall in zip(names, recalls, strict=True):
        assert result.flat[f"recall_{label}"] == pytest.approx(recall)
    assert str(result.main_score) == "accuracy"
    assert result.counts == {part: len(rows) for part, rows in task.parts.items()}


@pytest.mark.parametrize("name", ["trec", "mrpc"])
def test_a_test_set_scores_what_a_grid_search_does_by_hand(name: str, workshop: Workshop) -> None:
    task: Any = workshop.load(getattr(workshop, name)(), SKLEARN)
    train, test = task.parts["train"], task.parts["test"]
    order = in_order(train)
    search = GridSearchCV(
        LogisticRegression(random_state=1111),
        {"C": [0.5, 1, 2, 4, 8, 16, 32]},
        cv=StratifiedKFold(3, shuffle=True, random_state=1111),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(features(train)[order], labels_of(train)[order])
    predicted, labels = search.predict(features(test)), labels_of(test)

    result = evaluate(BagEncoder(), task)
    np.testing.assert_array_equal(result.arrays["prediction"], predicted)
    np.testing.assert_array_equal(result.arrays["label"], labels)
    accuracy = np.mean(labels == predicted)
    assert 0 < accuracy < 1
    assert result.flat["exact_accuracy"] == pytest.approx(accuracy)
    assert result.flat["accuracy"] == pytest.approx(round(100 * accuracy, 2) / 100)
    assert result.flat["dev_accuracy"] == pytest.approx(search.best_score_, abs=5.1e-5)
    assert result.flat["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert result.arrays["fold_regularization"].tolist() == [search.best_params_["C"]]
    assert ("f1" in result.flat) == (name == "mrpc")
    if name == "mrpc":
        assert result.flat["f1"] == pytest.approx(f1_score(labels, predicted))


def nested_by_hand(
    x: FloatArray, y: IntArray, grid: Sequence[float], fit: Callable[..., Any], n_folds: int = 3
) -> Scheme:
    """Nested folds of scikit-learn; `fit(x, y, dev, value)` gives what predicts."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=1111)
    accuracies, predictions = [], np.empty(len(y), dtype=np.int64)
    for train, test in folds.split(x, y):
        means = []
        for value in grid:
            rights = []
            for fitted, held in folds.split(x[train], y[train]):
                a, b = train[fitted], train[held]
                rights.append(np.mean(fit(x[a], y[a], (x[b], y[b]), value)(x[b]) == y[b]))
            means.append(round(100 * float(np.mean(rights)), 2))
        best = grid[int(np.argmax(means))]
        predictions[test] = fit(x[train], y[train], None, best)(x[test])
        accuracies.append(float(np.mean(predictions[test] == y[test])))
    return accuracies, predictions


def fit_logistic(x: FloatArray, y: IntArray, _dev: object, c: float) -> Any:
    return LogisticRegression(C=c, random_state=1111).fit(x, y).predict


def fit_hidden(x: FloatArray, y: IntArray, dev: Any, weight_decay: float) -> Any:
    classifier = TorchClassifier(
        n_hidden=3, optimizer="rmsprop", batch_size=8, tenacity=5, epoch_size=3, max_epochs=30
    )
    (predict,) = classifier.fit((x, y), [weight_decay], n_classes=2, dev=dev)
    return predict


HIDDEN = choose_preset(preset="papers", classifier="max_epoch=30,nhid=3,batch_size=8,optim=rmsprop")


@pytest.mark.parametrize(
    ("settings", "grid", "fit"),
    [
        (SKLEARN, GRID, fit_logistic),
        (Settings(of_types=(HIDDEN,)), (1e-5, 1e-4, 1e-3, 1e-2), fit_hidden),
    ],
    ids=["sklearn", "torch"],
)
def test_nested_folds_score_what_scikit_learns_folds_do_by_hand(
    workshop: Workshop, settings: Settings, grid: Sequence[float], fit: Callable[..., Any]
) -> None:
    task: Any = workshop.load(workshop.labelled_lines(n=40), settings)
    rows = task.parts["all"]
    order = in_order(rows)
    accuracies, predicted = nested_by_hand(
        features(rows, settings.of(Preset).text)[order], labels_of(rows)[order], grid, fit
    )

    result = evaluate(BagEncoder(), task)
    np.testing.assert_array_equal(result.arrays["prediction"][order], predicted)
    assert result.arrays["fold_accuracy"].tolist() == pytest.approx(accuracies)
    assert 0.5 < np.mean(accuracies) < 1
    percent = [round(100 * accuracy, 2) for accuracy in accuracies]
    assert result.flat["accuracy"] == pytest.approx(round(np.mean(percent), 2) / 100)
    assert result.flat["exact_accuracy"] == pytest.approx(
        np.mean(predicted == labels_of(rows)[order])
    )
    assert result.key.protocol["kfold"] == 3


@pytest.mark.parametrize("name", ["exact_accuracy", "macro_f1", "recall_negative"])
def test_intervals_contain_their_mean(name: str, workshop: Workshop) -> None:
    scores = evaluate(BagEncoder(), workshop.load(workshop.sst_binary())).flat
    assert scores[f"{name}_ci95_low"] < scores[name] < scores[f"{name}_ci95_high"]


def test_the_toolkits_classifier_is_named_with_its_parameters(workshop: Workshop) -> None:
    said = dict(workshop.load(workshop.labelled_lines(), Settings(of_types=(HIDDEN,))).protocol)
    assert (said["name"], said["kfold"], said["n_hidden"]) == ("senteval-torch", 3, 3)
    assert (said["max_epochs"], said["batch_size"], said["lower_case"]) == (30, 8, True)


def test_presets_decide_the_case_and_what_stands_for_an_empty_line(workshop: Workshop) -> None:
    files = {
        "positive": ("cr.pos", "A Good ONE .\n\n" * 6, 12),
        "negative": ("cr.neg", "a bad one .\n" * 12, 12),
    }
    spec = workshop.add(
        "cr-like",
        files,
        kind="transfer",
        reader="labelled-lines",
        scheme="nested-kfold",
        labels=["negative", "positive"],
    )
    assert set(workshop.load(spec).texts) == {"A Good ONE .", ".", "a bad one ."}
    assert set(workshop.load(spec, PAPERS).texts) == {"a good one .", "-", "a bad one ."}
    sts = workshop.sts()
    assert list(workshop.load(sts, PAPERS).texts) == list(workshop.load(sts).texts)
    related = workshop.sick(relatedness=True)
    assert all(text.islower() for text in workshop.load(related, PAPERS).texts)
    assert workshop.load(related, PAPERS).experiment == "lower_case"


def test_only_small_exact_fits_take_one_core(workshop: Workshop) -> None:
    spec = workshop.labelled_lines()
    exact = Settings(workers=4, of_types=(choose_preset(kfold=3),))
    task = workshop.load(spec, exact)
    alone = task.for_one_core(384)
    assert isinstance(alone, TransferTask)
    assert alone.settings == replace(exact, workers=1)
    assert (alone.digest, alone.protocol) == (task.digest, task.protocol)
    assert task.for_one_core(2**25) is None  # too much memory beside other tasks
    assert workshop.load(spec, SKLEARN).for_one_core(384) is None  # fits in several processes


def test_fits_of_many_classes_are_large(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits of 1,000 classes need more memory than the vectors."""
    task = workshop.load(workshop.trec(), Settings(workers=4, of_types=(choose_preset(kfold=3),)))
    limit = len(task.texts) * (384 + 30)  # enough for the vectors and three classes
    monkeypatch.setattr("polarity_bench.tasks.types.transfer._LARGEST_FOR_ONE_CORE", limit)
    assert task.for_one_core(384) is None
    assert task.for_one_core(354) is not None


def test_more_folds_than_rows_of_a_label_are_refused(workshop: Workshop) -> None:
    files = {
        "positive": ("few.pos", "one\ntwo\nthree\n", 3),
        "negative": ("few.neg", "four\nfive\nsix\nseven\n", 4),
    }
    spec = workshop.add(
        "few",
        files,
        kind="transfer",
        reader="labelled-lines",
        scheme="nested-kfold",
        labels=["negative", "positive"],
    )
    with pytest.raises(
        InputError, match=r"few: 3 folds need 5 rows of each label, but the rarest label has 3"
    ):
        workshop.load(spec, PAPERS)


def test_scores_by_fold_go_to_a_file(
    workshop: Workshop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workshop.labelled_lines()
    workshop.trec()
    workshop.sts()
    where = f"--task-dir {workshop.tasks} --data-dir {workshop.data} --workers 1 -m random"
    names = "-t little-mr,little-trec,little-sts --kfold 3"
    monkeypatch.chdir(tmp_path)
    for _ in ("made", "reused"):
        line = f"run {where} {names} --folds-out folds.csv"
        done = call(monkeypatch, capsys, *line.split())
        assert done.code == 0, done.err
        with Path("folds.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        folds = [(row["task"], row["fold"]) for row in rows]
        assert folds == [*(("little-mr", str(fold)) for fold in range(3)), ("little-trec", "0")]
        assert {row["protocol"] for row in rows} == {"senteval-exact, k = 3"}
        results = {result.task: result for result in read_results(tmp_path / "results")}
        for task in ("little-mr", "little-trec"):
            each = [float(row["accuracy"]) for row in rows if row["task"] == task]
            assert results[task].flat["accuracy"] == pytest.approx(np.mean(each), abs=1e-4)
