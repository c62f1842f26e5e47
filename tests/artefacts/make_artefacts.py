"""Write `COMMIT.tar.xz`: what users of a release have on disk, which later code must still load.

Run this script in a checkout of the commit, with the checkout's environment active:

    python tests/artefacts/make_artefacts.py /tmp/artefacts

The archive holds a tiny encoder in the layout of the hub's cache (`hub`), two task folders
(`tasks`, `senteval`), results with values per query and a curve (`results`), an axis folder and a
margins folder (`runs`), a half-finished sweep (`sweep`, with `grid.toml`) and the first folds of
an experiment (`fewshot`). `tests/test_artefacts.py` loads them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from safetensors.numpy import load_file, save_file
from standins import Workshop, tiny_encoder, write_task

ENCODER = "polarity-bench/tiny"
COMMIT = "c" * 40  # of the hub's repository, which exists in the archive alone
GRID = """\
title = "Half-finished"

[all]
model = "polarity-bench/tiny"
task = "mini"

[all.margins]
examples = 32
batch_size = 8
epochs = 1
threshold = -1
held_out = 0
neighbours = 4
rate = 1e-3
checkpoint = "last"

[[train]]
loss = ["triplet", "mnrl"]
seed = [0, 1]
"""


def main() -> None:
    output = Path(sys.argv[1]).absolute()
    checkout = Path(__file__).parent.parent.parent
    named = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(named, check=True, capture_output=True, text=True).stdout.strip()
    folder = output / commit
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ |= {
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "POLARITY_BENCH_CACHE": str(output / "cache"),
        "PYTHONPATH": str(checkout),
    }
    write_data(folder)
    command = [sys.executable, "-m", "polarity_bench"]
    mini = ["--task-dir", "tasks"]
    train = ["train", "--model", ENCODER, "--task", "mini", *mini, "--seed", "0"]
    run = ["run", *mini, "--tasks", "mini", "--output", "results", "--k", "2,4"]
    small = ["--examples", "32", "--batch-size", "8", "--epochs", "2", "--held-out", "6"]
    small += ["--threshold", "-1", "--neighbours", "4", "--rate", "1e-3", "--checkpoint", "last"]
    tuned = ["--head", "tuned", "--batch-size", "8", "--epochs", "8", "--rate", "3e-3"]
    few = ["fewshot", "--model", ENCODER, "--task", "little-mr", "--task-dir", "senteval/tasks"]
    few += ["--data-dir", "senteval/data", "--loss", "cce", "--rows", "6", "--folds", "3"]
    few += ["--epochs", "1", "--batch-size", "6", "--workers", "1", "--output", "fewshot"]
    for words in (
        [*run, "--model", "tfidf", "--model", ENCODER, "--no-store"],
        [*train, *small, "--output", "runs/margins", "--no-store"],
        [*train, "--recipe", "axis", *tuned, "--output", "runs/axis", "--no-store"],
        [*run, "--model", "runs/axis", "--strength", "-1,0,1", "--no-store"],
        few,
    ):
        subprocess.run([*command, *words], cwd=folder, check=True)
    cut_folds(folder / "fewshot", n_folds=2)
    sweep = [*command, "sweep", "grid.toml", "--output", "sweep", "--workers", "1", *mini]
    interrupt_sweep(sweep, folder, n_items=3)
    for path in [*folder.rglob("*.lock"), *folder.rglob("logs/*")]:
        path.unlink()
    with tarfile.open(output / f"{commit}.tar.xz", "w:xz") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, str(path.relative_to(output)), recursive=False)


def write_data(folder: Path) -> None:
    """Write the encoder, both task folders and the grid."""
    snapshots = folder / "hub" / f"models--{ENCODER.replace('/', '--')}"
    tiny_encoder(snapshots / "snapshots" / COMMIT)
    shutil.rmtree(snapshots / "snapshots" / f"{COMMIT}-bert")
    (snapshots / "refs").mkdir()
    (snapshots / "refs" / "main").write_text(COMMIT)
    (folder / "tasks").mkdir()
    write_task(folder / "tasks")
    Workshop(folder / "senteval").labelled_lines()
    (folder / "grid.toml").write_text(GRID)


def cut_folds(fewshot: Path, n_folds: int) -> None:
    """Leave the first folds, as a run does that is killed while it writes its result."""
    for file in fewshot.rglob("*.queries.safetensors"):
        save_file({name: values[:n_folds] for name, values in load_file(file).items()}, file)
        stem = file.name.partition(".")[0]
        for ending in (".json", ".provenance.json"):
            file.with_name(stem + ending).unlink()


def interrupt_sweep(command: list[str], folder: Path, n_items: int) -> None:
    """Kill a sweep once it has made some of its items."""
    state = folder / "sweep" / "state"
    with subprocess.Popen(command, cwd=folder, start_new_session=True) as process:
        while len(list(state.glob("*.json"))) < n_items:
            assert process.poll() is None, "the sweep ended before it could be killed"
            time.sleep(0.01)
        os.killpg(process.pid, 9)
    outcomes = [json.loads(file.read_text()) for file in state.glob("*.json")]
    assert all(outcome["state"] == "done" for outcome in outcomes), outcomes
    print(f"the sweep was killed after {len(outcomes)} items")


if __name__ == "__main__":
    main()
