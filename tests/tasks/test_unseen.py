"""Sources that nothing is trained on: the twins of two tasks, cuts by a seed, two file formats."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins import SOURCES, BagEncoder, HashEncoder, csv_text, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import Cut
from polarity_bench.data.split import Split, cut_positions
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import load_suites, load_task, load_tasks, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import rank
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask


def loaded(file: Path) -> PolarityTask:
    task = read_task(file).load(DataAccess(offline=True), Settings())
    assert isinstance(task, PolarityTask)
    return task


# What is shipped


@pytest.mark.parametrize("name", load_suites()["unseen"])
def test_a_twin_asks_by_the_protocol_of_its_task_and_is_in_no_other_suite(name: str) -> None:
    twin = load_tasks()[name]
    assert isinstance(twin, PolaritySpec)
    task = load_tasks()[str(twin.unseen_of)]
    assert isinstance(task, PolaritySpec)
    assert task.unseen_of is None
    assert (twin.protocol, twin.labels) == (task.protocol, task.labels)
    assert [suite for suite, names in load_suites().items() if name in names] == ["unseen"]


def test_the_queries_of_sst2_are_asked_anew() -> None:
    twin, task = (load_tasks()[name] for name in ("sst2-unseen", "sst2"))
    assert isinstance(twin, PolaritySpec)
    assert isinstance(task, PolaritySpec)
    assert twin.splits["query"] == task.splits["query"]


def test_the_test_file_of_sarcasm_is_cut_in_two_and_is_all_that_is_read() -> None:
    twin, task = (load_tasks()[f"sarcastic-headlines{end}"] for end in ("-unseen", ""))
    assert isinstance(twin, PolaritySpec)
    assert isinstance(task, PolaritySpec)
    source, query = twin.splits["source"], twin.splits["query"]
    assert {source.sha256, query.sha256} == {task.splits["query"].sha256}
    assert source.cut == Cut(seed=42, share=0.5)
    assert query.cut == Cut(seed=42, share=0.5, rest=True)


DIGESTS = {
    "contrast": "088876f4bdab9a05",
    "sst2": "086657c51ec75078",
    "sarcastic-headlines": "75226c5b504f1ef5",
    "emotion": "1e3f92cb119630ad",
    "tweeteval-irony": "911fda48fe6ccc50",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_keys_that_came_later_leave_the_digests_of_before(name: str) -> None:
    assert load_tasks()[name].digest == DIGESTS[name]


REAL = {
    "sst2-unseen": (
        {"positive": 909, "negative": 912},
        {"positive": 444, "negative": 428},
        ("a27d5b40", "negative", "40c645ee", "positive"),
        ("3448b362", "positive", "cdf098fe", "positive"),
        "a2dc869f516a5bbd",
    ),
    "sarcastic-headlines-unseen": (
        {"sincere": 734, "sarcastic": 650},
        {"sincere": 712, "sarcastic": 671},
        ("c40a5f23", "sarcastic", "edf544b1", "sarcastic"),
        ("9f1198f8", "sarcastic", "aaeacc48", "sarcastic"),
        "dcb6a743e447c75c",
    ),
}
"""Labels of sources and queries; first and last row of both, by SHA-256 and label; the digest."""


@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_the_rows_of_the_twins(data_dir: Path, name: str) -> None:
    task = load_task(name, access=DataAccess(data_dir, offline=True))
    assert isinstance(task, PolarityTask)
    *labels, first_source, first_query, digest = REAL[name]
    found = [
        tuple(said for row in (0, -1) for said in (_sha(split.texts[row]), split.labels[row]))
        for split in (task.source, task.query)
    ]
    assert [Counter(split.labels) for split in (task.source, task.query)] == labels
    assert found == [first_source, first_query]
    assert task.digest == digest
    assert (task.n_overlap, task.n_pool) == (0, len(task.source)), "all sources take part"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@pytest.mark.real
def test_the_halves_of_the_sarcastic_headlines_are_its_queries(data_dir: Path) -> None:
    access = DataAccess(data_dir, offline=True)
    whole, twin = (load_task(f"sarcastic-headlines{end}", access=access) for end in ("", "-unseen"))
    assert isinstance(whole, PolarityTask)
    assert isinstance(twin, PolarityTask)
    rows = [*zip(twin.source.texts, twin.source.labels, strict=True)]
    rows += zip(twin.query.texts, twin.query.labels, strict=True)
    assert Counter(rows) == Counter(zip(whole.query.texts, whole.query.labels, strict=True))
    assert not {*twin.source.texts} & {*whole.source.texts}


# Cuts

TEXTS = st.lists(st.sampled_from(["warm", "WARM", "cold", "mild", "wet", "dry"]), max_size=12)


@given(TEXTS, st.integers(0, 99), st.floats(0.01, 0.99))
def test_the_sides_of_a_cut_share_no_text_and_lack_none(
    texts: list[str], seed: int, share: float
) -> None:
    one = cut_positions(texts, Cut(seed=seed, share=share))
    other = cut_positions(texts, Cut(seed=seed, share=share, rest=True))
    assert sorted([*one, *other]) == list(range(len(texts)))
    assert (one, other) == (sorted(one), sorted(other))
    keys, others = ({texts[i].casefold() for i in side} for side in (one, other))
    assert not keys & others
    assert len(keys) == round(share * len(keys | others))


def test_a_cut_is_decided_by_its_seed_and_by_nothing_beside_it() -> None:
    texts = [f"text {i}" for i in range(40)]
    assert cut_positions(texts, Cut(seed=1, share=0.5)) != cut_positions(
        texts, Cut(seed=2, share=0.5)
    )
    assert len(cut_positions(texts, Cut(seed=1, share=0.25))) == 10
    again = [*texts, *(text.upper() for text in texts)]
    assert cut_positions(again, Cut(seed=1, share=0.5))[:20] == cut_positions(
        texts, Cut(seed=1, share=0.5)
    )


def cut_task(folder: Path, *cuts: str) -> Path:
    (folder / "rows.csv").write_text(csv_text(SOURCES))
    splits = "".join(
        f'[splits.{split}]\npath = "rows.csv"\ncut = {cut}\n'
        for split, cut in zip(("source", "query"), cuts, strict=True)
    )
    file = folder / "halves.toml"
    file.write_text(
        'name = "halves"\nkind = "polarity"\ntitle = "Halves"\n[labels]\n0 = "bad"\n1 = "good"\n'
        f"{splits}[protocol]\nk = 4\noverlap = 0\n"
    )
    return file


def test_one_file_makes_both_splits(tmp_path: Path) -> None:
    file = cut_task(
        tmp_path, "{ seed = 3, share = 0.75 }", "{ seed = 3, share = 0.75, rest = true }"
    )
    task = loaded(file)
    assert (len(task.source), len(task.query)) == (18, 6)
    assert {*task.source.texts} | {*task.query.texts} == {text for text, _ in SOURCES}
    labels = dict(SOURCES)
    for split in (task.source, task.query):
        names = [{"0": "bad", "1": "good"}[labels[text]] for text in split.texts]
        assert split.labels == tuple(names)


def test_two_cuts_that_overlap_are_noticed(tmp_path: Path) -> None:
    both = "{ seed = 3, share = 0.5 }"
    with pytest.raises(InputError, match="that also occur in the source split, got 12"):
        loaded(cut_task(tmp_path, both, both))


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ("{ share = 0.5 }", r"'splits.source.cut.seed' is missing"),
        ("{ seed = 1 }", r"'splits.source.cut.share' is missing"),
        ("{ seed = 1, share = 1.0 }", r"'splits.source.cut.share' must be below 1, got 1.0"),
        ("{ seed = 1, share = 0.0 }", r"'splits.source.cut.share' must be above 0, got 0.0"),
        ("{ seed = 1, share = true }", r"'splits.source.cut.share' must be a number, got True"),
        (
            "{ seed = 1.5, share = 0.5 }",
            r"'splits.source.cut.seed' must be an integer",
        ),
        ("{ seed = -1, share = 0.5 }", r"'splits.source.cut.seed' must be at least 0, got -1"),
        ("{ seed = 1, part = 0.5 }", r"unknown key 'splits.source.cut.part'"),
        ("{ seed = 1, share = 0.01 }", r"rows.csv: the split 'source' has no rows"),
    ],
)
def test_a_wrong_cut_is_refused(tmp_path: Path, cut: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        loaded(cut_task(tmp_path, cut, "{ seed = 1, share = 0.5 }"))


# Files of another form


def test_a_split_may_be_written_otherwise_than_the_other(tmp_path: Path) -> None:
    file = write_task(
        tmp_path,
        split='format = { type = "tsv", header = ["n", "label", "text"], quoted = false }',
    )
    lines = [f'{i}\t{label}\t"{text}' for i, (text, label) in enumerate(SOURCES)]
    (tmp_path / "mini-source.csv").write_text("\n".join(lines) + "\n")
    task = loaded(file)
    assert task.source.texts == tuple(f'"{text}' for text, _ in SOURCES), "the first line too"
    assert task.query.labels == ("good",) * 4 + ("bad",) * 4


def test_columns_of_the_protocol_must_be_kept_of_both_splits(tmp_path: Path) -> None:
    file = write_task(
        tmp_path,
        split='format = { type = "tsv" }',
        head='[format]\ncolumns = ["topic"]',
        protocol='groups = ["topic"]',
    )
    with pytest.raises(
        InputError, match=r"\[protocol\] uses the column 'topic'; add it to .columns. in"
    ):
        read_task(file)


def test_a_header_is_only_for_files_that_may_lack_one(tmp_path: Path) -> None:
    form = 'format = { type = "jsonl", header = ["text", "label"] }'
    with pytest.raises(InputError, match=r"'header' applies only to csv and tsv files"):
        loaded(write_task(tmp_path, split=form))


# Retrieval


def test_no_query_finds_itself_where_sources_and_queries_are_of_one_file(tmp_path: Path) -> None:
    """Also where somebody means both to be the same rows."""
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.load import load_encoder

    file = write_task(tmp_path, queries=SOURCES, protocol=f"overlap = {len(SOURCES)}")
    task = loaded(file)
    found = rank(task, Embedder().embed(load_encoder("random"), task.texts)).retrieval.index
    for row, position in product(range(len(task.query)), range(4)):
        assert task.source.texts[found[row, position]] != task.query.texts[row]


# Scores over unseen queries


def only(split: Split, rows: np.ndarray) -> Split:
    def kept(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(compress(values, rows))

    columns = {name: kept(values) for name, values in split.columns.items()}
    return Split(kept(split.texts), kept(split.labels), columns)


@pytest.mark.parametrize("name", ["contrast", "mini"])
@pytest.mark.parametrize("own", [False, True])
def test_the_score_over_unseen_queries_is_that_of_a_task_with_these_queries_alone(
    name: str, own: bool, tmp_path: Path
) -> None:
    """Intervals differ only because the stored values have single precision."""
    write_task(tmp_path)
    task = load_task(name, task_dir=tmp_path)
    assert isinstance(task, PolarityTask)
    rows = np.arange(len(task.query)) % 3 != 0
    few = replace(task, query=only(task.query, rows))
    encoder, other = BagEncoder(), HashEncoder()
    scores = {}
    for asked in (task, few):
        embedded = Embedder(None).embed(encoder, asked.texts)
        reference = None if own else Embedder(None).embed(other, asked.texts)
        scores[asked is task] = asked.score(embedded, reference)
    found = task.score_unseen(scores[True].arrays, {"queries": ~rows})
    expected = scores[False].scores[task.main_score]
    assert found is not None
    assert found.mean == pytest.approx(expected.mean, abs=1e-6, nan_ok=True)
    assert found.ci95 == pytest.approx(expected.ci95, abs=1e-6, nan_ok=True)
    assert found.n == rows.sum()
    arrays = scores[True].arrays
    assert task.score_unseen(arrays, {"queries": np.zeros_like(rows)}) is None
    none = task.score_unseen(arrays, {"queries": np.ones_like(rows)})
    assert none is not None
    assert (none.n, math.isnan(none.mean)) == (0, True)
