"""The Ray engine: one Ray task for each item, on a cluster or on a node started here.

Ray schedules the tasks by the core, the memory and the GPU that each task declares, and moves the
task of a lost worker or node to another one. As with every engine, the state of the items is on
disk: the nodes of the cluster share the folder of the sweep, and drivers on other clusters may
share it too.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polarity_bench
from polarity_bench.errors import InputError
from polarity_bench.sweeps.cost import sizes
from polarity_bench.sweeps.engines.local import POLL, WORKER_BYTES
from polarity_bench.sweeps.execute import check, make_if_free
from polarity_bench.sweeps.item_states import GREATEST_ATTEMPTS, ItemOutcome, SweepState
from polarity_bench.sweeps.items import Item, Setup

_CONNECT_SECONDS = 20
"""Timeout for the answer of a cluster."""


def run_on_ray(
    items: Sequence[Item],
    setup: Setup,
    *,
    address: str | None = None,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Make all items that have not ended, each as a Ray task.

    Args:
        items: The items to make.
        setup: Folders, and how encoders are loaded.
        address: Address of a running cluster; None starts a temporary one on this machine.
        look: Called repeatedly while the tasks run.

    Raises:
        InputError: If no cluster answers, no node has the resources of a task (such as a GPU), or
            a node lacks the package, the folder, a base or data; names the node that lacks them.
    """
    setup = replace(setup.by_a_new_driver(), argv=tuple(sys.argv))
    state = SweepState(setup.output)
    state.make_folders()
    with _cluster(address) as ray:
        resources = _resources(ray, setup.options.device)
        _check_nodes(ray, items, setup)
        task = ray.remote(**resources, max_retries=GREATEST_ATTEMPTS)(make_held)
        shared_setup = ray.put(setup)
        pending: dict[Any, Item] = {}
        made: dict[str, Any] = {}
        for item in items:
            made[item.digest] = task.remote(item, shared_setup, made.get(item.after or ""))
            pending[made[item.digest]] = item
        again: set[str] = set()
        while pending:
            ended, _ = ray.wait(list(pending), num_returns=1, timeout=POLL)
            for ref in ended:
                item = pending.pop(ref)
                if (why := _lost(ray, ref)) and state.outcome(item.digest) is None:
                    if item.digest in again:
                        state.record(item.digest, ItemOutcome("failed", item.name, why))
                    else:  # perhaps the item before it was lost
                        again.add(item.digest)
                        pending[task.remote(item, shared_setup, None)] = item
            look()


def make_held(item: Item, setup: Setup, after: None) -> None:  # noqa: ARG001
    """Make an item. If the task of another driver makes it, wait for its end.

    Args:
        item: The item to make.
        setup: Folders, and how encoders are loaded.
        after: Return value of the task of the preceding item; makes Ray wait for that task.
    """
    # Results store the command that made them. The worker's own command line has addresses of the
    # cluster and would not reproduce the result.
    if setup.argv is not None:
        sys.argv = list(setup.argv)
    state = SweepState(setup.output)
    while state.outcome(item.digest) is None:
        if not make_if_free(item, setup, state):
            time.sleep(POLL)


def _lost(ray: Any, ref: Any) -> str:
    """Return why a task was lost; '' if it ended normally."""
    try:
        ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        return f"{type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        return (
            f"Ray lost the task {GREATEST_ATTEMPTS + 1} times: {str(error).strip().splitlines()[0]}"
        )
    return ""


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send usage statistics
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's future default
    if address is not None:
        _check_answer(address)
    import ray

    here: dict[str, Any] = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **here)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise InputError(f"`address`: Ray {where}: {_last_line(str(error))}") from error
    try:
        yield ray
    finally:
        with suppress(Exception):
            ray.shutdown()


def _check_answer(address: str) -> None:
    """Check that a cluster answers.

    A separate process asks the cluster, since Ray ends the process that gets no answer.

    Raises:
        InputError: If there is no answer; gives Ray's reason.
    """
    if address == "auto" or "://" in address:
        return
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    try:
        host, port = address.rsplit(":", 1)
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        answer = subprocess.run(  # noqa: S603  no shell
            command,
            capture_output=True,
            text=True,
            timeout=_CONNECT_SECONDS,
            check=False,
            env=os.environ | {"RAY_ADDRESS": address},
        )
        why = _last_line(answer.stderr) if answer.returncode else ""
    except ValueError:
        why = "expected HOST:PORT"
    except OSError as error:
        why = error.strerror or str(error)
    except subprocess.TimeoutExpired:
        why = f"no answer within {_CONNECT_SECONDS} s"
    if why:
        raise InputError(f"`address` {address}: no Ray cluster answers: {why}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _resources(ray: Any, device: str | None) -> dict[str, int]:
    """Return the resources of a task, with a GPU if the cluster has GPUs and the device allows it.

    Raises:
        InputError: If no node has them. Ray would wait forever.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    has_gpus = any(node.get("GPU") for node in nodes)
    needs_gpu = device is not None and device.startswith("cuda")
    if needs_gpu and not has_gpus:
        raise InputError(f"`device` {device}: no node of the cluster has a GPU")
    n_gpus = int(has_gpus and (needs_gpu or device is None))
    required = {"CPU": 1, "memory": WORKER_BYTES, "GPU": n_gpus}
    if not any(all(node.get(key, 0) >= n for key, n in required.items()) for node in nodes):
        text = f"a core, {WORKER_BYTES / 2**30:.0f} GiB of memory" + (", a GPU" if n_gpus else "")
        raise InputError(f"`address`: no node of the cluster has the resources of a task: {text}")
    return {"num_cpus": 1, "num_gpus": n_gpus, "memory": WORKER_BYTES}


def _check_nodes(ray: Any, items: Sequence[Item], setup: Setup) -> None:
    """Let every node check for the package, the folder, the bases and the data.

    Raises:
        InputError: If a node lacks something; names the node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    token = setup.output / "state" / f".seen-{uuid.uuid4().hex}"
    token.touch()
    content = ray.cloudpickle.dumps((list(items), setup))
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    try:
        looks = {
            name: ray.remote(num_cpus=0, max_retries=0)(lacking)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False))
            .remote(str(token), polarity_bench.__version__, content)
            for name in nodes
        }
        for name, ref in looks.items():
            try:
                lacks = ray.get(ref)
            except ray.exceptions.RayError as error:
                lacks = _last_line(str(error))
                if "No module named" in lacks:
                    lacks = f"the package polarity_bench cannot be imported there: {lacks}"
            if lacks:
                node = nodes[name]
                raise InputError(
                    f"the node {node['NodeManagerAddress']} ({node['NodeManagerHostname']}, "
                    f"{name[:8]}) cannot take part: {lacks}"
                )
    finally:
        token.unlink(missing_ok=True)


def lacking(token: str, version: str, content: bytes) -> str:
    """Return why the node that runs this function cannot take part; '' if it can.

    Args:
        token: A file that the driver has created in the folder of the sweep.
        version: Version of the driver's package.
        content: The items and the setup, pickled, since another version may not read them.
    """
    from ray import cloudpickle

    if polarity_bench.__version__ != version:
        return f"it has polarity_bench {polarity_bench.__version__}, the driver has {version}"
    if not Path(token).is_file():
        return f"the folder {Path(token).parent.parent} is not shared with it"
    items, setup = cloudpickle.loads(content)
    try:
        sizes(items, setup)
        check(items, setup)
    except InputError as error:
        return str(error)
    return ""
