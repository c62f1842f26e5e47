"""`polarity-bench tasks` and `polarity-bench data`: what can be run, and on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.kinds.task import TaskSpec

tasks_app = typer.Typer(help="List the tasks, or show one.", invoke_without_command=True)
data_app = typer.Typer(help="See where the data of the tasks is, or download it.")


@tasks_app.callback()
def list_tasks(
    context: typer.Context,
    suite: shared.Suite = None,
    match: Annotated[
        str | None, typer.Option("--filter", "-f", help="Only tasks whose name holds this.")
    ] = None,
    task_dir: shared.TaskDir = None,
    as_json: shared.AsJson = False,
) -> None:
    """List the tasks."""
    if context.invoked_subcommand:
        context.obj = {"task_dir": task_dir, "as_json": as_json}
        return
    from polarity_bench.boards.markdown import table

    chosen = shared.tasks_of(None, suite, task_dir)
    chosen = [spec for spec in chosen if match is None or match.lower() in spec.name]
    if as_json:
        shared.print_json([_describe(spec) for spec in chosen])
        return
    heads: list[tuple[str, list[str]]] = [
        ("task", [spec.name for spec in chosen]),
        ("kind", [spec.kind for spec in chosen]),
        ("labels", [", ".join(_labels(spec)) or "-" for spec in chosen]),
        ("in mteb", [spec.result_name for spec in chosen]),
        ("title", [spec.title for spec in chosen]),
    ]
    print(table(heads))


@tasks_app.command("show")
def show_task(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the task.")],
    task_dir: shared.TaskDir = None,
    as_json: shared.AsJson = False,
) -> None:
    """Show all that a task declares."""
    from polarity_bench.kinds import choose_tasks, load_tasks

    before: dict[str, Any] = context.obj or {}  # the options given before the subcommand
    (spec,) = choose_tasks(load_tasks(task_dir or before.get("task_dir")), names=[name])
    if as_json or before.get("as_json"):
        shared.print_json(_describe(spec) | {"spec": spec.model_dump(mode="json")})
        return
    print(f"# {spec.file}\n# digest {spec.digest}, in mteb: {spec.result_name}\n")
    print(spec.file.read_text(encoding="utf-8"), end="")


@data_app.command("status")
def data_status(
    tasks: shared.Tasks = None,
    suite: shared.Suite = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    as_json: shared.AsJson = False,
) -> None:
    """Say for every file where it is, or where it would come from."""
    from polarity_bench.boards.markdown import table
    from polarity_bench.data.sources import file_status

    access = shared.data_access(data_dir)
    chosen = shared.tasks_of(tasks, suite, task_dir)
    rows = [row for spec in chosen for row in file_status(spec, access)]
    if as_json:
        shared.print_json(rows)
        return
    titles = ("task", "file", "status", "place")
    print(table([(title, [row[title] for row in rows]) for title in titles]))


@data_app.command("fetch")
def data_fetch(
    tasks: shared.Tasks = None,
    suite: shared.Suite = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    offline: shared.Offline = False,
) -> None:
    """Bring the data of tasks to this machine, and check every count."""
    from polarity_bench.kinds.task import Settings

    access = shared.data_access(data_dir, offline)
    chosen = shared.tasks_of(tasks, suite, task_dir)
    failures = []
    with shared.progress_bar("fetching", len(chosen)) as advance:
        for spec in chosen:
            try:
                counts = spec.load(access, Settings()).counts
            except InputError as error:
                failures.append(str(error))
            else:
                print(f"{spec.name}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
            advance(1)
    if failures:
        raise InputError("\nerror: ".join(failures))


def _describe(spec: TaskSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "title": spec.title,
        "mteb_name": spec.result_name,
        "labels": _labels(spec),
        "main_score": str(spec.main_score),
        "version": spec.version,
        "digest": spec.digest,
        "file": str(spec.file),
    }


def _labels(spec: TaskSpec) -> list[str]:
    labels = getattr(spec, "labels", ())
    return list(labels.values() if isinstance(labels, dict) else labels)
