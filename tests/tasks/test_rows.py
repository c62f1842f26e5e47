"""From task files to rows: every reader, every place, and every refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from standins import QUICK, Workshop

from polarity_bench.data.senteval import Row
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.tasks.types.probing import ProbingSpec
from polarity_bench.tasks.types.relatedness import RelatednessSpec
from polarity_bench.tasks.types.rows_task import RowsTask
from polarity_bench.tasks.types.sts import StsSpec
from polarity_bench.tasks.types.transfer import TransferSpec

Make = Callable[[Workshop], TaskSpec]

EVERY: dict[str, tuple[Make, dict[str, int], int]] = {
    "labelled-lines": (lambda w: w.labelled_lines(), {"all": 40}, 1),
    "sst-binary": (lambda w: w.sst_binary(), {"train": 80, "dev": 32, "test": 60}, 1),
    "sst-fine": (lambda w: w.sst_fine(), {"train": 60, "dev": 20, "test": 30}, 1),
    "trec": (lambda w: w.trec(), {"train": 48, "test": 24}, 1),
    "mrpc": (lambda w: w.mrpc(), {"train": 30, "test": 20}, 2),
    "sick-e": (
        lambda w: w.sick(relatedness=False),
        {"train": 45, "dev": 18, "test": 27},
        2,
    ),
    "sick-r": (
        lambda w: w.sick(relatedness=True),
        {"train": 45, "dev": 18, "test": 27},
        2,
    ),
    "probing": (lambda w: w.probing(), {"train": 60, "dev": 24, "test": 36}, 1),
    "stsb-relatedness": (
        lambda w: w.stsb(relatedness=True),
        {"train": 30, "dev": 12, "test": 20},
        2,
    ),
    "stsb": (lambda w: w.stsb(relatedness=False), {"test": 20}, 2),
    "sts": (lambda w: w.sts(), {"belief": 14, "surprise.OnWN": 25, "images": 9}, 2),
}


def load(spec: TaskSpec, folder: Path) -> RowsTask:
    task = spec.load(DataAccess(folder, offline=True), QUICK)
    assert isinstance(task, RowsTask)
    return task


@pytest.mark.parametrize("name", EVERY)
def test_every_reader_gives_the_rows_that_the_task_file_counts(name: str, tmp_path: Path) -> None:
    make, counts, n_texts = EVERY[name]
    workshop = Workshop(tmp_path)
    loaded = load(make(workshop), workshop.data)
    assert {part: len(rows) for part, rows in loaded.parts.items()} == counts
    assert {len(row.texts) for rows in loaded.parts.values() for row in rows} == {n_texts}


def test_every_reader_of_the_specification_is_covered() -> None:
    readers = set()
    for model in (TransferSpec, RelatednessSpec, StsSpec, ProbingSpec):
        readers |= set(model.model_fields["reader"].annotation.__args__)  # type: ignore[union-attr]
    shipped = {getattr(spec, "reader", "labelled-lines") for spec in load_tasks().values()}
    assert readers == shipped
    assert len(EVERY) == len(readers) + 1  # stsb is read for two kinds of task


def test_labels_and_order_are_those_of_the_files(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    rows = load(workshop.labelled_lines(n=5), workshop.data).parts["all"]
    assert [row.label for row in rows] == [1] * 5 + [0] * 5
    assert rows[0].n_tokens == [len(rows[0].texts[0].split())]
    subsets = load(workshop.sts(), workshop.data).parts
    assert list(subsets) == ["belief", "surprise.OnWN", "images"]


@pytest.mark.parametrize("layout", ["", "senteval", "SentEval/data", "data"])
def test_sentevals_folder_is_found_below_the_users(layout: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, layout=layout)
    spec = workshop.sst_binary()
    assert load(spec, workshop.data).parts["test"]
    with pytest.raises(InputError, match=r"little-sst2: downstream/SST/binary/sentiment-train is"):
        load(spec, workshop.tasks)


def test_the_digest_is_over_every_row_in_order(tmp_path: Path) -> None:
    one, two, three = (Workshop(tmp_path / name) for name in "abc")
    first = load(one.sts(), one.data)
    assert first.digest == load(two.sts(), two.data).digest
    swapped = three.sts(subsets={"surprise.OnWN": 25, "belief": 14, "images": 9})
    assert load(swapped, three.data).digest != first.digest


@pytest.mark.parametrize("name", EVERY)
def test_a_cut_file_is_refused_by_its_checksum(name: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    spec = EVERY[name][0](workshop)
    reference = spec.references()[-1]
    assert reference.path
    assert reference.sha256
    path = workshop.data / reference.path
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError) as caught:
        load(spec, workshop.data)
    message = str(caught.value)
    rows = getattr(reference, "rows")  # noqa: B009  only counted files have it
    wanted = f"{path}: {spec.name} expects the sha256 {reference.sha256[:12]}…, got "
    assert message.startswith(wanted)
    assert f"lines and {len(whole) // 2:,} bytes found, {rows:,} rows expected" in message
    assert "the file truncated or edited" in message


def test_the_truncated_mr_in_circulation_is_refused_by_the_shipped_task(tmp_path: Path) -> None:
    folder = tmp_path / "downstream" / "MR"
    folder.mkdir(parents=True)
    for name in ("rt-polarity.pos", "rt-polarity.neg"):
        (folder / name).write_text("a line of mine\n" * 4_000)
    wanted = r"rt-polarity\.pos: mr expects the sha256 34e5b0da2d49…, .*\(4,000 lines .*5,331 rows"
    with pytest.raises(InputError, match=wanted):
        load(load_tasks()["mr"], tmp_path)


@pytest.mark.parametrize(
    ("name", "found"), [("labelled-lines", 20), ("sts", 14), ("trec", 48), ("probing", 120)]
)
def test_a_wrong_number_of_rows_is_refused_though_the_checksum_is_right(
    name: str, found: int, tmp_path: Path
) -> None:
    workshop = Workshop(tmp_path)
    spec = EVERY[name][0](workshop)
    text = re.sub(r"(?m)^rows = .*$", "rows = 5331", spec.file.read_text())
    spec.file.write_text(text)
    again = load_tasks(workshop.tasks)[spec.name]
    with pytest.raises(InputError, match=rf": expected 5,331 rows, got {found}; is the file"):
        load(again, workshop.data)


def test_pairs_that_nobody_judged_are_no_rows(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    files = {
        "odd": ("odd/STS.input.odd.txt", "a b\tc d\ne f\tg h\ni j\tk l\n", 2),
        "odd-scores": ("odd/STS.gs.odd.txt", "1.5\n\n3\n", 2),
    }
    spec = workshop.add("odd", files, kind="sts", reader="sts", subsets=["odd"])
    rows = load(spec, workshop.data).parts["odd"]
    assert rows == [Row(("a b", "c d"), 1.5), Row(("i j", "k l"), 3.0)]
