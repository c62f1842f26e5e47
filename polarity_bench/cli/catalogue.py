"""`polarity-bench tasks`, `data` and `cache`: what can be run, on what, and what is kept of it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polarity_bench.embedding.store import StoredEncoder
    from polarity_bench.kinds.task import TaskSpec

tasks_app = typer.Typer(
    help="List the tasks, show one, or write one for data of your own.", invoke_without_command=True
)
data_app = typer.Typer(help="See where the data of the tasks is, or download it.")
cache_app = typer.Typer(
    help="Show the store of embeddings, or make it smaller.", invoke_without_command=True
)
_MAX_DAYS = 100_000.0  # a date before our era is none


@tasks_app.callback()
def list_tasks(
    context: typer.Context,
    suite: shared.Suite = None,
    match: Annotated[
        str | None, typer.Option("--filter", "-f", help="Only tasks whose name holds this.")
    ] = None,
    task_dir: shared.TaskDir = None,
    wide: shared.Wide = False,
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
    shared.print_tables(table(heads, width=shared.width(wide)))


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


@tasks_app.command("new")
def make_task(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Labelled texts; of two, sources and queries."),
    ],
    task_name: Annotated[
        str | None, typer.Option("--name", help="Its name [default: that of the file or folder].")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text", help="Column of the texts [default: guessed].")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option("--label", help="Column of the labels [default: guessed].")
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Write a task file for data of your own, beside it; what is guessed is shown."""
    from polarity_bench.kinds import read_task
    from polarity_bench.kinds.new import Columns, new_task
    from polarity_bench.kinds.task import Settings

    columns = Columns(text_column, label_column)
    file = new_task(files, task_name=task_name, columns=columns)
    spec = read_task(file)
    if as_json:
        shared.print_json(_describe(spec) | {"spec": spec.model_dump(mode="json")})
    else:
        print(file.read_text(encoding="utf-8"), end="")
    shared.remark(
        f"wrote {file}; next: polarity-bench run --tasks {spec.name} --task-dir "
        f"{shlex.quote(str(file))}"
    )
    spec.load(shared.data_access(None), Settings())


@tasks_app.command("schema")
def show_schema(as_json: shared.AsJson = True) -> None:  # noqa: ARG001  it is nothing else
    """Print the JSON schema of task files, for editors."""
    from polarity_bench.kinds.schema import task_schema

    shared.print_json(task_schema())


@data_app.command("status")
def data_status(
    tasks: shared.Tasks = None,
    suite: shared.Suite = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    wide: shared.Wide = False,
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
    columns = [(title, [row[title] for row in rows]) for title in titles]
    shared.print_tables(table(columns, width=shared.width(wide)))


@data_app.command("fetch")
def data_fetch(
    tasks: shared.Tasks = None,
    suite: shared.Suite = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    offline: shared.Offline = False,
    as_json: shared.AsJson = False,
) -> None:
    """Bring the data of tasks to this machine, and check every count."""
    from polarity_bench.kinds.task import Settings

    access = shared.data_access(data_dir, offline)
    chosen = shared.tasks_of(tasks, suite, task_dir)
    found: dict[str, Mapping[str, int]] = {}
    failures: dict[str, str] = {}
    with shared.progress_bar("fetching", len(chosen)) as advance:
        for spec in chosen:
            try:
                counts = found[spec.name] = spec.load(access, Settings()).counts
            except InputError as error:
                failures[spec.name] = shared.in_flags(str(error))
                shared.remark(f"error: {failures[spec.name]}")
            else:
                if not as_json:
                    shown = ", ".join(f"{n:,} {name}" for name, n in counts.items())
                    print(f"{spec.name}: {shown}")
            advance(1)
    if as_json:
        shared.print_json({"tasks": found, "failures": failures})
    raise typer.Exit(2 if failures else 0)


@cache_app.callback()
def show_cache(
    context: typer.Context, wide: shared.Wide = False, as_json: shared.AsJson = False
) -> None:
    """Show what the store of embeddings holds."""
    if context.invoked_subcommand:
        return
    from polarity_bench.boards.markdown import MISSING, table
    from polarity_bench.embedding.store import EmbeddingStore

    with EmbeddingStore() as store:
        stored = store.usage()
    rows = [_describe_stored(item) for item in stored]
    if as_json:
        shared.print_json({"folder": str(store.folder), "encoders": rows})
        return
    print(f"{store.folder}: {sum(item.n_bytes for item in stored) / 1e6:,.1f} MB\n")
    titles = ("encoder", "digest", "texts", "megabytes", "last used")
    cells = ([MISSING if row[t] is None else str(row[t]) for row in rows] for t in titles)
    columns = list(zip(titles, cells, strict=True))
    shared.print_tables(table(columns, width=shared.width(wide)))


@cache_app.command("prune")
def prune_cache(
    older_than: Annotated[
        float | None, typer.Option("--older-than", help="Not used for so many days.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Beginning of the digest of one encoder.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Remove embeddings; they are made again when they are needed."""
    if [older_than is not None, encoder is not None, everything].count(True) != 1:
        raise InputError("say one of --older-than DAYS, --encoder DIGEST and --all")
    if older_than is not None and not 0 <= older_than <= _MAX_DAYS:
        raise InputError(f"--older-than must be a number of days, at least 0, got {older_than:g}")
    from polarity_bench.embedding.store import EmbeddingStore

    def choose(stored: tuple[StoredEncoder, ...]) -> tuple[StoredEncoder, ...]:
        if older_than is not None:
            oldest = datetime.now(UTC) - timedelta(days=older_than)
            return tuple(item for item in stored if item.last_used < oldest)
        return stored if encoder is None else _beginning_with(encoder, stored)

    with EmbeddingStore() as store:
        removed = store.prune(choose)
    if as_json:
        shared.print_json({"removed": [_describe_stored(item) for item in removed]})
        return
    freed = sum(item.n_bytes for item in removed) / 1e6
    encoders = "encoder" if len(removed) == 1 else "encoders"
    print(f"removed the embeddings of {len(removed)} {encoders}, {freed:,.1f} MB")


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


def _beginning_with(digest: str, stored: tuple[StoredEncoder, ...]) -> tuple[StoredEncoder, ...]:
    found = tuple(item for item in stored if item.digest.startswith(digest))
    if not digest or len(found) != 1:  # an unset shell variable must not empty the store
        there = ", ".join(item.digest for item in stored) or "none"
        raise InputError(
            f"--encoder {digest}: the beginning of one encoder's digest is wanted, {len(found)} "
            f"begin so; there are: {there}"
        )
    return found


def _describe_stored(item: StoredEncoder) -> dict[str, Any]:
    return {
        "encoder": item.name or "(unreadable)",
        "digest": item.digest,
        "texts": item.n_texts,
        "megabytes": round(item.n_bytes / 1e6, 1),
        "last used": item.last_used.isoformat(timespec="seconds"),
    }
