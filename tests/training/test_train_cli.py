"""`train` and `examples` as a user meets them: exit codes, messages, what goes where."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from standins import Bench, Done, call, call_several, write_task
from standins.board import read_board
from standins.training import equal, job_of, run, weights

from polarity_bench.files import with_checksum
from polarity_bench.training.parameters import flattened
from polarity_bench.training.recipes import RECIPES


@pytest.fixture
def bench(
    tmp_path: Path,
    task_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run a command line in this process, with the task `mini`."""
    monkeypatch.chdir(tmp_path)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments, "--task-dir", task_dir)

    return bench


SMALL = [
    *("--task", "mini", "--examples", "32", "--batch-size", "8", "--epochs", "1"),
    *("--threshold", "-1", "--held-out", "0", "--neighbours", "4", "--rate", "1e-3"),
]


def test_train_then_run_takes_the_base_as_the_reference(bench: Bench, tiny_model: Path) -> None:
    trained = bench("train", "--model", tiny_model, *SMALL, "--output", "runs/x")
    assert trained.code == 0, trained.err
    assert trained.out.startswith("| epoch")
    assert "next: polarity-bench run --model runs/x" in trained.err
    assert "texts per second" in trained.err

    ran = bench("run", "--model", "runs/x", "--tasks", "mini", "--json")
    assert ran.code == 0, ran.err
    (result,) = json.loads(ran.out)["results"]
    assert result["reference"] == "tiny"
    assert "reference: tiny, the base of runs/x" in ran.err
    history = json.loads(Path("runs/x/train.json").read_text())["history"]
    assert result["scores"]["polarity_at_4"] == pytest.approx(history[1]["polarity"])
    assert result["scores"]["retention_at_4"] == pytest.approx(history[1]["retention"])

    own = bench("run", "--model", "runs/x", "--tasks", "mini", "--json", "--reference", "runs/x")
    (result,) = json.loads(own.out)["results"]
    assert result["reference"] is None


def test_a_board_names_the_command_that_trained_an_encoder(bench: Bench, tiny_model: Path) -> None:
    trained = ["train", "--model", str(tiny_model), *SMALL, "--output", "runs/x"]
    ran = ["run", "--model", "runs/x", "--tasks", "mini", "--k", "4"]
    for words in (trained, ran):
        assert bench(*words).code == 0
    (detail,) = read_board(Path("results")).details.values()
    said = [shlex.split(command) for command in detail.command.splitlines()]
    assert [words[: len(own) + 1] for words, own in zip(said, (trained, ran), strict=True)] == [
        ["polarity-bench", *trained],
        ["polarity-bench", *ran],
    ]


def test_the_command_of_a_process_of_ray_is_no_training_command(
    bench: Bench, tiny_model: Path
) -> None:
    """As trainings on Ray recorded it before, with the cluster's addresses."""
    assert bench("train", "--model", tiny_model, *SMALL, "--output", "runs/x").code == 0
    file = Path("runs/x/train.json")
    stored = json.loads(file.read_text())
    stored["environment"]["command"] = "default_worker.py --node-ip-address=192.0.2.7"
    file.write_text(json.dumps(with_checksum(stored)))
    assert bench("run", "--model", "runs/x", "--tasks", "mini", "--k", "4").code == 0
    kept = [path for path in Path("results").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"192.0.2.7" in path.read_bytes()]


def test_the_hint_after_training_finds_the_data_and_loads_what_was_trained(
    bench: Bench, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for file in task_dir.glob("*.csv"):
        file.rename(tmp_path / "elsewhere" / file.name)
    flags = ["--trust-remote-code", "--allow-pickle", "--offline"]
    wanted = [*SMALL, "--output", "runs/x", "--data-dir", "elsewhere", *flags]
    trained = bench("train", "--model", tiny_model, *wanted)
    (hint,) = re.findall("next: polarity-bench (.*)", trained.err)
    assert hint.split()[-5:] == ["--data-dir", "elsewhere", *flags]
    ran = bench(*hint.split())
    assert ran.code == 0, ran.err


def test_a_base_that_has_changed_is_no_reference(
    bench: Bench, tiny_model: Path, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(tiny_model, tmp_path / "base")
    bench("train", "--model", "base", *SMALL, "--output", "runs/x")
    shutil.rmtree(tmp_path / "base")
    shutil.copytree(tmp_path / "runs/x", tmp_path / "base")
    ran = bench("run", "--model", "runs/x", "--tasks", "mini")
    assert ran.code == 0
    assert "the base has changed and is now" in ran.err
    assert "S, retention and joint are left out; give the base as the --reference" in ran.err


def test_an_unfinished_run_says_how_to_go_on(bench: Bench, tiny_model: Path) -> None:
    bench("train", "--model", tiny_model, *SMALL, "--output", "runs/x")
    file = Path("runs/x/train.json")
    file.write_text(json.dumps(with_checksum(json.loads(file.read_text()) | {"finished": False})))
    ran = bench("run", "--model", "runs/x", "--tasks", "mini")
    assert ran.code == 2
    assert "the training has not finished" in ran.err


def test_train_prints_json(bench: Bench, tiny_model: Path) -> None:
    done = bench("train", "--model", tiny_model, *SMALL, "--output", "x", "--json")
    said = json.loads(done.out)
    assert said["kept"] in (0, 4)
    assert not said["reused"]
    assert [row["epoch"] for row in said["history"]] == [0, 1]
    again = bench("train", "--model", tiny_model, *SMALL, "--output", "x", "--json")
    assert json.loads(again.out)["reused"]
    assert "x: this run is already finished" in again.err


def test_the_history_fits_the_terminal(
    bench: Bench, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    words = ["train", "--model", tiny_model, *SMALL, "--held-out", "6", "--output", "x"]
    assert max(map(len, bench(*words).out.splitlines())) > 64, "piped, it is whole"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    narrow = bench(*words).out
    assert max(map(len, narrow.splitlines())) <= 64
    assert "Too wide to show here, see --wide: " in narrow
    assert "held-out joint" in bench(*words, "--wide").out.splitlines()[0]


def test_a_margin_of_two_or_more_is_remarked_once(bench: Bench, tiny_model: Path) -> None:
    done = bench("train", "--model", tiny_model, *SMALL, "--output", "x", "--margin", "5")
    assert done.code == 0
    assert done.err.count("from a margin of 2 on, the hinge is always active") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--margin", "0"], "--margin must be above 0, got 0.0"),
        (["--margin", "-1"], "--margin must be above 0, got -1.0"),
        (
            ["--loss", "mnrl", "--margin", "0.1"],
            "--margin 0.1: the loss 'mnrl' has no such parameter; use",
        ),
        (["--loss", "triplets"], "--loss: unknown loss 'triplets'; did you mean 'triplet'?"),
        (["--recipe", "margin"], "--recipe: unknown recipe 'margin'; did you mean 'margins'"),
        (
            ["--variant", "setfit"],
            "--variant setfit: the recipe 'margins' has no such parameter; use one of s",
        ),
        (["--warm-up", "soon"], "--warm-up must be a number or 'as-released', got 'soon'"),
        (["--epochs", "2.5"], "--epochs must be an integer, got '2.5'"),
        (["--job", "job.toml"], "--job: the file must contain all settings, but --"),
        (["--epochs", "0"], "--epochs must be at least 1, got 0"),
        (["--rate", "0"], "--rate must be above 0"),
        (["--held-out", "13"], "--held-out must be at most half of the 24 training rows"),
        (["--examples", "4"], "expected at least one batch of 8 examples, got 4 examples"),
        (["--threshold", "0.9999"], "has a neighbour with"),
        (["--model", "random"], "a baseline has no weights"),
        (["--task", "cr"], "--task cr: expected a polarity task, got a transfer task"),
        (["--dropout", "0.5"], "give --examples or --dropout, not both"),
        (["--report-to", "nowhere"], "--report-to nowhere: "),
    ],
)
def test_bad_input_ends_with_2_before_any_work(
    arguments: list[str],
    said: str,
    bench: Bench,
    tiny_model: Path,
) -> None:
    words = ["train", "--model", tiny_model, *SMALL, "--output", "x", *arguments]
    done = bench(*words)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
    assert not Path("x").exists()


def test_a_folder_with_other_things_is_left_alone(bench: Bench, tiny_model: Path) -> None:
    Path("x").mkdir()
    Path("x/thesis.tex").write_text("years of work")
    done = bench("train", "--model", tiny_model, *SMALL, "--output", "x", "--overwrite")
    assert done.code == 2
    assert "is not empty (thesis.tex) and contains no run" in done.err
    assert Path("x/thesis.tex").read_text() == "years of work"


def test_examples_are_written_and_trained_on(bench: Bench, tiny_model: Path) -> None:
    words = ["--task", "mini", "--threshold", "-1", "--model", str(tiny_model), "-n", "32"]
    made = bench("examples", *words, "--output", "made")
    assert made.code == 0, made.err
    assert "32 examples" in made.out
    assert "which leaves 32 examples" in Path("made/README.md").read_text()
    first = Path("made/train.parquet").read_bytes()
    bench("examples", *words, "--output", "again")
    assert Path("again/train.parquet").read_bytes() == first
    done = bench(
        *("train", "--model", tiny_model, "--task", "mini", "--examples-from", "made"),
        *("--batch-size", "8", "--epochs", "1", "--output", "x"),
    )
    assert done.code == 0, done.err
    gone = bench(
        "train",
        "--model",
        tiny_model,
        "--task",
        "mini",
        "--examples-from",
        "nowhere",
        "--output",
        "y",
    )
    assert gone.code == 2
    assert "--examples-from: no such file: nowhere" in gone.err
    idle = bench(
        *("train", "--model", tiny_model, "--task", "mini", "--examples-from", "made"),
        *("--neighbours", "4", "--output", "y"),
    )
    assert idle.code == 2
    assert "--neighbours 4 has no effect on existing examples; omit --neighbours" in idle.err
    Path("thesis").mkdir()
    Path("thesis/README.md").write_text("years of work")
    refused = bench("examples", *words, "--output", "thesis")
    assert refused.code == 2
    assert "--output thesis: the folder is not empty (README.md)" in refused.err
    again = bench("examples", *words, "--output", "made")
    assert again.code == 2
    assert "--output made: the folder is not empty (README.md, train.parquet)" in again.err
    pairs = bench(
        *("train", "--model", tiny_model, "--task", "mini", "--examples-from", "made"),
        *("--loss", "mnrl", "--output", "y"),
    )
    assert pairs.code == 2
    assert "the loss takes pairs in the columns anchor, positive, label, got anchor" in pairs.err


def test_an_option_of_another_recipe_is_refused(bench: Bench) -> None:
    done = bench("train", "--recipe", "setfit", "--margin", "1", "--output", "x")
    assert done.code == 2
    assert "--margin 1.0: the recipe 'setfit' has no such parameter; use one of margins" in done.err


def test_help_shows_the_options_of_one_recipe(bench: Bench) -> None:
    usual = " ".join(bench("train", "--help").out.split())
    assert "the loss to minimise [default: triplet]" in usual
    assert "[default: 0.1, 0.5]" in usual
    assert "--batch-size <int> examples per batch [default: 64]." in usual
    assert "--mining as-written|as-released" in usual
    assert "--variant" not in usual
    for words in (
        ("setfit", "--help"),
        ("--recipe", "setfit", "-h"),
        ("-h", "--recipe", "setfit"),
        ("--recipe=setfit", "--help"),
    ):
        said = " ".join(bench("train", *words).out.split())
        assert "--variant papers|setfit training as in the margins paper (papers)" in said
        assert "--margin" not in said


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_shows_all_parameters_of_a_recipe_and_no_others(bench: Bench, recipe: str) -> None:
    words = bench("train", recipe, "--help").out.split()
    flags = {
        name: {"--" + key.rstrip("_").replace("_", "-") for key in flattened(member)}
        for name, member in RECIPES.items()
    }
    every = {flag for several in flags.values() for flag in several}
    assert every.intersection(words) == flags[recipe]


def test_the_first_argument_names_the_recipe(bench: Bench) -> None:
    done = bench("train", "setfit", "--margin", "1", "--output", "x")
    assert "--margin 1.0: the recipe 'setfit' has no such parameter; use one of margins" in done.err
    unknown = bench("train", "setfits", "--help")
    assert unknown.code == 2
    assert "--recipe: unknown recipe 'setfits'; did you mean 'setfit'?" in unknown.err


TOY = """
from dataclasses import dataclass
from typing import ClassVar

from polarity_bench.training.parameters import parameter
from polarity_bench.training.recipes.base import FitResult, Recipe


@dataclass(frozen=True, kw_only=True)
class Nudge(Recipe):
    name: ClassVar[str] = "nudge"
    title: ClassVar[str] = "Nudge"
    sources: ClassVar[str] = "Nobody's."

    step: float = parameter(0.1, "how far all weights go", above=0)

    def fit(self, bench, examples, epochs):
        for weight in bench.base.model.parameters():
            weight.data += self.step
        epochs.add(1, 1)
        return FitResult(1, {"Pool": f"{len(examples)} texts"})
"""
BEGIN = """
from polarity_bench.training.recipes import RECIPES
from nudge import Nudge
RECIPES["nudge"] = Nudge
"""


def test_a_fresh_process_runs_a_job_to_the_same_bytes_and_a_recipe_of_ones_own(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """The process imports once, and begins with the job. The recipe is a module and a line."""
    folder, tasks = tmp_path / "elsewhere", tmp_path / "elsewhere" / "tasks"
    tasks.mkdir(parents=True)
    write_task(tasks)
    job = job_of(tiny_model, tasks, folder / "there")
    (folder / "job.toml").write_text(job.to_toml(), encoding="utf-8")
    (folder / "nudge.py").write_text(TOY)
    mini = ["--task-dir", str(tasks)]
    words = f"train --recipe nudge --step 0.25 -t mini -o x -m {tiny_model}".split() + mini
    lines = [
        ["train", "--job", "job.toml"],
        [*words, "--no-store", "--json"],
        [*words, "--no-store", "--json"],
        ["train", "--recipe", "nudge", "--epochs", "3", "-o", "y"],
        ["run", "--model", "x", "--tasks", "mini", "--no-store", "--json", *mini],
        ["leaderboard", "results"],
    ]
    answers = call_several(lines, folder, begin=BEGIN)
    of_job, done, again, refused, ran, board = answers

    run(tiny_model, task_dir, tmp_path / "here")
    assert of_job.code == 0, of_job.err
    assert of_job.out.startswith("| epoch")
    for name in ("model.safetensors", "history.csv", "config.json", "tokenizer.json"):
        here, there = tmp_path / "here" / name, folder / "there" / name
        assert here.read_bytes() == there.read_bytes(), name
    assert equal(weights(tmp_path / "here"), weights(folder / "there"))

    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["recipe"], said["kept"], said["reused"]) == ("nudge", 1, False)
    before, after = weights(tiny_model), weights(folder / "x")
    name = "embeddings.word_embeddings.weight"
    assert (after[name] - before[name]).mean().item() == pytest.approx(0.25)
    assert "**Pool**: 24 texts" in (folder / "x" / "README.md").read_text()
    assert json.loads(again.out)["reused"]
    assert "--epochs 3: the recipe 'nudge' has no such parameter; use one of margins" in refused.err
    assert ran.code == 0, ran.err
    (result,) = json.loads(ran.out)["results"]
    assert result["reference"] == "tiny"
    assert re.search(r"^\| x +\| tiny +\| 4 +\|", board.out, re.MULTILINE)
