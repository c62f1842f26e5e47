"""Probing tasks: from SentEval's file to scores, against the toolkit's procedure by hand."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from standins import BagEncoder, Workshop, call
from standins.workshop import sentences

from polarity_bench.boards.board import board, find_board
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.render.markdown import render
from polarity_bench.tasks import catalogue
from polarity_bench.tasks.catalogue import load_suites, load_tasks, read_task
from polarity_bench.tasks.senteval.classifiers import TorchClassifier
from polarity_bench.tasks.senteval.presets import Preset, choose_preset
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.probing import ProbingSpec
from polarity_bench.values import FloatArray, IntArray

SKLEARN = Settings(of_types=(choose_preset("senteval-sklearn"),))
SMALL = "max_epoch=40,batch_size=8,optim=rmsprop"
LINEAR = Settings(of_types=(choose_preset(classifier=SMALL),))
HIDDEN = Settings(of_types=(choose_preset(classifier=f"{SMALL},nhid=5"),))

Fit = Callable[[FloatArray, IntArray, Any, float], Callable[[FloatArray], IntArray]]


def fit_logistic(x: FloatArray, y: IntArray, _dev: object, c: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(C=c, random_state=1111).fit(x, y).predict


def fit_torch(n_hidden: int) -> Fit:
    def fit(x: FloatArray, y: IntArray, dev: Any, weight_decay: float) -> Any:
        classifier = TorchClassifier(
            n_hidden=n_hidden, max_epochs=40, batch_size=8, optimizer="rmsprop"
        )
        (predict,) = classifier.fit((x, y), [weight_decay], n_classes=3, dev=dev)
        return predict

    return fit


def by_hand(path: Path, grid: Sequence[float], fit: Fit) -> tuple[float, float, list[int]]:
    """Score a file as the toolkit does: dev and test accuracy in percent, and predictions.

    The toolkit sorts the rows of each part by their number of tokens and their class. The
    predictions are returned in the order of the file.
    """
    read: dict[str, list[tuple[list[str], str]]] = {"tr": [], "va": [], "te": []}
    for line in path.read_text(encoding="utf-8").splitlines():
        part, label, text = line.split("\t")
        read[part].append((text.split(), label))
    classes = sorted({label for _, label in read["tr"]})
    parts, orders = {}, {}
    for part, rows in read.items():
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i][0]), classes.index(rows[i][1])))
        texts = [" ".join(rows[i][0]) for i in order]
        labels = np.array([classes.index(rows[i][1]) for i in order])
        parts[part], orders[part] = (BagEncoder().encode(texts), labels), order
    (x, y), dev, (x_test, y_test) = parts["tr"], parts["va"], parts["te"]
    accuracies = [
        round(100 * float(np.mean(fit(x, y, dev, value)(dev[0]) == dev[1])), 2) for value in grid
    ]
    best = grid[int(np.argmax(accuracies))]
    found = fit(x, y, dev, best)(x_test)
    predictions = [0] * len(found)
    for position, prediction in zip(orders["te"], found, strict=True):
        predictions[position] = int(prediction)
    return max(accuracies), round(100 * float(np.mean(found == y_test)), 2), predictions


@pytest.mark.parametrize(
    ("settings", "linear", "grid", "fit"),
    [
        (SKLEARN, False, (0.25, 0.5, 1, 2, 4, 8), fit_logistic),
        (LINEAR, False, (1e-5, 1e-4, 1e-3, 1e-2), fit_torch(0)),
        (HIDDEN, False, (1e-5, 1e-4, 1e-3, 1e-2), fit_torch(5)),
        (HIDDEN, True, (1e-5, 1e-4, 1e-3, 1e-2), fit_torch(0)),
    ],
    ids=["sklearn", "linear", "hidden", "word-content"],
)
def test_scores_are_those_of_the_toolkits_procedure_by_hand(
    workshop: Workshop, settings: Settings, linear: bool, grid: Sequence[float], fit: Fit
) -> None:
    spec = workshop.probing(linear=linear)
    path = workshop.data / str(spec.references()[0].path)
    dev, test, predictions = by_hand(path, grid, fit)
    result = evaluate(BagEncoder(), workshop.load(spec, settings))
    assert result.flat["dev_accuracy"] == pytest.approx(dev / 100, abs=1e-12)
    assert result.flat["accuracy"] == pytest.approx(test / 100, abs=1e-12)
    assert result.arrays["prediction"].tolist() == predictions
    right = result.arrays["prediction"] == result.arrays["label"]
    assert result.flat["exact_accuracy"] == pytest.approx(right.mean())
    assert 1 / 3 < right.mean() < 1
    low, high = (result.flat[f"exact_accuracy_ci95_{end}"] for end in ("low", "high"))
    assert low < right.mean() < high
    assert {key.metric for key in result.scores} == {"accuracy", "dev_accuracy", "exact_accuracy"}


def test_a_hidden_layer_moves_scores_unless_the_task_is_linear(workshop: Workshop) -> None:
    specs = [workshop.probing(f"part-{linear}".lower(), linear=linear) for linear in (False, True)]
    found = {
        (spec.name, settings.of(Preset).name): evaluate(
            BagEncoder(), workshop.load(spec, settings)
        ).arrays["prediction"]
        for spec in specs
        for settings in (LINEAR, HIDDEN)
    }
    free_linear, free_hidden, bound_linear, bound_hidden = found.values()
    assert (free_linear != free_hidden).any()
    assert (bound_linear == bound_hidden).all()
    assert (bound_linear == free_linear).all()
    assert specs[0].digest != specs[1].digest


def test_a_limit_draws_each_class_alike(workshop: Workshop) -> None:
    task: Any = workshop.load(workshop.probing(), replace(LINEAR, limit=6))
    assert task.counts == {"train": 36, "dev": 24, "test": 36}  # 12 of each class, for the folds
    assert task.experiment.endswith("limit_6")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('files."all"', 'files."train"', r"the reader 'probing' needs \[files\] \['all'\], got"),
        ('reader = "probing"', 'reader = "trec"', r"'reader': unknown value 'trec'"),
        ("rows = 120", "", "'files.all': a file needs 'sha256' and 'rows', or a 'git_sha1'"),
        ("sha256 =", "git_sha1 =", "'files.all.git_sha1': String should match pattern"),
        ("rows = 120", "linear = 1", "unknown key 'files.all.linear'"),
    ],
)
def test_a_wrong_task_file_is_refused(workshop: Workshop, old: str, new: str, message: str) -> None:
    file = workshop.probing().file
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_task(file)


# What is shipped


def test_the_ten_tasks_of_the_toolkit_are_a_suite_of_their_own() -> None:
    tasks, suites = load_tasks(), load_suites()
    probing = [name for name, spec in tasks.items() if spec.kind == "probing"]
    assert sorted(suites["probing"]) == sorted(probing)
    assert not set(probing) & {
        name for suite in suites if suite != "probing" for name in suites[suite]
    }
    assert [name for name in probing if getattr(tasks[name], "linear", None)] == ["word-content"]
    for name in probing:
        spec = tasks[name]
        assert isinstance(spec, ProbingSpec)
        (file,) = spec.references()
        pinned = r"https://raw\.githubusercontent\.com/facebookresearch/SentEval/[0-9a-f]{40}/data/"
        assert re.fullmatch(f"{pinned}{re.escape(str(file.path))}", str(file.url))
        assert "Not yet measured" in spec.description, "until a board has a result"
        assert spec.summary == f"{spec.title}; eng-Latn"


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files in the place of SentEval's ten, and the shipped tasks with their checksums."""
    data, shipped = tmp_path / "data", tmp_path / "shipped"
    (shipped / "probing").mkdir(parents=True)
    probing = [load_tasks()[name] for name in load_suites()["probing"]]
    for seed, spec in enumerate(probing):
        (reference,) = spec.references()
        rows = [
            f"{part}\t{label}\t{text}"
            for start, (part, n) in enumerate({"tr": 16, "va": 6, "te": 8}.items())
            for mood, label in ((0, "O"), (2, "I"))
            for text in sentences(n, mood, 100 * seed + start)
        ]
        content = "".join(f"{row}\n" for row in rows).encode()
        path = data / "SentEval" / "data" / str(reference.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        blob = f"blob {len(content)}\0".encode() + content
        sha1 = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
        text = spec.file.read_text(encoding="utf-8")
        text = text.replace(str(reference.git_sha1), sha1)
        (shipped / "probing" / spec.file.name).write_text(text, encoding="utf-8")
    names = json.dumps([spec.name for spec in probing])
    (shipped / "suites.toml").write_text(f"probing = {names}\n", encoding="utf-8")
    monkeypatch.setattr(catalogue, "shipped_folder", lambda: shipped)
    return data


def test_the_suite_runs_from_the_toolkits_folder_to_a_board(
    little: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    def bench(line: str) -> str:
        done = call(monkeypatch, capsys, *line.split())
        assert done.code == 0, done.err
        return done.out

    where = f"--suite probing --data-dir {little} --offline"
    status = json.loads(bench(f"data status --suite probing --data-dir {little} --json"))
    assert [row["status"] for row in status] == ["here"] * 10
    assert bench(f"data fetch {where} --json")
    out = bench(f"run {where} -m random -m tfidf --workers 1 --folds-out folds.csv -o board")
    assert "word-content" in out
    with Path("folds.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 20
    page = render(board(find_board(tmp_path / "board")))
    assert re.search(r"(?m)^#+ Probing", page)
    assert all(name in page for name in load_tasks()), page
    compared = bench("compare random tfidf --results board --task tense --json")
    assert json.loads(compared)
