"""Cross-validations of a grid: what they expand to, are refused for, and score."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from standins import Bench, Done, Workshop, call, exit_code_of_copy, write_task
from standins.sweeps import run_here

from polarity_bench.cross_validation.fold_results import read_experiments
from polarity_bench.cross_validation.methods import FineTuning, FoldContext, Predictions
from polarity_bench.cross_validation.protocol import PROTOCOLS, Protocol
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder
from polarity_bench.errors import InputError
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.sweeps import execute as making
from polarity_bench.sweeps.cost import effort as effort_of
from polarity_bench.sweeps.cost import probe, sizes
from polarity_bench.sweeps.engines import local
from polarity_bench.sweeps.grid import read_grid
from polarity_bench.sweeps.items import CrossValidation, Setup
from polarity_bench.sweeps.plan import plan_of, read_plan, write_plan
from polarity_bench.sweeps.remaining_items import find_sweep
from polarity_bench.sweeps.state_files import ItemOutcome, SweepState
from polarity_bench.sweeps.status import Watch
from polarity_bench.training.losses.metric import SoftTriple

GRID = """
title = "Few"

[[cross-validate]]
model = "{model}"
task = "little-mr"
loss = ["cce", "frozen"]
rows = 6
folds = 3
epochs = 2
batch_size = 6
rate = 1e-3
"""
N_FOLDS = 3


@pytest.fixture
def setup(tmp_path: Path, workshop: Workshop) -> Setup:
    workshop.labelled_lines()  # 20 rows of each of two classes
    workshop.trec()
    options = EncoderOptions(offline=True)
    return Setup(tmp_path / "out", options, workshop.data, workshop.tasks, store=False)


@pytest.fixture
def grid(tmp_path: Path, tiny_model: Path) -> Path:
    """Two cross-validations of three folds each."""
    (tmp_path / "few.toml").write_text(GRID.format(model=tiny_model))
    return tmp_path / "few.toml"


@pytest.fixture
def bench(
    tmp_path: Path,
    setup: Setup,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    monkeypatch.chdir(tmp_path)
    places = places_of(setup)

    def bench(*words: str | Path) -> Done:
        return call(monkeypatch, capsys, *words, *places)

    return bench


def places_of(setup: Setup) -> list[str]:
    return ["--task-dir", str(setup.task_dir), "--data-dir", str(setup.data_dir)]


def expand(setup: Setup, text: str) -> list[CrossValidation]:
    file = setup.output.parent / "grid.toml"
    file.write_text(text)
    items = read_grid(file, setup).items
    return [item for item in items if isinstance(item, CrossValidation)]


def scored(folder: Path) -> dict[str, Mapping[ScoreKey, Score]]:
    """The scores of each experiment in a folder, by the name of its method."""
    return {each.key.protocol["method"]["name"]: each.scores for each in read_experiments(folder)}


# What a block expands to


def test_a_parameter_is_given_to_the_losses_that_take_it(setup: Setup) -> None:
    found = expand(
        setup,
        '[[cross-validate]]\ntask = ["little-mr", "little-trec"]\n'
        'loss = ["cce", "softtriple", "setfit"]\n'
        "rows = [6, 'all']\ngamma = [0.1, 0.3]\nbatch_size = 8\n",
    )
    assert len(found) == 2 * 2 * (1 + 2 + 1)
    assert [each.name for each in found[:4]] == [
        "loss cce, task little-mr, rows 6",
        "loss cce, task little-mr, rows all",
        "loss softtriple, task little-mr, rows 6, gamma 0.1",
        "loss softtriple, task little-mr, rows 6, gamma 0.3",
    ]
    assert found[3].method == FineTuning(loss=SoftTriple(gamma=0.3), batch_size=8)
    assert found[3].protocol == Protocol(rows=6)
    assert {each.method.to_dict()["batch_size"] for each in found} == {8}
    assert len({each.digest for each in found}) == len(found)
    assert {each.kind for each in found} == {"cross-validation"}


def test_a_protocol_is_a_papers_but_for_what_is_said(setup: Setup) -> None:
    text = (
        '[[cross-validate]]\nprotocol = "triple-entropy"\ntask = "little-mr"\nfolds = 4\n'
        'sample = ["all", 30]\n'
    )
    assert [each.protocol for each in expand(setup, text)] == [
        Protocol(sample=None, folds=4, rows=None, seeds=PROTOCOLS["triple-entropy"].seeds),
        Protocol(sample=30, folds=4, rows=None, seeds=PROTOCOLS["triple-entropy"].seeds),
    ]


def test_seeds_are_of_one_item_unless_they_are_lists_of_seeds(setup: Setup) -> None:
    for said, expected in [
        ("7", [(7,)]),
        ("[2, 16]", [(2, 16)]),
        ("[[2], [16, 3]]", [(2,), (16, 3)]),
    ]:
        found = expand(setup, f'[[cross-validate]]\ntask = "little-mr"\nseeds = {said}\n')
        assert [each.protocol.seeds for each in found] == expected
    assert [each.name for each in found] == ["seeds 2", "seeds 16 3"]


def test_what_is_said_of_all_is_said_of_trainings_alone(setup: Setup) -> None:
    (found,) = expand(
        setup, '[all]\nepochs = 3\nmodel = "e5"\n\n[[cross-validate]]\ntask = "little-mr"\n'
    )
    assert (found.model, found.method, found.name) == ("minilm", FineTuning(), "CCE on little-mr")


def test_digits_are_of_all_that_decides_scores(setup: Setup) -> None:
    def digest(more: str) -> str:
        text = f'[[cross-validate]]\nloss = "supcon"\n{more}\n'
        (found,) = expand(setup, text if "task" in more else f'{text}task = "little-mr"\n')
        return found.digest

    changes = ["folds = 41", "seeds = 1", "rows = 7", "sample = 30", "epochs = 3", "beta = 0.3"]
    changes += ["temperature = 0.2", 'model = "e5"', 'prompt = "q: "', 'task = "little-trec"', ""]
    assert len({digest(each) for each in changes}) == len(changes)
    assert digest("folds = 40\nepochs = 128") == digest(""), "these are the defaults"
    assert digest('task = "LittleMr"') == digest(""), "its name in mteb"


BLOCK = """
[all]
task = "contrast"
# all

[[train]]
loss = "mnrl"

[[cross-validate]]
task = "little-mr"
loss = ["cce", "softtriple"]
rows = 6
gamma = 0.1
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"softtriple"', '"softripple"'), r"line 11: `loss`: unknown loss 'softripple'; did you"),
        (('"softtriple"', "3"), r"line 11: `loss` must be text, got 3"),
        ((', "softtriple"', ""), r"line 13: `gamma`: no loss in the block \(cce\) has"),
        (('["cce", "softtriple"]', "[]"), r"line 11: 'loss' must not be an empty list"),
        (("gamma", "gama"),
         r"line 13: `gama`: no loss in the block \(cce, softtriple\) has .*; did .*'gamma'"),
        (("gamma = 0.1", "gamma = -1"), r"line 13: `gamma` must be above 0, got -1"),
        (("gamma = 0.1", 'gamma = "a"'), r"line 13: `gamma` must be a number, got 'a'"),
        (("rows = 6", 'rows = "six"'),
         r"line 12: `rows` must be an integer or 'all', got 'six'"),
        (("rows = 6", "rows = 0"), r"line 12: `rows` must be at least 1, got 0"),
        (("gamma", "seeds"), r"line 13: `seeds` must be an integer, got 0\.1"),
        (("gamma = 0.1", "seeds = [1, 1]"), r"line 13: `seeds` must be distinct integers"),
        (('"little-mr"', '"litle-mr"'), r"line 10: `task`: unknown task 'litle-mr'; .*'little-mr'"),
        (('"little-mr"', '"stsb"'), r"line 10: `task` stsb: expected a task of kind transfer or"),
        (('task = "little-mr"\n', ""), r"line 9: `task`: missing; name the task that provides"),
        (("gamma = 0.1", 'protocol = "few"'), r"line 13: `protocol`: unknown protocol 'few'; did"),
        (("gamma = 0.1", "prompt = 3"), r"line 13: 'prompt' must be text, got 3"),
        (("[[cross-v", "[[crossv"), r"line 9: unknown key 'crossvalidate'; did .*'cross-valid"),
        (("[[cross-validate]]", "[cross-validate]"), r"line 9: 'cross-validate': must be an array"),
        (("gamma = 0.1", 'skip = [{los = "cce"}]'), r"line 13: 'skip': unknown setting 'los'; d"),
        (("rows = 6", "rows = [6, 8, 6]"), r"'rows' contains 6 2 times; delete the repeated val"),
        (("gamma = 0.1", '[[cross-validate]]\ntask = "little-mr"\nrows = 6'),
         r"grid\.toml: two cross-validations have the same settings: 'loss cce' and 'loss cce'"),
        (("# all", "gamma = 5"), r"line 4: `gamma`: the recipe 'margins' has no such setting"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(
    setup: Setup, change: tuple[str, str], message: str
) -> None:
    assert change[0] in BLOCK
    with pytest.raises(InputError, match=message):
        expand(setup, BLOCK.replace(*change, 1))


# What is refused before anything is made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("folds = 3", "folds = 21"), "loss cce: `folds` must be at most 20, because the class 0"),
        (("rows = 6", "rows = 28"), "`rows` 28: the fold has 26 training rows"),
        (('model = "{model}"', 'model = "nowhere"'), "nowhere"),
        (('model = "{model}"', 'model = "random"'), "`model` random: a baseline has no weights"),
        (("folds = 3", "folds = 3\nlayers = 9"), "`layers` 9: the encoder has 2"),
    ],
)
def test_what_cannot_be_divided_or_trained_is_said_before_anything_is_made(
    setup: Setup, bench: Bench, tiny_model: Path, change: tuple[str, str], message: str
) -> None:
    text = GRID.replace(*change).format(model=tiny_model)
    with pytest.raises(InputError, match=message):
        making.check(expand(setup, text), setup)
    done = bench("sweep", setup.output.parent / "grid.toml", "-o", "made")
    assert done.code == 2
    assert message.split("`")[-1] in done.err
    assert not list(Path("made").rglob("*.json*"))


@pytest.mark.parametrize("way", ["path", "copy", "prompt"])
def test_one_encoder_named_in_two_ways_is_refused_before_anything_is_made(
    setup: Setup, bench: Bench, tiny_model: Path, tmp_path: Path, way: str
) -> None:
    """Both would write one file, and one of them would fail on the lock of the other."""
    text, other = GRID.format(model=tiny_model), tiny_model
    if way == "prompt":  # none, as by default
        text += text[text.index("[[") :] + 'prompt = ""\n'
    else:
        other = tiny_model.parent / ".." / tiny_model.parent.name / tiny_model.name
        if way == "copy":
            other = Path(shutil.copytree(tiny_model, tmp_path / "copy"))
        text = text.replace(f'"{tiny_model}"', f'["{tiny_model}", "{other}"]')
    (tmp_path / "grid.toml").write_text(text)
    done = bench("sweep", tmp_path / "grid.toml", "-o", "made")
    assert done.code == 2, done.err
    assert f"{tiny_model} and {other} are the same encoder, " in done.err
    assert "use one of these names only" in done.err
    assert not list(Path("made").rglob("*.json*"))


def test_pairs_and_missing_packages_are_said_too(
    setup: Setup, workshop: Workshop, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.mrpc()
    text = f'[[cross-validate]]\nmodel = "{tiny_model}"\ntask = "little-mr"\n'
    text += 'loss = ["frozen", "setfit"]\nfolds = 3\n'
    with pytest.raises(InputError, match="`loss` setfit: SetFit takes single texts, got pairs"):
        making.check(expand(setup, text.replace("little-mr", "little-mrpc")), setup)
    monkeypatch.setattr("polarity_bench.errors.find_spec", lambda _: None)
    with pytest.raises(InputError, match="the loss 'setfit' needs setfit, accelerate"):
        making.check(expand(setup, text), setup)


def test_encoders_are_named(setup: Setup, tiny_model: Path) -> None:
    items = expand(setup, GRID.format(model=tiny_model))
    found = making.check(items, setup)
    assert {digest: encoder.name for digest, encoder in found.items()} == {
        item.digest: "tiny" for item in items
    }


# How much there is to do


def test_effort_is_texts_trained_on_thrice_and_texts_tested(setup: Setup) -> None:
    items = expand(
        setup,
        '[[cross-validate]]\ntask = "little-mr"\nloss = ["cce", "frozen", "setfit"]\n'
        "folds = 4\nseeds = [1, 2]\nrows = [6, 'all']\nepochs = 5\n",
    )
    known = sizes(items, setup)
    assert known.labelled == {"little-mr": 40}
    found = [effort_of(item, known, setup.access()) for item in items]
    expected = []
    for item in items:
        effort = 0.0
        for _ in range(2 * 4):
            n_learned = 30 if item.protocol.rows is None else 6
            n_pairs = n_learned * (n_learned + 1) // 2
            loss = item.settings["loss"]
            n_trained = {"cce": 5 * n_learned, "frozen": 0, "setfit": 2 * n_pairs}[loss]
            effort += n_learned + 3 * n_trained + 10
        expected.append(effort)
    assert found == expected


def test_data_too_small_to_be_evaluated_on_can_be_cross_validated(
    tmp_path: Path, tiny_model: Path
) -> None:
    workshop = Workshop(tmp_path / "small")
    workshop.labelled_lines(n=5)
    workshop.mrpc()
    options = EncoderOptions(offline=True)
    small = Setup(tmp_path / "out", options, workshop.data, workshop.tasks)
    text = GRID.format(model=tiny_model).replace('"little-mr"', '["little-mr", "little-mrpc"]')
    items = expand(small, text.replace("rows = 6", "rows = 4"))
    known = sizes(items, small)
    mr, mrpc = items[0].data(small), items[2].data(small)
    assert known.texts == {
        "little-mr": len(set(mr.texts)),
        "little-mrpc": len({text for pair in mrpc.texts for text in pair}),
    }
    assert known.rows == {}
    assert probe(items, small)[str(tiny_model)] > 0


def test_texts_for_the_estimate_come_from_the_whole_task(
    tmp_path: Path, tiny_model: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.labelled_lines(n=200)
    many = Setup(tmp_path / "out", EncoderOptions(offline=True), workshop.data, workshop.tasks)
    items = expand(many, GRID.format(model=tiny_model))
    encoded: list[list[str]] = []
    encode = SentenceTransformerEncoder.encode

    def record(encoder: SentenceTransformerEncoder, texts: list[str]) -> Any:
        encoded.append(texts)
        return encode(encoder, texts)

    monkeypatch.setattr(SentenceTransformerEncoder, "encode", record)
    probe(items, many)
    texts = list(dict.fromkeys(items[0].data(many).texts))
    places = [texts.index(text) for text in encoded[-1]]
    assert encoded[-1] == encoded[-2]  # once to warm up
    assert 64 <= len(places) <= 128
    assert places == list(range(0, len(texts), places[1]))


# Made


def test_scores_are_those_of_fewshot(
    bench: Bench, grid: Path, setup: Setup, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "run_local", run_here)
    dry = bench("sweep", grid, "--dry-run")
    assert dry.out.startswith("Few: 2 in all, 2 left\n"), dry.err
    assert "| cross-validation | 2" in dry.out
    done = bench("sweep", grid, "-o", "out", "--workers", "1")
    assert done.code == 0, done.err
    few = ["--task", "little-mr", "--loss", "cce,frozen", "--rows", "6", "--folds", str(N_FOLDS)]
    quick = ["--epochs", "2", "--batch-size", "6", "--rate", "1e-3", "--workers", "1"]
    alone = bench("fewshot", "--model", tiny_model, *few, *quick, "-o", "alone")
    assert alone.code == 0, alone.err
    assert scored(Path("out/fewshot")) == scored(Path("alone"))
    reports = [bench("fewshot", "--report", "-o", each).out for each in ("out/fewshot", "alone")]
    shown = [[line.rpartition("| ")[0] for line in text.splitlines()] for text in reports]
    assert shown[0] == shown[1], "but for how long a fold took"
    by_loss = {
        name: scores[ScoreKey("macro_f1")].mean for name, scores in scored(Path("alone")).items()
    }
    for item in read_grid(grid, setup).items:
        outcome = SweepState(Path("out")).outcome(item.digest)
        assert outcome is not None
        assert outcome.scores == {"little-mr": pytest.approx(by_loss[item.settings["loss"]])}
    best = max(by_loss, key=lambda loss: by_loss[loss])
    said = f"best on little-mr, 6 rows, 3 folds, seed 0 by macro F1: {100 * by_loss[best]:.2f}"
    assert said in done.out


def test_the_score_of_all_rows_is_accuracy(setup: Setup, tiny_model: Path) -> None:
    text = GRID.format(model=tiny_model).replace("rows = 6", 'rows = "all"')
    _, frozen = expand(setup, text)
    state = SweepState(setup.output)
    state.make_folders()
    outcome = making.make(frozen, setup, state)
    assert outcome.state == "done", outcome.why
    (scores,) = scored(setup.output / "fewshot").values()
    accuracy = scores[ScoreKey("accuracy")].mean
    assert accuracy != pytest.approx(scores[ScoreKey("macro_f1")].mean)
    assert outcome.scores == {"little-mr": pytest.approx(accuracy)}


def test_one_that_is_killed_goes_on_from_its_last_fold(
    grid: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, state = read_grid(grid, setup).items[0], SweepState(setup.output)
    state.make_folders()
    predict, calls = FineTuning.predict, []

    def dying(self: FineTuning, fold: FoldContext) -> Predictions:
        calls.append(fold)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return predict(self, fold)

    with monkeypatch.context() as patch:
        patch.setattr(FineTuning, "predict", dying)
        assert exit_code_of_copy(lambda: making.make(item, setup, state)) == -signal.SIGKILL
    assert calls == []
    assert state.outcome(item.digest) is None
    (scores,) = scored(setup.output / "fewshot").values()
    assert scores[ScoreKey("macro_f1")].n == 2

    def counted(self: FineTuning, fold: FoldContext) -> Predictions:
        calls.append(fold)
        return predict(self, fold)

    monkeypatch.setattr(FineTuning, "predict", counted)
    made = making.make(item, setup, state)
    assert (made.state, made.why) == ("done", "")
    assert len(calls) == 1, "the third alone"
    whole = Setup(setup.output.with_name("whole"), setup.options, setup.data_dir, setup.task_dir)
    SweepState(whole.output).make_folders()
    undisturbed = making.make(item, whole, SweepState(whole.output))
    assert made.scores == undisturbed.scores
    assert scored(setup.output / "fewshot") == scored(whole.output / "fewshot")


def test_the_best_is_told_for_each_way_to_divide_a_task(setup: Setup, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        '[[cross-validate]]\ntask = "little-mr"\nloss = ["cce", "supcon"]\nrows = [6, "all"]\n'
        'seeds = [1, 2]\nmodel = "tiny"\nsample = 1000\n'
    )
    grid = read_grid(file, setup)
    names = {item.digest: EncoderId("tiny", "w") for item in grid.items}
    state = SweepState(tmp_path)
    state.make_folders()
    plan = plan_of(grid.title, grid.items, setup, sizes(grid.items, setup), names, file)
    write_plan(plan, tmp_path)
    plan = read_plan(tmp_path)
    assert [(item.kind, item.task, item.encoder) for item in plan.items] == [
        ("cross-validation", "little-mr", "tiny")
    ] * 4
    for item, score in zip(plan.items, (0.3, 0.9, 0.4, 0.8), strict=True):
        state.record(item.digest, ItemOutcome("done", item.name, scores={"little-mr": score}))
    seen = Watch(plan, state).read_progress()
    assert [(best.task, best.name, best.score) for best in seen.best] == [
        (
            "little-mr, 6 rows from a sample of 1,000, 40 folds, seeds 1, 2",
            "loss supcon, rows 6",
            0.4,
        ),
        (
            "little-mr, all rows from a sample of 1,000, 40 folds, seeds 1, 2",
            "loss cce, rows all",
            0.9,
        ),
    ]


def test_what_lost_a_file_that_it_wrote_is_made_again_and_nothing_else(
    setup: Setup, tiny_model: Path
) -> None:
    """Two evaluations of one encoder and task differ in protocol alone; folds are files too."""
    file = setup.output.parent / "grid.toml"
    evaluate = f'[[evaluate]]\nmodel = "{tiny_model}"\ntasks = ["little-mr"]\nkfold = [2, 3]\n'
    file.write_text(GRID.format(model=tiny_model) + evaluate)
    grid, state = read_grid(file, setup), SweepState(setup.output)
    state.make_folders()
    find_sweep(grid, setup, file).write_state()
    for each in grid.items:
        assert making.make(each, setup, state).why == ""
    n_files = 0
    for digest, outcome in state.outcomes(each.digest for each in grid.items).items():
        for name in outcome.files:
            place = setup.output / name
            kept = place.read_bytes()
            place.unlink()
            found = find_sweep(grid, setup, file)
            assert found.lost == {digest} == {each.digest for each in found.left}
            assert Watch(found.plan, state).read_progress().counts["left"] == 1
            place.write_bytes(kept)
            n_files += 1
    assert n_files == 2 * 2 + 2 * 2
    found = find_sweep(grid, setup, file)
    assert (found.left, found.unused_folders) == ([], [])
    shutil.copytree(setup.output / "results" / tiny_model.name, setup.output / "results" / "old")
    assert find_sweep(grid, setup, file).unused_folders == ["old"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('[[evaluate]]\nmodel = "random"\ntasks = ["mini"]\nk = 1000\n', "k = 1000 needs at least"),
        ('[[evaluate]]\nmodel = "random"\ntasks = ["little-mr"]\nkfold = 99\n', "99 folds need"),
    ],
)
def test_protocols_that_data_are_too_few_for_are_refused_before_anything_is_made(
    setup: Setup, said: str, why: str
) -> None:
    assert setup.task_dir is not None
    write_task(setup.task_dir)
    file = setup.output.parent / "grid.toml"
    file.write_text(said)
    with pytest.raises(InputError, match=why):
        find_sweep(read_grid(file, setup), setup, file)


def test_a_sweep_whose_grid_moved_goes_on_and_one_of_another_grid_does_not(
    setup: Setup, tmp_path: Path
) -> None:
    first, second = tmp_path / "a" / "grid.toml", tmp_path / "b" / "grid.toml"
    for file in (first, second):
        file.parent.mkdir()
        file.write_text('[[evaluate]]\nmodel = "random"\ntasks = ["little-mr"]\n')
    setup.output.mkdir()
    find_sweep(read_grid(first, setup), setup, first).write_state()
    for _ in range(2):  # a copy, and then the only one
        assert find_sweep(read_grid(second, setup), setup, second, named=True).left
        first.unlink(missing_ok=True)
    first.write_text('title = "Another"\n')
    with pytest.raises(InputError, match="contains the sweep of another grid"):
        find_sweep(read_grid(second, setup), setup, second, named=True)
