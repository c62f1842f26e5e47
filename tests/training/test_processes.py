"""Several processes on one run: two of them on the CPU, as torchrun starts them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from standins import tiny_encoder
from standins.training import SMALL, equal, job_of, run, weights

from polarity_bench.errors import InputError
from polarity_bench.training.recipes.margins.losses import (
    Loss,
    MaskedRanking,
    OnlineContrastive,
    Ranking,
)
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

job, written = Job.read(Path(sys.argv[1])), set()

def watch(event, given):
    # which files below the run's folder are opened to be written
    if event == "open" and str(given[0]).startswith(str(job.output)) and given[2] & os.O_ACCMODE:
        written.add(str(given[0]))

sys.addaudithook(watch)
done = train(job)
ended = [os.environ["RANK"], done.run, done.kept, done.reused, len(done.rows), len(written)]
words = json.dumps(ended) + "\\n"
os.write(1, words.encode())  # whole: two processes print into one pipe
"""


def torchrun(folder: Path, job: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (agent,) = agents(folder, job, ["--standalone --nproc-per-node 2"], **environment)
    return agent


def agents(
    folder: Path, job: str, options: Sequence[str], **environment: str
) -> list[subprocess.CompletedProcess[str]]:
    """Run a torchrun for each of these options, all at once."""
    (folder / "job.toml").write_text(job)
    (folder / "code.py").write_text(CODE)
    code = [str(folder / "code.py"), str(folder / "job.toml")]
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


def said(*done: subprocess.CompletedProcess[str]) -> list[list[object]]:
    lines = [line for each in done for line in each.stdout.splitlines()]
    return sorted(json.loads(line) for line in lines if line.startswith("["))


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    """An encoder without dropout, which falls elsewhere where batches are divided."""
    folder = tiny_encoder(tmp_path / "steady")
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    file.write_text(json.dumps(config))
    return folder


@pytest.mark.slow
def test_two_processes_make_the_encoder_that_one_makes_of_twice_the_batch(
    steady: Path, task_dir: Path, tmp_path: Path
) -> None:
    """In both epochs, each of which has a draw of its own."""
    recipe = replace(SMALL, held_out=0)
    one = run(steady, task_dir, tmp_path / "one", recipe)
    recipe = replace(recipe, batch_size=recipe.batch_size // 2)
    job = job_of(steady, task_dir, tmp_path / "two", recipe).to_toml()
    done = torchrun(tmp_path, job)
    assert done.returncode == 0, done.stderr
    (first, other) = said(done)
    assert first[0] == "0"
    assert first[1:5] == other[1:5]
    assert first[5]
    assert not other[5], "the first alone writes"
    assert first[1] != one.run, "the number of processes is part of the run"
    assert [first[2], first[3], first[4]] == [one.kept, False, 3]
    stored = json.loads((tmp_path / "two" / "train.json").read_text())
    assert stored["finished"]
    assert stored["spec"]["processes"] == 2
    for row, wanted in zip(stored["history"], one.rows, strict=True):
        assert row["step"] == wanted["step"]
        for name in ("loss", "polarity", "similarity"):
            assert row[name] == pytest.approx(wanted[name], abs=1e-5), name
    ours, theirs = weights(tmp_path / "two"), weights(tmp_path / "one")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-3
    moved = weights(steady)
    assert max(float((ours[name] - moved[name]).abs().max()) for name in ours) > 2e-3
    left = {path.name for path in (tmp_path / "two").iterdir()}
    assert not left & {"checkpoints", ".lock", ".holder", "encoder-being-written"}

    again = torchrun(tmp_path, job)
    assert again.returncode == 0, again.stderr
    assert all(words[3] for words in said(again)), "it had finished"


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Ranking(), MaskedRanking(), OnlineContrastive()])
def test_a_loss_that_compares_a_batch_sees_the_batches_of_all_processes(
    steady: Path, task_dir: Path, tmp_path: Path, loss: Loss
) -> None:
    recipe = replace(SMALL, loss=loss, held_out=0, checkpoint="last")
    one = run(steady, task_dir, tmp_path / "one", recipe)
    recipe = replace(recipe, batch_size=recipe.batch_size // 2)
    job = job_of(steady, task_dir, tmp_path / "two", recipe).to_toml()
    done = torchrun(tmp_path, job)
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "two" / "train.json").read_text())
    assert stored["spec"]["gathered"], "not the run that an older version would go on with"
    for row, wanted in zip(stored["history"][1:], one.rows[1:], strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], abs=1e-5)
    ours, theirs = weights(tmp_path / "two"), weights(tmp_path / "one")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-4
    moved = weights(steady)
    assert max(float((ours[name] - moved[name]).abs().max()) for name in ours) > 2e-3


@pytest.mark.slow
def test_two_processes_that_were_killed_go_on_to_the_same_weights(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """With dropout, of which each process keeps its own state."""
    recipe = replace(SMALL, held_out=0)
    whole = job_of(tiny_model, task_dir, tmp_path / "whole", recipe).to_toml()
    killed = job_of(tiny_model, task_dir, tmp_path / "killed", recipe).to_toml()
    assert torchrun(tmp_path, whole).returncode == 0
    assert torchrun(tmp_path, killed, DIE_AT="3").returncode != 0  # in the second of two epochs
    checkpoints = tmp_path / "killed" / "checkpoints"
    assert [path.name for path in checkpoints.glob("checkpoint-*")] == ["checkpoint-2"]
    assert (checkpoints / "checkpoint-2" / "whole").exists()
    again = torchrun(tmp_path, killed)
    assert again.returncode == 0, again.stderr
    assert equal(weights(tmp_path / "killed"), weights(tmp_path / "whole"))
    assert not equal(weights(tmp_path / "whole"), weights(tiny_model))


@pytest.mark.slow
def test_two_nodes_make_the_encoder_that_two_processes_make(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    recipe = replace(SMALL, held_out=0)
    together = job_of(tiny_model, task_dir, tmp_path / "together", recipe).to_toml()
    assert torchrun(tmp_path, together).returncode == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = f"--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port {port}"
    nodes = [f"{meeting} --node-rank {rank}" for rank in range(2)]
    apart = job_of(tiny_model, task_dir, tmp_path / "apart", recipe).to_toml()
    done = agents(tmp_path, apart, nodes)
    assert [each.returncode for each in done] == [0, 0], done
    (first, other) = said(*done)
    assert (first[0], other[0]) == ("0", "1")
    assert first[1:5] == other[1:5]
    assert first[5]
    assert not other[5], "the first alone writes"
    assert equal(weights(tmp_path / "apart"), weights(tmp_path / "together"))
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
