"""Pairs of NLI: every form of file, what is left out, what is refused and where."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from polarity_bench.data.nli import CLASSES, load_nli
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError

OFFLINE = DataAccess(offline=True)
ROWS = [
    ("A dog runs.", "An animal moves.", "entailment"),
    ("A dog runs.", "The dog is late.", "neutral"),
    ("A dog runs.", "A dog sleeps.", "-"),
    ("A dog runs.", "A dog sleeps.", "contradiction"),
]


def line(premise: str, hypothesis: str, label: str) -> str:
    record = {"gold_label": label, "pairID": "1", "sentence1": premise, "sentence2": hypothesis}
    return json.dumps(record) + "\n"


def official(path: Path, rows: list[tuple[str, str, str]] = ROWS) -> str:
    content = "".join(line(*row) for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def hubs(path: Path) -> str:
    """The same rows in the hub's form."""
    numbers = [CLASSES.index(label) if label in CLASSES else -1 for _, _, label in ROWS]
    premises, hypotheses, _ = zip(*ROWS, strict=True)
    table = pd.DataFrame({"premise": premises, "hypothesis": hypotheses, "label": numbers})
    table.to_parquet(path)
    return str(path)


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "train.parquet", "hub"])
def test_every_form_gives_the_same_pairs(tmp_path: Path, name: str) -> None:
    if name == "hub":
        (tmp_path / "snli").mkdir()
        hubs(tmp_path / "snli" / "train.parquet")
        given = f"hub:{tmp_path / 'snli'}"
    else:
        given = (hubs if name.endswith("parquet") else official)(tmp_path / name)
    pairs = load_nli([given], OFFLINE)
    assert list(zip(pairs.premises, pairs.hypotheses, strict=True)) == [
        (premise, hypothesis) for premise, hypothesis, label in ROWS if label != "-"
    ]
    assert pairs.labels.tolist() == [0, 1, 2]
    assert pairs.n_skipped == 1


def test_several_files_come_one_after_the_other(tmp_path: Path) -> None:
    first, second = official(tmp_path / "a.jsonl"), official(tmp_path / "b.jsonl.gz", ROWS[:1])
    pairs = load_nli([first, second], OFFLINE)
    assert pairs.labels.tolist() == [0, 1, 2, 0]
    assert pairs.n_skipped == 1
    assert pairs.digest != load_nli([second, first], OFFLINE).digest
    assert load_nli([second], OFFLINE).digest == load_nli([second], OFFLINE).digest


def test_a_file_is_found_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "nli").mkdir()
    official(tmp_path / "nli" / "a.jsonl")
    assert len(load_nli(["nli/a.jsonl"], DataAccess(tmp_path, offline=True))) == 3


GOOD = line(*ROWS[0])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD + line("A dog.", " ", "neutral"), ", line 2: the hypothesis is empty"),
        (GOOD + "\n" + line("", "A dog.", "neutral"), ", line 3: the premise is empty"),
        (line("A.", "B.", "entails"), ", line 1: unknown label 'entails'; did you mean 'entailm"),
        (line("A.", "B.", "3"), ", line 1: unknown label '3'; known: contradiction, entailment"),
        (GOOD + '{"gold_label": "neutral", "sent', ", line 2: invalid JSON"),
        (GOOD + '{"gold_label": "neutral", "sentence1": "A."}\n', ", line 2: no key 'sentence2'"),
        ('{"text": "A.", "class": "neutral"}\n', ", line 1: no key 'gold_label'"),
        ("", ": expected labelled pairs, got none"),
        (line("A.", "B.", "-"), ": expected labelled pairs, got none"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(f"{path}{said}")):
        load_nli([str(path)], OFFLINE)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_gz_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "pairs.jsonl.gz"
    lines = [line(f"A {i}.", f"{i * i}", "neutral") for i in range(999)]
    whole = gzip.compress("".join(lines).encode())
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        InputError, match=rf"{re.escape(str(path))}.*: the compressed file is damaged"
    ):
        load_nli([str(path)], OFFLINE)


def test_the_line_after_which_a_gz_breaks_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl.gz"
    whole = gzip.compress((GOOD * 5_000).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"pairs\.jsonl\.gz: the compressed file is damaged"):
        load_nli([str(path)], OFFLINE)


@pytest.mark.parametrize("name", ["none.jsonl", "hub:none"])
def test_what_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        InputError, match=r"no such file: .*none\.jsonl or .*|hub:none: cannot be read"
    ):
        load_nli([name], DataAccess(tmp_path, offline=True))


def test_a_data_set_without_the_columns_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"premis": ["a"], "hypothesis": ["b"], "label": [0]}).to_parquet(
        tmp_path / "train.parquet"
    )
    with pytest.raises(InputError, match=r"no column 'premise'; did you mean 'premis'\?"):
        load_nli([f"hub:{tmp_path}"], OFFLINE)


@pytest.mark.real
def test_the_first_100_000_rows_of_snli(data_dir: Path) -> None:
    pairs = load_nli(["nli/snli_1.0_train_subset.jsonl.gz"], DataAccess(data_dir, offline=True))
    assert (len(pairs), pairs.n_skipped) == (99_890, 110)
    assert [int((pairs.labels == code).sum()) for code in range(3)] == [33_385, 33_194, 33_311]
    assert pairs.premises[0] == "A person on a horse jumps over a broken down airplane."
    assert pairs.hypotheses[2] == "A person is outdoors, on a horse."
    assert len(set(pairs.premises)) == 27_436
