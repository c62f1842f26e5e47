"""Search of a paper's grid: which settings are run, how many folds, and which one is chosen."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from standins import Done, Workshop, call

from polarity_bench.cross_validation.fold_results import Experiment, read_experiments
from polarity_bench.cross_validation.methods import FineTuning, FoldContext, Method, Predictions
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.cross_validation.search import GRIDS, search, settings_of
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.training.losses.metric import SupCon

Calls = list[tuple[float, int]]
"""Temperature and fold of each training."""
FOLDS = Protocol(folds=12, rows=4)


@pytest.fixture
def data(workshop: Workshop) -> LabelledTexts:
    workshop.labelled_lines()
    access: DataAccess = workshop.access
    return LabelledTexts.of("little-mr", access, workshop.tasks)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Have a method predict the better, the nearer its temperature is to 7."""
    called: Calls = []

    def predict(self: FineTuning, fold: FoldContext) -> Predictions:
        assert isinstance(self.loss, SupCon)
        temperature = self.loss.temperature
        called.append((temperature, fold.seed % 1000))
        truth = fold.data.labels[fold.test]
        wrong = np.arange(len(truth)) < abs(temperature - 7)
        return Predictions({"dense": np.where(wrong, 1 - truth, truth)})

    monkeypatch.setattr(FineTuning, "predict", predict)
    return called


@pytest.fixture
def made(data: LabelledTexts, tiny_model: Path) -> list[Experiment]:
    methods: list[Method] = [FineTuning(loss=SupCon(temperature=t)) for t in (9, 5, 3, 7, 2, 6, 8)]
    offline = EncoderOptions(offline=True)
    return [Experiment(method, data, FOLDS, str(tiny_model), offline) for method in methods]


def test_the_full_grid_runs_each_setting_on_half_of_the_folds(
    made: list[Experiment], calls: Calls, tmp_path: Path
) -> None:
    (result,) = search(made, tmp_path / "out")
    assert Counter(temperature for temperature, _ in calls) == {
        **dict.fromkeys((9, 5, 3, 2, 6, 8), 6),
        7: 12,
    }
    assert {fold for temperature, fold in calls if temperature != 7} == set(range(6))
    assert (result.training or {})["title"] == "CCE + SupCon (temperature 7), chosen from 7"
    # No fold that chose the setting is in its score.
    assert result.arrays["fold"].tolist() == [6, 7, 8, 9, 10, 11]
    assert result.main.n == 6
    assert result.main.mean == 1


def test_halving_drops_those_that_lose_and_chooses_the_same(
    made: list[Experiment], calls: Calls, tmp_path: Path
) -> None:
    (whole,) = search(made, tmp_path / "whole")
    calls.clear()
    (halved,) = search(made, tmp_path / "out", halving=True)
    assert Counter(calls) == Counter({(t, 0): 1 for t in (9, 5, 3, 2, 6, 8)}) + Counter(
        {(7, fold): 1 for fold in range(12)}
    )
    assert halved.scores == whole.scores
    assert (halved.training or {})[
        "title"
    ] == "CCE + SupCon (temperature 7), chosen from 7 by halving"
    assert halved.key.digest != whole.key.digest


def test_each_way_of_predicting_has_its_own_choice(
    made: list[Experiment], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without proxies 7 is best, with them 2; both reach the last folds, and 3 does not."""

    def predict(self: FineTuning, fold: FoldContext) -> Predictions:
        assert isinstance(self.loss, SupCon)
        truth = fold.data.labels[fold.test]
        classes = {}
        for way, best in (("dense", 7), ("proxies", 2)):
            wrong = np.arange(len(truth)) < 2 * abs(self.loss.temperature - best)
            classes[way] = np.where(wrong, 1 - truth, truth)
        return Predictions(classes)

    monkeypatch.setattr(FineTuning, "predict", predict)
    results = search(made, tmp_path / "out")
    chosen = [each.key.protocol["method"]["temperature"] for each in results]
    assert chosen == [7, 2]
    assert [[str(key) for key in each.scores] for each in results] == [
        ["accuracy", "macro_f1"],
        ["accuracy_proxies", "macro_f1_proxies"],
    ]
    assert [each.main.mean for each in results] == [1, 1]
    assert {each.key.digest for each in read_experiments(tmp_path / "out")} == {
        each.key.digest for each in results
    }
    (same,) = {
        each.key.protocol["method"]["temperature"] for each in search(made[3:4], tmp_path / "one")
    }
    assert same == 7


def test_equal_scores_choose_the_first(
    made: list[Experiment], calls: Calls, tmp_path: Path
) -> None:
    (result,) = search([made[5], made[6]], tmp_path / "out")  # 6 and 8 are equally far from 7
    assert calls
    assert result.key.protocol["method"]["temperature"] == 6


def test_the_result_is_the_only_one_in_its_folder_and_nothing_is_run_again(
    made: list[Experiment], calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    (first,) = search(made, Path())
    n_runs = len(calls)
    (again,) = search(made, tmp_path / "out")
    assert len(calls) == n_runs == 6 * 6 + 12
    (stored,) = read_experiments(tmp_path / "out")
    assert stored.scores == first.scores == again.scores
    assert len(read_experiments(tmp_path / "out-search")) == 7


@pytest.mark.parametrize(
    ("protocol", "loss", "n"),
    [
        ("few-shot", "cce", 1),
        ("few-shot", "frozen", 1),
        ("few-shot", "triplet", 5 * 5),
        ("few-shot", "npairs", 5),
        ("few-shot", "supcon", 5 * 5),
        ("few-shot", "proxynca", 5 * 11),
        ("few-shot", "softtriple", 5 * 4 * 5 * 7 * 6),
        ("few-shot", "proxyanchor", 5 * 4 * 6),
        ("triple-entropy", "softtriple", 5 * 3 * 5 * 7 * 7),
        ("triple-entropy", "supcon", 1),
    ],
)
def test_the_grids_are_the_papers(protocol: str, loss: str, n: int) -> None:
    methods = settings_of(loss, protocol, {})
    assert len(methods) == n
    assert len(set(map(repr, methods))) == n


def test_the_grid_of_triple_entropy_is_that_of_its_sweep() -> None:
    file = resources.files("polarity_bench") / "sweeps" / "grids" / "triple-entropy.toml"
    (block,) = tomllib.loads(file.read_text(encoding="utf-8"))["cross-validate"]
    for name, values in GRIDS["triple-entropy"]["softtriple"].items():
        assert block[name] == list(values)


def test_grids_are_in_order() -> None:
    grids = [grid for of_protocol in GRIDS.values() for grid in of_protocol.values()]
    for values in (values for grid in grids for values in grid.values()):
        assert all(one < other for one, other in pairwise(values))


def test_what_is_given_is_not_searched() -> None:
    methods = settings_of("supcon", "few-shot", {"beta": 0.5, "rate": 1e-4})
    assert [(each.beta, each.rate) for each in methods if isinstance(each, FineTuning)] == [
        (0.5, 1e-4)
    ] * 5


def test_the_command_compares_the_chosen_setting_with_cross_entropy(
    workshop: Workshop,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workshop.labelled_lines()
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments)

    places: list[str | Path] = [
        "--task-dir",
        workshop.tasks,
        "--data-dir",
        workshop.data,
        "--model",
        tiny_model,
    ]
    few = ["--folds", "4", "--rows", "4", "--epochs", "1", "--workers", "1", "-o", "out"]
    words: list[str | Path] = [
        "fewshot",
        *places,
        "--task",
        "little-mr",
        "--loss",
        "cce,npairs",
        *few,
    ]
    done = run(*words, "--search", "halving")
    assert done.code == 0, done.err
    (row,) = (line for line in done.out.splitlines() if line.startswith("| CCE + NPairs"))
    assert ", chosen from 5 by halving" in row
    assert "(2)" in row
    assert "In brackets: number of folds with a score, if not all 4." in done.out
    assert len(read_experiments(tmp_path / "out-search")) == 5
    alone = run(*words, "--search", "halving", "--loss", "npairs")
    assert alone.code == 0, alone.err
    assert not re.search(r"\b0 cross-validations", alone.err)
    # The stored results show the same board, without the settings that lost.
    report = run("fewshot", "--report", "-o", "out")
    assert report.code == 0, report.err
    assert report.out == done.out
