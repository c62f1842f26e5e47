"""Saved vectors as an encoder: layouts, identity, missing texts and damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from standins import Bench, HashEncoder

from polarity_bench import evaluate, load_task
from polarity_bench.encoders.load import load_encoder, resolve_name
from polarity_bench.encoders.saved_vectors import SavedVectorsEncoder
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

TEXTS = ["A good film.", "Ein schöner Abend", 'two\nlines and "quotes"', "", "no"]
VECTORS = HashEncoder().encode(TEXTS) / 1024


def save_parquet(folder: Path, texts: Sequence[str], vectors: FloatArray) -> Path:
    frame = pd.DataFrame({"text": texts, "vector": list(vectors)})
    frame.to_parquet(folder / "saved.parquet")
    return folder / "saved.parquet"


def save_columns(folder: Path, texts: Sequence[str], vectors: FloatArray) -> Path:
    frame = pd.DataFrame(vectors).rename(columns=str).assign(text=texts, row=range(len(texts)))
    frame.to_parquet(folder / "saved.parquet")
    return folder / "saved.parquet"


def save_pair(folder: Path, texts: Sequence[str], vectors: FloatArray) -> Path:
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (folder / "saved.jsonl").write_text("".join(lines))
    np.save(folder / "saved.npy", vectors)
    return folder / "saved.npy"


def save_folder(folder: Path, texts: Sequence[str], vectors: FloatArray) -> Path:
    (folder / "texts.json").write_text(json.dumps(texts))
    np.save(folder / "vectors.npy", vectors)
    return folder


def save_shards(folder: Path, texts: Sequence[str], vectors: FloatArray) -> Path:
    for start in (3, 0):
        rows = slice(start, start + 3)
        (folder / f"{9 - start}.jsonl").write_text("\n".join(map(json.dumps, texts[rows])) + "\n")
        np.save(folder / f"{9 - start}.npy", vectors[rows])
    return folder


SAVERS = [save_parquet, save_columns, save_pair, save_folder, save_shards]
Save = Callable[[Path, Sequence[str], FloatArray], Path]


@pytest.mark.parametrize("save", SAVERS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_layout_and_dtype_is_the_same_encoder(
    tmp_path: Path, save: Save, dtype: type[np.floating]
) -> None:
    # Rounded first, so that the values are the same in every dtype.
    rounded = VECTORS.astype(np.float16)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "in.other").mkdir()
    plain = SavedVectorsEncoder(save_parquet(tmp_path / "plain", TEXTS, rounded.astype(np.float32)))
    place = save(tmp_path / "plain" / "in.other", TEXTS, rounded.astype(dtype))
    encoder = load_encoder(f"vectors:{place}")
    assert encoder.id.digest == plain.id.digest
    assert encoder.id.name == ("in.other" if place.is_dir() else "saved")
    found = encoder.encode(TEXTS[::-1])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, rounded[::-1].astype(np.float32))


def test_lines_of_a_txt_file_may_end_like_on_windows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo \r\n\r\n")
    np.save(tmp_path / "a.npy", np.eye(3))
    encoder = SavedVectorsEncoder(tmp_path / "a.npy")
    assert encoder.missing(["one", "two ", "", "two"]) == ["two"]


def test_the_identity_covers_texts_and_vectors(tmp_path: Path) -> None:
    changed = VECTORS.copy()
    changed[2, 3] += 1e-3
    digests = set()
    for number, (texts, vectors) in enumerate(
        [(TEXTS, VECTORS), (TEXTS, changed), ([*TEXTS[:-1], "No"], VECTORS)]
    ):
        (tmp_path / str(number)).mkdir()
        place = save_parquet(tmp_path / str(number), texts, vectors)
        digests.add(SavedVectorsEncoder(place).id.digest)
    assert len(digests) == 3


def test_integers_are_vectors_and_packed_bits_are_not(tmp_path: Path) -> None:
    place = save_folder(tmp_path, TEXTS, np.eye(5, dtype=np.int8))
    assert SavedVectorsEncoder(place).encode(["no"]).tolist() == [[0, 0, 0, 0, 1]]
    save_folder(tmp_path, TEXTS, np.eye(5, dtype=np.uint8))
    with pytest.raises(InputError, match=r"npy: expected vectors of floats or .* 5 .* of uint8"):
        SavedVectorsEncoder(place)


def test_a_repeated_text_needs_equal_vectors(tmp_path: Path) -> None:
    place = save_parquet(tmp_path, [*TEXTS, "no"], np.vstack([VECTORS, VECTORS[-1:]]))
    assert SavedVectorsEncoder(place).missing(TEXTS) == []
    save_parquet(tmp_path, [*TEXTS, "no"], np.vstack([VECTORS, VECTORS[:1]]))
    with pytest.raises(InputError, match=r"saved\.parquet: the text 'no' has two different vect"):
        SavedVectorsEncoder(place)


@pytest.mark.parametrize("save", SAVERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, 1e39])
def test_a_useless_vector_is_refused_with_its_text(tmp_path: Path, save: Save, bad: float) -> None:
    vectors = VECTORS.astype(np.float64)
    vectors[1] = bad
    with pytest.raises(InputError, match=r"(parquet|npy): vector 2, of the text 'Ein sch.*', is"):
        SavedVectorsEncoder(save(tmp_path, TEXTS, vectors))


@pytest.mark.parametrize("save", SAVERS[:4])
def test_a_truncated_file_is_refused(tmp_path: Path, save: Save) -> None:
    place = save(tmp_path, TEXTS, VECTORS)
    for file in [file for file in tmp_path.iterdir() if file.suffix in {".npy", ".parquet"}]:
        content = file.read_bytes()
        for n_bytes in (len(content) - 9, 20, 0):
            file.write_bytes(content[:n_bytes])
            with pytest.raises(InputError, match=rf"{file.name}: cannot be read as .* complete\?"):
                SavedVectorsEncoder(place)


@pytest.mark.parametrize("spoiled", [b"{'descr': [", b"{'descr': '<f4', 'shape': (" + b"9" * 30])
def test_a_header_that_numpy_cannot_parse_is_refused(tmp_path: Path, spoiled: bytes) -> None:
    place = save_pair(tmp_path, TEXTS, VECTORS)
    (file,) = tmp_path.glob("*.npy")
    content = file.read_bytes()
    file.write_bytes(content[:10] + spoiled + content[10 + len(spoiled) :])
    with pytest.raises(InputError, match=r"npy: cannot be read as an \.npy matrix"):
        SavedVectorsEncoder(place)


@pytest.mark.parametrize(
    ("texts", "shape", "message"),
    [
        (None, (2, 4), r"a\.npy: expected one file with the texts of its rows, got none; write"),
        ('"one"\n', (2, 4), r"a\.npy: .* for each of the 1 texts in a\.jsonl, got .* \(2, 4\)"),
        ('"one"\n"two"\n', (2,), r"a\.npy: expected a matrix .*, got the shape \(2,\)"),
        ('"one"\n"two"\n', (2, 0), r"a\.npy: expected vectors of floats .*, got 2 vectors of fl"),
        ("", (0, 4), r"a\.npy: expected vectors of floats .*, got 0 vectors"),
        ('"one"\n7\n', (2, 4), r"a\.npy: text 2 is not a string, got 7; save each text"),
        ('"one"\n{"t": 1}\n', (2, 4), r"a\.npy: text 2 is not a string, got None"),
        ('"one"\n"tw', (2, 4), r"a\.jsonl: cannot be read as a list of texts"),
    ],
)
def test_texts_and_rows_must_match(
    tmp_path: Path, texts: str | None, shape: tuple[int, ...], message: str
) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape))
    if texts is not None:
        (tmp_path / "a.jsonl").write_text(texts)
    with pytest.raises(InputError, match=message):
        SavedVectorsEncoder(tmp_path / "a.npy")


def test_two_files_of_texts_are_ambiguous(tmp_path: Path) -> None:
    save_pair(tmp_path, TEXTS, VECTORS)
    (tmp_path / "saved.txt").write_text("one\n")
    with pytest.raises(InputError, match=r"one file .*, got saved\.jsonl, saved\.txt"):
        SavedVectorsEncoder(tmp_path)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"sentence": ["a"], "vector": [[1.0]]}, r"'text', and .*, got sentence, vector"),
        ({"text": ["a"], "n": [1]}, r"a column 'vector' of lists .*, got text, n"),
        ({"text": ["a"], "v": [[1.0]], "w": [[1.0]]}, r"a column 'vector' .*, got text, v, w"),
        ({"text": ["a", None], "v": [[1.0], [1.0]]}, r"text 2 is not a string, got None"),
        ({"text": [1], "v": [[1.0]]}, r"text 1 is not a string, got 1"),
        ({"text": ["a", "b"], "v": [[1.0], [1.0, 2.0]]}, r"same length, got from 1 to 2 numbers"),
        ({"text": ["a", "b"], "v": [[1.0], None]}, r"same length, got from 0 to 1 numbers"),
        ({"text": ["a", "b"], "v": [["1"], ["2"]]}, r"expected vectors of floats .* of object"),
    ],
)
def test_a_parquet_file_of_another_layout_is_refused(
    tmp_path: Path, frame: dict[str, list[object]], message: str
) -> None:
    pd.DataFrame(frame).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=rf"a\.parquet: .*{message}"):
        SavedVectorsEncoder(tmp_path / "a.parquet")


def test_files_of_different_dimensions_are_refused(tmp_path: Path) -> None:
    save_shards(tmp_path, TEXTS, VECTORS)
    np.save(tmp_path / "9.npy", np.ones((3, 7)))
    with pytest.raises(InputError, match=r"9\.npy: expected vectors of 16 dimensions .*, got 7"):
        SavedVectorsEncoder(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vectors", r"the encoder 'vectors' is incomplete; use vectors:PATH"),
        (
            "vectors:{}/none",
            r"none: expected a \.parquet or \.npy file or a folder of these, got none",
        ),
        ("vectors:{}/a.npz", r"a\.npz: expected a \.parquet or \.npy file"),
        ("vectors:{}/none.npy", r"none\.npy: cannot be read as an \.npy matrix: .*No such file"),
        ("vectors:{}", r"expected a \.parquet or \.npy file or a folder of these, got none; save"),
    ],
)
def test_a_place_without_vectors_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(name.format(tmp_path))


def test_a_grid_completes_the_path(tmp_path: Path) -> None:
    assert resolve_name("vectors:a.parquet", tmp_path) == f"vectors:{tmp_path / 'a.parquet'}"


# From texts to scores


@pytest.fixture
def saved(bench: Bench, task_dir: Path, tmp_path: Path) -> Path:
    """A folder with the texts of the task `mini` and their vectors from `HashEncoder`."""
    wrote = bench("texts", "--tasks", "mini", "--task-dir", task_dir, "-o", "api/texts.jsonl")
    assert (wrote.code, wrote.out) == (0, "")
    assert "32 texts" in wrote.err
    following = f"polarity-bench run --tasks mini --model vectors:api --task-dir {task_dir}\n"
    assert wrote.err.endswith(f"next: {following}")
    lines = (tmp_path / "api" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    assert len(set(texts)) == 32
    np.save(tmp_path / "api" / "vectors.npy", HashEncoder().encode(texts))
    return tmp_path / "api"


def test_texts_as_parquet_and_json(bench: Bench, task_dir: Path) -> None:
    wanted = ["texts", "--tasks", "mini", "--task-dir", task_dir, "--limit", "4", "--json"]
    wrote = bench(*wanted, "-o", "mini.parquet")
    assert json.loads(wrote.out) == {"file": "mini.parquet", "n_texts": 28, "tasks": ["mini"]}
    assert "run --tasks mini --limit 4 --model vectors:." in wrote.err
    assert len(pd.read_parquet("mini.parquet").text.unique()) == 28
    wrong = bench(*wanted[:5], "-o", "mini.csv")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--output mini.csv: the file name must end in .jsonl or .parquet" in wrong.err


def test_saved_vectors_score_as_their_encoder(bench: Bench, saved: Path, task_dir: Path) -> None:
    run = ["run", "--task-dir", task_dir, "--tasks", "mini", "--json", "--reference", "random"]
    done = bench(*run, "--model", "vectors:api")
    assert done.code == 0, done.err
    task = load_task("mini", task_dir=task_dir)
    direct = evaluate(HashEncoder(), task, reference="random")
    ours = evaluate(f"vectors:{saved}", task, reference="random")
    assert ours.flat == direct.flat
    assert str(ours.main.mean)[:8] in done.out
    by_saved = evaluate(HashEncoder("other"), task, reference=f"vectors:{saved}")
    by_direct = evaluate(HashEncoder("other"), task, reference=HashEncoder())
    assert by_saved.flat == by_direct.flat
    again = bench(*run, "--model", "vectors:api/vectors.npy")
    assert again.code == 0  # the same digest, under another name


@pytest.mark.parametrize("role", ["--model", "--reference"])
def test_missing_texts_are_named_before_anything_is_scored(
    bench: Bench, saved: Path, task_dir: Path, tmp_path: Path, role: str
) -> None:
    lines = (saved / "texts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (saved / "texts.jsonl").write_text("".join(lines[4:]))
    np.save(saved / "vectors.npy", np.load(saved / "vectors.npy")[4:])
    other = ["--model", "random"] if role == "--reference" else []
    run = ["run", "--tasks", "mini", "--task-dir", task_dir, *other, role, "vectors:api"]
    done = bench(*run)
    assert done.code == 2
    first = [json.loads(line)["text"] for line in lines[:3]]
    assert "api: no vector for 4 of 32 texts, which are compared exactly: " in done.err
    assert ", ".join(map(repr, first)) + ", …; write all texts with" in done.err
    assert "encoding" not in done.err
    assert not list(tmp_path.glob("results/**/*.json"))
    task = load_task("mini", task_dir=task_dir)
    pair = [f"vectors:{saved}", "random"][:: 1 if role == "--model" else -1]
    counting = HashEncoder()
    with pytest.raises(InputError, match="no vector for 4 of 32 texts"):
        evaluate(pair[0] if role == "--model" else counting, task, reference=pair[1])
    assert not counting.encoded


def test_options_that_saved_vectors_do_not_take(bench: Bench, saved: Path) -> None:
    for option, value in [("--prompt", "a"), ("--max-tokens", "3"), ("--backend", "onnx")]:
        done = bench("run", "--model", "vectors:api", option, value)
        assert done.code == 2
        assert f"the encoder 'vectors:api' takes no {option}; remove the option" in done.err
