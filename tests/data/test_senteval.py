"""SentEval's files: every reader, every refusal, and the real files where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import Workshop

from polarity_bench.data.senteval import (
    Row,
    read_labelled_lines,
    read_probing,
    read_split,
    read_sts,
)
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.sts import StsSpec

Reader = Callable[[Path], Sequence[Any]]

read_sst_binary = partial(read_split, reader="sst-binary")
read_sst_fine = partial(read_split, reader="sst-fine")
read_trec = partial(read_split, reader="trec")
read_mrpc = partial(read_split, reader="mrpc")
read_sick_entailment = partial(read_split, reader="sick-entailment")
read_sick_relatedness = partial(read_split, reader="sick-relatedness")
read_stsb = partial(read_split, reader="stsb")


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "file", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_one_file_per_class_with_lines_that_are_empty(file: Callable[..., Path]) -> None:
    positive = file("a  good\tone \n\n caf\xe9\n", "pos", "latin-1")
    negative = file("bad\n", "neg")
    assert read_labelled_lines(positive, negative) == [
        Row(("a good one",), 1),
        Row(("",), 1),
        Row(("caf\xe9",), 1),
        Row(("bad",), 0),
    ]
    assert [row.n_tokens for row in read_labelled_lines(positive, negative)] == [[3], [0], [1], [1]]


def test_one_file_per_class_ends_lines_where_the_toolkit_does(file: Callable[..., Path]) -> None:
    rows = read_labelled_lines(file("a\x85b\r\nc", "pos", "latin-1"), file("", "neg"))
    assert [row.texts for row in rows] == [("a",), ("b",), ("c",)]


def test_sst(file: Callable[..., Path]) -> None:
    assert read_sst_binary(file("fine , really \t1\nnot\t0\n")) == [
        Row(("fine , really",), 1),
        Row(("not",), 0),
    ]
    assert read_sst_fine(file("4 so good\n0 so  bad\n")) == [
        Row(("so good",), 4),
        Row(("so bad",), 0),
    ]


def test_trec_keeps_the_coarse_class(file: Callable[..., Path]) -> None:
    path = file("NUM:dist How far is S\xe3o ?\nABBR:exp What 's a : b ?\n", encoding="latin-1")
    assert read_trec(path) == [
        Row(("How far is S\xe3o ?",), 5),
        Row(("What 's a : b ?",), 0),
    ]


def test_pairs(file: Callable[..., Path]) -> None:
    mrpc = file("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta b\tc\n")
    assert read_mrpc(mrpc) == [Row(("a b", "c"), 1)]
    assert read_mrpc(mrpc)[0].n_tokens == [2, 1]

    sick = file("pair_ID\tA\tB\tscore\tjudgment\r\n1\ta b\tc d\t4.5\tENTAILMENT\r\n")
    assert read_sick_entailment(sick) == [Row(("a b", "c d"), 2)]
    assert read_sick_relatedness(sick) == [Row(("a b", "c d"), 4.5)]

    stsb = file('genre\tfile\tyear\t1\t3.200\t"A b.\tC d.\n' * 2)
    assert read_stsb(stsb) == [Row(('"A b.', "C d."), 3.2)] * 2
    more = file("genre\tfile\tyear\t1\t3.200\tA b.\tC d.\tlicence\n")
    assert read_stsb(more) == [Row(("A b.", "C d."), 3.2)]


def test_pairs_of_sts_without_a_score_are_left_out(file: Callable[..., Path]) -> None:
    texts = file("A b.\tC.\turl\turl\nnot\tjudged\nd\te\n", "STS2016.input.x.txt")
    gold = file("4.2\n\n0\n", "STS2016.gs.x.txt")
    assert read_sts(texts, gold) == [Row(("A b.", "C."), 4.2), Row(("d", "e"), 0.0)]


def test_probing_numbers_the_sorted_labels_of_the_training_lines(
    file: Callable[..., Path],
) -> None:
    """Lines end and columns are split where the toolkit ends and splits them."""
    text = (
        'tr\t5\t" Quoted\nte\t12\tmore\tcolumns\tin  between\t\n'
        "tr\t10\ta\u2028b \x85 c\xa0d\r\nva\t5\t caf\xe9\ntr\t12\tlast"
    )
    assert read_probing(file(text)) == {
        "train": [Row(('" Quoted',), 2), Row(("a b c d",), 0), Row(("last",), 1)],
        "dev": [Row(("caf\xe9",), 2)],
        "test": [Row(("in between",), 1)],
    }


def rows_of_the_toolkit(path: Path) -> dict[str, list[tuple[list[str], int]]]:
    """Read a file line by line, as SentEval describes it: tokens and class of each line."""
    parts: dict[str, list[tuple[list[str], str]]] = {"tr": [], "va": [], "te": []}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            columns = line.rstrip().split("\t")
            parts[columns[0]].append((columns[-1].split(), columns[1]))
    labels = sorted(np.unique([label for _, label in parts["tr"]]).tolist())
    return {
        name: [(tokens, labels.index(label)) for tokens, label in parts[part]]
        for part, name in {"tr": "train", "va": "dev", "te": "test"}.items()
    }


def test_probing_reads_what_a_loop_over_the_lines_does(workshop: Workshop) -> None:
    (path,) = (workshop.data / str(each.path) for each in workshop.probing().references())
    with path.open("a", encoding="utf-8") as more:
        more.write('te\t10\tAn " odd " one\u3000of \x1c them\n')
    for name, rows in read_probing(path).items():
        found = [(row.texts[0].split(), row.label) for row in rows]
        assert found == rows_of_the_toolkit(path)[name]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("va\tA\ta\nte\tB\tb\n", "/file:1: expected tr, va or te, a label that has tr lines"),
        ("tr\tA\ta\ntr\tB\tb\n", "got 2 tr lines, 0 va lines, 0 te lines and 2 labels; is the"),
        ("tr\tA\ta\nva\tA\tb\nte\tA\tc\n", "at least two labels, .* 1 te lines and 1 labels;"),
    ],
)
def test_a_probing_file_without_a_part_or_labels_is_refused(
    file: Callable[..., Path], text: str, wanted: str
) -> None:
    with pytest.raises(InputError, match=wanted):
        read_probing(file(text))


@pytest.mark.parametrize(
    ("read", "text", "line", "wanted"),
    [
        (read_sst_binary, "a\t1\nb\t2\n", 2, "a text, a tab and 0 or 1"),
        (read_sst_binary, "a\t1\nb 0\n", 2, "a text, a tab and 0 or 1"),
        (read_sst_binary, "a\t1\n\nb\t0\n", 2, "a text, a tab and 0 or 1"),
        (read_sst_fine, "5 a\n", 1, "0 to 4, a blank and a text"),
        (read_trec, "NUM:dist far ?\nWHO:ind me ?\n", 2, "ABBR, .*, NUM:fine"),
        (read_trec, "NUM dist far ?\n", 1, "ABBR, .*, NUM:fine"),
        (read_mrpc, "heading\n1\t7\t8\ta\n", 2, "0 or 1, two ids and two texts"),
        (read_mrpc, "heading\n1\t7\t8\ta\tb\n-1\t7\t8\ta\tb\n", 3, "0 or 1"),
        (read_sick_entailment, "heading\n1\ta\tb\t4\tMAYBE\n", 2, "an id, two texts, a score"),
        (read_sick_relatedness, "heading\n1\ta\tb\tx\tNEUTRAL\n", 2, "an id, two texts, a score"),
        (
            read_sick_relatedness,
            "heading\n1\ta\tb\t5.1\tNEUTRAL\n",
            2,
            r"an id, two texts, a score in \[0, 5\]",
        ),
        (read_stsb, "g\tf\ty\t1\tnan\ta\tb\n", 1, r"four columns, a score in \[0, 5\]"),
        (read_probing, "tr\tA\ta\ntr\tB\n", 2, "tr, va or te, a label that has tr lines, and a te"),
        (read_probing, "tr\tA\ta\ntrain\tA\tb\n", 2, "tr, va or te"),
        (read_probing, "tr\tA\ta\n\nva\tA\tb\n", 2, "tr, va or te"),
        (read_probing, "tr\tA\ta\ntr\tB\tb\nva\tC\tb\n", 3, "tr, va or te, a label that has tr"),
    ],
)
def test_errors_name_file_and_line(
    file: Callable[..., Path], read: Reader, text: str, line: int, wanted: str
) -> None:
    with pytest.raises(InputError, match=rf"/file:{line}: expected {wanted}.*, got '"):
        read(file(text))


def test_errors_of_sts_name_file_and_line(file: Callable[..., Path]) -> None:
    texts, gold = file("a\tb\nc\td\n", "texts"), file("1\nx\n", "gold")
    with pytest.raises(InputError, match=r"/gold:2: expected a score in \[0, 5\], got 'x'"):
        read_sts(texts, gold)
    with pytest.raises(InputError, match=r"/short: expected 2 lines, as in texts, got 1"):
        read_sts(texts, file("1\n", "short"))
    with pytest.raises(InputError, match=r"/one:1: expected two texts and a tab, got 'a b'"):
        read_sts(file("a b\n", "one"), file("1\n", "short"))


def test_files_that_cannot_be_read_are_named(file: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing: cannot be read: No such file"):
        read_trec(tmp_path / "missing")
    with pytest.raises(InputError, match=r"/file: cannot be read: .* 0xe9 in position 1"):
        read_sst_binary(file("a\xe9\t1\n", encoding="latin-1"))


def digest(rows: Sequence[Row]) -> str:
    forms = {1: "TextRow(text={!r}, label={!r})", 2: "PairRow(first={!r}, second={!r}, label={!r})"}
    written = [forms[len(row.texts)].format(*row.texts, row.label) for row in rows]
    return hashlib.sha256(f"[{', '.join(written)}]".encode()).hexdigest()[:16]


REAL: dict[str, tuple[Callable[..., Sequence[Any]], tuple[str, ...], int, str]] = {
    "MR": (
        read_labelled_lines,
        ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
        10662,
        "c8788b3ca5dee833",
    ),
    "CR": (read_labelled_lines, ("CR/custrev.pos", "CR/custrev.neg"), 3775, "3d9dfd5a81d54fdc"),
    "SUBJ": (
        read_labelled_lines,
        ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
        10000,
        "c087c9441ed62a1c",
    ),
    "MPQA": (read_labelled_lines, ("MPQA/mpqa.pos", "MPQA/mpqa.neg"), 10606, "67482d0e34caf8f1"),
    "SST2 train": (read_sst_binary, ("SST/binary/sentiment-train",), 67349, "2cd1d21bf00c4228"),
    "SST2 dev": (read_sst_binary, ("SST/binary/sentiment-dev",), 872, "4cedc12c02937033"),
    "SST2 test": (read_sst_binary, ("SST/binary/sentiment-test",), 1821, "eab5e2ea5c71558e"),
    "SST5 train": (read_sst_fine, ("SST/fine/sentiment-train",), 8544, "ccca2a63f45ddaf6"),
    "SST5 dev": (read_sst_fine, ("SST/fine/sentiment-dev",), 1101, "568cbc4b4600d657"),
    "SST5 test": (read_sst_fine, ("SST/fine/sentiment-test",), 2210, "150aab13da40eb44"),
    "TREC train": (read_trec, ("TREC/train_5500.label",), 5452, "df6f64a5157b3fe2"),
    "TREC test": (read_trec, ("TREC/TREC_10.label",), 500, "c87e37d402522b44"),
    "MRPC train": (read_mrpc, ("MRPC/msr_paraphrase_train.txt",), 4076, "75effd3c91aeb00a"),
    "MRPC test": (read_mrpc, ("MRPC/msr_paraphrase_test.txt",), 1725, "53307021e365adfb"),
    "SICK-E train": (read_sick_entailment, ("SICK/SICK_train.txt",), 4500, "5fbb413a3523a638"),
    "SICK-E dev": (read_sick_entailment, ("SICK/SICK_trial.txt",), 500, "ea345f27526ad20d"),
    "SICK-E test": (
        read_sick_entailment,
        ("SICK/SICK_test_annotated.txt",),
        4927,
        "88ec8342f8f70027",
    ),
    "SICK-R train": (read_sick_relatedness, ("SICK/SICK_train.txt",), 4500, "063dca7dfb7c90d4"),
    "SICK-R dev": (read_sick_relatedness, ("SICK/SICK_trial.txt",), 500, "51a426e86b76461a"),
    "SICK-R test": (
        read_sick_relatedness,
        ("SICK/SICK_test_annotated.txt",),
        4927,
        "6b04ed472c186b5e",
    ),
    "STS-B train": (read_stsb, ("STS/STSBenchmark/sts-train.csv",), 5749, "b05f8028175774f7"),
    "STS-B dev": (read_stsb, ("STS/STSBenchmark/sts-dev.csv",), 1500, "a9c360dc7260f0a7"),
    "STS-B test": (read_stsb, ("STS/STSBenchmark/sts-test.csv",), 1379, "f18c12427608fdaf"),
}


@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_the_real_files_are_what_they_were(data_dir: Path, name: str) -> None:
    read, paths, n_rows, wanted = REAL[name]
    rows = read(*(data_dir / "senteval" / "downstream" / path for path in paths))
    assert len(rows) == n_rows
    assert digest(rows) == wanted


@pytest.mark.real
def test_both_layouts_of_sts_hold_the_same_pairs(data_dir: Path) -> None:
    known, n_pairs = load_tasks(), {}
    for year in range(12, 17):
        spec = known[f"sts{year}"]
        assert isinstance(spec, StsSpec)
        tokenized = data_dir / "senteval" / "downstream" / "STS" / f"STS{year}-en-test"
        n_pairs[year] = 0
        for subset in spec.subsets:
            files = [spec.files[name].path for name in (subset, f"{subset}-scores")]
            names = [Path(file).name.replace("STS2016", "STS") for file in files]
            ours = read_sts(*(tokenized / name for name in names))
            theirs = read_sts(*(data_dir / file for file in files))
            assert [row.label for row in ours] == [row.label for row in theirs]
            n_pairs[year] += len(ours)
    assert n_pairs == {12: 3108, 13: 1500, 14: 3750, 15: 3000, 16: 1186}
