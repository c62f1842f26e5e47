"""Several processes on one run: two of them on the CPU, as torchrun starts them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from standins import tiny_encoder, write_task
from standins.training import SMALL, equal, job_of, run, weights

from polarity_bench.errors import InputError
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.margins.losses import (
    Loss,
    MaskedRanking,
    OnlineContrastive,
    Ranking,
)
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.setfit.recipe import SetFit

CODE = """
import json, os, sys
from pathlib import Path
from polarity_bench.training.job import Job
from polarity_bench.training.train import train

if "DIE_AT" in os.environ:
    from polarity_bench.training.recipes.margins.trainer import PolarityTrainer

    compute = PolarityTrainer.compute_loss

    def dying(self, *args, **kwargs):
        if self.state.global_step == int(os.environ["DIE_AT"]):
            os._exit(9)
        return compute(self, *args, **kwargs)

    PolarityTrainer.compute_loss = dying

output, written = "", set()

def watch(event, given):
    # which files below the run's folder are opened to be written
    if event == "open" and output and str(given[0]).startswith(output) and given[2] & os.O_ACCMODE:
        written.add(str(given[0]))

sys.addaudithook(watch)
for file in sys.argv[1:]:
    job = Job.read(Path(file))
    output = str(job.output)
    written.clear()
    done = train(job)
    ended = [os.environ["RANK"], done.run, done.kept, done.reused, len(done.rows), len(written)]
    words = json.dumps([job.output.name, *ended]) + "\\n"
    os.write(1, words.encode())  # whole: two processes print into one pipe
"""


def torchrun(folder: Path, *jobs: Job, **environment: str) -> subprocess.CompletedProcess[str]:
    """Train the jobs one after the other in two processes."""
    (agent,) = agents(folder, jobs, ["--standalone --nproc-per-node 2"], **environment)
    return agent


def agents(
    folder: Path, jobs: Sequence[Job], options: Sequence[str], **environment: str
) -> list[subprocess.CompletedProcess[str]]:
    """Run a torchrun for each of these options, all at once."""
    (folder / "code.py").write_text(CODE)
    code = [str(folder / "code.py")]
    for number, job in enumerate(jobs):
        code.append(str(folder / f"job-{number}.toml"))
        Path(code[-1]).write_text(job.to_toml())
    line = [sys.executable, "-m", "torch.distributed.run"]

    def ended(given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*line, *given.split(), *code],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,  # sums fall by its number
        )

    with ThreadPoolExecutor() as pool:
        return list(pool.map(ended, options))


def said(*done: subprocess.CompletedProcess[str]) -> dict[str, list[list[Any]]]:
    """Return what each process says at the end of each job, by the job's folder and the rank."""
    lines = [line for each in done for line in each.stdout.splitlines()]
    found: dict[str, list[list[Any]]] = {}
    for name, *words in sorted(json.loads(line) for line in lines if line.startswith("[")):
        found.setdefault(name, []).append(words)
    return found


def steady_encoder(folder: Path) -> Path:
    """Write an encoder without dropout, which falls elsewhere where batches are divided."""
    tiny_encoder(folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    file.write_text(json.dumps(config))
    return folder


WHOLE = replace(SMALL, held_out=0)
LOSSES: dict[str, Loss] = {
    "ranking": Ranking(),
    "masked-ranking": MaskedRanking(),
    "online-contrastive": OnlineContrastive(),
}


def with_loss(name: str) -> Margins:
    return replace(WHOLE, loss=LOSSES[name], checkpoint="last")


def halved(recipe: Margins) -> Margins:
    return replace(recipe, batch_size=recipe.batch_size // 2)


@dataclass(frozen=True)
class Trained:
    """What two processes trained, in one start of torchrun for all jobs.

    Attributes:
        folder: Folder with a folder for each job, the encoder `steady` and the folder `tasks`.
        said: What each process says at the end of each job.
        again: What each says when it is given the job `two` once more.
    """

    folder: Path
    said: dict[str, list[list[Any]]]
    again: list[list[Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    tasks, steady = folder / "tasks", steady_encoder(folder / "steady")
    tasks.mkdir()
    write_task(tasks)
    two = job_of(steady, tasks, folder / "two", halved(WHOLE))
    jobs = [job_of(steady, tasks, folder / name, halved(with_loss(name))) for name in LOSSES]
    whole = job_of(tiny_model, tasks, folder / "whole", WHOLE)  # with dropout
    done = torchrun(folder, two, two, *jobs, whole)
    assert done.returncode == 0, done.stderr
    found = said(done)
    first, other = ([words for words in found["two"] if words[0] == rank] for rank in "01")
    found["two"] = [next(words for words in each if not words[3]) for each in (first, other)]
    again = [next(words for words in each if words[3]) for each in (first, other)]
    return Trained(folder, found, again)


@pytest.mark.slow
def test_two_processes_make_the_encoder_that_one_makes_of_twice_the_batch(
    trained: Trained, tmp_path: Path
) -> None:
    """In both epochs, each of which has a draw of its own."""
    steady, two = trained.folder / "steady", trained.folder / "two"
    one = run(steady, trained.folder / "tasks", tmp_path / "one", WHOLE)
    first, other = trained.said["two"]
    assert first[0] == "0"
    assert first[1:5] == other[1:5]
    assert first[5]
    assert not other[5], "the first alone writes"
    assert first[1] != one.run, "the number of processes is part of the run"
    assert [first[2], first[3], first[4]] == [one.kept, False, 3]
    stored = json.loads((two / "train.json").read_text())
    assert stored["finished"]
    assert stored["spec"]["processes"] == 2
    for row, wanted in zip(stored["history"], one.rows, strict=True):
        assert row["step"] == wanted["step"]
        for name in ("loss", "polarity", "similarity"):
            assert row[name] == pytest.approx(wanted[name], abs=1e-5), name
    ours, theirs = weights(two), weights(tmp_path / "one")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-3
    moved = weights(steady)
    assert max(float((ours[name] - moved[name]).abs().max()) for name in ours) > 2e-3
    left = {path.name for path in two.iterdir()}
    assert not left & {"checkpoints", ".lock", ".holder", "encoder-being-written"}
    assert [words[0] for words in trained.again] == ["0", "1"]
    assert all(words[3] for words in trained.again), "it had finished"


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_that_compares_a_batch_sees_the_batches_of_all_processes(
    trained: Trained, tmp_path: Path, loss: str
) -> None:
    steady = trained.folder / "steady"
    one = run(steady, trained.folder / "tasks", tmp_path / "one", with_loss(loss))
    stored = json.loads((trained.folder / loss / "train.json").read_text())
    assert stored["spec"]["gathered"], "not the run that an older version would go on with"
    for row, wanted in zip(stored["history"][1:], one.rows[1:], strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], abs=1e-5)
    ours, theirs = weights(trained.folder / loss), weights(tmp_path / "one")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-4
    moved = weights(steady)
    assert max(float((ours[name] - moved[name]).abs().max()) for name in ours) > 2e-3


@pytest.mark.slow
def test_two_processes_that_were_killed_go_on_to_the_same_weights(
    tiny_model: Path, trained: Trained, tmp_path: Path
) -> None:
    """With dropout, of which each process keeps its own state."""
    killed = job_of(tiny_model, trained.folder / "tasks", tmp_path / "killed", WHOLE)
    assert torchrun(tmp_path, killed, DIE_AT="3").returncode != 0  # in the second of two epochs
    checkpoints = tmp_path / "killed" / "checkpoints"
    assert [path.name for path in checkpoints.glob("checkpoint-*")] == ["checkpoint-2"]
    assert (checkpoints / "checkpoint-2" / "whole").exists()
    again = torchrun(tmp_path, killed)
    assert again.returncode == 0, again.stderr
    whole = weights(trained.folder / "whole")
    assert equal(weights(tmp_path / "killed"), whole)
    assert not equal(whole, weights(tiny_model))


@pytest.mark.slow
def test_two_nodes_make_the_encoder_that_two_processes_make(
    tiny_model: Path, trained: Trained, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = f"--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port {port}"
    nodes = [f"{meeting} --node-rank {rank}" for rank in range(2)]
    apart = job_of(tiny_model, trained.folder / "tasks", tmp_path / "apart", WHOLE)
    done = agents(tmp_path, [apart], nodes)
    assert [each.returncode for each in done] == [0, 0], done
    (first, other) = said(*done)["apart"]
    assert (first[0], other[0]) == ("0", "1")
    assert first[1:5] == other[1:5]
    assert first[5]
    assert not other[5], "the first alone writes"
    assert equal(weights(tmp_path / "apart"), weights(trained.folder / "whole"))
    assert not equal(weights(tmp_path / "apart"), weights(tiny_model))


def test_what_trains_in_one_process_is_refused_in_several(
    tiny_model: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="'setfit' must run in one process, got 2"):
        run(tiny_model, task_dir, tmp_path / "x", SetFit())
    assert not (tmp_path / "x").exists()


def test_a_process_with_many_gpus_trains_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from polarity_bench.training.recipes.margins.trainer import check_device

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    for device in ("cpu", "cuda", "cuda:0"):
        check_device(device)
    with pytest.raises(InputError, match=r"`device` cuda:1: this process trains on GPU 0"):
        check_device("cuda:1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    check_device("cuda:1")
