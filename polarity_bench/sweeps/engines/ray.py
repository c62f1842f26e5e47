"""Ray engine: one Ray task for each item, on a cluster or on a temporary local node.

Each task declares that it needs a core, memory and possibly a GPU, and Ray schedules the tasks
accordingly. Ray restarts the task of a lost worker or node elsewhere. As with the local engine, the
state of the items is on disk. All nodes must share the folder of the sweep. Drivers on other
clusters may share the folder too.
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
from polarity_bench.sweeps.items import Item, Setup
from polarity_bench.sweeps.state_files import GREATEST_ATTEMPTS, ItemOutcome, SweepState

_CONNECT_SECONDS = 20
"""Timeout for an answer from a cluster, in seconds."""


def run_on_ray(
    items: Sequence[Item],
    setup: Setup,
    *,
    address: str | None = None,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Run all unfinished items, each as a Ray task.

    Args:
        items: The items to run.
        setup: Folders and loading options.
        address: Address of a running cluster; None starts a temporary cluster on this machine.
        look: Function that is called repeatedly while the tasks run.

    Raises:
        InputError: If no cluster answers, or if no node has the core, the memory and the GPU that a
            task needs. Also if a node lacks the package, the sweep's folder, a base or data; this
            message names the node.
    """
    setup = replace(setup.with_new_driver(), argv=tuple(sys.argv))
    state = SweepState(setup.output)
    state.make_folders()
    with _cluster(address) as ray:
        resources = _resources(ray, setup.options.device)
        _check_nodes(ray, items, setup)
        task = ray.remote(**resources, max_retries=GREATEST_ATTEMPTS)(run_item)
        shared_setup = ray.put(setup)
        pending: dict[Any, Item] = {}
        task_of: dict[str, Any] = {}
        for item in items:
            task_of[item.digest] = task.remote(item, shared_setup, task_of.get(item.after or ""))
            pending[task_of[item.digest]] = item
        retried: set[str] = set()
        while pending:
            ended, _ = ray.wait(list(pending), num_returns=1, timeout=POLL)
            for ref in ended:
                item = pending.pop(ref)
                if (why := _lost(ray, ref)) and state.outcome(item.digest) is None:
                    if item.digest in retried:
                        state.record(item.digest, ItemOutcome("failed", item.name, why))
                    else:  # perhaps because the task that it depends on was lost
                        retried.add(item.digest)
                        pending[task.remote(item, shared_setup, None)] = item
            look()


def run_item(item: Item, setup: Setup, after: None) -> None:  # noqa: ARG001  Ray waits for it
    """Run an item, or wait for its end if another driver is running it.

    Args:
        item: The item to run.
        setup: Folders and loading options.
        after: Return value of the task for the item that must be run first. The value is not used,
            but the argument makes Ray wait for that task.
    """
    # Results store the command that produced them. The worker's own command line contains addresses
    # of the cluster and would not reproduce the results.
    if setup.argv is not None:
        sys.argv = list(setup.argv)
    state = SweepState(setup.output)
    while state.outcome(item.digest) is None:
        if not make_if_free(item, setup, state):
            time.sleep(POLL)


def _lost(ray: Any, ref: Any) -> str:
    """Return why a task was lost, or '' if the task ended normally."""
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
    """Connect to a cluster or start a temporary one, and disconnect at the end of the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # disables usage statistics
    # The default of future Ray versions.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is not None:
        _check_answer(address)
    import ray

    here: dict[str, Any] = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **here)
    except (ConnectionError, RuntimeError, ValueError) as error:
        action = "start Ray on this machine" if address is None else f"connect to Ray at {address}"
        raise InputError(f"`address`: cannot {action}: {_last_line(str(error))}") from error
    try:
        yield ray
    finally:
        with suppress(Exception):
            ray.shutdown()


def _check_answer(address: str) -> None:
    """Check that a cluster answers.

    The check runs in a separate process, because Ray terminates a process that gets no answer.

    Raises:
        InputError: If there is no answer; the message contains Ray's reason.
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
        raise InputError(
            f"`address` {address}: no Ray cluster answers: {why}; start the cluster or correct the "
            "address"
        )


def _last_line(text: str) -> str:
    """Return the last line of a text, or ''."""
    return (text.strip().splitlines() or [""])[-1]


def _resources(ray: Any, device: str | None) -> dict[str, int]:
    """Return the resources of a task: a core, memory, and possibly a GPU.

    A task needs a GPU if the cluster has GPUs and the user did not choose another device.

    Raises:
        InputError: If no node has these resources, because Ray would then wait forever.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    has_gpus = any(node.get("GPU") for node in nodes)
    needs_gpu = device is not None and device.startswith("cuda")
    if needs_gpu and not has_gpus:
        raise InputError(f"`device` {device}: no node of the cluster has a GPU; use `device` cpu")
    n_gpus = int(has_gpus and (needs_gpu or device is None))
    required = {"CPU": 1, "memory": WORKER_BYTES, "GPU": n_gpus}
    if not any(all(node.get(key, 0) >= n for key, n in required.items()) for node in nodes):
        text = f"a core, {WORKER_BYTES / 2**30:.0f} GiB of memory" + (", a GPU" if n_gpus else "")
        raise InputError(f"`address`: no node of the cluster has {text}; add such a node")
    return {"num_cpus": 1, "num_gpus": n_gpus, "memory": WORKER_BYTES}


def _check_nodes(ray: Any, items: Sequence[Item], setup: Setup) -> None:
    """Check that every node has the package, the folder of the sweep, the encoders and the data.

    Raises:
        InputError: If a node lacks one of them; the message names the node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    token = setup.output / "state" / f".seen-{uuid.uuid4().hex}"
    token.touch()
    content = ray.cloudpickle.dumps((list(items), setup))
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    try:
        looks = {
            name: ray.remote(num_cpus=0, max_retries=0)(find_node_problem)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False))
            .remote(str(token), polarity_bench.__version__, content)
            for name in nodes
        }
        for name, ref in looks.items():
            try:
                problem = ray.get(ref)
            except ray.exceptions.RayError as error:
                problem = _last_line(str(error))
                if "No module named" in problem:
                    problem = f"the package polarity_bench cannot be imported there: {problem}"
            if problem:
                node = nodes[name]
                raise InputError(
                    f"the node {node['NodeManagerAddress']} ({node['NodeManagerHostname']}, "
                    f"{name[:8]}) cannot run items: {problem}"
                )
    finally:
        token.unlink(missing_ok=True)


def find_node_problem(token: str, version: str, content: bytes) -> str:
    """Return why the node that calls this function cannot run items, or '' if it can.

    Args:
        token: Path of a file that the driver has created in the folder of the sweep.
        version: Version of the driver's package.
        content: The pickled items and setup. They are unpickled only if the versions are equal.
    """
    from ray import cloudpickle

    if polarity_bench.__version__ != version:
        return f"the node has polarity_bench {polarity_bench.__version__}, the driver has {version}"
    if not Path(token).is_file():
        return f"the folder {Path(token).parent.parent} is not shared with the node"
    items, setup = cloudpickle.loads(content)
    try:
        sizes(items, setup)
        check(items, setup)
    except InputError as error:
        return str(error)
    return ""
