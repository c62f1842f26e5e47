"""Write the tables of tasks.md, and task.schema.json, from the models of task files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.tasks.schema import task_schema

HERE = Path(__file__).parent


def made(page: str) -> str:
    """Return the page with its tables made anew: each stands between comments that name it."""
    tables: dict[str, Any] = task_schema()["$defs"]
    of_kinds = [tables[kind.__name__] for kind in KINDS.values()]
    shared = set.intersection(*(set(table["properties"]) for table in of_kinds))
    head = of_kinds[0]
    texts = {"head": _table(head, [key for key in head["properties"] if key in shared])}
    for name, table in tables.items():
        own = [key for key in table["properties"] if table not in of_kinds or key not in shared]
        texts[name] = _table(table, own)

    def filled(block: re.Match[str]) -> str:
        return f"<!-- {block[1]} -->\n{texts.pop(block[1])}<!-- /{block[1]} -->"

    page = re.sub(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", filled, page, flags=re.S)
    if texts:
        raise ValueError(f"tasks.md has no place for {', '.join(texts)}")
    return page


def schema() -> str:
    """Return the text of the schema's file."""
    return json.dumps(task_schema(), indent=2, ensure_ascii=False) + "\n"


def _table(table: dict[str, Any], keys: list[str]) -> str:
    lines = ["| key | what it takes | by default | what it is |", "|:--|:--|:--|:--|"]
    for key in keys:
        what = table["properties"][key]
        default = (
            f"`{json.dumps(what['default'])}`" if what.get("default") not in (None, "") else ""
        )
        default = "**needed**" if key in table.get("required", []) else default
        lines.append(f"| `{key}` | {_takes(key, what)} | {default} | {what['description']} |")
    return "".join(f"{line}\n" for line in lines)


def _takes(key: str, what: dict[str, Any]) -> str:
    if key == "kind":
        return ", ".join(f"`{name}`" for name in KINDS)
    if "enum" in what:
        return ", ".join(f"`{value}`" for value in what["enum"])
    if "$ref" in what:
        return "a table"
    if what["type"] == "object":
        inner = what["additionalProperties"]
        return "tables" if "$ref" in inner else f"a table of {inner['type']}s"
    return {
        "array": "a list of strings",
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "string": "a string",
    }[what["type"]]


if __name__ == "__main__":
    page = HERE / "tasks.md"
    page.write_text(made(page.read_text(encoding="utf-8")), encoding="utf-8")
    (HERE / "task.schema.json").write_text(schema(), encoding="utf-8")
