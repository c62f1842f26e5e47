"""Engines of sweeps with fake items: workers and drivers are killed, and no item is lost.

`test_sweep` and `test_on_ray` do the same with trainings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from standins.fake_items import KILLER
from standins.sweeps import begun

from polarity_bench.sweeps.state_files import SweepState

TESTS = Path(__file__).parents[1]


def start(engine: str, output: Path, victim: str = "") -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "standins.fake_items", engine, str(output), victim]
    environment = os.environ | {"PYTHONPATH": str(TESTS), "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)


def assert_whole(output: Path) -> None:
    """Assert that all items are done, and by nobody any more."""
    state = SweepState(output)
    outcomes = state.outcomes("abcde")
    assert {digest: outcome.state for digest, outcome in outcomes.items()} == dict.fromkeys(
        "abcde", "done"
    )
    written = {path.name: path.read_text() for path in (output / "results").iterdir()}
    assert written == {"a": "a, after None"} | {d: f"{d}, after a" for d in "bcde"}
    assert state.running() == {}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_worker_is_replaced_and_the_next_driver_goes_on(
    tmp_path: Path, engine: str
) -> None:
    output = tmp_path / "worker"
    driver = start(engine, output, "worker")
    assert driver.communicate()[1] == ""
    assert driver.returncode == 0
    assert_whole(output)
    assert begun(output) == dict.fromkeys("abcde", 1) | {KILLER: 2}

    output = tmp_path / "driver"
    driver = start(engine, output, "driver")
    driver.communicate()
    assert driver.returncode == -signal.SIGKILL
    assert KILLER not in SweepState(output).ended()
    driver = start(engine, output)
    assert driver.communicate()[1] == ""
    assert driver.returncode == 0
    assert_whole(output)
    assert begun(output)[KILLER] == 2


def test_a_state_that_cannot_be_written_ends_the_sweep_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()  # so that no item kills
    blocked = SweepState(tmp_path).files / "a.begun"
    blocked.mkdir(parents=True)
    driver = start("local", tmp_path)
    said = driver.communicate()[1]
    assert driver.returncode == 1, "the stand-in does not catch errors, unlike the command"
    assert f"error: {blocked}: cannot be written: Is a directory\n" in said
    last = said.splitlines()[-1]
    assert f"{tmp_path}: a worker process could not write the state of an item (see above)" in last
    assert said.count("Traceback") == 1, "of the driver"
    blocked.rmdir()
    driver = start("local", tmp_path)
    assert (driver.communicate()[1], driver.returncode) == ("", 0)
    assert_whole(tmp_path)


def test_two_drivers_share_a_sweep_and_make_each_item_once(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()  # so that no item kills
    drivers = [start("local", tmp_path) for _ in range(2)]
    assert [(driver.communicate()[1], driver.returncode) for driver in drivers] == [("", 0)] * 2
    assert_whole(tmp_path)
    assert begun(tmp_path) == dict.fromkeys("abcde", 1)
