"""The folder that we offer to mteb: its data, metadata, statistics and results belong together."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mteb
import numpy as np
import pytest
import yaml
from datasets import disable_progress_bars
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.get_tasks import _TASKS_REGISTRY, _create_name_to_task_mapping
from mteb.results import TaskResult

from polarity_bench.files import read_json
from polarity_bench.tasks.catalogue import load_tasks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "upstream" / "mteb"
NAME = "ContrastOpinionRetrieval"
Row = dict[str, Any]


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def module() -> Any:
    spec = importlib.util.spec_from_file_location(NAME, FOLDER / "contrast_opinion_retrieval.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def task(module: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The task with its data in the folder, loaded by mteb."""
    disable_progress_bars()
    task = module.ContrastOpinionRetrieval()
    dataset = {"path": str(FOLDER / "dataset"), "revision": task.metadata.revision}
    task.metadata = task.metadata.model_copy(update={"dataset": dataset})
    with pytest.MonkeyPatch.context() as patch:  # HOME may not be writable
        patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        task.load_data()
        yield task


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "make_dataset.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_data_set_is_the_output_of_the_script() -> None:
    done = check(FOLDER)
    assert done.returncode == 0, done.stderr


def test_the_script_notices_a_changed_file(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "upstream" / "mteb"
    shutil.copytree(FOLDER, folder)
    contrast = Path("tasks", "polarity", "contrast")
    (tmp_path / contrast).mkdir(parents=True)
    shutil.copy(ROOT / contrast / "sentences.jsonl", tmp_path / contrast)
    assert check(folder).returncode == 0
    (folder / "dataset" / "queries" / "test.jsonl").write_text("")
    done = check(folder)
    assert done.returncode == 1
    assert re.search(r"queries.test\.jsonl: differs from sentences\.jsonl", done.stderr)


def test_same_topic_and_label_are_relevant_and_the_twin_is_not(task: Any) -> None:
    rows = rows_of(ROOT / "tasks" / "polarity" / "contrast" / "sentences.jsonl")
    of_text = {row["text"]: row for row in rows}
    data = task.dataset["default"]["test"]
    corpus = {row["id"]: of_text[row["text"]] for row in data["corpus"]}
    queries = {row["id"]: of_text[row["text"]] for row in data["queries"]}
    assert len(corpus) + len(queries) == len(rows)
    assert data["relevant_docs"].keys() == queries.keys()
    of_pair = {(row["pair"], row["label"]): i for i, row in corpus.items()}
    for query, relevant in data["relevant_docs"].items():
        wanted = (queries[query]["topic"], queries[query]["label"])
        same = {i for i, row in corpus.items() if (row["topic"], row["label"]) == wanted}
        assert relevant == dict.fromkeys(same, 1)
        other = {"positive": "negative", "negative": "positive"}[wanted[1]]
        twins = {of_pair[corpus[i]["pair"], other] for i in same}
        assert twins.isdisjoint(relevant)
        topic = {i for i, row in corpus.items() if row["topic"] == wanted[0]}
        assert topic == same | twins, "an encoder without polarity scores 0.5"


def test_every_field_of_the_metadata_is_filled(module: Any) -> None:
    metadata = module.ContrastOpinionRetrieval.metadata
    metadata._validate_metadata()
    assert metadata.is_filled()
    empty = {n for n in TaskMetadata.model_fields if getattr(metadata, n) in (None, "", [], {})}
    assert empty == {"adapted_from", "superseded_by"}
    assert set(TaskMetadata.model_fields) == metadata.model_fields_set


def test_the_metadata_is_that_of_the_task_file(module: Any) -> None:
    metadata, spec = module.ContrastOpinionRetrieval.metadata, load_tasks()["contrast"]
    assert metadata.license == spec.licence
    assert metadata.date == tuple(str(day) for day in spec.date or ())
    assert metadata.eval_langs == list(spec.languages)
    assert {*spec.domains} <= {*metadata.domains}


def test_the_name_is_free_in_mteb_and_here() -> None:
    ours = {spec.result_name for spec in load_tasks().values()}
    assert NAME not in ours | _TASKS_REGISTRY.keys()


def test_the_card_has_the_licence_and_the_counts(task: Any) -> None:
    text = (FOLDER / "dataset" / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    wanted, _ = task.metadata._create_dataset_card_data()
    for key in ("language", "license", "annotations_creators", "multilinguality"):
        assert front[key] == getattr(wanted, key), key
    assert set(wanted.tags) <= set(front["tags"])
    assert set(front["task_categories"]) <= set(wanted.task_categories)
    shown = {
        n: int(c.replace(",", "")) for n, c in re.findall(r"^\| `(\w+)` \| ([\d,]+)", text, re.M)
    }
    for config in front["configs"]:
        (file,) = config["data_files"]
        assert shown.pop(config["config_name"]) == len(rows_of(FOLDER / "dataset" / file["path"]))
    assert not shown
    assert task.metadata.bibtex_citation in text


def test_the_statistics_are_those_of_mteb(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskMetadata, "descriptive_stat_path", tmp_path / "statistics.json")
    task.calculate_descriptive_statistics(overwrite_results=True)
    made = json.loads((tmp_path / "statistics.json").read_text())
    assert made == json.loads(committed_statistics().read_text())
    assert made["test"]["num_queries"] == made["test"]["queries_text_statistics"]["unique_texts"]


def committed_statistics() -> Path:
    return FOLDER / "descriptive_stats" / "Retrieval" / f"{NAME}.json"


def committed_results() -> dict[str, TaskResult]:
    files = sorted((FOLDER / "results").glob(f"*/*/{NAME}.json"))
    return {file.parts[-3]: TaskResult.from_disk(file) for file in files}


def test_mteb_gives_the_committed_scores_of_the_random_baseline(task: Any) -> None:
    model = mteb.get_model("mteb/baseline-random-encoder")
    (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
    committed = committed_results()["mteb__baseline-random-encoder"]
    assert result.get_score() == pytest.approx(committed.get_score(), abs=0.001)
    data = task.dataset["default"]["test"]
    n_relevant = np.mean([len(documents) for documents in data["relevant_docs"].values()])
    assert result.get_score() == pytest.approx(n_relevant / len(data["corpus"]), abs=0.005)


def test_the_readme_shows_the_committed_scores(module: Any) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([\w/.-]+)` \| ([\w.-]+) \| (0\.\d+) \| (0\.\d+) \|", text, re.M)
    committed = committed_results()
    assert {name.replace("/", "__") for name, *_ in shown} == committed.keys()
    for name, revision, ndcg, precision in shown:
        result = committed[name.replace("/", "__")]
        (scores,) = result.scores["test"]
        assert ndcg == f"{scores['main_score']:.3f}"
        assert precision == f"{scores['precision_at_10']:.3f}"
        folder = FOLDER / "results" / name.replace("/", "__") / revision
        assert read_json(folder / "model_meta.json")["name"] == name
        assert result.dataset_revision == module.ContrastOpinionRetrieval.metadata.revision


# The sketch of `mteb.tasks`


def entry(package: str, tasks: Callable[[], object]) -> SimpleNamespace:
    value = f"{package}:tasks"
    return SimpleNamespace(
        dist=SimpleNamespace(name=package), name="x", value=value, load=lambda: tasks
    )


def broken() -> Iterator[object]:
    raise ImportError("no module named 'x'")


def lookup(name: str, *points: SimpleNamespace, environment: Mapping[str, str]) -> Any:
    """Run both blocks of the proposal, and return the class of a name, or None."""
    text = (FOLDER / "entry-point.md").read_text(encoding="utf-8")
    function, found = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    names: dict[str, Any] = {
        "cache": cache,
        "warnings": warnings,
        "AbsTask": mteb.AbsTask,
        "task_name": name,
        "entry_points": lambda group: {"mteb.tasks": points}[group],
        "os": SimpleNamespace(environ=environment),
        "_TASKS_REGISTRY": {"STS12": _TASKS_REGISTRY["STS12"]},
        "_create_name_to_task_mapping": _create_name_to_task_mapping,
    }
    exec(f"{function}\n{found}", names)
    return names["registry"].get(name)


def test_the_proposal_finds_a_task_of_a_package(module: Any) -> None:
    task = module.ContrastOpinionRetrieval
    assert lookup(NAME, entry("a", lambda: [task]), environment={}) is task
    assert lookup(NAME, entry("a", lambda: [task]), environment={"MTEB_PLUGINS": "0"}) is None


def test_the_proposal_reads_no_package_for_a_task_of_mteb() -> None:
    assert lookup("STS12", entry("a", broken), environment={}) is _TASKS_REGISTRY["STS12"]


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (broken, "ImportError: no module named 'x'"),
        (lambda: [object], "AttributeError: .* 'metadata'"),
        (lambda: 3, "TypeError: 'int' object is not iterable"),
        (lambda: [_TASKS_REGISTRY["STS12"]], "ValueError: names in use: STS12"),
    ],
)
def test_the_proposal_skips_a_broken_package(
    module: Any, tasks: Callable[[], object], reason: str
) -> None:
    task = module.ContrastOpinionRetrieval
    with pytest.warns(UserWarning, match=f"bad: mteb skips bad:tasks: {reason}"):
        found = lookup(NAME, entry("good", lambda: [task]), entry("bad", tasks), environment={})
    assert found is task


def test_the_proposal_keeps_the_first_of_two_packages_in_any_order(module: Any) -> None:
    first = module.ContrastOpinionRetrieval
    second = type("Second", (first,), {})
    points = entry("a", lambda: [first]), entry("b", lambda: [second])
    for order in (points, points[::-1]):
        with pytest.warns(UserWarning, match=f"b: mteb skips b:tasks: .* in use: {NAME}"):
            assert lookup(NAME, *order, environment={}) is first
