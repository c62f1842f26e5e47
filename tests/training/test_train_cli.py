"""`train` and `examples` as a user meets them: exit codes, messages, what goes where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from standins import Done, call
from test_train import model, tasks  # noqa: F401 - fixtures

Bench = Callable[..., Done]


@pytest.fixture
def bench(
    tmp_path: Path,
    tasks: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run a command line in this process, with the task `mini`."""
    monkeypatch.chdir(tmp_path)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments, "--task-dir", tasks)

    return bench


SMALL = [
    *("--task", "mini", "--examples", "16", "--batch-size", "8", "--epochs", "1"),
    *("--threshold", "-1", "--held-out", "6", "--neighbours", "4", "--rate", "1e-3"),
]


def test_train_then_run_takes_the_base_as_the_reference(bench: Bench, model: Path) -> None:  # noqa: F811
    trained = bench("train", "--model", model, *SMALL, "--output", "runs/x")
    assert trained.code == 0, trained.err
    assert trained.out.startswith("| epoch")
    assert "next: polarity-bench run --model runs/x" in trained.err
    assert "texts a second" in trained.err

    ran = bench("run", "--model", "runs/x", "--tasks", "mini", "--json")
    assert ran.code == 0, ran.err
    (result,) = json.loads(ran.out)["results"]
    assert result["reference"] == "tiny"
    assert "reference: tiny, the base of runs/x" in ran.err
    history = json.loads(Path("runs/x/train.json").read_text())["history"]
    assert result["scores"]["polarity_at_4"] == pytest.approx(100 * history[1]["polarity"])
    assert result["scores"]["retention_at_4"] == pytest.approx(100 * history[1]["retention"])

    own = bench("run", "--model", "runs/x", "--tasks", "mini", "--json", "--reference", "runs/x")
    (result,) = json.loads(own.out)["results"]
    assert result["reference"] is None


def test_a_base_that_has_changed_is_no_reference(bench: Bench, model: Path, tmp_path: Path) -> None:  # noqa: F811
    import shutil

    shutil.copytree(model, tmp_path / "base")
    bench("train", "--model", "base", *SMALL, "--output", "runs/x")
    shutil.rmtree(tmp_path / "base")
    shutil.copytree(tmp_path / "runs/x", tmp_path / "base")
    ran = bench("run", "--model", "runs/x", "--tasks", "mini")
    assert ran.code == 2
    assert "what is there now has" in ran.err


def test_an_unfinished_run_says_how_to_go_on(bench: Bench, model: Path) -> None:  # noqa: F811
    bench("train", "--model", model, *SMALL, "--output", "runs/x")
    file = Path("runs/x/train.json")
    file.write_text(file.read_text().replace('"finished": true', '"finished": false'))
    ran = bench("run", "--model", "runs/x", "--tasks", "mini")
    assert ran.code == 2
    assert "its training has not finished" in ran.err


def test_train_prints_json(bench: Bench, model: Path) -> None:  # noqa: F811
    done = bench("train", "--model", model, *SMALL, "--output", "x", "--json")
    said = json.loads(done.out)
    assert said["best_step"] == 2
    assert not said["reused"]
    assert [row["epoch"] for row in said["history"]] == [0, 1]
    again = bench("train", "--model", model, *SMALL, "--output", "x", "--json")
    assert json.loads(again.out)["reused"]
    assert "had finished in x before" in again.err


def test_a_margin_of_two_or_more_is_remarked_once(bench: Bench, model: Path) -> None:  # noqa: F811
    done = bench("train", "--model", model, *SMALL, "--output", "x", "--margin", "5")
    assert done.code == 0
    assert done.err.count("from 2 on the hinge never closes") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--margin", "0"], "--margin must be above 0, got 0.0"),
        (["--margin", "-1"], "--margin must be above 0, got -1.0"),
        (["--loss", "mnrl", "--margin", "0.1"], "the loss 'mnrl' has none"),
        (["--loss", "triplets"], "unknown loss 'triplets'; did you mean 'triplet'?"),
        (["--warm-up", "soon"], "--warm-up soon: a share of the steps (0.1), steps (500)"),
        (["--epochs", "0"], "--epochs must be at least 1, got 0"),
        (["--rate", "0"], "--rate must be above 0"),
        (["--held-out", "100"], "--held-out 100: at most half of the 24 training rows"),
        (["--examples", "4"], "4 examples are fewer than a batch of 8"),
        (["--threshold", "0.9999"], "has a neighbour of"),
        (["--examples-from", "nowhere"], "--examples-from nowhere: no file"),
        (["--model", "random"], "a baseline has nothing to train"),
        (["--task", "cr"], "cr is a transfer task"),
        (["--dropout", "0.5"], "give --examples or --dropout, not both"),
        (["--report-to", "nowhere"], "--report-to nowhere: "),
    ],
)
def test_bad_input_ends_with_2_before_any_work(
    arguments: list[str],
    said: str,
    bench: Bench,
    model: Path,  # noqa: F811
) -> None:
    words = ["train", "--model", model, *SMALL, "--output", "x", *arguments]
    done = bench(*words)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
    assert not Path("x/train.json").exists()


def test_a_folder_with_other_things_is_left_alone(bench: Bench, model: Path) -> None:  # noqa: F811
    Path("x").mkdir()
    Path("x/thesis.tex").write_text("years of work")
    done = bench("train", "--model", model, *SMALL, "--output", "x", "--overwrite")
    assert done.code == 2
    assert "is not empty (thesis.tex) and holds no run" in done.err
    assert Path("x/thesis.tex").read_text() == "years of work"


def test_examples_are_written_and_trained_on(bench: Bench, model: Path) -> None:  # noqa: F811
    words = ["--task", "mini", "--threshold", "-1", "--model", str(model), "-n", "32"]
    made = bench("examples", *words, "--output", "made")
    assert made.code == 0, made.err
    assert "32 examples" in made.out
    assert "solved for 32 examples" in Path("made/README.md").read_text()
    first = Path("made/train.parquet").read_bytes()
    bench("examples", *words, "--output", "again")
    assert Path("again/train.parquet").read_bytes() == first
    done = bench(
        *("train", "--model", model, "--task", "mini", "--examples-from", "made"),
        *("--batch-size", "8", "--epochs", "1", "--output", "x"),
    )
    assert done.code == 0, done.err
    idle = bench(
        *("train", "--model", model, "--task", "mini", "--examples-from", "made"),
        *("--neighbours", "4", "--output", "y"),
    )
    assert idle.code == 2
    assert "--examples-from: the examples are made already" in idle.err
    Path("thesis").mkdir()
    Path("thesis/README.md").write_text("years of work")
    refused = bench("examples", *words, "--output", "thesis")
    assert refused.code == 2
    assert "is not empty (README.md) and holds no examples" in refused.err
    pairs = bench(
        *("train", "--model", model, "--task", "mini", "--examples-from", "made"),
        *("--loss", "mnrl", "--output", "y"),
    )
    assert pairs.code == 2
    assert "the loss eats pairs, columns anchor, positive, label; found anchor" in pairs.err
