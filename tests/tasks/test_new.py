"""A task file is written for data as it lies there: what is guessed, counted, and refused."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.tasks import scaffold
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask

TEXTS = [(f"Sentence {i} of a longer sort.", "01"[i % 2]) for i in range(500)]


def table(
    path: Path, rows: Sequence[tuple[str, ...]], head: tuple[str, ...], sep: str = ","
) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=sep).writerows([head, *rows])
    return path


def new_task(*args: Any, **options: Any) -> Path:
    return scaffold.new_task(*args, **options).spec.file


def load(file: Path) -> PolarityTask:
    (spec,) = (spec for spec in load_tasks(file).values() if spec.file == file)
    assert isinstance(spec, PolaritySpec)
    return spec.load(DataAccess(offline=True), Settings())


def test_two_files_become_sources_and_queries(tmp_path: Path) -> None:
    rows = [(str(i), text, label) for i, (text, label) in enumerate(TEXTS)]
    head = ("id", "sentence", "stars")
    train = table(tmp_path / "train.csv", rows[:400], head, ";")
    test = table(tmp_path / "test.csv", rows[400:], head, ";")
    file = new_task([train, test], task_name="my-reviews")
    assert file == tmp_path / "my-reviews.toml"
    task = load(file)
    assert (len(task.source), len(task.query)) == (400, 100)
    assert task.query.texts[0] == TEXTS[400][0]
    assert task.query.labels[:2] == ("0", "1")
    assert task.spec.protocol.k == 16
    small = new_task([table(tmp_path / "few.csv", rows[:48], head, ";"), test], task_name="small")
    assert "k = 12 # a quarter of the 48 sources\n" in small.read_text()
    said = task.spec
    assert (said.format.text, said.format.label, said.format.delimiter) == (
        "sentence",
        "stars",
        ";",
    )
    assert said.splits["source"].sha256 == hashlib.sha256(train.read_bytes()).hexdigest()
    assert said.splits["query"].rows == 100
    assert 'rows = 100 # "0": 50, "1": 50\n' in file.read_text()
    file.write_text(file.read_text().replace('0 = "0"', '0 = "bad"'))
    assert load(file).query.labels[:2] == ("bad", "1"), "labels may be given names"
    assert said.protocol.overlap == 0


def test_one_file_is_divided_and_no_text_stands_on_both_sides(tmp_path: Path) -> None:
    twice = [*TEXTS, *((text.upper(), label) for text, label in TEXTS[:100])]
    repeated = "queries repeat the text of an earlier query"
    with pytest.warns(InputWarning, match=repeated):
        file = new_task([table(tmp_path / "My reviews.csv", twice, ("text", "label"))])
    assert file == tmp_path / "my-reviews.toml"
    assert '-query.csv" # a fifth of the distinct texts of My reviews.csv' in file.read_text()
    assert 'guessed from the columns "text", "label"\ntext = "text"' in file.read_text()
    assert '\nlanguages = ["eng-Latn"] # assumed' in file.read_text()
    with pytest.warns(InputWarning, match=repeated):
        task = load(file)
    assert len(task.source) + len(task.query) == 600
    assert 100 <= len(task.query) <= 150, "a fifth of the distinct texts"
    assert task.n_overlap == 0
    sides = [(tmp_path / f"my-reviews-{side}.csv").read_bytes() for side in ("source", "query")]
    file.unlink()
    with pytest.warns(InputWarning, match=repeated):
        new_task([tmp_path / "My reviews.csv"])
    again = [(tmp_path / f"my-reviews-{side}.csv").read_bytes() for side in ("source", "query")]
    assert again == sides


def test_what_is_drawn_keeps_the_share_of_each_label_and_all_columns(tmp_path: Path) -> None:
    rows = [(f"Sentence {i}.", "b" if i % 5 else "a", f"topic {i % 3}") for i in range(200)]
    file = new_task([table(tmp_path / "r.csv", rows, ("text", "label", "topic"))])
    task = load(file)
    assert Counter(task.query.labels) == {"a": 8, "b": 32}
    text = file.read_text().replace("[protocol]", '[protocol]\ngroups = ["topic"]')
    file.write_text(text.replace('label = "label"', 'label = "label"\ncolumns = ["topic"]'))
    topics = [row[2] for row in rows]
    assert sorted([*load(file).source.columns["topic"], *load(file).query.columns["topic"]]) == (
        sorted(topics)
    )


def test_texts_of_several_labels_are_warned_of(tmp_path: Path) -> None:
    rows = [*TEXTS, *((text, "10"[int(label)]) for text, label in TEXTS[:10])]
    several = (
        r"r\.csv, line 2; .*r\.csv, line 502: 10 of 500 distinct texts have more than one label, "
        f"such as '{TEXTS[0][0]}'"
    )
    with (
        pytest.warns(InputWarning, match=several),
        pytest.warns(InputWarning, match="r: 2 of 102 queries repeat the text"),
    ):
        new_task([table(tmp_path / "r.csv", rows, ("text", "label"))])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"text_column": "txet"},
            "`text_column` txet: .*r.csv has no such column; did you mean 'text'",
        ),
        (
            {"label_column": "lable"},
            "`label_column` lable: .* has no such column; did you mean 'label'",
        ),
    ],
)
def test_a_column_that_is_not_there_is_refused_by_its_option(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    file = table(tmp_path / "r.csv", TEXTS, ("text", "label"))
    with pytest.raises(InputError, match=message):
        new_task([file], **columns)


def test_a_column_that_names_the_split_is_used(tmp_path: Path) -> None:
    lines = [
        {"split": "test" if i % 5 == 0 else "train", "mood": label, "tweet": text, "id": i}
        for i, (text, label) in enumerate(TEXTS)
    ]
    path = tmp_path / "tweets.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = load(new_task([path]))
    assert (len(task.source), len(task.query)) == (400, 100)
    assert task.spec.splits["query"].where == {"split": "test"}
    assert (task.spec.format.text, task.spec.format.label) == ("tweet", "mood")


def test_columns_that_are_named_are_taken(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "text": [text for text, _ in TEXTS],
            "other": [f"Other text {i}" for i in range(500)],
            "label": [i % 3 for i in range(500)],
            "sarcastic": [i % 2 == 0 for i in range(500)],
        }
    )
    frame.to_parquet(tmp_path / "all.parquet")
    task = load(new_task([tmp_path / "all.parquet"], text_column="other", label_column="sarcastic"))
    assert task.texts[0].startswith("Other text")
    assert set(task.query.labels) == {"true", "false"}


def test_an_overlap_is_told_of_and_left_to_its_owner_to_declare(tmp_path: Path) -> None:
    train = table(tmp_path / "train.csv", TEXTS, ("text", "label"))
    few = table(
        tmp_path / "few.csv",
        [*TEXTS[:1], *((f"New {i}", "1") for i in range(99))],
        ("text", "label"),
    )
    said = "few: 1 of 100 queries also occur among the sources"
    with pytest.warns(InputWarning, match=said):
        file = new_task([train, few], task_name="few")
    assert "# overlap = 1 # of 100 queries also occur among the sources" in file.read_text()
    with pytest.warns(InputWarning, match=said):
        load(file)
    file = tmp_path / "same.toml"
    with pytest.raises(InputError, match=rf"same: 500 of 500 .* of {file}"):
        new_task([train, train], task_name="same")
    assert "# overlap = 500 # of 500 queries also occur among the sources" in file.read_text()
    with pytest.raises(InputError, match="same: 500 of 500 queries also occur among the sources"):
        load(file)


def test_values_that_toml_must_quote(tmp_path: Path) -> None:
    rows = [(text, ('the "good"', "så där: 50 %")[int(label)]) for text, label in TEXTS]
    task = load(new_task([table(tmp_path / "r.csv", rows, ("the text", "a label.x"))]))
    assert set(task.query.labels) == {'the "good"', "så där: 50 %"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\n", r"reviews\.csv: the file has no rows"),
        ("text,label\na,1\n", r"reviews\.csv: every row has the label '1'; .* `label_column`"),
        (
            "text\na\nb\n",
            r"reviews\.csv: expected at least two columns \(texts and labels\), got \['text'\]",
        ),
        (
            "I loved it,1\nI hated it,0\nGreat,1\n",
            r"reviews\.csv: 3 distinct texts are too few to draw queries; at least two labels need",
        ),
        ("a\x00", r"reviews\.csv"),
    ],
)
def test_what_cannot_be_a_task_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        new_task([path])
    assert not (tmp_path / "reviews.toml").exists()


def test_a_label_of_many_characters_is_refused_in_no_time(tmp_path: Path) -> None:
    path = table(
        tmp_path / "r.csv", [*TEXTS, ("One more.", "\n" * 10_001 + "x")], ("text", "label")
    )
    with pytest.raises(InputError, match=r"'label' has 3 different labels of up to 10,002 chara"):
        new_task([path])


def test_a_path_that_no_task_file_may_hold_leaves_none(tmp_path: Path) -> None:
    sides = [table(tmp_path / f"a:{i}.csv", TEXTS, ("text", "label")) for i in range(2)]
    with pytest.raises(InputError, match="expected a relative path with forward slashes"):
        new_task(sides, task_name="colon")
    assert not (tmp_path / "colon.toml").exists()


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path) -> None:
    path = table(tmp_path / "reviews.csv", TEXTS, ("text", "label"))
    file = new_task([path])
    content = file.read_bytes()
    assert new_task([path]) == file, "the same data gives the same files"
    file.write_bytes(edited := content.replace(b'"1"', b'"good"', 1))
    with pytest.raises(
        InputError, match=r"reviews\.toml already exists; choose another `task_name`"
    ):
        new_task([path])
    assert file.read_bytes() == edited != content
    with pytest.raises(
        InputError, match=r"`task_name` 'sst2': a task with this name already exists"
    ):
        new_task([path], task_name="sst2")
    with pytest.raises(
        InputError, match=r"`task_name` needs lower-case letters, digits and hyphens, got 'Ä'"
    ):
        new_task([path], task_name="Ä")
    with pytest.raises(InputError, match=r"expected one file, or two .* got 3 files"):
        new_task([path, path, path])
    with pytest.raises(
        InputError, match=r"`text_column` txt: .* has no such column; did you mean 'text'"
    ):
        new_task([path], task_name="other", text_column="txt")
    with pytest.raises(InputError, match=r"gone\.csv: cannot be read: No such file"):
        new_task([tmp_path / "gone.csv"])
