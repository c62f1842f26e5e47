"""docs/tasks.md and its JSON schema are what the models of task files say."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from polarity_bench.kinds import KINDS, read_task, shipped_folder
from polarity_bench.kinds.schema import task_schema

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tasks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def make_tasks() -> Any:
    spec = importlib.util.spec_from_file_location("make_tasks", DOCS / "make_tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_schema_are_made_from_the_models(make_tasks: Any) -> None:
    assert make_tasks.made(PAGE) == PAGE, "python docs/make_tasks.py"
    assert make_tasks.schema() == (DOCS / "task.schema.json").read_text(encoding="utf-8")


def test_a_table_without_a_place_on_the_page_is_noticed(make_tasks: Any) -> None:
    with pytest.raises(ValueError, match=r"tasks\.md has no place for HubRef"):
        make_tasks.made(PAGE.replace("<!-- HubRef -->", ""))


def test_every_key_is_explained() -> None:
    for name, table in task_schema()["$defs"].items():
        for key, what in table["properties"].items():
            assert what.get("description", "").endswith((".", "...")), f"{name}.{key}"
            assert f"| `{key}` |" in PAGE


def test_the_example_is_a_task_file(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, flags=re.M | re.S)
    (tmp_path / "reviews.toml").write_text(text)
    assert read_task(tmp_path / "reviews.toml").name == "reviews"


@pytest.mark.parametrize("file", sorted(shipped_folder().glob("*/*.toml")), ids=lambda f: f.stem)
def test_every_shipped_task_is_what_the_schema_says(file: Path) -> None:
    values = tomllib.loads(file.read_text(encoding="utf-8"))
    schema = task_schema()
    ((name, root),) = [
        (kind.__name__, schema["$defs"][kind.__name__])
        for kind in KINDS.values()
        if schema["$defs"][kind.__name__]["properties"]["kind"]["const"] == values["kind"]
    ]
    assert {"$ref": f"#/$defs/{name}"} in schema["oneOf"]
    _check(values, root, schema["$defs"])


def _check(value: Any, said: dict[str, Any], tables: dict[str, Any]) -> None:
    """Check a value by the few words of JSON schema that ours uses."""
    if "$ref" in said:
        said = tables[said["$ref"].rsplit("/", 1)[1]]
    types: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "boolean": bool,
    }
    assert type(value) is types[said["type"]]
    assert value in said.get("enum", [value])
    if said["type"] == "string":
        assert re.search(said.get("pattern", ""), value)
    if said["type"] == "object":
        known, others = said.get("properties", {}), said["additionalProperties"]
        assert set(said.get("required", [])) <= set(value)
        for key, inner in value.items():
            assert key in known or others, key
            _check(inner, known.get(key, others), tables)


def test_the_schema_refuses_a_misspelt_key() -> None:
    schema = task_schema()
    with pytest.raises(AssertionError, match="titel"):
        _check({"titel": "x"}, schema["$defs"]["FileRef"], schema["$defs"])
    assert "null" not in json.dumps(schema)
