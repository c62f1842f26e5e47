"""Where data is looked for, and what is said where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from polarity_bench.data.sources import DataAccess, file_status
from polarity_bench.errors import InputError
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings

HERE = DataAccess(offline=True)


def test_missing_data_names_the_files_the_places_and_the_remedy(
    task_dir: Path, tmp_path: Path
) -> None:
    (task_dir / "mini-source.csv").unlink()
    with pytest.raises(InputError) as error:
        read_task(task_dir / "mini.toml").load(HERE, Settings())
    for part in ("mini: mini-source.csv is not", str(task_dir), "`data_dir`", "mini-query.csv"):
        assert part in str(error.value)


def test_a_file_whose_name_is_too_long_is_missing(task_dir: Path) -> None:
    file = task_dir / "mini.toml"
    file.write_text(file.read_text().replace("mini-source.csv", f"{'x' * 300}.csv"))
    with pytest.raises(InputError, match=r"xxx\.csv is not in "):
        read_task(file).load(HERE, Settings())


def test_a_file_that_both_splits_share_is_named_once(task_dir: Path) -> None:
    file = task_dir / "mini.toml"
    file.write_text(file.read_text().replace("mini-source.csv", "mini-query.csv"))
    spec = read_task(file)
    assert [row["file"] for row in file_status(spec, HERE)] == ["mini-query.csv"]
    (task_dir / "mini-query.csv").unlink()
    with pytest.raises(InputError, match=r"put mini-query\.csv into a folder"):
        spec.load(HERE, Settings())


def test_data_of_the_users_own_is_named_as_such(task_dir: Path) -> None:
    file, data = task_dir / "mini.toml", task_dir / "mini-query.csv"
    declared = f'path = "mini-query.csv"\nsha256 = "{"0" * 64}"'
    file.write_text(file.read_text().replace('path = "mini-query.csv"', declared))
    with pytest.raises(
        InputError, match=r"Replace the file; if it is data of your own .* tasks new"
    ):
        read_task(file).load(HERE, Settings())
    data.unlink()
    rows = file_status(read_task(file), HERE)
    assert {row["file"]: row["place"] for row in rows}["mini-query.csv"] == "your own copy"


def test_a_data_folder_is_searched_after_the_task_files_own(task_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (task_dir / "mini-source.csv").rename(folder / "mini-source.csv")
    data = read_task(task_dir / "mini.toml").load(DataAccess(folder, offline=True), Settings())
    assert data.counts["sources"] == 24
    rows = file_status(read_task(task_dir / "mini.toml"), DataAccess(folder, offline=True))
    assert [(row["status"], row["place"]) for row in rows] == [
        ("here", str(folder / "mini-source.csv")),
        ("here", str(task_dir / "mini-query.csv")),
    ]


def test_a_data_folder_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="does not exist or is not a folder"):
        DataAccess(tmp_path / "none")
    monkeypatch.setenv("POLARITY_BENCH_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="does not exist or is not a folder"):
        DataAccess.from_environment()
    assert DataAccess.from_environment(tmp_path).folder == tmp_path
