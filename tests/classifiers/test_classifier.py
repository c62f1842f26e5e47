"""Classifiers: a folder that predicts, and folders that cannot."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from standins import Bench, word_tokenizer

from polarity_bench.classifiers.classifier import Classifier
from polarity_bench.classifiers.head import HEAD_FILE, Head
from polarity_bench.encoders.axis import Axis
from polarity_bench.errors import InputError

TEXTS = ["The a was warm.", "The b was cold and dull.", ""]


def with_head(encoder: Path, folder: Path, head: Head) -> Path:
    shutil.copytree(encoder, folder)
    (folder / HEAD_FILE).write_bytes(head.to_bytes())
    return folder


def head_of(size: int, *, proxies: bool = False) -> Head:
    generator = np.random.default_rng(0)
    drawn = generator.normal(size=(2, 3, size)) if proxies else None
    weight = generator.normal(size=(2, size))
    return Head(("bad", "good"), weight, np.zeros(2), drawn, beta=0.0 if proxies else 1.0)


def test_a_folder_predicts_by_the_vectors_of_its_encoder(tiny_model: Path, tmp_path: Path) -> None:
    head = head_of(32, proxies=True)
    classifier = Classifier.load(with_head(tiny_model, tmp_path / "x", head))
    assert list(classifier.classes) == ["bad", "good"]
    vectors = SentenceTransformer(str(tiny_model), device="cpu").encode(TEXTS)
    shares = classifier.predict_proba(TEXTS)
    assert_allclose(shares, head.probabilities(vectors), atol=1e-5)
    named = [("bad", "good")[row.argmax()] for row in shares]
    assert classifier.predict(TEXTS) == named
    nearest = head.similarities(vectors)
    assert_allclose(classifier.scores(TEXTS, with_proxies=True), nearest, atol=1e-5)
    by_proxies = [("bad", "good")[row.argmax()] for row in nearest]
    assert classifier.predict(TEXTS, with_proxies=True) == by_proxies
    assert classifier.predict([]) == []


def test_a_head_of_pairs_reads_both_texts_and_their_distance(
    tiny_model: Path, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    head = Head(("no", "yes"), generator.normal(size=(2, 96)), np.ones(2), of_pairs=True)
    classifier = Classifier.load(with_head(tiny_model, tmp_path / "x", head))
    assert classifier.head.of_pairs
    u, v = SentenceTransformer(str(tiny_model), device="cpu").encode(TEXTS[:2])
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[0]), (TEXTS[0], TEXTS[0])]
    wanted = [[*u, *v, *abs(u - v)], [*v, *u, *abs(u - v)], [*u, *u, *(0 * u)]]
    assert_allclose(classifier.vectors(pairs), wanted, atol=1e-5)
    assert classifier.predict([]) == []
    with pytest.raises(InputError, match="`pair`: this classifier needs pairs of texts"):
        classifier.predict([pairs[0], TEXTS[0]])
    other = Head(("no", "yes"), np.ones((2, 99)), np.ones(2), of_pairs=True)
    with pytest.raises(InputError, match="the head needs vectors of 33 dimensions, but"):
        Classifier.load(with_head(tiny_model, tmp_path / "other", other))


def test_a_default_prompt_is_a_part_of_the_texts(tiny_model: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    model.prompts["say"], model.default_prompt_name = "The soup was ", "say"
    model.save_pretrained(str(tmp_path / "prompted"), create_model_card=False)
    classifier = Classifier.load(with_head(tmp_path / "prompted", tmp_path / "x", head_of(32)))
    assert_allclose(classifier.vectors(TEXTS), model.encode(TEXTS), atol=1e-6)


def test_a_static_encoder_predicts_too(tmp_path: Path) -> None:
    static = SentenceTransformer(modules=[StaticEmbedding(word_tokenizer(), embedding_dim=8)])
    static.save_pretrained(str(tmp_path / "static"), create_model_card=False)
    classifier = Classifier.load(with_head(tmp_path / "static", tmp_path / "x", head_of(8)))
    assert_allclose(classifier.vectors(TEXTS[:2]), static.encode(TEXTS[:2]), atol=1e-6)
    with pytest.raises(InputError, match="encoder does not accept pairs"):
        classifier.predict([("The a was warm.", "The b was cold.")])


@pytest.mark.parametrize("classes", [["bad", "good"], ["bad", "fair", "good"]])
@pytest.mark.parametrize("strength", [0.0, 0.25])
def test_an_axis_predicts_as_its_classifier_does(
    bench: Bench, tiny_model: Path, tmp_path: Path, classes: list[str], strength: float
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    vectors = torch.from_numpy(model.encode(TEXTS))
    axis = Axis(classes, 32, strength=strength).eval()
    model.append(axis)
    model.save_pretrained(str(tmp_path / "dial"), create_model_card=False)
    wanted = axis.head(vectors).softmax(dim=1).detach().numpy()
    classifier = Classifier.load(tmp_path / "dial")
    assert_allclose(classifier.predict_proba(TEXTS), wanted, atol=1e-5)
    Path("some.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    printed = json.loads(bench("predict", "-m", tmp_path / "dial", "some.txt", "--json").out)
    assert [row["text"] for row in printed["rows"]] == TEXTS
    assert [row["label"] for row in printed["rows"]] == classifier.predict(TEXTS)
    assert_allclose([list(row["scores"].values()) for row in printed["rows"]], wanted, atol=1e-5)
    assert classifier.predict([*TEXTS, TEXTS[0]])[3] == classes[wanted[0].argmax()]
    assert classifier.predict([]) == []
    with pytest.raises(InputError, match="encoder does not accept pairs"):
        classifier.predict([("The a was warm.", "The b was cold.")])
    with pytest.raises(InputError, match="trained without proxies"):
        classifier.predict(TEXTS, with_proxies=True)


def test_the_csv_table_has_no_formulas_and_no_control_characters(
    bench: Bench, tiny_model: Path, tmp_path: Path
) -> None:
    with_head(tiny_model, tmp_path / "x", replace(head_of(32), classes=("=bad", "good\x1b")))
    texts = ['=HYPERLINK("a")', "-3 stars\x1b[2K", "The soup, warm"]
    Path("some.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    titles, *rows = csv.reader(bench("predict", "-m", "x", "some.jsonl").out.splitlines())
    assert titles == ["label", "'=bad", "good\\x1b", "text"]
    assert [row[-1] for row in rows] == [f"'{texts[0]}", "'-3 stars\\x1b[2K", texts[2]]
    assert {row[0] for row in rows} <= set(titles[1:3])
    rows = json.loads(bench("predict", "-m", "x", "some.jsonl", "--json").out)["rows"]
    assert [row["text"] for row in rows] == texts


@pytest.mark.parametrize("name", ["minilm", "random", "constant"])
def test_a_folder_is_a_folder_though_an_encoder_has_its_name(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with_head(tiny_model, tmp_path / name, head_of(32))
    monkeypatch.chdir(tmp_path)
    vectors = SentenceTransformer(str(tiny_model), device="cpu").encode(TEXTS)
    assert_allclose(Classifier.load(name).vectors(TEXTS), vectors, atol=1e-6)


def test_half_a_copy_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """Without its modules it would load with mean pooling, whatever it was trained with."""
    folder = with_head(tiny_model, tmp_path / "x", head_of(32))
    (folder / "modules.json").unlink()
    with pytest.raises(InputError, match=r"modules\.json is missing, .* an incomplete copy"):
        Classifier.load(folder)


def test_folders_that_are_no_classifiers_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="classifier 'nowhere': no such folder"):
        Classifier.load("nowhere")
    with pytest.raises(InputError, match=r"head\.safetensors is missing, so the folder is not a"):
        Classifier.load(tiny_model)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / HEAD_FILE).write_bytes(head_of(32).to_bytes())
    with pytest.raises(InputError, match=r"has neither modules\.json .* nor config\.json"):
        Classifier.load(tmp_path / "alone")
    other = with_head(tiny_model, tmp_path / "other", head_of(33))
    with pytest.raises(InputError, match="the head needs vectors of 33 dimensions, but"):
        Classifier.load(other)


def test_proxies_that_are_not_there_are_missed_before_any_text_is_read(
    tiny_model: Path, tmp_path: Path
) -> None:
    classifier = Classifier.load(with_head(tiny_model, tmp_path / "x", head_of(32)))
    no_text: list[str] = [None]  # type: ignore[list-item]
    with pytest.raises(InputError, match="this classifier was trained without proxies"):
        classifier.predict(no_text, with_proxies=True)
