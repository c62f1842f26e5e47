"""Generated pages, and the JSON schema of task files, are what the code says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from standins.programs import load_program

from polarity_bench.data.specs import FileRef
from polarity_bench.tasks.catalogue import KINDS, read_task, shipped_folder
from polarity_bench.tasks.json_schema import task_schema

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tasks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def make_pages() -> Any:
    return load_program(DOCS / "make_pages.py")


def test_generated_pages_are_current(make_pages: Any) -> None:
    pages = make_pages.pages()
    assert {"tasks.md", "task.schema.json", "commands.md", "recipes.md"} < pages.keys()
    stale = [n for n, text in pages.items() if text != (DOCS / n).read_text(encoding="utf-8")]
    assert not stale, "python docs/make_pages.py"


def test_a_table_without_a_place_on_the_page_is_noticed(make_pages: Any) -> None:
    with pytest.raises(ValueError, match=r"tasks\.md has no place for HubRef"):
        make_pages.task_page(PAGE.replace("<!-- HubRef -->", ""))


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


_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
_TYPES |= {"number": float}


def _fits(value: Any, said: dict[str, Any], tables: dict[str, Any]) -> bool:
    try:
        _check(value, said, tables)
    except AssertionError:
        return False
    return True


def _check(value: Any, said: dict[str, Any], tables: dict[str, Any]) -> None:
    """Check a value by the few words of JSON schema that ours uses."""
    if "$ref" in said:
        said = tables[said["$ref"].rsplit("/", 1)[1]]
    words = dict(said)
    for remark in ("description", "default"):
        words.pop(remark, None)
    assert type(value) is _TYPES.get(words.pop("type", ""), type(value))
    assert value in words.pop("enum", [value])
    assert value == words.pop("const", value)
    if isinstance(value, str):
        assert re.search(words.pop("pattern", ""), value)
        assert words.pop("minLength", 0) <= len(value) <= words.pop("maxLength", len(value))
        if words.pop("format", "") == "date":
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", value)
    if isinstance(value, int | float):
        assert words.pop("exclusiveMinimum", value - 1) < value >= words.pop("minimum", value)
        assert words.pop("exclusiveMaximum", value + 1) > value <= words.pop("maximum", value)
    if isinstance(value, list):
        assert words.pop("minItems", 0) <= len(value) <= words.pop("maxItems", len(value))
        assert not words.pop("uniqueItems", False) or len(set(value)) == len(value)
        items = words.pop("items", {})
        for inner, said_of_it in zip_longest(value, words.pop("prefixItems", []), fillvalue=items):
            _check(inner, said_of_it, tables)
    if isinstance(value, dict):
        known, others = words.pop("properties", {}), words.pop("additionalProperties", {})
        names = words.pop("propertyNames", {})
        assert set(words.pop("required", [])) <= set(value)
        assert len(value) >= words.pop("minProperties", 0)
        for key, needed in words.pop("dependentRequired", {}).items():
            assert key not in value or set(needed) <= set(value)
        for key, inner in value.items():
            assert key in known or others is not False, key
            _check(key, names, tables)
            _check(inner, known.get(key, others), tables)
    for every in words.pop("allOf", []):
        _check(value, every, tables)
    for word, n_wanted in (("anyOf", {1, 2}), ("oneOf", {1})):
        if word in words:
            assert sum(_fits(value, one, tables) for one in words.pop(word)) in n_wanted
    assert "not" not in words or not _fits(value, words["not"], tables)
    if "if" in words and _fits(value, words["if"], tables):
        _check(value, words["then"], tables)
    assert not set(words) - {"not", "if", "then"}, "a word that this does not know"


Edit = Callable[[dict[str, Any]], object]


def leading_to(path: str) -> Edit:
    return lambda v: v["splits"].update(query={"path": path})


def sharing(share: object) -> Edit:
    return lambda v: v["splits"]["query"]["cut"].update(share=share)


BAD: dict[str, tuple[str, Edit]] = {
    "no query split": ("polarity/sst2", lambda v: v["splits"].pop("query")),
    "a third split": ("polarity/sst2", lambda v: v["splits"].update(dev=v["splits"]["query"])),
    "no source of a split": ("polarity/sst2", lambda v: v["splits"].update(query={"rows": 3})),
    "a url without its checksum": (
        "polarity/sst2",
        lambda v: v["splits"].update(query={"path": "x.csv", "url": "https://x.org/y"}),
    ),
    "a file without a checksum": (
        "probing/tense",
        lambda v: v["files"].update(all={"path": "x.txt", "rows": 3}),
    ),
    "a version as text": ("polarity/sst2", lambda v: v.update(version="1")),
    **{
        f"a share of {share!r}": (
            "polarity/sarcastic-headlines-unseen",
            sharing(share),
        )
        for share in (0.0, 1.0, True, "0.5")
    },
    "a cut without its seed": (
        "polarity/sarcastic-headlines-unseen",
        lambda v: v["splits"]["query"]["cut"].pop("seed"),
    ),
    "true for a number": ("polarity/sst2", lambda v: v.update(protocol={"k": True})),
    "text for true": ("polarity/sst2", lambda v: v.update(format={"quoted": "yes"})),
    "counts as text": (
        "polarity/sst2",
        lambda v: v["splits"]["query"].update(label_rows={"positive": "3"}),
    ),
    **{
        f"the path {path!r}": ("polarity/sst2", leading_to(path))
        for path in ("/x.csv", "../x.csv", "a/../x.csv", "a/..", "..", "a\\x.csv", "c:x", ".", "")
    },
    "one label": ("polarity/sst2", lambda v: v.update(labels={"0": "bad"})),
    "pairs without groups": ("polarity/contrast", lambda v: v["protocol"].pop("groups")),
    "pairs of no groups": ("polarity/contrast", lambda v: v["protocol"].update(groups=[])),
    "a group called as a metric": (
        "polarity/contrast",
        lambda v: v["protocol"].update(groups=["joint"]),
    ),
    "another reader's scheme": ("transfer/cr", lambda v: v.update(scheme="kfold")),
    "another reader's files": ("transfer/cr", lambda v: v.update(reader="trec", scheme="kfold")),
    "too few labels": ("transfer/sst5", lambda v: v["labels"].pop()),
    "a label twice": ("transfer/trec", lambda v: v.update(labels=["a"] * 6)),
    "no dev file": ("relatedness/sick-r", lambda v: v["files"].pop("dev")),
    "a fourth file": ("relatedness/sick-r", lambda v: v["files"].update(x=v["files"]["dev"])),
    "a subset called as a summary": ("sts/stsb", lambda v: v.update(subsets=["mean"])),
    "another kind's table": ("sts/stsb", lambda v: v.update(kind="polarity")),
}


@pytest.mark.parametrize("path", ["x.csv", "a/b/x.csv", "./x.csv", ".x", "..x", "a..", "a/...csv"])
def test_a_path_below_the_folder_is_taken_by_the_schema_as_by_the_models(path: str) -> None:
    tables = task_schema()["$defs"]
    _check({"path": path}, tables["FileRef"], tables)
    assert FileRef(path=path).path == path


@pytest.mark.parametrize("what", BAD)
def test_what_keys_may_not_be_together_is_refused_by_the_schema_as_by_the_models(what: str) -> None:
    name, edit = BAD[what]
    values = tomllib.loads((shipped_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    schema = task_schema()
    assert _fits(values, {"oneOf": schema["oneOf"]}, schema["$defs"])
    edit(values)
    assert not _fits(values, {"oneOf": schema["oneOf"]}, schema["$defs"])
    with pytest.raises(ValidationError):
        KINDS[values["kind"]].model_validate({"file": Path("x.toml")} | values)


def test_the_schema_refuses_a_misspelt_key() -> None:
    schema = task_schema()
    with pytest.raises(AssertionError, match="titel"):
        _check({"titel": "x"}, schema["$defs"]["FileRef"], schema["$defs"])
    assert "null" not in json.dumps(schema)
