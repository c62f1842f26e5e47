"""The recipe triple-entropy: a folder that is an encoder and a classifier, and `predict` on it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sentence_transformers import SentenceTransformer
from standins import QUERIES, SOURCES, Bench, Done, csv_text, write_task
from standins.training import equal, run, weights

from polarity_bench.classifiers.classifier import Classifier
from polarity_bench.classifiers.head import HEAD_FILE, Head
from polarity_bench.errors import InputError
from polarity_bench.training.loops import descent
from polarity_bench.training.loops.classifier_training import transformer_of
from polarity_bench.training.losses.metric import SoftTriple, SupCon
from polarity_bench.training.objective import CrossEntropy
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.recipes.triple_entropy import TripleEntropy
from polarity_bench.training.train import TrainingRun

SMALL = TripleEntropy(loss=SoftTriple(proxies_per_class=2), epochs=40, batch_size=12, rate=3e-3)
TEXTS = [text for text, _ in QUERIES]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder)
    return folder


@pytest.fixture(scope="module")
def trained(tiny_model: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    return run(tiny_model, tasks, tmp_path_factory.mktemp("run") / "run", SMALL)


def test_it_trains_encoder_and_head(tiny_model: Path, trained: TrainingRun) -> None:
    assert [(row["epoch"], row["step"]) for row in trained.rows] == [(0, 0), (40, 80)]
    assert trained.kept == 80
    assert trained.figures == {"texts": 24, "empty_batches": 0, "held_out": 0}
    assert trained.speed is not None
    assert not equal(weights(tiny_model), weights(trained.folder))
    head = Head.read(trained.folder)
    assert (head.classes, head.weight.shape, head.beta) == (("bad", "good"), (2, 32), 0.5)
    assert head.proxies is not None
    assert head.proxies.shape == (2, 2, 32)
    assert not (trained.folder / "checkpoints").exists()
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    assert "24 texts, CCE + SoftTriple" in card


def test_the_folder_is_an_encoder_that_gives_what_the_head_reads(trained: TrainingRun) -> None:
    classifier = Classifier.load(trained.folder)
    model = SentenceTransformer(str(trained.folder), device="cpu")
    vectors = model.encode(TEXTS)
    assert_allclose(classifier.vectors(TEXTS), vectors, atol=1e-5)
    shares = Head.read(trained.folder).probabilities(vectors)
    assert_allclose(classifier.predict_proba(TEXTS), shares, atol=1e-5)
    learned = classifier.predict([text for text, _ in SOURCES])
    truth = [("bad", "good")[int(label)] for _, label in SOURCES]
    assert np.mean([a == b for a, b in zip(learned, truth, strict=True)]) > 0.9


def test_a_later_run_scores_it_as_it_was_judged(
    bench: Bench, trained: TrainingRun, tasks: Path
) -> None:
    words = ["run", "--model", trained.folder, "--tasks", "mini", "--task-dir", tasks]
    done = bench(*words, "--json", "--no-store")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    for metric in ("polarity", "similarity", "retention", "joint"):
        assert result["scores"][f"{metric}_at_4"] == pytest.approx(trained.rows[1][metric])
    assert result["reference"] == "tiny"


def contents(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", HEAD_FILE, "config.json", "history.csv")
    return {name: (folder / name).read_bytes() for name in names}


def test_a_run_killed_between_checkpoints_ends_with_the_same_bytes(
    tiny_model: Path,
    tasks: Path,
    tmp_path: Path,
    trained: TrainingRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = descent.Checkpoints.write

    def stop(self: descent.Checkpoints, step: int, tensors: object) -> None:
        write(self, step, tensors)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(descent.Checkpoints.__init__, "__defaults__", (30,))  # steps between two
    with monkeypatch.context() as patch:
        patch.setattr(descent.Checkpoints, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tiny_model, tasks, tmp_path / "run", SMALL)
    assert not (tmp_path / "run" / "modules.json").exists()
    (kept,) = (tmp_path / "run" / "checkpoints").iterdir()
    again = run(tiny_model, tasks, tmp_path / "run", SMALL)
    assert kept.name.startswith("step-00000030-")
    assert contents(again.folder) == contents(trained.folder)
    assert again.rows == trained.rows
    assert run(tiny_model, tasks, tmp_path / "run", SMALL).reused


def test_cross_entropy_alone_has_no_proxies(
    bench: Bench, tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    words = ["train", "--recipe", "triple-entropy", "--loss", "cce", "-m", tiny_model, "-t", "mini"]
    words += ["--task-dir", tasks, "--epochs", "6", "--batch-size", "8", "--no-store", "-o", "x"]
    done = bench(*words, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["recipe"], said["kept"], said["reused"]) == ("triple-entropy", 18, False)
    assert Head.read(Path("x")).proxies is None
    assert json.loads(bench(*words, "--json").out)["reused"]
    refused = bench(*words[:-1], "y", "--beta", "0.5")
    assert refused.code == 2
    assert "--beta must be 1 with the --loss cce (cross-entropy alone), got 0.5" in refused.err


def test_few_layers_are_few_when_it_is_loaded_again(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "run", replace(SMALL, layers=1, pooling="first"))
    model = SentenceTransformer(str(done.folder), device="cpu")
    assert len(transformer_of(model).encoder.layer) == 1
    assert "'pooling_mode': 'cls'" in str(model[1])
    assert_allclose(Classifier.load(done.folder).vectors(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_some_texts_may_be_drawn(tiny_model: Path, tasks: Path, tmp_path: Path) -> None:
    few = replace(SMALL, samples=6, batch_size=1, epochs=2, loss=SupCon())
    done = run(tiny_model, tasks, tmp_path / "run", few)
    assert done.figures == {"texts": 6, "empty_batches": 12, "held_out": 0}
    with pytest.raises(InputError, match="`samples` 25: the data has 24 rows"):
        run(tiny_model, tasks, tmp_path / "other", replace(SMALL, samples=25))


def test_layers_that_are_not_there_are_refused_before_any_work(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="`layers` 3: the encoder has 2"):
        run(tiny_model, tasks, tmp_path / "run", replace(SMALL, layers=3))
    assert not (tmp_path / "run").exists()


def test_the_recipe_without_a_metric_loss_is_called_cross_entropy() -> None:
    assert TripleEntropy().title == "CCE + SoftTriple"
    assert TripleEntropy(loss=CrossEntropy()).title == "CCE"


# predict


def table_of(done: Done) -> list[dict[str, str]]:
    assert done.code == 0, done.err
    return list(csv.DictReader(io.StringIO(done.out)))


def test_a_text_a_line_is_labelled(bench: Bench, trained: TrainingRun) -> None:
    lines = [*TEXTS, "", "Cold\u2028and dull.", "Warm."]
    Path("some.txt").write_bytes("\r\n".join(lines).encode())
    rows = table_of(bench("predict", "--model", trained.folder, "some.txt"))
    classifier = Classifier.load(trained.folder)
    assert [row["text"] for row in rows] == [line.replace("\u2028", r"\u2028") for line in lines]
    assert [row["label"] for row in rows] == classifier.predict(lines)
    shares = classifier.predict_proba(lines)
    assert_allclose([[float(r["bad"]), float(r["good"])] for r in rows], shares, atol=1e-5)


@pytest.mark.parametrize("name", ["some.csv", "some.tsv", "some.jsonl", "some.txt.gz"])
def test_files_of_all_sorts_are_read(bench: Bench, trained: TrainingRun, name: str) -> None:
    written = {
        "some.csv": csv_text([(text, "x") for text in TEXTS], head=("review", "other")).encode(),
        "some.tsv": "".join(f"{text}\tx\n" for text in ["review", *TEXTS]).encode(),
        "some.jsonl": "".join(json.dumps({"review": text}) + "\n" for text in TEXTS).encode(),
        "some.txt.gz": gzip.compress("".join(f"{text}\n" for text in TEXTS).encode()),
    }
    Path(name).write_bytes(written[name])
    rows = table_of(bench("predict", "-m", trained.folder, name, "--column", "review"))
    assert [row["review"] for row in rows] == TEXTS
    assert [row["label"] for row in rows] == Classifier.load(trained.folder).predict(TEXTS)


def test_pairs_are_labelled(bench: Bench, trained: TrainingRun) -> None:
    pairs = list(zip(TEXTS[:3], TEXTS[3:6], strict=True))
    Path("pairs.csv").write_text(csv_text(pairs, head=("one", "other")))
    words = ["predict", "-m", trained.folder, "pairs.csv", "--column", "one", "--pair", "other"]
    rows = table_of(bench(*words))
    assert [(row["one"], row["other"]) for row in rows] == pairs
    said = json.loads(bench(*words, "--json").out)
    assert [row["text"] for row in said["rows"]] == [list(pair) for pair in pairs]
    assert [row["label"] for row in said["rows"]] == [row["label"] for row in rows]


@pytest.mark.parametrize(("name", "content"), [("no.txt", ""), ("no.csv", "text\n")])
def test_no_texts_have_no_labels(
    bench: Bench, trained: TrainingRun, name: str, content: str
) -> None:
    Path(name).write_text(content)
    assert table_of(bench("predict", "-m", trained.folder, name)) == []


def test_proxies_take_part_if_they_are_asked_to(bench: Bench, trained: TrainingRun) -> None:
    Path("some.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    rows = table_of(bench("predict", "-m", trained.folder, "some.txt", "--proxies"))
    expected = Classifier.load(trained.folder).scores(TEXTS, with_proxies=True)
    assert_allclose([[float(r["bad"]), float(r["good"])] for r in rows], expected, atol=1e-5)


def test_the_folder_of_a_setfit_run_predicts(
    bench: Bench, tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "run", SetFit(variant="setfit", samples_per_class=3))
    Path("some.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    rows = table_of(bench("predict", "-m", done.folder, "some.txt"))
    vectors = SentenceTransformer(str(done.folder), device="cpu").encode(TEXTS)
    head = Head.read(done.folder)
    assert head.weight.shape == (1, 32)
    good = 1 / (1 + np.exp(-(vectors @ head.weight[0] + head.bias[0])))
    assert_allclose([float(row["good"]) for row in rows], good, atol=1e-5)
    refused = bench("predict", "-m", done.folder, "some.txt", "--proxies")
    assert (refused.code, refused.out) == (2, "")
    assert "--proxies: this classifier was trained without proxies" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.txt"], "gone.txt: no such file"),
        (
            ["some.csv", "--column", "txt"],
            "--column: some.csv has no column 'txt'; did you mean 'text'?",
        ),
        (
            ["some.csv", "--pair", "other"],
            "--pair: some.csv has no column 'other'; known: label, text",
        ),
        (["some.txt", "--pair", "other"], "--pair other: some.txt is a text file, which has no"),
        (["odd.txt"], "odd.txt: cannot be read: 'utf-8' codec can't decode byte"),
        (["some.xml"], "expected csv, tsv, jsonl or parquet, got '.xml'"),
        (["some.csv", "--device", "tpu"], "--device tpu: not usable on this machine"),
    ],
)
def test_files_that_cannot_be_read_are_refused(
    bench: Bench, trained: TrainingRun, arguments: list[str], said: str
) -> None:
    Path("some.csv").write_text("text,label\nWarm.,1\n")
    Path("some.txt").write_text("Warm.\n")
    Path("odd.txt").write_bytes(b"ab\xff")
    Path("some.xml").write_text("<text/>")
    done = bench("predict", "-m", trained.folder, *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_folder_that_is_no_classifier_is_refused(bench: Bench, tiny_model: Path) -> None:
    Path("some.txt").write_text("Warm.\n")
    done = bench("predict", "-m", tiny_model, "some.txt")
    assert done.code == 2
    assert "head.safetensors is missing, so the folder is not a classifier; train one" in done.err
    assert "no such folder" in bench("predict", "-m", "nowhere", "some.txt").err
