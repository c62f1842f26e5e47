"""A run's folder: whose it is, which checkpoints count, and when the encoder is whole."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.train_file import TrainFile, read_train_file
from polarity_bench.errors import InputError
from polarity_bench.training.recipes.margins.losses import Ranking, Triplet
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.run_folder import (
    RunFolder,
    RunIdentity,
    differences,
    run_folder,
)

BASE = EncoderId(name="base", weights="w0", revision="r0", prompt="query: ")
GUIDE = EncoderId(name="guide", weights="w1")
OTHER = Margins(loss=Triplet(margin=0.5), seed=1)
RUN = RunIdentity(Margins(), BASE, {"example_encoder": GUIDE}, task="t", inputs="d", judged="e")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "mine", base="/models/base")


def stored(folder: RunFolder) -> dict[str, Any]:
    content = read_train_file(folder.path)
    assert content is not None
    del content["sha256"]  # so that tests may edit the content
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
        self.prompts: dict[str, str] = {}
        self.default_prompt_name: str | None = "own"

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
    return folder.publish(model, {"README.md": name.encode()}, prompt=None)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# Claims


def test_a_new_folder_is_claimed_and_says_whose_it_is(folder: RunFolder) -> None:
    assert folder.state(RUN) == "new"
    folder.path.mkdir(parents=True)
    assert folder.state(RUN) == "new"
    folder.claim(RUN)
    assert folder.state(RUN) == "unfinished"
    content = stored(folder)
    assert content["run"] == RUN.digest
    assert content["finished"] is False
    assert content["base"] == "/models/base"
    assert content["spec"] == json.loads(json.dumps(RUN.to_dict()))
    assert content["spec"]["recipe"]["loss"]["margin"] == 0.1


def test_the_same_run_claims_again_and_hears_whether_it_has_finished(folder: RunFolder) -> None:
    folder.claim(RUN)
    write_checkpoint(folder, 5, whole=True)
    folder.claim(RUN)
    assert folder.whole_steps() == [5]
    folder.record(RUN, finished=True, outcome={"kept": 5})
    assert folder.state(RUN) == "finished"
    assert stored(folder)["kept"] == 5


def test_an_unfinished_run_is_gone_on_with_even_when_told_to_overwrite(folder: RunFolder) -> None:
    folder.claim(RUN)
    write_checkpoint(folder, 5, whole=True)
    assert folder.state(RUN, overwrite=True) == "unfinished"
    folder.claim(RUN, overwrite=True)
    assert folder.whole_steps() == [5]


def test_a_base_of_another_name_is_the_same_run(folder: RunFolder) -> None:
    folder.record(RUN, finished=True)
    assert folder.state(replace(RUN, base=replace(BASE, name="renamed"))) == "finished"


def test_a_locked_folder_is_refused_and_free_afterwards(folder: RunFolder) -> None:
    with folder.locked():
        assert folder.state(RUN) == "new"
        with (
            pytest.raises(InputError, match=r"`output` .*mine: process \d+ on .* is training"),
            RunFolder(folder.path, "x").locked(),
        ):
            pass
    with folder.locked():
        pass
    assert not folder.path.parent.exists(), "what it made and nobody wrote to is gone"


def test_what_a_killed_process_left_half_written_is_no_other_run(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    (folder.path / ".train.json.i2ea872l").write_text("{")
    assert folder.state(RUN) == "new"
    (folder.path / ".profile").write_text("")
    with pytest.raises(InputError, match=r"not empty \(\.profile\)"):
        folder.state(RUN)


def test_another_run_is_refused_with_what_differs(folder: RunFolder) -> None:
    folder.claim(replace(RUN, recipe=OTHER))
    before = folder.train_file.read_bytes()
    there = replace(RUN, recipe=OTHER).digest
    said = (
        f"`output` {folder.path}: the folder contains another run ({there}), which differs in "
        "recipe.loss.margin: expected 0.1, got 0.5; recipe.seed: expected 0, got 1. "
        "Use another folder, or set `overwrite`"
    )
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        folder.claim(RUN)
    assert folder.train_file.read_bytes() == before


def test_a_train_file_that_was_changed_is_refused(folder: RunFolder) -> None:
    folder.claim(RUN)
    whole = folder.train_file.read_text()
    for changed in (whole.replace('"finished": false', '"finished": true'), whole[:-40] + "0}"):
        folder.train_file.write_text(changed)
        with pytest.raises(InputError, match=r"train\.json: (was edited or is damaged|.* JSON)"):
            folder.state(RUN)


def test_at_most_six_differences_are_named(folder: RunFolder) -> None:
    other = Margins(seed=1, epochs=9, batch_size=9, rate=9, patience=9, held_out=9, neighbours=9)
    folder.claim(replace(RUN, recipe=other))
    with pytest.raises(InputError, match="which differs in ") as refused:
        folder.claim(RUN)
    assert str(refused.value).count(": expected ") == 6


def test_a_run_of_another_version_differs_in_that(folder: RunFolder) -> None:
    folder.claim(RUN)
    content = stored(folder)
    content["run"], content["spec"]["version"] = "0" * 16, 0
    folder.train_file.write_text(json.dumps(content))
    with pytest.raises(
        InputError, match=r"\(0{16}\), which differs in version: expected 2, got 0\. "
    ):
        folder.claim(RUN)


def test_overwriting_removes_what_the_other_run_wrote_and_nothing_else(folder: RunFolder) -> None:
    other = replace(RUN, task="other")
    folder.claim(other)
    folder.record(other, finished=True, files=publish(folder))
    write_checkpoint(folder, 3, whole=True)
    for name in ("history.csv", "history.svg", "notes.txt"):
        (folder.path / name).write_text("x")
    (folder.path / "encoder-being-written").mkdir()
    folder.claim(RUN, overwrite=True)
    assert names(folder.path) == ["notes.txt", "train.json"]
    assert stored(folder)["run"] == RUN.digest


def test_overwriting_makes_a_finished_run_anew(folder: RunFolder) -> None:
    folder.claim(RUN)
    folder.record(RUN, finished=True, files=publish(folder))
    folder.claim(RUN, overwrite=True)
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
    with pytest.raises(InputError, match=f"must be file names, got '{name}'; delete it"):
        folder.claim(RUN, overwrite=True)
    assert (folder.path.parent / "kept").exists()
    assert folder.train_file.exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_no_run_is_never_taken(folder: RunFolder, overwrite: bool) -> None:
    folder.path.mkdir(parents=True)
    for name in ("d.txt", "b.txt", "a.txt", "c.txt"):
        (folder.path / name).write_text("mine")
    said = (
        r"the folder is not empty \(a\.txt, b\.txt, c\.txt\) and contains no run; use a new folder"
    )
    with pytest.raises(InputError, match=f"`output` {folder.path}: {said}"):
        folder.claim(RUN, overwrite=overwrite)
    assert len(list(folder.path.iterdir())) == 4


def test_a_file_in_the_folders_place_is_refused(folder: RunFolder) -> None:
    folder.path.parent.mkdir()
    folder.path.write_text("mine")
    with pytest.raises(InputError, match=r"cannot be written to: "), folder.locked():
        pass


# train.json


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "damaged, not valid JSON: "),
        ("", "damaged, not valid JSON: "),
        ("[]", "not a training file of polarity-bench in format 2; move the file"),
        ('{"format": 1, "run": "x"}', "not a training file of polarity-bench in format 2"),
        (
            '{"format": 3, "run": "", "finished": true, "base": "", "files": [], "spec": {}}',
            "not a training file of polarity-bench in format 2",
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
    with pytest.raises(InputError, match="damaged, not valid JSON"):
        read_train_file(folder.path)


def test_without_a_train_file_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read_train_file(tmp_path) is None


def test_a_folder_that_cannot_be_looked_into_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train.json: cannot be read: File name too long"):
        read_train_file(tmp_path / ("a" * 300))


# The base of a run


def test_a_finished_run_knows_its_base(folder: RunFolder) -> None:
    folder.record(RUN, finished=True)
    record = TrainFile.of(folder.path)
    assert record is not None
    assert (record.content["base"], record.base) == ("/models/base", BASE)


def test_an_unfinished_run_is_no_encoder_yet(folder: RunFolder) -> None:
    folder.claim(RUN)
    said = "the training has not finished; run the same `polarity-bench train` command again"
    with pytest.raises(InputError, match=f"^{folder.path}: {said}"):
        load_encoder(str(folder.path))


def test_what_is_no_run_has_no_base(tmp_path: Path) -> None:
    assert TrainFile.of(tmp_path) is None
    assert TrainFile.of(tmp_path / "nowhere") is None


# Where a run may lie


def test_a_model_is_not_trained_into_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "runs/x/deep").mkdir(parents=True)
    for model in ("runs/x", "runs/x/deep"):
        with pytest.raises(
            InputError, match=r"the folder contains the model .*; use another folder"
        ):
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


@pytest.mark.parametrize("prompt", ["say: ", None])
def test_the_prompt_of_training_is_the_default_from_now_on(
    folder: RunFolder, prompt: str | None
) -> None:
    folder.claim(RUN)
    model: Any = StandInModel()
    folder.publish(model, {}, prompt=prompt)
    assert model.prompts.get(str(model.default_prompt_name)) == prompt


# Identity

CHANGES: dict[str, Any] = {
    "recipe": Margins(seed=2),
    "base": GUIDE,
    "encoders": {},
    "task": "t2",
    "inputs": "d2",
    "judged": "e2",
    "processes": 2,
    "gathered": True,
}
OTHERS: dict[str, Any] = {
    "mining": "as-released",
    "neighbours": 9,
    "threshold": 0.4,
    "examples": 100,
    "dropout": 0.5,
    "loss": Ranking(),
    "epochs": 6,
    "batch_size": 32,
    "rate": 1e-5,
    "warm_up": 0.2,
    "schedule": "cosine",
    "weight_decay": 0.1,
    "dtype": "bfloat16",
    "accumulation": 2,
    "seed": 1,
    "patience": 4,
    "checkpoint": "last",
    "held_out": 100,
}
ASIDE = {"report_to": "tensorboard", "examples_from": "elsewhere", "example_encoder": "renamed"}


def test_each_field_changes_the_digest_and_no_place_does() -> None:
    assert {*OTHERS, *ASIDE} == {field.name for field in fields(Margins)}
    assert set(CHANGES) == {field.name for field in fields(RunIdentity)}
    digests = [RUN.digest, replace(RUN, recipe=SetFit()).digest]
    digests += [replace(RUN, **{name: value}).digest for name, value in CHANGES.items()]
    for name, value in OTHERS.items():
        digests.append(replace(RUN, recipe=Margins(**{name: value})).digest)
    digests.append(replace(RUN, recipe=Margins(loss=Triplet(margin=0.2))).digest)
    assert len(digests) == len(set(digests)) == 2 + 8 + 18 + 1
    for name, value in ASIDE.items():
        other: Any = {name: value}
        assert replace(RUN, recipe=Margins(**other)).digest == RUN.digest


def test_an_encoders_name_and_revision_do_not_change_the_digest_but_its_weights_do() -> None:
    def digest(base: EncoderId = BASE, guide: EncoderId = GUIDE) -> str:
        return replace(RUN, base=base, encoders={"example_encoder": guide}).digest

    for name in ("name", "revision"):
        change: Any = {name: "another"}
        assert digest(replace(BASE, **change), replace(GUIDE, **change)) == RUN.digest
    for name, value in {"weights": "w9", "prompt": "p", "max_tokens": 9}.items():
        change = {name: value}
        assert digest(base=replace(BASE, **change)) != RUN.digest
        assert digest(guide=replace(GUIDE, **change)) != RUN.digest
    assert digest(GUIDE, BASE) != RUN.digest


def test_differences_by_hand() -> None:
    ours = {"a": 1, "b": {"x": 1, "y": {"z": "p"}}, "c": None, "only": 0}
    theirs = {"a": 1, "b": {"x": 2, "y": {"z": "q"}}, "c": {"n": 1}, "there": 0}
    assert differences(ours, theirs) == [
        "b.x: expected 1, got 2",
        "b.y.z: expected 'p', got 'q'",
        "c: expected None, got {'n': 1}",
        "only: expected 0, got None",
        "there: expected None, got 0",
    ]
    assert differences(ours, ours) == []
