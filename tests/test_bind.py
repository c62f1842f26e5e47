"""Bound tasks: SentEval and STS from files to results, whatever runs beside them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.stats import pearsonr, spearmanr
from senteval_data import BagEncoder, Workshop, no_bar
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score
from standins import HashEncoder, write_task

import polarity_bench
from polarity_bench import cli
from polarity_bench.data.senteval import PairRow
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.errors import InputError
from polarity_bench.evaluation import evaluate
from polarity_bench.kinds import read_task
from polarity_bench.kinds.senteval.presets import choose_preset
from polarity_bench.kinds.task import Settings, Task, TaskSpec
from polarity_bench.results import Result, read_result, read_results
from polarity_bench.suite import RunReport, run
from polarity_bench.types import Encoder, FloatArray

QUICK = Settings(preset=choose_preset("senteval-sklearn", kfold=3))
PAPERS = Settings(transfer="senteval-torch", preset=choose_preset("senteval-torch", "papers"))
TIMES = ("date", "evaluation_time", "seconds")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "made")


def bound(workshop: Workshop, spec: TaskSpec, settings: Settings = QUICK) -> Task:
    return spec.load(DataAccess(workshop.data, offline=True), settings)


def run_quick(
    workshop: Workshop,
    specs: Sequence[TaskSpec],
    output: Path,
    settings: Settings = QUICK,
    *,
    encoder: Encoder | None = None,
    embedder: Embedder | None = None,
    overwrite: bool = False,
) -> RunReport:
    report = run(
        encoder or BagEncoder(),
        specs,
        DataAccess(workshop.data, offline=True),
        settings,
        output=output,
        overwrite=overwrite,
        embedder=embedder or Embedder(),
        bar=no_bar,
    )
    assert report.failures == {}
    return report


def vectors(texts: Sequence[str]) -> FloatArray:
    return BagEncoder().encode(texts)


# Transfer


def features(rows: Sequence[Any]) -> FloatArray:
    if isinstance(rows[0], PairRow):
        u, v = vectors([row.first for row in rows]), vectors([row.second for row in rows])
        return np.hstack([np.abs(u - v), u * v])
    return vectors([row.text for row in rows])


@pytest.mark.parametrize("name", ["sst_binary", "sst_fine", "sick"])
def test_a_dev_split_scores_what_scikit_learn_does_by_hand(name: str, workshop: Workshop) -> None:
    make = getattr(workshop, name)
    task: Any = bound(workshop, make(relatedness=False) if name == "sick" else make())
    parts = {part: (features(rows), [r.label for r in rows]) for part, rows in _parts(task).items()}
    dev, test = [], []
    for c in (0.25, 0.5, 1, 2, 4, 8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=c, random_state=1111).fit(*parts["train"])
        dev.append(round(100 * model.score(*parts["dev"]), 2))
        test.append(model.predict(parts["test"][0]))
    predicted, labels = test[int(np.argmax(dev))], parts["test"][1]

    result = evaluate(BagEncoder(), task)
    accuracy = np.mean(predicted == np.array(labels))
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
    assert result.counts == {part: len(rows) for part, rows in _parts(task).items()}


def _parts(task: Any) -> Mapping[str, Sequence[Any]]:
    parts: Mapping[str, Sequence[Any]] = task.data.parts
    return parts


@pytest.mark.parametrize("name", ["labelled_lines", "trec", "mrpc"])
def test_folds_give_whole_results(name: str, workshop: Workshop) -> None:
    task: Any = bound(workshop, getattr(workshop, name)())
    result = evaluate(BagEncoder(), task)
    labels, predicted = result.arrays["label"], result.arrays["prediction"]
    rows = _parts(task)["all" if name == "labelled_lines" else "test"]
    np.testing.assert_array_equal(labels, [row.label for row in rows])
    assert result.flat["exact_accuracy"] == pytest.approx(np.mean(labels == predicted))
    assert result.flat["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"))
    n_folds = 3 if name == "labelled_lines" else 1
    folds = result.arrays["fold_accuracy"]
    assert folds.shape == result.arrays["fold_regularization"].shape == (n_folds,)
    assert result.flat["accuracy"] == pytest.approx(folds.mean(), abs=1e-4)
    assert result.key.protocol["kfold"] == 3
    assert ("f1" in result.flat) == (name == "mrpc")
    if name == "mrpc":
        assert result.flat["f1"] == pytest.approx(f1_score(labels, predicted))


@pytest.mark.parametrize("name", ["exact_accuracy", "macro_f1", "recall_negative"])
def test_intervals_contain_their_mean(name: str, workshop: Workshop) -> None:
    scores = evaluate(BagEncoder(), bound(workshop, workshop.sst_binary())).flat
    assert scores[f"{name}_ci95_low"] < scores[name] < scores[f"{name}_ci95_high"]


def test_the_toolkits_classifier_is_named_with_its_parameters(workshop: Workshop) -> None:
    settings = Settings(
        transfer="senteval-torch",
        preset=choose_preset(
            "senteval-torch", "papers", classifier="max_epoch=6,nhid=3,optim=adam"
        ),
    )
    result = evaluate(BagEncoder(), bound(workshop, workshop.labelled_lines(), settings))
    said = dict(result.key.protocol)
    assert (said["name"], said["kfold"], said["n_hidden"]) == ("senteval-torch", 3, 3)
    assert (said["max_epochs"], said["batch_size"], said["lower_case"]) == (6, 128, True)
    assert 0 <= result.flat["accuracy"] <= 1


# Correlations


def test_relatedness_correlates_as_scipy_does(workshop: Workshop) -> None:
    for spec in (workshop.sick(relatedness=True), workshop.stsb(relatedness=True)):
        result = evaluate(BagEncoder(), bound(workshop, spec))
        predicted, gold = result.arrays["prediction"], result.arrays["gold"]
        assert result.flat["pearson"] == pytest.approx(pearsonr(predicted, gold).statistic)
        assert result.flat["spearman"] == pytest.approx(spearmanr(predicted, gold).statistic)
        assert result.flat["mse"] == pytest.approx(np.mean((predicted - gold) ** 2))
        assert (
            result.flat["spearman_ci95_low"]
            < result.flat["spearman"]
            < result.flat["spearman_ci95_high"]
        )
        assert str(result.main_score) == "pearson"


def test_sts_correlates_as_scipy_does(workshop: Workshop) -> None:
    task: Any = bound(workshop, workshop.sts())
    result = evaluate(BagEncoder(), task)
    cosines, gold, sizes = {}, {}, []
    for name, rows in _parts(task).items():
        u, v = vectors([r.first for r in rows]), vectors([r.second for r in rows])
        cosines[name] = [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(u, v)]  # noqa: B905
        gold[name] = [row.label for row in rows]
        sizes.append(len(rows))
    for statistic, correlate in (("spearman", spearmanr), ("pearson", pearsonr)):
        each = [correlate(cosines[n], gold[n]).statistic for n in gold]
        for name, value in zip(gold, each, strict=True):
            assert result.flat[f"{statistic}_{name}"] == pytest.approx(value, abs=1e-6)
        together = correlate([*chain(*cosines.values())], [*chain(*gold.values())]).statistic
        assert result.flat[f"{statistic}_all"] == pytest.approx(together, abs=1e-6)
        assert result.flat[f"{statistic}_mean"] == pytest.approx(np.mean(each), abs=1e-6)
        weighted = np.average(each, weights=sizes)
        assert result.flat[f"{statistic}_wmean"] == pytest.approx(weighted, abs=1e-6)
    scores = result.flat
    assert scores["spearman_all_ci95_low"] < scores["spearman_all"]
    assert scores["spearman_all"] < scores["spearman_all_ci95_high"]
    assert str(result.main_score) == "spearman_all"


def test_the_one_subset_of_sts_b_is_all_of_it(workshop: Workshop) -> None:
    scores = evaluate(BagEncoder(), bound(workshop, workshop.stsb(relatedness=False))).flat
    same = {scores[f"spearman_{name}"] for name in ("test", "mean", "wmean", "all")}
    assert max(same) - min(same) < 1e-15


# Together


def test_texts_of_two_tasks_are_encoded_once(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.sick(relatedness=False), workshop.sick(relatedness=True)]
    tasks = [bound(workshop, spec) for spec in specs]
    asked = [text for task in tasks for text in task.texts]
    encoder = BagEncoder()
    with EmbeddingStore() as store:
        embedder = Embedder(store, batch_size=16)
        report = run_quick(workshop, specs, tmp_path / "out", encoder=encoder, embedder=embedder)
        (usage,) = report.usage.values()
        assert sorted(encoder.encoded) == sorted(set(asked))
        assert (usage.n_texts, usage.n_distinct) == (len(asked), len(set(asked)))
        assert (usage.n_encoded, usage.n_read) == (len(set(asked)), 0)
        assert 2 * usage.n_distinct < usage.n_texts

        warm = run_quick(
            workshop, specs, tmp_path / "out", overwrite=True, embedder=embedder
        ).usage.popitem()[1]
        assert (warm.n_encoded, warm.n_read) == (0, len(set(asked)))


def test_results_do_not_depend_on_the_number_of_workers(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.labelled_lines(), workshop.trec(), workshop.sst_binary()]
    for workers in (1, 2):
        settings = replace(QUICK, workers=workers)
        run_quick(workshop, specs, tmp_path / str(workers), settings)
    assert without_times(tmp_path / "1") == without_times(tmp_path / "2")


def without_times(output: Path) -> dict[str, bytes]:
    """The files below an output folder, by place, their times and dates taken out."""
    found = {}
    for path in sorted(output.rglob("*.*")):
        if path.is_dir():
            continue
        content = path.read_bytes()
        if path.suffix == ".json":
            kept = {k: v for k, v in json.loads(content).items() if k not in TIMES}
            content = json.dumps(kept).encode()
        found[path.relative_to(output).as_posix()] = content
    assert found
    return found


def test_results_come_back_from_disk_and_are_reused(workshop: Workshop, tmp_path: Path) -> None:
    specs = [
        workshop.labelled_lines(),
        workshop.sick(relatedness=True),
        workshop.stsb(relatedness=False),
    ]
    first = run_quick(workshop, specs, tmp_path / "out")
    assert [result.task for result, _ in first.results] == [spec.name for spec in specs]
    for result, path in first.results:
        back = read_result(path)
        assert dict(back.flat) == dict(result.flat)
        assert (back.key.digest, back.kind, back.main_score) == (
            result.key.digest,
            result.kind,
            result.main_score,
        )
        stored = load_file(path.with_suffix(".queries.safetensors"))
        for name, values in result.arrays.items():
            np.testing.assert_array_equal(stored[name], values)
        row = json.loads(path.read_text())["scores"]["test"][0]
        assert row["main_score"] == result.main.mean
    before = without_times(tmp_path / "out")
    encoder = BagEncoder()
    again = run_quick(workshop, specs, tmp_path / "out", encoder=encoder)
    assert again.reused == [spec.name for spec in specs]
    assert encoder.encoded == []
    assert without_times(tmp_path / "out") == before


def test_protocols_do_not_overwrite_each_other(workshop: Workshop, tmp_path: Path) -> None:
    specs = [workshop.labelled_lines(), workshop.sick(relatedness=True)]
    short = "max_epoch=2,epoch_size=1"
    asked = {
        "default": Settings(),
        "k = 3": QUICK,
        "papers": replace(
            PAPERS, preset=choose_preset("senteval-torch", "papers", classifier=short)
        ),
        "literature": replace(
            PAPERS, preset=choose_preset("senteval-torch", "literature", 3, classifier=short)
        ),
    }
    paths, scores = set(), {}
    for name, settings in asked.items():
        report = run_quick(workshop, specs, tmp_path / "out", settings)
        result, path = report.results[0]
        paths.add(path)
        scores[name] = dict(result.flat)
        assert ("experiments" in path.parts) == (name != "default")
        reused = {"default": 0, "k = 3": 1, "papers": 0, "literature": 1}[name]
        assert len(report.reused) == reused  # relatedness has no folds, but lower-cased texts
    assert len(paths) == len(asked)
    for name, settings in asked.items():
        report = run_quick(workshop, specs, tmp_path / "out", settings)
        assert len(report.reused) == 2
        assert dict(report.results[0][0].flat) == scores[name]
    kinds = [result.kind for _, result in read_results(tmp_path / "out")]
    assert sorted(kinds) == ["relatedness"] * 2 + ["transfer"] * 4


def test_a_limit_is_refused_where_there_are_no_queries(workshop: Workshop, tmp_path: Path) -> None:
    encoder = BagEncoder()
    for spec in (workshop.trec(), workshop.sts(), workshop.sick(relatedness=True)):
        wanted = f"--limit is for polarity tasks; {spec.name} is a {spec.kind} task"
        with pytest.raises(InputError, match=wanted):
            run_quick(workshop, [spec], tmp_path / "out", Settings(limit=5), encoder=encoder)
    assert encoder.encoded == []
    assert not (tmp_path / "out").exists()


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
    assert set(bound(workshop, spec).texts) == {"A Good ONE .", ".", "a bad one ."}
    assert set(bound(workshop, spec, PAPERS).texts) == {"a good one .", "-", "a bad one ."}
    sts = workshop.sts()
    assert list(bound(workshop, sts, PAPERS).texts) == list(bound(workshop, sts).texts)
    related = workshop.sick(relatedness=True)
    assert all(text.islower() for text in bound(workshop, related, PAPERS).texts)
    assert bound(workshop, related, PAPERS).experiment == "lower_case"


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
        InputError, match=r"few: 3 folds need 4 rows of every label, the rarest has 3"
    ):
        bound(workshop, spec, PAPERS)


def test_every_kind_runs_together_and_polarity_beside_it(
    workshop: Workshop, tmp_path: Path
) -> None:
    workshop.tasks.mkdir(parents=True)
    specs = [
        read_task(write_task(workshop.tasks)),
        workshop.mrpc(),
        workshop.sick(relatedness=False),
        workshop.stsb(relatedness=True),
        workshop.sts(),
    ]
    report = run_quick(workshop, specs, tmp_path / "out")
    assert [result.kind for result, _ in report.results] == [
        "polarity",
        "transfer",
        "transfer",
        "relatedness",
        "sts",
    ]
    digests = {result.key.digest for result, _ in report.results}
    assert len(digests) == len(specs)


def test_tfidf_has_a_vocabulary_for_each_task(workshop: Workshop, tmp_path: Path) -> None:
    encoder = polarity_bench.load_encoder("tfidf")
    specs = [workshop.sst_binary(), workshop.sts()]
    report = run_quick(workshop, specs, tmp_path / "out", encoder=encoder)
    (alone, _), *_ = run_quick(workshop, specs[:1], tmp_path / "alone", encoder=encoder).results
    assert dict(alone.flat) == dict(report.results[0][0].flat)


def test_scores_by_fold_go_to_a_file(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.labelled_lines()
    workshop.trec()
    workshop.sts()
    where = f"--task-dir {workshop.tasks} --data-dir {workshop.data} --workers 1 -m random"
    names = "-t little-mr,little-trec,little-sts --kfold 3"
    monkeypatch.chdir(tmp_path)
    for _ in ("made", "reused"):
        line = f"polarity-bench run {where} {names} --folds-out folds.csv"
        monkeypatch.setattr(sys, "argv", line.split())
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert not exit_.value.code
        with Path("folds.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        folds = [(row["task"], row["fold"]) for row in rows]
        assert folds == [*(("little-mr", str(fold)) for fold in range(3)), ("little-trec", "0")]
        assert {row["protocol"] for row in rows} == {"senteval-sklearn, k = 3"}
        results = {result.task: result for _, result in read_results(tmp_path / "results")}
        for task in ("little-mr", "little-trec"):
            each = [float(row["accuracy"]) for row in rows if row["task"] == task]
            assert results[task].flat["accuracy"] == pytest.approx(np.mean(each), abs=1e-4)


# Killed

SLOW_RUN = """
import sys
import time
from pathlib import Path

from senteval_data import BagEncoder, no_bar

from polarity_bench.kinds.task import Settings
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.kinds.senteval.presets import choose_preset
from polarity_bench.kinds import choose_tasks, load_tasks
from polarity_bench.suite import run
from polarity_bench.embedding.store import EmbeddingStore

made, output, log, seconds = sys.argv[1:]


class SlowEncoder(BagEncoder):
    def encode(self, texts):
        with Path(log).open("a") as file:
            file.write("\\t".join(texts) + "\\n")
        time.sleep(float(seconds))
        return super().encode(texts)


tasks = choose_tasks(load_tasks(Path(made, "tasks")), names=["little-mr", "little-sts"])
preset = choose_preset("senteval-sklearn", kfold=3)
with EmbeddingStore(Path(output, "store")) as store:
    report = run(
        SlowEncoder(),
        tasks,
        DataAccess(Path(made, "data"), offline=True),
        Settings(preset=preset),
        output=Path(output),
        embedder=Embedder(store, batch_size=8),
        bar=no_bar,
    )
assert not report.failures, report.failures
"""


def start(workshop: Workshop, output: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    words = [workshop.root, output, log, seconds]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen([sys.executable, "-c", SLOW_RUN, *map(str, words)], env=env)


def batches(log: Path) -> list[list[str]]:
    text = log.read_text() if log.exists() else ""
    return [line.split("\t") for line in text.splitlines()]


def test_a_killed_run_goes_on_where_it_was(workshop: Workshop, tmp_path: Path) -> None:
    workshop.labelled_lines()
    workshop.sts()
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    uninterrupted = start(workshop, whole, tmp_path / "whole.log", 0)
    log = tmp_path / "broken.log"
    killed = start(workshop, broken, log, 0.3)
    deadline = time.monotonic() + 60
    while len(batches(log)) < 4 and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    before = batches(log)
    assert len(before) >= 4
    assert list(read_results(broken)) == []

    assert start(workshop, broken, log, 0).wait() == 0
    assert uninterrupted.wait() == 0
    after = batches(log)[len(before) :]
    stored, in_flight = before[:-1], before[-1]
    assert after[0] == in_flight  # killed while it slept, so that nothing of it was stored
    once = [text for batch in stored + after for text in batch]
    assert len(once) == len(set(once))
    assert stored + after == batches(tmp_path / "whole.log")
    for folder in (whole, broken):
        for file in (folder / "store").iterdir():
            file.unlink()
    assert without_times(broken) == without_times(whole)


# In mteb


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_sts_equals_mtebs_own_task_on_the_same_text(workshop: Workshop) -> None:
    mteb = pytest.importorskip("mteb")
    datasets = pytest.importorskip("datasets")
    spec = workshop.sts(subsets={"one": 40, "two": 25})
    task: Any = bound(workshop, spec)
    rows: list[Any] = [row for part in _parts(task).values() for row in part]

    made = type(
        "LittleSTS",
        (mteb.abstasks.AbsTaskSTS,),
        {
            "metadata": mteb.TaskMetadata(
                name="LittleSTS",
                description="The same pairs.",
                dataset={"path": "none/none", "revision": "1"},
                type="STS",
                category="t2t",
                modalities=["text"],
                eval_splits=["test"],
                eval_langs=["eng-Latn"],
                main_score="cosine_spearman",
                bibtex_citation="",
                reference=None,
            )
        },
    )
    theirs = made()
    columns = {
        "sentence1": [row.first for row in rows],
        "sentence2": [row.second for row in rows],
        "score": [row.label for row in rows],
    }
    theirs.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(columns))
    theirs.data_loaded = True
    outcome = mteb.evaluate(BagModel(), theirs, cache=None, show_progress_bar=False)
    scores = outcome.task_results[0].scores["test"][0]

    ours = evaluate(BagEncoder(), task).flat
    assert ours["spearman_all"] == pytest.approx(scores["cosine_spearman"], abs=1e-12)
    assert ours["spearman_all"] == pytest.approx(scores["spearman"], abs=1e-12)
    assert ours["pearson_all"] == pytest.approx(scores["cosine_pearson"], abs=1e-6)


class BagModel:
    """An mteb model with the vectors of `BagEncoder`."""

    def __init__(self) -> None:
        overwrites = {"name": "tests/bag", "revision": "1"}
        meta = import_module("mteb.models").ModelMeta
        self.mteb_model_meta = meta.create_empty(overwrites=overwrites)
        self.metadata: list[Any] = []

    def encode(self, inputs: Any, **kwargs: Any) -> FloatArray:
        self.metadata.append(kwargs["task_metadata"])
        return vectors([text for batch in inputs for text in batch["text"]])

    def similarity(self, one: Any, other: Any) -> Any:
        return np.asarray(one) @ np.asarray(other).T

    def similarity_pairwise(self, one: Any, other: Any) -> Any:
        torch = import_module("torch")
        return torch.nn.functional.cosine_similarity(torch.tensor(one), torch.tensor(other))


SHIPPED = {
    "SentEvalMR": "accuracy",
    "SentEvalCR": "accuracy",
    "SentEvalSUBJ": "accuracy",
    "SentEvalMPQA": "accuracy",
    "SentEvalSST2": "accuracy",
    "SentEvalSST5": "accuracy",
    "SentEvalTREC": "accuracy",
    "SentEvalMRPC": "accuracy",
    "SentEvalSICKE": "accuracy",
    "SentEvalSICKR": "pearson",
    "SentEvalSTSBRelatedness": "pearson",
    "SemEvalSTS12": "spearman_all",
    "SemEvalSTS13": "spearman_all",
    "SemEvalSTS14": "spearman_all",
    "SemEvalSTS15": "spearman_all",
    "SemEvalSTS16": "spearman_all",
    "SemEvalSTSB": "spearman_all",
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_transfer_and_sts_tasks_are_registered_in_mteb(workshop: Workshop) -> None:
    mteb = pytest.importorskip("mteb")
    workshop.labelled_lines(name="mteb-mr")
    workshop.sts(name="mteb-sts")
    polarity_bench.register(workshop.tasks)
    for name, main_score in SHIPPED.items():
        task = mteb.get_task(name)
        assert task.metadata.main_score == main_score, name
        own = "AbsTaskClassification" if task.metadata.type == "Classification" else "AbsTaskSTS"
        assert task.abstask_prompt == getattr(mteb.abstasks, own).abstask_prompt

    access = DataAccess(workshop.data, offline=True)
    for spec in workshop.specs.values():
        made = type(mteb.get_task(spec.result_name))
        task = made(settings=QUICK, data_dir=workshop.data)
        outcome = mteb.evaluate(BagModel(), task, cache=None, show_progress_bar=False)
        theirs = outcome.task_results[0].scores["test"][0]
        ours: Result = evaluate(BagEncoder(), spec.load(access, QUICK))
        for name, value in ours.flat.items():
            assert theirs[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name
        assert theirs["main_score"] == ours.main.mean


# What cannot be


def test_an_encoder_that_fails_one_task_leaves_the_others(
    workshop: Workshop, tmp_path: Path
) -> None:
    specs = [workshop.sst_binary(), workshop.trec()]
    spoiled = bound(workshop, specs[0]).texts[0]
    report = run(
        HashEncoder(spoiled=[spoiled], spoil=float("inf")),
        specs,
        DataAccess(workshop.data, offline=True),
        QUICK,
        output=tmp_path / "out",
        embedder=Embedder(),
        bar=no_bar,
    )
    assert list(report.failures) == ["little-sst2"]
    assert [result.task for result, _ in report.results] == ["little-trec"]
    assert report.exit_code == 1
