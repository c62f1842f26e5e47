"""Sweeps on Ray: real nodes on loopback, of which workers, nodes and drivers are killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from standins.sweeps import begun, made, made_here, small_grid, sweep_words

from polarity_bench.errors import InputError
from polarity_bench.sweeps.engines.ray import _check_answer
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.state_files import SweepState

pytest.importorskip("ray", reason="the extra `ray` is not installed")

pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {
    "RAY_AUTH_MODE": "disabled",  # on loopback, for a minute
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "polarity_bench":
            raise ModuleNotFoundError("No module named 'polarity_bench'")

sys.meta_path.insert(0, Without())
"""
"""What has Python start as on a machine without the package."""


class Cluster:
    """Nodes of one core each on this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.folder = folder
        self.nodes: list[subprocess.Popen[bytes]] = []

    def add(self, **environment: str) -> None:
        """Start a node and wait until it answers."""
        port = self.address.split(":")[1]
        head = ["--head", f"--port={port}", "--include-dashboard=false"]
        where = [f"--address={self.address}"] if self.nodes else head
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--block"]
        words += ["--num-cpus=1", f"--memory={4 * 2**30}", "--object-store-memory=100000000"]
        words += ["--node-ip-address=127.0.0.1", "--disable-usage-stats"]
        log = self.folder / f"node-{len(self.nodes)}.log"
        with log.open("wb") as out:
            own = ENVIRONMENT | environment
            self.nodes.append(subprocess.Popen(words, env=own, stdout=out, stderr=out))
        for _ in range(300):
            if b"Ray runtime started" in log.read_bytes():
                return
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def kill(self, number: int) -> None:
        """Kill a node with all that runs on it, as the loss of a machine does."""
        node = psutil.Process(self.nodes[number].pid)
        for process in [*node.children(recursive=True), node]:
            process.kill()
        self.nodes[number].wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for number, node in enumerate(made.nodes):
        if node.poll() is None:
            made.kill(number)


def begin(grid: Path, folder: Path, task_dir: Path, *more: str) -> subprocess.Popen[str]:
    words = [*sweep_words(grid, folder, task_dir), "--engine", "ray", *more]
    return subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)


def wait_for(there: Callable[[], Any], driver: subprocess.Popen[str]) -> None:
    for _ in range(12_000):  # ten minutes: starting Ray takes long on a busy machine
        if there():
            return
        assert driver.poll() is None, driver.communicate()[1]
        time.sleep(0.05)
    raise AssertionError("nothing came")


def test_a_worker_and_a_node_are_killed_and_nothing_is_lost(
    tmp_path: Path, tiny_model: Path, task_dir: Path, cluster: Cluster
) -> None:
    grid, folder = small_grid(tmp_path, tiny_model), tmp_path / "out"
    cluster.add()
    cluster.add()
    state = SweepState(folder)
    driver = begin(grid, folder, task_dir, "--address", cluster.address)
    wait_for(lambda: state.ended(), driver)  # the base
    wait_for(lambda: state.files.is_dir() and state.running(), driver)
    worker = int(next(iter(state.running().values())).split()[1])
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: len(state.ended()) > 1, driver)
    cluster.kill(1)
    said = driver.communicate()[1]
    assert driver.returncode == 0, said
    assert made(folder) == made_here(grid, tmp_path / "here", task_dir)
    assert 5 < sum(begun(folder).values()) <= 7, "what was killed was begun again, and nothing else"


@pytest.mark.usefixtures("drawn_history")
def test_stored_files_hold_no_address_the_users_command_and_the_local_engines_bytes(
    tmp_path: Path, tiny_model: Path, task_dir: Path, cluster: Cluster
) -> None:
    grid, folder = small_grid(tmp_path, tiny_model), tmp_path / "out"
    cluster.add()
    driver = begin(grid, folder, task_dir, "--address", cluster.address)
    said = driver.communicate()[1]
    assert driver.returncode == 0, said
    stored = [path for path in folder.rglob("*") if path.is_file()]
    address = re.compile(rb"--redis|--node-ip|--address|session_|\b\d{1,3}(\.\d{1,3}){3}\b")
    assert {str(path): address.findall(path.read_bytes()) for path in stored} == {
        str(path): [] for path in stored
    }
    words = [*sweep_words(grid, folder, task_dir)[3:], "--engine", "ray"]
    command = shlex.join(["polarity-bench", *words])
    made_by = [json.loads(path.read_text()) for path in stored if path.suffix == ".json"]
    recorded = [each["environment"]["command"] for each in made_by if "environment" in each]
    assert recorded == [command] * len(recorded)
    assert len(recorded) == 9, "five results and the trainings of four"
    assert read_plan(folder).command == command
    here = tmp_path / "here"
    made_here(grid, here, task_dir)
    equal = [p for p in here.glob("runs/**/*") if p.is_file() and p.name != "train.json"]
    equal += here.glob("results/**/*.safetensors")
    assert len(equal) > 40
    for path in equal:
        assert (folder / path.relative_to(here)).read_bytes() == path.read_bytes(), path


def test_a_node_without_the_package_is_named_before_anything_is_made(
    tmp_path: Path, tiny_model: Path, task_dir: Path, cluster: Cluster
) -> None:
    grid, folder = small_grid(tmp_path, tiny_model), tmp_path / "out"
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "sitecustomize.py").write_text(WITHOUT)
    cluster.add()
    cluster.add(PYTHONPATH=str(tmp_path / "shadow"))
    driver = begin(grid, folder, task_dir, "--address", cluster.address)
    said = driver.communicate()[1]
    assert driver.returncode == 2, said
    assert "error: the node " in said
    assert "cannot run items: the package polarity_bench cannot be imported there" in said
    assert not SweepState(folder).ended()


@pytest.mark.parametrize(
    ("address", "why"), [("127.0.0.1:1", "Connection refused"), ("here", "expected HOST:PORT")]
)
def test_an_address_where_no_cluster_answers(address: str, why: str) -> None:
    with pytest.raises(InputError, match=f"`address` {address}: no Ray cluster answers: .*{why}"):
        _check_answer(address)
