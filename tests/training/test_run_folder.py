"""A run's folder: whose it is, which checkpoints count, and when the encoder is whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from polarity_bench.training.spec import RunIdentity, TrainSpec

from polarity_bench.errors import InputError
from polarity_bench.training.folder import RunFolder, base_of, read_train_file, run_folder
from polarity_bench.types import EncoderId

BASE = EncoderId(name="base", weights="w0", prompt="query: ")
RUN = RunIdentity(TrainSpec(margin=0.1), BASE, None, task="t", data="d", evaluation="e")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "mine", base="/models/base")


def stored(folder: RunFolder) -> dict[str, Any]:
    content = read_train_file(folder.path)
    assert content is not None
    return content


def write_checkpoint(folder: RunFolder, step: int, *, whole: bool) -> Path:
    checkpoint = folder.checkpoint(step)
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_text("weights")
    if whole:
        folder.mark_whole(step)
    return checkpoint


class StandInModel:
    """Saves files that hold its name, as sentence-transformers does; `tokenizer` sorts last."""

    FILES = ("1_Pooling/config.json", "model.safetensors", "modules.json", "tokenizer.json")

    def __init__(self, name: str = "new") -> None:
        self.name = name

    def save_pretrained(
        self, path: str, *, create_model_card: bool, safe_serialization: bool
    ) -> None:
        assert safe_serialization
        assert not create_model_card
        (Path(path) / "1_Pooling").mkdir(parents=True)
        for file in self.FILES:
            (Path(path) / file).write_text(self.name)


PUBLISHED = ["1_Pooling", "README.md", "model.safetensors", "modules.json", "tokenizer.json"]


def publish(folder: RunFolder, name: str = "new") -> list[str]:
    model: Any = StandInModel(name)
    return folder.publish(model, {"README.md": name.encode()})


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# Claims


def test_a_new_folder_is_claimed_and_says_whose_it_is(folder: RunFolder) -> None:
    assert folder.claim(RUN) is False
    content = stored(folder)
    assert content["run"] == RUN.digest
    assert content["finished"] is False
    assert content["base"] == "/models/base"
    assert content["spec"] == json.loads(json.dumps(RUN.to_dict()))
    assert content["spec"]["spec"]["margin"] == 0.1


def test_an_empty_folder_may_be_claimed(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    assert folder.claim(RUN) is False


def test_the_same_run_claims_again_and_hears_whether_it_has_finished(folder: RunFolder) -> None:
    folder.claim(RUN)
    write_checkpoint(folder, 5, whole=True)
    assert folder.claim(RUN) is False
    assert folder.whole_steps() == [5]
    folder.record(RUN, finished=True, outcome={"best_step": 5})
    assert folder.claim(RUN) is True
    assert stored(folder)["best_step"] == 5


def test_a_base_of_another_name_is_the_same_run(folder: RunFolder) -> None:
    folder.claim(RUN)
    folder.record(RUN, finished=True)
    assert folder.claim(replace(RUN, base=replace(BASE, name="renamed"))) is True


def test_another_run_is_refused_with_what_differs(folder: RunFolder) -> None:
    folder.claim(replace(RUN, spec=TrainSpec(margin=0.5, seed=1)))
    before = folder.train_file.read_bytes()
    there = replace(RUN, spec=TrainSpec(margin=0.5, seed=1)).digest
    said = (
        f"--output {folder.path} holds another run ({there}); it differs in spec.margin: 0.1, there"
        " 0.5; spec.seed: 0, there 1. Name another folder, or say --overwrite"
    )
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        folder.claim(RUN)
    assert folder.train_file.read_bytes() == before


def test_at_most_six_differences_are_named(folder: RunFolder) -> None:
    other = TrainSpec(margin=0.5, seed=1, epochs=9, batch_size=9, rate=9, patience=9, held_out=9)
    folder.claim(replace(RUN, spec=other))
    with pytest.raises(InputError, match="it differs in ") as refused:
        folder.claim(RUN)
    assert str(refused.value).count(", there ") == 6


def test_a_run_of_another_version_differs_in_that(folder: RunFolder) -> None:
    folder.claim(RUN)
    content = stored(folder)
    content["run"], content["spec"]["version"] = "0" * 16, 0
    folder.train_file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"\(0{16}\); it differs in version: 1, there 0\. "):
        folder.claim(RUN)


def test_overwriting_removes_what_the_other_run_wrote_and_nothing_else(folder: RunFolder) -> None:
    other = replace(RUN, task="other")
    folder.claim(other)
    folder.record(other, finished=True, files=publish(folder))
    write_checkpoint(folder, 3, whole=True)
    for name in ("history.csv", "history.svg", "notes.txt"):
        (folder.path / name).write_text("x")
    (folder.path / "encoder-being-written").mkdir()
    assert folder.claim(RUN, overwrite=True) is False
    assert names(folder.path) == ["notes.txt", "train.json"]
    assert stored(folder)["run"] == RUN.digest


def test_overwriting_makes_a_finished_run_anew(folder: RunFolder) -> None:
    folder.claim(RUN)
    folder.record(RUN, finished=True, files=publish(folder))
    assert folder.claim(RUN, overwrite=True) is False
    assert names(folder.path) == ["train.json"]
    assert stored(folder)["finished"] is False


def test_overwriting_does_not_follow_links_out_of_the_folder(
    folder: RunFolder, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("kept")
    folder.claim(replace(RUN, task="other"))
    folder.checkpoints.symlink_to(mine)
    folder.claim(RUN, overwrite=True)
    assert (mine / "file").read_text() == "kept"
    assert not folder.checkpoints.is_symlink()


@pytest.mark.parametrize("name", ["../mine", "/mine", "a/b", "..", ".", ""])
def test_overwriting_removes_nothing_outside_the_folder(folder: RunFolder, name: str) -> None:
    """A train.json that came from elsewhere may name anything."""
    folder.claim(replace(RUN, task="other"))
    content = stored(folder)
    content["files"] = [name]
    folder.train_file.write_text(json.dumps(content))
    (folder.path.parent / "kept").write_text("kept")
    with pytest.raises(InputError, match=f"'{name}' is no name of a file; delete it"):
        folder.claim(RUN, overwrite=True)
    assert (folder.path.parent / "kept").exists()
    assert folder.train_file.exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_no_run_is_never_taken(folder: RunFolder, overwrite: bool) -> None:
    folder.path.mkdir(parents=True)
    for name in ("d.txt", "b.txt", "a.txt", "c.txt"):
        (folder.path / name).write_text("mine")
    said = r"the folder is not empty \(a\.txt, b\.txt, c\.txt\) and holds no run; name a new folder"
    with pytest.raises(InputError, match=f"--output {folder.path}: {said}"):
        folder.claim(RUN, overwrite=overwrite)
    assert len(list(folder.path.iterdir())) == 4


def test_a_file_in_the_folders_place_is_refused(folder: RunFolder) -> None:
    folder.path.parent.mkdir()
    folder.path.write_text("mine")
    with pytest.raises(InputError, match=r"--output .*mine: the folder cannot be written to: "):
        folder.claim(RUN)


# train.json


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not readable as JSON: "),
        ("", "not readable as JSON: "),
        ("[]", "not written by polarity-bench in format 1; move it away"),
        ('{"format": 1, "run": "x"}', "not written by polarity-bench in format 1"),
        (
            '{"format": 2, "run": "", "finished": true, "base": "", "files": [], "spec": {}}',
            "not written by polarity-bench in format 1",
        ),
    ],
)
def test_a_foreign_or_broken_train_file_is_refused(
    folder: RunFolder, content: str, said: str, overwrite: bool
) -> None:
    folder.path.mkdir(parents=True)
    folder.train_file.write_text(content)
    with pytest.raises(InputError, match=rf"train\.json: {said}"):
        folder.claim(RUN, overwrite=overwrite)
    assert folder.train_file.read_text() == content


def test_bytes_that_are_no_text_are_refused(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.train_file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not readable as JSON"):
        read_train_file(folder.path)


def test_without_a_train_file_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read_train_file(tmp_path) is None


# The base of a run


def test_a_finished_run_knows_its_base(folder: RunFolder) -> None:
    folder.record(RUN, finished=True)
    assert base_of(str(folder.path)) == ("/models/base", BASE)


def test_an_unfinished_run_is_no_encoder_yet(folder: RunFolder) -> None:
    folder.claim(RUN)
    said = "its training has not finished; run the same `polarity-bench train` again"
    with pytest.raises(InputError, match=f"--model {folder.path}: {said}"):
        base_of(str(folder.path))


def test_what_is_no_run_has_no_base(tmp_path: Path) -> None:
    assert base_of(str(tmp_path)) is None
    assert base_of("minilm") is None
    assert base_of(str(tmp_path / "nowhere")) is None


# Where a run may lie


def test_a_model_is_not_trained_into_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "runs/x/deep").mkdir(parents=True)
    for model in ("runs/x", "runs/x/deep"):
        with pytest.raises(InputError, match=r"the model .* lies there; name another folder"):
            run_folder(str(tmp_path / model), tmp_path / "runs/x")
    beside = run_folder(str(tmp_path / "runs/x"), tmp_path / "runs/y")
    assert beside.base == str(tmp_path / "runs/x")
    assert run_folder("minilm", tmp_path / "z").base == "minilm"


# Checkpoints


def test_only_whole_checkpoints_count_in_the_order_of_their_steps(folder: RunFolder) -> None:
    for step, whole in ((10, True), (9, True), (100, True), (20, False), (101, False)):
        write_checkpoint(folder, step, whole=whole)
    assert folder.whole_steps() == [9, 10, 100]
    folder.keep_only([9, 100, 101])
    assert folder.whole_steps() == [9, 100]
    assert sorted(p.name for p in folder.checkpoints.iterdir()) == [
        *("checkpoint-100", "checkpoint-9"),
    ]


def test_a_checkpoint_loses_its_mark_before_anything_else(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (9, 10):
        write_checkpoint(folder, step, whole=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        folder.keep_only([10])
    assert folder.whole_steps() == [10]


def test_a_new_folder_has_no_checkpoints(folder: RunFolder) -> None:
    assert folder.whole_steps() == []
    folder.keep_only([])


def test_a_finished_run_keeps_no_checkpoints(folder: RunFolder) -> None:
    folder.claim(RUN)
    write_checkpoint(folder, 3, whole=True)
    folder.record(RUN, finished=False)
    assert folder.whole_steps() == [3]
    folder.record(RUN, finished=True)
    assert not folder.checkpoints.exists()


# Publishing


def test_a_published_encoder_lies_in_the_folder(folder: RunFolder) -> None:
    folder.claim(RUN)
    (folder.path / "encoder-being-written").mkdir()  # of a run that was killed
    (folder.path / "encoder-being-written" / "stale").write_text("x")
    assert sorted(publish(folder)) == PUBLISHED
    assert names(folder.path) == [*PUBLISHED, "train.json"]
    for file in (*StandInModel.FILES, "README.md"):
        assert (folder.path / file).read_text() == "new"


@pytest.mark.parametrize("n_moved", range(5))
def test_a_crash_while_publishing_leaves_no_entry_file_and_can_be_done_again(
    folder: RunFolder, n_moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five entries so many are moved; `tokenizer.json` sorts after `modules.json`."""
    folder.claim(RUN)
    write_checkpoint(folder, 3, whole=True)
    moved: list[str] = []
    move = Path.replace

    def moves_few(source: Path, target: Path) -> Path:
        if Path(target).parent == folder.path:
            if len(moved) == n_moved:
                raise KeyboardInterrupt
            moved.append(source.name)
        return move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", moves_few)
        with pytest.raises(KeyboardInterrupt):
            publish(folder)
    assert len(moved) == n_moved
    assert not (folder.path / "modules.json").exists()
    assert folder.whole_steps() == [3]
    publish(folder, "again")
    for file in StandInModel.FILES:
        assert (folder.path / file).read_text() == "again"
    assert names(folder.path) == sorted([*PUBLISHED, "checkpoints", "train.json"])
