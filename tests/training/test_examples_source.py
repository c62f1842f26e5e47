"""Examples as a data set: generated, written, loaded again, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value, load_dataset
from standins import QUERIES, SOURCES, HashEncoder, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder
from polarity_bench.errors import InputError
from polarity_bench.training.data import TrainingPool
from polarity_bench.training.examples import EXAMPLE_KINDS, ExampleKind
from polarity_bench.training.examples.neighbour_cache import pool_neighbours
from polarity_bench.training.examples.source import (
    ExampleSource,
    generate_examples,
    read_examples,
    write_examples,
)
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.values import FloatArray

LABELS = {text: {"0": "bad", "1": "good"}[label] for text, label in SOURCES}
ANY_COSINE = ExampleSpec(threshold=-1, neighbours=4)


class CompassEncoder(HashEncoder):
    """Each text is a direction in degrees."""

    def _vector(self, text: str) -> FloatArray:
        angle = np.radians(float(text))
        return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


def make(task_dir: Path, kind: ExampleKind = "triplets", **changes: Any) -> Dataset:
    given: dict[str, Any] = {"encoder": HashEncoder(), "spec": ANY_COSINE, "held_out": 0}
    return generate_examples(
        "mini", kind, access=DataAccess(offline=True), task_dir=task_dir, **given | changes
    )


def compass_pool(*labelled: tuple[str, int], classes: Sequence[str] = "ab") -> TrainingPool:
    texts = tuple(text for text, _ in labelled)
    return TrainingPool(texts, np.array([label for _, label in labelled]), tuple(classes))


def source_of(
    pool: TrainingPool, encoder: Encoder, kind: ExampleKind, spec: ExampleSpec
) -> ExampleSource:
    neighbours = pool_neighbours(pool, encoder, spec, Embedder())
    return ExampleSource(pool, neighbours, kind, spec)


def test_a_store_whose_folder_cannot_be_made_is_named(tmp_path: Path) -> None:
    pool = TrainingPool(tuple(LABELS), np.arange(24) % 2, ("bad", "good"))
    (tmp_path / "file").touch()
    with EmbeddingStore(tmp_path / "file" / "embeddings") as store:
        embedder = Embedder(store)
        with pytest.raises(InputError, match=re.escape(str(store.folder))):
            pool_neighbours(pool, HashEncoder(), ANY_COSINE, embedder)


# Generation


def test_triplets_of_a_task(task_dir: Path) -> None:
    """24 texts with 4 neighbours of each polarity have 24 * 4 * 4 triplets."""
    made = make(task_dir)
    assert made.column_names == ["anchor", "positive", "negative"]
    assert made.features == Features({name: Value("string") for name in made.column_names})
    assert len(made) == 384
    rows = {(row["anchor"], row["positive"], row["negative"]) for row in made}
    assert len(rows) == 384
    for anchor, positive, negative in rows:
        assert anchor != positive
        assert LABELS[anchor] == LABELS[positive] != LABELS[negative]


def test_pairs_have_the_class_of_both(task_dir: Path) -> None:
    made = make(task_dir, "pairs")
    assert made.column_names == ["anchor", "positive", "label"]
    assert made.features["label"] == ClassLabel(names=["bad", "good"])
    assert len(made) == 24 * 4
    for row in made:
        name = made.features["label"].int2str(row["label"])
        assert LABELS[row["anchor"]] == LABELS[row["positive"]] == name
        assert row["anchor"] != row["positive"]


def test_labelled_pairs_say_whether_both_are_of_one_class(task_dir: Path) -> None:
    made = make(task_dir, "labelled-pairs")
    assert made.column_names == ["sentence1", "sentence2", "label"]
    assert made.features["label"] == ClassLabel(names=["opposite", "same"])
    assert len(made) == 24 * 8
    assert sum(made["label"]) == 24 * 4
    for row in made:
        assert row["label"] == (LABELS[row["sentence1"]] == LABELS[row["sentence2"]])


def test_the_neighbours_are_those_of_the_encoder(task_dir: Path) -> None:
    spec = ExampleSpec(threshold=-1, neighbours=1)
    made = make(task_dir, "pairs", spec=spec)
    texts = [text for text, _ in SOURCES]
    vectors = HashEncoder().encode(texts).astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = {}
    for i, text in enumerate(texts):
        alike = [j for j, other in enumerate(texts) if j != i and LABELS[other] == LABELS[text]]
        nearest[text] = texts[max(alike, key=lambda j: units[i] @ units[j])]
    assert dict(zip(made["anchor"], made["positive"], strict=True)) == nearest
    other = make(task_dir, "pairs", spec=spec, encoder=HashEncoder("another"))
    assert dict(zip(other["anchor"], other["positive"], strict=True)) != nearest


def test_a_count_and_a_dropout_say_how_many(task_dir: Path) -> None:
    assert len(make(task_dir, spec=ExampleSpec(threshold=-1, neighbours=4, examples=10))) == 10
    assert len(make(task_dir, spec=ExampleSpec(threshold=-1, neighbours=4, dropout=0.75))) == 96


def test_seed_and_epoch_choose_the_draw(task_dir: Path) -> None:
    spec = ExampleSpec(threshold=-1, neighbours=4, examples=20)
    draws = [
        make(task_dir, spec=spec, seed=seed, epoch=epoch).to_dict()
        for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
    assert draws[0] != draws[3]
    assert draws[2] != draws[3]


def test_rows_that_repeat_or_contradict_are_left_out(tmp_path: Path) -> None:
    twice, both = SOURCES[0], (SOURCES[1][0], "0")
    write_task(tmp_path, sources=[*SOURCES, twice, both])
    made = make(tmp_path)
    texts = set(chain(made["anchor"], made["positive"], made["negative"]))
    assert texts == set(LABELS) - {SOURCES[1][0]}
    said = made.info.description
    assert "23 distinct texts" in said
    assert "1 repeated rows, 2 rows whose text has two labels" in said


def test_with_three_classes_each_is_set_against_the_rest(tmp_path: Path) -> None:
    sources = [(f"{text} {label}", label) for label in "012" for text in "abcde"]
    queries = [*QUERIES, ("neither warm nor cold", "2")]
    file = write_task(tmp_path, sources=sources, queries=queries)
    text = file.read_text().replace('1 = "good"\n', '1 = "good"\n2 = "neither"\n')
    file.write_text(text)
    made = make(tmp_path, spec=ExampleSpec(threshold=-1, neighbours=10))
    assert len(made) == 15 * 4 * 10
    found = {tuple(made[i][name][-1] for name in made.column_names) for i in range(len(made))}
    assert found == {(a, a, b) for a in "012" for b in "012" if a != b}
    assert make(tmp_path, "pairs").features["label"].names == ["bad", "good", "neither"]


# The card


def test_the_card_says_how_examples_were_made(task_dir: Path) -> None:
    encoder = HashEncoder()
    spec = ExampleSpec(threshold=-0.5, neighbours=4, examples=10)
    codes = np.array([label == "good" for label in LABELS.values()], dtype=np.int64)
    pool = TrainingPool(tuple(LABELS), codes, ("bad", "good"))
    source = source_of(pool, encoder, "triplets", spec)
    said = make(task_dir, spec=spec, seed=3, epoch=2, encoder=encoder).info.description
    assert said.startswith("---\nconfigs:\n- config_name: default\n")
    assert "# triplets of Task mini\n\n10 examples for training" in said
    facts = {
        "Task": "Task mini (mini, version 1), 24 distinct texts",
        "Left out": "0 repeated rows, 0 rows whose text has two labels, 0 held-out rows and their "
        "relatives, 0 rows that are queries of the task",
        "Classes": "bad, good",
        "Kind": "triplets: anchor, positive, negative",
        "Neighbours": "mined as-written, 4 neighbours, cosine at least -0.5, by hash (digest "
        f"{encoder.id.digest})",
        "Candidates": f"{source.n_candidates}",
        "Dropout": f"{1 - 10 / source.n_candidates:.6f}, which leaves 10 examples",
        "Seed": "3, epoch 2",
    }
    for head, fact in facts.items():
        assert f"- **{head}**: {fact}\n" in said


def test_the_card_of_examples_mined_as_released_names_no_threshold(task_dir: Path) -> None:
    said = make(task_dir, spec=ExampleSpec(mining="as-released", neighbours=8)).info.description
    assert "mined as-released, 8 neighbours, by hash" in said


# Refusals


def test_an_unknown_kind_is_answered_with_similar_ones(task_dir: Path) -> None:
    with pytest.raises(InputError, match="unknown kind of examples 'triplet'; did you mean 'tripl"):
        make(task_dir, "triplet")  # type: ignore[arg-type]


def test_a_task_that_is_not_of_polarity_is_refused() -> None:
    with pytest.raises(InputError, match="`task` sts12: expected a polarity task, got a sts ta"):
        generate_examples("sts12", encoder=HashEncoder(), access=DataAccess(offline=True))


def test_an_unknown_encoder_is_refused(task_dir: Path) -> None:
    with pytest.raises(InputError, match=r"\./nowhere.*: no such folder"):
        make(task_dir, encoder="./nowhere")


def test_more_than_there_are_is_refused(task_dir: Path) -> None:
    with pytest.raises(
        InputError, match="the neighbours allow 384 triplets, but 385 were requested; change"
    ):
        make(task_dir, spec=ExampleSpec(threshold=-1, neighbours=4, examples=385))
    with pytest.raises(InputError, match="the neighbours allow 384 triplets, but 0 were requested"):
        make(task_dir, spec=ExampleSpec(threshold=-1, neighbours=4, dropout=0.9999))


# Three texts of class a: two near each other and one of class b, one alone with the other b


POOL = compass_pool(("0", 0), ("20", 0), ("30", 1), ("180", 0), ("250", 1))


def test_a_label_without_neighbours_says_how_many_remain() -> None:
    """b's texts lie at 30 and 250 degrees, 140 apart; two texts of a have one of their own."""
    said = (
        "no text with the label 'b' has a neighbour with its own label and cosine >= 0.5; texts "
        "with such a neighbour: 2 of 'a', 0 of 'b'; use a lower `threshold` or more `neighbours`"
    )
    for kind in EXAMPLE_KINDS:
        with pytest.raises(InputError, match=f"^{said}$"):
            source_of(POOL, CompassEncoder(), kind, ExampleSpec())


def test_a_label_without_neighbours_of_the_other_is_refused_where_they_are_wanted() -> None:
    pool = compass_pool(("0", 0), ("10", 0), ("180", 1), ("190", 1))
    said = "no text with the label 'a' has a neighbour with any other label and cosine >= 0.5"
    for kind in ("triplets", "labelled-pairs"):
        with pytest.raises(InputError, match=said):
            source_of(pool, CompassEncoder(), kind, ExampleSpec())
    assert source_of(pool, CompassEncoder(), "pairs", ExampleSpec()).count == 4


def test_mined_as_released_no_cosine_is_named() -> None:
    with pytest.raises(
        InputError, match=r"has a neighbour with its own label; texts with such a neighbour: 2"
    ):
        source_of(
            compass_pool(("0", 0), ("1", 0), ("90", 1)),
            CompassEncoder(),
            "pairs",
            ExampleSpec(mining="as-released"),
        )


def test_a_low_threshold_finds_some() -> None:
    spec = ExampleSpec(threshold=-1)
    source = source_of(POOL, CompassEncoder(), "triplets", spec)
    assert source.n_candidates == source.count == 3 * 2 * 2 + 2 * 1 * 3
    columns = source.columns(seed=0, epoch=0)
    assert list(columns) == ["anchor", "positive", "negative"]
    assert {len(column) for column in columns.values()} == {18}


# Writing and reading


def test_the_same_examples_are_the_same_bytes(task_dir: Path, tmp_path: Path) -> None:
    for kind in EXAMPLE_KINDS:
        folders = [tmp_path / kind / name for name in ("first", "second")]
        for folder in folders:
            assert write_examples(make(task_dir, kind), folder) == folder / "train.parquet"
        first, second = ({f.name: f.read_bytes() for f in folder.iterdir()} for folder in folders)
        assert set(first) == {"train.parquet", "README.md"}
        assert first == second


def test_datasets_loads_the_folder(task_dir: Path, tmp_path: Path) -> None:
    made = make(task_dir, "pairs")
    write_examples(made, tmp_path / "out")
    loaded = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features == made.features
    assert loaded.to_dict() == made.to_dict()
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == made.info.description


@pytest.mark.parametrize("kind", EXAMPLE_KINDS)
def test_what_was_written_is_read(kind: ExampleKind, task_dir: Path, tmp_path: Path) -> None:
    made = make(task_dir, kind)
    file = write_examples(made, tmp_path / "out")
    assert read_examples(tmp_path / "out", kind) == made.to_dict()
    assert read_examples(file, kind) == made.to_dict()


def test_examples_of_another_kind_are_refused(task_dir: Path, tmp_path: Path) -> None:
    file = write_examples(make(task_dir, "pairs"), tmp_path / "out")
    said = "the loss takes triplets in the columns anchor, positive, negative, got anchor, posi"
    with pytest.raises(InputError, match=re.escape(f"{file}: {said}")):
        read_examples(tmp_path / "out", "triplets")
    with pytest.raises(InputError, match="the loss takes labelled-pairs in the columns sentence1"):
        read_examples(file, "labelled-pairs")


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _replace_by_text(file: Path) -> None:
    file.write_text("anchor,positive,negative\n")


def _empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("spoil", [_truncate, _replace_by_text, _empty])
def test_a_broken_file_is_refused(
    spoil: Callable[[Path], None], task_dir: Path, tmp_path: Path
) -> None:
    file = write_examples(make(task_dir), tmp_path / "out")
    spoil(file)
    with pytest.raises(InputError, match=r"train\.parquet: not readable as parquet: "):
        read_examples(tmp_path / "out", "triplets")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = rf"`examples_from`: no such file: {tmp_path}/train\.parquet"
    with pytest.raises(InputError, match=said):
        read_examples(tmp_path, "pairs")
    with pytest.raises(InputError, match=r"no such file: .*mine\.parquet"):
        read_examples(tmp_path / "mine.parquet", "pairs")


def test_a_parquet_file_of_the_users_own_is_read(tmp_path: Path) -> None:
    columns = {"label": [1, 0], "sentence2": ["b", "d"], "sentence1": ["a", "c"]}
    pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
    found = read_examples(tmp_path / "mine.parquet", "labelled-pairs")
    assert list(found.items()) == [
        ("sentence1", ["a", "c"]),
        ("sentence2", ["b", "d"]),
        ("label", [1, 0]),
    ]
