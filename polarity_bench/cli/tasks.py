"""`polarity-bench tasks`: list tasks, show task files, and write task files for your own data."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from polarity_bench.cli.inputs import split_names
from polarity_bench.cli.options import Commands, DataFlags, Suite, TaskDir, TaskFlags
from polarity_bench.cli.output import AsJson, OutputFlags, print_json, remark
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from polarity_bench.tasks.types.base import TaskSpec
    from polarity_bench.tasks.types.polarity.task import PolaritySpec

tasks_app = Commands(
    name="tasks",
    help="List tasks, show a task, or write a new task file.",
    invoke_without_command=True,
)


@tasks_app.callback()
def list_tasks(
    *,
    context: typer.Context,
    suite: Suite = None,
    match: Annotated[
        str | None, "List only tasks whose name contains this text.", "--filter", "-f"
    ] = None,
    from_mteb: Annotated[
        str | None,
        "List the classification tasks of mteb with these words in their name, description, "
        "domains, subtypes or languages (deu), such as 'sentiment deu'.",
    ] = None,
    task_dir: TaskDir = None,
    out: OutputFlags,
) -> None:
    """List the tasks: name, kind, labels, name in mteb and title.

    A suite of mteb's data sets is listed by languages, numbers of queries and sources, and licence.
    With `--from-mteb`, list classification tasks of mteb by name, languages, numbers of sources
    and queries, and licence. Each can be given to `--tasks`.
    """
    if context.invoked_subcommand:
        context.obj = {"task_dir": task_dir, "as_json": out.as_json}
        return
    from polarity_bench.render.markdown import table
    from polarity_bench.tasks.mteb_names import describe_set, find_sets

    if from_mteb is not None:
        if not (found := find_sets(from_mteb)):
            raise InputError(
                f"`from_mteb`: mteb has no classification task with {from_mteb!r}; try fewer "
                "words, or the code of a language, such as deu"
            )
        _show_mteb_sets(found, out, from_mteb)
        return
    chosen = TaskFlags(suite=suite).choose(task_dir)
    chosen = [spec for spec in chosen if match is None or match.lower() in spec.name.lower()]
    if chosen and all(spec.is_named for spec in chosen):
        sets = [_describe(spec) | describe_set(cast("PolaritySpec", spec)) for spec in chosen]
        _show_mteb_sets(sets, out)
        return
    heads: list[tuple[str, list[str]]] = [
        ("task", [spec.name for spec in chosen]),
        ("kind", [spec.kind for spec in chosen]),
        ("labels", [", ".join(_labels(spec)) or "-" for spec in chosen]),
        ("in mteb", [spec.result_name for spec in chosen]),
        ("title", [spec.title for spec in chosen]),
    ]
    out.show(lambda: [_describe(spec) for spec in chosen], lambda: table(heads, width=out.width))


def _show_mteb_sets(rows: list[dict[str, Any]], out: OutputFlags, words: str = "") -> None:
    from polarity_bench.render.markdown import table

    heads: list[tuple[str, list[str]]] = [
        ("task", [each["name"] for each in rows]),
        ("languages", [_some_of(each["languages"], words) for each in rows]),
        ("queries", [_number(each["queries"]) for each in rows]),
        ("licence", [each["licence"] for each in rows]),
        ("texts must not be published", [each["restriction"] or "-" for each in rows]),
        ("sources", [_number(each["sources"]) for each in rows]),
        ("newer", [each["superseded_by"] or "-" for each in rows]),
    ]
    out.show(lambda: rows, lambda: table(heads, width=out.width, n_kept=1))


def _number(n: int | None) -> str:
    return "-" if n is None else f"{n:,}"


def _some_of(languages: list[str], words: str) -> str:
    """Return up to three languages, or two and the number of others, those of the search first."""
    asked = {*words.casefold().split()}
    codes = {each: {each.casefold(), *each.casefold().split("-")} for each in languages}
    found = sorted(languages, key=lambda each: codes[each].isdisjoint(asked))
    more = f" and {len(found) - 2} more" if len(found) > 3 else ""
    return ", ".join(found[:2] if more else found) + more or "-"


@tasks_app.command("show")
def show_task(
    context: typer.Context,
    name: Annotated[str, "Name of the task.", "NAME"],
    task_dir: TaskDir = None,
    as_json: AsJson = False,
) -> None:
    """Print the TOML file of a task; for a task of mteb, a file to start from."""
    before: dict[str, Any] = context.obj or {}  # options before `show`, from `list_tasks`
    spec = DataFlags(task_dir=task_dir or before.get("task_dir")).task(name)
    about = f"# {spec.file}\n# digest {spec.digest}, in mteb: {spec.result_name}\n\n"
    _print_task(spec, about, as_json or before.get("as_json", False))


@tasks_app.command("new")
def make_task(
    files: Annotated[
        list[str],
        "File, folder or archive of labelled texts, or data set on the hub (hf:NAME[CONFIG]); or "
        "two: the sources and the queries.",
        "FILE...",
    ],
    task_name: Annotated[
        str | None, "Name of the task [default: from the file or folder].", "--name"
    ] = None,
    text_column: Annotated[
        str | None, "Column with the texts [default: detected].", "--text"
    ] = None,
    label_column: Annotated[
        str | None, "Column with the labels [default: detected].", "--label"
    ] = None,
    columns: Annotated[
        str | None,
        "Column names of a file without a header line, separated by commas [default: detected].",
    ] = None,
    labels: Annotated[
        list[str] | None,
        "Name of a class and its labels in the data: negative=1,2 positive=4..5. Rows with other "
        "labels are left out [default: all labels].",
    ] = None,
    drop_empty: Annotated[bool, "Leave out rows with an empty text or label."] = False,
    as_json: AsJson = False,
) -> None:
    """Write a task file for your own labelled texts, and print it.

    The task file is written to the folder of the data. For each query, an encoder retrieves the
    nearest sources. A single file without a split column is divided at random into sources
    and queries. Three queries are printed with their labels.
    """
    from polarity_bench.tasks.scaffold import new_task

    if labels:  # The words after `--labels NAME=VALUES` are further classes.
        labels += [word for word in files if "=" in word and not Path(word).exists()]
        files = [word for word in files if word not in labels]
    if wrong := [each for each in labels or () if "=" not in each]:
        raise InputError(f"`labels` needs NAME=VALUES, such as negative=1,2, got {wrong[0]!r}")
    classes = [each.split("=", 1) for each in labels or ()]
    task = new_task(
        files,
        task_name=task_name,
        text_column=text_column,
        label_column=label_column,
        columns=split_names(columns),
        labels=[(name, value) for name, values in classes for value in values.split(",")],
        drop_empty=drop_empty,
    )
    _print_task(task.spec, "", as_json)
    remark(
        f"wrote {task.spec.file}; next: polarity-bench run --tasks {task.spec.name} --task-dir "
        f"{shlex.quote(str(task.spec.file))}"
    )
    for item in task.items[:: -(-len(task.items) // 3)]:
        text = textwrap.shorten(item["text"], 60, placeholder="…")
        remark(f"is this right? {text!r} has the label {item['label']!r}")


@tasks_app.command("schema")
def show_schema(as_json: AsJson = True) -> None:  # noqa: ARG001  the output is always JSON
    """Print the JSON schema of task files, which editors can use for checks and completion."""
    from polarity_bench.tasks.json_schema import task_schema

    print_json(task_schema())


def _print_task(spec: TaskSpec, about: str, as_json: bool) -> None:
    if as_json:
        print_json(_describe(spec) | {"spec": spec.model_dump(mode="json")})
        return
    from polarity_bench.tasks.mteb_names import task_file

    if spec.is_named:
        print(about + task_file(cast("PolaritySpec", spec)), end="")
    else:
        print(about + spec.file.read_text(encoding="utf-8"), end="")


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
