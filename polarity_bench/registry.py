"""The task registry: the files that the project ships, those of other packages, and a user's own.

Another package adds tasks through the entry-point group `polarity_bench.tasks`: the entry point
names a module, and every TOML file in that module's folder is a task.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from polarity_bench.errors import InputError, nearest
from polarity_bench.spec import TaskSpec, read_task

ENTRY_POINT_GROUP = "polarity_bench.tasks"


def shipped_folder() -> Path:
    """Return the folder of the task files that the project ships.

    In an installed wheel it lies inside the package, in a checkout beside it.
    """
    package = Path(__file__).parent
    installed = package / "_tasks"
    return installed if installed.is_dir() else package.parent / "tasks"


def load_tasks(task_dir: Path | None = None) -> dict[str, TaskSpec]:
    """Read every known task, by name: shipped, of other packages, and in the user's folder.

    Raises:
        InputError: If a task file is wrong, two tasks share a name, or the folder holds none.
    """
    files = sorted(shipped_folder().glob("*/*.toml"))
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
        files += _files_of_module(entry_point.value)
    if task_dir is not None:
        files += _files_of_folder(task_dir)
    tasks: dict[str, TaskSpec] = {}
    for spec in map(read_task, files):
        for other in tasks.values():
            if spec.name == other.name or spec.result_name == other.result_name:
                raise InputError(
                    f"{spec.file}: the task {spec.name!r} ({spec.result_name}) is already defined "
                    f"by {other.file}; give it another name"
                )
        tasks[spec.name] = spec
    return tasks


def load_suites() -> dict[str, tuple[str, ...]]:
    """Return the names of the tasks of each suite."""
    with (shipped_folder() / "suites.toml").open("rb") as file:
        return {name: tuple(tasks) for name, tasks in tomllib.load(file).items()}


def choose_tasks(
    known: Mapping[str, TaskSpec], *, names: Sequence[str] = (), suite: str | None = None
) -> list[TaskSpec]:
    """Return the tasks that these names and this suite mean, each once, in the order asked for.

    A task is known by its own name (`sst2`) and by that in mteb (`SST2PolarityRetrieval`).

    Raises:
        InputError: If a task or the suite is unknown; says which names are near.
    """
    chosen: dict[str, TaskSpec] = {}
    if suite is not None:
        suites = load_suites()
        if suite not in suites:
            raise InputError(f"unknown suite {suite!r}{nearest(suite, suites)}")
        chosen.update((name, known[name]) for name in suites[suite])
    by_result_name = {spec.result_name: spec for spec in known.values()}
    for name in names:
        spec = known.get(name) or by_result_name.get(name)
        if spec is None:
            near = difflib.get_close_matches(name, by_result_name, n=1)
            raise InputError(f"unknown task {name!r}{nearest(name, [*known, *near])}")
        chosen[spec.name] = spec
    return list(chosen.values())


def _files_of_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"the task folder {folder} does not exist or is no folder")
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise InputError(f"the task folder {folder} holds no .toml file")
    return files


def _files_of_module(name: str) -> list[Path]:
    try:
        module = find_spec(name)
    except ModuleNotFoundError:  # of the package around it
        module = None
    folders = list(module.submodule_search_locations or []) if module else []
    if not folders:
        raise InputError(
            f"the entry point {name!r} of the group {ENTRY_POINT_GROUP} names no importable package"
        )
    return sorted(file for folder in folders for file in Path(folder).glob("*.toml"))
