"""A sweep with packed results: the same items are left, and its files come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from standins import Bench
from standins.board import placed, read_board
from standins.sweeps import read_small, small_grid

from polarity_bench.boards.add_results import add, find_results
from polarity_bench.boards.board_folder import kind_of
from polarity_bench.boards.sweep_tables import read_sweep, sweep_board
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import experiment_name, result_key
from polarity_bench.integrations.mteb_results import export_mteb
from polarity_bench.render.markdown import render
from polarity_bench.results.packed_results import PACKED, pack
from polarity_bench.results.result_files import read_results, write_result
from polarity_bench.sweeps.items import Training
from polarity_bench.sweeps.plan import write_plan
from polarity_bench.sweeps.remaining_items import Sweep, find_sweep
from polarity_bench.sweeps.state_files import ItemOutcome, SweepState, files_of
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Settings, Task

NAME = Path("here")


@dataclass
class Made:
    """A sweep of four trainings, whose results are made up."""

    file: Path
    folder: Path
    task_dir: Path
    task: Task

    def find(self) -> Sweep:
        grid, setup = read_small(self.file, self.folder, self.task_dir)
        return find_sweep(grid, setup, self.file)

    def left(self) -> Mapping[str, Any]:
        """What `sweep --dry-run` tells, but for the time."""
        sweep = self.find()
        return {
            "left": [item.digest for item in sweep.left],
            "made": {
                digest: (outcome.state, outcome.scores, outcome.files)
                for digest, outcome in sweep.external_results.outcomes.items()
            },
            "others": sweep.external_results.rejected,
            "unnamed": sweep.unused_folders,
            "gone": [self.state.is_gone(each) for each in sweep.outcomes.values()],
        }

    @property
    def state(self) -> SweepState:
        return SweepState(self.folder)

    def write(self, training: Training, base: EncoderId, p: float, **other: Any) -> Path:
        encoder = replace(base, name=training.job.output.name, weights=training.digest)
        key = replace(result_key(self.task, encoder, base), **other)
        made = replace(
            placed(encoder, "mini", p, 0.4, reference=base),
            key=key,
            result_name=self.task.spec.result_name,
            experiment=experiment_name(self.task, base),
        )
        return write_result(made, self.folder / "results")


@pytest.fixture
def made(tmp_path: Path, task_dir: Path, tiny_model: Path) -> Made:
    """A done training, one made elsewhere, one of other data, one without results; and a stray."""
    file = small_grid(tmp_path, tiny_model)
    (spec,) = choose_tasks(load_tasks(task_dir), names=["mini"])
    folder = tmp_path / NAME
    _, setup = read_small(file, folder, task_dir)
    made = Made(file, folder, task_dir, spec.load(setup.access(), Settings()))
    made.state.make_folders()
    (folder / "board.toml").write_text('title = "Small"\n')
    sweep = made.find()
    write_plan(sweep.plan, folder)
    done, elsewhere, otherwise, _ = sweep.grid.trainings
    assert done.base is not None
    base = sweep.encoders[done.base.digest]
    own = replace(placed(base, "mini", 0.6, 0.5), key=result_key(made.task, base, None))
    whole = replace(own, result_name=spec.result_name)
    for item, path in (
        (done.base, write_result(whole, folder / "results")),
        (done, made.write(done, base, 0.7)),
    ):
        state = ItemOutcome("done", item.name, files=files_of([path], folder))
        made.state.record(item.digest, state)
    made.write(elsewhere, base, 0.8)
    made.write(otherwise, base, 0.9, data="0" * 16)
    write_result(placed(EncoderId("stray", "1"), "mini", 0.5, 0.5), folder / "results")
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def test_the_same_items_are_left_before_and_after_packing(made: Made) -> None:
    before = made.left()
    assert len(before["left"]) == 2
    assert len(before["made"]) == 1
    assert list(before["others"].values()) == ["for other data"]
    assert before["unnamed"] == ["stray"]
    assert before["gone"] == [False, False]
    pack(made.folder / "results")
    assert contents(made.folder / "results").keys() == {PACKED}
    assert made.left() == before


def test_a_packed_sweep_goes_on_in_files(made: Made) -> None:
    pack(made.folder / "results")
    sweep = made.find()
    *_, missing = sweep.grid.trainings
    base = sweep.encoders[missing.base.digest]  # type: ignore[union-attr]
    made.write(missing, base, 0.9)
    assert missing.digest in made.left()["made"]
    before = made.left()
    pack(made.folder / "results")
    assert made.left() == before


def without_stray(made: Made) -> None:
    """Delete what `leaderboard add` refuses: the stray and the result of other data."""
    for result in read_results(made.folder / "results"):
        path = result.path
        if result.key.encoder.name == "stray" or result.key.data == "0" * 16:
            path.with_suffix(".provenance.json").unlink()
            path.with_name("model_meta.json").unlink()
            path.unlink()


def text_of(folder: Path) -> str:
    return render(sweep_board(read_sweep(folder)))


def test_add_packs_a_sweep(made: Made) -> None:
    without_stray(made)
    results = made.folder / "results"
    before, text = contents(results), text_of(made.folder)
    assert len(before) == 9
    exported = made.folder.with_name("mteb-before")
    export_mteb(made.folder, exported)
    assert len(add(find_results([made.folder]), made.folder)) == 3
    assert contents(results).keys() == {PACKED}
    assert text_of(made.folder) == text
    assert len(read_board(results).details) == 3, "it is a board of results too"
    export_mteb(made.folder, made.folder.with_name("mteb-after"))
    assert contents(made.folder.with_name("mteb-after")) == contents(exported)


def test_two_results_of_one_cell_are_not_added(made: Made) -> None:
    without_stray(made)
    found = find_results([made.folder])
    halved = {key: replace(s, mean=s.mean / 2) for key, s in found[0].scores.items()}
    other = write_result(replace(found[0], scores=halved), made.folder.with_name("elsewhere"))
    before = contents(made.folder)
    with pytest.raises(InputError, match="same encoder and the same table cell, but their"):
        add([*found, *find_results([other])], made.folder)
    assert contents(made.folder) == before


def test_packed_results_are_restored_on_a_board_that_has_files(made: Made) -> None:
    without_stray(made)
    before = contents(made.folder / "results")
    pack(made.folder / "results")
    theirs = made.folder.with_name("theirs")
    theirs.mkdir()
    (theirs / "board.toml").write_text("")
    found = find_results([made.folder])
    add(found[:1], theirs)
    add(find_results([result.path for result in found[1:]]), theirs)
    assert contents(theirs / "results") == before


def test_add_brings_new_results_into_a_packed_sweep(bench: Bench, made: Made) -> None:
    pytest.importorskip("altair")
    without_stray(made)
    pack(made.folder / "results")
    packed = (made.folder / "results" / PACKED).read_bytes()
    sweep = made.find()
    *_, missing = sweep.grid.trainings
    base = sweep.encoders[missing.base.digest]  # type: ignore[union-attr]
    elsewhere = replace(made, folder=Path("elsewhere"))
    elsewhere.write(missing, base, 0.9, data="0" * 16)
    refused = bench("leaderboard", "add", "elsewhere", "--board", NAME)
    assert refused.code == 2
    assert "were computed with different" in refused.err
    assert contents(made.folder / "results") == {PACKED: packed}
    elsewhere.write(missing, base, 0.9)
    done = bench("leaderboard", "add", "elsewhere", "--board", NAME)
    assert (done.code, done.out) == (0, "1 result in here, board built\n"), done.err
    assert contents(made.folder / "results").keys() == {PACKED}
    lines = (made.folder / "results" / PACKED).read_bytes().splitlines()
    assert len(lines) == len(packed.splitlines()) + 1
    assert set(packed.splitlines()) < set(lines)


def test_add_refuses_results_of_no_item_of_the_sweep(made: Made, tmp_path: Path) -> None:
    before = contents(made.folder)
    path = write_result(placed(EncoderId("other", "1"), "mini", 0.5, 0.5), tmp_path / "elsewhere")
    with pytest.raises(
        InputError, match=r"sweep\.json does not contain the encoder 'other'; add only results"
    ):
        add(find_results([path]), made.folder)
    assert contents(made.folder) == before


def test_a_board_with_packed_results_goes_on_packing(tmp_path: Path) -> None:
    board = tmp_path / "mine"
    (board / "results").mkdir(parents=True)
    (board / "board.toml").write_text("")
    (board / "results" / PACKED).touch()
    for name in ("ash", "maple"):
        result = placed(EncoderId(name, "1"), "sst2", 0.7, 0.4)
        add(find_results([write_result(result, tmp_path / "elsewhere")]), board)
    assert contents(board / "results").keys() == {PACKED}
    assert [result.key.encoder.name for result in read_results(board)] == ["ash", "maple"]
    assert kind_of(board) == "results"
