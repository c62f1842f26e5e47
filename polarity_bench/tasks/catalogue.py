"""The task catalogue: tasks of this project, of other packages and of the user, by name.

Each task is a TOML file. Unknown keys are errors. Other packages add tasks through the entry-point
group `polarity_bench.tasks`. The entry point names a package, and each TOML file in the package's
folder is a task. The package is never imported.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning, check_known, nearest, reworded
from polarity_bench.files import read_toml
from polarity_bench.registers import Register, entry_points_of, package_of
from polarity_bench.tasks.mteb_names import MTEB_PREFIXES, named_tasks
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
from polarity_bench.tasks.types.opposite import OppositeSpec
from polarity_bench.tasks.types.polarity.mteb_sets import classification_sets
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.tasks.types.probing import ProbingSpec
from polarity_bench.tasks.types.relatedness import RelatednessSpec
from polarity_bench.tasks.types.sts import StsSpec
from polarity_bench.tasks.types.transfer import TransferSpec
from polarity_bench.validation import validated

ENTRY_POINT_GROUP = "polarity_bench.tasks"

KINDS: Register[type[TaskSpec]] = Register(
    "polarity_bench.task_types",
    TaskSpec,
    {
        "polarity": PolaritySpec,
        "opposite": OppositeSpec,
        "transfer": TransferSpec,
        "relatedness": RelatednessSpec,
        "sts": StsSpec,
        "probing": ProbingSpec,
    },
)
"""Task types, keyed by the `kind` in task files, in the order of tables."""


def task_type(kind: str) -> type[TaskSpec]:
    """Return a task type; for a type that is not installed, one that knows nothing of its tasks."""
    return KINDS.get(kind, TaskSpec)


def load_task(
    name: str,
    settings: Settings | None = None,
    *,
    access: DataAccess | None = None,
    task_dir: str | Path | None = None,
) -> Task:
    """Load a task with its data.

    Args:
        name: Name of the task (`sst2`), or its name in mteb (`SST2PolarityRetrieval`).
        settings: Settings of the protocol; the task's defaults if None.
        access: Permitted sources of data; POLARITY_BENCH_DATA and the network by default.
        task_dir: A folder with your own task files, or one task file.

    Raises:
        InputError: If the task is unknown, or its data is missing or does not match the task file.
    """
    spec = choose_task(load_tasks(task_dir), name)
    return spec.load(access or DataAccess.from_environment(), settings or Settings())


def load_tasks(task_dir: str | Path | None = None) -> dict[str, TaskSpec]:
    """Read the task files of this project, of other packages and of `task_dir`.

    If one task file of a package cannot be read, all tasks of that package are skipped.

    Args:
        task_dir: A folder with your own task files, or one task file.

    Returns:
        The tasks, keyed by name.

    Raises:
        InputError: If a task file is invalid, two tasks share a name, or `task_dir` does not exist
            or contains no task file.

    Warns:
        InputWarning: If the tasks of a package are skipped.
    """
    tasks, left_out = _installed()
    for remark in left_out:
        warnings.warn(remark, InputWarning, stacklevel=2)
    return tasks if task_dir is None else _add_tasks(tasks, _own_files(Path(task_dir)))


def _installed() -> tuple[dict[str, TaskSpec], list[str]]:
    """Return the tasks of this project and of other packages, and a remark per skipped package."""
    files = sorted(shipped_folder().glob("*/*.toml"))
    tasks, left_out = dict(_shipped_tasks(_dated(files))), []
    for entry_point in _entry_points(_dated(map(Path, sys.path))):
        try:
            tasks = _add_tasks(tasks, _files_of_module(entry_point.value))
        except Exception as error:  # noqa: BLE001  A broken package must not stop the command.
            package = package_of(entry_point)
            left_out.append(f"the tasks of the package {package!r} are skipped: {error}")
    return tasks, left_out


def _dated(paths: Iterable[Path]) -> tuple[tuple[Path, int], ...]:
    """Return the paths that exist, with the times of their last changes."""
    return tuple((path, path.stat().st_mtime_ns) for path in paths if path.exists())


# Most of the time of a short command goes into reading these, and a command reads them repeatedly.
@lru_cache(maxsize=2)
def _shipped_tasks(files: Sequence[tuple[Path, int]]) -> Mapping[str, TaskSpec]:
    """Return the tasks in files of this project, which are read again if a file changes."""
    return _add_tasks({}, [file for file, _ in files])


@lru_cache(maxsize=2)
def _entry_points(_: Sequence[tuple[Path, int]]) -> Sequence[EntryPoint]:
    """Return the entry points of task packages, listed again if a folder on the path changes."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name)


def task_files(plugin: str) -> list[Path]:
    """Return the task files of a folder, of one file, or of an installed plug-in.

    Args:
        plugin: Path of a folder or a task file, or a name, see `registers.entry_points_of`.

    Raises:
        InputError: If there is no such folder or plug-in, or a folder has no task files.
    """
    if Path(plugin).exists():
        return _own_files(Path(plugin))
    points = [each for each in entry_points_of(plugin) if each.group == ENTRY_POINT_GROUP]
    return [file for each in points for file in _files_of_module(each.value)]


def _add_tasks(tasks: Mapping[str, TaskSpec], files: Sequence[Path]) -> dict[str, TaskSpec]:
    """Return a copy of `tasks` extended with the tasks in `files`.

    Raises:
        InputError: If a file is invalid, or two tasks share a name.
    """
    added = dict(tasks)
    for spec in map(read_task, files):
        check_names(spec, added)
        added[spec.name] = spec
    return added


def check_names(spec: TaskSpec, tasks: Mapping[str, TaskSpec]) -> None:
    """Raise InputError if one of `tasks` already has the name of a task, here or in mteb."""
    for other in tasks.values():
        if spec.name == other.name:
            key, name = "name", spec.name
        elif spec.result_name == other.result_name:
            key, name = "mteb_name", spec.result_name
        else:
            continue
        raise InputError(
            f"{spec.file}: the task {other.name!r} ({other.result_name}) in {other.file} "
            f"already has the {key} {name!r}; choose another `{key}`"
        )


def load_suites() -> dict[str, tuple[str, ...]]:
    """Return the task names of each suite."""
    suites = read_toml(shipped_folder() / "suites.toml")
    return {name: tuple(tasks) for name, tasks in suites.items()}


def choose_tasks(
    known: Mapping[str, TaskSpec], *, names: Sequence[str] = (), suite: str | None = None
) -> list[TaskSpec]:
    """Select tasks by suite and by name.

    Args:
        known: All tasks, keyed by name.
        names: Names of tasks (`sst2`), their names in mteb (`SST2PolarityRetrieval`), or data sets
            of mteb (`mteb:NAME`, see `named_tasks`).
        suite: Name of a suite.

    Returns:
        The tasks of the suite, then the named tasks, without duplicates.

    Raises:
        InputError: If a task or the suite is unknown. The message lists the packages whose tasks
            are skipped, and suggests similar names.
    """
    chosen: dict[str, TaskSpec] = {}
    if suite is not None:
        suites = load_suites()
        check_known(suite, suites, f"unknown suite {suite!r}")
        names = [*suites[suite], *names]
    by_result_name = {spec.result_name: spec for spec in known.values()}
    for name in names:
        if name.startswith(MTEB_PREFIXES):
            for named in named_tasks(name):
                check_names(named, known)
                chosen[named.name] = named
            continue
        spec = known.get(name) or by_result_name.get(name)
        if spec is None:
            similar = difflib.get_close_matches(name, by_result_name, n=1)
            near = _mteb_name(name) or nearest(name, [*known, *similar])
            _, left_out = _installed()  # The unknown task may belong to a skipped package.
            if left_out:
                near = f"; {'; '.join(left_out)}; otherwise: {near.removeprefix('; ')}"
            raise InputError(f"unknown task {name!r}{near}; `task_dir` adds your own task files")
        chosen[spec.name] = spec
    return list(chosen.values())


def _mteb_name(name: str) -> str:
    """Return a suggestion if an unknown name is that of a task of mteb; '' otherwise."""
    if name == name.lower():  # Names in mteb have capitals, and to import mteb takes seconds.
        return ""
    is_known = name.partition("[")[0] in classification_sets()
    return f"; did you mean 'mteb:{name}'?" if is_known else ""


def choose_task(known: Mapping[str, TaskSpec], name: str) -> TaskSpec:
    """Select one task by name, as `choose_tasks` does.

    Raises:
        InputError: If the task is unknown, or is a task of mteb with several subsets.
    """
    spec, *more = choose_tasks(known, names=[name])
    if more:
        names = ", ".join(each.name for each in (spec, *more))
        raise InputError(f"the task {name!r} has {1 + len(more)} subsets; choose one: {names}")
    return spec


def read_task(path: str | Path) -> TaskSpec:
    """Read and validate one task file.

    Raises:
        InputError: If the file cannot be read, is not TOML, or is not a valid task. The message
            names the file.
    """
    path = Path(path)
    values = read_toml(path)
    kind = values.get("kind")
    if kind not in [*KINDS]:  # a list, because the kind may be unhashable
        problem = "'kind' is missing" if kind is None else f"unknown kind {kind!r}"
        raise InputError(f"{path}: {problem}{nearest(str(kind), KINDS)}")
    with reworded(f"{path}: "):
        return validated(KINDS[str(kind)], {"file": path} | values)


def shipped_folder() -> Path:
    """Return the folder with this project's task files.

    In an installed wheel, the folder is inside the package. In a checkout, it is next to the
    package.
    """
    package = Path(__file__).parents[1]
    installed = package / "_tasks"
    return installed if installed.is_dir() else package.parent / "tasks"


def _own_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InputError(f"the task folder {folder} does not exist or is not a folder")
    return _task_files([folder], f"the task folder {folder}")


def _files_of_module(name: str) -> list[Path]:
    top, *inner = name.split(".")
    module = find_spec(top)  # For a nested package, `find_spec` would import the parent packages.
    locations = (module.submodule_search_locations or []) if module else []
    folders = [folder for place in locations if (folder := Path(place, *inner)).is_dir()]
    if not folders:
        raise InputError(f"the entry point names {name!r}, which is no importable package")
    return _task_files(folders, f"the entry point names {name!r}, a package that")


def _task_files(folders: Sequence[Path], where: str) -> list[Path]:
    files = sorted(file for folder in folders for file in folder.glob("*.toml"))
    if not files:
        raise InputError(f"{where} contains no .toml files")
    return files
