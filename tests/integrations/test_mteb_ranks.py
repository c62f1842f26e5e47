"""Ranks of anyone's results of mteb: reading, statistics, missing cells and damaged files."""

from __future__ import annotations

import json
import re
import tracemalloc
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel
from standins import Bench

from polarity_bench.boards.mteb_board import mteb_board
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.integrations.mteb_results import read_mteb
from polarity_bench.metrics.pairwise import holm_of_pairs, pairwise_t, rank_ranges

pytest.importorskip("mteb")
import mteb
from mteb.results import TaskResult


def result_of(task: str, rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The content of a result file as mteb 2 writes it."""
    return {
        "dataset_revision": "1",
        "task_name": task,
        "mteb_version": "2.3.0",
        "scores": rows,
        "evaluation_time": 1.0,
        "kg_co2_emissions": None,
    }


def row(score: float, subset: str = "default") -> dict[str, Any]:
    return {"main_score": score, "hf_subset": subset, "languages": ["eng-Latn"]}


def write(folder: Path, model: str, task: str, *rows: dict[str, Any], revision: str = "r1") -> Path:
    file = folder / "results" / model.replace("/", "__") / revision / f"{task}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result_of(task, {"test": list(rows)})))
    (file.parent / "model_meta.json").write_text(json.dumps({"name": model, "revision": revision}))
    return file


def folder_of(folder: Path, scores: pd.DataFrame) -> Path:
    for model, of_task in scores.iterrows():
        for task, score in of_task.dropna().items():
            write(folder, str(model), str(task), row(score))
    return folder


def table(n_encoders: int, n_tasks: int, seed: int = 3) -> pd.DataFrame:
    """Scores with a common difficulty of each task and a level of each encoder."""
    generator = np.random.default_rng(seed)
    levels = np.linspace(0.7, 0.5, n_encoders)[:, None]
    scores = (
        levels
        + generator.normal(0, 0.1, n_tasks)
        + generator.normal(0, 0.02, (n_encoders, n_tasks))
    )
    names = [f"org/m{i}" for i in range(n_encoders)]
    return pd.DataFrame(scores, names, [f"Task{i:02}" for i in range(n_tasks)])


# Reading


def test_of_two_copies_the_users_own_counts_as_in_mteb(tmp_path: Path) -> None:
    folder_of(tmp_path, table(3, 3))
    folder_of(tmp_path / "remote", table(3, 3) / 2)
    with pytest.warns(InputWarning, match=r"the first is used \(9 files left out\)"):
        found = read_mteb(tmp_path)
    np.testing.assert_array_equal(found, table(3, 3))
    mteb_reads = mteb.ResultCache(str(tmp_path)).load_results().join_revisions().to_dataframe()
    of_task = mteb_reads.set_index("task_name")[[*found.index]].T.sort_index(axis=1)
    np.testing.assert_allclose(of_task, found)


def test_only_experiments_of_a_revision_are_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "experiments", table(2, 2)).parent
    write(folder / "experiments", "org/m0", "Task00", row(0.1), revision="r1/experiments/limit_9")
    np.testing.assert_array_equal(read_mteb(folder), table(2, 2))


def test_the_scores_are_those_of_the_files(tmp_path: Path) -> None:
    scores = table(4, 5)
    found = read_mteb(folder_of(tmp_path, scores))
    assert [*found.index] == [*scores.index]
    assert [*found] == [*scores]
    np.testing.assert_array_equal(found, scores)


def test_a_score_is_the_mean_over_subsets_and_missing_if_one_is(tmp_path: Path) -> None:
    write(tmp_path, "org/a", "Two", row(0.5, "de"), row(0.7, "fr"))
    write(tmp_path, "org/b", "Two", row(0.9, "de"))
    found = read_mteb(tmp_path)["Two"]
    assert found["org/a"] == pytest.approx(0.6)
    assert np.isnan(found["org/b"])


def test_only_the_splits_and_subsets_of_a_benchmark_are_read(tmp_path: Path) -> None:
    english = {**row(0.25, "en"), "languages": ["eng-Latn"]}
    german = {**row(0.75, "de"), "languages": ["deu-Latn"]}
    write(tmp_path, "org/a", "AmazonCounterfactualClassification", english, german)
    write(tmp_path, "org/a", "SomethingElse", row(0.5))
    found = read_mteb(tmp_path, "MTEB(eng, v2)")
    assert found.to_dict() == {"AmazonCounterfactualClassification": {"org/a": 0.25}}


def test_only_the_subsets_that_occur_take_memory(tmp_path: Path) -> None:
    """Two tasks of mteb have 43,000 subsets that no other task has."""
    tasks = [f"Task{i:02}" for i in range(100)]
    for model in ("org/a", "org/b"):
        for task in tasks:
            write(tmp_path, model, task, *(row(0.5, f"{task}-{i}") for i in range(30)))
    write(tmp_path, "org/c", tasks[0], row(float("nan"), "Task00-0"))
    tracemalloc.start()
    found = read_mteb(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.loc["org/b"].to_dict() == dict.fromkeys(tasks, 0.5)
    assert found.loc["org/c"].isna().all()
    assert peak < 25e6


def test_revisions_of_a_model_share_a_row(tmp_path: Path) -> None:
    write(tmp_path, "org/a", "One", row(0.5))
    write(tmp_path, "org/a", "Two", row(0.7), revision="r2")
    assert read_mteb(tmp_path).to_dict("index") == {"org/a": {"One": 0.5, "Two": 0.7}}


def test_results_of_experiments_are_not_mixed_in(tmp_path: Path) -> None:
    file = write(tmp_path, "org/a", "One", row(0.5))
    other = file.parent / "experiments" / "dim_8" / "One.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps(result_of("One", {"test": [row(0.1)]})))
    assert read_mteb(tmp_path).loc["org/a", "One"] == 0.5


def test_other_files_beside_the_results_are_no_results(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, table(2, 3))
    (folder / "statistics.json").write_text("{}")
    (folder / "curves").mkdir()
    (folder / "curves" / "one.json").write_text("{}")
    assert read_mteb(folder).shape == (2, 3)


def test_only_older_layouts_need_the_reader_of_mteb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recent = write(tmp_path, "org/a", "STS12", {**row(0.5), "ndcg_at_10": 0.1, "nested": {"x": 1}})
    content = json.loads(recent.read_text()) | {"evaluation_phases": [], "date": 1.7e9}
    recent.write_text(json.dumps(content))
    older = write(tmp_path, "org/b", "STS12")
    scores = {"cos_sim": {"pearson": 0.1, "spearman": 0.75}, "evaluation_time": 3}
    older.write_text(
        json.dumps({"mteb_dataset_name": "STS12", "mteb_version": "1.0.3", "test": scores})
    )
    read: list[Path] = []
    whole = TaskResult.from_disk
    expected = {file: whole(file).get_score() for file in (recent, older)}

    def from_disk(path: Path) -> TaskResult:
        read.append(path)
        return whole(path)

    monkeypatch.setattr(TaskResult, "from_disk", from_disk)
    found = read_mteb(tmp_path)["STS12"]
    assert [*found] == [*expected.values()] == [0.5, 0.75]
    assert read == [older]


NO_NUMBERS = ("[0.5]", '"0.5"', "9" * 400)


@pytest.mark.parametrize(
    "content",
    ["", '{"task_name": "Tas', "[1, 2]", '{"scores": 5}', "[" * 100_000, *NO_NUMBERS],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    folder = folder_of(tmp_path, table(3, 3))
    file = next(folder.rglob("Task01.json"))
    if content in NO_NUMBERS:  # as the main score
        content = re.sub(r'("main_score": )[^,}]+', rf"\g<1>{content}", file.read_text())
    file.write_text(content)
    with pytest.raises(InputError, match=rf"{file.name} \(.*\): not a result that mteb can read"):
        read_mteb(folder)


def test_unknown_names_are_answered_with_near_ones(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, table(2, 3))
    with pytest.raises(InputError, match=r"no benchmark 'MTEB\(eng v2\)'; did you mean 'MTEB\(eng"):
        read_mteb(folder, "MTEB(eng v2)")
    with pytest.raises(InputError, match="no result of 'Task0'; did you mean 'Task0"):
        read_mteb(folder, tasks=["Task0"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no results of mteb; expected files MODEL/REVISION"):
        read_mteb(tmp_path / "empty")


# Statistics


def test_p_values_are_those_of_scipy() -> None:
    values = table(5, 9).to_numpy()
    found = pairwise_t(values)
    for i, j in combinations(range(5), 2):
        assert found.p[i, j] == pytest.approx(ttest_rel(values[i], values[j]).pvalue, rel=1e-9)
        assert found.p[j, i] == found.p[i, j]
    np.testing.assert_array_equal(np.diagonal(found.p), 1)


def test_a_constant_difference_is_certain_and_no_difference_is_none() -> None:
    p = pairwise_t(np.array([[1.0, 2.0], [1.0, 2.0], [0.5, 1.5]])).p
    assert p[0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("values", [np.ones((3, 1)), np.array([[1.0, np.nan], [1.0, 2.0]])])
def test_too_few_or_undefined_scores_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected defined scores"):
        pairwise_t(values)


def test_ranks_intervals_and_the_finding_equal_slow_loops(tmp_path: Path) -> None:
    scores = table(8, 12)
    board = mteb_board(read_mteb(folder_of(tmp_path, scores)), is_selected=True)
    ranking = board.tables[0]
    values = scores.loc[[*ranking.heads[1][1]]].to_numpy()
    means = values.mean(axis=1)
    assert [*means] == sorted(means, reverse=True)
    assert ranking.columns[0].values == pytest.approx([*means])
    for own, interval in zip(values, ranking.columns[0].intervals, strict=True):
        expected = student.interval(0.95, 11, own.mean(), own.std(ddof=1) / np.sqrt(12))
        assert interval == pytest.approx(expected)
    p = np.ones((8, 8))
    for i, j in combinations(range(8), 2):
        p[i, j] = p[j, i] = ttest_rel(values[i], values[j]).pvalue
    ranges = rank_ranges(means, holm_of_pairs(p))
    assert [*ranking.heads[0][1]] == [f"{a}–{b}" if a < b else str(a) for a, b in ranges]  # noqa: RUF001
    draws = np.random.default_rng(1).integers(0, 12, (10_000, 12))
    apart = 0
    for i in range(7):
        low, high = np.percentile((values[i] - values[i + 1])[draws].mean(axis=1), [2.5, 97.5])
        apart += low > 0 or high < 0
    assert f"cannot separate {7 - apart} of 7 pairs of neighbours" in board.finding


def test_encoders_with_missing_tasks_have_no_rank_and_are_shown(tmp_path: Path) -> None:
    scores = table(5, 4)
    scores.loc["org/m1", "Task02"] = np.nan
    board = mteb_board(read_mteb(folder_of(tmp_path, scores)), is_selected=True)
    assert [len(each.heads[0][1]) for each in board.tables] == [4, 4, 1]
    assert board.tables[2].heads[0][1] == ["org/m1"]
    assert any("Without a rank, because a task is missing: 1 encoder" in n for n in board.notes)


def test_rare_tasks_are_left_out_unless_they_are_selected(tmp_path: Path) -> None:
    scores = table(6, 5)
    scores.loc[scores.index[1:], "Task03"] = np.nan
    board = mteb_board(scores)
    assert board.tables[0].heading == "Mean over 4 tasks"
    assert "Left out, because too few encoders have them: Task03." in board.notes
    with pytest.raises(InputError, match=r"got 1 encoder with all 5 tasks; .* are Task03"):
        mteb_board(scores, is_selected=True)


def test_few_shared_tasks_are_ranked_or_counted() -> None:
    """The three tasks of two encoders are ranked, although a third encoder has nine tasks."""
    scores = table(3, 9)
    scores.iloc[1:, 3:] = np.nan
    scores.iloc[2, 1:] = np.nan
    assert mteb_board(scores).finding.startswith("2 encoders, 3 tasks.")
    scores.iloc[1, 2] = np.nan
    message = "got 1 encoder with all 9 tasks; of 3 encoders, no two share more than 2 tasks; the"
    with pytest.raises(InputError, match=message):
        mteb_board(scores, is_selected=True)
    with pytest.raises(InputError, match="of 3 encoders, no two share more than 2 tasks"):
        mteb_board(scores)


# The command


def test_the_command_prints_ranks_and_writes_a_board(bench: Bench, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "theirs", table(4, 6))
    done = bench("leaderboard", folder, "--from", "mteb", "--title", "Mine")
    assert done.code == 0
    assert done.out.startswith("# Mine\n")
    assert "org/m0" in done.out
    out = tmp_path / "board"
    assert bench("leaderboard", folder, "--from", "mteb", "-o", out).code == 0
    assert {"README.md", "table.csv", "table.tex"} <= {file.name for file in out.iterdir()}
    unknown = bench("leaderboard", folder, "--from", "mteb", "--models", "org/m9")
    assert unknown.code == 2
    assert "no results of 'org/m9'; did you mean" in unknown.err
    assert bench("leaderboard", folder, "--benchmark", "MTEB(eng, v2)").code == 2


def test_tasks_of_a_benchmark_that_no_encoder_has_are_named(bench: Bench, tmp_path: Path) -> None:
    """A mean over fewer tasks, or over one of two subsets, is not that of the benchmark."""
    for model, level in (("org/a", 0.5), ("org/b", 0.6)):
        for task in mteb.get_benchmark("Encodechka").tasks:
            name, rows = task.metadata.name, [row(level, task.hf_subsets[0])]
            if name != "XNLI":
                file = write(tmp_path, model, name)
                content = result_of(name, dict.fromkeys(task.eval_splits, rows))
                file.write_text(json.dumps(content))
    command = ("leaderboard", tmp_path, "--from", "mteb", "--benchmark", "Encodechka")
    done = bench(*command)
    assert "## Mean over 5 tasks" in done.out
    lacking = "RuNLUIntentClassification, XNLI"
    assert f"because no encoder has all their splits and subsets: {lacking}." in done.out
    alone = bench(*command, "--tasks", lacking)
    assert f"the tasks with the fewest encoders are {lacking}; select others" in alone.err
    twice = bench(*command, "--models", "org/a,org/a")
    assert "got 1 encoder with all 5 tasks" in twice.err
