"""What users of earlier commits have on disk still loads, is reused and is resumed.

`artefacts/make_artefacts.py` made each archive at the commit that it is named for.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from standins import Bench, Done, call

ARCHIVES = sorted((Path(__file__).parent / "artefacts").glob("*.tar.xz"))
ENCODER = "polarity-bench/tiny"
MINI = ["--task-dir", "tasks"]
RUN = ["run", *MINI, "--tasks", "mini", "--k", "2,4", "--output", "results", "--no-store"]
TRAIN = ["train", "--model", ENCODER, "--task", "mini", *MINI, "--seed", "0", "--no-store"]
SMALL = ["--examples", "32", "--batch-size", "8", "--epochs", "2", "--held-out", "6"]
SMALL += ["--threshold", "-1", "--neighbours", "4", "--rate", "1e-3", "--checkpoint", "last"]
TUNED = ["--recipe", "axis", "--head", "tuned", "--batch-size", "8", "--epochs", "8"]
TUNED += ["--rate", "3e-3"]
SWEEP = ["sweep", "grid.toml", "--output", "sweep", "--workers", "1", *MINI]
FEWSHOT = ["fewshot", "--model", ENCODER, "--task", "little-mr", "--task-dir", "senteval/tasks"]
FEWSHOT += ["--data-dir", "senteval/data", "--loss", "cce", "--rows", "6", "--folds", "3"]
FEWSHOT += ["--epochs", "1", "--batch-size", "6", "--workers", "1", "--output", "fewshot"]


@pytest.fixture(scope="session", params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an unpacked archive, which no test may write to."""
    folder = tmp_path_factory.mktemp("artefacts")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


@pytest.fixture
def artefacts(unpacked: Path, tmp_path: Path) -> Path:
    """Return a copy of the unpacked folder."""
    return Path(shutil.copytree(unpacked, tmp_path / "artefacts"))


@pytest.fixture
def bench(
    artefacts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    """Run a command line in the copy, whose `hub` is the cache of the hub."""
    monkeypatch.chdir(artefacts)
    monkeypatch.setenv("HF_HOME", str(artefacts))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(artefacts / "hub"))

    def bench(*arguments: str | Path) -> Done:
        done = call(monkeypatch, capsys, *arguments)
        assert done.code == 0, done.err
        return done

    return bench


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_there_is_an_archive() -> None:
    assert ARCHIVES


def test_results_are_reused(bench: Bench, artefacts: Path) -> None:
    before = contents(artefacts / "results")
    assert len([name for name in before if name.endswith(".provenance.json")]) == 5
    for model in (["tfidf"], [ENCODER], ["runs/axis", "--strength", "-1,0,1"]):
        done = bench(*RUN, "--model", *model)
        assert "reused stored results" in done.err
        assert " encoded in " not in done.err
    after = contents(artefacts / "results")
    results = {name for name in before if not name.startswith("curves/")}
    assert {name: after[name] for name in results} == {name: before[name] for name in results}


def test_results_and_their_curve_make_a_board(bench: Bench, artefacts: Path) -> None:
    shown = bench("leaderboard", "results").out
    assert "1 (chosen here, best of " in shown
    assert "79.97 [64.63, 91.88]" in shown  # the front of the curve at k = 4
    compared = bench("compare", "tfidf", "tiny", "--task", "mini", "--results", "results").out
    assert "8 queries" in compared


def test_the_axis_folder_ranks_as_before(bench: Bench, artefacts: Path) -> None:
    (stored,) = (
        json.loads(path.read_bytes())["scores"]["test"][0]
        for path in artefacts.glob("results/axis/*/**/*PolarityRetrieval.json")
        if json.loads(path.with_suffix(".provenance.json").read_bytes())["encoder"]["strength"] == 1
    )
    words = [*RUN[:-2], "again", "--no-store", "--model", "runs/axis", "--strength", "1", "--json"]
    made = json.loads(bench(*words).out)
    scores = made["results"][0]["scores"]
    assert scores["polarity_at_4"] == stored["polarity_at_4"] == 1.0
    assert scores["similarity_at_4"] == pytest.approx(stored["similarity_at_4"], abs=1e-6)
    assert scores["joint_at_4"] == pytest.approx(stored["joint_at_4"], abs=1e-6)


@pytest.mark.parametrize("recipe", [SMALL, TUNED], ids=["margins", "axis"])
def test_a_finished_training_is_reused(bench: Bench, artefacts: Path, recipe: list[str]) -> None:
    output = artefacts / "runs" / ("axis" if recipe is TUNED else "margins")
    before = contents(output)
    done = bench(*TRAIN, *recipe, "--output", f"runs/{output.name}")
    assert "already finished" in done.err
    assert contents(output) == before


@pytest.mark.slow
def test_a_half_finished_sweep_is_resumed(bench: Bench, artefacts: Path) -> None:
    sweep = artefacts / "sweep"
    before = contents(sweep)
    ended = [name for name in before if name.startswith("state/") and name.endswith(".json")]
    assert len(ended) == 3
    assert "5 in all, 2 left" in bench(*SWEEP, "--dry-run").out
    bench(*SWEEP)
    after = contents(sweep)
    assert {name: after[name] for name in ended} == {name: before[name] for name in ended}
    results = {name: before[name] for name in before if name.startswith("results/")}
    assert {name: after[name] for name in results} == results
    weights = [name for name in after if name.endswith("/model.safetensors")]
    assert len(weights) == 4
    assert "mnrl" in bench("leaderboard", "sweep").out


def test_folds_are_resumed(bench: Bench, artefacts: Path) -> None:
    (file,) = (artefacts / "fewshot").rglob("*.queries.safetensors")
    before = load_file(file)
    assert len(before["fold"]) == 2  # of three
    bench(*FEWSHOT)
    after = load_file(file)
    assert len(after["fold"]) == 3
    assert all((after[name][:2] == values).all() for name, values in before.items())
