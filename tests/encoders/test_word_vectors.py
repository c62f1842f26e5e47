"""Average word vectors, from either file format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polarity_bench.encoders.baselines import WordVectorsEncoder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.txt"
    file.write_text("good 1 0\nbad -1 0\n. 0 4\n", encoding="utf-8")
    return file


def test_known_words_are_averaged_in_any_case(text_file: Path) -> None:
    vectors = WordVectorsEncoder(text_file).encode(["Good bad.", "good", "GOOD unheard"])
    np.testing.assert_allclose(vectors, np.array([[0, 4 / 3], [1, 0], [1, 0]]), rtol=1e-6)


def test_a_text_without_a_known_word_gets_the_mean_of_all(text_file: Path) -> None:
    vectors = WordVectorsEncoder(text_file).encode(["unheard", ""])
    np.testing.assert_allclose(vectors, np.array([[0, 4 / 3], [0, 4 / 3]]), rtol=1e-6)


def test_npy_and_its_words_are_the_same_encoder_as_the_text(text_file: Path) -> None:
    np.save(text_file.with_suffix(".npy"), np.array([[1, 0], [-1, 0], [0, 4]], dtype=np.float32))
    text_file.with_suffix(".words.txt").write_text("good\nbad\n.\n")
    one = load_encoder(f"glove:{text_file}")
    other = load_encoder(f"glove:{text_file.with_suffix('.npy')}")
    assert one.id.digest == other.id.digest
    np.testing.assert_array_equal(one.encode(["good ."]), other.encode(["good ."]))


def test_the_heading_of_word2vec_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "w2v.txt").write_text("2 2\ngood 1 0\nbad -1 0\n")
    assert WordVectorsEncoder(tmp_path / "w2v.txt").encode(["good"]).tolist() == [[1, 0]]


def test_other_vectors_are_another_encoder(text_file: Path, tmp_path: Path) -> None:
    changed = tmp_path / "other.txt"
    changed.write_text(text_file.read_text().replace("-1", "-2"))
    assert WordVectorsEncoder(text_file).id.digest != WordVectorsEncoder(changed).id.digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good 1 0\nbad 1\n", r"line 2: expected 2 numbers as on earlier lines, got 1"),
        ("good 1 x\n", r"line 1: expected a word and numbers"),
        ("", r"contains no word vectors"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        WordVectorsEncoder(tmp_path / "bad.txt")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the baseline 'glove' needs a file"):
        load_encoder("glove")
    with pytest.raises(InputError, match=r"none\.txt: cannot be read"):
        load_encoder(f"glove:{tmp_path / 'none.txt'}")
    np.save(tmp_path / "lone.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match=r"the list of words is missing; .*lone\.words\.txt"):
        load_encoder(f"glove:{tmp_path / 'lone.npy'}")
    (tmp_path / "lone.words.txt").write_text("one\n")
    with pytest.raises(
        InputError, match=r"the 1 words in lone\.words\.txt, got the shape \(2, 2\)"
    ):
        load_encoder(f"glove:{tmp_path / 'lone.npy'}")
