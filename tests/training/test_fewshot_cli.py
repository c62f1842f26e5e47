"""`fewshot` as a user meets it: tables, what is done again, what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from standins import Bench, Done, Workshop, call

from polarity_bench.boards.fewshot_tables import read_board
from polarity_bench.cross_validation.fold_results import read_experiments

FEW = ["--folds", "3", "--rows", "6", "--workers", "1"]
QUICK = ["--epochs", "1", "--batch-size", "6"]


@pytest.fixture
def bench(
    tmp_path: Path,
    workshop: Workshop,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run `fewshot` in this process, with small transfer tasks."""
    workshop.labelled_lines()
    workshop.trec()
    monkeypatch.chdir(tmp_path)
    places: list[str | Path] = [
        "--task-dir",
        workshop.tasks,
        "--data-dir",
        workshop.data,
        "--model",
        tiny_model,
    ]
    before: list[str | Path] = ["fewshot", *places, "--task", "little-mr", *FEW]

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *before, *arguments)  # of an option given twice, the last

    return bench


def cells(text: str) -> dict[str, list[str]]:
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {first.strip(): [cell.strip() for cell in others] for first, *others in rows}


def test_several_losses_make_one_table_and_are_not_run_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polarity_bench.cross_validation.methods import FineTuning, Frozen

    words = ["--loss", "cce,softtriple,frozen", *QUICK, "-o", "out"]
    done = bench(*words)
    assert done.code == 0, done.err
    shown = list(cells(done.out.split("###")[0]))
    assert set(shown[1:5]) == {
        "CCE (epochs 1, batch_size 6)",
        "CCE + SoftTriple (epochs 1, batch_size 6)",
        "CCE + SoftTriple (epochs 1, batch_size 6) + inf",
        "Frozen + logistic regression",
    }
    assert shown[5:] == ["Majority class", "Guesses by class prior"]
    assert len(list(Path("out").rglob("little-mr.json"))) == 3
    with monkeypatch.context() as patch:
        for method in (Frozen, FineTuning):
            patch.setattr(method, "predict", None)
        again = bench(*words)
        assert (again.code, again.out) == (0, done.out)
        stored = bench("--report", "-o", "out")
    assert stored.code == 0
    assert sorted(stored.out.splitlines()) == sorted(done.out.splitlines())


def test_what_is_named_twice_is_one(bench: Bench) -> None:
    once = bench("--loss", "cce,frozen", *QUICK, "-o", "out")
    twice = bench(
        "--loss", "cce,frozen,frozen", "--task", "little-mr,little-mr", *QUICK, "-o", "out"
    )
    assert (twice.code, twice.out) == (0, once.out)


def test_a_rate_of_proxies_is_of_those_that_have_some(bench: Bench) -> None:
    done = bench("--loss", "supcon,proxynca", "--proxy-rate", "0.1", *QUICK)
    titles = {title for title in cells(done.out.split("###")[0]) if "proxy_rate" in title}
    assert titles == {
        "CCE + ProxyNCA (epochs 1, batch_size 6, proxy_rate 0.1)",
        "CCE + ProxyNCA (epochs 1, batch_size 6, proxy_rate 0.1) + inf",
    }


def test_json_holds_every_fold(bench: Bench) -> None:
    done = bench("--loss", "frozen", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    (found,) = said["experiments"]
    assert found["measure"] == "macro_f1"
    assert (found["task"], found["protocol"]["method"]["name"]) == ("little-mr", "frozen")
    assert found["title"] == "Frozen + logistic regression"
    assert [fold["fold"] for fold in found["folds"]] == [0, 1, 2]
    assert all(fold["seconds"] > 0 for fold in found["folds"])
    values = [fold["macro_f1"] for fold in found["folds"]]
    assert found["scores"]["macro_f1"] == pytest.approx(sum(values) / 3)
    stored = json.loads(bench("--report", "--json").out)
    assert stored == said


def test_several_tasks_and_seeds(bench: Bench) -> None:
    done = bench("--loss", "frozen", "--seeds", "1,2", "--task", "little-mr,little-trec")
    assert done.code == 0, done.err
    assert "tiny, 6 rows, 3 folds, seeds 1, 2" in done.out
    assert cells(done.out.split("###")[0])["method"] == ["little-mr", "little-trec", "mean"]
    assert cells(done.out)["Frozen + logistic regression"][-2] == "6"


def test_the_protocol_of_triple_entropy(bench: Bench) -> None:
    words = ["--loss", "frozen", "--protocol", "triple-entropy", "--rows", "all"]
    done = bench(*words, "--sample", "30", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    (found,) = said["experiments"]
    assert found["measure"] == "accuracy"
    assert found["protocol"]["seeds"] == [2, 16, 128, 2048]
    assert [(fold["train"], fold["test"]) for fold in found["folds"]] == [(20, 10)] * 12
    assert "accuracy, times 100." in bench("--report").out
    assert json.loads(bench("--report", "--json").out) == said
    whole = bench(*words, "--sample", "all", "--seeds", "2", "--json")
    (found,) = json.loads(whole.out)["experiments"]
    assert {fold["train"] + fold["test"] for fold in found["folds"]} == {40}


def test_layers_and_pooling_are_taken_by_every_method(bench: Bench) -> None:
    done = bench("--loss", "cce,frozen", "--layers", "1", "--pooling", "first", *QUICK)
    assert done.code == 0, done.err
    assert done.out.count("## tiny, first layer, first pooling, 6 rows") == 1


@pytest.mark.slow
def test_setfit_stands_beside(bench: Bench) -> None:
    done = bench("--loss", "cce,setfit", *QUICK, "--json")
    assert done.code == 0, done.err
    _, found = json.loads(done.out)["experiments"]
    assert found["title"] == "SetFit (batch_size 6)"
    assert len(found["folds"]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--loss", "softriple"], "--loss: unknown loss 'softriple'; did you mean 'softtriple'"),
        (["--loss", ","], "--loss: expected names separated by commas, got ','"),
        (["--loss", "cce", "--margin", "1"], "--margin: none of cce takes this parameter"),
        (
            ["--loss", "cce,frozen", "--beta", "0.5"],
            "--beta: none of cce, frozen takes this parameter",
        ),
        (["--loss", "supcon", "--beta", "1.5"], "--beta must be at most 1, got 1.5"),
        (["--loss", "supcon", "--temperature", "0"], "--temperature must be above 0"),
        (["--protocol", "few-shots"], "unknown protocol 'few-shots'; did you mean 'few-shot'"),
        (["--rows", "10,20"], "--rows must be an integer or 'all', got '10,20'"),
        (["--rows", ""], "--rows must be an integer or 'all', got ''"),
        (["--sample", ""], "--sample must be an integer or 'all', got ''"),
        (["--seeds", ""], "--seeds must be distinct integers"),
        (["--rows", "31"], "--rows 31: the fold has 2"),
        (["--sample", "few"], "--sample must be an integer or 'all', got 'few'"),
        (["--seeds", "1,1"], "--seeds must be distinct integers"),
        (["--seeds", "one"], "--seeds: expected integers separated by commas, got one"),
        (["--seeds", "5000000"], "--seeds must be distinct integers from 0 to 4,294,966"),
        (["--loss", "supcon,cce", "--proxy-rate", "1"], "--proxy-rate: none of supcon, cce takes"),
        (["--measure", "f1"], "--measure: unknown value 'f1'"),
        (["--device", "tpu"], "--device tpu: not usable on this machine"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--report", "-o", "nowhere"], "--output nowhere: the folder contains no results"),
    ],
)
def test_bad_input_ends_with_2_before_any_work(
    bench: Bench, arguments: list[str], said: str
) -> None:
    done = bench(*arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
    assert not Path("results").exists()


def test_no_task_is_refused(bench: Bench) -> None:
    assert "--task: expected names separated by commas, got ','" in bench("--task", ",").err
    assert "did you mean 'little-mr'" in bench("--task", "litle-mr").err


def test_a_missing_package_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarity_bench.errors.find_spec", lambda _: None)
    done = bench("--loss", "frozen,supcon")
    assert done.code == 2
    assert "the loss 'supcon' needs pytorch_metric_learning; in the clone" in done.err
    assert "pip install -e '.[setfit]'" in bench("--loss", "setfit").err


def test_help_says_the_defaults(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # narrower lines break words at hyphens
    done = bench("--help")
    said = " ".join(done.out.split())
    assert "cce, triplet, npairs, supcon, proxynca, softtriple, proxyanchor, setfit" in said
    assert "weight of cross-entropy in training and inference [default: 0.5; cce: 1]" in said


def test_a_board_shows_the_command_that_makes_each_row_and_it_makes_the_same_folds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ["--layers", "1", "--sample", "16", "--seeds", "1,2", "--folds", "2"]
    words = ["--loss", "cce,softtriple,frozen", *QUICK, *own, "--beta", "0.75", "--workers", "1"]
    done = bench(*words, "--prompt", "a ", "-o", "out")
    assert done.code == 0, done.err
    board = read_board(Path("out"))
    rows = [key for table in board.tables for key in table.details if key]
    assert len(rows) == 8, "three methods, one with proxies too, in the overview and in the task's"
    assert set(rows) == set(board.details)
    (command,) = {detail.command for detail in board.details.values()}
    assert all(detail.facts["folds"] == "4" for detail in board.details.values())
    assert all(Path("out", *detail.files).is_file() for detail in board.details.values())
    program, command, *made_by = shlex.split(command)
    assert (program, command) == ("polarity-bench", "fewshot")
    again = bench(*made_by, "-o", "again")
    assert again.code == 0, again.err
    first, second = (
        {result.key.digest: result.scores for result in read_experiments(Path(folder))}
        for folder in ("out", "again")
    )
    assert len(first) == 3
    assert first == second
